/* tiktoken vocabularies: ranks to tokens and merges. See tiktoken.h.
 *
 * The merge that makes a token is found by merging its bytes with tokens of lower rank only: two
 * parts remain. When more parts remain, no merge makes the token: it is found only where a whole
 * piece is looked up first, which tiktoken does.
 */
#include "convert/vocab/tiktoken.h"

#include "base/error.h"
#include "base/fnv.h"
#include "base/mem.h"
#include "common/base64.h"
#include "convert/vocab/pattern.h"
#include "convert/vocab/vocab_chars.h"
#include "convert/vocab/vocab_slots.h"
#include "tokenizer/tok_split.h"

#include <string.h>

enum {
    MAX_BYTES = 512, /* of one token: real ones have up to 128, and the work is quadratic */
    NO_RANK = -1
};

struct reader {
    struct checkpoint *c;
    const struct tiktoken *t;
    const char *name;
    struct gguf_str *by_rank; /* texts of ranks 0 to n_ranks - 1 */
    uint32_t *table;          /* texts to rank + 1, open addressing; at most half full */
    size_t mask;
    struct vocab_slots slots;
    size_t n_whole; /* tokens that no merge makes */
};

/* ---- texts to ranks -------------------------------------------------------------------------- */

static uint32_t *find_slot(const struct reader *r, const char *p, size_t n)
{
    uint64_t h = fnv1a(FNV_START ^ (uint64_t)(uintptr_t)r->table, p, n);
    for (size_t i = (size_t)(h ^ h >> 32) & r->mask;; i = (i + 1) & r->mask) {
        const struct gguf_str *s = r->table[i] ? &r->by_rank[r->table[i] - 1] : NULL;
        if (!s || (s->n == n && memcmp(s->p, p, n) == 0))
            return &r->table[i];
    }
}

static int64_t rank_of(const struct reader *r, const char *p, size_t n)
{
    return (int64_t)*find_slot(r, p, n) - 1;
}

static void check_rank(const struct reader *r, const struct tiktoken_token *t)
{
    if (t->rank < 0 || (uint64_t)t->rank >= r->t->n_ranks)
        ckpt_stop(r->c, "%.60s: a token has rank %d, expected 0 to %zu without a hole", r->name,
                  vocab_shown(t->rank), r->t->n_ranks - 1);
    if (t->text.n < 1 || t->text.n > MAX_BYTES)
        ckpt_stop(r->c, "%.60s: token %d has %zu bytes, expected 1 to %d", r->name,
                  vocab_shown(t->rank), t->text.n, MAX_BYTES);
    if (r->by_rank[t->rank].p)
        ckpt_stop(r->c, "%.60s: rank %d occurs twice", r->name, vocab_shown(t->rank));
}

