/* Matrix products, y = W x: most of the time of a pass.
 *
 * Products that read the same input are one job: the input is quantised once, and the threads are
 * woken once. Threads take panels of a job as they become free. Every output is computed by one
 * thread, in the order that kernels.h states. The same thread adds the bias, and in the MLP applies
 * the activation, while the rows are in its cache.
 *
 * A job of one token does not wait for a worker that has lost its core (pool_deal). Such a worker
 * may still compute when the pass is far ahead, so the job and its input are copied to a slot, and
 * workers write to rows of their own, which they publish.
 */
#include "run/ops.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST = 3,            /* products per job */
    LEAST_PANELS = 4,    /* panels a thread takes at a time: kernels read adjacent ones together */
    SLOT_BYTES = 1 << 18 /* of weights: for less, the slot costs more than a percent */
};

struct matmul_product {
    const struct linear *l;
    float *y;
};

struct matmul_job {
    const mgpt_model *model;
    const struct scratch *s;
    struct matmul_product p[MOST];
    size_t count, n;
    const float *x;
    uint8_t *qx;         /* quantised input, */
    size_t x_bytes;      /* bytes per row of it; 0: float input */
    pool_units_fn *part; /* of one thread: all products, or gate_up_part */
};

/* A job of one token while workers may read it. */
struct matmul_slot {
    struct matmul_job job;
    float *x;
    uint8_t *qx;
};

struct matmul_slots {
    struct matmul_slot at[POOL_SLOTS]; /* number 0 is not used */
    float *y;                          /* [n_threads - 1][width] */
    size_t width;
};

struct matmul_slots *matmul_slots_new(const mgpt_model *m, size_t n_threads)
{
    const struct model_shape *d = &m->shape;
    struct matmul_slots *slots = mem_new(1, sizeof *slots);
    size_t x = max_size(d->n_embd, max_size(d->n_q, d->n_ff));
    if (!slots)
        return NULL;
    slots->width =
        max_size(max_size(d->n_vocab, 2 * d->n_ff), max_size(d->n_embd, d->n_q + 2 * d->n_kv));
    slots->y = mem_large(n_threads - 1, slots->width * sizeof *slots->y);
    int ok = slots->y != NULL;
    for (size_t i = 1; i < POOL_SLOTS; i++)
        ok &= (slots->at[i].x = mem_new(x, sizeof(float))) != NULL &&
              (slots->at[i].qx = mem_new(1, m->x_bytes)) != NULL;
    if (ok)
        return slots;
    matmul_slots_free(slots);
    return NULL;
}

void matmul_slots_free(struct matmul_slots *slots)
{
    for (size_t i = 0; slots && i < POOL_SLOTS; i++) {
        free(slots->at[i].x);
        free(slots->at[i].qx);
    }
    free(slots ? slots->y : NULL);
    free(slots);
}

/* ---- quantised input ---- */

static void quantize_input_part(void *ctx, int worker, int n_workers)
{
    const struct matmul_job *job = ctx;
    size_t i0, i1, n_in = job->p[0].l->n_in;
    pool_split(job->n, worker, n_workers, &i0, &i1);
    for (size_t i = i0; i < i1; i++)
        job->model->kernels.quantize(job->qx + i * job->x_bytes, job->x + i * n_in, n_in);
}

/* All integer types read the same format of activations, so one copy serves the job. */
static void quantize_input(struct pool *pool, struct matmul_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        if (weight_is_integer(job->p[i].l->type))
            job->x_bytes = kernels_x_bytes(job->p[i].l->type, job->p[i].l->n_in);
    if (job->x_bytes)
        pool_run_sized(job->n > 1 ? pool : NULL, job->n * job->p[0].l->n_in * sizeof(float),
                       quantize_input_part, job);
}

/* ---- products ---- */

static void matmul_panels(const struct matmul_job *job, const struct matmul_product *p, int worker,
                          size_t p0, size_t p1)
{
    const struct linear *l = p->l;
    const struct kernels *kernels = &job->model->kernels;
    if (p0 == p1)
        return;
    int integer = weight_is_integer(l->type);
    kernels->matmul[l->type](&(struct matmul){
        .y = p->y,
        .ldy = l->n_out,
        .w = l->w,
        .x = integer ? (const void *)job->qx : job->x,
        .x_stride = integer ? job->x_bytes : l->n_in * sizeof(float),
        .n = job->n,
        .n_in = l->n_in,
        .n_out = l->n_out,
        .p0 = p0,
        .p1 = p1,
        .work = job->n > 1 ? job->s->work + (size_t)worker * job->s->work_bytes : NULL,
        .streaming = kernels->streaming});
    size_t r0 = p0 * PANEL, r1 = p1 * PANEL < l->n_out ? p1 * PANEL : l->n_out;
    for (size_t i = 0; l->bias && i < job->n; i++)
        kernels->add(p->y + i * l->n_out + r0, l->bias + r0, r1 - r0);
}

static size_t packed_size(const struct linear *l)
{
    return panels_of(l->n_out) * l->panel_bytes;
}

/* Panels [first, last) of the job's matrices, numbered consecutively. */
static void matmul_part(void *ctx, int worker, size_t first, size_t last)
{
    const struct matmul_job *job = ctx;
    for (size_t i = 0, begin = 0; i < job->count && begin < last; i++) {
        size_t end = begin + panels_of(job->p[i].l->n_out);
        if (first < end)
            matmul_panels(job, &job->p[i], worker, (first > begin ? first : begin) - begin,
                          (last < end ? last : end) - begin);
        begin = end;
    }
}

