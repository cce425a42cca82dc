/* What config.json says in some families alone: "read do NAME" of models.txt. See hf_special.h. */
#include "convert/families/hf_special.h"

#include "model/arch.h"

#include <math.h>
#include <string.h>

/* Every n-th layer is not rotated. The list says the same with a 0. */
void hf_smollm3(struct hf_model *m)
{
    const json_t *list = hf_get(m, "no_rope_layers");
    uint32_t every = hf_count(m, "no_rope_layer_interval", 4, 1, CKPT_MAX_LAYERS);
    if (list && json_array_size(list) < m->c->hp.n_layer)
        hf_stop(m, "no_rope_layers: expected one entry for every layer");
    for (uint32_t i = 0; list && i < m->c->hp.n_layer; i++) {
        const json_t *on = json_array_get(list, i);
        if (!json_is(on, JSON_INTEGER) || json_integer_value(on) != ((i + 1) % every != 0))
            hf_stop(m,
                    "no_rope_layers: entry %u: only a 0 in every no_rope_layer_interval-th layer "
                    "(%u) is supported",
                    i, every);
    }
    m->c->hp.no_rope_every = every == 4 ? 0 : every;
    if (hf_get(m, "layer_types"))
        hf_used_windows(m);
    else
        hf_off(m, "use_sliding_window");
}

/* Queries grow with their position, by the context that YaRN extends. */
void hf_ministral3(struct hf_model *m)
{
    double beta = m->rope.query_beta;
    if (!(beta >= 0 && beta <= 1e3))
        hf_stop(m, "llama_4_scaling_beta: out of range");
    if (beta > 0 && strcmp(m->rope.type, "yarn") != 0)
        hf_stop(m, "llama_4_scaling_beta: only with rope_type yarn");
    m->c->hp.query_beta = (float)beta;
}

/* The first files say "gelu" where the program computes the approximation by tanh. */
void hf_gemma(struct hf_model *m)
{
    if (strcmp(hf_word(m, "hidden_act", ""), "gelu") == 0)
        m->c->hp.activation = NULL;
}

void hf_gemma_scale(struct hf_model *m)
{
    const char *name = m->c->hp.arch;
    const struct arch *arch = arch_find(name, strlen(name));
    double scalar = hf_num(m, "query_pre_attn_scalar", 256, 0, 1e9);
    if (scalar != m->c->hp.head_dim || m->c->hp.n_layer == arch->wide_scale)
        m->c->hp.attn_scale = (float)(1.0 / sqrt(scalar));
}

const char *hf_rope_layer(struct hf_model *m)
{
    const struct arch *arch = arch_find(m->family->arch, strlen(m->family->arch));
    const json_t *full = json_object_get(hf_get(m, "rope_parameters"), "full_attention");
    if (!m->family->windowed)
        return NULL;
    return arch->rope_windowed && !json_is(full, JSON_OBJECT) ? "sliding_attention"
                                                              : "full_attention";
}

struct hf_rope hf_local_rope(struct hf_model *m, const struct hf_rope_keys *keys)
{
    struct hf_rope local = hf_rope_read(m, keys, "sliding_attention");
    if (strcmp(local.type, "default") != 0)
        hf_stop(m, "rope_parameters: windowed layers of another rope_type");
    return local;
}

void hf_set_local_rope(struct hf_model *m, const struct hf_rope *local)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->rope_base_local = (float)local->theta;
    hp->n_rot_swa = (uint32_t)(hp->head_dim * local->rotated);
    if (hp->n_rot_swa % 2 || hp->n_rot_swa == 0)
        hf_stop(m,
                "rope_parameters: %u rotary components of %u in layers with a window: an even "
                "number is expected",
                hp->n_rot_swa, hp->head_dim);
}

void hf_gemma3_rope(struct hf_model *m)
{
    static const struct hf_rope_keys keys = {"rope_local_base_freq", "partial_rotary_factor", 10000,
                                             1};
    m->c->hp.rope_base_local = (float)hf_local_rope(m, &keys).theta;
}

