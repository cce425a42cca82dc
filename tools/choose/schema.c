/* Translates JSON schemas. See schema.h; schema_write.c has the parts that are alike in all schemas. */
#include "choose/schema_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PLACE_SHOWN = 60, MOST_TEXT = 4 << 20, MOST_COUNT = 10000 };

int schema_refuse(struct schema *s, const char *what, ...)
{
    char text[112];
    va_list more;
    if (s->err->status < 0)
        return 0;
    va_start(more, what);
    vsnprintf(text, sizeof text, what, more);
    va_end(more);
    size_t n = strlen(s->place), skip = n > PLACE_SHOWN ? n - PLACE_SHOWN : 0;
    err_set(s->err, MGPT_EFILE, MGPT_NO_OFFSET, "#%s%s: %s", skip ? "..." : "", s->place + skip,
            text);
    return 0;
}

/* ---- keywords ---- */

static const char *const notes[] = {"title", "description", "default",    "examples", "$schema",
                                    "$id",   "$comment",    "deprecated", "readOnly", "writeOnly",
                                    "$defs", "definitions", "$anchor"};

static int is_word_of(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0))
            return 1;
    return 0;
}

/* 0: the schema has a keyword that is neither a note nor one of these. */
static int has_only(struct schema *s, const struct jval *v, const char *words)
{
    for (struct jval_iter i = jval_begin(v); jval_next(&i);) {
        size_t k = 0, n = sizeof notes / sizeof *notes;
        while (k < n && strcmp(notes[k], i.key) != 0)
            k++;
        if (k == n && !is_word_of(words, i.key))
            return schema_refuse(s, "%.60s is not supported%s%s", i.key, *words ? " with " : "",
                                 words);
    }
    return 1;
}

/* A count of a keyword; `usual` if it is absent. 0: refused. */
static int read_count_of(struct schema *s, const struct jval *v, const char *key, int usual,
                         int *count)
{
    const struct jval *n = jval_get(v, key);
    *count = usual;
    if (!n)
        return 1;
    if (!jval_is(n, JVAL_INTEGER) || jval_whole(n) < 0 || jval_whole(n) > MOST_COUNT)
        return schema_refuse(s, "%s: expected a whole number from 0 to %d", key, MOST_COUNT);
    *count = (int)jval_whole(n);
    return 1;
}

/* {least,most}. */
static int schema_times(struct schema *s, int least, int most)
{
    char text[40];
    if (most >= 0)
        snprintf(text, sizeof text, "{%d,%d}", least, most);
    else
        snprintf(text, sizeof text, "{%d,}", least);
    return schema_put(s, text);
}

/* ---- types ---- */

static int schema_string(struct schema *s, const struct jval *v)
{
    const struct jval *pattern = jval_get(v, "pattern"), *format = jval_get(v, "format");
    int least, most, has_length = jval_get(v, "minLength") || jval_get(v, "maxLength");
    if ((pattern != NULL) + (format != NULL) + has_length > 1)
        return schema_refuse(s, "pattern, format, and minLength with maxLength: only one of them");
    if (pattern)
        return schema_put_search(s, pattern);
    if (format)
        return schema_put_format(s, format);
    if (!read_count_of(s, v, "minLength", 0, &least) ||
        !read_count_of(s, v, "maxLength", -1, &most))
        return 0;
    if (most >= 0 && most < least)
        return schema_refuse(s, "maxLength is less than minLength");
    return schema_put(s, "\"(?j:" SCHEMA_ANY) && schema_times(s, least, most) &&
           schema_put(s, ")\"");
}

/* The schema of one element; without one, nothing says what it is. */
static int schema_element(struct schema *s, const struct jval *v, const char *key)
{
    const struct jval *element = jval_get(v, key);
    if (!element)
        return schema_refuse(s, "%s is missing: nothing says what the elements are", key);
    return schema_put_inside(s, key, element);
}

static int schema_tuple(struct schema *s, const struct jval *v)
{
    const struct jval *list = jval_get(v, "prefixItems"), *items = jval_get(v, "items");
    char number[40];
    if (!jval_is(list, JVAL_ARRAY) || jval_get(v, "minItems") || jval_get(v, "maxItems") ||
        (items && !jval_is(items, JVAL_FALSE)))
        return schema_refuse(s, "prefixItems: expected an array, and besides it only items: false");
    int ok = schema_put(s, "\\[");
    for (size_t i = 0; ok && i < jval_size(list); i++) {
        snprintf(number, sizeof number, "prefixItems/%zu", i);
        ok = schema_put(s, i > 0 ? SCHEMA_COMMA : "") &&
             schema_put_inside(s, number, jval_at(list, i));
    }
    return ok && schema_put(s, "\\]");
}

