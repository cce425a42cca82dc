/* What pack.c and packing.c share: the first packs a unit, the second runs all of packing. */
#ifndef MGPT_PACK_H
#define MGPT_PACK_H

#include "model/model.h"

enum {
    PACK_UNIT_BYTES = 1 << 19 /* bytes of panels that a worker takes at a time */
};

struct plan {
    struct linear *l;
    const struct gguf_tensor *t;
    size_t stage;
    size_t row; /* l's first row in the tensor */
    size_t at;  /* byte offset in the block of all panels */
    char *to;   /* address in the block, set by place_matrices */
    void *own;  /* the block of a matrix that was packed again */
    size_t unit_panels, first_unit, n_units;
    atomic_int misfit; /* 1: l's type does not hold all values */
};

/* Buffers of a worker. */
struct pack_buffers {
    uint8_t *source; /* a unit of the file */
    float *floats;   /* rows of a panel */
    uint8_t *rows;   /* these rows in another type */
    uint8_t *panel;  /* a packed panel before it is compressed */
    char *packed;    /* a compressed panel, while types are chosen */
};

struct packing {
    mgpt_model *m;
    int n_threads;                 /* as asked for; 0: chosen */
    struct pool *pool;             /* NULL: one thread */
    struct background *background; /* NULL: mgpt_open packs */
    size_t n_units, source_bytes;  /* source_bytes, panel_values: the largest of any unit, of any */
    size_t panel_values;           /* panel that is converted */
    uint8_t *memory;               /* of all workers' buffers */
    char *block;                   /* of all panels */
    atomic_size_t next;
    atomic_size_t *left; /* [stages] units that are not packed, and 1 until all fit their types */
    atomic_int failed;   /* 1: workers stop */
    atomic_int has_err;
    mgpt_error err; /* of the worker that failed first */
};

/* Packs a unit of a plan in a worker's buffers. Sets plan->misfit if the matrix's type does not hold all
 * values. 0 with *err: the file cannot be read. */
int pack_unit(const struct packing *job, struct plan *plan, size_t unit, int worker,
              mgpt_error *err);

/* Marks the job as failed, with the error of the worker that was first. */
void pack_fail(struct packing *job, const mgpt_error *err);

/* 1 if the matrix may be packed in a smaller type. pack_choose, a pool_fn, looks for the smallest. */
int pack_has_choice(const struct plan *plan);
void pack_choose(void *job, int worker, int n_workers);

/* Packs a matrix that does not fit its type again, in the next one that it fits. */
void pack_again(struct packing *job, struct plan *plan, int worker);

/* Bytes of a row in the file, and of a worker's buffers. */
size_t pack_row_bytes(const struct gguf_tensor *t);
size_t pack_worker_bytes(const struct packing *job);

#endif
