/* Rotary settings of Hugging Face models. See hf_rope.h.
 *
 * Frequencies that no key of GGUF describes become a tensor: rope_freqs.weight, divisors of the
 * base's powers (Llama 3), or rope_factors_short.weight and _long.weight (LongRoPE).
 */
#include "convert/families/hf_special.h"

#include <math.h>
#include <string.h>

enum { MAX_FACTORS = 1 << 16 };

/* ---- the object ------------------------------------------------------------------------------ */

/* Transformers 5 has rope_parameters for everything, with one object per kind of layer in some
 * models. Before it there were rope_theta (or the family's own name) and rope_scaling, which never
 * applied to the windowed layers of such models. */
static const json_t *rope_object(struct hf_model *m, const char *layer)
{
    const json_t *o = hf_get(m, "rope_parameters"), *old = hf_get(m, "rope_scaling");
    const json_t *own = o ? hf_value(o, layer) : NULL;
    const char *key;
    json_t *v;
    if (o && old && !json_equal(o, old)) /* transformers 5 takes the old one, others the new one */
        hf_stop(m, "rope_scaling: there are also rope_parameters: one of them is expected");
    if ((o && !json_is(o, JSON_OBJECT)) || (old && !json_is(old, JSON_OBJECT)))
        hf_stop(m, "%s: expected an object", o ? "rope_parameters" : "rope_scaling");
    if (own || (!o && layer && strcmp(layer, "full_attention") != 0))
        return own;
    json_object_foreach((json_t *)(uintptr_t)o, key, v)
    {
        if (json_is(v, JSON_OBJECT) && !layer)
            hf_stop(m, "%.60s: settings per kind of layer are not supported", key);
    }
    return o ? o : old;
}

/* ---- kinds, whose keys are in the object, m->at ------------------------------------------------ */

_Noreturn static void no_sense(struct hf_model *m)
{
    hf_stop(m, "rope_scaling: its numbers do not make sense");
}

static void read_factor(struct hf_model *m, struct hf_rope *rope)
{
    rope->factor = hf_any(m, "factor", NAN);
    if (!(rope->factor > 0 && rope->factor <= 1e6))
        hf_stop(m, "rope_scaling: factor is out of range");
}

/* The original context is in the object, or next to it, whose number the classes prefer; Phi-3's class has 4096 there. */
static double read_context(struct hf_model *m)
{
    static const char key[] = "original_max_position_embeddings";
    const json_t *object = m->at;
    double inside = hf_any(m, key, 0);
    m->at = m->cfg.text;
    double beside = hf_any(m, key, strcmp(m->cfg.model_type, "phi3") == 0 ? 4096 : 0);
    m->at = object;
    if (inside != 0 && beside != 0 && inside != beside)
        hf_stop(m, "%s: %g in rope's parameters, %g beside them", key, inside, beside);
    return beside != 0 ? beside : hf_any(m, key, NAN);
}

static void read_llama3(struct hf_model *m, struct hf_rope *rope)
{
    read_factor(m, rope);
    rope->low = hf_any(m, "low_freq_factor", NAN);
    rope->high = hf_any(m, "high_freq_factor", NAN);
    rope->context = read_context(m);
    if (!(rope->low > 0 && rope->high > rope->low && rope->context > 0 && rope->factor >= 1))
        no_sense(m);
}

/* The classes read truncate of the whole, not of a kind of layers. */
static int keeps_bounds(struct hf_model *m)
{
    const json_t *object = m->at, *whole = json_object_get(m->cfg.text, "rope_parameters");
    hf_on(m, "truncate", 1);
    m->at = whole ? whole : object;
    int kept = !hf_on(m, "truncate", 1);
    m->at = object;
    return kept;
}

/* 0.1 ln(factor) + 1 is what llama.cpp multiplies attn_factor with. */
static void read_yarn(struct hf_model *m, struct hf_rope *rope)
{
    read_factor(m, rope);
    rope->context = read_context(m);
    rope->high = hf_any(m, "beta_fast", 32);
    rope->low = hf_any(m, "beta_slow", 1);
    rope->exact = keeps_bounds(m);
    double octaves = rope->factor > 1 ? 0.1 * log(rope->factor) : 0, usual = octaves + 1;
    double more = hf_any(m, "mscale", 0), less = hf_any(m, "mscale_all_dim", 0);
    double all = more != 0 && less != 0 ? (1 + more * octaves) / (1 + less * octaves) : usual;
    rope->attn_factor = hf_any(m, "attention_factor", all) / usual;
    if (!(rope->context >= 1 && rope->context <= 1 << 30 && rope->low > 0 &&
          rope->high >= rope->low && rope->high <= 1e6 && rope->factor >= 1 &&
          rope->attn_factor > 0 && rope->attn_factor < 1e6 && rope->theta > 1))
        no_sense(m);
}