/* y[at, at + n) = act(y), times the second product if the job has one; y is the first product. */
static void activate(const struct matmul_job *job, size_t at, size_t n)
{
    const struct kernels *kernels = &job->model->kernels;
    float *y = job->p[0].y + at;
    kernels->act[job->model->act](y, n);
    if (job->count > 1)
        kernels->mul(y, job->p[1].y + at, n);
}

/* Panels [p0, p1) of gate and up, then the activation for the same rows. */
static void gate_up_part(void *ctx, int worker, size_t p0, size_t p1)
{
    const struct matmul_job *job = ctx;
    size_t F = job->p[0].l->n_out;
    for (size_t i = 0; i < job->count; i++)
        matmul_panels(job, &job->p[i], worker, p0, p1);
    size_t r0 = p0 * PANEL, r1 = p1 * PANEL < F ? p1 * PANEL : F;
    for (size_t i = 0; i < job->n; i++)
        activate(job, i * F + r0, r1 - r0);
}

/* ---- jobs of one token ---- */

/* Worker's own rows of each product. */
static struct matmul_job own_rows(const struct matmul_job *job, int worker)
{
    const struct matmul_slots *slots = job->s->slots;
    struct matmul_job own = *job;
    float *y = slots->y + (size_t)(worker - 1) * slots->width;
    for (size_t i = 0; i < own.count; y += own.p[i++].l->n_out)
        own.p[i].y = y;
    return own;
}

static void slot_part(void *ctx, int worker, size_t first, size_t last)
{
    struct matmul_job *job = ctx, own;
    if (worker > 0) {
        own = own_rows(job, worker);
        job = &own;
    }
    job->part(job, worker, first, last);
}

static void publish_part(void *ctx, int worker, size_t first, size_t last)
{
    const struct matmul_job *job = ctx, own = own_rows(job, worker);
    size_t count = job->part == gate_up_part ? 1 : job->count;
    for (size_t i = 0, begin = 0; i < count && begin < last; i++) {
        size_t n = job->p[i].l->n_out, end = begin + panels_of(n);
        size_t r0 = first > begin ? (first - begin) * PANEL : 0;
        size_t r1 = last < end ? (last - begin) * PANEL : n;
        r1 = r1 < n ? r1 : n;
        if (r0 < r1)
            memcpy(job->p[i].y + r0, own.p[i].y + r0, (r1 - r0) * sizeof(float));
        begin = end;
    }
}

/* Returns the job in its slot, with an input of its own. */
static struct matmul_job *put_in_slot(struct matmul_slot *slot, struct matmul_job job)
{
    memcpy(slot->x, job.x, job.p[0].l->n_in * sizeof(float));
    job.x = slot->x;
    job.qx = slot->qx;
    slot->job = job;
    return &slot->job;
}

static void run_matmul_job(pass *r, struct matmul_job *job, size_t panels, pool_units_fn *part)
{
    size_t bytes = 0;
    for (size_t i = 0; i < job->count; i++)
        bytes += packed_size(job->p[i].l);
    int one = job->n == 1 && bytes >= SLOT_BYTES, slot = one ? pool_free_slot(r->pool) : 0;
    struct pool *pool = one && slot == 0 ? NULL : r->pool;
    if (job->n == 0)
        return;
    job->model = r->model;
    job->s = r->s;
    job->qx = r->s->qx;
    job->part = part;
    if (slot)
        job = put_in_slot(&r->s->slots->at[slot], *job);
    quantize_input(pool, job);
    pool_deal(pool, &(struct pool_units){.slot = slot,
                                         .bytes = bytes * job->n,
                                         .n = panels,
                                         .least = LEAST_PANELS,
                                         .fn = slot ? slot_part : part,
                                         .publish = slot ? publish_part : NULL,
                                         .ctx = job});
}

/* Computes all products of the job, without an activation. */
static void run_products(pass *r, struct matmul_job *job)
{
    size_t panels = 0;
    for (size_t i = 0; i < job->count; i++)
        panels += panels_of(job->p[i].l->n_out);
    run_matmul_job(r, job, panels, matmul_part);
}

void qkv_matmul(pass *p, const struct layer *l, mat h)
{
    struct matmul_job job = {.p = {{&l->q, p->q.at}, {&l->k, p->k.at}, {&l->v, p->v.at}},
                             .count = 3,
                             .n = h.n,
                             .x = h.at};
    float limit = p->model->qkv_clamp;
    run_products(p, &job);
    for (size_t i = 0; limit != 0 && i < job.count; i++)
        p->kernels->clamp(job.p[i].y, limit, h.n * job.p[i].l->n_out);
}

void matmul(pass *p, mat y, const struct linear *l, mat x)
{
    struct matmul_job job = {.p = {{l, y.at}}, .count = 1, .n = x.n, .x = x.at};
    if (!screened_matmul(p, y, l, x))
        run_products(p, &job);
}

void mlp_up(pass *p, const struct layer *l, mat h)
{
    mat gate = p->f, up = {p->s->up, h.n, gate.cols};
    struct matmul_job job = {.p = {{&l->up, gate.at}}, .count = 1, .n = h.n, .x = h.at};
    if (l->gate.w) {
        job.p[0] = (struct matmul_product){&l->gate, gate.at};
        job.p[1] = (struct matmul_product){&l->up, up.at};
        job.count = 2;
    }
    if (!TAPPED(p, MGPT_MLP_PRE) && !TAPPED(p, MGPT_MLP_PRE_LINEAR)) {
        run_matmul_job(p, &job, panels_of(gate.cols), gate_up_part);
        return;
    }
    run_products(p, &job);
    SEE(MLP_PRE, gate);
    if (l->gate.w)
        SEE(MLP_PRE_LINEAR, up);
    job.model = p->model;
    activate(&job, 0, h.n * gate.cols);
}
