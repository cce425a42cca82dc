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

/* Groups are of one size, 2 or more where two are added up, and what is used of them has enough experts. */
static int hyper_groups(mgpt_model *m, mgpt_error *err)
{
    const struct model_shape *s = &m->shape;
    struct key full;
    size_t all, used;
    if (hyper_size(m, "expert_group_count", 0, s->n_expert, 0, &all, err) < 0)
        return MGPT_EFILE;
    m->expert_groups = all = all ? all : 1;
    if (hyper_size(m, "expert_group_used_count", 0, all, (int64_t)all, &used, err) < 0)
        return MGPT_EFILE;
    m->expert_groups_used = used = used ? used : all;
    size_t each = s->n_expert / all;
    if (all == 1 || (s->n_expert % all == 0 && each > (size_t)m->expert_sigmoid &&
                     s->n_expert_used <= each * used))
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, hyper_offset(m, hyper_key(m, "expert_group_count", &full)),
                   "key %s: %zu of %zu groups of %zu experts", full.text, used, all, s->n_expert);
}

/* Whether the last layer has a bias for the choice of experts. */
static int has_choice_bias(const mgpt_model *m)
{
    char name[48];
    text_format(name, sizeof name, "blk.%zu.exp_probs_b.bias", m->shape.n_layer - 1);
    return gguf_tensor(&m->gguf, name) != NULL;
}

static int hyper_weights(mgpt_model *m, mgpt_error *err)
{
    struct key full;
    /* Files of GLM-4.7 Flash do not say that probabilities are sigmoids: they have a bias, which DeepSeek-V2 has not. */
    int biased = has_choice_bias(m);
    int sigmoid = m->arch->expert_sigmoid || (m->arch->knows & KNOWS_LATENT && biased);
    size_t gating, usual = sigmoid ? GATING_SIGMOID : GATING_DEFAULT;
    double scale = 1;
    m->expert_norm = m->arch->expert_norm;
    if (hyper_size(m, "expert_gating_func", GATING_DEFAULT, GATING_SOFTMAX_OF_CHOSEN,
                   (int64_t)usual, &gating, err) < 0 ||
        hyper_real(m, "expert_weights_scale", 0, 1e6, &scale, err) < 0 ||
        gguf_bool(&m->gguf, hyper_key(m, "expert_weights_norm", &full), &m->expert_norm, err) < 0)
        return MGPT_EFILE;
    if (gating == GATING_SOFTMAX_OF_CHOSEN && biased) /* is added to scores, not to probabilities */
        return err_set(err, MGPT_EFILE, hyper_offset(m, hyper_key(m, "expert_gating_func", &full)),
                       "key %s: 3 is not supported with a bias for the choice", full.text);
    if (gating == GATING_SOFTMAX_OF_CHOSEN)
        m->expert_norm = 1;
    m->expert_sigmoid = (gating == GATING_DEFAULT ? usual : gating) == GATING_SIGMOID;
    m->expert_scale = scale > 0 ? (float)scale : 1;
    return hyper_groups(m, err);
}

int model_experts(mgpt_model *m, mgpt_error *err)
{
    struct model_shape *s = &m->shape;
    const uint64_t most = (uint64_t)MAX_WIDTH * 8;
    size_t n = 0, n_shared;
    if (m->arch->knows & KNOWS_EXPERTS &&
        hyper_size(m, "expert_count", 0, MODEL_EXPERTS_MOST, 0, &n, err) < 0)
        return MGPT_EFILE;
    if (n == 0 || s->n_layer == 0)
        return MGPT_OK;
    s->n_expert = n;
    if (hyper_size(m, "expert_used_count", 1, n, -1, &s->n_expert_used, err) < 0 ||
        hyper_size(m, "expert_feed_forward_length", 1, most, (int64_t)s->n_ff, &s->n_ff_expert,
                   err) < 0 ||
        hyper_size(m, "expert_shared_count", 0, MODEL_EXPERTS_MOST, 0, &n_shared, err) < 0 ||
        hyper_size(m, "expert_shared_feed_forward_length", 0, most,
                   (int64_t)(n_shared ? n_shared * s->n_ff_expert : s->n_ff), &s->n_ff_shared,
                   err) < 0)
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
