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
#include "convert/core/readers.h"

#include <stdio.h>
#include <string.h>

#define MAGIC 0x616b3432u /* "24ka" in the file */
#define V0_HEADER 28u
#define V1_HEADER 256u
#define MAX_DIM (1 << 24)
#define EPS 1e-5f
#define ROPE_BASE 10000.0f

enum kind {
    EMBD,
    ATTN_NORM,
    WQ,
    WK,
    WV,
    WO,
    FFN_NORM,
    W1,
    W2,
    W3,
    NORM,
    ROPE_TABLES,
    HEAD,
    N_KINDS
};

static const struct {
    const char *name; /* GGUF's; NULL: not kept */
    char per_layer;
    char n_in, n_out; /* D dim, K kv_dim, H hidden_dim, V vocabulary, R rope table; 0: a vector */
} kinds[N_KINDS] = {
    [EMBD] = {"token_embd.weight", 0, 'D', 'V'}, [ATTN_NORM] = {"attn_norm.weight", 1, 'D', 0},
    [WQ] = {"attn_q.weight", 1, 'D', 'D'},       [WK] = {"attn_k.weight", 1, 'D', 'K'},
    [WV] = {"attn_v.weight", 1, 'D', 'K'},       [WO] = {"attn_output.weight", 1, 'D', 'D'},
    [FFN_NORM] = {"ffn_norm.weight", 1, 'D', 0}, [W1] = {"ffn_gate.weight", 1, 'D', 'H'},
    [W2] = {"ffn_down.weight", 1, 'H', 'D'},     [W3] = {"ffn_up.weight", 1, 'D', 'H'},
    [NORM] = {"output_norm.weight", 0, 'D', 0},  [ROPE_TABLES] = {NULL, 0, 'R', 0},
    [HEAD] = {"output.weight", 0, 'D', 'V'},
};

/* Orders of the arrays in the file. */
static const enum kind order_v0[] = {EMBD, ATTN_NORM, WQ, WK,   WV,          WO,  FFN_NORM,
                                     W1,   W2,        W3, NORM, ROPE_TABLES, HEAD};
static const enum kind order_v1[] = {ATTN_NORM, FFN_NORM, NORM, EMBD, WQ, WK,
                                     WV,        WO,       W1,   W2,   W3, HEAD};

/* Order of the tensors of a layer in GGUF files. */
static const enum kind layer_order[] = {ATTN_NORM, WQ, WK, WV, WO, FFN_NORM, W1, W2, W3};

#define COUNT(a) (sizeof(a) / sizeof *(a))

struct llama2c_array {
    uint64_t n_in, n_out, n_values; /* of one tensor */
    uint64_t start, each;           /* bytes in the file */
    int quantised;
};

struct llama2c {
    struct span bytes;
    int version; /* -1: a magic number with a version that is none */
    int32_t dim, hidden, n_layers, n_heads, n_kv, n_vocab, n_ctx;
    int shared;
    int32_t group;
    struct llama2c_array arrays[N_KINDS];
    uint64_t size; /* that the file must have */
};

/* ---- the header ------------------------------------------------------------------------------ */

static void read_sizes(struct llama2c *m, struct cursor *c)
{
    m->dim = cursor_i32(c);
    m->hidden = cursor_i32(c);
    m->n_layers = cursor_i32(c);
    m->n_heads = cursor_i32(c);
    m->n_kv = cursor_i32(c);
    m->n_vocab = cursor_i32(c);
    m->n_ctx = cursor_i32(c);
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
        read_sizes(m, &c);
        m->shared = cursor_u8(&c) != 0;
        m->group = m->version == 2 ? cursor_i32(&c) : 0;
        return !c.failed && bytes.size >= V1_HEADER;
    }
    c = cursor_over(bytes.data, bytes.size);
    read_sizes(m, &c);
    m->shared = m->n_vocab > 0;
    if (m->n_vocab < 0 && m->n_vocab >= -MAX_DIM)
        m->n_vocab = -m->n_vocab;
    return !c.failed;
}

