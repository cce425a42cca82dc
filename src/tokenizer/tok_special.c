/* Special tokens: a text is searched for them first.
 *
 * User-defined ones always count, control and unknown ones only if the caller allows it. The
 * leftmost match wins, the longest on equal starts. Some remove the white space next to them. The
 * time for a text does not depend on their number and their texts (tok_match.h).
 */
#include "base/error.h"
#include "tokenizer/tok_impl.h"

#include <stdlib.h>
#include <string.h>

#define KEY_LEFT "mgpt.tokenizer.lstrip"
#define KEY_RIGHT "mgpt.tokenizer.rstrip"
#define KEY_LITERAL "mgpt.tokenizer.literal"
#define KEY_WORD "mgpt.tokenizer.single_word"
#define KEY_NORMALIZED "mgpt.tokenizer.normalized"

/* ---- texts ----------------------------------------------------------------------------------- */

static int is_special(const struct tok *t, const struct tok_entry *e)
{
    int is_found = e->type == TOK_CONTROL || e->type == TOK_UNKNOWN || e->marks & LITERAL ||
                   (e->type == TOK_USER && !t->user_pieces);
    return e->text.n > 0 && is_found;
}

/* A user-defined token of a SentencePiece file may have U+2581 for a space. */
static struct gguf_str special_text(const struct tok *t, const struct tok_entry *e)
{
    if (e->type == TOK_USER && t->kind->spaces)
        return (struct gguf_str){e->piece, e->n_piece};
    return e->text;
}

static uint8_t special_type(const struct tok_entry *e)
{
    return e->marks & LITERAL ? TOK_USER : e->type;
}

/* The special tokens whose mark NORMALIZED is `normalized`, into set. */
static int fill_set(struct tok *t, struct special_set *set, int normalized, mgpt_error *err)
{
    size_t n = 0, k = 0;
    for (size_t i = 0; i < t->n; i++)
        n += (size_t)is_special(t, &t->entries[i]);
    set->rows = mem_new(n, sizeof *set->rows);
    if (!set->rows)
        return err_memory(err, "the special tokens", n * sizeof *set->rows);
    for (size_t i = 0; i < t->n; i++)
        if (is_special(t, &t->entries[i]) && !(t->entries[i].marks & NORMALIZED) == !normalized)
            set->rows[k++] = (struct tok_special){special_text(t, &t->entries[i]), (uint32_t)i,
                                                  special_type(&t->entries[i])};
    set->n = k;
    return MGPT_OK;
}

/* If tokens have equal texts, the user-defined one counts, else the control token; the lowest id of
 * each kind. */
static int build_set(struct special_set *set, mgpt_error *err)
{
    static const uint8_t types[] = {TOK_USER, TOK_CONTROL, TOK_UNKNOWN};
    int ok = 1;
    for (size_t k = 0; k < sizeof types; k++)
        for (size_t i = 0; i < set->n && ok; i++) {
            const struct tok_special *s = &set->rows[i];
            if (s->type != types[k])
                continue;
            ok = match_add(&set->all, s->text, s->id, s->type);
            if (ok && s->type == TOK_USER)
                ok = match_add(&set->user, s->text, s->id, s->type);
        }
    if (!ok)
        return err_memory(err, "the special tokens", set->n * sizeof *set->all.rows);
    int status = match_build(&set->all, 1, err);
    return status < 0 ? status : match_build(&set->user, 1, err);
}

/* Appends the normalized text of row i to t->special_texts. *limit: bytes that the steps may still
 * produce. */
static int normalize_row(struct tok *t, size_t i, uint64_t *limit, mgpt_error *err)
{
    const struct tok_special *row = &t->normal_specials.rows[i];
    mgpt_error why = {0};
    char *out = NULL;
    int at_start = 1;
    int status = steps_normalize(t->steps, row->text.p, row->text.n, &out, &at_start, limit, &why);
    if (status < 0) /* MGPT_ETEXT of a text is MGPT_EFILE of a file */
        err_set(err, status == MGPT_ETEXT ? status = MGPT_EFILE : status, MGPT_NO_OFFSET,
                KEY_NORMALIZED ": token %u: %s", (unsigned)row->id, why.text);
    if (status == MGPT_OK && !arr_append(&t->special_texts, out, arr_len(out)))
        status = err_memory(err, "the special tokens", arr_len(out));
    arr_free(out);
    return status;
}

/* Decoding begins with the normalized text, as in tokenizers 0.23: a decoder may undo what a
 * normalizer did. Nothing changes for pieces that are decoded already (SPELL_SPACES). */
static void set_piece_source(struct tok_entry *e, struct gguf_str text)
{
    if (e->piece != e->text.p || gguf_str_compare(text, e->text) == 0)
        return;
    e->piece = text.p;
    e->n_piece = (uint16_t)(text.n < TOK_TOKEN_MAX ? text.n : TOK_TOKEN_MAX);
}

/* Tokens that are looked for in normalized text get a normalized text; an empty one is never
 * found. One limit is for all of them: each having its own, many short tokens would take 64 kB
 * each. */
