/* Rotary settings of Hugging Face models. See hf_rope.h.
 *
 * Frequencies that no key of GGUF describes become a tensor: rope_freqs.weight, divisors of the
 * base's powers (Llama 3), or rope_factors_short.weight and _long.weight (LongRoPE).
 */
#include "base/error.h"
#include "convert/families/hf.h"

#include <math.h>
#include <string.h>

enum { MAX_FACTORS = 1 << 16 };

/* ---- the object ------------------------------------------------------------------------------ */

/* Transformers 5 has rope_parameters for everything, with one object per kind of layer in some
 * models. Before it there were rope_theta (or the family's own name) and rope_scaling, which never
 * applied to the windowed layers of such models. */
static int rope_object(const struct hf_config *cfg, const char *layer, const json_t **object,
                       mgpt_error *err)
{
    const json_t *o = hf_value(cfg->text, "rope_parameters");
    const json_t *old = hf_value(cfg->text, "rope_scaling"), *own = o ? hf_value(o, layer) : NULL;
    const char *key;
    json_t *v;
    *object = NULL;
    if (o && old && !json_equal(o, old)) /* transformers 5 takes the old one, others the new one */
        return hf_refuse("rope_scaling", "there are also rope_parameters: one of them is expected",
                         err);
    if ((o && !json_is(o, JSON_OBJECT)) || (old && !json_is(old, JSON_OBJECT)))
        return hf_refuse(o ? "rope_parameters" : "rope_scaling", "expected an object", err);
    if (!o && layer && strcmp(layer, "full_attention") != 0)
        return MGPT_OK;
    *object = own;
    if (own)
        return MGPT_OK;
    *object = o ? o : old;
    json_object_foreach((json_t *)o, key, v)
    {
        if (json_is(v, JSON_OBJECT) && !layer)
            return hf_refuse(key, "settings per kind of layer are not supported", err);
    }
    return MGPT_OK;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static int no_sense(mgpt_error *err)
{
    return hf_refuse("rope_scaling", "its numbers do not make sense", err);
}

static int read_factor(const json_t *o, struct hf_rope *rope, mgpt_error *err)
{
    if (hf_real(o, "factor", NAN, &rope->factor, err) < 0)
        return MGPT_EFILE;
    if (!(rope->factor > 0 && rope->factor <= 1e6))
        return hf_refuse("rope_scaling", "factor is out of range", err);
    return MGPT_OK;
}

static int read_llama3(const struct hf_config *cfg, const json_t *o, struct hf_rope *rope,
                       mgpt_error *err)
{
    (void)cfg;
    if (read_factor(o, rope, err) < 0 || hf_real(o, "low_freq_factor", NAN, &rope->low, err) < 0 ||
        hf_real(o, "high_freq_factor", NAN, &rope->high, err) < 0 ||
        hf_real(o, "original_max_position_embeddings", NAN, &rope->context, err) < 0)
        return MGPT_EFILE;
    if (!(rope->low > 0 && rope->high > rope->low && rope->context > 0 && rope->factor >= 1))
        return no_sense(err);
    return MGPT_OK;
}

static int read_linear(const struct hf_config *cfg, const json_t *o, struct hf_rope *rope,
                       mgpt_error *err)
{
    (void)cfg;
    return read_factor(o, rope, err);
}

/* 0.1 ln(factor) + 1 is what llama.cpp multiplies attn_factor with. */
static int read_yarn(const struct hf_config *cfg, const json_t *o, struct hf_rope *rope,
                     mgpt_error *err)
{
    int truncate;
    double usual, given;
    (void)cfg;
    if (read_factor(o, rope, err) < 0 ||
        hf_real(o, "original_max_position_embeddings", NAN, &rope->context, err) < 0 ||
        hf_real(o, "beta_fast", 32, &rope->high, err) < 0 ||
        hf_real(o, "beta_slow", 1, &rope->low, err) < 0 ||
        hf_flag(o, "truncate", 1, &truncate, err) < 0 || hf_must_be_off(o, "mscale", err) < 0 ||
        hf_must_be_off(o, "mscale_all_dim", err) < 0)
        return MGPT_EFILE;
    if (!truncate)
        return hf_refuse("truncate", "false is not supported", err);
    usual = rope->factor > 1 ? 0.1 * log(rope->factor) + 1 : 1;
    if (hf_real(o, "attention_factor", usual, &given, err) < 0)
        return MGPT_EFILE;
    rope->attn_factor = given / usual;
    if (!(rope->context >= 1 && rope->context <= 1 << 30 && rope->low > 0 &&
          rope->high >= rope->low && rope->high <= 1e6 && rope->factor >= 1 &&
          rope->attn_factor > 0 && rope->attn_factor < 1e6 && rope->theta > 1))
        return no_sense(err);
    return MGPT_OK;
}

/* The number of the original context is in the object, or was next to it in older files. */
static int read_longrope(const struct hf_config *cfg, const json_t *o, struct hf_rope *rope,
                         mgpt_error *err)
{
    static const char key[] = "original_max_position_embeddings";
    double n_ctx, usual;
    if (hf_real(hf_value(o, key) ? o : cfg->text, key, NAN, &rope->context, err) < 0 ||
        hf_real(cfg->text, "max_position_embeddings", NAN, &n_ctx, err) < 0 ||
        hf_real(o, "factor", n_ctx / rope->context, &rope->factor, err) < 0)
        return MGPT_EFILE;
    if (!(rope->context > 1 && rope->context <= 1 << 30 && rope->factor > 0))
        return no_sense(err);
    usual = rope->factor > 1 ? sqrt(1 + log(rope->factor) / log(rope->context)) : 1;
    if (hf_real(o, "attention_factor", usual, &rope->attn_factor, err) < 0)
        return MGPT_EFILE;
    if (!(rope->attn_factor > 0 && rope->attn_factor < 1e6))
        return no_sense(err);
    rope->short_factor = hf_value(o, "short_factor");
    rope->long_factor = hf_value(o, "long_factor");
    return MGPT_OK;
}

static int read_dynamic(const struct hf_config *cfg, const json_t *o, struct hf_rope *rope,
                        mgpt_error *err)
{
    (void)cfg;
    if (hf_real(o, "alpha", 0, &rope->alpha, err) < 0)
        return MGPT_EFILE;
    return rope->alpha >= 0 && rope->alpha <= 1e9 ? MGPT_OK : no_sense(err);
}

/* Components of three positions, which are one in a text without images. */
static int read_mrope(const struct hf_config *cfg, const json_t *o, struct hf_rope *rope,
                      mgpt_error *err)
{
    (void)rope;
    if (!strstr(cfg->model_type, "_vl_text") || !hf_value(o, "mrope_section"))
        return hf_refuse("rope_scaling", "mrope without a part that sees is not supported", err);
    return MGPT_OK;
}

static int read_nothing(const struct hf_config *cfg, const json_t *o, struct hf_rope *rope,
                        mgpt_error *err)
{
    (void)cfg, (void)o, (void)rope, (void)err;
    return MGPT_OK;
}

/* "dynamic" changes frequencies only for texts beyond max_position_embeddings, which is as long as
 * a text can be here. "su" is how Phi-3 spelled LongRoPE at first. */
static const struct {
    const char *type;
    int (*read)(const struct hf_config *cfg, const json_t *o, struct hf_rope *rope,
                mgpt_error *err);
} kinds[] = {{"default", read_nothing}, {"dynamic", read_dynamic}, {"linear", read_linear},
             {"llama3", read_llama3},   {"yarn", read_yarn},       {"longrope", read_longrope},
             {"su", read_longrope},     {"mrope", read_mrope}};

static int read_kind(const struct hf_config *cfg, const json_t *o, struct hf_rope *rope,
                     mgpt_error *err)
{
    for (size_t i = 0; i < HF_COUNT(kinds); i++)
        if (strcmp(kinds[i].type, rope->type) == 0)
            return kinds[i].read(cfg, o, rope, err);
    return ckpt_refuse(err, "config.json: rope_type %.40s is not supported for model_type %s",
                       rope->type, cfg->model_type);
}

/* Transformers 5 writes the rotated part of a head into the object and leaves it where it was. */
static int same_beside(const json_t *text, const char *key, double rotated)
{
    return json_number_value(json_object_get(text, key)) == rotated;
}

int hf_rope_read(const struct hf_config *cfg, const struct hf_rope_keys *keys, const char *layer,
                 struct hf_rope *rope, mgpt_error *err)
{
    const json_t *o;
    *rope = (struct hf_rope){.factor = 1};
    if (rope_object(cfg, layer, &o, err) < 0)
        return MGPT_EFILE;
    const char *kind = hf_value(o, "rope_type") ? "rope_type" : "type";
    if (hf_text(o, kind, "default", &rope->type, err) < 0)
        return MGPT_EFILE;
    const json_t *theta_in = hf_value(o, "rope_theta") ? o : cfg->text;
    const json_t *rotated_in = hf_value(o, "partial_rotary_factor") ? o : cfg->text;
    if (hf_real(theta_in, theta_in == o ? "rope_theta" : keys->theta, keys->theta_absent,
                &rope->theta, err) < 0 ||
        hf_real(rotated_in, rotated_in == o ? "partial_rotary_factor" : keys->rotated,
                keys->rotated_absent, &rope->rotated, err) < 0)
        return MGPT_EFILE;
    if (rotated_in == o && same_beside(cfg->text, keys->rotated, rope->rotated))
        hf_value(cfg->text, keys->rotated); /* read */
    if (!(rope->theta >= 1e-3 && rope->theta <= 1e12))
        return hf_refuse(keys->theta, "out of range", err);
    if (!(rope->rotated > 0 && rope->rotated <= 1))
        return hf_refuse(keys->rotated, "out of range", err);
    return read_kind(cfg, o, rope, err);
}

/* ---- the checkpoint's numbers ---------------------------------------------------------------- */

/* Frequencies by the text's length would make cached keys wrong: it is decided here, once. */
static int choose_context(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const struct ckpt_options *o = m->in->options;
    uint32_t original = (uint32_t)m->rope.context, all = hp->n_ctx;
    if (o->given & OPT_CONTEXT && (uint32_t)o->n_ctx > all)
        return ckpt_refuse(err, "--context %d: the model has %u positions", (int)o->n_ctx, all);
    if (o->given & OPT_CONTEXT)
        hp->n_ctx = (uint32_t)o->n_ctx;
    else if (original < all)
        hp->n_ctx = original;
    if (hp->n_ctx < all)
        ckpt_note(m->c, "context %u of %u, with LongRoPE's factors for %s texts (--context N)",
                  hp->n_ctx, all, hp->n_ctx > original ? "long" : "short");
    return MGPT_OK;
}

static int set_scaling(struct hf_model *m, mgpt_error *err)
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
    }
    return is_long ? choose_context(m, err) : MGPT_OK;
}

