/* Binding: assigns the file's tensors to the model's fields, from the tables of slots.h. Matrices
 * are only planned here; pack.c packs them after everything has been checked.
 *
 * A missing tensor, another shape, and a tensor without a slot are errors that name the tensor.
 * Ignoring one of them would run a wrong model.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "model/hyperparams.h"
#include "model/model.h"
#include "model/slots.h"

#include <stdlib.h>
#include <string.h>

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
    case D_H:
        return s->n_head;
    case D_G:
        return s->n_head_kv;
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
    if (v && t->data) /* model_check of a header: absent */
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

/* A gain of head_dim values applies to each head, a longer one to the whole projection; a matrix
 * has one of head_dim values for each head. */
static int bind_qk_norm(mgpt_model *m, struct norm *norm, const struct gguf_tensor *t,
                        mgpt_error *err)
{
    norm->gain = floats_of(m, t, err);
    norm->width = (size_t)t->dims[0];
    norm->n_gains = t->n_dims > 1 ? (size_t)t->dims[1] : 0;
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

/* `where` is the bias of a norm that has no gain. */
static int is_bare_bias(const struct tensor_slot *slot, const char *where)
{
    const char *norm = strstr(slot->name, "norm"), *bias = strstr(slot->name, ".bias");
    size_t back = offsetof(struct norm, bias) - offsetof(struct norm, gain);
    return norm && bias && !*(const float *const *)(const void *)(where - back);
}

static int bind_tensor(mgpt_model *m, const struct tensor_slot *slot, void *where,
                       const struct gguf_tensor *t, mgpt_error *err)
{
    int later = slot->kind == MATRIX || slot->kind == QKV_MATRIX || slot->kind == GATE_UP ||
                slot->kind == BCX_MATRIX || slot->kind == LOOKUP;
    if (!later && file_load(&m->file, t->offset, t->size, err) < 0)
        return MGPT_EIO;
    switch (slot->kind) {
    case VECTOR:
        if (is_bare_bias(slot, where))
            return err_set(err, MGPT_EFILE, t->offset, "tensor %.*s.weight: missing, %s is present",
                           (int)(strlen(t->name) - strlen(".bias")), t->name, t->name);
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
    case LOOKUP:
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
    return slot->where >= offsetof(struct layer, gate) &&
           slot->where < offsetof(struct layer, router);
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

/* Every layer needs q, k and v, from one tensor or from three; norms are of both q and k, in all
 * layers of attention or in none. */
static int check_qkv(const mgpt_model *m, mgpt_error *err)
{
    for (size_t i = 0; i < m->shape.n_layer; i++) {
        const struct layer *l = &m->layers[i];
        if (!l->q.n_out || !l->k.n_out || !l->v.n_out)
            return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf),
                           "tensor blk.%d.attn_qkv.weight: missing (architecture %s needs it)",
                           (int)i, m->arch->name);
        int normed = m->layers[0].q_norm.gain || m->layers[0].k_norm.gain;
        if (!m->layers[0].conv && !l->conv &&
            (normed != (l->q_norm.gain != NULL) || normed != (l->k_norm.gain != NULL)))
            return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf),
                           "tensor blk.%d.attn_%c_norm.weight: missing, others of its kind are "
                           "present",
                           (int)i, l->q_norm.gain ? 'k' : 'q');
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
    for (size_t i = (size_t)m->tied; i < 2; i++)
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
    int status = bind_slots(m, bind_model_slots, bind_n_model_slots, -1, (char *)m, used, err);
    for (size_t i = 0; status == MGPT_OK && i < m->shape.n_layer; i++) {
        status = bind_experts(m, i, used, err);
        if (status == MGPT_OK)
            status = bind_slots(m, bind_layer_slots, bind_n_layer_slots, (int)i,
                                (char *)&m->layers[i], used, err);
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
