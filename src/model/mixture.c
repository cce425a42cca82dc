/* Mixtures of experts: their numbers and tensors. Files have the matrices of all experts of a layer
 * in one tensor of three dimensions; each expert's part is packed as a matrix of its own.
 *
 * A layer is a mixture if it has a router, otherwise its MLP is that of any layer. A shared expert
 * becomes the layer's gate, up and down: every row goes through it.
 */
#include "base/error.h"
#include "base/mem.h"
#include "model/hyperparams.h"

#include <stddef.h>

/* ---- numbers ---- */

/* expert_gating_func: how scores become weights. */
enum { GATING_DEFAULT, GATING_SOFTMAX, GATING_SIGMOID, GATING_SOFTMAX_OF_CHOSEN };

static int hyper_weights(mgpt_model *m, mgpt_error *err)
{
    struct key full;
    size_t gating, groups;
    double scale = 1;
    m->expert_norm = m->arch->expert_norm;
    if (hyper_size(m, "expert_gating_func", GATING_DEFAULT, GATING_SOFTMAX_OF_CHOSEN,
                   GATING_DEFAULT, &gating, err) < 0 ||
        hyper_size(m, "expert_group_count", 0, 1, 0, &groups, err) < 0 ||
        hyper_real(m, "expert_weights_scale", 0, 1e6, &scale, err) < 0 ||
        gguf_bool(&m->gguf, hyper_key(m, "expert_weights_norm", &full), &m->expert_norm, err) < 0)
        return MGPT_EFILE;
    if (gating == GATING_SOFTMAX_OF_CHOSEN)
        m->expert_norm = 1;
    m->expert_sigmoid = gating == GATING_SIGMOID;
    m->expert_scale = scale > 0 ? (float)scale : 1;
    return MGPT_OK;
}

int model_experts(mgpt_model *m, mgpt_error *err)
{
    struct model_shape *s = &m->shape;
    const uint64_t most = (uint64_t)MAX_WIDTH * 8;
    size_t n = 0;
    if (m->arch->knows & KNOWS_EXPERTS &&
        hyper_size(m, "expert_count", 0, MODEL_EXPERTS_MOST, 0, &n, err) < 0)
        return MGPT_EFILE;
    if (n == 0 || s->n_layer == 0)
        return MGPT_OK;
    s->n_expert = n;
    if (hyper_size(m, "expert_used_count", 1, n, -1, &s->n_expert_used, err) < 0 ||
        hyper_size(m, "expert_feed_forward_length", 1, most, (int64_t)s->n_ff, &s->n_ff_expert,
                   err) < 0 ||
        hyper_size(m, "expert_shared_feed_forward_length", 0, most, (int64_t)s->n_ff,
                   &s->n_ff_shared, err) < 0)
        return MGPT_EFILE;
    return hyper_weights(m, err);
}

/* ---- tensors ---- */

/* Writes "[16, 15]": the fastest dimension first, as in the file. */
static void print_dims(char *buf, size_t cap, const uint64_t *dims, uint32_t n)
{
    size_t used = text_format(buf, cap, "[");
    for (uint32_t i = 0; i < n; i++)
        used +=
            text_format(buf + used, cap - used, i ? ", %llu" : "%llu", (unsigned long long)dims[i]);
    text_format(buf + used, cap - used, "]");
}