static void index_ranks(struct reader *r)
{
    size_t size = 16;
    while (size / 2 < r->t->n_ranks)
        size *= 2;
    r->by_rank = ckpt_temp(r->c, r->t->n_ranks, sizeof *r->by_rank);
    r->table = ckpt_temp(r->c, size, sizeof *r->table);
    r->mask = size - 1;
    for (size_t i = 0; i < r->t->n_ranks; i++) {
        const struct tiktoken_token *t = &r->t->ranks[i];
        check_rank(r, t);
        uint32_t *slot = find_slot(r, t->text.p, t->text.n);
        if (*slot)
            ckpt_stop(r->c, "%.60s: ranks %u and %d are one text", r->name, *slot - 1,
                      vocab_shown(t->rank));
        r->by_rank[t->rank] = t->text;
        *slot = (uint32_t)t->rank + 1;
    }
    for (unsigned b = 0; b < 256; b++) {
        char byte = (char)b;
        if (rank_of(r, &byte, 1) < 0)
            ckpt_stop(r->c, "%.60s: byte %u has no rank", r->name, b);
    }
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* Merges the bytes of a token with the tokens below its rank. Parts begin at starts[0 .. n);
 * returns n, and n is at least 2. */
static size_t merge_below(const struct reader *r, struct gguf_str s, int64_t below,
                          uint16_t starts[MAX_BYTES + 1])
{
    int64_t ranks[MAX_BYTES]; /* of part i with part i + 1 */
    size_t n = s.n;
    for (size_t i = 0; i <= n; i++)
        starts[i] = (uint16_t)i;
    for (size_t i = 0; i + 1 < n; i++)
        ranks[i] = rank_of(r, s.p + i, 2);
    for (;;) {
        size_t best = n;
        for (size_t i = 0; i + 1 < n; i++)
            if (ranks[i] >= 0 && ranks[i] < below && (best == n || ranks[i] < ranks[best]))
                best = i;
        if (best == n)
            return n;
        memmove(starts + best + 1, starts + best + 2, (n - best - 1) * sizeof *starts);
        memmove(ranks + best, ranks + best + 1, (n - best - 1) * sizeof *ranks);
        n--;
        for (size_t i = best > 0 ? best - 1 : 0; i <= best && i + 1 < n; i++)
            ranks[i] = rank_of(r, s.p + starts[i], (size_t)(starts[i + 2] - starts[i]));
    }
}

/* "left right" in the byte alphabet. */
static void tiktoken_add_merge(struct reader *r, struct gguf_str s, size_t split)
{
    char line[2 * MAX_BYTES + 1];
    size_t n = vocab_put_bytes(s.p, split, line);
    line[n++] = ' ';
    n += vocab_put_bytes(s.p + split, s.n - split, line + n);
    struct gguf_str text = ckpt_str(r->c, line, n);
    ckpt_push(r->c, r->c->vocab.merges, text);
}

static void add_token(struct reader *r, size_t rank)
{
    char text[2 * MAX_BYTES];
    uint16_t starts[MAX_BYTES + 1];
    struct gguf_str s = r->by_rank[rank];
    size_t n = vocab_put_bytes(s.p, s.n, text);
    vocab_slots_set(&r->slots, r->t->first + (int64_t)rank, ckpt_copy(r->c, text, n), n,
                    TOKEN_NORMAL, NULL);
    if (s.n > 1 && merge_below(r, s, (int64_t)rank, starts) == 2)
        tiktoken_add_merge(r, s, starts[1]);
    else
        r->n_whole += s.n > 1;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void add_specials(struct reader *r)
{
    for (size_t i = 0; i < r->t->n_specials; i++) {
        const struct tiktoken_token *t = &r->t->specials[i];
        vocab_slots_set(&r->slots, t->rank, t->text.p, t->text.n, TOKEN_CONTROL, NULL);
    }
}

/* The id of a special token; an error when the vocabulary lacks it. */
static void named_id(const struct reader *r, const char *text, int32_t *id)
{
    *id = text ? vocab_slots_find(&r->slots, text) : -1;
    if (text && *id < 0)
        ckpt_stop(r->c, "%.60s: special token %.40s is missing", r->name, text);
}

/* Chat models end a turn with their EOS, and a document with the BOS of the next one. */
static void set_ids(struct reader *r)
{
    struct ckpt_vocab *v = &r->c->vocab;
    named_id(r, r->t->bos, &v->bos);
    named_id(r, r->t->eos, &v->eos);
    v->add_bos = r->t->bos != NULL;
    v->add_eos = 0;
    if (v->eos < 0)
        v->eos = v->bos;
    else if (v->bos >= 0 && v->bos != v->eos)
        v->eot = v->bos;
}

static void tiktoken_read_all(struct reader *r, const char *pre, uint64_t n_rows)
{
    const struct tiktoken *t = r->t;
    vocab_slots_init(&r->slots, r->c, r->name, (uint64_t)t->n_ranks + t->n_specials, n_rows);
    index_ranks(r);
    for (size_t i = 0; i < t->n_ranks; i++)
        add_token(r, i);
    add_specials(r);
    set_ids(r);
    vocab_slots_finish(&r->slots, VOCAB_NO_SCORES);
    struct gguf_str name = {pre, strlen(pre)};
    r->c->vocab.model = "gpt2";
    r->c->vocab.pre = pre;
    r->c->vocab.nfc = 0;
    if (!(split_find(name)->flags & RULE_WHOLE))
        r->c->vocab.whole_pieces = 1;
    ckpt_note(r->c, "vocabulary: %zu tokens of %s (tiktoken, splitting rule %s)",
              t->n_ranks + t->n_specials, r->name, pre);
    if (r->n_whole)
        ckpt_note(r->c, "vocabulary: %zu tokens of %s come from no merge, only from whole pieces",
                  r->n_whole, r->name);
}

void tiktoken_read(struct checkpoint *c, const struct tiktoken *t, const char *name,
                   uint64_t n_rows)
{
    struct reader r = {.c = c, .t = t, .name = name};
    const char *pre = pattern_rule(t->pattern, 0);
    if (!pre)
        ckpt_stop(c, "%.60s: splitting pattern '%.*s' is not supported", name,
                  CKPT_CLIP(t->pattern.p, t->pattern.n));
    tiktoken_read_all(&r, pre, n_rows);
}

/* ---- .tiktoken files ------------------------------------------------------------------------- */

int64_t tiktoken_decode(char *p, size_t n)
{
    size_t out = 0;
    uint32_t bits = 0;
    if (n == 0 || n % 4)
        return -1;
    size_t n_pad = p[n - 1] == '=' ? 1u + (p[n - 2] == '=') : 0;
    for (size_t i = 0; i < n; i++) {
        int d = i < n - n_pad ? base64_digit(p[i]) : 0;
        if (d < 0)
            return -1;
        bits = bits << 6 | (uint32_t)d;
        if (i % 4 < 3)
            continue;
        for (int shift = 16; shift >= 0; shift -= 8)
            p[out++] = (char)(bits >> shift & 0xFF);
    }
    return (int64_t)(out - n_pad);
}

/* The next line as a token: 1, 0 at the end, -1 for a malformed line. *p moves after it. */
static int next_line(char **p, char *end, struct tiktoken_token *t)
{
    char *start = *p;
    while (start < end && (*start == '\n' || *start == '\r'))
        start++;
    if (start == end)
        return 0;
    char *line_end = memchr(start, '\n', (size_t)(end - start));
    line_end = line_end ? line_end : end;
    char *space = memchr(start, ' ', (size_t)(line_end - start));
    int64_t n = space ? tiktoken_decode(start, (size_t)(space - start)) : -1;
    if (n < 0 || space + 1 == line_end)
        return -1;
    t->text = (struct gguf_str){start, (size_t)n};
    t->rank = 0;
    for (*p = space + 1; *p < line_end && **p >= '0' && **p <= '9' && t->rank < INT32_MAX; ++*p)
        t->rank = 10 * t->rank + (**p - '0');
    return *p == line_end || **p == '\r' ? 1 : -1;
}

int tiktoken_sniff(struct span bytes)
{
    char line[64];
    struct tiktoken_token t;
    size_t n = bytes.size < sizeof line ? bytes.size : sizeof line;
    if (n == 0)
        return 0;
    memcpy(line, bytes.data, n);
    char *p = line, *end = memchr(line, '\n', n);
    return end && next_line(&p, end, &t) == 1;
}

/* Vocabularies that are recognised by the number of their ranks. */
static const struct known {
    size_t n_ranks;
    const char *pattern, *what;
    const char *specials[15]; /* ids from n_ranks on; the first is BOS where `bos` */
    const char *eos;
    int bos, n_reserved; /* BOS; how many <|reserved_special_token_N|> bring the number up */
} known[] = {
    {128000,
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "Llama 3",
     {"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
      "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|reserved_special_token_2|>",
      "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"},
     "<|end_of_text|>",
     1,
     245},
    {151643,
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "Qwen",
     {"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
     "<|endoftext|>",
     0,
     0},
    {151329,
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "GLM-4",
     {"<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>",
      "<|assistant|>", "<|observation|>", "<|begin_of_image|>", "<|end_of_image|>",
      "<|begin_of_video|>", "<|end_of_video|>"},
     "<|endoftext|>",
     0,
     0},
    {50256,
     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     "GPT-2",
     {"<|endoftext|>"},
     "<|endoftext|>",
     0,
     0},
};

/* The special tokens of a known vocabulary: their number. */
static size_t list_specials(struct checkpoint *c, const struct known *k,
                            struct tiktoken_token **list)
{
    static const char reserved[] = "<|reserved_special_token_";
    size_t n = 0;
    while (n < 15 && k->specials[n])
        n++;
    const size_t all = n + (size_t)k->n_reserved;
    *list = ckpt_temp(c, all, sizeof **list);
    for (size_t i = 0; i < all; i++) {
        char text[48];
        const char *p = i < n ? k->specials[i] : text;
        if (i >= n)
            text_format(text, sizeof text, "%s%d|>", reserved, (int)(3 + i - n));
        (*list)[i] =
            (struct tiktoken_token){ckpt_str(c, p, strlen(p)), (int64_t)k->n_ranks + (int64_t)i};
    }
    return all;
}

/* The ranks of a file, whose text is decoded in place: their number. */
static size_t tiktoken_read_lines(struct checkpoint *c, struct span bytes, const char *name,
                                  struct tiktoken_token **ranks)
{
    char *p = ckpt_copy(c, (const char *)bytes.data, bytes.size), *end = p + bytes.size;
    size_t n_lines = 1, n = 0;
    int got;
    for (size_t i = 0; i < bytes.size; i++)
        n_lines += bytes.data[i] == '\n';
    *ranks = ckpt_temp(c, n_lines, sizeof **ranks);
    while ((got = next_line(&p, end, &(*ranks)[n])) == 1)
        n++;
    if (got < 0)
        ckpt_stop(c, "%.60s: line %zu is not base64, a space and a rank", name, n + 1);
    return n;
}

void tiktoken_file_read(struct checkpoint *c, struct span bytes, const char *name, uint64_t n_rows)
{
    struct tiktoken_token *ranks, *specials;
    const struct known *k = NULL;
    size_t n = tiktoken_read_lines(c, bytes, name, &ranks);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].n_ranks == n)
            k = &known[i];
    if (!k)
        ckpt_stop(c,
                  "%.60s: %zu ranks; without a pattern only 128000 (Llama 3), 151643 "
                  "(Qwen), 151329 (GLM-4) and 50256 (GPT-2) are known",
                  name, n);
    size_t n_specials = list_specials(c, k, &specials);
    const struct tiktoken t = {.ranks = ranks,
                               .n_ranks = n,
                               .n_specials = n_specials,
                               .specials = specials,
                               .pattern = {k->pattern, strlen(k->pattern)},
                               .bos = k->bos ? k->specials[0] : NULL,
                               .eos = k->eos};
    ckpt_note(c, "inferred: the vocabulary is that of %s (%zu ranks), with its special tokens",
              k->what, n);
    tiktoken_read(c, &t, name, n_rows);
    if (c->vocab.eot == c->vocab.bos)
        c->vocab.eot = -1;
}
