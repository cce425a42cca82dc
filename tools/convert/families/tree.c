/* The tree interface, and jansson behind it. See tree.h. */
#include "convert/families/tree.h"

#include <string.h>

/* ---- any file ---------------------------------------------------------------------------------- */

enum tree_kind tree_kind(struct tree t)
{
    return t.file ? t.file->ops->kind(t) : TREE_NONE;
}

const char *tree_describe(struct tree t)
{
    return t.file ? t.file->ops->describe(t) : "nothing";
}

size_t tree_size(struct tree t)
{
    return t.file ? t.file->ops->size(t) : 0;
}

int tree_number(struct tree t, double *v)
{
    return t.file && t.file->ops->number(t, v);
}

int tree_integer(struct tree t, int64_t *v)
{
    return t.file && t.file->ops->integer(t, v);
}

struct gguf_str tree_text(struct tree t)
{
    return tree_kind(t) == TREE_TEXT ? t.file->ops->text(t) : (struct gguf_str){"", 0};
}

struct tree_iter tree_items(struct tree t)
{
    return (struct tree_iter){.of = t, .id = -1};
}

int tree_next(struct tree_iter *i)
{
    const struct tree_file *f = i->of.file;
    if (!f || *f->left == 0 || !f->ops->next(i))
        return 0;
    --*f->left;
    i->n++;
    return 1;
}

struct tree tree_get(struct tree dict, const char *key)
{
    struct tree found = {0};
    size_t n = strlen(key);
    for (struct tree_iter i = tree_items(dict); tree_next(&i);)
        if (i.key.p && i.key.n == n && memcmp(i.key.p, key, n) == 0)
            found = i.value; /* the last one, as in Python */
    return found;
}

struct tree tree_first(struct tree list)
{
    struct tree_iter i = tree_items(list);
    return tree_kind(list) == TREE_LIST && tree_next(&i) ? i.value : (struct tree){0};
}

void tree_key(const struct tree_iter *i, char buf[TREE_MAX_NAME])
{
    struct gguf_str key = i->key;
    if (!key.p || memchr(key.p, 0, key.n))
        key = (struct gguf_str){"(a key that is no name)", 23};
    size_t n = key.n < TREE_MAX_NAME ? key.n : TREE_MAX_NAME - 1;
    memcpy(buf, key.p, n);
    buf[n] = 0;
}

int64_t tree_digits(struct gguf_str s)
{
    int64_t v = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9' || s.n > 9)
            return -1;
        v = 10 * v + (s.p[i] - '0');
    }
    return s.n ? v : -1;
}

/* ---- JSON -------------------------------------------------------------------------------------- */

static json_t *json_of(struct tree t)
{
    return (json_t *)(uintptr_t)t.at;
}

static enum tree_kind json_tree_kind(struct tree t)
{
    static const enum tree_kind kinds[] = {
        [JSON_OBJECT] = TREE_DICT,    [JSON_ARRAY] = TREE_LIST,  [JSON_STRING] = TREE_TEXT,
        [JSON_INTEGER] = TREE_NUMBER, [JSON_REAL] = TREE_NUMBER, [JSON_TRUE] = TREE_FLAG,
        [JSON_FALSE] = TREE_FLAG,     [JSON_NULL] = TREE_NONE};
    return kinds[json_typeof(json_of(t))];
}

static const char *json_describe(struct tree t)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",    [JSON_ARRAY] = "a list",
        [JSON_STRING] = "a string",     [JSON_INTEGER] = "a number",
        [JSON_REAL] = "a number",       [JSON_TRUE] = "true or false",
        [JSON_FALSE] = "true or false", [JSON_NULL] = "null (JavaScript writes NaN so)"};
    return names[json_typeof(json_of(t))];
}

static size_t json_tree_size(struct tree t)
{
    const json_t *v = json_of(t);
    return json_is(v, JSON_OBJECT) ? json_object_size(v) : json_array_size(v);
}

static int json_tree_next(struct tree_iter *i)
{
    json_t *v = json_of(i->of), *member;
    if (json_is(v, JSON_OBJECT)) {
        i->json = i->n ? json_object_iter_next(v, i->json) : json_object_iter(v);
        member = json_object_iter_value(i->json);
    } else {
        member = json_array_get(v, i->n);
    }
    if (!member)
        return 0;
    if (i->json) {
        const char *key = json_object_iter_key(i->json);
        i->key = (struct gguf_str){key, strlen(key)};
        i->id = tree_digits(i->key);
    }
    i->value = (struct tree){i->of.file, (uintptr_t)member};
    return 1;
}

static int json_tree_number(struct tree t, double *v)
{
    const json_t *j = json_of(t);
    *v = json_is(j, JSON_TRUE) ? 1 : json_number_value(j);
    return json_is_numeric(j) || json_is_boolean(j);
}

static int json_tree_integer(struct tree t, int64_t *v)
{
    *v = json_integer_value(json_of(t));
    return json_is(json_of(t), JSON_INTEGER);
}

static struct gguf_str json_tree_text(struct tree t)
{
    return (struct gguf_str){json_string_value(json_of(t)), json_string_length(json_of(t))};
}

struct tree tree_of_json(struct tree_file *file, uint64_t *left, const json_t *root, size_t n)
{
    static const struct tree_ops ops = {
        json_tree_kind,   json_describe,     json_tree_size, json_tree_next,
        json_tree_number, json_tree_integer, json_tree_text, NULL};
    *left = TREE_LOOKS * ((uint64_t)n + 1);
    *file = (struct tree_file){&ops, NULL, left};
    return (struct tree){file, (uintptr_t)root};
}
