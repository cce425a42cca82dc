/* Reader: microgpt in an .npz archive: one array for each matrix, and whatever else was put in.
 *
 * Entries, stored or deflated, are streams: the writer asks for values in order, so one open stream at a
 * time is enough and memory does not grow with the model. Only what is small or cannot be read in order
 * (names, objects, Fortran arrays) is held. A stream that breaks while it is read fails the conversion
 * through c->failed.
 */
#include "common/npz.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "convert/families/microgpt_impl.h"
#include "convert/families/npy_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEY = 200, MAX_ENTRIES = 100000, CHUNK = 8192 /* bytes */ };

#define MAX_HELD ((uint64_t)256 << 20) /* bytes of an entry that is held in memory */

struct npz {
    struct checkpoint *c;
    zip_t *zip;
    zip_file_t *stream; /* the entry that is being read, or NULL */
    zip_uint64_t index;
    uint64_t next; /* byte of the data that the stream gives next */
};

struct npz_matrix {
    struct npz *z;
    zip_uint64_t index;
    uint64_t n_values; /* of the entry */
    enum state_type type;
};

struct reading {
    struct npz *z;
    struct mg_parts m;
    zip_uint64_t n_entries;
    zip_uint64_t params; /* the entry that holds all parameters; n_entries: none */
    int in_order;        /* entries are arr_0, arr_1, ...: a list */
};

/* ---- values ------------------------------------------------------------------------------------ */

static void close_stream(struct npz *z)
{
    if (z->stream)
        zip_fclose(z->stream);
    z->stream = NULL;
}

static const char *entry_name(const struct npz *z, zip_uint64_t index)
{
    const char *name = zip_get_name(z->zip, index, 0);
    return name ? name : "?";
}

/* Brings the stream to a byte of the entry's data. */
static int seek(struct npz *z, zip_uint64_t index, uint64_t at, mgpt_error *err)
{
    uint8_t skipped[CHUNK];
    struct npy npy;
    if (z->stream && (z->index != index || at < z->next))
        close_stream(z);
    if (!z->stream) {
        z->stream = npz_open(z->zip, index, &npy, err);
        z->index = index;
        z->next = 0;
    }
    while (z->stream && z->next < at) {
        size_t n = at - z->next < CHUNK ? (size_t)(at - z->next) : CHUNK;
        if (npz_take(z->stream, skipped, n, entry_name(z, index), err) < 0)
            return npz_status(err);
        z->next += n;
    }
    return z->stream ? MGPT_OK : npz_status(err);
}

static void npz_model_decode(enum state_type type, const uint8_t *bytes, size_t n, float *out)
{
    const struct dtype *known = dtype_find(type == STATE_F16 ? DTYPE_F16 : DTYPE_F32);
    double wide;
    if (type != STATE_F64) {
        known->to_float(bytes, out, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(&wide, bytes + i * sizeof wide, sizeof wide);
        out[i] = (float)wide;
    }
}

/* n values from value `first` on. */
static int npz_model_read_values(const struct npz_matrix *s, uint64_t first, size_t n, float *out,
                                 mgpt_error *err)
{
    uint8_t bytes[CHUNK];
    size_t each = state_type_bytes(s->type);
    int status = seek(s->z, s->index, first * each, err);
    for (size_t done = 0; status == MGPT_OK && done < n;) {
        size_t run = n - done < CHUNK / each ? n - done : CHUNK / each;
        status = npz_take(s->z->stream, bytes, run * each, entry_name(s->z, s->index), err);
        if (status < 0)
            break;
        npz_model_decode(s->type, bytes, run, out + done);
        s->z->next += run * each;
        done += run;
    }
    return status;
}

static void npz_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const struct npz_matrix *s = t->source;
    mgpt_error *failed = &s->z->c->failed;
    memset(out, 0, n * sizeof *out);
    if (failed->status == 0 && npz_model_read_values(s, t->at + first, n, out, failed) == MGPT_OK &&
        t->at + first + n == s->n_values)
        npz_end(s->z->stream, entry_name(s->z, s->index), failed);
}

/* ---- entries ----------------------------------------------------------------------------------- */

