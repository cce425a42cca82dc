/* microgpt in an .npz archive: one array for each matrix, and other arrays.
 *
 * The archive is a tree (tree.h): a dict of its arrays, or a list when they are arr_0, arr_1, ...
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "convert/containers/npy_state.h"
#include "convert/families/microgpt_impl.h"
#include "convert/families/tree.h"

#include <stdio.h>
#include <string.h>

struct npz_entry {
    const struct npz_member *array;
    char what[32];          /* for messages */
    struct gguf_str *texts; /* of type U */
    struct tree_file file;  /* of type O: a pickle's */
    struct tree value;
};

struct npz {
    struct npz_entry *entries;
    size_t n_entries;
    int in_order; /* they have numbers, not names */
    struct tree_file file;
    uint64_t left;
};

/* ---- entries --------------------------------------------------------------------------------- */

/* Characters of UTF-32 up to a NUL, as UTF-8 in `out`; returns its length. */
static size_t to_utf8(const uint8_t *p, size_t n, char *out)
{
    size_t length = 0;
    for (size_t i = 0; i < n; i++, p += 4) {
        uint32_t code = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        if (code == 0)
            break;
        length += utf8_put(code, out + length);
    }
    return length;
}

/* An array of texts, or a single one. */
static void npz_load_texts(struct npz_entry *e, struct checkpoint *c)
{
    struct span data = e->array->data;
    size_t each = e->array->npy.width, n = each < 4 ? 0 : data.size / each;
    if (each < 4)
        return;
    char *text = ckpt_new(c, data.size + 1, 1);
    e->texts = ckpt_new(c, n + 1, sizeof *e->texts);
    for (size_t i = 0; i < n; i++) {
        e->texts[i] = (struct gguf_str){text, to_utf8(data.data + i * each, each / 4, text)};
        text += e->texts[i].n;
    }
    e->value.kind = e->array->npy.n_dims ? TREE_LIST : TREE_TEXT;
    e->value.text = n ? e->texts[0] : e->value.text;
    e->value.n = n;
}

/* An array of one number. */
static void load_number(struct npz_entry *e, struct checkpoint *c)
{
    const struct npy *npy = &e->array->npy;
    uint64_t bits = 0;
    for (size_t i = 0; i < npy->width; i++)
        bits |= (uint64_t)e->array->data.data[i] << (8 * i);
    int negative = npy->kind == 'i' && (bits >> (8 * npy->width - 1) & 1);
    e->value.kind = npy->kind == 'b' ? TREE_FLAG : TREE_NUMBER;
    e->value.is_whole = npy->kind == 'i' || npy->kind == 'u';
    e->value.whole = negative ? -1 : (int64_t)bits; /* no fact is negative */
    e->value.number = (double)e->value.whole;
    if (npy->kind == 'f' && npy_type(npy) == STATE_OTHER)
        ckpt_stop(c, "npz: element type '%s'", npy->descr);
    if (npy->kind == 'f')
        e->value.number = npy_real(npy, e->array->data.data, 0);
}

static void load_objects(struct npz *z, struct npz_entry *e, struct mg_parts *m)
{
    struct span data = e->array->data;
    const struct pickle *p = pickle_owned(m->c, data);
    uint64_t left;
    e->value = tree_of_pickle(&e->file, &left, p, npy_objects(p), data.size);
    e->file.left = &z->left;
    z->left += left;
    m->room += data.size;
}

/* One element that is a fact: "norm" is a gain or the kind of the norms, and the value tells. */
static int is_fact(const struct npz *z, const struct npz_member *a)
{
    uint32_t layer;
    uint64_t n = 1;
    for (unsigned i = 0; i < a->npy.n_dims; i++)
        n = a->npy.dims[i] == 1 ? n : 0;
    int is_gain =
        a->npy.kind == 'f' && a->npy.n_dims > 0 &&
        (z->in_order || mg_recognise(a->name, &layer) >= 0 || mg_kind_of(a->name) == MG_WEIGHTS);
    return n == 1 && !is_gain && a->npy.width >= 1 && a->npy.width <= 8 &&
           strchr("fiub", a->npy.kind) != NULL;
}

static void load_entry(struct npz *z, const struct npz_member *a, struct mg_parts *m)
{
    struct npz_entry *e = &z->entries[z->n_entries++];
    e->array = a;
    snprintf(e->what, sizeof e->what, "element type %s", a->npy.descr);
    e->value = (struct tree){.kind = a->npy.kind == 'f' || z->in_order ? TREE_ARRAY : TREE_OPAQUE,
                             .file = &z->file,
                             .at = z->n_entries,
                             .what = e->what};
    if (a->npy.kind == 'O')
        load_objects(z, e, m);
    else if (a->npy.kind == 'U' && (!a->npy.n_dims || mg_kind_of(a->name) == MG_VOCABULARY))
        npz_load_texts(e, m->c);
    else if (is_fact(z, a))
        load_number(e, m->c);
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* Members of the archive are its entries; those of a list of texts are its texts. */
static int npz_tree_next(struct tree_iter *i)
{
    const struct npz *z = i->of.file->data;
    if (i->n >= i->of.n)
        return 0;
    if (i->of.at) {
        i->value = (struct tree){
            .kind = TREE_TEXT, .file = i->of.file, .text = z->entries[i->of.at - 1].texts[i->n]};
        return 1;
    }
    const char *name = z->entries[i->n].array->name;
    i->key = (struct gguf_str){name, strlen(name)};
    i->value = z->entries[i->n].value;
    return 1;
}

static void npz_tree_array(const struct tree *value, struct mg_parts *m, const char *name)
{
    const struct npz *z = value->file->data;
    const struct npz_member *a = z->entries[value->at - 1].array;
    struct state_tensor t = npy_tensor(&a->npy, a->data);
    if (a->npy.kind != 'f' || t.type == STATE_OTHER)
        ckpt_stop_tensor(m->c, name, "element type '%s', expected <f4, <f8 or <f2", a->npy.descr);
    mg_add(m, name, t);
}

/* ---- the archive ----------------------------------------------------------------------------- */

void microgpt_npz(struct mg_parts *m, const struct npz_member *arrays)
{
    static const struct tree_ops ops = {npz_tree_next, npz_tree_array};
    size_t n = arr_len(arrays);
    struct npz z = {.in_order = n && strcmp(arrays[0].name, "arr_0") == 0,
                    .file = {&ops, &z, &z.left},
                    .left = UINT64_MAX / 2};
    z.entries = ckpt_new(m->c, n + 1, sizeof *z.entries);
    m->c->format = "microgpt .npz";
    for (size_t i = 0; i < n; i++)
        load_entry(&z, &arrays[i], m);
    struct tree root = {
        .kind = z.in_order ? TREE_LIST : TREE_DICT, .file = &z.file, .n = n, .what = "an archive"};
    tree_read(m, root, NULL);
    mg_parts_build(m);
}
