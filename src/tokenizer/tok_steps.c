/* Lists of steps: reading and running them. See tok_steps.h. */
#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/tok_impl.h"
#include "tokenizer/tok_steps_impl.h"

#include <stdlib.h>
#include <string.h>

#define KEY_NORMALIZERS "mgpt.tokenizer.normalizers"
#define KEY_PRE_TOKENIZERS "mgpt.tokenizer.pre_tokenizers"
#define TEXT_MAX 1024 /* bytes of a text that is put in */

/* ---- reading --------------------------------------------------------------------------------- */

/* A list being read. */
struct steps_reader {
    const struct gguf *g;
    const struct gguf_kv *kv;
    const char *key;
    struct cursor c;
    uint64_t at; /* the string after the ones that were read */
    mgpt_error *err;
};

/* Returns the status in *err, for functions that set an error and return none. */
static int status_of(const mgpt_error *err)
{
    return err && err->status < 0 ? err->status : MGPT_EFILE;
}

static int refuse_step(const struct steps_reader *r, const char *what, struct gguf_str found)
{
    return err_set(r->err, MGPT_EFILE, r->kv->offset, "%s[%llu]: %s, found '%.*s'", r->key,
                   (unsigned long long)(r->at ? r->at - 1 : 0), what,
                   (int)(found.n < 40 ? found.n : 40), found.p);
}

static int is_valid_utf8(struct gguf_str s)
{
    return utf8_well_formed(s.p, s.n) == s.n;
}

static int next_string(struct steps_reader *r, struct gguf_str *s)
{
    if (r->at == r->kv->n)
        return err_set(r->err, MGPT_EFILE, r->kv->offset, "%s: ends inside a step", r->key);
    *s = gguf_next_string(&r->c);
    r->at++;
    if (r->c.failed || !is_valid_utf8(*s))
        return refuse_step(r, "expected UTF-8", (struct gguf_str){"", 0});
    return MGPT_OK;
}

/* The position of the string among n words, or -1. */
static int word_index(struct gguf_str s, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (gguf_str_is(s, words[i]))
            return (int)i;
    return -1;
}

static int read_word(struct steps_reader *r, const char *const *words, size_t n, unsigned *at)
{
    struct gguf_str s;
    int status = next_string(r, &s);
    int found = status < 0 ? -1 : word_index(s, words, n);
    if (status == MGPT_OK && found < 0)
        return refuse_step(r, "no such choice", s);
    *at = found < 0 ? 0 : (unsigned)found;
    return status;
}

static int read_step_text(struct steps_reader *r, struct step *step)
{
    int status = next_string(r, &step->text);
    if (status == MGPT_OK && step->text.n > TEXT_MAX)
        return refuse_step(r, "expected a shorter text", step->text);
    return status;
}

static int read_pattern(struct steps_reader *r, struct step *step)
{
    struct gguf_str s;
    int status = next_string(r, &s);
    if (status < 0)
        return status;
    step->regex = regex_open(s, r->err);
    return step->regex ? MGPT_OK : status_of(r->err);
}

static int read_cut(struct steps_reader *r, struct step *step)
{
    static const char *const cuts[] = {"removed", "isolated", "previous", "next", "contiguous"};
    struct gguf_str s;
    int status = next_string(r, &s);
    if (status < 0)
        return status;
    step->inverted = s.n > 4 && memcmp(s.p, "not ", 4) == 0;
    struct gguf_str how = {s.p + 4 * step->inverted, s.n - 4 * (size_t)step->inverted};
    int found = word_index(how, cuts, sizeof cuts / sizeof *cuts);
    if (found < 0)
        return refuse_step(r, "no such split", s);
    step->how = (unsigned)found;
    return read_pattern(r, step);
}

static int read_map_name(struct steps_reader *r, struct step *step)
{
    struct gguf_str s;
    int status = next_string(r, &s);
    if (status < 0)
        return status;
    step->map = char_map_open(r->g, s, r->err);
    return step->map ? MGPT_OK : status_of(r->err);
}

