/* Packing: converts matrices to panels (kernels.h), in parallel.
 *
 * Binding plans which rows of which tensor become which matrix. After everything in the file has
 * been checked, model_pack allocates one block for all panels. Workers take units of some hundred
 * KiB, in file order. A worker reads a unit into its own buffer, so opening needs about the file's
 * size in memory, not twice that.
 * Embedding tables stay in place; their rows are looked up, except that those of a table which is
 * also the head are read from its panels. Panels do not depend on the worker that packed them.
 *
 * Large matrices of float types are packed in the smallest type that gives the same bits back. Some
 * panels of a matrix choose it; a matrix whose other panels do not fit is packed again.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/threads.h"
#include "dtype/dtype.h"
#include "model/model.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNIT_BYTES = 1 << 19,   /* bytes of panels that a worker takes at a time */
    THREADS_FROM = 4 << 20, /* bytes to pack; below that one thread does it */
    LINE = 64               /* alignment of a matrix */
};

/* 1: all float types are packed as F32. WebAssembly has no instruction that converts halves. */
#if defined(__wasm__)
enum { WIDENS = 1 };
#else
enum { WIDENS = 0 };
#endif

struct plan {
    struct linear *l;
    const struct gguf_tensor *t;
    size_t row; /* l's first row in the tensor */
    size_t at;  /* byte offset in the block of all panels */
    char *to;   /* address in the block, set by place_matrices */
    size_t unit_panels, first_unit, n_units;
    atomic_int misfit; /* 1: l's type does not hold all values */
};

int pack_plan(mgpt_model *m, struct linear *l, const struct gguf_tensor *t, size_t row,
              size_t n_out, mgpt_error *err)
{
    uint64_t end;
    size_t bytes;
    l->type = WIDENS && !weight_is_integer(t->type->weight) ? WEIGHT_F32 : t->type->weight;
    l->n_in = (size_t)t->dims[0];
    l->n_out = n_out;
    l->panel_bytes = kernels_panel_bytes(l->type, l->n_in);
    if (!ck_bytes(panels_of(n_out), l->panel_bytes, &bytes) ||
        !ck_add(m->packed_end, bytes, &end) || !ck_align(end, LINE, &end))
        return err_memory(err, t->name, SIZE_MAX);
    struct plan plan = {.l = l, .t = t, .row = row};
    if (!arr_push(m->plans, plan))
        return err_memory(err, "a plan", sizeof plan);
    if (weight_is_integer(l->type) && kernels_x_bytes(l->type, l->n_in) > m->x_bytes)
        m->x_bytes = kernels_x_bytes(l->type, l->n_in);
    m->packed_end = end;
    m->packed_bytes += bytes;
    return MGPT_OK;
}

/* Buffers of a worker. */
struct pack_buffers {
    uint8_t *source; /* a unit of the file */
    float *floats;   /* rows of a panel */
    uint8_t *rows;   /* these rows in another type */
    uint8_t *panel;  /* a packed panel before it is compressed */
    char *packed;    /* a compressed panel, while types are chosen */
};

struct packing {
    const mgpt_model *m;
    size_t n_units, source_bytes; /* source_bytes, panel_values: the largest of any unit, of any */
    size_t panel_values;          /* panel that is converted */
    uint8_t *memory;              /* of all workers' buffers */
    char *block;                  /* of all panels */
    atomic_size_t next;
    atomic_int failed;
    mgpt_error err; /* of the worker that failed first */
};

static size_t row_bytes_of(const struct gguf_tensor *t)
{
    return (size_t)t->dims[0] / t->type->block * t->type->block_bytes;
}

static size_t worker_bytes(const struct packing *job)
{
    return job->source_bytes + job->panel_values * 4 * sizeof(float);
}

static struct pack_buffers buffers_of(const struct packing *job, int worker)
{
    uint8_t *at = job->memory + (size_t)worker * worker_bytes(job);
    size_t bytes = job->panel_values * sizeof(float);
    return (struct pack_buffers){.floats = (float *)(void *)at,
                                 .rows = at + bytes,
                                 .panel = at + 2 * bytes,
                                 .packed = (char *)at + 3 * bytes,
                                 .source = at + 4 * bytes};
}

/* Converts n floats to a type. Returns 0 if it does not give the same bits back. */
static int convert_exactly(const struct dtype *to, const float *from, uint8_t *values, size_t n)
{
    enum { PIECE = 256 };
    float back[PIECE];
    for (size_t i = 0; i < n; i += PIECE) {
        size_t some = n - i < PIECE ? n - i : PIECE;
        uint8_t *at = values + i * to->block_bytes;
        to->from_float(from + i, at, some);
        to->to_float(at, back, some);
        if (memcmp(back, from + i, some * sizeof *back) != 0)
            return 0;
    }
    return 1;
}

