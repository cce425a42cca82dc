/* Reader: llm.c's GPT-2 (gpt2_124M.bin and what its trainer saves), versions 1 to 5.
 *
 *     256 x i32:  magic 20240326, version, context, vocabulary, layers, heads, width, padded vocabulary
 *     arrays in the order of a table below, each of all layers
 *     version     1 F32, 2 BF16 with norms in F32; 3 and 4 the same with a padded vocabulary;
 *                 5 all BF16, padded
 *
 * The size of the file must be exactly what the header implies. gpt2_tokenizer.bin next to it has
 * the tokens in order of rank, from which the merges follow:
 *     256 x i32:  magic 20240328, version, tokens, [end of text]; then u8 length and bytes of each
 */
#include "base/check.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"
#include "convert/core/readers.h"
#include "convert/vocab/hf_tokenizer.h"
#include "convert/vocab/tiktoken.h"

#include <stdio.h>
#include <string.h>

#define MODEL_MAGIC 20240326u
#define TOKENS_MAGIC 20240328u
#define EPS 1e-5f

enum { HEADER = 1024, MAX_DIM = 1 << 24, BEFORE_LAYERS = 2, N_LAYER_KINDS = 12 };

static const struct {
    const char *name; /* GGUF's */
    char n_out, n_in; /* C width, V padded vocabulary, T context, Q 3 C, F 4 C; n_out 0: a vector */
    int is_norm;
} kinds[] = {
    {"token_embd.weight", 'V', 'C', 0},  {"position_embd.weight", 'T', 'C', 0},
    {"attn_norm.weight", 0, 'C', 1},     {"attn_norm.bias", 0, 'C', 1},
    {"attn_qkv.weight", 'Q', 'C', 0},    {"attn_qkv.bias", 0, 'Q', 0},
    {"attn_output.weight", 'C', 'C', 0}, {"attn_output.bias", 0, 'C', 0},
    {"ffn_norm.weight", 0, 'C', 1},      {"ffn_norm.bias", 0, 'C', 1},
    {"ffn_up.weight", 'F', 'C', 0},      {"ffn_up.bias", 0, 'F', 0},
    {"ffn_down.weight", 'C', 'F', 0},    {"ffn_down.bias", 0, 'C', 0},
    {"output_norm.weight", 0, 'C', 1},   {"output_norm.bias", 0, 'C', 1},
};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

struct llmc_array {
    const struct dtype *type;
    uint64_t n_in, n_out, start, each; /* each: bytes of one layer's */
};

struct llmc {
    struct span bytes;
    int32_t version, n_ctx, n_vocab, n_layer, n_head, n_embd, n_padded;
    struct llmc_array arrays[N_KINDS];
};

/* ---- the header ------------------------------------------------------------------------------ */

static int is_in_layer(size_t kind)
{
    return kind >= BEFORE_LAYERS && kind < BEFORE_LAYERS + N_LAYER_KINDS;
}

enum ckpt_match llmc_sniff(struct span bytes)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    return cursor_u32(&c) == MODEL_MAGIC && !c.failed ? MATCH_YES : MATCH_NO;
}

static int llmc_read_header(struct llmc *m, struct span bytes, mgpt_error *err)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    cursor_u32(&c);
    *m = (struct llmc){.bytes = bytes, .version = cursor_i32(&c)};
    const struct {
        const char *name;
        int32_t *to, min, max;
    } sizes[] = {{"max_seq_len", &m->n_ctx, 1, MAX_DIM},
                 {"vocab_size", &m->n_vocab, 1, MAX_DIM},
                 {"num_layers", &m->n_layer, 1, CKPT_MAX_LAYERS},
                 {"num_heads", &m->n_head, 1, MAX_DIM},
                 {"channels", &m->n_embd, 1, MAX_DIM},
                 {"padded_vocab_size", &m->n_padded, 1, MAX_DIM}};
    if (bytes.size < HEADER)
        return err_set(err, MGPT_EFILE, bytes.size, "llm.c: the header needs %d bytes", HEADER);
    if (m->version < 1 || m->version > 5)
        return err_set(err, MGPT_EFILE, 4, "llm.c: version is %d, expected 1 to 5", m->version);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *sizes[i].to = cursor_i32(&c);
        if (sizes[i].to == &m->n_padded && m->version < 3)
            m->n_padded = m->n_vocab;
        if (*sizes[i].to < sizes[i].min || *sizes[i].to > sizes[i].max)
            return err_set(err, MGPT_EFILE, 8 + 4 * i, "llm.c: %s is %d, expected %d to %d",
                           sizes[i].name, *sizes[i].to, sizes[i].min, sizes[i].max);
    }
    if (m->n_embd % m->n_head)
        return err_set(err, MGPT_EFILE, 20, "llm.c: num_heads is %d, it must divide channels = %d",
                       m->n_head, m->n_embd);
    if (m->n_padded < m->n_vocab)
        return err_set(err, MGPT_EFILE, 28, "llm.c: padded_vocab_size is %d, vocab_size is %d",
                       m->n_padded, m->n_vocab);
    return MGPT_OK;
}

