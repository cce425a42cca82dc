/* References in .safetensors. The structure is checked by the reader that checkpoints use; only the
 * header is kept in memory. */
#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"
#include "check/reference/reference_impl.h"
#include "convert/containers/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* The element type, in terms of struct ref_array; 0 for those that hold neither logits nor ids. */
static int element(const char *dtype, struct ref_array *a)
{
    static const struct {
        const char *name;
        char kind;
        unsigned width;
    } known[] = {{"F16", 'f', 2}, {"BF16", 'B', 2}, {"F32", 'f', 4},
                 {"F64", 'f', 8}, {"I32", 'i', 4},  {"I64", 'i', 8}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, dtype) == 0) {
            a->npy.kind = known[i].kind;
            a->npy.width = known[i].width;
            return 1;
        }
    return 0;
}

static int reference_st_add_tensor(struct reference *ref, struct ref_named *named,
                                   const struct st_tensor *t, mgpt_error *err)
{
    struct ref_array a = {.entry = -1, .offset = (uint64_t)(t->data - ref->file.data)};
    if (!ref_name_known(t->name))
        return MGPT_OK;
    if (!element(t->dtype, &a))
        return err_set(err, MGPT_EFILE, a.offset, "%.60s: %s, expected F32 F16 BF16 F64 I32 I64",
                       t->name, t->dtype);
    if (t->n_dims > NPY_MAX_DIMS)
        return err_set(err, MGPT_EFILE, a.offset, "%.60s: %u dimensions, expected at most %d",
                       t->name, t->n_dims, (int)NPY_MAX_DIMS);
    a.npy.n_dims = t->n_dims;
    memcpy(a.npy.dims, t->dims, sizeof a.npy.dims);
    a.npy.n_bytes = t->end - t->begin;
    a.name = strdup(t->name);
    return a.name ? ref_named_add(named, &a, err) : err_memory(err, "a name", strlen(t->name));
}

int reference_is_st(const struct reference *ref)
{
    return st_sniff((struct span){ref->file.data, ref->file.size});
}

int reference_st_open(struct reference *ref, mgpt_error *err)
{
    struct ref_named named = {0};
    struct safetensors st;
    struct cursor c = cursor_over(ref->file.data, ref->file.size);
    uint64_t n = cursor_u64(&c);
    int status = MGPT_OK;
    if (n <= cursor_left(&c)) /* else st_parse says it */
        status = file_load(&ref->file, 0, c.pos + (size_t)n, err);
    if (status == MGPT_OK)
        status = st_parse(&st, (struct span){ref->file.data, ref->file.size}, err);
    if (status < 0)
        return status;
    for (size_t i = 0; i < arr_len(st.tensors) && status == MGPT_OK; i++)
        status = reference_st_add_tensor(ref, &named, &st.tensors[i], err);
    st_free(&st);
    if (status == MGPT_OK)
        return ref_named_use(ref, &named, err);
    ref_named_free(&named);
    return status;
}