/* Packs n_out <= PANEL rows. Returns 0 if the matrix's type does not hold their values. */
static int pack_panel(const mgpt_model *m, const struct plan *plan, char *to, const uint8_t *rows,
                      size_t n_out, const struct pack_buffers *buffers)
{
    const struct linear *l = plan->l;
    int compressed = l->type == WEIGHT_BF16_COMPRESSED;
    enum weight_type type = compressed ? WEIGHT_BF16 : l->type;
    const struct dtype *from = plan->t->type, *as = dtype_of_weight(type);
    if (from != as) {
        from->to_float(rows, buffers->floats, n_out * l->n_in);
        rows = (const uint8_t *)buffers->floats;
    }
    if (from != as && type != WEIGHT_F32) {
        if (!convert_exactly(as, buffers->floats, buffers->rows, n_out * l->n_in))
            return 0;
        rows = buffers->rows;
    }
    m->kernels.pack[type](compressed ? (char *)buffers->panel : to, rows, l->n_in, n_out, 0, 1);
    return !compressed || m->kernels.compress(to, buffers->panel, l->n_in);
}

/* 1: rows of the tensor are looked up in the file's own layout, which is loaded and stays. */
static int is_looked_up(const mgpt_model *m, const struct gguf_tensor *t)
{
    return t == m->token_embd && !m->tied;
}

/* The bytes of n rows from row r of a matrix on, read to `buffer` if they are not in memory. NULL:
 * the file cannot be read. */
static const uint8_t *rows_of_plan(const mgpt_model *m, const struct plan *plan, size_t r, size_t n,
                                   uint8_t *buffer, mgpt_error *err)
{
    size_t row_bytes = row_bytes_of(plan->t), at = (plan->row + r) * row_bytes;
    if (!m->file.partly || is_looked_up(m, plan->t))
        return plan->t->data + at;
    return file_read(&m->file, plan->t->offset + at, n * row_bytes, buffer, err) < 0 ? NULL
                                                                                     : buffer;
}

static int pack_unit(const struct packing *job, struct plan *plan, size_t unit, int worker,
                     mgpt_error *err)
{
    const mgpt_model *m = job->m;
    const struct linear *l = plan->l;
    struct pack_buffers buffers = buffers_of(job, worker);
    size_t p0 = unit * plan->unit_panels, row_bytes = row_bytes_of(plan->t);
    size_t n = rows_of_panels(l->n_out, p0, plan->unit_panels);
    const uint8_t *rows = rows_of_plan(m, plan, p0 * PANEL, n, buffers.source, err);
    char *to = plan->to + p0 * l->panel_bytes;
    int fits = rows != NULL;
    for (size_t r = 0; fits && r < n; r += PANEL, to += l->panel_bytes)
        fits =
            pack_panel(m, plan, to, rows + r * row_bytes, n - r < PANEL ? n - r : PANEL, &buffers);
    if (!rows)
        return 0;
    if (!fits)
        atomic_store_explicit(&plan->misfit, 1, memory_order_relaxed);
    return 1;
}

/* Marks the job as failed, with the error of the worker that was first. */
static void pack_fail(struct packing *job, const mgpt_error *err)
{
    if (!atomic_exchange(&job->failed, 1))
        job->err = *err;
}

static void pack_part(void *ctx, int worker, int n_workers)
{
    struct packing *job = ctx;
    struct plan *plan = job->m->plans;
    mgpt_error err;
    (void)n_workers;
    while (!atomic_load_explicit(&job->failed, memory_order_relaxed)) {
        size_t unit = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
        if (unit >= job->n_units)
            return;
        while (unit >= plan->first_unit + plan->n_units)
            plan++;
        if (!pack_unit(job, plan, unit - plan->first_unit, worker, &err))
            pack_fail(job, &err);
    }
}

/* ---- types ---- */

/* The types that are tried: BF16_COMPRESSED, BF16, F16, F32. */
static void next_type(struct linear *l)
{
    static const enum weight_type next[] = {[WEIGHT_BF16_COMPRESSED] = WEIGHT_BF16,
                                            [WEIGHT_BF16] = WEIGHT_F16,
                                            [WEIGHT_F16] = WEIGHT_F32};
    l->type = next[l->type];
}

/* Chooses the type of a matrix by its first, middle and last panels. Returns 0 if the file cannot be
 * read. */
static int choose_packed_type(const struct packing *job, const struct plan *plan, int worker,
                              mgpt_error *err)
{
    const mgpt_model *m = job->m;
    struct linear *l = plan->l;
    struct pack_buffers buffers = buffers_of(job, worker);
    size_t panels = panels_of(l->n_out);
    l->type = WEIGHT_BF16_COMPRESSED;
    if (!m->kernels.compresses || !kernels_compressible(l->n_in, l->n_out))
        next_type(l);
    for (size_t i = 0; i < 3; i++) {
        size_t p = (panels - 1) * i / 2, n = rows_of_panels(l->n_out, p, 1);
        const uint8_t *rows = rows_of_plan(m, plan, p * PANEL, n, buffers.source, err);
        if (!rows)
            return 0;
        while (!pack_panel(m, plan, buffers.packed, rows, n, &buffers))
            next_type(l);
    }
    return 1;
}

static int has_choice(const struct plan *plan)
{
    return plan->l->type == WEIGHT_F32 || plan->l->type == WEIGHT_BF16;
}