static int normalize_set(struct tok *t, mgpt_error *err)
{
    struct special_set *set = &t->normal_specials;
    size_t *at = mem_new(set->n + 1, sizeof *at), kept = 0, n_bytes = 0;
    int status = at ? MGPT_OK : err_memory(err, "the special tokens", set->n * sizeof *at);
    for (size_t i = 0; i < set->n; i++)
        n_bytes += set->rows[i].text.n;
    uint64_t limit = STEPS_LIMIT(n_bytes);
    for (size_t i = 0; i < set->n && status == MGPT_OK; i++) {
        at[i] = arr_len(t->special_texts);
        status = normalize_row(t, i, &limit, err);
    }
    for (size_t i = 0; i < set->n && status == MGPT_OK; i++) {
        size_t end = i + 1 < set->n ? at[i + 1] : arr_len(t->special_texts);
        struct tok_special row = set->rows[i];
        row.text = (struct gguf_str){t->special_texts + at[i], end - at[i]};
        set_piece_source(&t->entries[row.id], row.text);
        if (row.text.n > 0)
            set->rows[kept++] = row;
    }
    if (status == MGPT_OK)
        set->n = kept;
    free(at);
    return status;
}

static int load_special_texts(struct tok *t, mgpt_error *err)
{
    int status = fill_set(t, &t->specials, 0, err);
    if (status == MGPT_OK)
        status = fill_set(t, &t->normal_specials, 1, err);
    if (status == MGPT_OK && t->steps)
        status = normalize_set(t, err);
    if (status == MGPT_OK)
        status = build_set(&t->specials, err);
    return status < 0 ? status : build_set(&t->normal_specials, err);
}

static void free_set(struct special_set *set)
{
    match_free(&set->all);
    match_free(&set->user);
    free(set->rows);
}

void tok_specials_free(struct tok *t)
{
    free_set(&t->specials);
    free_set(&t->normal_specials);
    match_free(&t->users);
    arr_free(t->special_texts);
    char_map_close(t->word);
}

static const struct tok_match *match_of(const struct special_set *set, unsigned flags)
{
    return flags & MGPT_PARSE_SPECIAL ? &set->all : &set->user;
}

int32_t tok_special_first(const struct special_set *set, const char *p, size_t n, unsigned flags)
{
    struct match_scan scan;
    match_begin(&scan, match_of(set, flags), p, n);
    const struct match_row *s = n > 0 ? match_longest(&scan, 0) : NULL;
    return s ? (int32_t)s->id : -1;
}

/* ---- user-defined pieces --------------------------------------------------------------------- */

/* Appends a text with U+2581 for each space to t->special_texts, which has room. */
static struct gguf_str put_escaped(struct tok *t, struct gguf_str text)
{
    size_t at = arr_len(t->special_texts);
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] == ' ')
            arr_append(&t->special_texts, SPACE, SPACE_BYTES);
        else
            arr_put(t->special_texts, text.p[i]);
    return (struct gguf_str){t->special_texts + at, arr_len(t->special_texts) - at};
}

/* The user-defined tokens that a SentencePiece model finds itself. A BPE file has spaces in their
 * texts, for readers that look for them in the text as it is. */
static int load_users(struct tok *t, mgpt_error *err)
{
    size_t n = 0;
    int ok = 1, escapes = t->kind == &tok_kind_spm;
    for (size_t i = 0; i < t->n; i++)
        n += t->entries[i].type == TOK_USER ? t->entries[i].text.n : 0;
    if (n == 0)
        return MGPT_OK;
    ok = arr_reserve(t->special_texts, SPACE_BYTES * n);
    for (size_t i = 0; i < t->n && ok; i++) {
        const struct tok_entry *e = &t->entries[i];
        if (e->type == TOK_USER)
            ok = match_add(&t->users, escapes ? put_escaped(t, e->text) : e->text, (uint32_t)i,
                           e->type);
    }
    return ok ? match_build(&t->users, 1, err) : err_memory(err, "the user-defined tokens", n);
}

/* ---- white space next to special tokens ------------------------------------------------------ */

int tok_marks_load(struct tok *t, const struct gguf *g, const char *key, unsigned mark,
                   mgpt_error *err)
{
    const struct gguf_kv *kv;
    int there = tok_id_list(t, g, key, &kv, err);
    for (uint64_t i = 0; there > 0 && i < kv->n; i++)
        t->entries[tok_list_id(kv, i)].marks |= (uint8_t)mark;
    return there < 0 ? there : MGPT_OK;
}

/* 1: the model is called Phi-3, in any spelling. */
static int is_phi3(const struct gguf *g)
{
    struct gguf_str name;
    if (gguf_string(g, "general.name", &name, NULL) <= 0)
        return 0;
    for (size_t i = 0; i + 4 <= name.n; i++) {
        const char *p = name.p + i;
        size_t dash = p[3] == '-' && i + 4 < name.n;
        if ((p[0] | 32) == 'p' && (p[1] | 32) == 'h' && (p[2] | 32) == 'i' && p[3 + dash] == '3')
            return 1;
    }
    return 0;
}

