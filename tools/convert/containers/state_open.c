/* Named tensors out of any container. See state_open.h. */
#include "convert/containers/state_open.h"

#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/torch.h"

#include <string.h>

struct state_tensor state_of_safetensors(const struct st_tensor *from)
{
    struct state_tensor t = {.type = STATE_F32,
                             .n_dims = from->n_dims,
                             .bytes = {from->data, (size_t)(from->end - from->begin)}};
    while (t.type < STATE_OTHER && strcmp(state_type_name(t.type), from->dtype) != 0)
        t.type++;
    memcpy(t.shape, from->dims, sizeof t.shape);
    state_contiguous(&t);
    return t;
}

int state_add_safetensors(struct state *s, const struct safetensors *st, mgpt_error *err)
{
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < arr_len(st->tensors); i++) {
        const struct st_tensor *from = &st->tensors[i];
        status = state_add(s, from->name, strlen(from->name), state_of_safetensors(from), err);
    }
    return status;
}

int state_add_arrays(struct state *s, const struct npz_member *arrays, mgpt_error *err)
{
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < arr_len(arrays); i++) {
        const char *name = arrays[i].name;
        struct state_tensor t = npy_tensor(&arrays[i].npy, arrays[i].data);
        status = state_add(s, name, strlen(name), t, err);
    }
    return status;
}

static int open_safetensors(struct state *s, struct span bytes, mgpt_error *err)
{
    struct safetensors st;
    int status = st_parse(&st, bytes, err);
    if (status == MGPT_OK)
        status = state_add_safetensors(s, &st, err);
    st_free(&st);
    return status;
}

static int open_torch(struct state *s, struct span bytes, mgpt_error *err)
{
    struct torch_file f;
    int status = torch_open(&f, bytes, err);
    if (status < 0)
        return status;
    status = torch_state(&f, f.pickle.root, s, err);
    torch_close(&f);
    return status;
}

static int open_npz(struct state *s, struct span bytes, mgpt_error *err)
{
    struct npz_member *arrays = NULL;
    int status = npz_arrays(s->c, bytes, &arrays, err);
    if (status == MGPT_OK)
        status = state_add_arrays(s, arrays, err);
    arr_free(arrays);
    return status;
}

int state_open(struct state *s, struct span bytes, mgpt_error *err)
{
    static const char pointer[] = "version https://git-lfs";
    if (bytes.size >= sizeof pointer && memcmp(bytes.data, pointer, sizeof pointer - 1) == 0)
        return err_set(err, MGPT_EFILE, 0,
                       "a pointer of Git LFS, not the file itself: git lfs pull brings it");
    if (npz_begins(bytes))
        return open_npz(s, bytes, err);
    if (!st_sniff(bytes) && torch_sniff(bytes))
        return open_torch(s, bytes, err);
    return open_safetensors(s, bytes, err);
}