/* All layers but every fourth have windows; those alone may have another rope base or scaling. */
void hf_olmo3_rope(struct hf_model *m)
{
    struct hf_rope local = hf_local_rope(m, m->family->rope);
    if (local.theta != m->rope.theta || strcmp(m->rope.type, "default") != 0)
        m->c->hp.rope_base_local = (float)local.theta;
}

/* "dynamic" with alpha is a base of its own, for texts of any length. */
void hf_hunyuan(struct hf_model *m)
{
    double d = (double)state_size(&m->c->hp, 'H');
    if (m->rope.alpha > 0 && d <= 2)
        hf_stop(m, "alpha: heads of width 2 have no such base");
    if (m->rope.alpha > 0)
        m->c->hp.rope_base = (float)(m->rope.theta * pow(m->rope.alpha, d / (d - 2)));
}

/* A model with windows rotates only in layers that have one; a model without rotates in all. */
void hf_exaone4(struct hf_model *m)
{
    int none = json_object_get(m->cfg.text, "sliding_window") && !hf_get(m, "sliding_window");
    int by_period = !none && !hf_get(m, "layer_types");
    hf_layer_windows(m, by_period ? hf_count(m, "sliding_window_pattern", 4, 0, INT32_MAX) : 1, 0);
    if (!none && !m->c->hp.window)
        hf_stop(m, "layer_types: a sliding_window that no layer has is not supported");
}

void hf_minicpm(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    double depth = hf_num(m, "scale_depth", 1, 0, 1e6);
    hf_off(m, "sparse_config");
    hp->embd_scale = (float)hf_num(m, "scale_emb", 1, 0, 1e6);
    hp->residual_scale = hp->n_layer ? (float)(depth / sqrt((double)hp->n_layer)) : 1;
    hp->logit_scale = (float)((double)hp->n_embd / hf_num(m, "dim_model_base", 1, 0, 1e9));
}

/* Whether layer i is attention: by layer_types, else by full_attn_idxs, else it is. */
static int lfm2_attention(struct hf_model *m, uint32_t i)
{
    const json_t *list = hf_get(m, "full_attn_idxs");
    int found = !list;
    if (hf_get(m, "layer_types"))
        return hf_layer_is(m, i, "full_attention", "conv");
    for (size_t k = 0; k < json_array_size(list); k++)
        found |= json_integer_value(json_array_get(list, k)) == (json_int_t)i;
    return found;
}

/* The width of the MLP, which config.json states in the terms of a program for training. */
static uint32_t lfm2_mlp(struct hf_model *m)
{
    uint32_t n = hf_count(m, hf_get(m, "block_ff_dim") ? "block_ff_dim" : "intermediate_size", -1,
                          1, 1 << 23);
    uint32_t multiple = hf_count(m, "block_multiple_of", 256, 1, 1 << 20);
    double by = hf_num(m, "block_ffn_dim_multiplier", 1, 0, 1e3);
    if (!hf_on(m, "block_auto_adjust_ff_dim", 1))
        return n;
    uint64_t width = ((uint64_t)(by * (double)(2 * n / 3)) + multiple - 1) / multiple * multiple;
    ckpt_size(m->c, &n, "intermediate_size", width);
    return n;
}

/* Reads the taps of convolutions. Returns room for the KV heads of each layer, which is in hp.kv_heads. */
static int32_t *lfm2_layers(struct hf_model *m, uint32_t taps)
{
    struct ckpt_hparams *hp = &m->c->hp;
    int32_t *kv_heads = ckpt_new(m->c, hp->n_layer + 1, sizeof *kv_heads);
    hp->n_conv = hf_count(m, "conv_L_cache", taps, 1, 64);
    if (state_size(hp, 'Q') != hp->n_embd)
        hf_stop(m, "head_dim: heads that are not as wide as hidden_size");
    hp->kv_heads = kv_heads;
    return kv_heads;
}