static void read_longrope(struct hf_model *m, struct hf_rope *rope)
{
    const json_t *o = m->at;
    m->at = m->cfg.text;
    double n_ctx = hf_any(m, "max_position_embeddings", NAN);
    m->at = o;
    rope->context = read_context(m);
    rope->factor = hf_any(m, "factor", n_ctx / rope->context);
    if (!(rope->context > 1 && rope->context <= 1 << 30 && rope->factor > 0))
        no_sense(m);
    double usual = rope->factor > 1 ? sqrt(1 + log(rope->factor) / log(rope->context)) : 1;
    usual = hf_any(m, "attention_factor", usual);
    rope->attn_factor = hf_any(m, "short_mscale", usual);
    rope->long_attn = hf_any(m, "long_mscale", rope->attn_factor);
    if (!(rope->attn_factor > 0 && rope->attn_factor < 1e6 && rope->long_attn > 0 &&
          rope->long_attn < 1e6))
        no_sense(m);
    rope->short_factor = hf_get(m, "short_factor");
    rope->long_factor = hf_get(m, "long_factor");
}

/* All pairs have frequencies by the width of a head; those after the rotated part rest. */
static void read_proportional(struct hf_model *m, struct hf_rope *rope)
{
    if (!m->family->resting_pairs)
        hf_stop(m, "rope_type proportional is not supported for model_type %s", m->cfg.model_type);
    if (hf_get(m, "factor"))
        read_factor(m, rope);
}

static void read_dynamic(struct hf_model *m, struct hf_rope *rope)
{
    rope->alpha = hf_any(m, "alpha", 0);
    rope->factor = hf_any(m, "factor", 1); /* of MLA's scores */
    if (!(rope->alpha >= 0 && rope->alpha <= 1e9))
        no_sense(m);
}

/* Components of three positions, which are one in a text without images. */
static void read_mrope(struct hf_model *m, struct hf_rope *rope)
{
    (void)rope;
    if (!strstr(m->cfg.model_type, "_vl_text") || !hf_get(m, "mrope_section"))
        hf_stop(m, "rope_scaling: mrope without a part that sees is not supported");
}

/* "dynamic" changes frequencies only for texts beyond max_position_embeddings, which is as long as
 * a text can be here. "su" is how Phi-3 spelled LongRoPE at first. NULL: there are no numbers. */
static const struct {
    const char *type;
    void (*read)(struct hf_model *m, struct hf_rope *rope);
} kinds[] = {
    {"default", NULL},       {"dynamic", read_dynamic}, {"linear", read_factor},
    {"llama3", read_llama3}, {"yarn", read_yarn},       {"longrope", read_longrope},
    {"su", read_longrope},   {"mrope", read_mrope},     {"proportional", read_proportional}};

static void read_kind(struct hf_model *m, struct hf_rope *rope)
{
    size_t i = 0;
    while (i < HF_COUNT(kinds) && strcmp(kinds[i].type, rope->type) != 0)
        i++;
    if (i == HF_COUNT(kinds))
        hf_stop(m, "rope_type %.40s is not supported for model_type %s", rope->type,
                m->cfg.model_type);
    if (kinds[i].read)
        kinds[i].read(m, rope);
}

/* A number that the object has under one name, and config.json itself, where it has none, under
 * another. */
static double read_either(struct hf_model *m, const char *key, const char *other, double absent)
{
    const json_t *o = m->at;
    m->at = hf_get(m, key) ? o : m->cfg.text;
    double v = hf_any(m, m->at == o ? key : other, absent);
    m->at = o;
    return v;
}

struct hf_rope hf_rope_read(struct hf_model *m, const struct hf_rope_keys *keys, const char *layer)
{
    static const char part[] = "partial_rotary_factor";
    struct hf_rope rope = {.factor = 1};
    m->at = rope_object(m, layer);
    rope.type = hf_word(m, hf_get(m, "rope_type") ? "rope_type" : "type", "default");
    if (layer && isnan(keys->theta_absent) && !hf_get(m, "rope_theta") &&
        !hf_value(m->cfg.text, keys->theta))
        hf_stop(m, "rope_parameters: %s: %s: missing", layer, keys->theta);
    rope.theta = read_either(m, "rope_theta", keys->theta, keys->theta_absent);
    rope.rotated = read_either(m, part, keys->rotated, keys->rotated_absent);
    /* Transformers 5 writes the rotated part of a head into the object and leaves it where it was,
     * under one name or two. */
    const char *const beside[] = {keys->rotated, part};
    for (size_t i = 0; i < 2; i++)
        if (json_number_value(json_object_get(m->cfg.text, beside[i])) == rope.rotated)
            hf_value(m->cfg.text, beside[i]); /* read */
    if (!(rope.theta >= 1e-3 && rope.theta <= 1e12))
        hf_stop(m, "%s: out of range", keys->theta);
    if (!(rope.rotated > 0 && rope.rotated <= 1))
        hf_stop(m, "%s: out of range", keys->rotated);
    read_kind(m, &rope);
    rope.all_dim = m->family->latent ? hf_any(m, "mscale_all_dim", 0) : 0;
    rope.query_beta = hf_any(m, "llama_4_scaling_beta", 0);
    m->at = m->cfg.text;
    return rope;
}

