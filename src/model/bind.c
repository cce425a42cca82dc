/* Binding: assigns the file's tensors to the model's fields, from a table of slots. Matrices are
 * only planned here; pack.c packs them after everything has been checked.
 *
 * A slot states a tensor's name, its destination, its shape, and the architectures that require or
 * allow it. A missing tensor, another shape, and a tensor without a slot are errors that name the
 * tensor. Ignoring one of them would run a wrong model.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "model/hyperparams.h"
#include "model/model.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Sets of architectures. */
enum {
    ALL = INT_MAX,
    ATTENTION = ALL & ~ARCH_SHORTCONV,
    LFM2 = ARCH_LFM2 | ARCH_SHORTCONV,
    FUSED = ARCH_GPT1 | ARCH_GPT2 | ARCH_GPTNEOX | ARCH_PHI2 | ARCH_PHI3 | ARCH_BLOOM |
            ARCH_FALCON | ARCH_GLM4, /* q, k, v in one tensor, or three */
    NO_INPUT = ARCH_OLMO2 | ARCH_EXAONE4,
    PRE_NORM = ALL & ~(ARCH_MICROGPT | ARCH_OLMO | NO_INPUT | ARCH_NANOCHAT | ARCH_GPT1),
    NORM_BIAS = ARCH_GPT2 | ARCH_GPTNEOX | ARCH_PHI2 | ARCH_STABLELM | ARCH_BLOOM | ARCH_FALCON,
    ONE_NORM = ARCH_PHI2 | ARCH_STABLELM | ARCH_COHERE | ARCH_FALCON, /* may be for both branches */
    GATED = ARCH_LLAMA | ARCH_QWEN2 | ARCH_QWEN3 | ARCH_GEMMA2 | ARCH_GEMMA3 | ARCH_OLMO |
            ARCH_OLMO2 | ARCH_OLMOE | ARCH_SMOLLM3 | ARCH_STABLELM | ARCH_COHERE | ARCH_SEED_OSS |
            ARCH_EXAONE4 | LFM2,
    GATED_UP = ARCH_PHI3 | ARCH_GLM4, /* gate and up in one tensor */
    POST_NORM = ARCH_GEMMA2 | ARCH_GEMMA3 | NO_INPUT | ARCH_GLM4,
    QK_NORMS = ARCH_QWEN3 | ARCH_GEMMA3 | ARCH_EXAONE4 | ARCH_LFM2,
    ROPED = ALL & ~(ARCH_MICROGPT | ARCH_GPT1 | ARCH_GPT2 | ARCH_BLOOM)
};

enum dim { D_NONE, D_E, D_3E, D_V, D_T, D_Q, D_KV, D_QKV, D_F, D_2F, D_HEAD, D_ROT2, D_L, D_CONV };

enum slot_kind {
    VECTOR,     /* const float *: converted to float32 */
    MATRIX,     /* struct linear: packed later */
    QKV_MATRIX, /* rows of q, k, v in one tensor: three consecutive struct linear */
    GATE_UP,    /* rows of gate and up in one tensor: two consecutive struct linear */
    BCX_MATRIX, /* rows of B, C, x of a short convolution: the layer's k, q, v */
    QKV_VECTOR, /* the biases of q, k, v in one tensor */
    QK_NORM,    /* struct norm: a gain for one head, or for the whole projection */
    TABLE,      /* const struct gguf_tensor *: rows are looked up in the file */
    DIVISORS,   /* divisors of the rope frequencies */
    PER_LAYER   /* one float per layer: the field of struct layer at `where` */
};

struct tensor_slot {
    const char *name; /* without "blk.N." */
    enum slot_kind kind;
    size_t where; /* offset in struct layer or struct mgpt_model */
    enum dim in, out;
    unsigned required, optional; /* sets of architectures */
};

/* `where` of divisors: the texts that they are for (mgpt_model.rope_short). */
enum { LONG, SHORT, ANY };

#define M(field) offsetof(struct mgpt_model, field)
#define L(field) offsetof(struct layer, field)

