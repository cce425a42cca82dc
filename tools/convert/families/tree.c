/* The tree interface, and the adapter of JSON. See tree.h. */
#include "convert/families/tree.h"

#include <string.h>

/* ---- any file -------------------------------------------------------------------------------- */

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
    return list.kind == TREE_LIST && tree_next(&i) ? i.value : (struct tree){0};
}

void tree_key(const struct tree_iter *i, char buf[TREE_MAX_NAME])
{
    struct gguf_str key = i->key;
    if (!key.p || memchr(key.p, 0, key.n))
        key = (struct gguf_str){"(a key that is not a name)", 23};
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

/* ---- JSON ------------------------------------------------------------------------------------ */

static struct tree json_load(const struct tree_file *file, const struct jval *v)
{
    static const struct {
        enum tree_kind kind;
        const char *what;
    } kinds[] = {[JVAL_OBJECT] = {TREE_DICT, "an object"},
                 [JVAL_ARRAY] = {TREE_LIST, "a list"},
                 [JVAL_STRING] = {TREE_TEXT, "a string"},
                 [JVAL_INTEGER] = {TREE_NUMBER, "a number"},
                 [JVAL_REAL] = {TREE_NUMBER, "a number"},
                 [JVAL_TRUE] = {TREE_FLAG, "true or false"},
                 [JVAL_FALSE] = {TREE_FLAG, "true or false"},
                 [JVAL_NULL] = {TREE_NONE, "null (JavaScript writes NaN so)"}};
    enum jval_type type = jval_type(v);
    struct tree t = {.kind = kinds[type].kind,
                     .file = file,
                     .at = (uintptr_t)v,
                     .json = v,
                     .what = kinds[type].what};
    if (t.kind == TREE_NUMBER) {
        t.number = jval_number(v);
        t.is_whole = type == JVAL_INTEGER;
        t.whole = t.is_whole ? jval_whole(v) : 0;
    } else if (t.kind == TREE_TEXT) {
        t.text = (struct gguf_str){jval_text(v), jval_text_size(v)};
    } else {
        t.number = type == JVAL_TRUE;
        t.n = type == JVAL_OBJECT ? jval_members(v) : jval_size(v);
    }
    return t;
}

static int json_tree_next(struct tree_iter *i)
{
    const struct jval *v = i->of.json, *member = NULL;
    if (i->of.kind == TREE_DICT) {
        if (i->n == 0)
            i->json = jval_begin(v);
        if (!jval_next(&i->json))
            return 0;
        member = i->json.value;
        i->key = (struct gguf_str){i->json.key, strlen(i->json.key)};
        i->id = tree_digits(i->key);
    } else if (!(member = jval_at(v, i->n))) {
        return 0;
    }
    i->value = json_load(i->of.file, member);
    return 1;
}

struct tree tree_of_json(struct tree_file *file, uint64_t *left, const struct jval *root, size_t n)
{
    static const struct tree_ops ops = {json_tree_next, NULL};
    *left = TREE_LOOKS * ((uint64_t)n + 1);
    *file = (struct tree_file){&ops, NULL, left};
    return json_load(file, root);
}