/* ---- the checkpoint's numbers ---------------------------------------------------------------- */

/* Frequencies by the text's length would make cached keys wrong: it is decided here, once. */
static void choose_context(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const struct ckpt_options *o = m->in->options;
    uint32_t original = (uint32_t)m->rope.context, all = hp->n_ctx;
    if (o->given & OPT_CONTEXT && (uint32_t)o->n_ctx > all)
        ckpt_stop(m->c, "--context %d: the model has %u positions", (int)o->n_ctx, all);
    if (o->given & OPT_CONTEXT)
        hp->n_ctx = (uint32_t)o->n_ctx;
    else if (original < all)
        hp->n_ctx = original;
    if (hp->n_ctx < all)
        ckpt_note(m->c, "context %u of %u, with LongRoPE's factors for %s texts (--context N)",
                  hp->n_ctx, all, hp->n_ctx > original ? "long" : "short");
}

static void set_scaling(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const struct hf_rope *r = &m->rope;
    int is_long = strcmp(r->type, "longrope") == 0 || strcmp(r->type, "su") == 0;
    if (strcmp(r->type, "linear") == 0)
        hp->rope_factor = (float)r->factor;
    if (strcmp(r->type, "yarn") == 0 || is_long) {
        hp->rope_scaling = is_long ? "longrope" : "yarn";
        hp->rope_factor = is_long ? 0 : (float)r->factor;
        hp->rope_context = (uint32_t)r->context;
        hp->rope_attn_factor = (float)r->attn_factor;
        hp->rope_beta_fast = (float)r->high;
        hp->rope_beta_slow = (float)r->low;
        hp->yarn_exact = r->exact;
    }
    if (is_long)
        choose_context(m);
    if (is_long && hp->n_ctx > hp->rope_context)
        hp->rope_attn_factor = (float)r->long_attn;
}

void hf_rope(struct hf_model *m)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const struct hf_rope_keys *keys = m->family->rope;
    if (!keys)
        return;
    m->rope = hf_rope_read(m, keys, hf_rope_layer(m));
    if (keys->rotated_absent == 1 && m->rope.rotated != 1 && !m->family->partial_rope)
        hf_stop(m, "%s: only 1 is supported for this model type", keys->rotated);
    uint64_t hd = m->family->latent ? hp->n_rot : state_size(hp, 'H');
    int part = strcmp(m->rope.type, "proportional") != 0;
    hp->n_rot = (uint32_t)((double)hd * (part ? m->rope.rotated : 1));
    if (hp->n_rot % 2 || hp->n_rot == 0)
        hf_stop(m, "%u rotary components of %llu in a head: an even number is expected", hp->n_rot,
                (unsigned long long)hd);
    hp->rope_base = (float)m->rope.theta;
    set_scaling(m);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static float llama3_divisor(const struct hf_rope *r, double pair)
{
    const double tau = 6.283185307179586;
    double wave = tau * pow(r->theta, pair);
    double t = (r->context / wave - r->low) / (r->high - r->low);
    if (wave < r->context / r->high)
        return 1;
    if (wave > r->context / r->low)
        return (float)r->factor;
    return (float)(1.0 / ((1.0 - t) / r->factor + t));
}

/* A number for each pair of components: by the list, or Llama 3's. */
static void put_factors(struct hf_model *m, const char *name, const json_t *list)
{
    size_t n = m->c->hp.n_rot / 2;
    float *factors = ckpt_new(m->c, n, sizeof *factors);
    if (list && (json_array_size(list) != n || n > MAX_FACTORS))
        hf_stop(m, "rope_scaling: expected a factor for each rotary pair");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (list && !(json_is_numeric(v) && json_number_value(v) > 0))
            hf_stop(m, "rope_scaling: expected factors above 0");
        factors[i] = list ? (float)json_number_value(v)
                          : llama3_divisor(&m->rope, 2.0 * (double)i / (double)m->c->hp.n_rot);
    }
    struct ckpt_tensor from = {.bytes = (const uint8_t *)factors};
    ckpt_add(m->c, name, n, 0, from);
}

void hf_put_rope(struct hf_model *m)
{
    if (m->rope.type && strcmp(m->rope.type, "llama3") == 0)
        put_factors(m, "rope_freqs.weight", NULL);
    if (!m->c->hp.rope_scaling || strcmp(m->c->hp.rope_scaling, "longrope") != 0)
        return;
    if (!json_is(m->rope.long_factor, JSON_ARRAY) || !json_is(m->rope.short_factor, JSON_ARRAY))
        hf_stop(m, "rope_scaling: expected the lists short_factor and long_factor");
    put_factors(m, "rope_factors_long.weight", m->rope.long_factor);
    put_factors(m, "rope_factors_short.weight", m->rope.short_factor);
}