/* clang-format off */
static const struct tensor_slot model_slots[] = {
    {"token_embd.weight", TABLE, M(token_embd), D_E, D_V, ALL, 0},
    {"token_embd_norm.weight", VECTOR, M(embd_norm.gain), D_E, D_NONE, ARCH_BLOOM, 0},
    {"token_embd_norm.bias", VECTOR, M(embd_norm.bias), D_E, D_NONE, 0, ARCH_BLOOM},
    {"token_embd_norm.weight", VECTOR, M(final_norm.gain), D_E, D_NONE, ARCH_LFM2, 0}, /* its name in llama.cpp */
    {"position_embd.weight", TABLE, M(position_embd), D_E, D_T, ARCH_GPT1 | ARCH_GPT2, ARCH_MICROGPT},
    {"output_norm.weight", VECTOR, M(final_norm.gain), D_E, D_NONE, 0, (PRE_NORM | ARCH_MICROGPT | NO_INPUT) & ~ARCH_LFM2},
    {"output_norm.bias", VECTOR, M(final_norm.bias), D_E, D_NONE, 0, NORM_BIAS},
    {"output.weight", MATRIX, M(head), D_E, D_V, ARCH_NANOCHAT, ALL},
    {"output.bias", VECTOR, M(head.bias), D_V, D_NONE, 0, ALL},
    {"rope_freqs.weight", DIVISORS, ANY, D_ROT2, D_NONE, 0, ROPED},
    {"rope_factors_long.weight", DIVISORS, LONG, D_ROT2, D_NONE, 0, ROPED},
    {"rope_factors_short.weight", DIVISORS, SHORT, D_ROT2, D_NONE, 0, ROPED},
    {"resid_lambdas", PER_LAYER, L(x_scale), D_L, D_NONE, 0, ARCH_NANOCHAT},
    {"x0_lambdas", PER_LAYER, L(x0_scale), D_L, D_NONE, 0, ARCH_NANOCHAT},
};