static int read_arguments(struct steps_reader *r, struct step *step)
{
    static const char *const times[] = {"always", "first"};
    static const char *const sides[] = {"", "left", "right", "both"};
    int status = MGPT_OK;
    switch (step->op) {
    case STEP_MAP:
    case STEP_DECOMPOSE:
        return read_map_name(r, step);
    case STEP_REPLACE:
    case STEP_SURROUND:
        status = read_pattern(r, step);
        return status < 0 ? status : read_step_text(r, step);
    case STEP_LEAD:
        status = read_word(r, times, 2, &step->how);
        return status < 0 ? status : read_step_text(r, step);
    case STEP_PREPEND:
        return read_step_text(r, step);
    case STEP_STRIP:
        return read_word(r, sides, 4, &step->how);
    case STEP_SPLIT:
        return read_cut(r, step);
    default:
        return MGPT_OK;
    }
}

static int read_step_list(struct step_list *list, const struct gguf *g, const char *key,
                          mgpt_error *err)
{
    static const char *const ops[] = {"map",      "decompose", "compose", "replace",
                                      "surround", "prepend",   "lead",    "strip",
                                      "bytes",    "split",     "charsmap"};
    _Static_assert(sizeof ops / sizeof *ops == N_STEP_OPS, "a name for each step");
    struct steps_reader r = {.g = g, .key = key, .err = err};
    int status = gguf_array(g, key, GGUF_STRING, &r.kv, err);
    if (status <= 0)
        return status;
    r.c = cursor_over(r.kv->value, r.kv->value_bytes);
    for (status = MGPT_OK; r.at < r.kv->n && status == MGPT_OK;) {
        unsigned op = 0;
        if (list->n == STEPS_MAX)
            return err_set(err, MGPT_EFILE, r.kv->offset, "%s: more than %d steps", key, STEPS_MAX);
        status = read_word(&r, ops, sizeof ops / sizeof *ops, &op);
        if (status < 0)
            return status;
        struct step *step = &list->steps[list->n++];
        step->op = (enum step_op)op;
        status = read_arguments(&r, step);
    }
    return status;
}

/* A normalizer sees the whole text, so "split" and "lead" are steps for pieces only. */
static int check_normalizers(const struct tok_steps *s, const struct gguf *g, mgpt_error *err)
{
    for (size_t i = 0; i < s->normalizers.n; i++)
        if (s->normalizers.steps[i].op == STEP_SPLIT || s->normalizers.steps[i].op == STEP_LEAD)
            return err_set(err, MGPT_EFILE, gguf_find(g, KEY_NORMALIZERS)->offset,
                           KEY_NORMALIZERS ": split and lead belong to " KEY_PRE_TOKENIZERS);
    return MGPT_OK;
}

static int has_step(const struct step_list *list, enum step_op op)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->steps[i].op == op)
            return 1;
    return 0;
}

static int open_tables(struct tok_steps *s, const struct gguf *g, mgpt_error *err)
{
    const struct step_list *a = &s->normalizers, *b = &s->pre_tokenizers;
    int composes = has_step(a, STEP_COMPOSE) || has_step(b, STEP_COMPOSE);
    int orders = composes || has_step(a, STEP_DECOMPOSE) || has_step(b, STEP_DECOMPOSE);
    if (orders)
        s->classes = char_map_open(g, (struct gguf_str){"classes", 7}, err);
    if (composes && s->classes)
        s->compositions = char_map_open(g, (struct gguf_str){"compositions", 12}, err);
    if ((orders && !s->classes) || (composes && !s->compositions))
        return status_of(err);
    if (!has_step(a, STEP_CHARSMAP) && !has_step(b, STEP_CHARSMAP))
        return MGPT_OK;
    int status = tok_charsmap_open(&s->charsmap, g, err);
    if (status == MGPT_OK && !tok_charsmap_by_grapheme(s->charsmap))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "the step charsmap needs tokenizer.ggml.precompiled_charsmap and "
                       "mgpt.tokenizer.graphemes");
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void close_list(struct step_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        regex_close(list->steps[i].regex);
        char_map_close(list->steps[i].map);
    }
}

void steps_close(struct tok_steps *s)
{
    if (!s)
        return;
    close_list(&s->normalizers);
    close_list(&s->pre_tokenizers);
    char_map_close(s->classes);
    char_map_close(s->compositions);
    tok_charsmap_close(s->charsmap);
    free(s);
}

int steps_open(struct tok_steps **steps, const struct gguf *g, mgpt_error *err)
{
    if (!gguf_find(g, KEY_NORMALIZERS) && !gguf_find(g, KEY_PRE_TOKENIZERS))
        return MGPT_OK;
    struct tok_steps *s = *steps = mem_new(1, sizeof *s);
    if (!s)
        return err_memory(err, "the steps of the tokenizer", sizeof *s);
    int status = read_step_list(&s->normalizers, g, KEY_NORMALIZERS, err);
    if (status >= 0)
        status = check_normalizers(s, g, err);
    if (status >= 0)
        status = read_step_list(&s->pre_tokenizers, g, KEY_PRE_TOKENIZERS, err);
    if (status >= 0)
        status = open_tables(s, g, err);
    return status;
}