static int schema_array(struct schema *s, const struct jval *v)
{
    int least, most;
    if (jval_get(v, "prefixItems"))
        return schema_tuple(s, v);
    if (!read_count_of(s, v, "minItems", 0, &least) || !read_count_of(s, v, "maxItems", -1, &most))
        return 0;
    if (most >= 0 && most < least)
        return schema_refuse(s, "maxItems is less than minItems");
    if (most == 0)
        return schema_put(s, "\\[\\]");
    return schema_put(s, "\\[(?:") && schema_element(s, v, "items") &&
           schema_put(s, "(?:" SCHEMA_COMMA) && schema_element(s, v, "items") &&
           schema_put(s, ")") &&
           schema_times(s, least > 0 ? least - 1 : 0, most > 0 ? most - 1 : most) &&
           schema_put(s, least > 0 ? ")\\]" : ")?\\]");
}

static int is_required(const struct jval *v, const char *key)
{
    const struct jval *list = jval_get(v, "required");
    for (size_t i = 0; i < jval_size(list); i++)
        if (jval_text(jval_at(list, i)) && strcmp(jval_text(jval_at(list, i)), key) == 0)
            return 1;
    return 0;
}

/* "name": value. */
static int schema_member(struct schema *s, const struct jval_iter *i)
{
    char place[120];
    snprintf(place, sizeof place, "properties/%s", i->key);
    return schema_put_literal(s, i->key, strlen(i->key)) && schema_put(s, ": ?") &&
           schema_put_inside(s, place, i->value);
}

/* The properties from number `first` on, of which this one is there and is the first. */
static int schema_members_from(struct schema *s, const struct jval *v, size_t first)
{
    size_t at = 0;
    int ok = 1;
    for (struct jval_iter i = jval_begin(jval_get(v, "properties")); ok && jval_next(&i); at++) {
        int optional = !is_required(v, i.key);
        if (at == first)
            ok = schema_member(s, &i);
        else if (at > first)
            ok = schema_put(s, optional ? "(?:" SCHEMA_COMMA : SCHEMA_COMMA) &&
                 schema_member(s, &i) && schema_put(s, optional ? ")?" : "");
    }
    return ok;
}

/* Each property that may be the first: none after a required one is. */
static int schema_members(struct schema *s, const struct jval *v)
{
    size_t at = 0;
    int ok = schema_put(s, "\\{(?:"), ends = 0;
    for (struct jval_iter i = jval_begin(jval_get(v, "properties")); ok && !ends && jval_next(&i);
         at++) {
        ok = schema_put(s, at > 0 ? "|" : "") && schema_members_from(s, v, at);
        ends = is_required(v, i.key);
    }
    return ok && schema_put(s, ends ? ")\\}" : ")?\\}");
}

static int schema_object(struct schema *s, const struct jval *v)
{
    const struct jval *properties = jval_get(v, "properties"), *required = jval_get(v, "required"),
                      *more = jval_get(v, "additionalProperties");
    if ((properties && !jval_is(properties, JVAL_OBJECT)) ||
        (required && !jval_is(required, JVAL_ARRAY)))
        return schema_refuse(s, "properties: expected an object; required: an array");
    if (more && !jval_is_flag(more))
        return schema_refuse(s, "additionalProperties: a schema is not supported");
    for (size_t i = 0; i < jval_size(required); i++) {
        const char *name = jval_text(jval_at(required, i));
        if (!name || !jval_get(properties, name))
            return schema_refuse(s, "required: '%.60s' is not one of the properties",
                                 name ? name : "");
    }
    return jval_members(properties) > 0 ? schema_members(s, v) : schema_put(s, "\\{\\}");
}

static int schema_number(struct schema *s, const struct jval *v)
{
    if (jval_get(v, "minimum") || jval_get(v, "maximum") || jval_get(v, "exclusiveMinimum") ||
        jval_get(v, "exclusiveMaximum"))
        return schema_refuse(s, "minimum and maximum of numbers that are not whole are not "
                                "supported");
    return schema_put(s, "-?(?:0|[1-9][0-9]{0,15})(?:\\.[0-9]{1,16})?(?:[eE][+-]?[0-9]{1,2})?");
}

