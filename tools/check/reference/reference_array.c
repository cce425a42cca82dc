/* Arrays of references: numbers stored in the file itself or in an entry of a zip archive
 * (reference_npz.c). They are read through a small buffer: an array of any size takes the same memory.
 */
#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"
#include "check/reference/reference_impl.h"

#include <stdlib.h>
#include <string.h>

int reference_bytes(const struct reference *ref, uint64_t offset, size_t n, void *to,
                    mgpt_error *err)
{
    if (ref->file.partly)
        return file_read(&ref->file, offset, n, to, err);
    memcpy(to, ref->file.data + offset, n);
    return MGPT_OK;
}

void ref_array_close(struct ref_array *a)
{
    reference_entry_close(a);
    free(a->name);
    arr_free(a->parts);
    *a = (struct ref_array){0};
}

/* ---- elements ---- */

int reference_npy_type(struct npy *npy, mgpt_error *err)
{
    static const char more[][4] = {"<V2", "|V2", "<i2", "|u1", "<u2", "<u4", "<u8"};
    for (size_t i = 0; i < sizeof more / sizeof *more && !npy->fortran; i++)
        if (strcmp(npy->descr, more[i]) == 0) {
            npy->kind = npy->kind == 'V' ? 'B' : npy->kind;
            return MGPT_OK;
        }
    return npy_plain(npy, err);
}

static int array_bytes(struct reference *ref, struct ref_array *a, uint64_t at, size_t n, void *to,
                       mgpt_error *err)
{
    return !a->member ? reference_bytes(ref, a->offset + at, n, to, err)
                      : reference_entry_bytes(a, at, n, to, err);
}

static int64_t integer(const struct ref_array *a, const uint8_t *bytes, size_t i)
{
    struct cursor c = cursor_over(bytes + i * a->npy.width, a->npy.width);
    const unsigned shift = 64 - 8 * a->npy.width;
    uint64_t bits = cursor_uint(&c, a->npy.width) << shift;
    int64_t wide;
    memcpy(&wide, &bits, sizeof wide);
    if (a->npy.kind == 'u' && shift > 0)
        return (int64_t)(bits >> shift);
    return shift > 0 ? wide / (INT64_C(1) << shift) : wide;
}

static double real(const struct ref_array *a, const uint8_t *bytes, size_t i)
{
    if (a->npy.kind == 'f')
        return npy_real(&a->npy, bytes, i);
    if (a->npy.kind == 'u')
        return (double)integer(a, bytes, i);
    uint32_t bits = ((uint32_t)bytes[2 * i] | (uint32_t)bytes[2 * i + 1] << 8) << 16;
    float single;
    memcpy(&single, &bits, sizeof single);
    return (double)single;
}

/* Where element `first` is, and how many of n follow it without a gap. */
static uint64_t strided_place(const struct ref_array *a, uint64_t first, size_t *n)
{
    uint64_t at = 0;
    if (!a->strided)
        return first;
    for (unsigned d = a->npy.n_dims; d > 0; d--) {
        uint64_t size = a->npy.dims[d - 1], stride = a->strides[d - 1], i = first % size;
        uint64_t run = stride == 1 ? size - i : 1;
        at += i * stride;
        if (d == a->npy.n_dims && *n > run)
            *n = (size_t)run;
        first /= size;
    }
    return at;
}

int ref_array_reals(struct reference *ref, struct ref_array *a, uint64_t first, size_t n,
                    double *out, mgpt_error *err)
{
    uint8_t bytes[REF_PIECE];
    const size_t width = a->npy.width, most = sizeof bytes / width;
    for (size_t done = 0; done < n;) {
        size_t some = n - done < most ? n - done : most;
        uint64_t at = strided_place(a, first + done, &some);
        int status = array_bytes(ref, a, at * width, some * width, bytes, err);
        if (status < 0)
            return status;
        for (size_t i = 0; i < some; i++)
            out[done + i] = real(a, bytes, i);
        done += some;
    }
    return MGPT_OK;
}

int reference_array_row(struct reference *ref, size_t i, size_t row, double *out, mgpt_error *err)
{
    uint64_t first = (uint64_t)(ref->items[i].first_row + row) * ref->n_vocab;
    if (ref->logits.parts)
        return ref_array_reals(ref, &ref->logits.parts[row], 0, ref->n_vocab, out, err);
    return ref_array_reals(ref, &ref->logits, first, ref->n_vocab, out, err);
}

int ref_array_ids(struct reference *ref, struct ref_array *a, struct ref_item *item,
                  mgpt_error *err)
{
    uint8_t bytes[REF_PIECE];
    const struct npy *npy = &a->npy;
    const size_t width = npy->width, most = sizeof bytes / width;
    char shape[160];
    if ((npy->kind != 'i' && npy->kind != 'u') || npy->n_dims < 1 || npy->n_dims > 2 ||
        (npy->n_dims == 2 && npy->dims[0] != 1))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "%s of %s, expected a list of integers for one text",
                       reference_shape_text(a, shape, sizeof shape),
                       ref_array_is_real(a) ? "floats" : "integers");
    const uint64_t n = npy->dims[npy->n_dims - 1];
    for (uint64_t done = 0; done < n;) {
        size_t some = n - done < most ? (size_t)(n - done) : most;
        uint64_t at = strided_place(a, done, &some);
        int status = array_bytes(ref, a, at * width, some * width, bytes, err);
        for (size_t i = 0; i < some && status == MGPT_OK; i++)
            status = reference_add_id(ref, item, integer(a, bytes, i), err);
        if (status < 0)
            return status;
        done += some;
    }
    return MGPT_OK;
}

/* ---- inner values ---- */

enum { CACHE = 64 << 20 };

/* A deflated entry of moderate size is inflated once and kept until another one is read: attention
 * is read by query, which walks through the heads again and again. */
static const uint8_t *cached(struct reference *ref, size_t i)
{
    struct ref_array *a = &ref->hooks[i];
    if (!a->deflated || a->npy.n_bytes > CACHE)
        return NULL;
    if (ref->cache && ref->cached == i)
        return ref->cache;
    free(ref->cache);
    ref->cached = i;
    ref->cache = malloc((size_t)a->npy.n_bytes + 1);
    if (ref->cache &&
        reference_entry_bytes(a, 0, (size_t)a->npy.n_bytes, ref->cache, NULL) == MGPT_OK)
        return ref->cache;
    free(ref->cache); /* reading without the cache returns the error */
    ref->cache = NULL;
    return NULL;
}

int reference_hook_rows(struct reference *ref, size_t i, size_t first, size_t n, double *out,
                        mgpt_error *err)
{
    if (i >= arr_len(ref->hooks) || first > ref->hooks[i].rows || n > ref->hooks[i].rows - first)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "the reference has no such rows");
    struct ref_array *a = &ref->hooks[i];
    const uint8_t *bytes = cached(ref, i);
    if (!bytes)
        return ref_array_reals(ref, a, (uint64_t)first * a->cols, n * a->cols, out, err);
    for (size_t k = 0; k < n * a->cols; k++)
        out[k] = real(a, bytes, first * a->cols + k);
    return MGPT_OK;
}

size_t reference_n_hooks(const struct reference *ref)
{
    return arr_len(ref->hooks);
}

int reference_hook(const struct reference *ref, size_t i, struct ref_hook *out)
{
    if (i >= arr_len(ref->hooks))
        return MGPT_EARG;
    const struct ref_array *a = &ref->hooks[i];
    *out = (struct ref_hook){a->name, a->point, a->layer, a->rows, a->cols};
    return MGPT_OK;
}
