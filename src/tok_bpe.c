/* Floor 3. Byte-level BPE (GPT-2 and its descendants).
 *
 * A text is split into pieces by the pattern of the model's family, and each piece, byte by byte,
 * is merged by the ranks of the merge list. Patterns are data: one row per tokenizer.ggml.pre,
 * matched by PCRE2. PCRE2 sees valid UTF-8 only: where a text is ill-formed, a copy of it has
 * U+0001 for each such byte, which is of the same length and of the same class for every pattern
 * (neither letter, number nor space), while the bytes that become tokens are those of the text. So
 * nothing is lost.
 */
#include "error.h"
#include "tok_impl.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* ---- splitting rules ------------------------------------------------------------------------- */

/* White_Space. Spelled out, because PCRE2's \s has U+180E, too, which Unicode dropped long ago. */
#define WHITE                                                                                      \
    "\\x09-\\x0D\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"        \
    "\\x{205F}\\x{3000}"

#define GPT2                                                                                       \
    "'s|'t|'re|'ve|'m|'ll|'d"                                                                      \
    "| ?\\p{L}+| ?\\p{N}+| ?[^" WHITE "\\p{L}\\p{N}]+"                                             \
    "|[" WHITE "]+(?![^" WHITE "])|[" WHITE "]+"

/* "default" is also what a file without the key gets: one from before there were rules. */
static const struct rule {
    const char *pre, *pattern;
} rules[] = {
    {"gpt-2", GPT2}, {"phi-2", GPT2}, {"mpt", GPT2},
    {"olmo", GPT2},  {"jais", GPT2},  {"default", GPT2},
};

/* ---- opening --------------------------------------------------------------------------------- */

struct merge_row {
    uint64_t key; /* left id, right id */
    uint32_t rank;
    int32_t id; /* -1: the slot is free */
};

struct tok_bpe {
    int32_t bytes[256];     /* id of a single byte, -1: none */
    struct merge_row *rows; /* open addressing, linear probing; seeded as in struct tok_map */
    size_t mask;
    uint64_t seed;
    pcre2_code *split;
};

static void bpe_close(struct tok *t)
{
    if (t->bpe) {
        pcre2_code_free(t->bpe->split);
        free(t->bpe->rows);
    }
    free(t->bpe);
    t->bpe = NULL;
}

static int compile_rule(struct tok_bpe *b, const struct gguf *g, mgpt_error *err)
{
    struct gguf_str pre = {"default", 7};
    int status = gguf_string(g, "tokenizer.ggml.pre", &pre, err);
    if (status < 0)
        return status;
    const char *pattern = NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (pre.n == strlen(rules[i].pre) && memcmp(pre.p, rules[i].pre, pre.n) == 0)
            pattern = rules[i].pattern;
    if (!pattern)
        return err_set(err, MGPT_EFILE, gguf_find(g, "tokenizer.ggml.pre")->offset,
                       "tokenizer.ggml.pre '%.*s' is not supported", (int)(pre.n < 32 ? pre.n : 32),
                       pre.p);
    int code;
    size_t at;
    b->split = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                             &code, &at, NULL);
    if (!b->split)
        return err_set(err, MGPT_EMEM, MGPT_NO_OFFSET, "PCRE2 error %d in a splitting rule", code);
    pcre2_jit_compile(b->split, PCRE2_JIT_COMPLETE); /* may fail: then it is interpreted */
    return MGPT_OK;
}

/* The slot of a pair, or the free one where it belongs. */
static struct merge_row *find_row(const struct tok_bpe *b, uint64_t key)
{
    uint64_t h = (key ^ b->seed) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    size_t i = (size_t)(h ^ h >> 32) & b->mask;
    while (b->rows[i].id >= 0 && b->rows[i].key != key)
        i = (i + 1) & b->mask;
    return &b->rows[i];
}

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* "left right": the separator is the first space at or after byte 1. Merges whose parts or result
 * are not in the vocabulary occur in converted files and can do nothing; of equal pairs the first
 * counts. */
static void add_merge(struct tok *t, const struct tok_map *map, struct gguf_str line, uint32_t rank)
{
    const char *space = line.n > 1 ? memchr(line.p + 1, ' ', line.n - 1) : NULL;
    if (!space)
        return;
    struct gguf_str left = {line.p, (size_t)(space - line.p)};
    struct gguf_str right = {space + 1, line.n - left.n - 1}, none = {space, 0};
    int32_t left_id = tok_map_find(map, t, left, none),
            right_id = tok_map_find(map, t, right, none);
    int32_t id = tok_map_find(map, t, left, right);
    if (left_id < 0 || right_id < 0 || id < 0)
        return;
    struct merge_row *row = find_row(t->bpe, pair_key(left_id, right_id));
    if (row->id < 0)
        *row = (struct merge_row){pair_key(left_id, right_id), rank, id};
}

static int load_merges(struct tok *t, const struct tok_map *map, const struct gguf *g,
                       mgpt_error *err)
{
    const struct gguf_kv *kv = NULL;
    int there = gguf_array(g, "tokenizer.ggml.merges", GGUF_STRING, &kv, err);
    if (there < 0)
        return there;
    size_t n = there ? (size_t)kv->n : 0, size = tok_table_size(n);
    t->bpe->rows = size ? mem_new(size, sizeof *t->bpe->rows) : NULL;
    if (!t->bpe->rows)
        return err_memory(err, "the merges", size * sizeof *t->bpe->rows);
    t->bpe->mask = size - 1;
    t->bpe->seed = (uint64_t)(uintptr_t)t->bpe->rows;
    for (size_t i = 0; i < size; i++)
        t->bpe->rows[i].id = -1;
    struct cursor c = cursor_over(there ? kv->value : NULL, there ? kv->value_bytes : 0);
    for (size_t i = 0; i < n; i++)
        add_merge(t, map, gguf_next_string(&c), (uint32_t)i);
    return MGPT_OK;
}

