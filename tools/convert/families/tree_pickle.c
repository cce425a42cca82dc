/* A pickle as a tree. See tree.h and pickle.h. */
#include "base/error.h"
#include "convert/families/tree.h"

/* The dict itself, or that of the attributes of an object, which is its state or in it; 0: none. */
static pickle_id dict_of(const struct pickle *p, pickle_id id)
{
    struct pickle_node n = pickle_at(p, id);
    if (n.kind == PICKLE_DICT)
        return id;
    if (n.kind != PICKLE_OBJECT && n.kind != PICKLE_CALL)
        return 0;
    if (pickle_at(p, n.state).kind == PICKLE_DICT)
        return n.state;
    for (size_t i = 0; i < 2; i++)
        if (pickle_at(p, pickle_item(p, n.state, i)).kind == PICKLE_DICT)
            return pickle_item(p, n.state, i);
    return 0;
}

/* An object is a number, an array, or its attributes. */
static enum tree_kind kind_of_object(const struct pickle *p, pickle_id id, double *number)
{
    if (pickle_real(p, id, number) || pickle_real(p, pickle_get(p, id, "data"), number))
        return TREE_NUMBER;
    if (pickle_is_call(p, id, NULL, "_reconstruct") || pickle_is_call(p, id, NULL, "_frombuffer"))
        return TREE_ARRAY;
    return dict_of(p, id) ? TREE_DICT : TREE_OBJECT;
}

static struct tree pickle_load(const struct tree_file *file, pickle_id id)
{
    static const enum tree_kind kinds[] = {
        [PICKLE_NONE] = TREE_NONE,     [PICKLE_BOOL] = TREE_FLAG,
        [PICKLE_INT] = TREE_NUMBER,    [PICKLE_LONG] = TREE_OPAQUE,
        [PICKLE_REAL] = TREE_NUMBER,   [PICKLE_TEXT] = TREE_TEXT,
        [PICKLE_BYTES] = TREE_OPAQUE,  [PICKLE_TUPLE] = TREE_LIST,
        [PICKLE_LIST] = TREE_LIST,     [PICKLE_DICT] = TREE_DICT,
        [PICKLE_GLOBAL] = TREE_OPAQUE, [PICKLE_CALL] = TREE_OBJECT,
        [PICKLE_OBJECT] = TREE_OBJECT, [PICKLE_PERSISTENT] = TREE_OPAQUE};
    const struct pickle *p = file->data;
    struct pickle_node n = pickle_at(p, id);
    struct tree t = {
        .kind = kinds[n.kind], .file = file, .at = id, .n = n.n, .what = pickle_kind_text(n.kind)};
    if (n.kind == PICKLE_REAL) {
        t.number = n.as.real;
        return t;
    }
    if (n.kind == PICKLE_INT) {
        t.number = (double)n.as.integer;
        t.is_whole = 1;
        t.whole = n.as.integer;
        return t;
    }
    if (t.kind == TREE_OBJECT)
        t.kind = kind_of_object(p, id, &t.number);
    else if (t.kind == TREE_FLAG)
        t.number = (double)n.as.integer;
    t.is_whole = t.kind == TREE_NUMBER && pickle_int(p, id, &t.whole);
    if (t.kind == TREE_TEXT)
        t.text = (struct gguf_str){n.as.text, n.n};
    if (t.kind == TREE_DICT)
        t.n = pickle_at(p, dict_of(p, id)).n / 2;
    return t;
}

static int pickle_tree_next(struct tree_iter *i)
{
    const struct pickle *p = i->of.file->data;
    pickle_id id = (pickle_id)i->of.at;
    if (i->n == 0)
        i->pickle = pickle_items(p, i->of.kind == TREE_DICT ? dict_of(p, id) : id);
    if (!pickle_next(&i->pickle))
        return 0;
    if (i->of.kind == TREE_DICT) {
        struct tree key = pickle_load(i->of.file, i->pickle.key);
        i->key = key.text;
        i->id = key.is_whole ? key.whole : tree_digits(key.text);
    }
    i->value = pickle_load(i->of.file, i->pickle.value);
    return 1;
}

/* An array may be in several places (a tied head), but not in so many that a small file gives a
 * large model. */
static void pickle_tree_array(const struct tree *t, struct mg_parts *m, const char *name)
{
    struct state_tensor tensor;
    int is = pickle_ndarray(t->file->data, (pickle_id)t->at, m->c, &tensor, m->c->err);
    ckpt_must(m->c, is);
    if (!is)
        ckpt_stop_tensor(m->c, name, "expected rows of numbers, found %s", t->what);
    size_t each = state_type_bytes(tensor.type);
    mg_use_room(m, name, each ? tensor.bytes.size / each : 0);
    mg_add(m, name, tensor);
}

struct tree tree_of_pickle(struct tree_file *file, uint64_t *left, const struct pickle *p,
                           pickle_id root, size_t n)
{
    static const struct tree_ops ops = {pickle_tree_next, pickle_tree_array};
    *left = TREE_LOOKS * ((uint64_t)n + 1);
    *file = (struct tree_file){&ops, p, left};
    return pickle_load(file, root);
}
