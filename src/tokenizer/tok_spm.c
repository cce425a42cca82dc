/* SentencePiece BPE (Llama 1 and 2, llama2.c, Gemma, Phi-3).
 *
 * Every space of a text becomes U+2581; one more is added in front if the model needs it. Two
 * adjacent symbols are merged while they form a token, highest score first. Files with
 * mgpt.tokenizer.ranked are merged by the ranks of their merge list instead, as Hugging Face does;
 * the result differs if a token can be formed in several ways. A character that is not a token is
 * written as its bytes, <0xHH>, or as the unknown token if the vocabulary has no bytes: one for a
 * run of them, as in SentencePiece, or with ranks one for each. With mgpt.tokenizer.user_pieces the
 * user-defined tokens are found here, and nothing merges with them. Each ill-formed byte of UTF-8 is a character of its own, so its byte token decodes to the same byte.
 * U+2581 in a text is indistinguishable from a space: that is SentencePiece's convention.
 */
#include "base/error.h"
#include "base/float_bits.h"
#include "tokenizer/tok_impl.h"

#include <stdlib.h>
#include <string.h>

struct tok_spm {
    struct tok_map map; /* the tokens that text can become */
    uint32_t *orders;   /* of each id: smaller for a higher score */
    int32_t bytes[256]; /* id of <0xHH>, -1: none */
    size_t longest;     /* bytes of the longest text in the map */
    int by_word;        /* no token has a space after another character: words merge separately */
    struct tok_pairs pairs; /* rows NULL: merge by score */
};

/* ---- opening --------------------------------------------------------------------------------- */

static void spm_close(struct tok *t)
{
    if (t->spm) {
        tok_map_free(&t->spm->map);
        tok_pairs_free(&t->spm->pairs);
        free(t->spm->orders);
    }
    free(t->spm);
    t->spm = NULL;
}

/* Monotone: the largest score gives the smallest number. */
static uint32_t order_of(float score)
{
    uint32_t bits = f32_bits(score + 0.0f); /* -0 and 0 are equal */
    return bits >> 31 ? bits : ~(bits | UINT32_C(1) << 31);
}

static int load_orders(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    const char *key = "tokenizer.ggml.scores";
    double *scores = mem_new(t->n, sizeof *scores);
    if (!scores)
        return err_memory(err, "the scores", t->n * sizeof *scores);
    int there = tok_scores_load(t, g, key, GGUF_F32, scores, err);
    for (size_t i = 0; i < t->n && there > 0; i++)
        t->spm->orders[i] = order_of((float)scores[i]);
    free(scores);
    if (there == 0)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "key %s: missing", key);
    return there < 0 ? there : MGPT_OK;
}

/* Control, unknown and byte tokens never come from text; unused ones only as steps to other
 * tokens. */
static void index_token(struct tok *t, uint32_t id)
{
    struct tok_spm *s = t->spm;
    const struct tok_entry *e = &t->entries[id];
    if (e->type == TOK_BYTE) {
        int32_t *slot = &s->bytes[(uint8_t)e->piece[0]];
        if (*slot < 0)
            *slot = (int32_t)id;
    } else if (e->text.n > 0 && e->type != TOK_CONTROL && e->type != TOK_UNKNOWN) {
        tok_map_add(&s->map, t, id);
        if (e->text.n > s->longest)
            s->longest = e->text.n;
        if (tok_inner_space(e->text))
            s->by_word = 0;
    }
}

static int open_ranked(struct tok *t, int ranked, const struct gguf *g, mgpt_error *err)
{
    struct tok_spm *s = t->spm = mem_new(1, sizeof *s);
    if (s)
        s->orders = mem_new(t->n, sizeof *s->orders);
    if (!s || !s->orders || !tok_map_init(&s->map, t->n))
        return err_memory(err, "the vocabulary", t->n * sizeof *s->orders);
    for (size_t b = 0; b < 256; b++)
        s->bytes[b] = -1;
    s->by_word = 1;
    for (size_t i = 0; i < t->n; i++)
        index_token(t, (uint32_t)i);
    return ranked ? tok_pairs_load(&s->pairs, t, &s->map, g, err) : load_orders(t, g, err);
}

static int spm_open(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    int ranked = 0;
    if (gguf_bool(g, "mgpt.tokenizer.ranked", &ranked, err) < 0)
        return MGPT_EFILE;
    return open_ranked(t, ranked, g, err);
}

static int gemma4_open(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    if (!gguf_find(g, "tokenizer.ggml.merges"))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "key tokenizer.ggml.merges: missing");
    return open_ranked(t, 1, g, err);
}

/* ---- encoding -------------------------------------------------------------------------------- */

static int32_t find_text(const struct tok *t, const char *p, size_t n)
{
    return tok_map_find(&t->spm->map, t, (struct gguf_str){p, n}, (struct gguf_str){p, 0});
}