int bind_check_shape(const struct gguf_tensor *t, const uint64_t *dims, uint32_t n_dims,
                     mgpt_error *err)
{
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

enum expert_dim {
    X_E,
    X_F,
    X_S,
    X_ALL,
    X_ONE
}; /* n_embd; widths of an expert, of the shared one */

enum { NEEDED = 1, SHARED = 2, EACH = 4 };

static const struct expert_slot {
    const char *name;
    size_t where; /* offset in struct layer, or of EACH in struct expert */
    enum expert_dim in, out;
    unsigned flags;
} expert_slots[] = {
    {"ffn_gate_inp.weight", offsetof(struct layer, router), X_E, X_ALL, NEEDED},
    {"ffn_gate_exps.weight", offsetof(struct expert, gate), X_E, X_F, NEEDED | EACH},
    {"ffn_up_exps.weight", offsetof(struct expert, up), X_E, X_F, NEEDED | EACH},
    {"ffn_down_exps.weight", offsetof(struct expert, down), X_F, X_E, NEEDED | EACH},
    {"ffn_gate_shexp.weight", offsetof(struct layer, gate), X_E, X_S, SHARED},
    {"ffn_up_shexp.weight", offsetof(struct layer, up), X_E, X_S, SHARED},
    {"ffn_down_shexp.weight", offsetof(struct layer, down), X_S, X_E, SHARED},
    {"ffn_gate_inp_shexp.weight", offsetof(struct layer, shared_gate), X_E, X_ONE, 0},
};

static const struct gguf_tensor *layer_tensor(const mgpt_model *m, size_t layer, const char *name,
                                              char full[80])
{
    text_format(full, 80, "blk.%d.%s", (int)layer, name);
    return gguf_tensor(&m->gguf, full);
}

static uint64_t expert_dim_of(const struct model_shape *s, enum expert_dim d)
{
    const uint64_t sizes[] = {[X_E] = s->n_embd,
                              [X_F] = s->n_ff_expert,
                              [X_S] = s->n_ff_shared,
                              [X_ALL] = s->n_expert,
                              [X_ONE] = 1};
    return sizes[d];
}

/* Plans a matrix of the layer, or one of each expert. The tensor's shape has been checked, so the
 * number of experts is bounded by the size of the file. */
static int plan_slot(mgpt_model *m, struct layer *l, const struct expert_slot *slot,
                     const struct gguf_tensor *t, mgpt_error *err)
{
    size_t n_out = (size_t)expert_dim_of(&m->shape, slot->out), n = m->shape.n_expert;
    if (!(slot->flags & EACH))
        return pack_plan(m, (struct linear *)((char *)l + slot->where), t, 0, n_out, err);
    if (!l->experts)
        l->experts = bind_own(m, n, sizeof *l->experts, "experts", err);
    int status = l->experts ? MGPT_OK : MGPT_EMEM;
    for (size_t i = 0; status == MGPT_OK && i < n; i++)
        status = pack_plan(m, (struct linear *)((char *)&l->experts[i] + slot->where), t, i * n_out,
                           n_out, err);
    return status;
}

static int bind_expert_slot(mgpt_model *m, size_t layer, const struct expert_slot *slot,
                            uint8_t *used, mgpt_error *err)
{
    const struct model_shape *s = &m->shape;
    char name[80], any[80];
    const struct gguf_tensor *t = layer_tensor(m, layer, slot->name, name);
    int needed =
        slot->flags & NEEDED ||
        (slot->flags & SHARED && (layer_tensor(m, layer, "ffn_up_shexp.weight", any) ||
                                  layer_tensor(m, layer, "ffn_gate_inp_shexp.weight", any)));
    if (!t && needed)
        return err_set(err, MGPT_EFILE, bind_end_of_list(&m->gguf),
                       "tensor %s: missing (a layer of %zu experts needs it)", name, s->n_expert);
    if (!t)
        return MGPT_OK;
    uint64_t dims[3] = {expert_dim_of(s, slot->in), expert_dim_of(s, slot->out), s->n_expert};
    uint32_t n_dims = slot->flags & EACH ? 3 : slot->out == X_ONE ? 1 : 2;
    used[t - m->gguf.tensors] = 1;
    int status = bind_check_shape(t, dims, n_dims, err);
    return status < 0 ? status : plan_slot(m, &m->layers[layer], slot, t, err);
}

int bind_experts(mgpt_model *m, size_t i, uint8_t *used, mgpt_error *err)
{
    char name[80];
    mgpt_error local;
    int status = MGPT_OK;
    int routed = layer_tensor(m, i, "ffn_gate_inp.weight", name) != NULL;
    if (!m->shape.n_expert || (!routed && layer_tensor(m, i, "ffn_up.weight", name)))
        return MGPT_OK;
    for (size_t k = 0; status == MGPT_OK && k < sizeof expert_slots / sizeof *expert_slots; k++)
        status = bind_expert_slot(m, i, &expert_slots[k], used, &local);
    if (status < 0 && err)
        *err = local;
    return status;
}

/* ---- sizes ---- */

static uint64_t linear_bytes(const struct linear *l)
{
    return (uint64_t)panels_of(l->n_out) * l->panel_bytes;
}

uint64_t model_token_bytes(const mgpt_model *m)
{
    uint64_t experts = 0;
    for (size_t i = 0; i < m->shape.n_layer; i++)
        for (size_t e = 0; m->layers[i].experts && e < m->shape.n_expert; e++) {
            const struct expert *x = &m->layers[i].experts[e];
            experts += linear_bytes(&x->gate) + linear_bytes(&x->up) + linear_bytes(&x->down);
        }
    size_t n = m->shape.n_expert ? m->shape.n_expert : 1;
    return m->packed_bytes - experts + experts / n * m->shape.n_expert_used;
}
