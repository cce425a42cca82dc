/* Mixtures whose router chooses by probabilities and a bias, and other mixtures with keys of their own: "read do
 * NAME" of models.txt. See hf_special.h. */
#include "base/mem.h"
#include "convert/families/hf_special.h"

#include <stdio.h>
#include <string.h>

/* A number that may be a list of one and the same for every layer. */
static uint32_t count_of_all(struct hf_model *m, const char *key, int64_t absent, uint32_t max)
{
    const json_t *list = hf_get(m, key);
    if (!json_is(list, JSON_ARRAY))
        return hf_count(m, key, absent, 1, max);
    json_int_t n = json_integer_value(json_array_get(list, 0));
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) != n)
            hf_stop(m, "%s: another number for each layer is not supported", key);
    if (json_array_size(list) < m->c->hp.n_layer || n < 1 || n > (json_int_t)max)
        hf_stop(m, "%s: expected 1 to %u for every layer", key, max);
    return (uint32_t)n;
}

enum { GATING_SOFTMAX = 1, GATING_SIGMOID = 2, EXPERTS_MOST = 1024, EXPERT_WIDTH_MOST = 1 << 23 };

/* Shared experts are one that is as wide as all of them. */
static void read_shared(struct hf_model *m, const char *key, int64_t absent)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->n_shared = hf_count(m, key, absent, 0, EXPERTS_MOST);
    if (hp->n_shared)
        ckpt_size(m->c, &hp->n_ff_shared, key, (uint64_t)hp->n_shared * hp->n_ff_expert);
}

/* Layers that predict further tokens are left out. */
static void read_further(struct hf_model *m)
{
    m->further = hf_count(m, "num_nextn_predict_layers", 0, 0, CKPT_MAX_LAYERS);
}

/* DeepSeek's experts. */
void hf_experts_of(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->n_expert = hf_count(m, hf_get(m, "num_experts") ? "num_experts" : "n_routed_experts", -1, 1,
                            EXPERTS_MOST);
    hp->n_expert_used = hf_count(m, "num_experts_per_tok", -1, 1, hp->n_expert);
    hp->n_ff_expert = hf_count(m, "moe_intermediate_size", -1, 1, EXPERT_WIDTH_MOST);
    hp->expert_scale = (float)hf_num(m, "routed_scaling_factor", 1, 0, 1e6);
    m->first_mixture = hf_count(m, "first_k_dense_replace", 0, 0, INT32_MAX);
    read_shared(m, hf_get(m, "num_shared_experts") ? "num_shared_experts" : "n_shared_experts", 0);
    read_further(m);
}

/* Groups of experts, of which each has `least` or more. */
void hf_groups_of(struct hf_model *m, uint32_t least)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->expert_groups = hf_count(m, "n_group", 1, 1, hp->n_expert);
    hp->expert_groups_used = hf_count(m, "topk_group", 1, 1, hp->expert_groups);
    if (hp->expert_groups > 1 &&
        (hp->n_expert % hp->expert_groups || hp->n_expert / hp->expert_groups < least))
        hf_stop(m, "n_group: %u groups of %u experts", hp->expert_groups, hp->n_expert);
    if (hp->n_expert_used > hp->n_expert / hp->expert_groups * hp->expert_groups_used)
        hf_stop(m, "topk_group: fewer experts than num_experts_per_tok");
}

/* DeepSeek-V3's router: sigmoids, a bias for the choice alone, groups of experts. */
void hf_routed(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hf_experts_of(m);
    hf_groups_of(m, 2);
    hp->expert_sigmoid = GATING_SIGMOID;
    hp->expert_norm = hf_on(m, "norm_topk_prob", -1) ? 1 : -1;
}

/* Layers from max_window_layers on have a window, if there is one. */
void hf_dots1(struct hf_model *m)
{
    hf_layer_windows(m, 0, hf_count(m, "max_window_layers", 62, 0, INT32_MAX));
}

void hf_ernie_moe(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const json_t *last = hf_get(m, "moe_layer_end_index");
    hp->n_expert = count_of_all(m, "moe_num_experts", 64, EXPERTS_MOST);
    hp->n_expert_used = hf_count(m, "moe_k", 6, 1, hp->n_expert);
    hp->n_ff_expert = count_of_all(m, "moe_intermediate_size", 1536, EXPERT_WIDTH_MOST);
    m->first_mixture = hf_count(m, "moe_layer_start_index", 1, 0, INT32_MAX);
    m->mixture_step = hf_count(m, "moe_layer_interval", 1, 1, INT32_MAX);
    if (last && json_integer_value(last) != -1)
        m->mixtures_end = hf_count(m, "moe_layer_end_index", -1, 0, INT32_MAX - 1) + 1;
    read_shared(m, "moe_num_shared_experts", 2);
    if (!(hf_any(m, "moe_norm_min", 1e-12) <= 1e-9)) /* no sum of probabilities is so small */
        hf_stop(m, "moe_norm_min: only numbers up to 1e-9 are supported");
}