/* The data of a small entry, in memory that lives as long as the checkpoint. */
static int hold(struct reading *r, zip_uint64_t index, struct span *bytes, mgpt_error *err)
{
    struct npy npy;
    zip_stat_t st;
    zip_file_t *stream = npz_open(r->z->zip, index, &npy, err);
    if (!stream)
        return npz_status(err);
    zip_stat_index(r->z->zip, index, 0, &st); /* npz_open has done so */
    uint64_t n = st.size - npy.header;
    int status = MGPT_OK;
    uint8_t *data = n <= MAX_HELD ? ckpt_alloc(r->z->c, (size_t)n, 1) : NULL;
    if (n > MAX_HELD)
        status = err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "npz entry %.60s: %llu bytes to hold",
                         st.name, (unsigned long long)n);
    else if (!data)
        status = err_memory(err, "an entry", (size_t)n);
    if (status == MGPT_OK)
        status = npz_take(stream, data, (size_t)n, st.name, err);
    if (status == MGPT_OK)
        status = npz_end(stream, st.name, err);
    zip_fclose(stream);
    *bytes = (struct span){data, (size_t)n};
    return status;
}

/* The header of an entry, and its key: the name without ".npy". 0: none of NumPy's. */
static int npz_model_describe(struct reading *r, zip_uint64_t index, char key[MAX_KEY],
                              struct npy *npy)
{
    const char *name = entry_name(r->z, index);
    size_t n = strlen(name), suffix = strlen(".npy");
    if (n <= suffix || n - suffix >= MAX_KEY || strcmp(name + n - suffix, ".npy") != 0) {
        ckpt_note(r->z->c, "ignored: %.60s (not a .npy array)", name);
        return 0;
    }
    memcpy(key, name, n - suffix);
    key[n - suffix] = 0;
    zip_file_t *stream = npz_open(r->z->zip, index, npy, r->m.err);
    if (!stream)
        return r->m.err->status;
    zip_fclose(stream);
    return 1;
}

static int add_stream(struct reading *r, const char *name, struct npz_matrix from, uint64_t at,
                      struct state_tensor t)
{
    struct npz_matrix *s = ckpt_alloc(r->z->c, 1, sizeof *s);
    if (!s)
        return err_memory(r->m.err, "a matrix", sizeof *s);
    *s = from;
    struct mg_matrix matrix = {.rows = t.n_dims == 2 ? t.shape[0] : 0,
                               .cols = t.shape[t.n_dims - 1],
                               .type = dtype_find(t.type == STATE_F16 ? DTYPE_F16 : DTYPE_F32),
                               .values = npz_values,
                               .source = s,
                               .at = at};
    return mg_add(&r->m, name, strlen(name), matrix);
}

static int add_matrix(struct reading *r, const char *name, zip_uint64_t index,
                      const struct npy *npy)
{
    enum state_type type;
    if (!npy_weights(npy, &type))
        return mg_refuse(&r->m, name, "element type '%s', expected <f4, <f8 or <f2", npy->descr);
    if (npy->n_dims < 1 || npy->n_dims > 2)
        return mg_refuse(&r->m, name, "%u dimensions, expected 1 or 2", npy->n_dims);
    struct state_tensor t = npy_tensor(npy, type);
    uint64_t n = npy->n_bytes / npy->width; /* npy_header has multiplied them */
    if (n == 0)
        return mg_refuse(&r->m, name, "it has no values");
    if (!npy->fortran || npy->n_dims == 1)
        return add_stream(r, name, (struct npz_matrix){r->z, index, n, type}, 0, t);
    t.name = name;
    int status = hold(r, index, &t.bytes, r->m.err);
    return status < 0 ? status : mg_add_tensor(&r->m, &t);
}

/* ---- facts ------------------------------------------------------------------------------------- */

/* An array of one number. */
static int npz_model_scalar(struct reading *r, zip_uint64_t index, const struct npy *npy, double *v)
{
    struct span data;
    uint64_t bits = 0;
    if (hold(r, index, &data, r->m.err) < 0)
        return r->m.err->status;
    if (npy->kind == 'f') {
        float value;
        enum state_type type;
        if (!npy_weights(npy, &type))
            return err_set(r->m.err, MGPT_EFILE, MGPT_NO_OFFSET, "npz: element type '%s'",
                           npy->descr);
        npz_model_decode(type, data.data, 1, &value);
        *v = (double)value;
        if (type == STATE_F64)
            memcpy(v, data.data, sizeof *v);
        return 1;
    }
    for (size_t i = 0; i < npy->width && i < 8; i++)
        bits |= (uint64_t)data.data[i] << (8 * i);
    int negative = npy->kind == 'i' && (bits >> (8 * npy->width - 1) & 1);
    *v = negative ? -1 : (double)bits; /* no fact is negative */
    return 1;
}