static const struct tensor_slot layer_slots[] = {
    {"attn_norm.weight", VECTOR, L(attn_norm.gain), D_E, D_NONE, PRE_NORM, ARCH_MICROGPT},
    {"attn_norm.bias", VECTOR, L(attn_norm.bias), D_E, D_NONE, 0, NORM_BIAS},
    {"attn_q.weight", MATRIX, L(q), D_E, D_Q, ATTENTION & ~FUSED, FUSED},
    {"attn_k.weight", MATRIX, L(k), D_E, D_KV, ATTENTION & ~FUSED, FUSED},
    {"attn_v.weight", MATRIX, L(v), D_E, D_KV, ATTENTION & ~FUSED, FUSED},
    {"attn_q.bias", VECTOR, L(q.bias), D_Q, D_NONE, ARCH_QWEN2, ATTENTION},
    {"attn_k.bias", VECTOR, L(k.bias), D_KV, D_NONE, ARCH_QWEN2, ATTENTION},
    {"attn_v.bias", VECTOR, L(v.bias), D_KV, D_NONE, ARCH_QWEN2, ATTENTION},
    {"attn_qkv.weight", QKV_MATRIX, L(q), D_E, D_QKV, 0, FUSED},
    {"attn_qkv.bias", QKV_VECTOR, L(q), D_QKV, D_NONE, 0, FUSED},
    {"attn_q_norm.weight", QK_NORM, L(q_norm), D_HEAD, D_NONE, QK_NORMS, 0},
    {"attn_k_norm.weight", QK_NORM, L(k_norm), D_HEAD, D_NONE, QK_NORMS, 0},
    {"attn_q_norm.weight", QK_NORM, L(q_norm), D_Q, D_NONE, ARCH_OLMO2 | ARCH_OLMOE, 0},
    {"attn_k_norm.weight", QK_NORM, L(k_norm), D_KV, D_NONE, ARCH_OLMO2 | ARCH_OLMOE, 0},
    {"attn_output.weight", MATRIX, L(o), D_Q, D_E, ATTENTION, 0},
    {"attn_output.bias", VECTOR, L(o.bias), D_E, D_NONE, 0, ATTENTION},
    {"shortconv.in_proj.weight", BCX_MATRIX, L(q), D_E, D_3E, ARCH_SHORTCONV, 0},
    {"shortconv.conv.weight", VECTOR, L(conv), D_CONV, D_E, ARCH_SHORTCONV, 0},
    {"shortconv.out_proj.weight", MATRIX, L(o), D_E, D_E, ARCH_SHORTCONV, 0},
    {"attn_output_norm.weight", VECTOR, L(mid_norm.gain), D_E, D_NONE, ARCH_GPT1, 0},
    {"attn_output_norm.bias", VECTOR, L(mid_norm.bias), D_E, D_NONE, 0, ARCH_GPT1},
    {"layer_output_norm.weight", VECTOR, L(end_norm.gain), D_E, D_NONE, ARCH_GPT1, 0},
    {"layer_output_norm.bias", VECTOR, L(end_norm.bias), D_E, D_NONE, 0, ARCH_GPT1},
    {"post_attention_norm.weight", VECTOR, L(post_attn_norm.gain), D_E, D_NONE, POST_NORM, 0},
    {"ffn_norm.weight", VECTOR, L(ffn_norm.gain), D_E, D_NONE, PRE_NORM & ~(ONE_NORM | ARCH_SEED_OSS), ARCH_MICROGPT | ARCH_STABLELM},
    {"post_attention_norm.weight", VECTOR, L(ffn_norm.gain), D_E, D_NONE, ARCH_SEED_OSS, 0},
    {"ffn_norm.bias", VECTOR, L(ffn_norm.bias), D_E, D_NONE, 0, NORM_BIAS & ~(ARCH_PHI2 | ARCH_FALCON)},
    {"attn_norm_2.weight", VECTOR, L(ffn_norm.gain), D_E, D_NONE, 0, ARCH_FALCON},
    {"attn_norm_2.bias", VECTOR, L(ffn_norm.bias), D_E, D_NONE, 0, ARCH_FALCON},
    {"ffn_gate.weight", MATRIX, L(gate), D_E, D_F, GATED, ARCH_MICROGPT},
    {"ffn_gate.bias", VECTOR, L(gate.bias), D_F, D_NONE, 0, GATED},
    {"ffn_up.weight", MATRIX, L(up), D_E, D_F, ALL & ~GATED_UP, 0},
    {"ffn_up.weight", GATE_UP, L(gate), D_E, D_2F, GATED_UP, 0},
    {"ffn_up.bias", VECTOR, L(up.bias), D_F, D_NONE, 0, ALL & ~GATED_UP},
    {"ffn_down.weight", MATRIX, L(down), D_F, D_E, ALL, 0},
    {"ffn_down.bias", VECTOR, L(down.bias), D_E, D_NONE, 0, ALL},
    {"post_ffw_norm.weight", VECTOR, L(post_ffn_norm.gain), D_E, D_NONE, POST_NORM, 0},
};
/* clang-format on */

enum {
    N_MODEL_SLOTS = sizeof model_slots / sizeof *model_slots,
    N_LAYER_SLOTS = sizeof layer_slots / sizeof *layer_slots
};

static uint64_t dim_of(const struct model_shape *s, enum dim d)
{
    switch (d) {
    case D_NONE:
        return 1;
    case D_E:
        return s->n_embd;
    case D_3E:
        return 3 * s->n_embd;
    case D_V:
        return s->n_vocab;
    case D_T:
        return s->n_ctx;
    case D_Q:
        return s->n_q;
    case D_KV:
        return s->n_kv;
    case D_QKV:
        return s->n_q + 2 * s->n_kv;
    case D_F:
        return s->n_ff;
    case D_2F:
        return 2 * s->n_ff;
    case D_HEAD:
        return s->head_dim;
    case D_ROT2:
        return s->n_rot / 2;
    case D_L:
        return s->n_layer;
    case D_CONV:
        return s->n_conv;
    }
    return 0;
}

void *bind_own(mgpt_model *m, size_t n, size_t each, const char *what, mgpt_error *err)
{
    void *p = model_own(m, mem_new(n, each));
    if (!p)
        err_memory(err, what, n * each);
    return p;
}

