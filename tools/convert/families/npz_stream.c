/* Entries of an .npz archive, stored or deflated, as streams. See npy_model.h.
 *
 * The writer asks for values in order, so one open stream at a time is enough. A stream that breaks
 * while it is read fails the conversion through c->failed.
 */
#include "base/error.h"
#include "convert/families/npy_model.h"

#include <string.h>

enum { CHUNK = 8192 /* bytes */ };

#define MAX_HELD ((uint64_t)256 << 20) /* bytes of an entry that is held in memory */

struct npz_matrix {
    struct npz_stream *z;
    zip_uint64_t index;
    uint64_t n_values; /* of the entry */
    enum state_type type;
};

/* ---- values ---------------------------------------------------------------------------------- */

void npz_close(struct npz_stream *z)
{
    if (z->open)
        zip_fclose(z->open);
    z->open = NULL;
}

const char *npz_entry_name(const struct npz_stream *z, zip_uint64_t index)
{
    const char *name = zip_get_name(z->zip, index, 0);
    return name ? name : "?";
}

/* Brings the stream to a byte of the entry's data. */
static int seek(struct npz_stream *z, zip_uint64_t index, uint64_t at, mgpt_error *err)
{
    uint8_t skipped[CHUNK];
    struct npy npy;
    if (z->open && (z->index != index || at < z->next))
        npz_close(z);
    if (!z->open) {
        z->open = npz_open(z->zip, index, &npy, err);
        z->index = index;
        z->next = 0;
    }
    while (z->open && z->next < at) {
        size_t n = at - z->next < CHUNK ? (size_t)(at - z->next) : CHUNK;
        if (npz_take(z->open, skipped, n, npz_entry_name(z, index), err) < 0)
            return err->status;
        z->next += n;
    }
    return z->open ? MGPT_OK : err->status;
}

void npz_decode(enum state_type type, const uint8_t *bytes, size_t n, float *out)
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
        status = npz_take(s->z->open, bytes, run * each, npz_entry_name(s->z, s->index), err);
        if (status < 0)
            break;
        npz_decode(s->type, bytes, run, out + done);
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
        npz_end(s->z->open, npz_entry_name(s->z, s->index), failed);
}

/* The data of a small entry, in memory that lives as long as the checkpoint. */
int npz_hold(struct npz_stream *z, zip_uint64_t index, struct span *bytes, mgpt_error *err)
{
    struct npy npy;
    zip_stat_t st;
    zip_file_t *stream = npz_open(z->zip, index, &npy, err);
    if (!stream)
        return err->status;
    zip_stat_index(z->zip, index, 0, &st); /* npz_open has done so */
    uint64_t n = st.size - npy.header;
    int status = MGPT_OK;
    uint8_t *data = n <= MAX_HELD ? ckpt_alloc(z->c, (size_t)n, 1) : NULL;
    if (n > MAX_HELD)
        status =
            ckpt_refuse(err, "npz entry %.60s: %llu bytes to hold", st.name, (unsigned long long)n);
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

int npz_add(struct npz_stream *z, struct mg_parts *m, const char *name, zip_uint64_t index,
            const struct state_tensor *t)
{
    struct npz_matrix *s = ckpt_alloc(z->c, 1, sizeof *s);
    if (!s)
        return err_memory(m->err, "a matrix", sizeof *s);
    struct mg_matrix matrix = {.rows = t->n_dims == 2 ? t->shape[0] : 0,
                               .cols = t->shape[t->n_dims - 1],
                               .type = dtype_find(t->type == STATE_F16 ? DTYPE_F16 : DTYPE_F32),
                               .values = npz_values,
                               .source = s};
    *s = (struct npz_matrix){z, index, matrix.cols * (matrix.rows ? matrix.rows : 1), t->type};
    return mg_add(m, name, strlen(name), matrix);
}