void hf_lfm2(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    int32_t *kv_heads = lfm2_layers(m, 3);
    int tied = hf_on(m, "tie_word_embeddings", 1);
    hf_off(m, "conv_bias");
    if (hf_on(m, "tie_embedding", tied) != tied)
        hf_stop(m, "tie_embedding: contradicts tie_word_embeddings");
    if (!m->family->experts)
        hp->n_ff = lfm2_mlp(m);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        kv_heads[i] = lfm2_attention(m, i) ? (int32_t)hp->n_head_kv : 0;
}

/* Layers of attention with a window have a rope of their own; of the others only some pairs turn. */
void hf_lfm3(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    int32_t *kv_heads = lfm2_layers(m, 7);
    uint8_t *windowed = ckpt_new(m->c, hp->n_layer + 1, 1);
    int by_type = hf_get(m, "layer_types") != NULL;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        enum { SLIDING, FULL, CONV };
        static const char *const kinds[3] = {"sliding_attention", "full_attention", "conv"};
        static const size_t usual[4] = {SLIDING, CONV, FULL, CONV};
        size_t kind = by_type ? hf_layer_kind(m, i, kinds) : i ? usual[i % 4] : CONV;
        kv_heads[i] = kind == CONV ? 0 : (int32_t)hp->n_head_kv;
        windowed[i] = kind == SLIDING;
        hp->window = windowed[i] ? hf_count(m, "sliding_window", 256, 1, INT32_MAX) : hp->window;
    }
    hp->windowed = hp->window ? windowed : NULL;
    if (!hf_get(m, "rope_parameters"))
        m->rope =
            (struct hf_rope){.type = "proportional", .factor = 1, .rotated = 0.5, .theta = 1e6};
    hf_gemma3_rope(m);
}

/* OPT-350m normalises the residual after its branches, as GPT-1, and has narrower embeddings. */
void hf_opt(struct hf_model *m)
{
    uint32_t width = hf_count(m, "word_embed_proj_dim", m->c->hp.n_embd, 1, 1 << 20);
    m->projected = width == m->c->hp.n_embd ? 0 : width;
    if (m->variant)
        m->c->hp.arch = "gpt1";
}

/* The rotation has no settings but its width. */
void hf_gptj(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    hp->n_rot = hf_count(m, "rotary_dim", 64, 0, INT32_MAX);
    if (json_object_get(m->cfg.text, "rotary_dim") && !hf_get(m, "rotary_dim"))
        hf_stop(m, "rotary_dim: null is not supported");
    if (hp->n_rot == 0 || hp->n_rot % 2 || hp->n_rot > state_size(hp, 'H'))
        hf_stop(m, "rotary_dim: expected an even number up to the width of a head");
    hp->rope_base = 10000;
}

void hf_sequential(struct hf_model *m)
{
    m->c->hp.parallel = 0;
}

void hf_bigcode(struct hf_model *m)
{
    m->c->hp.n_head_kv = m->variant ? m->c->hp.n_head : 1;
}

/* Three layouts of q, k, v that are one: for each KV head its queries, its key, its value. */
void hf_falcon(struct hf_model *m)
{
    int is_new = hf_on(m, "new_decoder_architecture", 0), one = hf_on(m, "multi_query", 1);
    m->variant = hf_count(m, "num_ln_in_parallel_attn", is_new ? 2 : 1, 1, is_new ? 2 : 1) == 1;
    if (!is_new)
        m->c->hp.n_head_kv = one ? 1 : m->c->hp.n_head;
}

/* Its "gelu" is what others call gelu_new. */
void hf_gpt1(struct hf_model *m)
{
    const char *name = hf_word(m, "afn", "gelu");
    if (!ckpt_is_one_of(name, " relu silu swish gelu "))
        hf_stop(m, "afn: %.40s is not supported", name);
    if (strcmp(name, "gelu") != 0)
        m->c->hp.activation = strcmp(name, "relu") == 0 ? "relu" : "silu";
}

/* The key is the last norm's eps; the others have 1e-6. */
void hf_ctrl(struct hf_model *m)
{
    if (m->c->hp.norm_eps != 1e-6F)
        hf_stop(m, "layer_norm_epsilon: only 1e-6 is supported");
    m->c->hp.activation = "relu";
}

