/* gpt-oss: its router and experts ("put gpt_oss" of models.txt). See hf_special.h.
 *
 * Row 2i of gate_up_proj is row i of the gate, row 2i + 1 row i of up. Two layouts are read, by the names of
 * the tensors, X experts of [n_out, n_in]:
 *     NAME           [X, n_in, n_out]  transposed
 *     NAME_blocks    [X, n_out, n_in / 32, 16] bytes: columns 2k (low bits) and 2k + 1 of a block in byte k
 *     NAME_scales    [X, n_out, n_in / 32] bytes: exponents of powers of two, plus 127
 * Blocks and scales are GGUF's MXFP4 in another order: in GGUF, columns k and k + 16 of a block share a byte.
 */
#include "convert/families/hf_special.h"

#include <math.h>
#include <stdio.h>

enum { COLUMNS = 32, PAIRS = COLUMNS / 2 }; /* of a block */

struct mxfp4_rows {
    struct state_packed base; /* the first member: base.values gets its address */
    const uint8_t *blocks, *scales;
    uint64_t n_blocks; /* of a row */
};

/* ---- config.json ----------------------------------------------------------------------------- */

void hf_gpt_oss(struct hf_model *m)
{
    static const char alpha[] = "swiglu_alpha";
    double limit = hf_num(m, "swiglu_limit", 7, 1e-6, 1e6);
    if (limit != 7) /* the architecture's */
        m->c->hp.glu_limit = (float)limit;
    if (hf_any(m, alpha, 1.702) != 1.702)
        hf_stop(m, "%s: only 1.702 is supported", alpha);
    if (!hf_get(m, "rope_parameters") && !hf_get(m, "rope_scaling"))
        hf_stop(m, "rope_scaling: missing; GptOssForCausalLM would take YaRN's of gpt-oss-20b");
}

/* ---- MXFP4 ----------------------------------------------------------------------------------- */

static unsigned nibble_at(const uint8_t *pairs, size_t column)
{
    return pairs[column / 2] >> column % 2 * 4 & 15;
}

static void mxfp4_values_of(const struct state_packed *base, uint64_t row, uint64_t first, size_t n,
                            float *out)
{
    const struct mxfp4_rows *m = (const struct mxfp4_rows *)base;
    for (size_t i = 0; i < n; i++) {
        uint64_t block = row * m->n_blocks + (first + i) / COLUMNS;
        unsigned nibble = nibble_at(m->blocks + block * PAIRS, (first + i) % COLUMNS);
        out[i] = ldexpf((float)mxfp4_values[nibble], m->scales[block] - 128);
    }
}

static void mxfp4_blocks_of(const struct state_packed *base, uint64_t row, uint64_t first, size_t n,
                            uint8_t *out)
{
    const struct mxfp4_rows *m = (const struct mxfp4_rows *)base;
    uint64_t block = row * m->n_blocks + first / COLUMNS;
    for (size_t i = 0; i < n; i += COLUMNS, block++) {
        const uint8_t *pairs = m->blocks + block * PAIRS;
        *out++ = m->scales[block];
        for (size_t k = 0; k < PAIRS; k++)
            *out++ = (uint8_t)(nibble_at(pairs, k) | nibble_at(pairs, k + PAIRS) << 4);
    }
}

/* The bytes of a tensor, whose shape must be these n_dims numbers. */
static const uint8_t *bytes_of(struct hf_model *m, const struct state_tensor *t, uint32_t n_dims,
                               const uint64_t *shape)
{
    uint64_t each = 1;
    int fits = t->type == STATE_U8 && t->n_dims == n_dims;
    for (uint32_t left = n_dims; fits && left > 0; left--) {
        fits = t->shape[left - 1] == shape[left - 1] && t->strides[left - 1] == each;
        each = fits ? each * shape[left - 1] : each;
    }
    if (!fits)
        ckpt_stop_tensor(m->c, t->name, "expected contiguous U8 [%llu, %llu, %llu%s]",
                         (unsigned long long)shape[0], (unsigned long long)shape[1],
                         (unsigned long long)shape[2], n_dims > 3 ? ", 16" : "");
    return t->bytes.data;
}