/* ---- normalizing ----------------------------------------------------------------------------- */

/* Counts what a step produced, so that a file cannot make a short text grow without end. */
static int charge(uint64_t *limit, const char *out, mgpt_error *err)
{
    if (arr_len(out) > *limit)
        return err_set(err, MGPT_ETEXT, MGPT_NO_OFFSET, "the normalized text is too long");
    *limit -= arr_len(out);
    return MGPT_OK;
}

/* A copy with U+FFFD for each ill-formed byte. */
static int copy_valid(const char *p, size_t n, char **out)
{
    if (!arr_reserve(*out, n + 1))
        return 0;
    arr_set_len(*out, 0);
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t code;
        char utf8[4];
        length = utf8_next(p + i, n - i, &code);
        if (!arr_append(out, utf8, utf8_put(code, utf8)))
            return 0;
    }
    return 1;
}

int steps_normalize(const struct tok_steps *s, const char *p, size_t n, char **out, int *at_start,
                    uint64_t *limit, mgpt_error *err)
{
    char *next = NULL;
    int status =
        copy_valid(p, n, out) ? charge(limit, *out, err) : err_memory(err, "a normalized text", n);
    for (size_t i = 0; i < s->normalizers.n && status == MGPT_OK; i++) {
        status = step_apply(s, &s->normalizers.steps[i], *out, arr_len(*out), &next, at_start, err);
        if (status == MGPT_OK)
            status = charge(limit, next, err);
        char *swap = *out;
        *out = next;
        next = swap;
    }
    arr_free(next);
    return status;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* The state of the pre-tokenizers on one part of a text. */
struct steps_run {
    struct tok_call *c;
    const struct step_list *list;
    struct span_part *parts[STEPS_MAX]; /* of the split at each step */
    char *texts[STEPS_MAX];             /* of the other steps */
};

static int run_from(struct steps_run *r, size_t i, const char *p, size_t n, int first);

static int run_split(struct steps_run *r, size_t i, const char *p, size_t n, int first)
{
    const struct step *step = &r->list->steps[i];
    int status = regex_parts(step->regex, p, n, &r->parts[i], r->c->err);
    if (status < 0)
        return status;
    regex_cut_parts(r->parts[i], (enum regex_cut)step->how, step->inverted);
    for (size_t k = 0; k < arr_len(r->parts[i]) && status == MGPT_OK; k++) {
        struct span_part part = r->parts[i][k];
        if (!part.is_match && part.to > part.from)
            status =
                run_from(r, i + 1, p + part.from, part.to - part.from, first && part.from == 0);
    }
    return status;
}

static int begins_with(const char *p, size_t n, struct gguf_str text)
{
    return n >= text.n && memcmp(p, text.p, text.n) == 0;
}

/* Runs the steps from i on; depth: STEPS_MAX. Each step owns its buffers, for one piece at a
 * time. */
static int run_from(struct steps_run *r, size_t i, const char *p, size_t n, int first)
{
    struct tok_call *c = r->c;
    if (n == 0)
        return MGPT_OK;
    if (i == r->list->n)
        return c->t->kind->encode(c, p, n);
    const struct step *step = &r->list->steps[i];
    if (step->op == STEP_SPLIT)
        return run_split(r, i, p, n, first);
    if (step->op == STEP_LEAD && ((step->how && !first) || begins_with(p, n, step->text)))
        return run_from(r, i + 1, p, n, first);
    int status = step_apply(c->t->steps, step, p, n, &r->texts[i], &first, c->err);
    if (status == MGPT_OK)
        status = charge(&c->limit, r->texts[i], c->err);
    return status < 0 ? status : run_from(r, i + 1, r->texts[i], arr_len(r->texts[i]), first);
}

int steps_encode(struct tok_call *c, const char *p, size_t n, int first)
{
    struct steps_run r = {.c = c, .list = &c->t->steps->pre_tokenizers};
    int status = run_from(&r, 0, p, n, first);
    for (size_t i = 0; i < STEPS_MAX; i++) {
        arr_free(r.parts[i]);
        arr_free(r.texts[i]);
    }
    return status;
}