/* One entry [["global", "local"], n]: appends its kinds n times from layer i on, and returns the layer
 * that follows. */
static uint32_t add_kinds(struct hf_model *m, const json_t *entry, int32_t *windows, uint32_t i,
                          uint32_t window)
{
    const json_t *kinds = json_array_get(entry, 0), *times = json_array_get(entry, 1);
    json_int_t n =
        json_array_size(kinds) > 0 && json_is(times, JSON_INTEGER) ? json_integer_value(times) : -1;
    if (n < 0 || n > m->c->hp.n_layer)
        hf_stop(m, "attention_types: expected [[[\"global\", \"local\"], n], ...]");
    for (size_t k = 0; k < (size_t)n * json_array_size(kinds); k++) {
        const char *kind = json_string_value(json_array_get(kinds, k % json_array_size(kinds)));
        if (i == m->c->hp.n_layer || !kind || !ckpt_is_one_of(kind, " global local "))
            hf_stop(m, "attention_types: expected [[[\"global\", \"local\"], n], ...]");
        windows[i++] = strcmp(kind, "local") == 0 ? (int32_t)window : 0;
    }
    return i;
}

void hf_gpt_neo(struct hf_model *m)
{
    const json_t *types = hf_get(m, "attention_types");
    uint32_t window = hf_count(m, "window_size", 256, 1, INT32_MAX), n = 0;
    int32_t *windows = hf_windows(m);
    m->c->hp.attn_scale = 1;
    for (size_t i = 0; i < json_array_size(types); i++)
        n = add_kinds(m, json_array_get(types, i), windows, n, window);
    if (n != m->c->hp.n_layer)
        hf_stop(m, "attention_types: %u kinds for %u layers", n, m->c->hp.n_layer);
    const json_t *layers = hf_get(m, "attention_layers");
    for (uint32_t i = 0; layers && i < n; i++) {
        const char *kind = json_string_value(json_array_get(layers, i));
        if (json_array_size(layers) != n || !kind || (strcmp(kind, "local") == 0) != !!windows[i])
            hf_stop(m, "attention_layers: contradicts attention_types");
    }
}

/* The head may have the first rows only: other tokens are of images and sounds, and not written. */
void hf_apertus1p5(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    m->n_rows = hp->n_vocab;
    hp->n_vocab = hf_count(m, "output_vocab_size", hp->n_vocab, 1, hp->n_vocab);
    if (hp->n_vocab < m->n_rows && hf_on(m, "tie_word_embeddings", 0))
        hf_stop(m, "output_vocab_size: only null is supported with tie_word_embeddings");
}

/* Without images the layers of cross attention are not run. The table has 8 rows more than the head, of images. */
void hf_mllama(struct hf_model *m)
{
    static const char key[] = "cross_attention_layers";
    struct ckpt_hparams *hp = &m->c->hp;
    const json_t *list = hf_get(m, key);
    uint8_t *out = ckpt_new(m->c, hp->n_layer + 1, 1);
    uint32_t n = hp->n_layer;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = !list && i % 5 == 3 && i < 40;
        for (size_t k = 0; k < json_array_size(list); k++)
            out[i] |= json_integer_value(json_array_get(list, k)) == (json_int_t)i;
        hp->n_layer -= out[i];
    }
    if (list && !json_is(list, JSON_ARRAY))
        hf_stop(m, "%s: expected a list of layers", key);
    if (hp->n_layer < n)
        ckpt_note(m->c,
                  "%u layers of cross attention, which texts without images skip, are left out",
                  n - hp->n_layer);
    m->left_out = out;
    m->c->is_renumbered = hp->n_layer < n;
    m->n_layer = n;
    m->n_rows = hp->n_vocab + 8;
}

void hf_qwen2_moe(struct hf_model *m)
{
    if (hf_on(m, "use_sliding_window", 0) && !hf_get(m, "layer_types"))
        hf_stop(m, "use_sliding_window: only with layer_types");
    m->c->hp.n_ff_shared = hf_count(m, "shared_expert_intermediate_size", -1, 1, 1 << 23);
}
