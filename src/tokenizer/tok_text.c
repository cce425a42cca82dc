/* BPE over the characters of a piece, as Hugging Face's tokenizers has it (tokenizer.ggml.model is
 * "mgpt-bpe"). What a piece is, and whether its characters stand for bytes, the steps say
 * (tok_steps.h).
 *
 *   tokenizer.ggml.unknown_token_id  characters that are not tokens; without it they vanish
 *   mgpt.tokenizer.merge_ids         i32: left, right and merged id of each merge, by rank
 *   mgpt.tokenizer.prefix, suffix    of the characters after the first, of the last one
 *   mgpt.tokenizer.byte_fallback     an unknown character becomes <0xHH> tokens, if all exist
 *   mgpt.tokenizer.fuse_unknown      consecutive unknown characters become one token
 *   mgpt.tokenizer.whole_pieces      a piece that is a token is not merged
 *   mgpt.tokenizer.added             i32: ids that only the list of added tokens has
 */
#include "base/error.h"
#include "tokenizer/tok_impl.h"

#include <stdlib.h>
#include <string.h>

#define KEY(name) "mgpt.tokenizer." name
#define AFFIX_MAX 64 /* bytes of a prefix or suffix */

struct tok_text {
    struct tok_map map; /* the model's tokens */
    struct tok_pairs pairs;
    int32_t bytes[256]; /* id of <0xHH>, -1: none */
    int byte_fallback, fuse_unknown;
    struct gguf_str prefix, suffix;
};

/* ---- opening --------------------------------------------------------------------------------- */

static void text_close(struct tok *t)
{
    if (t->text) {
        tok_map_free(&t->text->map);
        tok_pairs_free(&t->text->pairs);
    }
    free(t->text);
    t->text = NULL;
}

int tok_affix_load(const struct gguf *g, const char *key, struct gguf_str *affix, mgpt_error *err)
{
    int there = gguf_string(g, key, affix, err);
    if (there > 0 && affix->n > AFFIX_MAX)
        return err_set(err, MGPT_EFILE, gguf_find(g, key)->offset, "%s: %zu bytes, the limit is %d",
                       key, affix->n, AFFIX_MAX);
    return there < 0 ? there : MGPT_OK;
}

static int load_options(struct tok_text *s, const struct gguf *g, mgpt_error *err)
{
    int status = tok_affix_load(g, KEY("prefix"), &s->prefix, err);
    if (status >= 0)
        status = tok_affix_load(g, KEY("suffix"), &s->suffix, err);
    if (status >= 0)
        status = gguf_bool(g, KEY("byte_fallback"), &s->byte_fallback, err);
    if (status >= 0)
        status = gguf_bool(g, KEY("fuse_unknown"), &s->fuse_unknown, err);
    return status < 0 ? status : MGPT_OK;
}

static int index_texts(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    struct tok_text *s = t->text;
    if (!tok_map_init(&s->map, t->n))
        return err_memory(err, "the vocabulary", t->n * sizeof *s->map.slots);
    int status = tok_marks_load(t, g, KEY("added"), ONLY_ADDED, err);
    for (size_t b = 0; b < 256; b++)
        s->bytes[b] = -1;
    for (size_t i = 0; i < t->n && status == MGPT_OK; i++) {
        const struct tok_entry *e = &t->entries[i];
        if (e->marks & ONLY_ADDED || e->text.n == 0)
            continue;
        tok_map_add(&s->map, t, (uint32_t)i);
        if (e->type == TOK_BYTE && s->bytes[(uint8_t)e->piece[0]] < 0)
            s->bytes[(uint8_t)e->piece[0]] = (int32_t)i;
    }
    return status;
}

static int text_open(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    t->text = mem_new(1, sizeof *t->text);
    if (!t->text)
        return err_memory(err, "the tokenizer", sizeof *t->text);
    int status = load_options(t->text, g, err);
    if (status == MGPT_OK)
        status = index_texts(t, g, err);
    return status < 0 ? status : tok_pairs_load_ids(&t->text->pairs, t, g, err);
}

/* ---- encoding -------------------------------------------------------------------------------- */