static int spm_pair(const struct tok_call *c, const struct merge_symbol *left,
                    const struct merge_symbol *right, struct merge_pair *pair)
{
    size_t n = (size_t)left->n + right->n;
    if (c->t->spm->pairs.rows)
        return tok_pairs_find(&c->t->spm->pairs, left->id, right->id, pair);
    if (n > c->t->spm->longest)
        return 0;
    pair->id = find_text(c->t, c->base + left->at, n);
    if (pair->id < 0)
        return 0;
    pair->order = c->t->spm->orders[pair->id];
    return 1;
}

/* Appends the tokens of a symbol that is not a token. Returns 0 if the vocabulary has none for it.
 * *after_unknown: the unknown token was the last one; it covers this symbol, too. */
static int put_unknown(struct tok_call *c, const char *p, size_t n, int *after_unknown)
{
    const struct tok_spm *s = c->t->spm;
    int has_bytes = 1, joins = *after_unknown && !s->pairs.rows;
    for (size_t i = 0; i < n; i++)
        has_bytes &= s->bytes[(uint8_t)p[i]] >= 0;
    if (!has_bytes && c->t->unk < 0)
        return 0;
    if (!has_bytes && !joins)
        tok_put(c, c->t->unk);
    for (size_t i = 0; has_bytes && i < n; i++)
        tok_put(c, s->bytes[(uint8_t)p[i]]);
    *after_unknown = !has_bytes;
    return 1;
}

/* Appends the tokens of the merged symbols; an unused token is split again. Returns 0 and the
 * position of a symbol that has no tokens. */
static int put_symbols(struct tok_call *c, int *after_unknown, size_t *where)
{
    for (uint32_t i = 0; i != MERGE_END;) {
        struct merge_symbol *s = &c->symbols[i];
        int ranked = c->t->spm->pairs.rows != NULL;
        int32_t id = ranked ? s->id : find_text(c->t, c->base + s->at, s->n);
        int unused = !ranked && id >= 0 && c->t->entries[id].type == TOK_UNUSED;
        *where = s->at;
        if (unused && s->last != MERGE_END) {
            merge_undo(c, i);
            continue;
        }
        if (id >= 0 && !unused) {
            tok_put(c, id);
            *after_unknown = 0;
        } else if (!put_unknown(c, c->base + s->at, s->n, after_unknown))
            return 0;
        i = s->next;
    }
    return 1;
}

/* Merges one run of the escaped text. Returns 0 when out of memory. */
static int merge_text(struct tok_call *c, const char *p, size_t n)
{
    int ranked = c->t->spm->pairs.rows != NULL;
    if (!merge_begin(c, p, n))
        return 0;
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t code;
        length = utf8_next(p + i, n - i, &code);
        merge_add(c, (uint32_t)i, (uint32_t)length, ranked ? find_text(c->t, p + i, length) : -1);
    }
    return merge_run(c);
}

/* The first user-defined token in text[from .. end), and where it begins; NULL: none. */
static const struct match_row *next_user(struct match_scan *users, size_t from, size_t end,
                                         size_t *at)
{
    const struct match_row *row = NULL;
    for (*at = from; !match_is_empty(users->m) && !row && *at < end;) {
        uint32_t code;
        row = match_longest(users, *at);
        *at += row ? 0 : utf8_next(users->text + *at, end - *at, &code);
    }
    return row;
}

/* Appends the tokens of text[from .. end) without user-defined ones. */
static int put_plain(struct tok_call *c, const struct tok_spaced *s, size_t from, size_t end,
                     int *after_unknown)
{
    for (size_t to, where; from < end; from = to) {
        to = tok_run_end(c->t, c->t->spm->by_word, s->text, end, from);
        if (!merge_text(c, s->text + from, to - from))
            return err_memory(c->err, "the text's symbols", (to - from) * sizeof *c->symbols);
        if (!put_symbols(c, after_unknown, &where))
            return tok_spaced_refuse(c, s, from + where);
    }
    return MGPT_OK;
}

static int spm_encode(struct tok_call *c, const char *p, size_t n)
{
    struct tok_spaced s;
    struct match_scan users;
    int after_unknown = 0, status = tok_spaced_make(c, p, n, &s);
    match_begin(&users, &c->t->users, s.text, s.n);
    for (size_t from = 0, at; status == MGPT_OK && from < s.n;) {
        const struct match_row *user = next_user(&users, from, s.n, &at);
        status = put_plain(c, &s, from, user ? at : s.n, &after_unknown);
        if (user && status == MGPT_OK)
            tok_put(c, (int32_t)user->id);
        after_unknown &= !user;
        from = user ? at + user->text.n : s.n;
    }
    free(s.text);
    return status;
}

const struct tok_kind tok_kind_spm = {
    .name = "spm",
    .spaces = 1,
    .open = spm_open,
    .close = spm_close,
    .encode = spm_encode,
    .pair = spm_pair,
};

/* llama.cpp's Gemma 4. */
const struct tok_kind tok_kind_gemma4 = {
    .name = "spm",
    .spaces = 1,
    .open = gemma4_open,
    .close = spm_close,
    .encode = spm_encode,
    .pair = spm_pair,
};