static const float *floats_of(mgpt_model *m, const struct gguf_tensor *t, mgpt_error *err)
{
    float *v = bind_own(m, (size_t)t->n_values, sizeof *v, t->name, err);
    if (v)
        t->type->to_float(t->data, v, (size_t)t->n_values);
    return v;
}

static int check_value(const struct gguf_tensor *t, size_t i, float v, double min, double max,
                       mgpt_error *err)
{
    if ((double)v >= min && (double)v <= max)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, t->offset, "tensor %s: value %zu is %g, expected %g to %g",
                   t->name, i, (double)v, min, max);
}

static int bind_divisors(mgpt_model *m, size_t texts, const struct gguf_tensor *t, mgpt_error *err)
{
    const float *divisor = floats_of(m, t, err);
    int used = texts == ANY || texts == (size_t)m->rope_short;
    if (!divisor)
        return MGPT_EMEM;
    for (size_t i = 0; used && i < m->shape.n_rot / 2; i++) {
        double *freq = &m->ropes[ROPE_GLOBAL].freq[i];
        if (check_value(t, i, divisor[i], rope_least_divisor(m, *freq), 1e6, err) < 0)
            return MGPT_EFILE;
        *freq /= (double)divisor[i];
    }
    return MGPT_OK;
}

/* attn_qkv and attn_q, attn_k or attn_v are both present. */
static int given_twice(const struct gguf_tensor *t, mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, t->offset,
                   "tensor %.60s: present together with attn_q, attn_k or attn_v", t->name);
}

/* Rows of q, k, v; or of B, C, x of a short convolution, which are its k, q, v. */
static int bind_qkv(mgpt_model *m, struct linear *qkv, int is_bcx, const struct gguf_tensor *t,
                    mgpt_error *err)
{
    size_t n_q = m->shape.n_q, n_kv = is_bcx ? n_q : m->shape.n_kv, row = 0;
    for (size_t i = 0; i < 3; i++) {
        size_t at = is_bcx && i < 2 ? 1 - i : i, rows = i == 0 ? n_q : n_kv;
        if (qkv[at].n_out)
            return given_twice(t, err);
        int status = pack_plan(m, &qkv[at], t, row, rows, err);
        if (status < 0)
            return status;
        row += rows;
    }
    return MGPT_OK;
}

static int bind_gate_up(mgpt_model *m, struct linear *gate_up, const struct gguf_tensor *t,
                        mgpt_error *err)
{
    size_t n = m->shape.n_ff;
    int status = pack_plan(m, &gate_up[0], t, 0, n, err);
    return status < 0 ? status : pack_plan(m, &gate_up[1], t, n, n, err);
}

static int bind_qkv_bias(mgpt_model *m, struct linear *qkv, const struct gguf_tensor *t,
                         mgpt_error *err)
{
    if (qkv[0].bias || qkv[1].bias || qkv[2].bias)
        return given_twice(t, err);
    const float *bias = floats_of(m, t, err);
    if (!bias)
        return MGPT_EMEM;
    qkv[0].bias = bias;
    qkv[1].bias = bias + m->shape.n_q;
    qkv[2].bias = bias + m->shape.n_q + m->shape.n_kv;
    return MGPT_OK;
}

/* A gain of head_dim values applies to each head, a longer one to the whole projection. */
static int bind_qk_norm(mgpt_model *m, struct norm *norm, const struct gguf_tensor *t,
                        mgpt_error *err)
{
    norm->gain = floats_of(m, t, err);
    norm->width = (size_t)t->dims[0];
    return norm->gain ? MGPT_OK : MGPT_EMEM;
}

/* Writes value i to layer i's field at offset `field`. */
static int bind_per_layer(mgpt_model *m, size_t field, const struct gguf_tensor *t, mgpt_error *err)
{
    const float *v = floats_of(m, t, err);
    for (size_t i = 0; v && i < m->shape.n_layer; i++) {
        if (check_value(t, i, v[i], -1e6, 1e6, err) < 0)
            return MGPT_EFILE;
        memcpy((char *)&m->layers[i] + field, &v[i], sizeof *v);
    }
    m->mixes_x0 = 1;
    return v ? MGPT_OK : MGPT_EMEM;
}

