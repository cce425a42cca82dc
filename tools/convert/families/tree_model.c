/* microgpt's weights in a tree, in the layouts that people save. See tree.h.
 *
 *     {"wte": matrix, ..., "_vocab": [...], "_bos_id": 26}                      flat
 *     {"config": {...}, "chars": [...], "weights": {"wte": matrix, ...}}        wrapped
 *     (state_dict, uchars, ...)                                                 in a tuple
 *     [0.1, ...]   or   {"params": [0.1, ...], "config": {...}}                 parameter list
 *
 * The weights are the dict that has the token embedding in it, however deep; every other dict is
 * searched for facts (tree_facts.c). In a flat file and inside the weights anything else that holds
 * numbers must be a matrix of the model; elsewhere an unknown key is ignored, with a note.
 */
#include "base/error.h"
#include "convert/families/microgpt_impl.h"
#include "convert/families/tree.h"

#include <string.h>

/* ---- keys of the weights --------------------------------------------------------------------- */

/* A tensor of the model by its name and none by its value: without it the file would be another
 * model (a head that is the embedding). null is absent. */
static int is_spoilt(const char *key, struct tree v)
{
    uint32_t layer;
    int role = mg_recognise(key, &layer), empty = v.kind == TREE_DICT && v.n == 0;
    return (empty || !tree_is_container(v)) && v.kind != TREE_NONE &&
           (role == MG_WTE || role == MG_WPE || role == MG_LM_HEAD);
}

/* Lists of numbers, matrices and shapes anywhere in it. */
static int holds_numbers(struct tree v, int nesting)
{
    enum tree_kind kind = v.kind;
    if (kind == TREE_LIST)
        return tree_first(v).kind == TREE_NUMBER ||
               (nesting <= TREE_MAX_NESTING && holds_numbers(tree_first(v), nesting + 1));
    if (kind == TREE_ARRAY || kind == TREE_OBJECT)
        return 1;
    if (kind != TREE_DICT)
        return 0;
    if (nesting > TREE_MAX_NESTING || (tree_get(v, "data").file && tree_get(v, "shape").file))
        return 1;
    for (struct tree_iter i = tree_items(v); tree_next(&i);)
        if (holds_numbers(i.value, nesting + 1))
            return 1;
    return 0;
}

/* Whether a container is a fact (a vocabulary, a configuration), not a group of matrices. */
static int is_fact(const char *key, struct tree v)
{
    enum mg_kind kind = mg_kind_of(key);
    if (v.kind != TREE_DICT)
        return kind == MG_VOCABULARY && !holds_numbers(v, 0);
    return kind == MG_VOCABULARY || kind == MG_CONFIG || !holds_numbers(v, 0);
}

/* The causal mask that minGPT keeps as a buffer: [1, 1, T, T]. */
static int is_mask(const char *key, struct tree v)
{
    const char *end = strstr(key, ".attn.bias");
    return end && !end[strlen(".attn.bias")] && tree_get(v, "shape").n == 4;
}

/* Takes a fact of the model. A value that states none is ignored, with a note. */
static void take_or_ignore(struct mg_parts *m, const char *key, struct tree v)
{
    if (!tree_take(m, key, v))
        tree_ignore(m, key, v);
}

static void read_weight(struct mg_parts *m, const char *key, struct tree v)
{
    if (is_spoilt(key, v))
        ckpt_stop_tensor(m->c, key, "%s, expected a matrix", v.what);
    if (!tree_is_container(v) || mg_kind_of(key) == MG_OPTIMIZER || is_fact(key, v))
        take_or_ignore(m, key, v);
    else if (!is_mask(key, v))
        tree_add_matrices(m, key, v);
}

static void read_weights(struct mg_parts *m, struct tree dict)
{
    char key[TREE_MAX_NAME];
    for (struct tree_iter i = tree_items(dict); tree_next(&i);) {
        tree_key(&i, key);
        read_weight(m, key, i.value);
    }
}

/* ---- finding them ---------------------------------------------------------------------------- */

typedef int is_weights_fn(const char *key, struct tree v);

static int is_named(const char *key, struct tree v)
{
    (void)key;
    return tree_names_matrices(v);
}

/* Without a token embedding: a list of all parameters, or a model that lacks it. */
static int is_called_so(const char *key, struct tree v)
{
    return mg_kind_of(key) == MG_WEIGHTS && tree_is_container(v) && holds_numbers(v, 0);
}

