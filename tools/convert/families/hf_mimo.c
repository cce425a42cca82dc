/* MiMo-V2-Flash: values have a width and a factor of their own, layers with a window twice the KV heads, sinks
 * and a rope of their own. See hf_special.h. */
#include "convert/families/hf_special.h"

#include <string.h>

enum { VALUE_MOST = 1 << 20 };

/* The class takes its bases and the rotated part from rope_parameters, or its own; never from keys beside. */
static void read_ropes(struct hf_model *m)
{
    static const struct hf_rope_keys keys = {"swa_rope_theta", "partial_rotary_factor", 10000,
                                             0.334};
    struct ckpt_hparams *hp = &m->c->hp;
    struct hf_rope local = hf_local_rope(m, &keys);
    int is_default = strcmp(m->rope.type, "default") == 0;
    if (!hf_get(m, "rope_parameters") &&
        (m->rope.theta != 5e6 || local.theta != 10000 || m->rope.rotated != 0.334))
        hf_stop(m,
                "rope_theta, swa_rope_theta, partial_rotary_factor: %s reads rope_parameters "
                "alone, and without it has 5e6, 10000 and 0.334",
                m->family->class.name);
    if (!is_default && m->rope.rotated == 0.334) /* absent: then it is 1 */
        hf_stop(m, "rope_parameters: partial_rotary_factor: missing");
    if (!hp->window)
        return;
    hp->rope_base_local = (float)local.theta;
    uint32_t n_rot = (uint32_t)(hp->head_dim * local.rotated);
    if (n_rot % 2 || n_rot == 0)
        hf_stop(m, "rope_parameters: %u rotary components of %u: an even number is expected", n_rot,
                hp->head_dim);
    hp->n_rot_swa = n_rot != hp->n_rot ? n_rot : 0;
}

/* Layers with a window have twice the KV heads. */
static void read_kv_heads(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    int32_t *heads = ckpt_new(m->c, hp->n_layer + 1, sizeof *heads);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        heads[i] = (int32_t)(hp->n_head_kv << hp->windowed[i]);
    if (hp->n_head % (2 * hp->n_head_kv))
        hf_stop(m, "num_attention_heads %u: expected a multiple of %u", hp->n_head,
                2 * hp->n_head_kv);
    hp->kv_heads = heads;
}

void hf_mimo(struct hf_model *m)
{
    static const char scale[] = "attention_value_scale", size[] = "sliding_window_size";
    struct ckpt_hparams *hp = &m->c->hp;
    int unscaled = json_object_get(m->cfg.text, scale) && !hf_get(m, scale);
    hp->value_dim = hf_count(m, "v_head_dim", 128, 1, VALUE_MOST);
    hp->value_scale = unscaled ? 0 : (float)hf_num(m, scale, 0.707, 1e-6, 1e6);
    m->first_mixture = 1;
    hf_mlp_types(m);
    hf_layer_windows(m, 6, 1);
    if (hp->window && hf_get(m, size)) /* without the query */
        hp->window = hf_count(m, size, 0, 0, INT32_MAX - 1) + 1;
    hf_window_flags(m);
    read_ropes(m);
    if (hp->windowed)
        read_kv_heads(m);
}
