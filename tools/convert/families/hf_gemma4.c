/* Gemma 4: layers with a window and layers without one have other heads; the last layers read the keys and
 * values of others; each layer has an input of its own. See hf_special.h. */
#include "convert/families/hf_special.h"

#include <stdio.h>
#include <string.h>

/* What transformers 5 has of a layer's own; NULL: nothing. */
static const json_t *layer_config(struct hf_model *m, uint32_t layer)
{
    char key[16];
    snprintf(key, sizeof key, "%u", layer);
    const json_t *all = hf_get(m, "per_layer_config");
    return all ? hf_value(all, key) : NULL;
}

/* A size of the layers without a window. */
static uint32_t full_size(struct hf_model *m, const char *own, const char *key, uint32_t usual)
{
    uint32_t n = hf_get(m, key) ? hf_count(m, key, -1, 1, 1 << 20) : usual;
    int found = 0;
    for (uint32_t i = 0; i < m->c->hp.n_layer; i++) {
        const json_t *v = layer_config(m, i) ? hf_value(layer_config(m, i), own) : NULL;
        json_int_t is = json_integer_value(v);
        if (v && (m->c->hp.windowed[i] || !json_is(v, JSON_INTEGER) || is < 1 || is > 1 << 20 ||
                  (found && (uint32_t)is != n)))
            hf_stop(m,
                    "per_layer_config: layer %u: %s: expected one of all layers without a window",
                    i, own);
        found |= v != NULL;
        n = v ? (uint32_t)is : n;
    }
    return n;
}

/* Flags of windows, which GGUF always has; the last layer has none. */
static void flag_windows(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    uint8_t *windowed = ckpt_new(m->c, hp->n_layer + 1, 1);
    for (uint32_t i = 0; i + 1 < hp->n_layer; i++)
        windowed[i] =
            hp->windows ? hp->windows[i] > 0 : hp->window && (i + 1) % m->family->full_every != 0;
    hp->windows = NULL;
    hp->windowed = windowed;
}

static void read_shared(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->n_shared_kv = hf_count(m, "num_kv_shared_layers", 0, 0, hp->n_layer);
    if (!hf_on(m, "use_double_wide_mlp", 0) || !hp->n_shared_kv)
        return;
    int32_t *widths = ckpt_new(m->c, hp->n_layer, sizeof *widths);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        widths[i] = (int32_t)hp->n_ff << (i + hp->n_shared_kv >= hp->n_layer);
    hp->ff_widths = widths;
}

static void read_heads(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    int keys_only = hf_on(m, "attention_k_eq_v", 0);
    hp->n_rot_swa = hp->head_dim_swa = (uint32_t)state_size(hp, 'H');
    uint32_t usual = hf_get(m, "per_layer_config") ? hp->head_dim_swa : 512;
    hp->n_rot = hp->head_dim = full_size(m, "head_dim", "global_head_dim", usual);
    uint32_t kv = full_size(m, "num_key_value_heads", keys_only ? "num_global_key_value_heads" : "",
                            hp->n_head_kv);
    int32_t *heads = ckpt_new(m->c, hp->n_layer + 1, sizeof *heads);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        heads[i] = (int32_t)(hp->windowed[i] ? hp->n_head_kv : kv);
    hp->kv_heads = kv != hp->n_head_kv ? heads : NULL;
    if (hp->n_head % kv)
        hf_stop(m, "num_global_key_value_heads %u does not divide num_attention_heads %u", kv,
                hp->n_head);
}

void hf_gemma4(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    if (strcmp(hf_word(m, "use_bidirectional_attention", ""), "all") == 0)
        hf_stop(m, "use_bidirectional_attention: all is not supported");
    flag_windows(m);
    read_heads(m);
    read_shared(m);
    if (hp->n_input &&
        hf_count(m, "vocab_size_per_layer_input", 262144, 1, INT32_MAX) != hp->n_vocab)
        hf_stop(m, "vocab_size_per_layer_input: expected vocab_size, %u", hp->n_vocab);
    if (!hf_get(m, "rope_parameters"))
        m->rope =
            (struct hf_rope){.type = "proportional", .factor = 1, .rotated = 0.25, .theta = 1e6};
    if (strcmp(m->rope.type, "proportional") != 0 && strcmp(m->rope.type, "default") != 0)
        hf_stop(m, "rope_parameters: rope_type %.40s of full_attention is not supported",
                m->rope.type);
    hf_gemma3_rope(m);
}

/* Adds the divisors of rope's frequencies. A pair that does not rotate has 1e30, as llama.cpp writes it. Other types than these
 * two have none, or the divisors of hf_put_rope. */
void hf_put_resting_pairs(struct hf_model *m)
{
    uint32_t n = m->c->hp.n_rot / 2;
    int all = strcmp(m->rope.type, "default") == 0;
    if (!all && strcmp(m->rope.type, "proportional") != 0)
        return;
    uint32_t turning = all ? n : (uint32_t)(m->rope.rotated * 2 * n) / 2;
    float *factors = ckpt_new(m->c, n + 1, sizeof *factors);
    for (uint32_t i = 0; i < n; i++)
        factors[i] = i < turning ? (float)m->rope.factor : 1e30F;
    ckpt_add(m->c, "rope_freqs.weight", n, 0,
             (struct ckpt_tensor){.bytes = (const uint8_t *)factors});
}

void hf_put_lfm3(struct hf_model *m)
{
    hf_put_convolutions(m);
    hf_put_resting_pairs(m);
}