int hf_rope(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const struct hf_rope_keys *keys = m->family->rope;
    const char *layer = m->family->windowed ? "full_attention" : NULL;
    if (!keys)
        return MGPT_OK;
    if (hf_rope_read(&m->cfg, keys, layer, &m->rope, err) < 0)
        return MGPT_EFILE;
    if (keys->rotated_absent == 1 && m->rope.rotated != 1 && !m->family->partial_rope)
        return hf_refuse(keys->rotated, "only 1 is supported for this model type", err);
    uint64_t hd = state_size(hp, 'H');
    hp->n_rot = (uint32_t)((double)hd * m->rope.rotated);
    if (hp->n_rot % 2 || hp->n_rot == 0)
        return ckpt_refuse(err,
                           "config.json: %u rotary components of %llu in a head: an even number is "
                           "expected",
                           hp->n_rot, (unsigned long long)hd);
    hp->rope_base = (float)m->rope.theta;
    return set_scaling(m, err);
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
static int put_factors(struct hf_model *m, const char *name, const json_t *list, mgpt_error *err)
{
    size_t n = m->c->hp.n_rot / 2;
    float *factors = ckpt_alloc(m->c, n, sizeof *factors);
    if (!factors)
        return err_memory(err, name, n * sizeof *factors);
    if (list && (json_array_size(list) != n || n > MAX_FACTORS))
        return hf_refuse("rope_scaling", "expected a factor for each rotary pair", err);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (list && !(json_is_numeric(v) && json_number_value(v) > 0))
            return hf_refuse("rope_scaling", "expected factors above 0", err);
        factors[i] = list ? (float)json_number_value(v)
                          : llama3_divisor(&m->rope, 2.0 * (double)i / (double)m->c->hp.n_rot);
    }
    struct ckpt_tensor from = {.bytes = (const uint8_t *)factors};
    return ckpt_add(m->c, name, n, 0, from, err);
}

int hf_put_rope(struct hf_model *m, mgpt_error *err)
{
    if (!m->rope.type)
        return MGPT_OK;
    if (strcmp(m->rope.type, "llama3") == 0)
        return put_factors(m, "rope_freqs.weight", NULL, err);
    if (!m->c->hp.rope_scaling || strcmp(m->c->hp.rope_scaling, "longrope") != 0)
        return MGPT_OK;
    if (!json_is(m->rope.long_factor, JSON_ARRAY) || !json_is(m->rope.short_factor, JSON_ARRAY))
        return hf_refuse("rope_scaling", "expected the lists short_factor and long_factor", err);
    int status = put_factors(m, "rope_factors_long.weight", m->rope.long_factor, err);
    if (status == MGPT_OK)
        status = put_factors(m, "rope_factors_short.weight", m->rope.short_factor, err);
    return status;
}
