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

void *bind_own(mgpt_model *m, size_t n, size_t each, const char *what, mgpt_error *err)
{
    void *p = model_own(m, mem_new(n, each));
    if (!p)
        err_memory(err, what, n * each);
    return p;
}

uint64_t bind_end_of_list(const struct gguf *g)
{
    return arr_len(g->tensors) ? g->tensors[0].offset : g->size;
}

/* Writes "[16, 15]": the fastest dimension first, as in the file. */
static void print_dims(char *buf, size_t cap, const uint64_t *dims, uint32_t n)
{
    size_t used = text_format(buf, cap, "[");
    for (uint32_t i = 0; i < n; i++)
        used +=
            text_format(buf + used, cap - used, i ? ", %llu" : "%llu", (unsigned long long)dims[i]);
    text_format(buf + used, cap - used, "]");
}

static int check_dims(const mgpt_model *m, const struct tensor_slot *slot, int layer,
                      const struct gguf_tensor *t, mgpt_error *err)
{
    const struct model_shape *s = layer < 0 ? &m->shape : m->layers[layer].shape;
    uint64_t in = slot->in == D_COLUMNS ? t->dims[0] : bind_dim(s, slot->in);
    int of_heads = slot->kind == LATENT_UP && slot->role != MGPT_W_KV_UP;
    uint64_t dims[] = {in, bind_dim(s, slot->out), of_heads ? s->n_head : s->n_expert};
    uint32_t n_dims = slot->kind == EXPERTS || of_heads ? 3 : slot->out == D_NONE ? 1 : 2;
    int same = 1;
    for (uint32_t i = 0; i < 4; i++)
        same &= t->dims[i] == (i < n_dims ? dims[i] : 1);
    if (same)
        return MGPT_OK;
    char found[96], expected[64];
    print_dims(found, sizeof found, t->dims, t->n_dims);
    print_dims(expected, sizeof expected, dims, n_dims);
    return err_set(err, MGPT_EFILE, t->offset, "tensor %.60s: shape %s, expected %s", t->name,
                   found, expected);
}

/* Whether the layer has a shared expert: its matrix up, or its gate. */
static int shares_expert(const mgpt_model *m, int layer)
{
    const struct tensor_slot *slot;
    return bind_find_where(m, layer, MGPT_W_UP, MGPT_WEIGHT, MIXTURE, &slot) ||
           bind_find_where(m, layer, MGPT_SHARED_GATE, MGPT_WEIGHT, MIXTURE, &slot);
}

/* The slot's tensor is absent. */
static int check_absent(const mgpt_model *m, const struct tensor_slot *slot, int layer,
                        const char *name, mgpt_error *err)
{
    int conv = layer >= 0 && model_keeps_rows(m, (size_t)layer);
    int needed = (slot->required & (conv ? ARCH_SHORTCONV : m->arch->bit)) != 0;
    if (slot->where & INPUTS && m->shape.n_inputs)
        return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf),
                       "tensor %s: missing (layers have inputs of width %zu)", name,
                       m->shape.n_input);
    const struct tensor_slot *other;
    if (slot->where & MIXTURE && bind_find(m, layer, slot->role, MGPT_WEIGHT, &other))
        return MGPT_OK; /* in one tensor with another's rows */
    if (slot->where & MIXTURE &&
        (needed || (slot->where & SHARED_EXPERT && shares_expert(m, layer))))
        return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf),
                       "tensor %s: missing (a layer of %zu experts needs it)", name,
                       m->shape.n_expert);
    if (needed)
        return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf),
                       "tensor %s: missing (architecture %s needs it)", name, m->arch->name);
    return MGPT_OK;
}

/* Refuses a file that has only one of two tensors that are used together. */
static int check_pair(const mgpt_model *m, const struct tensor_slot *pair, int layer,
                      mgpt_error *err)
{
    char name[80];
    const struct gguf_tensor *first = bind_slot_tensor(m, &pair[0], layer, name);
    const struct gguf_tensor *next = bind_slot_tensor(m, &pair[1], layer, name);
    if (!first == !next)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf),
                   "tensor %s: missing (%.60s is present)", pair[first != NULL].name,
                   (first ? first : next)->name);
}

/* 1: the tensor makes keys or values in a layer that reads those of another one. Files may have it. */
static int is_of_others_keys(const struct layer *l, int layer, mgpt_role role)
{
    return l->kv_from != (size_t)layer &&
           (role == MGPT_W_K || role == MGPT_W_V || role == MGPT_K_NORM);
}

