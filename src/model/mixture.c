/* Mixtures of experts: their numbers. Files have the matrices of all experts of a layer in one
 * tensor of three dimensions; each expert's part is packed as a matrix of its own (bind.c).
 *
 * A layer is a mixture if it has a router, otherwise its MLP is that of any layer. A shared expert
 * becomes the layer's gate, up and down: every row goes through it.
 */
#include "base/error.h"
#include "model/hyperparams.h"

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