static int is_scalar(const struct npy *npy)
{
    uint64_t n = 1;
    for (unsigned i = 0; i < npy->n_dims; i++)
        n = npy->dims[i] == 1 ? n : 0;
    return n == 1 && npy->width >= 1 && npy->width <= 8 && strchr("fiub", npy->kind) != NULL;
}

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

/* An array of texts: each is an entry; a single text: each character is one. */
static int read_texts(struct reading *r, zip_uint64_t index, const struct npy *npy)
{
    struct span data;
    size_t each = npy->width / 4, n = 1;
    if (r->m.entries || each == 0)
        return MGPT_OK;
    if (hold(r, index, &data, r->m.err) < 0)
        return r->m.err->status;
    n = data.size / npy->width;
    if (npy->n_dims == 0) {
        n = each;
        each = 1;
    }
    char *text = ckpt_alloc(r->z->c, data.size + 1, 1);
    if (!text || !arr_reserve(r->m.entries, n + 1))
        return err_memory(r->m.err, "the vocabulary", n * sizeof *r->m.entries);
    for (size_t i = 0; i < n; i++) {
        struct gguf_str s = {text, to_utf8(data.data + i * each * 4, each, text)};
        text += s.n;
        if (npy->n_dims > 0 || s.n > 0)
            arr_put(r->m.entries, s);
    }
    return MGPT_OK;
}

/* A text of one array. */
static int npz_model_read_text(struct reading *r, const char *key, zip_uint64_t index,
                               const struct npy *npy)
{
    struct span data;
    int status = hold(r, index, &data, r->m.err);
    char *text = status < 0 ? NULL : ckpt_alloc(r->z->c, data.size + 1, 1);
    if (status == MGPT_OK && !text)
        return err_memory(r->m.err, "a text", data.size);
    if (status == MGPT_OK) {
        to_utf8(data.data, npy->width / 4, text);
        status = mg_take(&r->m, key, (struct mg_value){.kind = MG_TEXT, .text = text});
    }
    return status < 0 ? status : MGPT_OK;
}

static int read_objects(struct reading *r, const char *key, zip_uint64_t index)
{
    struct span data;
    struct pickle p;
    if (hold(r, index, &data, r->m.err) < 0 || pickle_read(&p, data, r->m.err) < 0)
        return r->m.err->status;
    int status = mg_add_pickled(&r->m, key, &p, npy_objects(&p), data.size);
    pickle_free(&p);
    return status;
}

/* ---- the archive ------------------------------------------------------------------------------- */

/* What an entry says about the model, and where the matrices are; these come when all is known. */
static int read_fact(struct reading *r, zip_uint64_t index)
{
    char key[MAX_KEY];
    struct npy npy;
    enum mg_size size = MG_VOCAB;
    double v;
    int status = npz_model_describe(r, index, key, &npy);
    if (status <= 0)
        return status;
    enum mg_kind kind = mg_kind_of(key, &size);
    if (npy.kind == 'O')
        return read_objects(r, key, index);
    if (kind == MG_VOCABULARY && npy.kind == 'U')
        return read_texts(r, index, &npy);
    if (npy.kind == 'U' && npy.n_dims == 0 && npy.width)
        return npz_model_read_text(r, key, index, &npy);
    if (kind == MG_WEIGHTS && npy.kind == 'f' && npy.n_dims == 1)
        r->params = index;
    if (!is_scalar(&npy) || kind == MG_OTHER || kind == MG_WEIGHTS)
        return MGPT_OK;
    if (npz_model_scalar(r, index, &npy, &v) < 0)
        return r->m.err->status;
    struct mg_value value = {.kind = npy.kind == 'b' ? MG_FLAG : MG_NUMBER, .number = v};
    status = mg_take(&r->m, key, value);
    return status < 0 ? status : MGPT_OK;
}

/* "norm" is a gain or the kind of the norms: the value tells. */
static int is_fact(const char *key, const struct npy *npy)
{
    enum mg_size size;
    uint32_t layer;
    int is_array = npy->kind == 'f' && npy->n_dims > 0 && mg_recognise(key, &layer) >= 0;
    return !is_array && mg_kind_of(key, &size) != MG_OTHER;
}

