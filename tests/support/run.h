/* Tests: functions of the converter whose faults leave a run (checkpoint.h), as functions with a status. */
#ifndef TESTS_RUN_H
#define TESTS_RUN_H

#include "base/mem.h"
#include "convert/containers/npy_state.h"
#include "convert/containers/torch.h"
#include "convert/vocab/hf_tokenizer.h"

struct run_call {
    struct checkpoint *c;
    struct state *s;
    const char *name; /* state_add, else NULL */
    const struct state_tensor *t;
    const struct torch_file *file; /* torch_state of the root, else NULL */
    const struct ckpt_input *in;   /* read, or without one the tokenizer for n_rows, else NULL */
    ckpt_read_fn *read;
    uint64_t n_rows;
};

static inline void run_step(void *arg)
{
    const struct run_call *r = arg;
    if (r->read)
        r->read(r->c, r->in);
    else if (r->in)
        hf_tokenizer_read(r->c, r->in, r->n_rows);
    else if (r->file)
        torch_state(r->file, r->file->pickle.root, r->s);
    else if (r->name)
        state_add(r->s, r->name, strlen(r->name), *r->t);
    else
        state_seal(r->s);
}

static inline int run_read(ckpt_read_fn *read, struct checkpoint *c, const struct ckpt_input *in,
                           mgpt_error *err)
{
    return ckpt_run(c, run_step, &(struct run_call){.c = c, .in = in, .read = read}, err);
}

static inline int run_tokenizer(struct checkpoint *c, const struct ckpt_input *in, uint64_t n_rows,
                                mgpt_error *err)
{
    return ckpt_run(c, run_step, &(struct run_call){.c = c, .in = in, .n_rows = n_rows}, err);
}

static inline int run_torch_state(const struct torch_file *file, struct state *s, mgpt_error *err)
{
    return ckpt_run(s->c, run_step, &(struct run_call){.file = file, .s = s}, err);
}

static inline int run_add(struct state *s, const char *name, struct state_tensor t, mgpt_error *err)
{
    return ckpt_run(s->c, run_step, &(struct run_call){.s = s, .name = name, .t = &t}, err);
}

/* The arrays of an archive, which the caller frees; names and data live as long as c. */
struct run_npz {
    struct checkpoint *c;
    struct span bytes;
    struct npz_member *arrays;
};

static inline void npz_step(void *arg)
{
    struct run_npz *r = arg;
    const struct npz_member *arrays = npz_arrays(r->c, r->bytes);
    for (size_t i = 0; i < arr_len(arrays); i++)
        ckpt_push(r->c, r->arrays, arrays[i]);
}

static inline int run_npz(struct checkpoint *c, struct span bytes, struct npz_member **arrays,
                          mgpt_error *err)
{
    struct run_npz r = {.c = c, .bytes = bytes};
    int status = ckpt_run(c, npz_step, &r, err);
    *arrays = r.arrays;
    return status;
}

static inline int run_seal(struct state *s, mgpt_error *err)
{
    return ckpt_run(s->c, run_step, &(struct run_call){.s = s}, err);
}

#endif