static int schema_boolean(struct schema *s, const struct jval *v)
{
    (void)v;
    return schema_put(s, "true|false");
}

static int schema_null(struct schema *s, const struct jval *v)
{
    (void)v;
    return schema_put(s, "null");
}

/* A type, the keywords that go with it, and those from which it follows if no type is given. */
static const struct schema_type {
    const char *name, *words, *tells;
    int (*put)(struct schema *s, const struct jval *v);
} types[] = {
    {"object", "properties required additionalProperties", "properties", schema_object},
    {"array", "items prefixItems minItems maxItems", "items prefixItems", schema_array},
    {"string", "minLength maxLength pattern format", "pattern minLength maxLength", schema_string},
    {"integer", "minimum maximum exclusiveMinimum exclusiveMaximum", "", schema_put_range},
    {"number", "", "", schema_number},
    {"boolean", "", "", schema_boolean},
    {"null", "", "", schema_null}};
enum { N_TYPES = sizeof types / sizeof *types };

/* 1 if the schema has this type, or could have no other. */
static int has_type(const struct jval *v, const struct schema_type *t)
{
    const struct jval *type = jval_get(v, "type");
    for (size_t i = 0; jval_is(type, JVAL_ARRAY) && i < jval_size(type); i++)
        if (jval_text(jval_at(type, i)) && strcmp(jval_text(jval_at(type, i)), t->name) == 0)
            return 1;
    if (jval_text(type))
        return strcmp(jval_text(type), t->name) == 0;
    for (struct jval_iter i = jval_begin(v); !type && jval_next(&i);)
        if (is_word_of(t->tells, i.key))
            return 1;
    return 0;
}

static int schema_types(struct schema *s, const struct jval *v)
{
    const struct jval *type = jval_get(v, "type");
    size_t n = 0, asked = jval_is(type, JVAL_ARRAY) ? jval_size(type) : 1;
    char words[200] = "type";
    for (size_t i = 0; i < N_TYPES; i++)
        if (has_type(v, &types[i])) {
            size_t at = strlen(words);
            snprintf(words + at, sizeof words - at, "%s%s", *types[i].words ? " " : "",
                     types[i].words);
            n++;
        }
    if (n == 0 && !type)
        return schema_refuse(s, "expected type, enum, const, anyOf or $ref: any value is not "
                                "supported");
    if (n == 0 || n != asked)
        return schema_refuse(s, "type: expected object, array, string, integer, number, boolean, "
                                "null, or a list of some");
    if (!has_only(s, v, words))
        return 0;
    int ok = 1;
    for (size_t i = 0, put = 0; ok && i < N_TYPES; i++)
        if (has_type(v, &types[i]))
            ok = schema_put(s, put++ > 0 ? "|" : "") && types[i].put(s, v);
    return ok;
}

/* ---- schemas ---- */

static int schema_choices(struct schema *s, const struct jval *v, const char *key)
{
    const struct jval *list = jval_get(v, key);
    char number[40];
    int ok = has_only(s, v, key);
    if (ok && jval_size(list) == 0)
        return schema_refuse(s, "%s: expected an array with elements", key);
    if (ok && strcmp(key, "allOf") == 0 && jval_size(list) > 1)
        return schema_refuse(s, "allOf with more than one schema is not supported");
    for (size_t i = 0; ok && i < jval_size(list); i++) {
        snprintf(number, sizeof number, "%.10s/%zu", key, i);
        ok = schema_put(s, i > 0 ? "|" : "") && schema_put_inside(s, number, jval_at(list, i));
    }
    return ok;
}

/* 1 if a value has a type that the schema has. */
static int value_fits(const struct jval *v, const struct jval *value)
{
    static const char *const names[] = {"object", "array",   "string",  "integer",
                                        "number", "boolean", "boolean", "null"};
    const struct schema_type own = {names[jval_type(value)], "", "", NULL};
    const struct schema_type number = {"number", "", "", NULL};
    return !jval_get(v, "type") || has_type(v, &own) ||
           (jval_is_numeric(value) && has_type(v, &number));
}