/* The header's quantities, with what each may be. */
static int check_sizes(const struct llama2c *m, mgpt_error *err)
{
    const struct {
        const char *name;
        int32_t value, min, max;
    } sizes[] = {
        {"dim", m->dim, 1, MAX_DIM},
        {"hidden_dim", m->hidden, 1, MAX_DIM},
        {"n_heads", m->n_heads, 1, MAX_DIM},
        {"n_kv_heads", m->n_kv, 1, MAX_DIM},
        {"vocab_size", m->n_vocab, 1, MAX_DIM},
        {"seq_len", m->n_ctx, 1, MAX_DIM},
        {"n_layers", m->n_layers, 0, CKPT_MAX_LAYERS},
    };
    for (size_t i = 0; i < COUNT(sizes); i++)
        if (sizes[i].value < sizes[i].min || sizes[i].value > sizes[i].max)
            return ckpt_refuse(err, "llama2.c header: %s is %d, expected %d to %d", sizes[i].name,
                               sizes[i].value, sizes[i].min, sizes[i].max);
    if (m->dim % m->n_heads || m->dim / m->n_heads % 2)
        return ckpt_refuse(err, "llama2.c header: dim %d does not give %d heads of an even width",
                           m->dim, m->n_heads);
    if (m->n_heads % m->n_kv)
        return ckpt_refuse(err, "llama2.c header: n_kv_heads %d does not divide n_heads %d",
                           m->n_kv, m->n_heads);
    return MGPT_OK;
}

/* ---- the arrays ------------------------------------------------------------------------------ */

static uint64_t llama2c_size_of(const struct llama2c *m, char letter)
{
    int64_t head = m->dim / m->n_heads;
    switch (letter) {
    case 'D':
        return (uint64_t)m->dim;
    case 'K':
        return (uint64_t)(head * m->n_kv);
    case 'H':
        return (uint64_t)m->hidden;
    case 'V':
        return (uint64_t)m->n_vocab;
    case 'R': /* cosines and sines, half a head each */
        return (uint64_t)(head * m->n_ctx);
    default:
        return 0;
    }
}

/* Shape and bytes of one kind; sizes are below 2^24, so a product of two cannot overflow. */
static int llama2c_measure(const struct llama2c *m, enum kind kind, struct llama2c_array *a,
                           mgpt_error *err)
{
    a->n_in = llama2c_size_of(m, kinds[kind].n_in);
    a->n_out = llama2c_size_of(m, kinds[kind].n_out);
    a->n_values = a->n_in * (a->n_out ? a->n_out : 1);
    a->quantised = m->version == 2 && a->n_out;
    a->each = 4 * a->n_values;
    if (!a->quantised)
        return MGPT_OK;
    if (m->group < 1 || a->n_values % (uint64_t)m->group)
        return err_set(err, MGPT_EFILE, 37,
                       "llama2.c header: group size %d does not divide the %llu values of %s",
                       m->group, (unsigned long long)a->n_values, kinds[kind].name);
    a->each = a->n_values + 4 * (a->n_values / (uint64_t)m->group);
    return MGPT_OK;
}

/* Places all arrays; m->size becomes the size of the file they need. An array is below 2^51 bytes,
 * so seven per layer in 1024 layers stay below 2^64. */
static int lay_out(struct llama2c *m, mgpt_error *err)
{
    const enum kind *order = m->version ? order_v1 : order_v0;
    size_t n = m->version ? COUNT(order_v1) : COUNT(order_v0);
    m->size = m->version ? V1_HEADER : V0_HEADER;
    for (size_t i = 0; i < n; i++) {
        struct llama2c_array *a = &m->arrays[order[i]];
        if (order[i] == HEAD && m->shared)
            continue;
        if (llama2c_measure(m, order[i], a, err) < 0)
            return MGPT_EFILE;
        a->start = m->size;
        m->size += a->each * (kinds[order[i]].per_layer ? (uint64_t)m->n_layers : 1);
    }
    return MGPT_OK;
}

static int check_file_size(const struct llama2c *m, mgpt_error *err)
{
    if (m->size == m->bytes.size)
        return MGPT_OK;
    return ckpt_refuse(
        err,
        "llama2.c version %d, dim %d, hidden %d, layers %d, heads %d/%d, vocab %d, seq "
        "%d: expected %llu bytes, found %zu",
        m->version, m->dim, m->hidden, m->n_layers, m->n_heads, m->n_kv, m->n_vocab, m->n_ctx,
        (unsigned long long)m->size, m->bytes.size);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* source: the int8 values, then the scales; at: values in a group. Groups may span rows. */
static void group_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const uint8_t *q = t->source, *scales = q + t->n_values;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = first + i;
        float scale;
        int8_t value;
        memcpy(&scale, scales + at / t->at * sizeof scale, sizeof scale);
        memcpy(&value, q + at, 1);
        out[i] = (float)value * scale;
    }
}

