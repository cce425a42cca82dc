/* Laguna: each layer has its own number of query heads, windows have a rope of their own, heads have gates. See
 * hf_special.h. */
#include "convert/families/hf_special.h"

#include <string.h>

enum { HEADS_MOST = 1 << 16, GATING_SIGMOID = 2 };

static void read_heads(struct hf_model *m)
{
    static const char key[] = "num_attention_heads_per_layer";
    struct ckpt_hparams *hp = &m->c->hp;
    const json_t *list = hf_get(m, key);
    int32_t *heads = ckpt_new(m->c, hp->n_layer + 1, sizeof *heads);
    hp->head_dim = (uint32_t)state_size(hp, 'H');
    if (list && json_array_size(list) != hp->n_layer)
        hf_stop(m, "%s: does not fit the layers", key);
    for (uint32_t i = 0; list && i < hp->n_layer; i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t n = json_is(v, JSON_INTEGER) ? json_integer_value(v) : 0;
        if (n < 1 || n > HEADS_MOST || n % (hp->n_head_kv ? hp->n_head_kv : n))
            hf_stop(m, "%s: expected a multiple of num_key_value_heads for every layer", key);
        heads[i] = (int32_t)n;
        hp->heads = n != heads[0] ? heads : hp->heads;
    }
    if (list && hp->n_layer)
        hp->n_head = (uint32_t)heads[0];
}

/* A gate for each head (true), or for each value that it mixes: another shape of the tensor. */
static void read_gates(struct hf_model *m)
{
    const json_t *gating = hf_get(m, "gating");
    const char *name = json_is(gating, JSON_STRING) ? json_string_value(gating) : "";
    m->variant = strcmp(name, "per-element") == 0;
    if (gating && !json_is(gating, JSON_TRUE) && !m->variant && strcmp(name, "per-head") != 0)
        hf_stop(m, "gating: expected true, per-head or per-element");
}

static void read_ropes(struct hf_model *m)
{
    static const struct hf_rope_keys keys = {"rope_theta", "partial_rotary_factor", 10000, 1};
    struct ckpt_hparams *hp = &m->c->hp;
    if (!hf_get(m, "rope_parameters"))
        hp->n_rot /= 2;
    if (!hp->window)
        return;
    struct hf_rope local = hf_local_rope(m, &keys);
    hf_set_local_rope(m, &local);
}

void hf_laguna(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->expert_sigmoid = GATING_SIGMOID;
    hp->expert_norm = 1;
    m->first_mixture = 1;
    hf_mlp_types(m);
    hf_layer_windows(m, 0, UINT32_MAX);
    hf_window_flags(m);
    read_heads(m);
    read_gates(m);
    read_ropes(m);
}
