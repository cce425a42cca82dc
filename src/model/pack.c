/* Packing: converts matrices to panels (kernels.h), in parallel.
 *
 * Binding plans which rows of which tensor become which matrix. After everything in the file has
 * been checked, model_pack allocates one block for all panels. Workers take units of some hundred
 * KiB, in file order. A worker reads a unit into its own buffer, or drops the unit's pages of a
 * mapped file afterwards. So opening needs about the file's size in memory, not twice that.
 * Embedding tables stay in place; their rows are looked up. Panels do not depend on the worker that
 * packed them.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/threads.h"
#include "model/model.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    UNIT_BYTES = 1 << 19,   /* bytes of panels that a worker takes at a time */
    THREADS_FROM = 4 << 20, /* bytes to pack; below that one thread does it */
    LINE = 64               /* alignment of a matrix */
};

struct plan {
    struct linear *l;
    const struct gguf_tensor *t;
    size_t row; /* l's first row in the tensor */
    size_t at;  /* byte offset in the block of all panels */
    char *to;   /* address in the block, set by place_matrices */
    size_t unit_panels, first_unit, n_units;
};

/* Types without a kernel are unpacked to F32. */
enum weight_type pack_type(const mgpt_model *m, const struct gguf_tensor *t)
{
    enum weight_type type = t->type->weight;
    return m->kernels.matmul[type] ? type : WEIGHT_F32;
}

int pack_plan(mgpt_model *m, struct linear *l, const struct gguf_tensor *t, size_t row,
              size_t n_out, mgpt_error *err)
{
    uint64_t end;
    size_t bytes;
    l->type = pack_type(m, t);
    l->n_in = (size_t)t->dims[0];
    l->n_out = n_out;
    l->panel_bytes = kernels_panel_bytes(l->type, l->n_in);
    if (!ck_bytes(panels_of(n_out), l->panel_bytes, &bytes) ||
        !ck_add(m->packed_end, bytes, &end) || !ck_align(end, LINE, &end))
        return err_memory(err, t->name, SIZE_MAX);
    struct plan plan = {.l = l, .t = t, .row = row, .at = (size_t)m->packed_end};
    if (!arr_push(m->plans, plan))
        return err_memory(err, "a plan", sizeof plan);
    if (weight_is_integer(l->type) && kernels_x_bytes(l->type, l->n_in) > m->x_bytes)
        m->x_bytes = kernels_x_bytes(l->type, l->n_in);
    m->packed_end = end;
    m->packed_bytes += bytes;
    return MGPT_OK;
}

struct packing {
    const mgpt_model *m;
    size_t n_units, row_floats,
        source_bytes; /* row_floats, source_bytes: the largest of any unit */
    float
        *rows; /* [n_workers][row_floats]: a panel's rows in float32, for types without a kernel */
    uint8_t *source; /* [n_workers][source_bytes]: a unit of the file */
    atomic_size_t next;
    atomic_int failed;
    mgpt_error err; /* of the worker that failed first */
};

static int unpacks(const struct plan *plan)
{
    return plan->l->type == WEIGHT_F32 && plan->t->type->id != DTYPE_F32;
}

static size_t row_bytes_of(const struct gguf_tensor *t)
{
    return (size_t)t->dims[0] / t->type->block * t->type->block_bytes;
}

/* Packs n_out rows of a type without a kernel as float32. */
static void pack_unpacked(const struct packing *job, const struct plan *plan, char *to,
                          const uint8_t *src, size_t n_out, float *rows)
{
    const struct linear *l = plan->l;
    size_t row_bytes = row_bytes_of(plan->t);
    for (size_t r = 0; r < n_out; r += PANEL, to += l->panel_bytes) {
        size_t n = n_out - r < PANEL ? n_out - r : PANEL;
        for (size_t i = 0; i < n; i++)
            plan->t->type->to_float(src + (r + i) * row_bytes, rows + i * l->n_in, l->n_in);
        job->m->kernels.pack[WEIGHT_F32](to, rows, l->n_in, n, 0, 1);
    }
}