void hf_lfm2_moe(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->expert_sigmoid = GATING_SIGMOID;
    hp->expert_norm = hf_on(m, "norm_topk_prob", 1) ? 0 : -1;
    m->first_mixture = hf_count(m, "num_dense_layers", 2, 0, INT32_MAX);
    hf_on(m, "use_expert_bias", 1); /* the tensor is there, or not */
}

void hf_hunyuan_moe(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->n_expert = count_of_all(m, "num_experts", 1, EXPERTS_MOST);
    hp->n_expert_used = count_of_all(m, "moe_topk", 1, hp->n_expert);
    hp->n_ff_expert = hp->n_ff_shared = hp->n_ff;
}

/* Sigmoids, their bias; layers without a window are never rotated. */
void hf_afmoe(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->expert_sigmoid = GATING_SIGMOID;
    hp->expert_norm = 1;
    hp->embd_scale = hf_on(m, "mup_enabled", 0) ? 0 : 1;
    m->first_mixture = hf_count(m, "num_dense_layers", 1, 0, INT32_MAX);
    read_shared(m, "num_shared_experts", 2);
    if (strcmp(hf_word(m, "score_func", "sigmoid"), "sigmoid") != 0 || !hf_on(m, "route_norm", 1))
        hf_stop(m, "score_func, route_norm: only sigmoid and true are supported");
    hf_layer_windows(m, hf_count(m, "global_attn_every_n_layers", 4, 1, INT32_MAX), 0);
    if (!hp->window)
        hf_stop(m, "layer_types: a model without sliding_attention is not supported");
}

/* Numbers of attention and of experts are in two objects. So is the rope base; transformers 5 takes it from
 * rope_parameters alone. */
void hf_dbrx(struct hf_model *m)
{
    static const char norm[] = "moe_normalize_expert_weights";
    struct ckpt_hparams *hp = &m->c->hp;
    int stated = hf_get(m, "rope_parameters") || hf_get(m, "rope_theta");
    m->at = hf_value(m->cfg.text, "attn_config");
    hp->n_head_kv = hf_count(m, "kv_n_heads", 1, 1, hp->n_head);
    double base = hf_num(m, "rope_theta", m->rope.theta, 1e-3, 1e12);
    if (stated && base != m->rope.theta)
        hf_stop(m, "attn_config: rope_theta is %g, but %g in rope_parameters", base, m->rope.theta);
    hp->rope_base = (float)(m->rope.theta = base);
    m->at = hf_value(m->cfg.text, "ffn_config");
    hp->expert_norm = json_object_get(m->at, norm) && !hf_get(m, norm) ? -1 : 0;
    if (hp->expert_norm == 0 && hf_any(m, norm, 1) != 1)
        hf_stop(m, "%s: only 1 and null are supported", norm);
    const json_t *act = hf_get(m, "ffn_act_fn");
    const char *name = json_string_value(hf_value(act, "name"));
    if (act && (!name || strcmp(name, "silu") != 0))
        hf_stop(m, "ffn_act_fn: name: only silu is supported");
    hf_off(m, "uniform_expert_assignment");
}

/* hidden_act is the activation of the shared expert; that of the others is always SiLU. */
void hf_aria(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->n_ff_expert = hp->n_ff;
    hp->expert_norm = 1;
    read_shared(m, "moe_num_shared_experts", 2);
    if (hp->activation)
        hf_stop(m, "hidden_act: only silu is supported");
}

/* One width for experts, another for plain layers, which are rotated. */
void hf_cohere2_moe(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const char *choice = hf_word(m, "expert_selection_fn", "softmax");
    const char *sum = hf_word(m, "shared_expert_combination_strategy", "average");
    int by_sigmoid = strcmp(choice, "sigmoid") == 0, normed = hf_on(m, "norm_topk_prob", 1);
    hp->n_ff_expert = hp->n_ff;
    hp->n_ff = hf_count(m, "prefix_dense_intermediate_size", hp->n_ff, 1, EXPERT_WIDTH_MOST);
    read_shared(m, "num_shared_experts", 0);
    if (!by_sigmoid && strcmp(choice, "softmax") != 0)
        hf_stop(m, "expert_selection_fn: %.40s is not supported", choice);
    if (hp->n_shared && strcmp(sum, "average") != 0)
        hf_stop(m, "shared_expert_combination_strategy: %.40s is not supported, only average", sum);
    hp->expert_sigmoid = by_sigmoid ? GATING_SIGMOID : GATING_SOFTMAX;
    hp->expert_norm = !by_sigmoid || normed ? 1 : -1;
    m->first_mixture = hf_count(m, "first_k_dense_replace", 0, 0, INT32_MAX);
    hf_mlp_types(m);
    int is_rotated = hf_count(m, "prefix_dense_sliding_window_pattern", 1, 0, INT32_MAX) == 1;
    for (uint32_t i = 0; i < hp->n_layer && !is_rotated; i++) {
        const char *type = json_string_value(json_array_get(m->mlp_types, i));
        if ((type ? strcmp(type, "dense") == 0 : i < m->first_mixture) &&
            hf_layer_is(m, i, "full_attention", "sliding_attention"))
            hf_stop(m, "prefix_dense_sliding_window_pattern: a plain layer with full attention is "
                       "supported only with 1");
    }
}

