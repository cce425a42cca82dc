/* Vocabularies in JSON. See json_model.h. The texts stay in jansson's tree. */
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "convert/families/json_model.h"

#include <string.h>

static int json_vocab_refuse(struct mg_parts *m, const char *key, const char *what,
                             const char *found)
{
    return err_set(m->err, MGPT_EFILE, MGPT_NO_OFFSET, "%.*s: expected %s, found %s",
                   CKPT_CLIP(key, strlen(key)), what, found);
}

static struct gguf_str json_vocab_text_of(const json_t *v)
{
    return (struct gguf_str){json_string_value(v), json_string_length(v)};
}

static int from_list(struct mg_parts *m, const char *key, const json_t *v)
{
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *entry = json_array_get(v, i);
        if (!json_is(entry, JSON_STRING))
            return json_vocab_refuse(m, key, "a list of characters", json_kind(entry));
        arr_put(m->entries, json_vocab_text_of(entry));
    }
    return MGPT_OK;
}

/* jansson has checked that it is UTF-8. */
static int from_string(struct mg_parts *m, const json_t *v)
{
    struct gguf_str all = json_vocab_text_of(v);
    for (size_t i = 0; i < all.n;) {
        uint32_t code;
        struct gguf_str s = {all.p + i, 0};
        s.n = utf8_next(s.p, all.n - i, &code);
        arr_put(m->entries, s);
        i += s.n;
    }
    return MGPT_OK;
}

/* A key as a number; -1 when it is none. */
static json_int_t key_number(const char *key)
{
    json_int_t v = 0;
    if (!*key || strlen(key) > 9)
        return -1;
    for (; *key; key++) {
        if (*key < '0' || *key > '9')
            return -1;
        v = 10 * v + (*key - '0');
    }
    return v;
}

/* {"a": 0, ...} or {"0": "a", ...}; the ids must be 0 to n - 1, each once. */
static int from_object(struct mg_parts *m, const char *key, const json_t *v)
{
    const char *name;
    json_t *value;
    size_t n = json_object_size(v);
    for (size_t i = 0; i < n; i++)
        arr_put(m->entries, ((struct gguf_str){NULL, 0}));
    json_object_foreach((json_t *)(uintptr_t)v, name, value)
    {
        int by_id = json_is(value, JSON_STRING);
        json_int_t id = by_id ? key_number(name) : json_integer_value(value);
        struct gguf_str text =
            by_id ? json_vocab_text_of(value) : (struct gguf_str){name, strlen(name)};
        if (!by_id && !json_is(value, JSON_INTEGER))
            return json_vocab_refuse(m, key, "characters and ids", json_kind(value));
        if (id < 0 || (size_t)id >= n || m->entries[id].p)
            return err_set(m->err, MGPT_EFILE, MGPT_NO_OFFSET,
                           "%.*s: '%.*s': its id is not one of 0 to %zu or occurs twice",
                           CKPT_CLIP(key, strlen(key)), CKPT_CLIP(text.p, text.n), n - 1);
        m->entries[id] = text;
    }
    return MGPT_OK;
}

int json_vocabulary(struct mg_parts *m, const char *key, const json_t *v)
{
    size_t n = json_is(v, JSON_STRING) ? json_string_length(v) : json_array_size(v);
    if (json_is(v, JSON_OBJECT))
        n = json_object_size(v);
    if (!json_is(v, JSON_STRING) && !json_is(v, JSON_ARRAY) && !json_is(v, JSON_OBJECT))
        return json_vocab_refuse(m, key, "the characters as a list, a string or an object",
                                 json_kind(v));
    if (!arr_reserve(m->entries, n + 1))
        return err_memory(m->err, "the vocabulary", n * sizeof *m->entries);
    if (json_is(v, JSON_STRING))
        return from_string(m, v);
    return json_is(v, JSON_ARRAY) ? from_list(m, key, v) : from_object(m, key, v);
}