/* Files of llama.cpp do not say which tokens remove white space. The one family where it matters
 * (Phi-3) is recognised by its name, as in llama.cpp. */
static int load_strips(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    int phi3 = t->kind == &tok_kind_spm && !gguf_find(g, KEY_RIGHT) && is_phi3(g);
    for (size_t i = 0; phi3 && i < t->specials.n; i++) {
        struct gguf_str text = t->specials.rows[i].text;
        if (!gguf_str_in(text, " <unk> <s> <|endoftext|> "))
            t->entries[t->specials.rows[i].id].marks |= STRIPS_RIGHT;
    }
    int status = tok_marks_load(t, g, KEY_LEFT, STRIPS_LEFT, err);
    return status < 0 ? status : tok_marks_load(t, g, KEY_RIGHT, STRIPS_RIGHT, err);
}

static int is_white(uint32_t code)
{
    return (code >= 9 && code <= 13) || code == ' ' || code == 0x85 || code == 0xA0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

size_t tok_strip_left(const char *text, size_t from, size_t to)
{
    while (to > from) {
        uint32_t code;
        size_t at = to - 1;
        while (at > from && to - at < 4 && ((uint8_t)text[at] & 0xC0) == 0x80)
            at--;
        if (utf8_next(text + at, to - at, &code) != to - at || !is_white(code))
            break;
        to = at;
    }
    return to;
}

size_t tok_strip_right(const char *text, size_t from, size_t to)
{
    while (from < to) {
        uint32_t code;
        size_t n = utf8_next(text + from, to - from, &code);
        if (!is_white(code))
            break;
        from += n;
    }
    return from;
}

/* ---- words ----------------------------------------------------------------------------------- */

static int is_word(const struct tok *t, const char *p, size_t n)
{
    uint32_t code;
    size_t n_to;
    utf8_next(p, n, &code);
    return char_map_find(t->word, code, &n_to) != NULL;
}

/* 1: no character of a word is next to text[from .. to). */
static int stands_alone(const struct tok *t, const char *text, size_t from, size_t to, size_t n)
{
    size_t before = from;
    while (before > 0 && from - before < 4 && ((uint8_t)text[--before] & 0xC0) == 0x80)
        ;
    return !(from > 0 && is_word(t, text + before, from - before)) &&
           !(to < n && is_word(t, text + to, n - to));
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int load_words(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    int any = 0, status = tok_marks_load(t, g, KEY_WORD, SINGLE_WORD, err);
    if (status == MGPT_OK)
        status = tok_marks_load(t, g, KEY_NORMALIZED, NORMALIZED, err);
    for (size_t i = 0; i < t->n; i++)
        any |= t->entries[i].marks & SINGLE_WORD;
    if (status == MGPT_OK && any)
        t->word = char_map_open(g, (struct gguf_str){"word", 4}, err);
    return status < 0 || !any || t->word ? status : err ? err->status : MGPT_EFILE;
}

/* Gemma 4's runs of newlines are added tokens, which its GGUF files do not say. */
static void mark_newlines(struct tok *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct tok_entry *e = &t->entries[i];
        size_t n = 0;
        while (n < e->text.n && e->text.p[n] == '\n')
            n++;
        e->marks |= (uint8_t)(n > 0 && n == e->text.n ? LITERAL : 0);
    }
}

int tok_specials_load(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    int status = load_words(t, g, err);
    if (status == MGPT_OK)
        status = tok_marks_load(t, g, KEY_LITERAL, LITERAL, err);
    if (t->kind == &tok_kind_gemma4)
        mark_newlines(t);
    if (status == MGPT_OK)
        status = load_special_texts(t, err);
    if (status == MGPT_OK && t->user_pieces)
        status = load_users(t, err);
    return status < 0 ? status : load_strips(t, g, err);
}

int tok_specials_split(struct tok_call *c, const struct special_set *set, const char *text,
                       size_t n, special_plain_fn *plain)
{
    const struct tok_match *match = match_of(set, c->flags);
    struct match_scan scan;
    size_t from = 0;
    match_begin(&scan, match, text, n);
    for (size_t at = 0; !match_is_empty(match) && at < n;) {
        const struct match_row *s = match_longest(&scan, at);
        unsigned marks = s ? c->t->entries[s->id].marks : 0;
        if (!s || (marks & SINGLE_WORD && !stands_alone(c->t, text, at, at + s->text.n, n))) {
            at += s ? s->text.n : 1;
            continue;
        }
        size_t to = marks & STRIPS_LEFT ? tok_strip_left(text, from, at) : at;
        int status = from < to ? plain(c, text, from, to) : MGPT_OK;
        if (status < 0)
            return status;
        tok_put(c, (int32_t)s->id);
        at += s->text.n;
        if (marks & STRIPS_RIGHT)
            at = tok_strip_right(text, at, n);
        from = at;
    }
    return from < n ? plain(c, text, from, n) : MGPT_OK;
}
