/* Reader: microgpt in an .npz archive: one array for each matrix, and other arrays.
 *
 * The archive is a tree (tree.h): a dict of its entries, or a list when they are arr_0, arr_1, ...
 * What is small or cannot be read in order (names, numbers, objects, Fortran arrays) is held in
 * memory; other matrices are streams.
 */
#include "convert/containers/npz.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "convert/families/microgpt_impl.h"
#include "convert/families/npy_model.h"
#include "convert/families/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRIES = 100000 };

struct npz_entry {
    struct gguf_str key; /* the name without ".npy" */
    zip_uint64_t index;
    struct npy npy;
    char what[32];          /* for messages */
    struct gguf_str *texts; /* of type U: stb_ds array */
    struct pickle pickle;   /* of type O, and its tree */
    struct tree_file file;
    struct tree value;
};

struct npz {
    struct npz_stream stream;
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
static int npz_load_texts(struct npz *z, struct npz_entry *e, mgpt_error *err)
{
    struct span data;
    size_t each = e->npy.width;
    if (each < 4)
        return MGPT_OK;
    if (npz_hold(&z->stream, e->index, &data, err) < 0)
        return err->status;
    char *text = ckpt_alloc(z->stream.c, data.size + 1, 1);
    if (!text || !arr_reserve(e->texts, data.size / each + 1))
        return err_memory(err, "the texts", data.size);
    for (size_t at = 0; at + each <= data.size; at += each) {
        struct gguf_str s = {text, to_utf8(data.data + at, each / 4, text)};
        text += s.n;
        arr_put(e->texts, s);
    }
    e->value.kind = e->npy.n_dims ? TREE_LIST : TREE_TEXT;
    e->value.text = arr_len(e->texts) ? e->texts[0] : e->value.text;
    e->value.n = arr_len(e->texts);
    return MGPT_OK;
}

/* An array of one number. */
static int load_number(struct npz *z, struct npz_entry *e, mgpt_error *err)
{
    struct span data;
    uint64_t bits = 0;
    enum state_type type;
    if (npz_hold(&z->stream, e->index, &data, err) < 0)
        return err->status;
    for (size_t i = 0; i < e->npy.width; i++)
        bits |= (uint64_t)data.data[i] << (8 * i);
    int negative = e->npy.kind == 'i' && (bits >> (8 * e->npy.width - 1) & 1);
    e->value.kind = e->npy.kind == 'b' ? TREE_FLAG : TREE_NUMBER;
    e->value.is_whole = e->npy.kind == 'i' || e->npy.kind == 'u';
    e->value.whole = negative ? -1 : (int64_t)bits; /* no fact is negative */
    e->value.number = (double)e->value.whole;
    if (e->npy.kind != 'f')
        return MGPT_OK;
    if (!npy_weights(&e->npy, &type))
        return ckpt_refuse(err, "npz: element type '%s'", e->npy.descr);
    e->value.number = npy_real(&e->npy, data.data, 0);
    return MGPT_OK;
}

static int load_objects(struct npz *z, struct npz_entry *e, struct mg_parts *m)
{
    struct span data;
    if (npz_hold(&z->stream, e->index, &data, m->err) < 0 ||
        pickle_read(&e->pickle, data, m->err) < 0)
        return m->err->status;
    uint64_t left;
    e->value = tree_of_pickle(&e->file, &left, &e->pickle, npy_objects(&e->pickle), data.size);
    e->file.left = &z->left;
    z->left += left;
    m->room += data.size;
    return MGPT_OK;
}

/* One element that is a fact: "norm" is a gain or the kind of the norms, and the value tells. */
static int is_fact(const struct npz *z, const struct npz_entry *e)
{
    uint32_t layer;
    uint64_t n = 1;
    for (unsigned i = 0; i < e->npy.n_dims; i++)
        n = e->npy.dims[i] == 1 ? n : 0;
    int is_gain =
        e->npy.kind == 'f' && e->npy.n_dims > 0 &&
        (z->in_order || mg_recognise(e->key.p, &layer) >= 0 || mg_kind_of(e->key.p) == MG_WEIGHTS);
    return n == 1 && !is_gain && e->npy.width >= 1 && e->npy.width <= 8 &&
           strchr("fiub", e->npy.kind) != NULL;
}

/* What the next entry is; entries that are not arrays are noted. */
static int load_entry(struct npz *z, zip_uint64_t index, struct mg_parts *m)
{
    struct npz_entry *e = &z->entries[z->n_entries];
    const char *name = npz_entry_name(&z->stream, index);
    size_t n = strlen(name), suffix = strlen(".npy");
    if (n <= suffix || n - suffix >= TREE_MAX_NAME || strcmp(name + n - suffix, ".npy") != 0) {
        ckpt_note(z->stream.c, "ignored: %.60s (not a .npy array)", name);
        return MGPT_OK;
    }
    *e = (struct npz_entry){.key = {ckpt_text(z->stream.c, name, n - suffix), n - suffix},
                            .index = index};
    if (!e->key.p)
        return err_memory(m->err, "a name", n);
    zip_file_t *stream = npz_open(z->stream.zip, index, &e->npy, m->err);
    if (!stream)
        return m->err->status;
    zip_fclose(stream);
    z->n_entries++;
    snprintf(e->what, sizeof e->what, "element type %s", e->npy.descr);
    e->value = (struct tree){.kind = e->npy.kind == 'f' || z->in_order ? TREE_ARRAY : TREE_OPAQUE,
                             .file = &z->file,
                             .at = z->n_entries,
                             .what = e->what};
    if (e->npy.kind == 'O')
        return load_objects(z, e, m);
    if (e->npy.kind == 'U' && (!e->npy.n_dims || mg_kind_of(e->key.p) == MG_VOCABULARY))
        return npz_load_texts(z, e, m->err);
    return is_fact(z, e) ? load_number(z, e, m->err) : MGPT_OK;
}

static int load_entries(struct npz *z, struct mg_parts *m)
{
    zip_uint64_t n = (zip_uint64_t)zip_get_num_entries(z->stream.zip, 0);
    int status = MGPT_OK;
    if (n > MAX_ENTRIES)
        return ckpt_refuse(m->err, "npz: more than %d entries", (int)MAX_ENTRIES);
    z->entries = ckpt_alloc(z->stream.c, (size_t)n + 1, sizeof *z->entries);
    if (!z->entries)
        return err_memory(m->err, "the entries", (size_t)n * sizeof *z->entries);
    z->in_order = strcmp(npz_entry_name(&z->stream, 0), "arr_0.npy") == 0;
    for (zip_uint64_t i = 0; status == MGPT_OK && i < n; i++)
        status = load_entry(z, i, m);
    return status;
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
    i->key = z->entries[i->n].key;
    i->value = z->entries[i->n].value;
    return 1;
}

static int npz_tree_array(const struct tree *value, struct mg_parts *m, const char *name)
{
    struct npz *z = (struct npz *)(uintptr_t)value->file->data;
    const struct npz_entry *e = &z->entries[value->at - 1];
    const struct npy *npy = &e->npy;
    enum state_type type;
    if (!npy_weights(npy, &type))
        return ckpt_refuse_tensor(m->err, name, "element type '%s', expected <f4, <f8 or <f2",
                                  npy->descr);
    if (npy->n_dims < 1 || npy->n_dims > 2)
        return ckpt_refuse_tensor(m->err, name, "%u dimensions, expected 1 or 2", npy->n_dims);
    struct state_tensor t = npy_tensor(npy, type);
    uint64_t n = npy->n_bytes / npy->width; /* npy_header has multiplied them */
    if (n == 0)
        return ckpt_refuse_tensor(m->err, name, "it has no values");
    if (!npy->fortran || npy->n_dims == 1)
        return npz_add(&z->stream, m, name, e->index, &t);
    t.name = name;
    int status = npz_hold(&z->stream, e->index, &t.bytes, m->err);
    return status < 0 ? status : mg_add_tensor(m, &t);
}

/* ---- the archive ----------------------------------------------------------------------------- */

/* What only reading needs. */
static void free_entries(struct npz *z)
{
    for (size_t i = 0; i < z->n_entries; i++) {
        arr_free(z->entries[i].texts);
        pickle_free(&z->entries[i].pickle);
    }
    z->n_entries = 0;
}

static void npz_model_release(void *source)
{
    struct npz *z = source;
    npz_close(&z->stream);
    zip_discard(z->stream.zip);
    free(z);
}

/* The name of the first entry follows the first header. */
enum ckpt_match npz_sniff(struct span bytes)
{
    if (bytes.size < 34 || memcmp(bytes.data, "PK\3\4", 4) != 0)
        return MATCH_NO;
    size_t n = bytes.data[26] | (size_t)bytes.data[27] << 8;
    if (n < 4 || n > bytes.size - 30 || memcmp(bytes.data + 30 + n - 4, ".npy", 4) != 0)
        return MATCH_NO;
    return MATCH_YES;
}

static int read_archive(struct npz *z, struct mg_parts *m)
{
    static const struct tree_ops ops = {npz_tree_next, npz_tree_array};
    z->file = (struct tree_file){&ops, z, &z->left};
    z->left = UINT64_MAX / 2;
    int status = load_entries(z, m);
    struct tree root = {.kind = z->in_order ? TREE_LIST : TREE_DICT,
                        .file = &z->file,
                        .n = z->n_entries,
                        .what = "an archive"};
    if (status == MGPT_OK)
        status = tree_read(m, root, NULL);
    status = mg_parts_build(m, status);
    free_entries(z);
    return status;
}

int npz_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct npz *z = calloc(1, sizeof *z);
    struct mg_parts m;
    if (!z)
        return err_memory(err, "the archive", sizeof *z);
    z->stream.c = c;
    z->stream.zip = npz_archive(in->bytes.data, in->bytes.size, err);
    if (!z->stream.zip) {
        free(z);
        return err->status;
    }
    c->source = z;
    c->release = npz_model_release;
    c->format = "microgpt .npz";
    mg_parts_init(&m, c, in, err);
    return read_archive(z, &m);
}
