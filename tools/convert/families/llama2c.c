/* Reader: llama2.c's .bin files, versions 0 (no magic), 1 and 2 (int8 in groups).
 *
 *     version 0:  7 x i32, then f32 arrays
 *     1 and 2:    "24ka", i32 version, 7 x i32, u8 shared classifier, [i32 group size], zeros to 256
 *     the 7:      dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len
 *
 * Arrays hold all layers of one kind, in the order of a table below. In version 0 a negative
 * vocabulary size means a separate classifier. Version 2 stores a matrix as int8 values, then one
 * f32 scale for each group of them. The size of the file must be exactly what the header implies:
 * it is the only check that a file without a magic number can get, and it bounds everything that is
 * derived.
 */
#include "convert/families/llama2c.h"
#include "base/cursor.h"
#include "base/error.h"
#include "convert/families/written.h"

#include <string.h>

#define MAGIC 0x616b3432u /* "24ka" in the file */
#define V0_HEADER 28u
#define V1_HEADER 256u
#define MAX_DIM (1 << 24)
#define EPS 1e-5f
#define ROPE_BASE 10000.0f
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct written_row rows[] = {
    {"token_embd.weight", 'V', 'E', 0},     {"blk.N.attn_norm.weight", 0, 'E', 0},
    {"blk.N.attn_q.weight", 'E', 'E', 0},   {"blk.N.attn_k.weight", 'K', 'E', 0},
    {"blk.N.attn_v.weight", 'K', 'E', 0},   {"blk.N.attn_output.weight", 'E', 'E', 0},
    {"blk.N.ffn_norm.weight", 0, 'E', 0},   {"blk.N.ffn_gate.weight", 'F', 'E', 0},
    {"blk.N.ffn_down.weight", 'E', 'F', 0}, {"blk.N.ffn_up.weight", 'F', 'E', 0},
    {"output_norm.weight", 0, 'E', 0},      {NULL, 'T', 'H', 0}, /* version 0: rope tables */
    {"output.weight", 'V', 'E', 0},
};

/* Order of the arrays of versions 1 and 2; version 0 has that of the rows. The head is last, so that it
 * can be left out. */
static const uint8_t order_v1[] = {1, 6, 10, 0, 2, 3, 4, 5, 7, 8, 9, 12};

/* The numbers of the header, in its order. */
enum { DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, CONTEXT, N_NUMBERS };
static const struct {
    const char *name;
    int32_t min, max;
} numbers[N_NUMBERS] = {
    {"dim", 1, MAX_DIM},     {"hidden_dim", 1, MAX_DIM}, {"n_layers", 0, CKPT_MAX_LAYERS},
    {"n_heads", 1, MAX_DIM}, {"n_kv_heads", 1, MAX_DIM}, {"vocab_size", 1, MAX_DIM},
    {"seq_len", 1, MAX_DIM},
};

struct llama2c {
    struct span bytes;
    int version; /* -1: a magic number with a version that is none */
    int32_t numbers[N_NUMBERS];
    int shared;
    int32_t group;
    struct ckpt_hparams hp;
    struct written arrays;
    uint64_t size; /* that the file must have */
};

/* ---- the header ------------------------------------------------------------------------------ */

static void read_header_numbers(struct llama2c *m, struct cursor *c)
{
    for (size_t i = 0; i < N_NUMBERS; i++)
        m->numbers[i] = cursor_i32(c);
}

/* Returns 0 when the file is too short for its header. */
static int llama2c_read_header(struct llama2c *m, struct span bytes)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    *m = (struct llama2c){.bytes = bytes};
    if (cursor_u32(&c) == MAGIC) {
        m->version = cursor_i32(&c);
        if (m->version != 1 && m->version != 2)
            m->version = -1;
        read_header_numbers(m, &c);
        m->shared = cursor_u8(&c) != 0;
        m->group = m->version == 2 ? cursor_i32(&c) : 0;
        return !c.failed && bytes.size >= V1_HEADER;
    }
    c = cursor_over(bytes.data, bytes.size);
    read_header_numbers(m, &c);
    int32_t *n_vocab = &m->numbers[VOCAB];
    m->shared = *n_vocab > 0;
    if (*n_vocab < 0 && *n_vocab >= -MAX_DIM)
        *n_vocab = -*n_vocab;
    return !c.failed;
}

static int check_numbers(const int32_t v[N_NUMBERS], mgpt_error *err)
{
    for (size_t i = 0; i < N_NUMBERS; i++)
        if (v[i] < numbers[i].min || v[i] > numbers[i].max)
            return ckpt_refuse(err, "llama2.c header: %s is %d, expected %d to %d", numbers[i].name,
                               v[i], numbers[i].min, numbers[i].max);
    if (v[DIM] % v[HEADS] || v[DIM] / v[HEADS] % 2)
        return ckpt_refuse(err, "llama2.c header: dim %d does not give %d heads of an even width",
                           v[DIM], v[HEADS]);
    if (v[HEADS] % v[KV_HEADS])
        return ckpt_refuse(err, "llama2.c header: n_kv_heads %d does not divide n_heads %d",
                           v[KV_HEADS], v[HEADS]);
    return MGPT_OK;
}

