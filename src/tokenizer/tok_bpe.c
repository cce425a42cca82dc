/* Byte-level BPE (GPT-2 and its descendants).
 *
 * A text is split into pieces by the rule of the model's family (tok_split.c). Each piece is merged
 * from single bytes by the ranks of the merge list. Rules are defined for valid UTF-8 only. An
 * ill-formed text is therefore split as a copy with U+0001 for each ill-formed byte, which has the
 * same length and no class in any rule (neither letter, number, punctuation nor space). The tokens
 * are made from the original bytes, so nothing is lost.
 */
#include "base/error.h"
#include "tokenizer/tok_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening --------------------------------------------------------------------------------- */

struct tok_bpe {
    int32_t bytes[256]; /* id of a single byte, -1: none */
    struct tok_pairs pairs;
    struct tok_map whole; /* pieces that are tokens; slots NULL: always merge */
    struct split *split;
};

static void bpe_close(struct tok *t)
{
    if (t->bpe) {
        split_close(t->bpe->split);
        tok_map_free(&t->bpe->whole);
        tok_pairs_free(&t->bpe->pairs);
    }
    free(t->bpe);
    t->bpe = NULL;
}

static int open_rule(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    if (!t->rule) {
        struct gguf_str pre = {"", 0};
        gguf_string(g, "tokenizer.ggml.pre", &pre, NULL); /* tok.c has checked it */
        return err_set(err, MGPT_EFILE, gguf_find(g, "tokenizer.ggml.pre")->offset,
                       "tokenizer.ggml.pre '%.*s' is not supported", (int)(pre.n < 32 ? pre.n : 32),
                       pre.p);
    }
    t->bpe->split = split_open(t->rule, err);
    return t->bpe->split ? MGPT_OK : MGPT_EMEM;
}

/* Merges make every normal token longer than a byte. A file that has such tokens needs merges. */
static int check_merges(const struct tok *t, const struct gguf *g, mgpt_error *err)
{
    if (gguf_find(g, "tokenizer.ggml.merges"))
        return MGPT_OK;
    for (size_t i = 0; i < t->n; i++)
        if (t->entries[i].type == TOK_NORMAL && t->entries[i].n_piece > 1)
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "key tokenizer.ggml.merges: missing");
    return MGPT_OK;
}

/* Fills `texts` (needed to read the merges), the single bytes and, for RULE_WHOLE, the pieces. */
static int index_tokens(struct tok *t, struct tok_map *texts, mgpt_error *err)
{
    struct tok_map *whole = &t->bpe->whole;
    if (!tok_map_init(texts, t->n) || (t->whole_pieces && !tok_map_init(whole, t->n)))
        return err_memory(err, "the vocabulary", t->n * sizeof *texts->slots);
    whole->pieces = 1;
    for (size_t b = 0; b < 256; b++)
        t->bpe->bytes[b] = -1;
    for (size_t i = 0; i < t->n; i++) {
        const struct tok_entry *e = &t->entries[i];
        if (e->type != TOK_NORMAL && e->type != TOK_BYTE)
            continue;
        if (e->n_piece == 1 && t->bpe->bytes[(uint8_t)e->piece[0]] < 0)
            t->bpe->bytes[(uint8_t)e->piece[0]] = (int32_t)i;
        if (e->type == TOK_BYTE)
            continue;
        tok_map_add(texts, t, (uint32_t)i);
        if (t->whole_pieces)
            tok_map_add(whole, t, (uint32_t)i);
    }
    return MGPT_OK;
}

static int bpe_open(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    struct tok_map texts = {0};
    int status = check_merges(t, g, err);
    if (status < 0)
        return status;
    t->bpe = mem_new(1, sizeof *t->bpe);
    if (!t->bpe)
        return err_memory(err, "the tokenizer", sizeof *t->bpe);
    status = index_tokens(t, &texts, err);
    if (status == MGPT_OK)
        status = tok_pairs_load(&t->bpe->pairs, t, &texts, g, err);
    tok_map_free(&texts);
    return status == MGPT_OK ? open_rule(t, g, err) : status;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static int bpe_pair(const struct tok_call *c, const struct merge_symbol *left,
                    const struct merge_symbol *right, struct merge_pair *pair)
{
    return tok_pairs_find(&c->t->bpe->pairs, left->id, right->id, pair);
}

static int refuse_byte(struct tok_call *c, const char *p, uint8_t byte)
{
    static const char hex[] = "0123456789ABCDEF";
    uint64_t at = tok_place(c, p);
    return err_set(c->err, MGPT_ETEXT, at,
                   "byte 0x%c%c at byte %llu is not in the vocabulary (%zu tokens)", hex[byte >> 4],
                   hex[byte & 15], (unsigned long long)at, c->t->n);
}

/* The token equal to the whole piece, or -1. */
static int32_t whole_piece(const struct tok *t, const char *p, size_t n)
{
    struct gguf_str piece = {p, n}, none = {p, 0};
    return t->whole_pieces ? tok_map_find(&t->bpe->whole, t, piece, none) : -1;
}

/* A part of text being encoded: its original bytes, even if a copy was split. */
struct stretch {
    struct tok_call *c;
    const char *bytes;
};

static int encode_piece(void *user, size_t from, size_t to)
{
    const struct stretch *s = user;
    struct tok_call *c = s->c;
    const char *p = s->bytes + from;
    size_t n = to - from;
    int32_t whole = whole_piece(c->t, p, n);
    if (whole >= 0) {
        tok_put(c, whole);
        return MGPT_OK;
    }
    if (!merge_begin(c, p, n))
        return err_memory(c->err, "the text's symbols", n * sizeof *c->symbols);
    for (size_t i = 0; i < n; i++) {
        int32_t id = c->t->bpe->bytes[(uint8_t)p[i]];
        if (id < 0 && !c->t->drops_unknown)
            return refuse_byte(c, p + i, (uint8_t)p[i]);
        if (id >= 0)
            merge_add(c, (uint32_t)i, 1, id);
    }
    if (arr_len(c->symbols) == 0)
        return MGPT_OK;
    if (!merge_run(c))
        return err_memory(c->err, "the text's merges", n * sizeof *c->heap);
    for (uint32_t i = 0; i != MERGE_END; i = c->symbols[i].next)
        tok_put(c, c->symbols[i].id);
    return MGPT_OK;
}

static int bpe_encode(struct tok_call *c, const char *p, size_t n)
{
    struct stretch s = {c, p};
    const struct split *split = c->t->bpe->split;
    size_t bad = utf8_well_formed(p, n);
    if (bad == n)
        return split_text(split, p, n, encode_piece, &s, c->err);
    char *copy = mem_new(n, 1);
    if (!copy)
        return err_memory(c->err, "a copy of the text", n);
    memcpy(copy, p, n);
    for (; bad < n; bad += utf8_well_formed(p + bad, n - bad))
        copy[bad++] = 1;
    int status = split_text(split, copy, n, encode_piece, &s, c->err);
    free(copy);
    return status;
}

const struct tok_kind tok_kind_bpe = {
    .name = "bpe",
    .open = bpe_open,
    .close = bpe_close,
    .encode = bpe_encode,
    .pair = bpe_pair,
};
