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

/* Objects are a pickle of any length. */
static int check_member_size(const struct npz_member *a, mgpt_error *err)
{
    if (a->npy.kind == 'O' || a->npy.n_bytes == a->data.size)
        return MGPT_OK;
    return ckpt_refuse(err, "%.*s: the header says %llu bytes of data, %zu are there",
                       CKPT_CLIP(a->name, strlen(a->name)), (unsigned long long)a->npy.n_bytes,
                       a->data.size);
}

static int npz_add_member(struct checkpoint *c, struct zip_member *m, struct npz_member **arrays,
                          mgpt_error *err)
{
    struct npz_member a;
    size_t n = m->n_name, suffix = strlen(".npy");
    mgpt_error why = {0};
    if (n <= suffix || n - suffix >= MAX_NAME || memchr(m->name, 0, n) ||
        memcmp(m->name + n - suffix, ".npy", suffix) != 0) {
        ckpt_note(c, "ignored: %.*s (not a .npy array)", CKPT_CLIP(m->name, n));
        return MGPT_OK;
    }
    int status = zip_dir_read(m, c, &a.data, err);
    if (status < 0)
        return status;
    a.name = ckpt_text(c, m->name, n - suffix);
    if (!a.name)
        return err_memory(err, "a name", n);
    status = npy_header(&a.npy, a.data.data, a.data.size, &why);
    if (status < 0)
        return err_set(err, status, MGPT_NO_OFFSET, "%.*s: %s", CKPT_CLIP(m->name, n), why.text);
    a.data.data += a.npy.header;
    a.data.size -= a.npy.header;
    status = check_member_size(&a, err);
    if (status == MGPT_OK && !arr_push(*arrays, a))
        return err_memory(err, "the arrays", sizeof a);
    return status;
}

int npz_arrays(struct checkpoint *c, struct span bytes, struct npz_member **arrays, mgpt_error *err)
{
    struct zip_dir z;
    int status = zip_dir_open(&z, bytes, err);
    if (status < 0)
        return status;
    qsort(z.members, arr_len(z.members), sizeof *z.members, by_place);
    for (size_t i = 0; status == MGPT_OK && i < arr_len(z.members); i++)
        status = npz_add_member(c, &z.members[i], arrays, err);
    zip_dir_close(&z);
    return status;
}