void hf_mlp_types(struct hf_model *m)
{
    m->mlp_types = hf_get(m, "mlp_layer_types");
    int leading = m->mlp_types != NULL;
    if (leading && json_array_size(m->mlp_types) != m->c->hp.n_layer)
        hf_stop(m, "mlp_layer_types: does not fit the layers");
    m->first_mixture = leading ? 0 : m->first_mixture;
    for (size_t i = 0; i < json_array_size(m->mlp_types); i++) {
        const char *type = json_string_value(json_array_get(m->mlp_types, i));
        if (!type || !ckpt_is_one_of(type, " dense sparse "))
            hf_stop(m, "mlp_layer_types: expected dense or sparse for every layer");
        leading = leading && strcmp(type, "dense") == 0;
        m->first_mixture += (uint32_t)leading;
    }
    read_further(m);
}

/* The rotated part of a head is a number of components in published files. */
void hf_minimax_m2(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->expert_sigmoid = GATING_SIGMOID;
    hp->n_rot = hf_count(m, "rotary_dim", hp->n_rot, 2, (uint32_t)state_size(hp, 'H'));
    if (hp->n_rot % 2)
        hf_stop(m, "rotary_dim: expected an even number");
    m->further = hf_count(m, "num_mtp_modules", 0, 0, CKPT_MAX_LAYERS);
}

/* Layers with a window are rotated; in the others queries grow with their position instead. */
void hf_beam(struct hf_model *m)
{
    static const char cap[] = "final_logit_softcapping";
    struct ckpt_hparams *hp = &m->c->hp;
    const json_t *ropes = hf_get(m, "rope_parameters");
    const struct hf_rope local = hf_local_rope(m, m->family->rope);
    int uncapped = json_object_get(m->cfg.text, cap) && !hf_get(m, cap);
    hp->logit_softcap = uncapped ? 0 : (float)hf_num(m, cap, 30, 0, 1e6);
    m->first_mixture = hp->n_layer < 3 ? hp->n_layer : 3;
    hf_mlp_types(m);
    hf_layer_windows(m, 6, 0);
    if (!hf_get(m, "layer_types") && hp->window) { /* the last layer has none */
        int32_t *windows = hf_windows(m);
        for (uint32_t i = 0; i + 1 < hp->n_layer; i++)
            windows[i] = (i + 1) % 6 ? (int32_t)hp->window : 0;
    }
    if (!hp->window)
        hp->roped = ckpt_new(m->c, (size_t)hp->n_layer + 1, 1); /* none */
    if (ropes && (hf_value(ropes, "full_attention") || !hf_value(ropes, "sliding_attention")))
        hf_stop(m, "rope_parameters: only those of sliding_attention are supported, and null of "
                   "full_attention");
    if (local.rotated != 1 || (!ropes && local.theta != 10000))
        hf_stop(m,
                "rope_theta, partial_rotary_factor: %s reads rope_theta of rope_parameters "
                "alone, and without it has 10000",
                m->family->class.name);
    hp->rope_base = (float)local.theta;
}

void hf_hy_v3(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->expert_sigmoid = GATING_SIGMOID;
    hf_on(m, "enable_moe_fp32_combine", 1); /* of the sum's rounding */
    hp->expert_norm = 1;                    /* llama.cpp does not divide without the key */
    read_shared(m, "num_shared_experts", 1);
}

void hf_granite_4(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hf_get(m, "mamba_conv_bias"); /* read: no layer has it */
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const char *type = json_string_value(json_array_get(hf_get(m, "layer_types"), i));
        if (!type || !ckpt_is_one_of(type, " attention full_attention "))
            hf_stop(m, "layer_types: expected attention in every layer: a token overwrites the "
                       "state of a Mamba layer, so that a session cannot go back");
    }
    if (strcmp(hf_word(m, "position_embedding_type", "nope"), "rope") != 0)
        hf_stop(m, "position_embedding_type: only rope is supported");
    if (hf_count(m, "num_local_experts", 8, 0, EXPERTS_MOST) == 0)
        return;
    m->variant = 1;
    hp->arch = "granitemoe";
    hp->n_expert = hf_count(m, "num_local_experts", 8, 1, EXPERTS_MOST);
    hp->n_expert_used = hf_count(m, "num_experts_per_tok", -1, 1, hp->n_expert);
    hp->n_ff_shared = hp->n_ff;
    hp->n_ff = hf_count(m, "intermediate_size", -1, 1, EXPERT_WIDTH_MOST);
}

void hf_skip_further(struct hf_model *m)
{
    for (size_t i = 0; m->further && i < arr_len(m->state.tensors); i++)
        m->state.tensors[i].used |= strncmp(m->state.tensors[i].name, "mtp.", 4) == 0;
    for (uint32_t k = 0; k < m->further; k++) {
        char begin[32];
        int n = snprintf(begin, sizeof begin, "layers.%u.", m->c->hp.n_layer + k);
        for (size_t i = 0; i < arr_len(m->state.tensors); i++)
            m->state.tensors[i].used |= strncmp(m->state.tensors[i].name, begin, (size_t)n) == 0;
    }
}