static int read_matrix(struct reading *r, zip_uint64_t index)
{
    char key[MAX_KEY];
    struct npy npy;
    size_t n_notes = arr_len(r->z->c->notes);
    int status = npz_model_describe(r, index, key, &npy);
    if (status == 0 && arr_len(r->z->c->notes) > n_notes)
        arr_set_len(r->z->c->notes, n_notes); /* the first pass has said so */
    if (status <= 0 || npy.kind == 'O' || is_fact(key, &npy))
        return status < 0 ? status : MGPT_OK;
    if (r->in_order)
        mg_name_in_order(&r->m, (size_t)index, (size_t)r->n_entries, key);
    else if (npy.kind != 'f' || npy.n_dims == 0) {
        ckpt_note(r->z->c, "ignored: %.60s (element type %s)", key, npy.descr);
        return MGPT_OK;
    }
    return add_matrix(r, key, index, &npy);
}

static int npz_model_add_cut(struct mg_parts *m, const char *name, const void *list, uint64_t at,
                             uint64_t rows, uint64_t cols)
{
    const struct npz_matrix *s = list;
    struct reading *r = (struct reading *)(void *)((char *)m - offsetof(struct reading, m));
    struct state_tensor t = {.type = s->type, .n_dims = 2, .shape = {rows, cols}};
    return add_stream(r, name, *s, at, t);
}

static int read_params(struct reading *r, zip_uint64_t index)
{
    struct npy npy;
    struct npz_matrix all = {r->z, index, 0, STATE_F32};
    zip_file_t *stream = npz_open(r->z->zip, index, &npy, r->m.err);
    if (!stream)
        return r->m.err->status;
    zip_fclose(stream);
    if (!npy_weights(&npy, &all.type) || npy.n_dims != 1)
        return err_set(r->m.err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "npz: one array of %u dimensions of '%s', expected all parameters in one "
                       "list",
                       npy.n_dims, npy.descr);
    all.n_values = npy.dims[0];
    return mg_add_params(&r->m, npy.dims[0], npz_model_add_cut, &all);
}

static int read_archive(struct reading *r)
{
    int status = MGPT_OK;
    if (r->n_entries > MAX_ENTRIES)
        return err_set(r->m.err, MGPT_EFILE, MGPT_NO_OFFSET, "npz: more than %d entries",
                       (int)MAX_ENTRIES);
    for (zip_uint64_t i = 0; status == MGPT_OK && i < r->n_entries; i++)
        status = read_fact(r, i);
    if (status < 0 || r->m.matrices) /* they were pickled */
        return status;
    r->in_order = r->n_entries > 1 && strcmp(entry_name(r->z, 0), "arr_0.npy") == 0;
    if (r->n_entries == 1 && strcmp(entry_name(r->z, 0), "arr_0.npy") == 0)
        r->params = 0;
    if (r->params < r->n_entries)
        return read_params(r, r->params);
    if (r->in_order)
        status = mg_check_order(&r->m, (size_t)r->n_entries);
    for (zip_uint64_t i = 0; status == MGPT_OK && i < r->n_entries; i++)
        status = read_matrix(r, i);
    return status;
}

static void npz_model_release(void *source)
{
    struct npz *z = source;
    close_stream(z);
    zip_discard(z->zip);
    free(z);
}

/* The name of the first entry stands behind the first header. */
enum ckpt_match npz_sniff(struct span bytes)
{
    if (bytes.size < 34 || memcmp(bytes.data, "PK\3\4", 4) != 0)
        return MATCH_NO;
    size_t n = bytes.data[26] | (size_t)bytes.data[27] << 8;
    if (n < 4 || n > bytes.size - 30 || memcmp(bytes.data + 30 + n - 4, ".npy", 4) != 0)
        return MATCH_NO;
    return MATCH_YES;
}

int npz_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct npz *z = calloc(1, sizeof *z);
    mgpt_error local; /* so that there always is one */
    if (!z)
        return err_memory(err, "the archive", sizeof *z);
    z->c = c;
    z->zip = npz_archive(in->bytes.data, in->bytes.size, &local);
    if (!z->zip) {
        free(z);
        if (err)
            *err = local;
        return local.status;
    }
    c->source = z;
    c->release = npz_model_release;
    c->format = "microgpt .npz";
    struct reading r = {.z = z, .n_entries = (zip_uint64_t)zip_get_num_entries(z->zip, 0)};
    r.params = r.n_entries;
    mg_parts_init(&r.m, c, in, &local);
    int status = mg_parts_build(&r.m, read_archive(&r));
    if (status < 0 && err)
        *err = local;
    return status;
}
