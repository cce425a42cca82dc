/* Facts in JSON: every object beside the tensors is searched for them. See json_model.h. */
#include "convert/families/json_model.h"

#include "base/error.h"
#include "convert/families/microgpt_impl.h"

#include <string.h>

enum { MAX_NESTING = 8 };

static int facts_of(struct mg_parts *m, const json_t *object, int nesting);

static struct mg_value json_facts_scalar(const json_t *v)
{
    if (json_is_numeric(v))
        return (struct mg_value){.kind = MG_NUMBER, .number = json_number_value(v)};
    if (json_is(v, JSON_STRING))
        return (struct mg_value){.kind = MG_TEXT, .text = json_string_value(v)};
    if (json_is_boolean(v))
        return (struct mg_value){.kind = MG_FLAG, .number = json_is(v, JSON_TRUE)};
    return (struct mg_value){.kind = MG_NONE};
}

int json_is_container(const json_t *v)
{
    return json_is(v, JSON_OBJECT) || json_is(v, JSON_ARRAY);
}

int json_names_matrices(const json_t *v)
{
    const char *key;
    json_t *member;
    uint32_t layer;
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        if (json_is_container(member) && mg_recognise(key, &layer) == MG_WTE)
            return 1;
    }
    return 0;
}

/* {"uchars": [...], "bos": 2}, and not {"a": 0, "b": 1} or {"0": "a"}, which are the vocabulary. */
static int holds_facts(const json_t *v)
{
    const char *key;
    json_t *value;
    enum mg_size size;
    int has_fact = 0, only_ids = 1;
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        has_fact |= mg_kind_of(key, &size) != MG_OTHER;
        only_ids &= json_is(value, JSON_INTEGER) != 0;
    }
    return has_fact && !only_ids;
}

static int take_vocabulary(struct mg_parts *m, const char *key, const json_t *v, int nesting)
{
    int status = MGPT_OK;
    if (json_is(v, JSON_OBJECT) && holds_facts(v))
        status = facts_of(m, v, nesting + 1);
    else if (!m->entries)
        status = json_vocabulary(m, key, v);
    return status < 0 ? status : 1;
}

/* The members of an object that are not facts are noted; what is not the model's is not looked into. */
static int json_facts_take(struct mg_parts *m, const char *key, const json_t *v, int nesting)
{
    enum mg_size size;
    enum mg_kind kind = mg_kind_of(key, &size);
    int status = mg_take(m, key, json_facts_scalar(v));
    if (status != 0)
        return status;
    if (kind == MG_VOCABULARY && !json_is_numeric(v) && !json_is(v, JSON_NULL))
        return take_vocabulary(m, key, v, nesting);
    if (!json_is(v, JSON_OBJECT) || kind == MG_OPTIMIZER || json_names_matrices(v))
        return 0;
    status = facts_of(m, v, nesting + 1);
    return status < 0 ? status : 1;
}

static int facts_of(struct mg_parts *m, const json_t *object, int nesting)
{
    const char *key;
    json_t *v;
    if (nesting > MAX_NESTING)
        return err_set(m->err, MGPT_EFILE, MGPT_NO_OFFSET, "JSON: nested too deeply");
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        int status = json_facts_take(m, key, v, nesting);
        if (status < 0)
            return status;
        if (status == 0)
            json_ignore(m, key, v);
    }
    return MGPT_OK;
}

void json_ignore(struct mg_parts *m, const char *key, const json_t *v)
{
    ckpt_note(m->c, "ignored: %.*s (%s)", CKPT_CLIP(key, strlen(key)), json_kind(v));
}

int json_take(struct mg_parts *m, const char *key, const json_t *v)
{
    return json_facts_take(m, key, v, 0);
}

int json_facts(struct mg_parts *m, const json_t *object)
{
    return facts_of(m, object, 0);
}
