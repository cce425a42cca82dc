/* References in .safetensors. The structure is checked by the reader that checkpoints use; only the
 * header is kept in memory. */
#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"
#include "check/reference/reference_impl.h"
#include "convert/containers/state_open.h"

#include <stdlib.h>
#include <string.h>

static int reference_st_add_tensor(struct reference *ref, struct ref_named *named,
                                   const struct st_tensor *t, mgpt_error *err)
{
    struct state_tensor tensor = state_of_safetensors(t);
    struct ref_array a;
    if (!ref_name_known(t->name))
        return MGPT_OK;
    if (tensor.type == STATE_OTHER)
        return ckpt_refuse(err, "%.60s: %s, expected F32 F16 BF16 F64 I32 I64", t->name, t->dtype);
    int status = ref_array_of(ref, t->name, &tensor, &a, err);
    if (status < 0)
        return status;
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
