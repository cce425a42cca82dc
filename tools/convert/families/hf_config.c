/* config.json, key by key. See hf_config.h. */
#include "convert/families/hf_config.h"

#include "base/error.h"
#include "common/json_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_JSON = 64 << 20 };

/* ---- the text -------------------------------------------------------------------------------- */

static json_t *hf_config_load(struct span bytes, const char *file, size_t flags, mgpt_error *err)
{
    json_error_t e;
    if (bytes.size > MAX_JSON) {
        ckpt_refuse(err, "%.40s: %zu bytes, the limit is %d", file, bytes.size, MAX_JSON);
        return NULL;
    }
    json_t *root = json_read(bytes.data, bytes.size, flags, &e);
    if (root && json_is(root, JSON_OBJECT))
        return root;
    if (root)
        err_set(err, MGPT_EFILE, 0, "%.40s: expected an object", file);
    else if (!json_read_no_memory(&e, bytes.size, err))
        err_set(err, MGPT_EFILE, json_read_offset(&e), "%.40s: line %d column %d: %.60s", file,
                e.line, e.column, e.text);
    json_decref(root);
    return NULL;
}

json_t *hf_json(struct span bytes, const char *file, mgpt_error *err)
{
    return hf_config_load(bytes, file, JSON_REJECT_DUPLICATES, err);
}

json_t *hf_json_reals(struct span bytes, const char *file, mgpt_error *err)
{
    return hf_config_load(bytes, file, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, err);
}

int hf_config_read(struct hf_config *cfg, struct span bytes, mgpt_error *err)
{
    *cfg = (struct hf_config){.root = hf_json(bytes, "config.json", err)};
    if (!cfg->root)
        return err->status;
    const json_t *text = hf_value(cfg->root, "text_config");
    cfg->text = json_is(text, JSON_OBJECT) ? text : cfg->root;
    int status = hf_text(cfg->text, "model_type", NULL, &cfg->model_type, err);
    if (status < 0)
        hf_config_free(cfg);
    return status;
}

void hf_config_free(struct hf_config *cfg)
{
    json_decref(cfg->root);
    *cfg = (struct hf_config){0};
}

/* ---- values ---------------------------------------------------------------------------------- */

const json_t *hf_value(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is(v, JSON_NULL) ? NULL : v;
}

int hf_refuse(const char *key, const char *what, mgpt_error *err)
{
    return ckpt_refuse(err, "config.json: %.60s: %.80s", key, what);
}

static int missing(const char *key, mgpt_error *err)
{
    return hf_refuse(key, "missing", err);
}

int hf_size(const json_t *object, const char *key, int64_t absent, uint32_t *to, mgpt_error *err)
{
    const json_t *v = hf_value(object, key);
    if (!v && absent < 0)
        return missing(key, err);
    if (!v) {
        *to = (uint32_t)absent;
        return MGPT_OK;
    }
    double x = json_number_value(v);
    if (!json_is_numeric(v) || floor(x) != x)
        return hf_refuse(key, "expected a whole number", err);
    if (!(x >= 0 && x <= INT32_MAX))
        return ckpt_refuse(err, "config.json: %.60s: the number is not one of 0 to %d", key,
                           INT32_MAX);
    *to = (uint32_t)x;
    return MGPT_OK;
}

int hf_real(const json_t *object, const char *key, double absent, double *to, mgpt_error *err)
{
    const json_t *v = hf_value(object, key);
    if (!v && isnan(absent))
        return missing(key, err);
    if (v && !json_is_numeric(v))
        return hf_refuse(key, "expected a number", err);
    *to = v ? json_number_value(v) : absent;
    return MGPT_OK;
}

int hf_flag(const json_t *object, const char *key, int absent, int *to, mgpt_error *err)
{
    const json_t *v = hf_value(object, key);
    if (!v && absent < 0)
        return missing(key, err);
    if (v && !json_is_boolean(v))
        return hf_refuse(key, "expected true or false", err);
    *to = v ? json_is(v, JSON_TRUE) : absent;
    return MGPT_OK;
}

int hf_text(const json_t *object, const char *key, const char *absent, const char **to,
            mgpt_error *err)
{
    const json_t *v = hf_value(object, key);
    if (!v && !absent)
        return missing(key, err);
    if (v && !json_is(v, JSON_STRING))
        return hf_refuse(key, "expected a string", err);
    *to = v ? json_string_value(v) : absent;
    return MGPT_OK;
}

int hf_must_be_off(const json_t *object, const char *key, mgpt_error *err)
{
    const json_t *v = hf_value(object, key);
    if (!v || json_is(v, JSON_FALSE) || (json_is_numeric(v) && json_number_value(v) == 0))
        return MGPT_OK;
    if (json_is(v, JSON_TRUE))
        return hf_refuse(key, "true is not supported", err);
    return hf_refuse(key, "this value is not supported", err);
}

/* ---- rotary settings ------------------------------------------------------------------------- */

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

static int llama3_read(const json_t *o, struct hf_rope *rope, mgpt_error *err)
{
    if (hf_real(o, "low_freq_factor", NAN, &rope->low, err) < 0 ||
        hf_real(o, "high_freq_factor", NAN, &rope->high, err) < 0 ||
        hf_real(o, "original_max_position_embeddings", NAN, &rope->context, err) < 0)
        return MGPT_EFILE;
    if (!(rope->low > 0 && rope->high > rope->low && rope->context > 0 && rope->factor >= 1))
        return hf_refuse("rope_scaling", "its four numbers do not make sense", err);
    return MGPT_OK;
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
    int llama3 = strcmp(rope->type, "llama3") == 0;
    if ((llama3 || strcmp(rope->type, "linear") == 0) &&
        hf_real(o, "factor", NAN, &rope->factor, err) < 0)
        return MGPT_EFILE;
    if (!(rope->theta >= 1e-3 && rope->theta <= 1e12))
        return hf_refuse(keys->theta, "out of range", err);
    if (!(rope->factor > 0 && rope->factor <= 1e6))
        return hf_refuse("rope_scaling", "factor is out of range", err);
    if (!(rope->rotated > 0 && rope->rotated <= 1))
        return hf_refuse(keys->rotated, "out of range", err);
    return llama3 ? llama3_read(o, rope, err) : MGPT_OK;
}
