/* Reader: llm.c's GPT-2 (gpt2_124M.bin and what its trainer saves), versions 1 to 5.
 *
 *     256 x i32:  magic 20240326, version, context, vocabulary, layers, heads, width, padded vocabulary
 *     arrays in the order of the rows below, each of all layers
 *     version     1 F32, 2 BF16 with norms in F32; 3 and 4 the same with a padded vocabulary;
 *                 5 all BF16, padded
 *
 * The size of the file must be exactly what the header implies. gpt2_tokenizer.bin next to it has
 * the tokens in order of rank, from which the merges follow:
 *     256 x i32:  magic 20240328, version, tokens, [end of text]; then u8 length and bytes of each
 */
#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"
#include "convert/core/readers.h"
#include "convert/families/written.h"
#include "convert/vocab/hf_tokenizer.h"
#include "convert/vocab/tiktoken.h"

#include <stdio.h>
#include <string.h>

#define MODEL_MAGIC 20240326u
#define TOKENS_MAGIC 20240328u
#define EPS 1e-5f

enum { HEADER = 1024, MAX_DIM = 1 << 24 };

static const struct written_row rows[] = {
    {"token_embd.weight", 'V', 'E', 0},        {"position_embd.weight", 'T', 'E', 0},
    {"blk.N.attn_norm.weight", 0, 'E', 1},     {"blk.N.attn_norm.bias", 0, 'E', 1},
    {"blk.N.attn_qkv.weight", 'P', 'E', 0},    {"blk.N.attn_qkv.bias", 0, 'P', 0},
    {"blk.N.attn_output.weight", 'E', 'E', 0}, {"blk.N.attn_output.bias", 0, 'E', 0},
    {"blk.N.ffn_norm.weight", 0, 'E', 1},      {"blk.N.ffn_norm.bias", 0, 'E', 1},
    {"blk.N.ffn_up.weight", 'F', 'E', 0},      {"blk.N.ffn_up.bias", 0, 'F', 0},
    {"blk.N.ffn_down.weight", 'E', 'F', 0},    {"blk.N.ffn_down.bias", 0, 'E', 0},
    {"output_norm.weight", 0, 'E', 1},         {"output_norm.bias", 0, 'E', 1},
};

enum { TOKENS, N_ROWS = sizeof rows / sizeof *rows };

struct llmc {
    struct span bytes;
    int32_t version, n_ctx, n_vocab, n_layer, n_head, n_embd, n_padded;
};

/* ---- the header ------------------------------------------------------------------------------ */

enum ckpt_match llmc_sniff(struct span bytes)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    return cursor_u32(&c) == MODEL_MAGIC && !c.failed ? MATCH_YES : MATCH_NO;
}

static void llmc_read_header(struct checkpoint *c, struct llmc *m, struct span bytes)
{
    struct cursor cur = cursor_over(bytes.data, bytes.size);
    cursor_u32(&cur);
    *m = (struct llmc){.bytes = bytes, .version = cursor_i32(&cur)};
    const struct {
        const char *name;
        int32_t *to, max;
    } sizes[] = {{"max_seq_len", &m->n_ctx, MAX_DIM},
                 {"vocab_size", &m->n_vocab, MAX_DIM},
                 {"num_layers", &m->n_layer, CKPT_MAX_LAYERS},
                 {"num_heads", &m->n_head, MAX_DIM},
                 {"channels", &m->n_embd, MAX_DIM},
                 {"padded_vocab_size", &m->n_padded, MAX_DIM}};
    if (bytes.size < HEADER)
        ckpt_stop_at(c, bytes.size, "llm.c: the header needs %d bytes", HEADER);
    if (m->version < 1 || m->version > 5)
        ckpt_stop_at(c, 4, "llm.c: version is %d, expected 1 to 5", m->version);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *sizes[i].to = cursor_i32(&cur);
        if (sizes[i].to == &m->n_padded && m->version < 3)
            m->n_padded = m->n_vocab;
        if (*sizes[i].to < 1 || *sizes[i].to > sizes[i].max)
            ckpt_stop_at(c, 8 + 4 * i, "llm.c: %s is %d, expected 1 to %d", sizes[i].name,
                         *sizes[i].to, sizes[i].max);
    }
    if (m->n_embd % m->n_head)
        ckpt_stop_at(c, 20, "llm.c: num_heads is %d, it must divide channels = %d", m->n_head,
                     m->n_embd);
    if (m->n_padded < m->n_vocab)
        ckpt_stop_at(c, 28, "llm.c: padded_vocab_size is %d, vocab_size is %d", m->n_padded,
                     m->n_vocab);
}

/* ---- the vocabulary -------------------------------------------------------------------------- */

static int is_tokens(struct span bytes)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    return cursor_u32(&c) == TOKENS_MAGIC && !c.failed;
}