static int bind_slot(mgpt_model *m, const struct tensor_slot *slot, int layer, uint8_t *used,
                     mgpt_error *err)
{
    char name[80] = "";
    if (m->arch->dense_head && layer == 0 && slot->role == MGPT_LN1)
        return MGPT_OK; /* the embedding has been normed */
    const struct gguf_tensor *t = bind_slot_tensor(m, slot, layer, name);
    if (slot->where & WITH_NEXT && check_pair(m, slot, layer, err) < 0)
        return MGPT_EFILE;
    if (!t)
        return check_absent(m, slot, layer, name, err);
    used[t - m->gguf.tensors] = 1;
    if (layer >= 0 && is_of_others_keys(&m->layers[layer], layer, slot->role))
        return MGPT_OK;
    if (check_dims(m, slot, layer, t, err) < 0)
        return MGPT_EFILE;
    return bind_tensor(m, slot, layer < 0 ? (char *)m : (char *)&m->layers[layer], t, err);
}

/* Binds the model's tensors, or (layer >= 0) those of a layer. */
static int bind_slots(mgpt_model *m, int layer, uint8_t *used, mgpt_error *err)
{
    const struct tensor_slot *slots = layer >= 0 ? bind_layer_slots : bind_model_slots;
    size_t n = layer >= 0 ? bind_n_layer_slots : bind_n_model_slots;
    m->plan_stage = layer < 0 ? 0 : (size_t)layer + 1;
    unsigned other = (MIXTURE | NOT_MIXTURE) & ~bind_layer_is(m, layer);
    int sinks = m->arch->sinks == 2 && layer >= 0 ? m->layers[layer].window > 0 : m->arch->sinks;
    other |= (m->shape.n_inputs ? 0 : INPUTS) | (sinks ? 0 : SINKS) |
             (m->shape.n_gate ? 0 : HEAD_GATES) | (m->arch->sandwich ? 0 : SANDWICH) |
             (m->arch->dense_head ? 0 : DENSE_HEAD);
    mgpt_error local;
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < n; i++)
        if (!(slots[i].where & other))
            status = bind_slot(m, &slots[i], layer, used, &local);
    if (status < 0 && err)
        *err = local;
    return status;
}

/* The tensor that a layer of latent attention lacks, or NULL: it has queries of h, or of a normed latent, and
 * what makes keys and values. */
static const char *latent_lacks(const mgpt_model *m, const struct layer *l)
{
    size_t n_q = m->shape.n_q_latent;
    if (!l->k_up || !l->v_up)
        return "attn_kv_b";
    if (!l->q.n_out || l->q.n_in != (n_q ? n_q : m->shape.n_embd))
        return n_q ? "attn_q_b" : "attn_q";
    if (n_q && !l->q_down.n_out)
        return "attn_q_a";
    return n_q && !l->q_down_norm.gain ? "attn_q_a_norm" : NULL;
}

static int check_latent(const mgpt_model *m, const struct layer *l, size_t i, mgpt_error *err)
{
    const char *lacks = latent_lacks(m, l);
    if (m->qkv_clamp != 0)
        return err_set(err, MGPT_EFILE, 0,
                       "key %s.attention.clamp_kqv: not supported with latent attention",
                       m->arch->name);
    if (!lacks)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf),
                   "tensor blk.%zu.%s.weight: missing (latent attention needs it)", i, lacks);
}

/* Every layer needs q, k and v, from one tensor or from three, unless it reads those of another one, or
 * values are the keys before their norm; norms are of both q and k, in all layers of attention or in
 * none. */
static int check_qkv(const mgpt_model *m, mgpt_error *err)
{
    for (size_t i = 0; i < m->shape.n_layer; i++) {
        const struct layer *l = &m->layers[i];
        if (m->shape.n_latent) {
            if (check_latent(m, l, i, err) < 0)
                return MGPT_EFILE;
            continue;
        }
        int keys_only = m->arch->v_norm && l->q.n_out && l->k.n_out && l->k_norm.gain;
        if (l->kv_from != i || keys_only)
            continue;
        if (m->arch->v_norm)
            return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf),
                           "tensor blk.%d.attn_k%s.weight: missing (architecture %s needs it)",
                           (int)i, l->k.n_out ? "_norm" : "", m->arch->name);
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
    const struct tensor_slot *slot;
    if (norm->kind == NORM_NONE && norm->gain)
        return err_set(err, MGPT_EFILE, bind_find(m, -1, MGPT_LN_FINAL, MGPT_WEIGHT, &slot)->offset,
                       "tensor output_norm.weight: present, but mgpt.final_norm is false");
    return MGPT_OK;
}

