/* Sliding windows of Hugging Face models: which layers have one. See hf_special.h.
 *
 * A window that is as long as the context, or longer, is none. Where the layers that have one are
 * not those of the architecture's period, a key of ours names each layer's.
 */
#include "convert/families/hf_special.h"
#include "model/arch.h"

#include <math.h>
#include <string.h>

int32_t *hf_windows(struct hf_model *m)
{
    int32_t *windows = ckpt_new(m->c, m->c->hp.n_layer + 1, sizeof *windows);
    m->c->hp.windows = windows;
    return windows;
}

/* null means that there is none, unlike an absent key. */
static uint32_t window_of(struct hf_model *m)
{
    uint32_t absent = json_object_get(m->cfg.text, "sliding_window") ? 0 : m->family->window;
    return hf_count(m, "sliding_window", absent, 0, INT32_MAX);
}

void hf_one_window(struct hf_model *m)
{
    uint32_t window = window_of(m);
    m->c->hp.window = window < m->c->hp.n_ctx ? window : 0;
}

size_t hf_layer_kind(struct hf_model *m, uint32_t i, const char *const kinds[3])
{
    const json_t *types = hf_get(m, "layer_types");
    const char *type = json_string_value(json_array_get(types, i));
    if (json_array_size(types) != m->c->hp.n_layer)
        hf_stop(m, "layer_types: does not fit the layers");
    for (size_t k = 0; type && k < 3 && kinds[k]; k++)
        if (strcmp(type, kinds[k]) == 0)
            return k;
    hf_stop(m, "layer_types: expected %s%s%s or %s for every layer", kinds[2] ? kinds[2] : "",
            kinds[2] ? ", " : "", kinds[0], kinds[1]);
}

int hf_layer_is(struct hf_model *m, uint32_t i, const char *yes, const char *no)
{
    return hf_layer_kind(m, i, (const char *const[3]){yes, no}) == 0;
}

/* Whether layer i has a window where all but the last, or by the architecture the first, of each `period` have one. */
static int is_windowed(const struct hf_model *m, uint32_t i, uint32_t period)
{
    size_t full = arch_find(m->family->arch, strlen(m->family->arch))->full_first;
    return (i + 1) % period != full % period;
}

void hf_layer_windows(struct hf_model *m, uint32_t period, uint32_t first)
{
    struct ckpt_hparams *hp = &m->c->hp;
    int by_type = hf_get(m, "layer_types") != NULL;
    uint32_t full_every = m->family->full_every;
    int usual = full_every > 0, some = full_every > 0;
    int32_t *windows = hf_windows(m);
    hp->window = hp->window ? hp->window : window_of(m);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        int windowed = by_type ? hf_layer_is(m, i, "sliding_attention", "full_attention")
                               : i >= first && (period == 0 || is_windowed(m, i, period));
        windows[i] = windowed ? (int32_t)hp->window : 0;
        usual = usual && windowed == is_windowed(m, i, full_every);
        some = some || windowed;
    }
    if (some && hp->window == 0)
        hf_stop(m, "sliding_window: expected 1 or more");
    if (usual || !some)
        hp->windows = NULL;
    if (!some)
        hp->window = 0;
}

/* llama.cpp reads a flag for each layer. Where those of the type are usual there is no list. */
void hf_window_flags(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    uint32_t full_every = m->family->full_every;
    uint8_t *flags = ckpt_new(m->c, (size_t)hp->n_layer + 1, sizeof *flags);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        flags[i] = hp->windows ? hp->windows[i] > 0 : full_every && is_windowed(m, i, full_every);
    hp->windowed = hp->windows || full_every ? flags : NULL;
    hp->windows = NULL;
}

/* The rope base of the layers with a window, or of the others, from a list of all; 0: none of them is rotated. */
static double granite_base(struct hf_model *m, const json_t *bases, int windowed, uint8_t *roped)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    double base = 0;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const json_t *v = json_array_get(bases, i);
        double here = bases ? json_number_value(v) : m->rope.theta;
        if (hf_layer_is(m, i, "sliding_attention", "full_attention") != windowed)
            continue;
        if ((bases && !json_is_numeric(v)) || !(here >= 0 && here <= 1e12))
            hf_stop(m, "layer_rope_theta: expected a number for every layer");
        if (here > 0 && base > 0 && here != base)
            hf_stop(m, "layer_rope_theta: %g and %g in layers of one kind are not supported", base,
                    here);
        roped[i] = here > 0;
        base = here > 0 ? here : base;
    }
    return base;
}