/* Every normal token longer than a byte is made by merges: without any, the file is broken. */
static int check_merges(const struct tok *t, const struct gguf *g, mgpt_error *err)
{
    if (gguf_find(g, "tokenizer.ggml.merges"))
        return MGPT_OK;
    for (size_t i = 0; i < t->n; i++)
        if (t->entries[i].type == TOK_NORMAL && t->entries[i].n_piece > 1)
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "key tokenizer.ggml.merges: missing");
    return MGPT_OK;
}

static int bpe_open(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    struct tok_map map;
    int status = check_merges(t, g, err);
    if (status < 0)
        return status;
    t->bpe = mem_new(1, sizeof *t->bpe);
    if (!t->bpe)
        return err_memory(err, "the tokenizer", sizeof *t->bpe);
    if (!tok_map_init(&map, t->n))
        return err_memory(err, "the vocabulary", t->n * sizeof *map.slots);
    for (size_t b = 0; b < 256; b++)
        t->bpe->bytes[b] = -1;
    for (size_t i = 0; i < t->n; i++) {
        const struct tok_entry *e = &t->entries[i];
        if (e->type == TOK_NORMAL)
            tok_map_add(&map, t, (uint32_t)i);
        if ((e->type == TOK_NORMAL || e->type == TOK_BYTE) && e->n_piece == 1 &&
            t->bpe->bytes[(uint8_t)e->piece[0]] < 0)
            t->bpe->bytes[(uint8_t)e->piece[0]] = (int32_t)i;
    }
    status = load_merges(t, &map, g, err);
    tok_map_free(&map);
    return status == MGPT_OK ? compile_rule(t->bpe, g, err) : status;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static int bpe_pair(const struct tok_call *c, const struct merge_symbol *left,
                    const struct merge_symbol *right, struct merge_pair *pair)
{
    const struct merge_row *row = find_row(c->t->bpe, pair_key(left->id, right->id));
    *pair = (struct merge_pair){row->rank, row->id};
    return row->id >= 0;
}

static int refuse(struct tok_call *c, const char *p, uint8_t byte)
{
    static const char hex[] = "0123456789ABCDEF";
    uint64_t at = (uint64_t)(p - c->text);
    return err_set(c->err, MGPT_ETEXT, at,
                   "byte 0x%c%c at byte %llu is not in the vocabulary (%zu tokens)", hex[byte >> 4],
                   hex[byte & 15], (unsigned long long)at, c->t->n);
}

/* One piece of the split text. */
static int encode_piece(struct tok_call *c, const char *p, size_t n)
{
    if (!merge_begin(c, p, n))
        return err_memory(c->err, "the text's symbols", n * sizeof *c->symbols);
    for (size_t i = 0; i < n; i++) {
        int32_t id = c->t->bpe->bytes[(uint8_t)p[i]];
        if (id < 0)
            return refuse(c, p + i, (uint8_t)p[i]);
        merge_add(c, (uint32_t)i, 1, id);
    }
    if (!merge_run(c))
        return err_memory(c->err, "the text's merges", n * sizeof *c->heap);
    for (uint32_t i = 0; i != MERGE_END; i = c->symbols[i].next)
        tok_put(c, c->symbols[i].id);
    return MGPT_OK;
}

/* The end of the piece that begins at `from`; what the pattern leaves out is a piece as well.
 * Negative: an error of PCRE2. */
static int next_piece(const pcre2_code *split, pcre2_match_data *match, const char *subject,
                      size_t n, size_t from, size_t *end)
{
    *end = n;
    /* without NO_UTF_CHECK each call would check all of the rest */
    uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int found = pcre2_match(split, (PCRE2_SPTR)subject, n, from, options, match, NULL);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found =
            pcre2_match(split, (PCRE2_SPTR)subject, n, from, options | PCRE2_NO_JIT, match, NULL);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH)
        return found;
    const size_t *span = pcre2_get_ovector_pointer(match);
    if (found >= 0)
        *end = span[0] > from ? span[0] : span[1];
    return 0;
}

/* Pieces of p, split as `subject`, which is p or its valid copy. */
static int encode_pieces(struct tok_call *c, const char *p, const char *subject, size_t n)
{
    const pcre2_code *split = c->t->bpe->split;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    if (!match)
        return err_memory(c->err, "splitting the text", 0);
    int status = MGPT_OK;
    for (size_t from = 0, end = 0; status == MGPT_OK && from < n; from = end) {
        int code = next_piece(split, match, subject, n, from, &end);
        if (code < 0)
            status = err_set(c->err, MGPT_EMEM, (uint64_t)(p - c->text) + from,
                             "splitting the text: PCRE2 error %d", code);
        else
            status = encode_piece(c, p + from, end - from);
    }
    pcre2_match_data_free(match);
    return status;
}

/* The first ill-formed byte, or n. */
static size_t find_bad(const char *p, size_t n)
{
    uint32_t code;
    for (size_t i = 0, length; i < n; i += length) {
        length = utf8_next(p + i, n - i, &code);
        if (code == UTF8_BAD)
            return i;
    }
    return n;
}

static int bpe_encode(struct tok_call *c, const char *p, size_t n)
{
    size_t bad = find_bad(p, n);
    if (bad == n)
        return encode_pieces(c, p, p, n);
    char *copy = mem_new(n, 1);
    if (!copy)
        return err_memory(c->err, "a copy of the text", n);
    memcpy(copy, p, n);
    for (; bad < n; bad += find_bad(p + bad, n - bad))
        copy[bad++] = 1;
    int status = encode_pieces(c, p, copy, n);
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
