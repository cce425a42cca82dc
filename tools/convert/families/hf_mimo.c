/* MiMo-V2-Flash: values have a width and a factor of their own, layers with a window twice the KV heads, sinks
 * and a rope of their own. See hf_special.h. */
#include "convert/families/hf_special.h"

#include <string.h>

enum { VALUE_MOST = 1 << 20 };

/* Whether rope_parameters state a key for such layers. Without it, the value must be the class's own. */
static int is_stated(struct hf_model *m, const char *layer, const char *key, int is_own)
{
    const json_t *all = hf_get(m, "rope_parameters"), *of = all ? hf_value(all, layer) : NULL;
    int stated = all && hf_value(of ? of : all, key);
    if (!stated && !is_own)
        hf_stop(m,
                "rope_theta, swa_rope_theta, partial_rotary_factor: %s reads rope_parameters "
                "alone, and without it has 5e6, 10000 and 0.334",
                m->family->class.name);
    return stated;
}

/* The class takes its bases and the rotated part from rope_parameters, or its own; never from keys beside. */
static void read_ropes(struct hf_model *m)
{
    static const char part[] = "partial_rotary_factor", full[] = "full_attention";
    static const struct hf_rope_keys keys = {"swa_rope_theta", part, 10000, 0.334};
    struct hf_rope local = hf_local_rope(m, &keys);
    is_stated(m, full, "rope_theta", m->rope.theta == 5e6);
    is_stated(m, "sliding_attention", "rope_theta", local.theta == 10000);
    is_stated(m, "sliding_attention", part, local.rotated == 0.334);
    if (!is_stated(m, full, part, m->rope.rotated == 0.334) &&
        strcmp(m->rope.type, "default") != 0) /* then it is 1 */
        hf_stop(m, "rope_parameters: %s: missing", part);
    if (m->c->hp.window)
        hf_set_local_rope(m, &local);
    if (m->c->hp.n_rot_swa == m->c->hp.n_rot)
        m->c->hp.n_rot_swa = 0;
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