static int text_pair(const struct tok_call *c, const struct merge_symbol *left,
                     const struct merge_symbol *right, struct merge_pair *pair)
{
    return tok_pairs_find(&c->t->text->pairs, left->id, right->id, pair);
}

/* An unknown character waits until the next known one, and after bytes (put_bytes). With fuse_unknown the
 * unknown ones that wait become one token. Hugging Face's tokenizers have this order. */
struct unknown_run {
    int waiting;
};

static void put_waiting(struct tok_call *c, struct unknown_run *u)
{
    if (u->waiting)
        merge_add(c, 0, 0, c->t->unk);
    u->waiting = 0;
}

/* 1 if all n bytes are tokens; they are then added. An unknown character before them still
 * waits: it comes after them, as in the original. */
static int put_bytes(struct tok_call *c, const char *p, size_t n)
{
    const struct tok_text *s = c->t->text;
    for (size_t i = 0; i < n; i++)
        if (s->bytes[(uint8_t)p[i]] < 0)
            return 0;
    for (size_t i = 0; i < n; i++)
        merge_add(c, 0, 0, s->bytes[(uint8_t)p[i]]);
    return 1;
}

static void put_unit(struct tok_call *c, const char *p, size_t n, struct unknown_run *u)
{
    const struct tok_text *s = c->t->text;
    int32_t id = tok_map_find(&s->map, c->t, (struct gguf_str){p, n}, (struct gguf_str){p, 0});
    if (id >= 0) {
        put_waiting(c, u);
        merge_add(c, 0, 0, id);
    } else if (!(s->byte_fallback && put_bytes(c, p, n)) && c->t->unk >= 0) {
        if (!s->fuse_unknown)
            put_waiting(c, u);
        u->waiting = 1;
    }
}

/* The characters as symbols, each with its prefix and suffix. */
static void put_units(struct tok_call *c, const char *p, size_t n)
{
    const struct tok_text *s = c->t->text;
    struct unknown_run u = {0};
    for (size_t i = 0, length; i < n; i += length) {
        char unit[2 * AFFIX_MAX + 4];
        uint32_t code;
        length = utf8_next(p + i, n - i, &code);
        size_t at = i > 0 ? s->prefix.n : 0, end = i + length == n ? s->suffix.n : 0;
        if (at)
            memcpy(unit, s->prefix.p, at);
        memcpy(unit + at, p + i, length);
        if (end)
            memcpy(unit + at + length, s->suffix.p, end);
        put_unit(c, unit, at + length + end, &u);
    }
    put_waiting(c, &u);
}

static int text_encode(struct tok_call *c, const char *p, size_t n)
{
    const struct tok_text *s = c->t->text;
    struct gguf_str none = {p, 0};
    int32_t whole =
        c->t->whole_pieces ? tok_map_find(&s->map, c->t, (struct gguf_str){p, n}, none) : -1;
    if (whole >= 0) {
        tok_put(c, whole);
        return MGPT_OK;
    }
    /* each character is at most one symbol, or one for each byte of its unit */
    uint64_t most = (uint64_t)n + 1;
    if (s->byte_fallback)
        most += (uint64_t)n * s->prefix.n + s->suffix.n;
    if (most > UINT32_MAX / 2)
        return err_set(c->err, MGPT_ETEXT, c->part_at, "a piece of %zu bytes is too long", n);
    if (!merge_begin(c, p, (size_t)most))
        return err_memory(c->err, "the text's symbols", (size_t)most * sizeof *c->symbols);
    put_units(c, p, n);
    if (arr_len(c->symbols) == 0)
        return MGPT_OK;
    if (!merge_run(c))
        return err_memory(c->err, "the text's merges", n * sizeof *c->heap);
    for (uint32_t i = 0; i != MERGE_END; i = c->symbols[i].next)
        tok_put(c, c->symbols[i].id);
    return MGPT_OK;
}

const struct tok_kind tok_kind_text = {
    .name = "bpe",
    .open = text_open,
    .close = text_close,
    .encode = text_encode,
    .pair = text_pair,
};