/* ---- the arrays ------------------------------------------------------------------------------ */

static uint64_t length(const struct llmc *m, char letter)
{
    uint64_t C = (uint64_t)m->n_embd;
    switch (letter) {
    case 'V':
        return (uint64_t)m->n_padded;
    case 'T':
        return (uint64_t)m->n_ctx;
    case 'Q':
        return 3 * C;
    case 'F':
        return 4 * C;
    default:
        return C;
    }
}

/* Where each array is. No sum overflows: the largest, 12 C^2 values of 4 bytes in each layer, is 3
 * * 2^62. */
static int find_arrays(struct llmc *m, mgpt_error *err)
{
    int is_float = m->version == 1 || m->version == 3,
        is_mixed = m->version == 2 || m->version == 4;
    uint64_t at = HEADER;
    for (size_t i = 0; i < N_KINDS; i++) {
        struct llmc_array *a = &m->arrays[i];
        int wide = is_float || (is_mixed && kinds[i].is_norm);
        a->type = dtype_find(wide ? DTYPE_F32 : DTYPE_BF16);
        a->n_in = length(m, kinds[i].n_in);
        a->n_out = kinds[i].n_out ? length(m, kinds[i].n_out) : 0;
        a->start = at;
        a->each = a->n_in * (a->n_out ? a->n_out : 1) * a->type->block_bytes;
        at += a->each * (is_in_layer(i) ? (uint64_t)m->n_layer : 1);
    }
    if (at != m->bytes.size)
        return err_set(err, MGPT_EFILE, m->bytes.size,
                       "llm.c: the file has %zu bytes, its header implies %llu", m->bytes.size,
                       (unsigned long long)at);
    return MGPT_OK;
}

static int add_array(struct checkpoint *c, const struct llmc *m, size_t kind, uint32_t layer,
                     mgpt_error *err)
{
    const struct llmc_array *a = &m->arrays[kind];
    char name[CKPT_MAX_NAME + 1];
    if (is_in_layer(kind))
        snprintf(name, sizeof name, "blk.%u.%s", layer, kinds[kind].name);
    else
        snprintf(name, sizeof name, "%s", kinds[kind].name);
    struct ckpt_tensor from = {.type = a->type,
                               .bytes = m->bytes.data + a->start + layer * a->each};
    return ckpt_add(c, name, a->n_in, kind ? a->n_out : (uint64_t)m->n_vocab, from, err);
}

static int add_arrays(struct checkpoint *c, const struct llmc *m, mgpt_error *err)
{
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < BEFORE_LAYERS; i++)
        status = add_array(c, m, i, 0, err);
    for (uint32_t layer = 0; layer < (uint32_t)m->n_layer; layer++)
        for (size_t i = BEFORE_LAYERS; status == MGPT_OK && is_in_layer(i); i++)
            status = add_array(c, m, i, layer, err);
    for (size_t i = BEFORE_LAYERS + N_LAYER_KINDS; status == MGPT_OK && i < N_KINDS; i++)
        status = add_array(c, m, i, 0, err);
    return status;
}

/* ---- the vocabulary -------------------------------------------------------------------------- */

static int is_tokens(struct span bytes)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    return cursor_u32(&c) == TOKENS_MAGIC && !c.failed;
}

