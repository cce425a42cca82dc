/* config.json, key by key. See hf_config.h. */
#include "convert/containers/hf_config.h"

#include "base/error.h"
#include "convert/containers/json_read.h"

enum { MAX_JSON = 64 << 20 };

/* A member of hf_config.text that config.json cannot have: {key: 0, or 1 once it was read}. */
#define READ_KEYS "\x01read"

/* ---- the text -------------------------------------------------------------------------------- */

static void check_config_size(struct checkpoint *c, struct span bytes, const char *file)
{
    if (bytes.size > MAX_JSON)
        ckpt_stop(c, "%.40s: %zu bytes, the limit is %d", file, bytes.size, MAX_JSON);
}

_Noreturn static void not_object(struct checkpoint *c, const char *file)
{
    ckpt_leave(c, err_set(c->err, MGPT_EFILE, 0, "%.40s: expected an object", file));
}

static void free_json(void *root)
{
    json_decref(root);
}

json_t *hf_json(struct checkpoint *c, struct span bytes, const char *file)
{
    json_error_t e;
    check_config_size(c, bytes, file);
    json_t *root = json_read(bytes.data, bytes.size, JSON_REJECT_DUPLICATES, &e);
    if (!root && !json_read_no_memory(&e, bytes.size, c->err))
        err_set(c->err, MGPT_EFILE, json_read_offset(&e), "%.40s: line %d column %d: %.60s", file,
                e.line, e.column, e.text);
    if (!root)
        ckpt_leave(c, c->err->status);
    ckpt_own(c, root, free_json);
    if (!json_is(root, JSON_OBJECT))
        not_object(c, file);
    return root;
}

const struct jval *hf_values(struct checkpoint *c, struct span bytes, const char *file, int flags)
{
    struct jval_error e;
    check_config_size(c, bytes, file);
    const struct jval *root = jval_read(bytes.data, bytes.size, flags, NULL, &e);
    if (!root && !jval_no_memory(&e, bytes.size, c->err))
        err_set(c->err, MGPT_EFILE, e.offset, "%.40s: line %d column %d: %.100s", file, e.line,
                e.column, e.text);
    if (!root)
        ckpt_leave(c, c->err->status);
    ckpt_own_json(c, root);
    if (!jval_is(root, JVAL_OBJECT))
        not_object(c, file);
    return root;
}

/* NULL where there is none. */
static const char *config_type(struct checkpoint *c, const json_t *object)
{
    const json_t *v = hf_value(object, "model_type");
    if (v && !json_is(v, JSON_STRING))
        ckpt_stop(c, "config.json: model_type: expected a string");
    return json_string_value(v);
}

void hf_config_read(struct checkpoint *c, struct hf_config *cfg, json_t *root)
{
    static const char *const parts[] = {"text_config", "llm_config"};
    json_t *text = root, *value, *keys = json_object();
    const char *key;
    for (size_t i = 0; text == root && i < sizeof parts / sizeof *parts; i++)
        if (json_is(json_object_get(root, parts[i]), JSON_OBJECT))
            text = json_object_get(root, parts[i]);
    int failed = !keys;
    json_object_foreach(text, key, value)
    {
        failed |= json_object_set_new(keys, key, json_integer(0)) < 0;
    }
    failed |= json_object_set_new(text, READ_KEYS, keys) < 0;
    ckpt_pushed(c, !failed, json_object_size(text));
    *cfg = (struct hf_config){.root = root, .text = text};
    cfg->model_type = config_type(c, text);
    if (text != root)
        cfg->whole_type = config_type(c, root);
}

/* ---- values ---------------------------------------------------------------------------------- */

const json_t *hf_value(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    json_integer_set(json_object_get(json_object_get(object, READ_KEYS), key), 1);
    return json_is(v, JSON_NULL) ? NULL : v;
}

void hf_set(struct checkpoint *c, struct hf_config *cfg, const char *key, json_t *value)
{
    json_t *text = (json_t *)(uintptr_t)cfg->text;
    int failed = !value || json_object_set_new(text, key, value) < 0 ||
                 json_object_set_new(json_object_get(text, READ_KEYS), key, json_integer(0)) < 0;
    ckpt_pushed(c, !failed, 1);
}

int hf_unread(const json_t *text, const char *key)
{
    const json_t *is_read = json_object_get(json_object_get(text, READ_KEYS), key);
    return is_read && json_integer_value(is_read) == 0;
}
