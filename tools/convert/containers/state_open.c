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

static void close_safetensors(void *st)
{
    st_free(st);
}

const struct safetensors *state_add_safetensors(struct state *s, struct span bytes)
{
    struct safetensors *st = ckpt_new(s->c, 1, sizeof *st);
    ckpt_must(s->c, st_parse(st, bytes, s->c->err));
    ckpt_own(s->c, st, close_safetensors);
    for (size_t i = 0; i < arr_len(st->tensors); i++) {
        const struct st_tensor *from = &st->tensors[i];
        state_add(s, from->name, strlen(from->name), state_of_safetensors(from));
    }
    return st;
}

void state_add_arrays(struct state *s, const struct npz_member *arrays)
{
    for (size_t i = 0; i < arr_len(arrays); i++)
        state_add(s, arrays[i].name, strlen(arrays[i].name),
                  npy_tensor(&arrays[i].npy, arrays[i].data));
}

void state_open(struct state *s, struct span bytes)
{
    static const char pointer[] = "version https://git-lfs";
    if (bytes.size >= sizeof pointer && memcmp(bytes.data, pointer, sizeof pointer - 1) == 0)
        ckpt_stop_at(s->c, 0, "a pointer of Git LFS, not the file itself: git lfs pull brings it");
    if (npz_begins(bytes)) {
        state_add_arrays(s, npz_arrays(s->c, bytes));
    } else if (!st_sniff(bytes) && torch_sniff(bytes)) {
        const struct torch_file *f = torch_owned(s->c, bytes);
        torch_state(f, f->pickle.root, s);
    } else {
        state_add_safetensors(s, bytes);
    }
}
