/* config.json, key by key. See hf_config.h. */
#include "convert/containers/hf_config.h"

#include "base/error.h"
#include "convert/containers/json_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_JSON = 64 << 20 };

/* A member of hf_config.text that config.json cannot have: {key: 0, or 1 once it was read}. */
#define READ_KEYS "\x01read"

/* ---- the text -------------------------------------------------------------------------------- */

static int check_config_size(struct span bytes, const char *file, mgpt_error *err)
{
    if (bytes.size > MAX_JSON)
        return ckpt_refuse(err, "%.40s: %zu bytes, the limit is %d", file, bytes.size, MAX_JSON);
    return MGPT_OK;
}

static int not_object(const char *file, mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, 0, "%.40s: expected an object", file);
}

json_t *hf_json(struct span bytes, const char *file, mgpt_error *err)
{
    json_error_t e;
    if (check_config_size(bytes, file, err) < 0)
        return NULL;
    json_t *root = json_read(bytes.data, bytes.size, JSON_REJECT_DUPLICATES, &e);
    if (root && json_is(root, JSON_OBJECT))
        return root;
    if (root)
        not_object(file, err);
    else if (!json_read_no_memory(&e, bytes.size, err))
        err_set(err, MGPT_EFILE, json_read_offset(&e), "%.40s: line %d column %d: %.60s", file,
                e.line, e.column, e.text);
    json_decref(root);
    return NULL;
}

const struct jval *hf_values(struct span bytes, const char *file, int flags, mgpt_error *err)
{
    struct jval_error e;
    if (check_config_size(bytes, file, err) < 0)
        return NULL;
    const struct jval *root = jval_read(bytes.data, bytes.size, flags, NULL, &e);
    if (jval_is(root, JVAL_OBJECT))
        return root;
    if (root)
        not_object(file, err);
    else if (!jval_no_memory(&e, bytes.size, err))
        err_set(err, MGPT_EFILE, e.offset, "%.40s: line %d column %d: %.100s", file, e.line,
                e.column, e.text);
    jval_free(root);
    return NULL;
}

static int add_read_keys(json_t *text, mgpt_error *err)
{
    const char *key;
    json_t *value, *keys = json_object();
    int failed = !keys;
    json_object_foreach(text, key, value)
    {
        failed |= json_object_set_new(keys, key, json_integer(0)) < 0;
    }
    failed |= json_object_set_new(text, READ_KEYS, keys) < 0;
    return failed ? err_memory(err, "config.json", json_object_size(text)) : MGPT_OK;
}

int hf_config_read(struct hf_config *cfg, struct span bytes, mgpt_error *err)
{
    json_t *root = hf_json(bytes, "config.json", err);
    return root ? hf_config_take(cfg, root, err) : err->status;
}

int hf_config_take(struct hf_config *cfg, json_t *root, mgpt_error *err)
{
    *cfg = (struct hf_config){.root = root};
    static const char *const parts[] = {"text_config", "llm_config"};
    json_t *text = cfg->root;
    for (size_t i = 0; text == cfg->root && i < sizeof parts / sizeof *parts; i++)
        if (json_is(json_object_get(cfg->root, parts[i]), JSON_OBJECT))
            text = json_object_get(cfg->root, parts[i]);
    cfg->text = text;
    int status = add_read_keys(text, err);
    if (status == MGPT_OK && hf_value(text, "model_type"))
        status = hf_text(text, "model_type", NULL, &cfg->model_type, err);
    if (status == MGPT_OK && text != cfg->root && hf_value(cfg->root, "model_type"))
        status = hf_text(cfg->root, "model_type", NULL, &cfg->whole_type, err);
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
    json_integer_set(json_object_get(json_object_get(object, READ_KEYS), key), 1);
    return json_is(v, JSON_NULL) ? NULL : v;
}

int hf_set(struct hf_config *cfg, const char *key, json_t *value, mgpt_error *err)
{
    json_t *text = (json_t *)(uintptr_t)cfg->text;
    if (!value || json_object_set_new(text, key, value) < 0 ||
        json_object_set_new(json_object_get(text, READ_KEYS), key, json_integer(0)) < 0)
        return err_memory(err, key, 1);
    return MGPT_OK;
}

int hf_unread(const json_t *text, const char *key)
{
    const json_t *is_read = json_object_get(json_object_get(text, READ_KEYS), key);
    return is_read && json_integer_value(is_read) == 0;
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
        return ckpt_refuse(err, "config.json: %.60s: expected a number from 0 to %d", key,
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