/* All tokens but the end of text into `ranks`; NULL, or what is wrong. */
static const char *llmc_read_tokens(struct span bytes, struct tiktoken_token *ranks, int32_t n,
                                    struct tiktoken_token *end)
{
    struct cursor cur = cursor_over(bytes.data, bytes.size);
    size_t n_read = 0;
    cur.pos = HEADER;
    for (int32_t i = 0; i < n; i++) {
        uint8_t length_of = cursor_u8(&cur);
        struct tiktoken_token t = {{(const char *)bytes.data + cur.pos, length_of}, i};
        if (cur.failed || length_of > bytes.size - cur.pos)
            return "it ends inside a token";
        cur.pos += length_of;
        if (i == end->rank)
            end->text = t.text;
        else
            ranks[n_read++] = t;
    }
    return end->text.p ? NULL : "it has no end of text";
}

static void own_vocabulary(struct checkpoint *c, const struct ckpt_side *side, uint64_t n_vocab)
{
    static const char pattern[] =
        "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    struct cursor cur = cursor_over(side->bytes.data, side->bytes.size);
    uint32_t magic = cursor_u32(&cur);
    int32_t version = cursor_i32(&cur), n = cursor_i32(&cur), last = cursor_i32(&cur);
    if (side->bytes.size < HEADER || magic != TOKENS_MAGIC || version < 1 || version > 2 || n < 1 ||
        n > MAX_DIM)
        ckpt_stop(c, "tokenizer %.60s: its header is not one of llm.c's", side->name);
    struct tiktoken_token *ranks = ckpt_temp(c, (size_t)n, sizeof *ranks);
    struct tiktoken_token end = {{NULL, 0}, version == 2 ? last : n - 1};
    const char *what = llmc_read_tokens(side->bytes, ranks, n, &end);
    if (what)
        ckpt_stop(c, "tokenizer %.60s: %s", side->name, what);
    struct tiktoken t = {.ranks = ranks,
                         .n_ranks = (size_t)n - 1,
                         .specials = &end,
                         .n_specials = 1,
                         .pattern = {pattern, sizeof pattern - 1},
                         .eos = ckpt_copy(c, end.text.p, end.text.n)};
    tiktoken_read(c, &t, "the tokenizer", n_vocab);
    c->vocab.bos = (int32_t)end.rank; /* as GPT-2 has it, which does not put BOS in front */
    c->vocab.whole_pieces = -1;       /* every token is merged */
}

static void llmc_vocabulary(struct checkpoint *c, const struct ckpt_input *in, uint64_t n_vocab)
{
    static const char *const name = "gpt2_tokenizer.bin";
    struct ckpt_side side;
    int found = !(in->options->given & OPT_NO_TOKENIZER) &&
                ckpt_side(c, in, OPT_TOKENIZER, &name, 1, &side);
    if (found && (is_tokens(side.bytes) || !(in->options->given & OPT_TOKENIZER)))
        own_vocabulary(c, &side, n_vocab);
    else
        hf_tokenizer_read(c, in, n_vocab);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void llmc_describe(struct checkpoint *c, const struct llmc *m)
{
    char format[48];
    int n = snprintf(format, sizeof format, "llm.c .bin version %d", m->version);
    c->format = ckpt_copy(c, format, (size_t)n);
    c->hp.arch = "gpt2";
    c->hp.n_vocab = (uint32_t)m->n_vocab;
    c->hp.n_ctx = (uint32_t)m->n_ctx;
    c->hp.n_embd = (uint32_t)m->n_embd;
    c->hp.n_layer = (uint32_t)m->n_layer;
    c->hp.n_head = (uint32_t)m->n_head;
    c->hp.n_ff = 4 * (uint32_t)m->n_embd;
    c->hp.norm_eps = EPS;
    if (m->n_padded > m->n_vocab)
        ckpt_note(c, "the last %d rows of the embedding are padding, left out",
                  m->n_padded - m->n_vocab);
}

/* No sum of sizes overflows: the largest, 12 n_embd^2 values of 4 bytes in each layer, is 3 * 2^62. */
static void add_arrays(struct checkpoint *c, const struct llmc *m)
{
    int is_float = m->version == 1 || m->version == 3, is_bf16 = m->version == 5;
    struct written w = {.rows = rows, .n_rows = N_ROWS, .n_order = N_ROWS};
    struct ckpt_hparams padded = c->hp;
    padded.n_vocab = (uint32_t)m->n_padded;
    w.type = dtype_find(is_float ? DTYPE_F32 : DTYPE_BF16);
    w.norm_type = dtype_find(is_bf16 ? DTYPE_BF16 : DTYPE_F32);
    uint64_t end = written_place(&w, &padded, HEADER);
    if (end != m->bytes.size)
        ckpt_stop_at(c, m->bytes.size, "llm.c: the file has %zu bytes, its header implies %llu",
                     m->bytes.size, (unsigned long long)end);
    w.arrays[TOKENS].n_out = c->hp.n_vocab;
    written_add(c, &w, m->bytes);
}

void llmc_read(struct checkpoint *c, const struct ckpt_input *in)
{
    struct llmc m;
    llmc_read_header(c, &m, in->bytes);
    llmc_describe(c, &m);
    add_arrays(c, &m);
    llmc_vocabulary(c, in, c->hp.n_vocab);
}
