/* Packing all matrices, in parallel: before mgpt_open returns, or while sessions run.
 *
 * Binding plans which rows of which tensor become which matrix. After everything in the file has
 * been checked, model_place allocates one block for all panels. Workers take units of some hundred
 * KiB, stage by stage: in the order in which a pass needs them, of a stage in file order. A worker
 * reads a unit into its own buffer, so opening needs about the file's size in memory, not twice that.
 * With mgpt_model_params.pack_later the workers go on after mgpt_open has returned, and a pass waits
 * for each stage.
 */
#include "base/background.h"
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/threads.h"
#include "model/pack.h"

#include <stdlib.h>

enum {
    THREADS_FROM = 4 << 20, /* bytes to pack; below that one thread does it */
    LINE = 64               /* alignment of a matrix */
};

/* ---- stages ---- */

/* Lets passes see the stages that are complete, but the last one. */
static void show_stages(struct packing *job)
{
    mgpt_model *m = job->m;
    size_t n = atomic_load(&m->n_packed);
    int more = 0;
    while (n < m->shape.n_layer && atomic_load(&job->left[n]) == 0)
        if (atomic_compare_exchange_strong(&m->n_packed, &n, n + 1)) {
            n++;
            more = 1;
        }
    if (more && job->background)
        background_tell(job->background);
}

/* A unit of the stage is packed. */
static void finish_unit(struct packing *job, size_t stage, int worker)
{
    struct plan *plans = job->m->plans;
    if (atomic_fetch_sub(&job->left[stage], 1) != 2)
        return;
    for (size_t i = 0; i < arr_len(plans); i++)
        if (plans[i].stage == stage)
            pack_again(job, &plans[i], worker);
    if (job->failed)
        return;
    atomic_store(&job->left[stage], 0);
    show_stages(job);
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
        if (pack_unit(job, plan, unit - plan->first_unit, worker, &err))
            finish_unit(job, plan->stage, worker);
        else
            pack_fail(job, &err);
    }
}

/* ---- all matrices ---- */