static int bind_tensor(mgpt_model *m, const struct tensor_slot *slot, void *where,
                       const struct gguf_tensor *t, mgpt_error *err)
{
    int later = slot->kind == MATRIX || slot->kind == QKV_MATRIX || slot->kind == GATE_UP ||
                slot->kind == BCX_MATRIX || slot->kind == TABLE;
    if (!later && file_load(&m->file, t->offset, t->size, err) < 0)
        return MGPT_EIO;
    switch (slot->kind) {
    case VECTOR:
        *(const float **)where = floats_of(m, t, err);
        return *(const float **)where ? MGPT_OK : MGPT_EMEM;
    case MATRIX:
        return pack_plan(m, where, t, 0, (size_t)t->dims[1], err);
    case QKV_MATRIX:
    case BCX_MATRIX:
        return bind_qkv(m, where, slot->kind == BCX_MATRIX, t, err);
    case GATE_UP:
        return bind_gate_up(m, where, t, err);
    case QKV_VECTOR:
        return bind_qkv_bias(m, where, t, err);
    case TABLE:
        *(const struct gguf_tensor **)where = t;
        return MGPT_OK;
    case DIVISORS:
        return bind_divisors(m, slot->where, t, err);
    case QK_NORM:
        return bind_qk_norm(m, where, t, err);
    case PER_LAYER:
        return bind_per_layer(m, slot->where, t, err);
    }
    return MGPT_EFILE;
}

uint64_t bind_end_of_list(const struct gguf *g)
{
    return arr_len(g->tensors) ? g->tensors[0].offset : g->size;
}

static int is_mlp(const struct tensor_slot *slot)
{
    return slot->where >= L(gate) && slot->where < L(router);
}

static int bind_slots(mgpt_model *m, const struct tensor_slot *slots, size_t n_slots, int layer,
                      char *base, uint8_t *used, mgpt_error *err)
{
    unsigned bit = layer >= 0 && model_keeps_rows(m, (size_t)layer) ? ARCH_SHORTCONV : m->arch->bit;
    for (size_t i = 0; i < n_slots; i++) {
        const struct tensor_slot *slot = &slots[i];
        char name[80];
        if (layer >= 0 && is_mlp(slot) && m->layers[layer].experts)
            continue; /* bind_experts has bound its MLP */
        if (layer >= 0)
            text_format(name, sizeof name, "blk.%d.%s", layer, slot->name);
        else
            text_format(name, sizeof name, "%s", slot->name);
        unsigned known = slot->required | slot->optional;
        const struct gguf_tensor *t = known & bit ? gguf_tensor(&m->gguf, name) : NULL;
        if (!t && slot->required & bit)
            return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf),
                           "tensor %s: missing (architecture %s needs it)", name, m->arch->name);
        if (!t)
            continue;
        used[t - m->gguf.tensors] = 1;
        mgpt_error local;
        uint64_t dims[2] = {dim_of(&m->shape, slot->in), dim_of(&m->shape, slot->out)};
        if (bind_check_shape(t, dims, slot->out == D_NONE ? 1 : 2, &local) < 0 ||
            bind_tensor(m, slot, base + slot->where, t, &local) < 0) {
            if (err)
                *err = local;
            return local.status;
        }
    }
    return MGPT_OK;
}

/* Every layer needs q, k and v, from one tensor or from three. */
static int check_qkv(const mgpt_model *m, mgpt_error *err)
{
    for (size_t i = 0; i < m->shape.n_layer; i++) {
        const struct layer *l = &m->layers[i];
        if (!l->q.n_out || !l->k.n_out || !l->v.n_out)
            return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf),
                           "tensor blk.%d.attn_qkv.weight: missing (architecture %s needs it)",
                           (int)i, m->arch->name);
    }
    return MGPT_OK;
}

/* Only mgpt.final_norm can disable a norm, the final one. Its gain must be present exactly when the
 * norm runs, unless the architecture's norms have no gains. */