static int bad_tokens(const struct ckpt_side *side, const char *what, mgpt_error *err)
{
    return ckpt_refuse(err, "tokenizer %.60s: %s", side->name, what);
}

/* All tokens but the end of text into *ranks, an stb_ds array. */
static int llmc_read_tokens(const struct ckpt_side *side, struct tiktoken_token **ranks,
                            struct tiktoken_token *end, mgpt_error *err)
{
    struct cursor c = cursor_over(side->bytes.data, side->bytes.size);
    uint32_t magic = cursor_u32(&c);
    int32_t version = cursor_i32(&c), n = cursor_i32(&c), last = cursor_i32(&c);
    if (side->bytes.size < HEADER || magic != TOKENS_MAGIC || version < 1 || version > 2 || n < 1 ||
        n > MAX_DIM)
        return bad_tokens(side, "its header is not one of llm.c's", err);
    end->rank = version == 2 ? last : n - 1;
    c.pos = HEADER;
    for (int32_t i = 0; i < n; i++) {
        uint8_t length_of = cursor_u8(&c);
        struct tiktoken_token t = {{(const char *)side->bytes.data + c.pos, length_of}, i};
        if (c.failed || length_of > side->bytes.size - c.pos)
            return bad_tokens(side, "it ends inside a token", err);
        c.pos += length_of;
        if (i == end->rank)
            end->text = t.text;
        else if (!arr_push(*ranks, t))
            return err_memory(err, "the vocabulary", sizeof t);
    }
    return end->text.p ? MGPT_OK : bad_tokens(side, "it has no end of text", err);
}

static int own_vocabulary(struct checkpoint *c, const struct ckpt_side *side, uint64_t n_vocab,
                          mgpt_error *err)
{
    static const char pattern[] =
        "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    struct tiktoken_token *ranks = NULL, end = {{NULL, 0}, 0};
    int status = llmc_read_tokens(side, &ranks, &end, err);
    char *name = status == MGPT_OK ? ckpt_text(c, end.text.p, end.text.n) : NULL;
    if (status == MGPT_OK && !name)
        status = err_memory(err, "the vocabulary", end.text.n);
    struct tiktoken t = {.ranks = ranks,
                         .n_ranks = arr_len(ranks),
                         .specials = &end,
                         .n_specials = 1,
                         .pattern = {pattern, sizeof pattern - 1},
                         .eos = name};
    if (status == MGPT_OK)
        status = tiktoken_read(c, &t, n_vocab, err);
    if (status ==
        MGPT_OK) { /* as GPT-2 has it: nothing puts BOS in front, and every token is merged */
        c->vocab.bos = (int32_t)end.rank;
        c->vocab.whole_pieces = -1;
    }
    arr_free(ranks);
    return status;
}

static int llmc_vocabulary(struct checkpoint *c, const struct ckpt_input *in, uint64_t n_vocab,
                           mgpt_error *err)
{
    static const char *const name = "gpt2_tokenizer.bin";
    struct ckpt_side side;
    if (in->options->given & OPT_NO_TOKENIZER) {
        ckpt_note(c, "no vocabulary: the model will run on token ids only");
        return MGPT_OK;
    }
    int found = in->side(in->user, OPT_TOKENIZER, &name, 1, &side, err);
    if (found < 0)
        return found;
    if (found && (is_tokens(side.bytes) || !(in->options->given & OPT_TOKENIZER)))
        return own_vocabulary(c, &side, n_vocab, err);
    return hf_tokenizer_read(c, in, n_vocab, err);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void llmc_describe(struct checkpoint *c, const struct llmc *m)
{
    char format[48];
    int n = snprintf(format, sizeof format, "llm.c .bin version %d", m->version);
    const char *text = ckpt_text(c, format, (size_t)n);
    c->format = text ? text : c->format;
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

int llmc_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct llmc m;
    int status = llmc_read_header(&m, in->bytes, err);
    if (status == MGPT_OK)
        status = find_arrays(&m, err);
    if (status < 0)
        return status;
    llmc_describe(c, &m);
    status = add_arrays(c, &m, err);
    return status < 0 ? status : llmc_vocabulary(c, in, c->hp.n_vocab, err);
}
