/* NumPy's arrays as named tensors. See npy_state.h. */
#include "convert/containers/npy_state.h"

#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/zip_dir.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 200 };

enum state_type npy_type(const struct npy *npy)
{
    if (npy->kind == 'V' && npy->width == 2)
        return STATE_BF16;
    if (npy->kind != 'f')
        return STATE_OTHER;
    return npy->width == 2   ? STATE_F16
           : npy->width == 4 ? STATE_F32
           : npy->width == 8 ? STATE_F64
                             : STATE_OTHER;
}

struct state_tensor npy_tensor(const struct npy *npy, struct span data)
{
    struct state_tensor t = {
        .name = "", .type = npy_type(npy), .n_dims = npy->n_dims, .bytes = data};
    uint64_t stride = 1;
    for (unsigned i = 0; i < npy->n_dims; i++)
        t.shape[i] = npy->dims[i];
    state_contiguous(&t);
    for (unsigned i = 0; npy->fortran && i < npy->n_dims; i++) {
        t.strides[i] = stride;
        stride *= t.shape[i]; /* npy_header has multiplied them in this order */
    }
    return t;
}

/* ---- archives -------------------------------------------------------------------------------- */

/* The name of the first member follows its header. */
int npz_begins(struct span bytes)
{
    if (bytes.size < 34 || memcmp(bytes.data, "PK\3\4", 4) != 0)
        return 0;
    size_t n = bytes.data[26] | (size_t)bytes.data[27] << 8;
    return n >= 4 && n <= bytes.size - 30 && memcmp(bytes.data + 30 + n - 4, ".npy", 4) == 0;
}

static int by_place(const void *a, const void *b)
{
    const struct zip_member *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The arrays of one archive. */
struct npz_reading {
    struct checkpoint *c;
    struct zip_dir zip;
    struct npz_member *arrays;
};

static void close_archive(void *arg)
{
    struct npz_reading *r = arg;
    zip_dir_close(&r->zip);
    arr_free(r->arrays);
}

/* Objects are a pickle of any length. */
static void npz_add_member(struct npz_reading *r, struct zip_member *m)
{
    struct npz_member a;
    size_t n = m->n_name, suffix = strlen(".npy");
    if (n <= suffix || n - suffix >= MAX_NAME || memchr(m->name, 0, n) ||
        memcmp(m->name + n - suffix, ".npy", suffix) != 0) {
        ckpt_note(r->c, "ignored: %.*s (not a .npy array)", CKPT_CLIP(m->name, n));
        return;
    }
    ckpt_must(r->c, zip_dir_read(m, r->c, &a.data, r->c->err));
    a.name = ckpt_copy(r->c, m->name, n - suffix);
    ckpt_within(r->c, a.name);
    ckpt_must(r->c, npy_header(&a.npy, a.data.data, a.data.size, r->c->err));
    a.data.data += a.npy.header;
    a.data.size -= a.npy.header;
    if (a.npy.kind != 'O' && a.npy.n_bytes != a.data.size)
        ckpt_stop(r->c, "the header says %llu bytes of data, %zu are there",
                  (unsigned long long)a.npy.n_bytes, a.data.size);
    ckpt_within(r->c, NULL);
    ckpt_push(r->c, r->arrays, a);
}

const struct npz_member *npz_arrays(struct checkpoint *c, struct span bytes)
{
    struct npz_reading *r = ckpt_new(c, 1, sizeof *r);
    r->c = c;
    ckpt_own(c, r, close_archive);
    ckpt_must(c, zip_dir_open(&r->zip, bytes, c->err));
    qsort(r->zip.members, arr_len(r->zip.members), sizeof *r->zip.members, by_place);
    for (size_t i = 0; i < arr_len(r->zip.members); i++)
        npz_add_member(r, &r->zip.members[i]);
    return r->arrays;
}