void hf_granite_swa(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const json_t *bases = hf_get(m, "layer_rope_theta");
    uint8_t *flags = ckpt_new(m->c, 2 * (size_t)hp->n_layer + 1, sizeof *flags);
    uint8_t *roped = flags + hp->n_layer;
    if (bases && json_array_size(bases) != hp->n_layer)
        hf_stop(m, "layer_rope_theta: does not fit the layers");
    hp->window = window_of(m);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        flags[i] = (uint8_t)hf_layer_is(m, i, "sliding_attention", "full_attention");
    if (hp->window == 0)
        hf_stop(m, "sliding_window: expected 1 or more");
    double full = granite_base(m, bases, 0, roped), local = granite_base(m, bases, 1, roped);
    hp->rope_base = (float)(full > 0 ? full : local > 0 ? local : m->rope.theta);
    if (full > 0 && local > 0 && full != local && strcmp(m->rope.type, "default") != 0)
        hf_stop(m, "layer_rope_theta: two bases with rope_type %s are not supported", m->rope.type);
    if (full > 0 && local > 0 && full != local)
        hp->rope_base_local = (float)local;
    hp->windowed = flags;
    hp->roped = roped;
}

/* Only layers whose kind has settings of rope are rotated: those with a window, or, where none has one, all. */
void hf_cohere_compass(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    int windowed = !hp->windows,
        full = hf_value(hf_get(m, "rope_parameters"), "full_attention") != NULL;
    for (uint32_t i = 0; hp->windows && i < hp->n_layer; i++)
        windowed |= hp->windows[i] > 0;
    if (full && windowed)
        hf_stop(m, "rope_parameters: full_attention: only null is supported next to windows");
    if (!full)
        return;
    hp->window = 0;
    hp->windows = NULL;
}

/* Such files state a window that is in use only when another key says so. */
void hf_used_windows(struct hf_model *m)
{
    int used = hf_on(m, "use_sliding_window", 0);
    uint32_t first = hf_count(m, "max_window_layers", 28, 0, INT32_MAX);
    hf_layer_windows(m, 0, used ? first : UINT32_MAX);
    if (!used && m->c->hp.window)
        hf_stop(m, "layer_types: sliding_attention, but use_sliding_window is false");
}

/* Biases of ModernBERT's decoder: each is there exactly where its key says so. */
static const struct {
    const char *key, *bias;
    int absent;
} bert_biases[] = {{"norm_bias", "final_norm.bias", 0},
                   {"classifier_bias", "lm_head.dense.bias", 0},
                   {"decoder_bias", "decoder.bias", 1}};

/* Its window is half of local_attention, in all layers but every third from the first on; where sliding_window says
 * otherwise, transformers 4 and 5 differ. One activation is the MLPs' and the head's. */
void hf_modernbert(struct hf_model *m)
{
    static const struct hf_rope_keys keys = {"local_rope_theta", "partial_rotary_factor", NAN, 1};
    struct ckpt_hparams *hp = &m->c->hp;
    int given = json_object_get(m->cfg.text, "local_attention") != NULL; /* null is none */
    hp->window = hf_count(m, "local_attention", given ? -1 : 128, 2, INT32_MAX) / 2;
    if (hf_count(m, "sliding_window", hp->window, 0, INT32_MAX) != hp->window)
        hf_stop(m, "sliding_window: expected %u, half of local_attention", hp->window);
    hf_layer_windows(m, hf_count(m, "global_attn_every_n_layers", 3, 1, INT32_MAX), 0);
    hp->rope_base_local = (float)hf_local_rope(m, &keys).theta;
    for (size_t i = 0; i < 3; i++)
        hf_get(m, bert_biases[i].key); /* read: in hf_put_modernbert */
    if (strcmp(hf_word(m, "classifier_activation", "gelu"),
               hf_word(m, "hidden_activation", "gelu")) != 0)
        hf_stop(m, "classifier_activation: another one than hidden_activation is not supported");
}

void hf_put_modernbert(struct hf_model *m)
{
    for (size_t i = 0; i < 3; i++)
        if (hf_on(m, bert_biases[i].key, bert_biases[i].absent) !=
            (state_find(&m->state, bert_biases[i].bias) != NULL))
            hf_stop(m, "%s: does not fit the tensors (%s)", bert_biases[i].key,
                    bert_biases[i].bias);
}