/* Without output.weight the head is the token embedding (tied). */
static int bind_head(mgpt_model *m, mgpt_error *err)
{
    m->tied = m->head.n_out == 0;
    return m->tied ? pack_plan(m, &m->head, m->token_embd, 0, m->shape.n_vocab, err) : MGPT_OK;
}

static int load_table(const mgpt_model *m, const struct gguf_tensor *t, mgpt_error *err)
{
    return t && file_load(&m->file, t->offset, t->size, err) < 0 ? MGPT_EIO : MGPT_OK;
}

/* Loads the tables whose rows are looked up in the file. */
static int load_tables(const mgpt_model *m, mgpt_error *err)
{
    int status = m->tied ? MGPT_OK : load_table(m, m->token_embd, err);
    if (status == MGPT_OK)
        status = load_table(m, m->position_embd, err);
    if (status == MGPT_OK)
        status = load_table(m, m->input_embd, err);
    for (size_t i = 0; status == MGPT_OK && i < m->shape.n_layer; i++)
        status = load_table(m, m->layers[i].value_embd, err);
    return status;
}

/* Value embeddings need a number that files have no default for. */
static int check_value_embd(mgpt_model *m, mgpt_error *err)
{
    double scale = 0;
    for (size_t i = 0; i < m->shape.n_layer; i++)
        m->n_value_embd += m->layers[i].value_embd != NULL;
    if (!m->n_value_embd)
        return MGPT_OK;
    if (hyper_real(m, "attention.value_gate_scale", 1e-6, 1e6, &scale, err) < 0)
        return MGPT_EFILE;
    m->value_gate_scale = (float)scale;
    if (scale > 0)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, 0, "key %s.attention.value_gate_scale: missing", m->arch->name);
}

/* Whether a tensor belongs to a layer after the last one, for further tokens. */
static int is_further(const mgpt_model *m, const char *name)
{
    char *end;
    if (strncmp(name, "blk.", 4) != 0)
        return 0;
    unsigned long layer = strtoul(name + 4, &end, 10);
    return *end == '.' && layer >= m->shape.n_layer &&
           layer - m->shape.n_layer < m->shape.n_further;
}

static int refuse_unused(const mgpt_model *m, const uint8_t *used, mgpt_error *err)
{
    for (size_t i = 0; i < arr_len(m->gguf.tensors); i++)
        if (!used[i] && !is_further(m, m->gguf.tensors[i].name))
            return err_set(err, MGPT_EFILE, m->gguf.tensors[i].offset,
                           "tensor %.60s: unknown to architecture %s with %zu layers",
                           m->gguf.tensors[i].name, m->arch->name, m->shape.n_layer);
    return MGPT_OK;
}

static int bind_all(mgpt_model *m, uint8_t *used, mgpt_error *err)
{
    int status = bind_slots(m, -1, used, err);
    for (size_t i = 0; status == MGPT_OK && i < m->shape.n_layer; i++) {
        status = bind_slots(m, (int)i, used, err);
        if (m->layers[i].up.n_out > m->shape.n_ff_most)
            m->shape.n_ff_most = m->layers[i].up.n_out;
    }
    if (status == MGPT_OK)
        status = check_value_embd(m, err);
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
    const struct tensor_slot *slot;
    const struct gguf_tensor *embd = bind_find(m, -1, MGPT_W_E, MGPT_WEIGHT, &slot);
    m->shape.n_vocab = embd ? (size_t)embd->dims[1] : 0;
    if (embd && embd->dims[1] > INT32_MAX)
        return err_set(err, MGPT_EFILE, embd->offset, "tensor %s: %llu rows are too many",
                       embd->name, (unsigned long long)embd->dims[1]);
    m->layers = bind_own(m, m->shape.n_layer, sizeof *m->layers, "layers", err);
    for (size_t i = 0; m->layers && i < m->shape.n_layer; i++)
        m->layers[i].x_scale = m->layers[i].out_scale = 1;
    uint8_t *used = mem_new(arr_len(m->gguf.tensors), 1);
    int status = MGPT_EMEM;
    if (m->layers && used)
        status = model_shapes(m, err);
    else
        err_memory(err, "layers", m->shape.n_layer * sizeof *m->layers);
    if (status == MGPT_OK)
        status = bind_all(m, used, err);
    free(used);
    return status == MGPT_OK ? model_layers(m, err) : status;
}