static int in_order(const void *a, const void *b)
{
    const struct plan *x = a, *y = b;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    if (x->t->offset != y->t->offset)
        return x->t->offset < y->t->offset ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Gives every matrix its place in a new block, and divides the work into units. */
static int place_matrices(mgpt_model *m, struct packing *job, mgpt_error *err)
{
    uint64_t end = 0, bytes = 0;
    for (size_t i = 0; i < arr_len(m->plans); i++) {
        struct plan *plan = &m->plans[i];
        struct linear *l = plan->l;
        size_t panels = panels_of(l->n_out), source = PANEL * pack_row_bytes(plan->t);
        l->panel_bytes = kernels_panel_bytes(l->type, l->n_in);
        plan->at = (size_t)end;
        bytes += panels * l->panel_bytes;
        ck_align(end + panels * l->panel_bytes, LINE, &end); /* at most what pack_plan checked */
        size_t widest = l->panel_bytes > source ? l->panel_bytes : source;
        plan->unit_panels = widest < PACK_UNIT_BYTES ? PACK_UNIT_BYTES / widest : 1;
        plan->n_units = (panels + plan->unit_panels - 1) / plan->unit_panels;
        plan->first_unit = job->n_units;
        job->n_units += plan->n_units;
        job->left[plan->stage] += plan->n_units;
    }
    for (size_t i = 0; i <= m->shape.n_layer; i++)
        job->left[i] += job->left[i] > 0;
    job->block = mem_large((size_t)end, 1);
    if (!job->block)
        return err_memory(err, "packed weights", (size_t)end);
    for (size_t i = 0; i < arr_len(m->plans); i++)
        m->plans[i].l->w = m->plans[i].to = job->block + m->plans[i].at;
    m->packed_bytes = bytes;
    m->token_bytes = model_token_bytes(m);
    return MGPT_OK;
}

/* Allocates the buffers of n_threads workers. MGPT_OK or MGPT_EMEM. */
static int begin_workers(struct packing *job, int n_threads, mgpt_error *err)
{
    const mgpt_model *m = job->m;
    for (size_t i = 0; i < arr_len(m->plans); i++) {
        const struct plan *plan = &m->plans[i];
        size_t source = PANEL * pack_row_bytes(plan->t), values = PANEL * plan->l->n_in;
        source = source > PACK_UNIT_BYTES ? source : PACK_UNIT_BYTES;
        if (m->file.partly && source > job->source_bytes)
            job->source_bytes = source;
        if (pack_has_choice(plan) && values > job->panel_values)
            job->panel_values = values;
    }
    job->memory = mem_large((size_t)n_threads, pack_worker_bytes(job));
    job->left = mem_new(m->shape.n_layer + 1, sizeof *job->left);
    if (!job->memory || !job->left)
        return err_memory(err, "buffers for packing", (size_t)n_threads * pack_worker_bytes(job));
    if (n_threads > 1 && !(job->pool = pool_new(n_threads, err)) && job->n_threads > 0)
        return MGPT_EMEM;
    return MGPT_OK;
}

/* Chooses types and places: everything but packing itself. */
static int begin_packing(struct packing *job, mgpt_error *err)
{
    mgpt_model *m = job->m;
    if (arr_len(m->plans) > 1)
        qsort(m->plans, arr_len(m->plans), sizeof *m->plans, in_order);
    int n = job->n_threads;
    if (n == 0)
        n = m->packed_bytes < THREADS_FROM ? 1 : pool_cores(NULL, 0);
    if (begin_workers(job, n, err) < 0)
        return MGPT_EMEM;
    if (m->packed_bytes >= MEMORY_FROM)
        pool_run(job->pool, pack_choose, job);
    int status = model_pack_failed(m, err);
    return status < 0 ? status : place_matrices(m, job, err);
}

/* Packs all matrices, then measures how they are read fastest. */
static void pack_all(void *ctx)
{
    struct packing *job = ctx;
    mgpt_model *m = job->m;
    uint64_t bytes = 0;
    show_stages(job);
    pool_run(job->pool, pack_part, job);
    pool_free(job->pool);
    free(job->memory);
    job->pool = NULL;
    job->memory = NULL;
    if (job->failed)
        return;
    for (size_t i = 0; i < arr_len(m->plans); i++)
        bytes += panels_of(m->plans[i].l->n_out) * m->plans[i].l->panel_bytes;
    m->packed_bytes = bytes;
    m->token_bytes = model_token_bytes(m);
    model_tune(m, job->n_threads);
    atomic_store(&m->n_packed, m->shape.n_layer + 1);
    if (job->background)
        background_tell(job->background);
}

int model_place(mgpt_model *m, int n_threads, mgpt_error *err)
{
    struct packing *job = m->packing = mem_new(1, sizeof *job);
    if (!job)
        return err_memory(err, "packing", sizeof *job);
    *job = (struct packing){.m = m, .n_threads = n_threads};
    int status = begin_packing(job, err);
    if (status == MGPT_OK)
        m->n_cores = model_is_small(m) ? 1 : pool_cores(NULL, 0);
    return status;
}

int model_pack(mgpt_model *m, int later, mgpt_error *err)
{
    struct packing *job = m->packing;
    job->background = later ? background_new() : NULL;
    if (job->background && background_start(job->background, pack_all, job))
        return MGPT_OK;
    pack_all(job);
    return model_pack_failed(m, err);
}

int model_pack_failed(const mgpt_model *m, mgpt_error *err)
{
    const struct packing *job = m->packing;
    if (!atomic_load(&job->has_err))
        return MGPT_OK;
    if (err)
        *err = job->err;
    return job->err.status;
}

int model_await(const mgpt_model *m, size_t stage, mgpt_error *err)
{
    if (!model_has_stage(m, stage))
        background_wait(m->packing->background, &m->n_packed, stage);
    return model_pack_failed(m, err);
}

void pack_end(mgpt_model *m)
{
    struct packing *job = m->packing;
    if (job) {
        atomic_store(&job->failed, 1);
        background_free(job->background);
        pool_free(job->pool);
        free(job->memory);
        free(job->left);
        free(job->block);
    }
    for (size_t i = 0; i < arr_len(m->plans); i++)
        free(m->plans[i].own);
    arr_free(m->plans);
    free(job);
}