/* Values of enum, or of const. */
static int schema_values(struct schema *s, const struct jval *v)
{
    const struct jval *one = jval_get(v, "const"), *list = jval_get(v, "enum");
    int ok = has_only(s, v, one ? "const type" : "enum type");
    size_t n = 0, n_values = one ? 1 : jval_size(list);
    for (size_t i = 0; ok && i < n_values; i++) {
        const struct jval *value = one ? one : jval_at(list, i);
        if (value_fits(v, value))
            ok = schema_put(s, n++ > 0 ? "|" : "") && schema_put_value(s, value);
    }
    return ok && (n > 0 || schema_refuse(s, "enum or const: no value of the type"));
}

/* "#/a/b": the schema there; NULL: none. */
static const struct jval *find_ref(const struct schema *s, const char *ref)
{
    const struct jval *v = s->root;
    if (*ref != '#' || (ref[1] && ref[1] != '/'))
        return NULL;
    for (ref++; v && *ref == '/';) {
        char name[128];
        size_t n = 0;
        for (ref++; *ref && *ref != '/' && n + 1 < sizeof name; ref++)
            if (ref[0] == '~' && (ref[1] == '0' || ref[1] == '1'))
                name[n++] = *++ref == '0' ? '~' : '/';
            else
                name[n++] = *ref;
        name[n] = 0;
        if (*ref && *ref != '/')
            return NULL;
        v = jval_get(v, name);
    }
    return v;
}

static int schema_ref(struct schema *s, const struct jval *v)
{
    const char *ref = jval_text(jval_get(v, "$ref"));
    const struct jval *to = ref ? find_ref(s, ref) : NULL;
    if (!has_only(s, v, "$ref"))
        return 0;
    if (!to)
        return schema_refuse(s,
                             "$ref: expected the place of a schema in this file, as "
                             "#/$defs/NAME, found '%.60s'",
                             ref ? ref : "");
    for (size_t i = 0; i < s->depth; i++)
        if (s->inside[i] == to)
            return schema_refuse(s, "$ref: '%.60s' contains itself, which is not supported", ref);
    return schema_put_inside(s, "$ref", to);
}

static int schema_any(struct schema *s, const struct jval *v)
{
    static const char *const choices[] = {"anyOf", "allOf"};
    if (!jval_is(v, JVAL_OBJECT))
        return schema_refuse(s, "expected a schema, which is an object");
    if (jval_get(v, "$ref"))
        return schema_ref(s, v);
    if (jval_get(v, "const") || jval_get(v, "enum"))
        return schema_values(s, v);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (jval_get(v, choices[i]))
            return schema_choices(s, v, choices[i]);
    if (jval_get(v, "oneOf"))
        return schema_refuse(s, "oneOf is not supported: anyOf is");
    return schema_types(s, v);
}

int schema_put_inside(struct schema *s, const char *key, const struct jval *v)
{
    size_t n = strlen(s->place);
    if (s->depth == SCHEMA_INSIDE)
        return schema_refuse(s, "schemas are nested more than %d deep", SCHEMA_INSIDE);
    snprintf(s->place + n, sizeof s->place - n, "%s%s", *key ? "/" : "", key);
    s->inside[s->depth++] = v;
    int ok = schema_put(s, "(?:") && schema_any(s, v) && schema_put(s, ")");
    s->depth--;
    s->place[n] = 0;
    return ok;
}

int schema_put_n(struct schema *s, const char *text, size_t n)
{
    if (arr_len(s->text) + n > MOST_TEXT)
        return schema_refuse(s, "the schema's expression has more than %d bytes", MOST_TEXT);
    if (arr_append(&s->text, text, n))
        return 1;
    if (s->err->status == MGPT_OK)
        err_memory(s->err, "the schema", arr_len(s->text) + n);
    return 0;
}

int schema_put(struct schema *s, const char *text)
{
    return schema_put_n(s, text, strlen(text));
}

int schema_pattern(const char *json, size_t n, char **pattern, mgpt_error *err)
{
    mgpt_error own = {.status = MGPT_OK};
    struct schema s = {.err = &own};
    struct jval_error failed;
    *pattern = NULL;
    s.root = jval_read(json, n, 0, NULL, &failed);
    if (!s.root && !jval_no_memory(&failed, n, &own))
        err_set(&own, MGPT_EFILE, failed.offset, "bad JSON in line %d: %s", failed.line,
                failed.text);
    int ok = s.root && schema_put_inside(&s, "", s.root) && schema_put_n(&s, "", 1);
    jval_free(s.root);
    if (ok)
        *pattern = s.text;
    else
        arr_free(s.text);
    if (!ok && err)
        *err = own;
    return own.status;
}