/* The first member that passes, those that are called weights first. */
static struct tree find_member(struct tree dict, is_weights_fn *is, int nesting)
{
    char key[TREE_MAX_NAME];
    struct tree found = {0};
    if (dict.kind != TREE_DICT)
        return found;
    for (int called_so = 1; called_so >= 0; called_so--)
        for (struct tree_iter i = tree_items(dict); !found.file && tree_next(&i);) {
            if (!tree_is_container(i.value))
                continue;
            tree_key(&i, key);
            enum mg_kind kind = mg_kind_of(key);
            if ((kind == MG_WEIGHTS) != called_so || kind == MG_OPTIMIZER)
                continue;
            if (is(key, i.value))
                return i.value;
            if (nesting < TREE_MAX_NESTING)
                found = find_member(i.value, is, nesting + 1);
        }
    return found;
}

/* The root itself when the matrices are its members, or where there are none. */
static struct tree find_weights(struct tree root)
{
    struct tree found = {0};
    if (!tree_names_matrices(root))
        found = find_member(root, is_named, 0);
    if (!found.file && !tree_names_matrices(root))
        found = find_member(root, is_called_so, 0);
    return found.file ? found : root;
}

static int is_inside(struct tree v, struct tree weights, int nesting)
{
    if (tree_same(v, weights))
        return 1;
    if (v.kind != TREE_DICT || nesting >= TREE_MAX_NESTING)
        return 0;
    for (struct tree_iter i = tree_items(v); tree_next(&i);)
        if (is_inside(i.value, weights, nesting + 1))
            return 1;
    return 0;
}

/* The facts around the weights, which a parameter list needs first. */
static void read_around(struct mg_parts *m, struct tree dict, struct tree weights, int nesting)
{
    char key[TREE_MAX_NAME];
    for (struct tree_iter i = tree_items(dict); nesting <= TREE_MAX_NESTING && tree_next(&i);) {
        int is_around = is_inside(i.value, weights, 0);
        tree_key(&i, key);
        if (tree_same(i.value, weights))
            continue;
        if (is_around)
            read_around(m, i.value, weights, nesting + 1);
        else
            take_or_ignore(m, key, i.value);
    }
}

/* ---- layouts --------------------------------------------------------------------------------- */

static void read_dict(struct mg_parts *m, struct tree root, const char *const formats[3])
{
    struct tree weights = find_weights(root);
    int is_flat = tree_same(weights, root);
    if (formats)
        m->c->format = formats[is_flat ? 0 : 1];
    if (!is_flat)
        read_around(m, root, weights, 0);
    if (is_flat || weights.kind == TREE_DICT)
        read_weights(m, weights);
    else
        tree_add_params(m, weights);
}

/* A tuple of the weights and other objects, not a list of matrices with their shapes. */
static int holds_dicts(struct tree list)
{
    for (struct tree_iter i = tree_items(list); tree_next(&i);)
        if (i.value.kind == TREE_DICT && !tree_get(i.value, "data").file)
            return 1;
    return 0;
}

static void read_tuple(struct mg_parts *m, struct tree list)
{
    for (struct tree_iter i = tree_items(list); tree_next(&i);) {
        enum tree_kind kind = i.value.kind, first = tree_first(i.value).kind;
        if (kind == TREE_DICT)
            read_dict(m, i.value, NULL);
        else if (kind == TREE_TEXT || first == TREE_TEXT)
            tree_vocabulary(m, "vocabulary", i.value);
        else
            ckpt_note(m->c, "ignored: %s next to the weights", i.value.what);
    }
}

void tree_read(struct mg_parts *m, struct tree root, const char *const formats[3])
{
    if (root.kind != TREE_LIST && root.kind != TREE_DICT)
        ckpt_stop(m->c, "a pickle of %s: not a microgpt", root.what);
    if (formats && root.kind == TREE_LIST)
        m->c->format = formats[2];
    if (root.kind == TREE_DICT)
        read_dict(m, root, formats);
    else if (holds_dicts(root))
        read_tuple(m, root);
    else
        tree_add_params(m, root);
    if (*root.file->left == 0)
        ckpt_stop(m->c, "its containers hold each other: more members than the file can hold");
}

/* 1: a dict with a token embedding and without fused projections, which another program writes. */
int tree_is_microgpt(struct tree root)
{
    char key[TREE_MAX_NAME];
    struct tree weights = find_weights(root);
    if (weights.kind != TREE_DICT)
        return 1;
    for (struct tree_iter i = tree_items(weights); tree_next(&i);) {
        tree_key(&i, key);
        if (strstr(key, "c_attn"))
            return 0;
    }
    return tree_names_matrices(weights);
}
