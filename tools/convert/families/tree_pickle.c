/* A pickle as a tree. See tree.h and pickle.h. */
#include "base/error.h"
#include "convert/families/tree.h"

#include <string.h>

static const struct pickle *pickle_of(struct tree t)
{
    return t.file->data;
}

static const struct pickle_node *node_of(struct tree t)
{
    return pickle_at(pickle_of(t), (pickle_id)t.at);
}

/* A number, or the Value object of one. */
static int pickle_tree_number(struct tree t, double *v)
{
    const struct pickle *p = pickle_of(t);
    uint8_t kind = node_of(t)->kind;
    if (pickle_real(p, (pickle_id)t.at, v))
        return 1;
    return (kind == PICKLE_OBJECT || kind == PICKLE_CALL) &&
           pickle_real(p, pickle_get(p, (pickle_id)t.at, "data"), v);
}

static int pickle_tree_integer(struct tree t, int64_t *v)
{
    return pickle_int(pickle_of(t), (pickle_id)t.at, v);
}

static int is_array(struct tree t)
{
    const struct pickle *p = pickle_of(t);
    return pickle_is_call(p, (pickle_id)t.at, NULL, "_reconstruct") ||
           pickle_is_call(p, (pickle_id)t.at, NULL, "_frombuffer");
}

/* The dict itself, or that of the attributes of an object, which is its state or in it; 0: none. */
static pickle_id dict_of(struct tree t)
{
    const struct pickle *p = pickle_of(t);
    const struct pickle_node *n = node_of(t);
    pickle_id id = n->kind == PICKLE_OBJECT || n->kind == PICKLE_CALL ? n->state : (pickle_id)t.at;
    if (pickle_at(p, id)->kind == PICKLE_DICT)
        return id;
    for (size_t i = 0; id != t.at && i < 2; i++)
        if (pickle_at(p, pickle_item(p, id, i))->kind == PICKLE_DICT)
            return pickle_item(p, id, i);
    return 0;
}

static enum tree_kind pickle_tree_kind(struct tree t)
{
    double v;
    switch (node_of(t)->kind) {
    case PICKLE_NONE:
        return TREE_NONE;
    case PICKLE_BOOL:
        return TREE_FLAG;
    case PICKLE_INT:
    case PICKLE_REAL:
        return TREE_NUMBER;
    case PICKLE_TEXT:
        return TREE_TEXT;
    case PICKLE_LIST:
    case PICKLE_TUPLE:
        return TREE_LIST;
    case PICKLE_DICT:
        return TREE_DICT;
    case PICKLE_CALL:
    case PICKLE_OBJECT:
        if (pickle_tree_number(t, &v))
            return TREE_NUMBER;
        if (is_array(t))
            return TREE_ARRAY;
        return dict_of(t) ? TREE_DICT : TREE_OBJECT;
    default:
        return TREE_OPAQUE;
    }
}

static const char *pickle_describe(struct tree t)
{
    return pickle_kind_name(pickle_of(t), (pickle_id)t.at);
}

static size_t pickle_tree_size(struct tree t)
{
    pickle_id dict = dict_of(t);
    return dict ? pickle_at(pickle_of(t), dict)->n / 2 : node_of(t)->n;
}

static int pickle_tree_next(struct tree_iter *i)
{
    const struct pickle *p = pickle_of(i->of);
    pickle_id dict = dict_of(i->of);
    if (i->n == 0)
        i->pickle = pickle_items(p, dict ? dict : (pickle_id)i->of.at);
    if (!pickle_next(&i->pickle))
        return 0;
    const struct pickle_node *key = pickle_at(p, i->pickle.key);
    i->key = (struct gguf_str){NULL, 0};
    if (key->kind == PICKLE_TEXT)
        i->key = (struct gguf_str){key->as.text, key->n};
    i->id = tree_digits(i->key);
    if (key->kind == PICKLE_INT)
        i->id = key->as.integer;
    i->value = (struct tree){i->of.file, i->pickle.value};
    return 1;
}

static struct gguf_str pickle_tree_text(struct tree t)
{
    return (struct gguf_str){node_of(t)->as.text, node_of(t)->n};
}

/* An array may be in several places (a tied head), but not in so many that a small file gives a large model. */
static int pickle_tree_array(struct tree t, struct mg_parts *m, const char *name)
{
    struct state_tensor tensor;
    int is = pickle_ndarray(pickle_of(t), (pickle_id)t.at, m->c, &tensor, m->err);
    if (is < 0)
        return is;
    if (!is)
        return ckpt_refuse_tensor(m->err, name, "expected rows of numbers, found %s",
                                  pickle_describe(t));
    size_t each = state_type_bytes(tensor.type);
    uint64_t n = each ? tensor.bytes.size / each : 0;
    tensor.name = name;
    return mg_use_room(m, name, n) < 0 ? MGPT_EFILE : mg_add_tensor(m, &tensor);
}

struct tree tree_of_pickle(struct tree_file *file, uint64_t *left, const struct pickle *p,
                           pickle_id root, size_t n)
{
    static const struct tree_ops ops = {pickle_tree_kind, pickle_describe,    pickle_tree_size,
                                        pickle_tree_next, pickle_tree_number, pickle_tree_integer,
                                        pickle_tree_text, pickle_tree_array};
    *left = TREE_LOOKS * ((uint64_t)n + 1);
    *file = (struct tree_file){&ops, p, left};
    return (struct tree){file, root};
}