static void choose_part(void *ctx, int worker, int n_workers)
{
    struct packing *job = ctx;
    const struct plan *plans = job->m->plans;
    mgpt_error err;
    for (size_t i = (size_t)worker; i < arr_len(plans); i += (size_t)n_workers)
        if (has_choice(&plans[i]) && !choose_packed_type(job, &plans[i], worker, &err))
            pack_fail(job, &err);
}

/* Gives matrices that do not fit the next type. Returns their number. */
static size_t change_types(const mgpt_model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < arr_len(m->plans); i++)
        if (atomic_exchange(&m->plans[i].misfit, 0)) {
            next_type(m->plans[i].l);
            n++;
        }
    return n;
}

/* ---- all matrices ---- */

static int in_file_order(const void *a, const void *b)
{
    const struct plan *x = a, *y = b;
    if (x->t->offset != y->t->offset)
        return x->t->offset < y->t->offset ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Gives every matrix its place in a new block, and divides the work into units. */
static int place_matrices(mgpt_model *m, struct packing *job, mgpt_error *err)
{
    uint64_t end = 0;
    m->packed_bytes = 0;
    job->n_units = 0;
    for (size_t i = 0; i < arr_len(m->plans); i++) {
        struct plan *plan = &m->plans[i];
        struct linear *l = plan->l;
        size_t panels = panels_of(l->n_out), source = PANEL * row_bytes_of(plan->t);
        l->panel_bytes = kernels_panel_bytes(l->type, l->n_in);
        plan->at = (size_t)end;
        m->packed_bytes += panels * l->panel_bytes;
        ck_align(end + panels * l->panel_bytes, LINE, &end); /* at most what pack_plan checked */
        size_t widest = l->panel_bytes > source ? l->panel_bytes : source;
        plan->unit_panels = widest < UNIT_BYTES ? UNIT_BYTES / widest : 1;
        plan->n_units = (panels + plan->unit_panels - 1) / plan->unit_panels;
        plan->first_unit = job->n_units;
        job->n_units += plan->n_units;
    }
    free(job->block);
    job->block = mem_large((size_t)end, 1);
    if (!job->block)
        return err_memory(err, "packed weights", (size_t)end);
    for (size_t i = 0; i < arr_len(m->plans); i++)
        m->plans[i].l->w = m->plans[i].to = job->block + m->plans[i].at;
    atomic_store(&job->next, 0);
    return MGPT_OK;
}

/* Packs all matrices, again while some do not fit their type. */
static int pack_all(mgpt_model *m, struct packing *job, struct pool *pool, mgpt_error *err)
{
    if (!WIDENS && m->packed_bytes >= MEMORY_FROM)
        pool_run(pool, choose_part, job);
    do {
        if (place_matrices(m, job, err) < 0)
            return MGPT_EMEM;
        pool_run(pool, pack_part, job);
    } while (!job->failed && change_types(m));
    if (job->failed && err)
        *err = job->err;
    return job->failed ? job->err.status : MGPT_OK;
}

/* Allocates the buffers of n_threads workers and packs. MGPT_OK, MGPT_EMEM or MGPT_EIO. */
static int pack_with(mgpt_model *m, struct packing *job, int n_threads, int asked, mgpt_error *err)
{
    struct pool *pool = NULL;
    for (size_t i = 0; i < arr_len(m->plans); i++) {
        const struct plan *plan = &m->plans[i];
        size_t source = PANEL * row_bytes_of(plan->t), values = PANEL * plan->l->n_in;
        source = source > UNIT_BYTES ? source : UNIT_BYTES;
        if (m->file.partly && source > job->source_bytes)
            job->source_bytes = source;
        if (has_choice(plan) && values > job->panel_values)
            job->panel_values = values;
    }
    job->memory = mem_large((size_t)n_threads, worker_bytes(job));
    if (!job->memory)
        return err_memory(err, "buffers for packing", (size_t)n_threads * worker_bytes(job));
    if (n_threads > 1 && !(pool = pool_new(n_threads, err)) && asked)
        return MGPT_EMEM;
    int status = pack_all(m, job, pool, err);
    pool_free(pool);
    return status;
}

int model_pack(mgpt_model *m, int n_threads, mgpt_error *err)
{
    struct packing job = {.m = m};
    if (arr_len(m->plans) > 1)
        qsort(m->plans, arr_len(m->plans), sizeof *m->plans, in_file_order);
    int asked = n_threads > 0;
    if (!asked)
        n_threads = m->packed_bytes < THREADS_FROM ? 1 : pool_cores(NULL, 0);
    int status = pack_with(m, &job, n_threads, asked, err);
    if (status == MGPT_OK && !arr_push(m->owned, job.block))
        status = err_memory(err, "packed weights", (size_t)m->packed_bytes);
    if (status != MGPT_OK)
        free(job.block);
    free(job.memory);
    arr_free(m->plans);
    return status;
}

void model_table_row(const mgpt_model *m, const struct gguf_tensor *table, size_t row, float *to)
{
    if (table == m->token_embd && m->tied)
        kernels_unpack_row(m->head.type, m->head.w, m->head.n_in, row, to);
    else
        table->type->to_float(table->data + row * row_bytes_of(table), to, (size_t)table->dims[0]);
}