static int check_final_norm(const mgpt_model *m, mgpt_error *err)
{
    const struct norm *norm = &m->final_norm;
    if (norm->kind != NORM_NONE && !norm->gain && !m->arch->no_gain)
        return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf),
                       "tensor output_norm.weight: missing (architecture %s needs it)",
                       m->arch->name);
    if (norm->kind == NORM_NONE && norm->gain)
        return err_set(err, MGPT_EFILE, gguf_tensor(&m->gguf, "output_norm.weight")->offset,
                       "tensor output_norm.weight: present, but mgpt.final_norm is false");
    return MGPT_OK;
}

/* Without output.weight the head is the token embedding (tied). */
static int bind_head(mgpt_model *m, mgpt_error *err)
{
    m->tied = m->head.n_out == 0;
    return m->tied ? pack_plan(m, &m->head, m->token_embd, 0, m->shape.n_vocab, err) : MGPT_OK;
}

/* Loads the tables whose rows are looked up in the file. */
static int load_tables(mgpt_model *m, mgpt_error *err)
{
    const struct gguf_tensor *tables[] = {m->token_embd, m->position_embd};
    m->embd_is_head = m->tied && !weight_is_integer(m->head.type);
    for (size_t i = (size_t)m->embd_is_head; i < 2; i++)
        if (tables[i] && file_load(&m->file, tables[i]->offset, tables[i]->size, err) < 0)
            return MGPT_EIO;
    return MGPT_OK;
}

static int refuse_unused(const mgpt_model *m, const uint8_t *used, mgpt_error *err)
{
    for (size_t i = 0; i < arr_len(m->gguf.tensors); i++)
        if (!used[i])
            return err_set(err, MGPT_EFILE, m->gguf.tensors[i].offset,
                           "tensor %.60s: unknown to architecture %s with %zu layers",
                           m->gguf.tensors[i].name, m->arch->name, m->shape.n_layer);
    return MGPT_OK;
}

static int bind_all(mgpt_model *m, uint8_t *used, mgpt_error *err)
{
    int status = bind_slots(m, model_slots, N_MODEL_SLOTS, -1, (char *)m, used, err);
    for (size_t i = 0; status == MGPT_OK && i < m->shape.n_layer; i++) {
        status = bind_experts(m, i, used, err);
        if (status == MGPT_OK)
            status =
                bind_slots(m, layer_slots, N_LAYER_SLOTS, (int)i, (char *)&m->layers[i], used, err);
        if (m->layers[i].up.n_out > m->shape.n_ff_most)
            m->shape.n_ff_most = m->layers[i].up.n_out;
    }
    if (status == MGPT_OK)
        status = bind_mix_in(m, used, err);
    if (status == MGPT_OK)
        status = check_qkv(m, err);
    if (status == MGPT_OK)
        status = check_final_norm(m, err);
    if (status == MGPT_OK)
        status = refuse_unused(m, used, err);
    if (status == MGPT_OK)
        status = bind_head(m, err);
    return status == MGPT_OK ? load_tables(m, err) : status;
}

int model_bind(mgpt_model *m, mgpt_error *err)
{
    const struct gguf_tensor *embd = gguf_tensor(&m->gguf, "token_embd.weight");
    m->shape.n_vocab = embd ? (size_t)embd->dims[1] : 0;
    if (embd && embd->dims[1] > INT32_MAX)
        return err_set(err, MGPT_EFILE, embd->offset, "tensor %s: %llu rows are too many",
                       embd->name, (unsigned long long)embd->dims[1]);
    m->layers = bind_own(m, m->shape.n_layer, sizeof *m->layers, "layers", err);
    for (size_t i = 0; m->layers && i < m->shape.n_layer; i++)
        m->layers[i].x_scale = 1;
    uint8_t *used = mem_new(arr_len(m->gguf.tensors), 1);
    int status = MGPT_EMEM;
    if (m->layers && used)
        status = bind_all(m, used, err);
    else
        err_memory(err, "layers", m->shape.n_layer * sizeof *m->layers);
    free(used);
    return status == MGPT_OK ? model_layers(m, err) : status;
}