/* The matrices of all experts as one of X * n_out rows; NULL: they are not in MXFP4. */
static const struct state_tensor *mxfp4_matrix(struct hf_model *m, uint32_t layer, const char *name,
                                               uint64_t n_out, uint64_t n_in)
{
    const uint64_t X = m->c->hp.n_expert, shape[] = {X, n_out, n_in / COLUMNS, PAIRS};
    char full[256];
    snprintf(full, sizeof full, "layers.%u.mlp.experts.%s_blocks", layer, name);
    const struct state_tensor *blocks = state_find(&m->state, full);
    if (!blocks)
        return NULL;
    if (n_in % COLUMNS)
        hf_stop(m, "%llu columns of MXFP4 are not whole blocks of %d", (unsigned long long)n_in,
                COLUMNS);
    struct mxfp4_rows *rows = ckpt_new(m->c, 1, sizeof *rows);
    struct state_tensor *matrix = ckpt_new(m->c, 1, sizeof *matrix);
    *rows = (struct mxfp4_rows){
        .base = {dtype_find(DTYPE_MXFP4), mxfp4_values_of, mxfp4_blocks_of},
        .blocks = bytes_of(m, blocks, 4, shape),
        .scales =
            bytes_of(m, hf_tensor(m, "layers.%u.mlp.experts.%s_scales", layer, name), 3, shape),
        .n_blocks = n_in / COLUMNS};
    *matrix = (struct state_tensor){.name = blocks->name,
                                    .type = STATE_OTHER,
                                    .n_dims = 2,
                                    .shape = {X * n_out, n_in},
                                    .packed = &rows->base};
    return matrix;
}

/* ---- experts --------------------------------------------------------------------------------- */

/* One matrix: rows `first`, first + step, ... of those in the tensor, or all (step 1). */
static const struct oss_matrix {
    const char *stem, *name;
    uint64_t first, step;
    int is_down;
} matrices[] = {{"ffn_gate_exps", "gate_up_proj", 0, 2, 0},
                {"ffn_up_exps", "gate_up_proj", 1, 2, 0},
                {"ffn_down_exps", "down_proj", 0, 1, 1}};

static void put_oss_matrix(struct hf_model *m, uint32_t layer, const struct oss_matrix *x)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    uint64_t X = hp->n_expert, n_out = x->is_down ? hp->n_embd : hp->n_ff;
    uint64_t n_in = x->is_down ? hp->n_ff : hp->n_embd;
    const struct state_tensor *packed = mxfp4_matrix(m, layer, x->name, n_out * x->step, n_in);
    struct state_part *parts = ckpt_new(m->c, X, sizeof *parts);
    *parts = (struct state_part){
        .tensor = packed, .first = x->first, .n_rows = n_out, .block = 1, .step = x->step};
    if (packed)
        parts->n_rows *= X;
    else
        hf_split_experts(m, hf_tensor(m, "layers.%u.mlp.experts.%s", layer, x->name), n_in,
                         n_out * x->step, parts);
    struct ckpt_tensor *t = hf_add(m, layer, x->stem, n_in, parts, packed ? 1 : X);
    t->n_dims = 3;
    t->dims[1] = n_out;
    t->dims[2] = X;
}

/* A row of biases for each expert. */
static void put_biases(struct hf_model *m, uint32_t layer, const struct oss_matrix *x)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    uint64_t n = x->is_down ? hp->n_embd : hp->n_ff;
    const struct state_tensor *t = hf_tensor(m, "layers.%u.mlp.experts.%s_bias", layer, x->name);
    struct state_tensor view = *hf_shaped(m, t, hp->n_expert, n * x->step);
    char name[CKPT_MAX_NAME + 1];
    view.shape[1] = n;
    view.strides[1] *= x->step;
    view.bytes.data += x->first * t->strides[1] * state_type_bytes(t->type);
    snprintf(name, sizeof name, "blk.%u.%s.bias", layer, x->stem);
    state_put(m->c, name, n, &(struct state_part){.tensor = &view, .n_rows = hp->n_expert}, 1, 0);
}

static void put_vector(struct hf_model *m, uint32_t layer, const char *to, const char *from,
                       uint64_t n)
{
    char name[CKPT_MAX_NAME + 1];
    const struct state_tensor *t = hf_shaped(m, hf_tensor(m, "layers.%u.%s", layer, from), 0, n);
    snprintf(name, sizeof name, "blk.%u.%s", layer, to);
    state_put(m->c, name, 0, &(struct state_part){.tensor = t, .n_rows = n}, 1, 0);
}

void hf_put_gpt_oss(struct hf_model *m)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const struct state_tensor *router = hf_tensor(m, "layers.%u.mlp.router.weight", i);
        const struct state_part part = {.tensor = hf_shaped(m, router, hp->n_expert, hp->n_embd),
                                        .n_rows = hp->n_expert};
        hf_add(m, i, "ffn_gate_inp", hp->n_embd, &part, 1);
        put_vector(m, i, "ffn_gate_inp.bias", "mlp.router.bias", hp->n_expert);
        for (size_t k = 0; k < HF_COUNT(matrices); k++) {
            put_oss_matrix(m, i, &matrices[k]);
            put_biases(m, i, &matrices[k]);
        }
    }
}