static void llama2c_add(struct checkpoint *c, const struct llama2c *m, enum kind kind,
                        int32_t layer)
{
    const struct llama2c_array *a = &m->arrays[kind];
    const uint8_t *p = m->bytes.data + a->start + a->each * (uint64_t)layer;
    struct ckpt_tensor from = {.bytes = p};
    char name[CKPT_MAX_NAME + 1];
    if (a->quantised)
        from = (struct ckpt_tensor){.values = group_values, .source = p, .at = (uint64_t)m->group};
    if (kinds[kind].per_layer)
        snprintf(name, sizeof name, "blk.%d.%s", layer, kinds[kind].name);
    else
        snprintf(name, sizeof name, "%s", kinds[kind].name);
    ckpt_add(c, name, a->n_in, a->n_out, from);
}

static void add_tensors(struct checkpoint *c, const struct llama2c *m)
{
    llama2c_add(c, m, EMBD, 0);
    for (int32_t il = 0; il < m->n_layers; il++)
        for (size_t i = 0; i < COUNT(layer_order); i++)
            llama2c_add(c, m, layer_order[i], il);
    llama2c_add(c, m, NORM, 0);
    if (!m->shared)
        llama2c_add(c, m, HEAD, 0);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void set_hparams(struct checkpoint *c, const struct llama2c *m)
{
    static const char *const formats[] = {"llama2.c .bin version 0", "llama2.c .bin version 1",
                                          "llama2.c .bin version 2 (int8)"};
    c->format = formats[m->version];
    c->hp = (struct ckpt_hparams){.arch = "llama",
                                  .n_ctx = (uint32_t)m->n_ctx,
                                  .n_embd = (uint32_t)m->dim,
                                  .n_layer = (uint32_t)m->n_layers,
                                  .n_ff = (uint32_t)m->hidden,
                                  .n_head = (uint32_t)m->n_heads,
                                  .n_head_kv = (uint32_t)m->n_kv,
                                  .n_vocab = (uint32_t)m->n_vocab,
                                  .n_rot = (uint32_t)(m->dim / m->n_heads),
                                  .rope_base = ROPE_BASE,
                                  .norm_eps = EPS};
    ckpt_note(c, "inferred: eps = 1e-05, rope base = 10000 (llama2.c's, not in the file)");
    if (m->shared)
        ckpt_note(c, "inferred: the head is the token embedding (shared classifier)");
    if (m->version == 2)
        ckpt_note(c, "int8 weights in groups of %d become floats", m->group);
}

static void set_vocabulary(struct checkpoint *c, const struct llama2c *m,
                           const struct ckpt_input *in)
{
    char own[32];
    snprintf(own, sizeof own, "tok%d.bin", m->n_vocab);
    const char *const candidates[] = {own, "tokenizer.bin"};
    struct ckpt_side side;
    if (in->options->given & OPT_NO_TOKENIZER) {
        ckpt_note(c, "no vocabulary: the model will run on token ids only");
        return;
    }
    if (!ckpt_side(c, in, OPT_TOKENIZER, candidates, COUNT(candidates), &side))
        ckpt_stop(c,
                  "no tokenizer: neither %s nor tokenizer.bin is next to it; give one with "
                  "--tokenizer FILE",
                  own);
    ckpt_note_tokenizer(c, in, side.name);
    llama2c_vocabulary(c, side.bytes, side.name, (uint64_t)m->n_vocab);
}

enum ckpt_match llama2c_sniff(struct span bytes)
{
    struct llama2c m;
    if (bytes.size >= 4 && memcmp(bytes.data, "24ka", 4) == 0)
        return MATCH_YES;
    if (!llama2c_read_header(&m, bytes) || check_sizes(&m, NULL) < 0 || lay_out(&m, NULL) < 0)
        return MATCH_NO;
    return m.size == bytes.size ? MATCH_YES : MATCH_MAYBE;
}

int llama2c_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct llama2c m;
    int whole = llama2c_read_header(&m, in->bytes);
    if (whole && m.version < 0)
        return err_set(err, MGPT_EFILE, 4, "llama2.c: expected version 1 or 2");
    if (!whole)
        return err_set(err, MGPT_EFILE, in->bytes.size,
                       "llama2.c: the file ends at byte %zu inside its header", in->bytes.size);
    ckpt_must(c, check_sizes(&m, err));
    ckpt_must(c, lay_out(&m, err));
    ckpt_must(c, check_file_size(&m, err));
    set_hparams(c, &m);
    add_tensors(c, &m);
    set_vocabulary(c, &m, in);
    return MGPT_OK;
}