static int pack_unit(const struct packing *job, const struct plan *plan, size_t unit, int worker,
                     mgpt_error *err)
{
    const mgpt_model *m = job->m;
    const struct linear *l = plan->l;
    size_t panels = panels_of(l->n_out), p0 = unit * plan->unit_panels;
    size_t p1 = p0 + plan->unit_panels < panels ? p0 + plan->unit_panels : panels;
    size_t r0 = p0 * PANEL, n = (p1 * PANEL < l->n_out ? p1 * PANEL : l->n_out) - r0;
    size_t row_bytes = row_bytes_of(plan->t), at = (plan->row + r0) * row_bytes;
    const uint8_t *src = plan->t->data + at;
    char *to = plan->to + p0 * l->panel_bytes;
    int is_table = plan->t == m->token_embd; /* already loaded; stays */
    if (m->file.partly && !is_table) {
        uint8_t *buffer = job->source + (size_t)worker * job->source_bytes;
        if (file_read(&m->file, plan->t->offset + at, n * row_bytes, buffer, err) < 0)
            return 0;
        src = buffer;
    }
    if (unpacks(plan))
        pack_unpacked(job, plan, to, src, n, job->rows + (size_t)worker * job->row_floats);
    else
        m->kernels.pack[l->type](to, src, l->n_in, n, 0, p1 - p0);
    if (!is_table)
        file_drop(&m->file, src, n * row_bytes);
    return 1;
}

static void pack_part(void *ctx, int worker, int n_workers)
{
    struct packing *job = ctx;
    const struct plan *plan = job->m->plans;
    mgpt_error err;
    (void)n_workers;
    while (!atomic_load_explicit(&job->failed, memory_order_relaxed)) {
        size_t unit = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
        if (unit >= job->n_units)
            return;
        while (unit >= plan->first_unit + plan->n_units)
            plan++;
        if (!pack_unit(job, plan, unit - plan->first_unit, worker, &err) &&
            !atomic_exchange(&job->failed, 1))
            job->err = err;
    }
}

static int in_file_order(const void *a, const void *b)
{
    const struct plan *x = a, *y = b;
    if (x->t->offset != y->t->offset)
        return x->t->offset < y->t->offset ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Assigns every matrix its address in the block, and divides the work into units. */
static void place_matrices(const mgpt_model *m, char *block, struct packing *job)
{
    if (arr_len(m->plans) > 1)
        qsort(m->plans, arr_len(m->plans), sizeof *m->plans, in_file_order);
    for (size_t i = 0; i < arr_len(m->plans); i++) {
        struct plan *plan = &m->plans[i];
        struct linear *l = plan->l;
        l->w = plan->to = block + plan->at;
        plan->unit_panels = l->panel_bytes < UNIT_BYTES ? UNIT_BYTES / l->panel_bytes : 1;
        plan->n_units = (panels_of(l->n_out) + plan->unit_panels - 1) / plan->unit_panels;
        plan->first_unit = job->n_units;
        job->n_units += plan->n_units;
        if (unpacks(plan) && PANEL * l->n_in > job->row_floats)
            job->row_floats = PANEL * l->n_in;
        size_t source = plan->unit_panels * PANEL * row_bytes_of(plan->t);
        if (m->file.partly && source > job->source_bytes)
            job->source_bytes = source;
    }
}

/* Allocates the buffers of n_threads workers and packs. MGPT_OK, MGPT_EMEM or MGPT_EIO. */
static int pack_all(struct packing *job, int n_threads, mgpt_error *err)
{
    size_t n = (size_t)n_threads;
    struct pool *pool = NULL;
    job->rows = mem_large(n * job->row_floats, sizeof *job->rows);
    job->source = mem_large(n, job->source_bytes);
    if (!job->rows || !job->source)
        return err_memory(err, "buffers for packing",
                          n * (job->row_floats * sizeof(float) + job->source_bytes));
    if (n_threads > 1 && !(pool = pool_new(n_threads, err)))
        return MGPT_EMEM;
    pool_run(pool, pack_part, job);
    pool_free(pool);
    if (!job->failed)
        return MGPT_OK;
    if (err)
        *err = job->err;
    return job->err.status;
}

int model_pack(mgpt_model *m, int n_threads, mgpt_error *err)
{
    char *block = mem_large((size_t)m->packed_end, 1);
    if (!block || !arr_push(m->owned, block)) {
        free(block);
        return err_memory(err, "packed weights", (size_t)m->packed_end);
    }
    struct packing job = {.m = m};
    place_matrices(m, block, &job);
    if (n_threads == 0)
        n_threads = m->packed_bytes < THREADS_FROM ? 1 : pool_cores();
    int status = pack_all(&job, n_threads, err);
    free(job.rows);
    free(job.source);
    arr_free(m->plans);
    return status;
}