static int check_groups(const struct llama2c *m, mgpt_error *err)
{
    for (size_t i = 0; m->version == 2 && i < m->arrays.n_rows; i++) {
        uint64_t n = rows[i].n_out && rows[i].name ? written_values(&m->hp, &rows[i]) : 0;
        if (m->group < 1 || n % (uint64_t)m->group)
            return err_set(err, MGPT_EFILE, 37,
                           "llama2.c header: group size %d does not divide the %llu values of %s",
                           m->group, (unsigned long long)n, rows[i].name);
    }
    return MGPT_OK;
}

/* Places all arrays. An array is below 2^51 bytes, so seven per layer in 1024 layers stay below 2^64. */
static int lay_out(struct llama2c *m, mgpt_error *err)
{
    const int32_t *v = m->numbers;
    size_t head = m->shared ? 1 : 0;
    if (check_numbers(v, err) < 0)
        return MGPT_EFILE;
    m->hp = (struct ckpt_hparams){.arch = "llama",
                                  .n_ctx = (uint32_t)v[CONTEXT],
                                  .n_embd = (uint32_t)v[DIM],
                                  .n_layer = (uint32_t)v[LAYERS],
                                  .n_ff = (uint32_t)v[HIDDEN],
                                  .n_head = (uint32_t)v[HEADS],
                                  .n_head_kv = (uint32_t)v[KV_HEADS],
                                  .n_vocab = (uint32_t)v[VOCAB],
                                  .n_rot = (uint32_t)(v[DIM] / v[HEADS]),
                                  .rope_base = ROPE_BASE,
                                  .norm_eps = EPS};
    const struct dtype *f32 = dtype_find(DTYPE_F32);
    m->arrays = (struct written){.rows = rows,
                                 .n_rows = COUNT(rows) - head,
                                 .order = m->version ? order_v1 : NULL,
                                 .n_order = (m->version ? COUNT(order_v1) : COUNT(rows)) - head,
                                 .type = f32,
                                 .norm_type = f32,
                                 .group = (uint64_t)m->group};
    if (check_groups(m, err) < 0)
        return MGPT_EFILE;
    m->size = written_place(&m->arrays, &m->hp, m->version ? V1_HEADER : V0_HEADER);
    return MGPT_OK;
}

/* ---- the model ------------------------------------------------------------------------------- */

static void check_file_size(struct checkpoint *c, const struct llama2c *m)
{
    const int32_t *v = m->numbers;
    if (m->size != m->bytes.size)
        ckpt_stop(c,
                  "llama2.c version %d, dim %d, hidden %d, layers %d, heads %d/%d, vocab %d, seq "
                  "%d: expected %llu bytes, found %zu",
                  m->version, v[DIM], v[HIDDEN], v[LAYERS], v[HEADS], v[KV_HEADS], v[VOCAB],
                  v[CONTEXT], (unsigned long long)m->size, m->bytes.size);
}

static void llama2c_describe(struct checkpoint *c, const struct llama2c *m)
{
    static const char *const formats[] = {"llama2.c .bin version 0", "llama2.c .bin version 1",
                                          "llama2.c .bin version 2 (int8)"};
    c->format = formats[m->version];
    c->hp = m->hp;
    ckpt_note(c, "inferred: eps = 1e-05, rope base = 10000 (llama2.c's, not in the file)");
    if (m->shared)
        ckpt_note(c, "inferred: the head is the token embedding (shared classifier)");
    if (m->version == 2)
        ckpt_note(c, "int8 weights in groups of %d become floats", m->group);
}

static void set_vocabulary(struct checkpoint *c, const struct ckpt_input *in)
{
    struct ckpt_side side;
    if (in->options->given & OPT_NO_TOKENIZER) {
        ckpt_note(c, "no vocabulary: the model will run on token ids only");
        return;
    }
    if (!llama2c_find_tokens(c, in, &side))
        ckpt_stop(c,
                  "no tokenizer: neither tok%u.bin nor tokenizer.bin is next to it; give one with "
                  "--tokenizer FILE",
                  c->hp.n_vocab);
    ckpt_note_tokenizer(c, in, side.name);
    llama2c_vocabulary(c, side.bytes, side.name, c->hp.n_vocab);
}

enum ckpt_match llama2c_sniff(struct span bytes)
{
    struct llama2c m;
    if (bytes.size >= 4 && memcmp(bytes.data, "24ka", 4) == 0)
        return MATCH_YES;
    if (!llama2c_read_header(&m, bytes) || lay_out(&m, NULL) < 0)
        return MATCH_NO;
    return m.size == bytes.size ? MATCH_YES : MATCH_MAYBE;
}

void llama2c_read(struct checkpoint *c, const struct ckpt_input *in)
{
    struct llama2c m;
    int whole = llama2c_read_header(&m, in->bytes);
    if (whole && m.version < 0)
        ckpt_stop_at(c, 4, "llama2.c: expected version 1 or 2");
    if (!whole)
        ckpt_stop_at(c, in->bytes.size, "llama2.c: the file ends at byte %zu inside its header",
                     in->bytes.size);
    ckpt_must(c, lay_out(&m, c->err));
    check_file_size(c, &m);
    llama2c_describe(c, &m);
    written_add(c, &m.arrays, in->bytes);
    set_vocabulary(c, in);
}
