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
    MOST = 3,            /* products of a job without experts */
    LEAST_PANELS = 4,    /* panels a thread takes at a time: kernels read adjacent ones together */
    STOP_WORK = 1 << 27, /* panels x columns x rows after which a thread looks for mgpt_stop */
    SLOT_BYTES = 1 << 18 /* of weights: for less, the slot costs more than a percent */
};

struct matmul_job {
    const mgpt_model *model;
    const struct scratch *s;
    struct matmul_product *p;
    size_t count, per;       /* number of products; each `per` of them share panels: gate, up */
    const struct layer *mlp; /* y of the first of them becomes act(y), times the second; or NULL */
    int one;                 /* 1: every product has one row */
    int slot;                /* of pool_deal; 0: workers write to y */
    const mgpt_session *stops; /* its mgpt_stop leaves out what is left; NULL: one row */
    size_t n;                  /* rows of the input */
    const float *x;
    uint8_t *qx;    /* quantised input */
    size_t x_bytes; /* bytes per row of qx; 0: float input */
};

/* A job of one token while workers may read it. */
struct matmul_slot {
    struct matmul_job job;
    struct matmul_product *p;
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
    size_t k = max_size(1, d->n_expert_used), expert = k * d->n_ff_expert;
    size_t x = max_size(max_size(d->n_embd, d->n_z), max_size(d->n_ff_most, expert));
    x = max_size(x, max_size(d->n_q, d->n_q_latent));
    if (!slots)
        return NULL;
    slots->width = max_size(max_size(d->n_vocab, 2 * max_size(d->n_ff_most, expert)),
                            max_size(k * d->n_embd, d->n_q + d->n_kv + d->n_v));
    slots->width = max_size(slots->width, max_size(d->kept_dim, d->n_q_latent));
    slots->width = max_size(slots->width, d->n_inputs);
    slots->y = mem_large(n_threads - 1, slots->width * sizeof *slots->y);
    int ok = slots->y != NULL;
    for (size_t i = 1; i < POOL_SLOTS; i++)
        ok &= (slots->at[i].x = mem_new(x, sizeof(float))) != NULL &&
              (slots->at[i].qx = mem_new(k, m->x_bytes)) != NULL &&
              (slots->at[i].p = mem_new(max_size(MOST, 2 * k), sizeof *slots->at[i].p)) != NULL;
    if (ok)
        return slots;
    matmul_slots_free(slots);
    return NULL;
}

void matmul_slots_free(struct matmul_slots *slots)
{
    for (size_t i = 0; slots && i < POOL_SLOTS; i++) {
        free(slots->at[i].p);
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

/* Where a worker writes a product: to y, or in a slot to its own rows. */
static float *product_y(const struct matmul_job *job, const struct matmul_product *p, int worker)
{
    const struct matmul_slots *slots = job->s->slots;
    return job->slot && worker > 0 ? slots->y + (size_t)(worker - 1) * slots->width + p->at : p->y;
}

static void matmul_panels(const struct matmul_job *job, const struct matmul_product *p, int worker,
                          size_t p0, size_t p1)
{
    const struct linear *l = p->l;
    const struct kernels *kernels = &job->model->kernels;
    int integer = weight_is_integer(l->type);
    float *y = product_y(job, p, worker);
    if (p0 == p1)
        return;
    kernels->matmul[l->type](&(struct matmul){
        .y = y,
        .ldy = l->n_out,
        .w = l->w,
        .x = integer ? (const void *)(job->qx + p->row * job->x_bytes) : job->x + p->row * l->n_in,
        .x_stride = integer ? job->x_bytes : l->n_in * sizeof(float),
        .n = p->n,
        .n_in = l->n_in,
        .n_out = l->n_out,
        .p0 = p0,
        .p1 = p1,
        .work = p->n > 1 ? job->s->work + (size_t)worker * job->s->work_bytes : NULL,
        .streaming = model_streaming(job->model)});
    size_t r0 = p0 * PANEL, r1 = p1 * PANEL < l->n_out ? p1 * PANEL : l->n_out;
    for (size_t i = 0; l->bias && i < p->n; i++)
        kernels->add(y + i * l->n_out + r0, l->bias + r0, r1 - r0);
}

/* The limits of a gated MLP (gpt-oss), and what is added to `up`. NaN stays NaN. */
static void limit_gate(const mgpt_model *m, float *gate, float *up, size_t n)
{
    float limit = m->glu_limit, more = m->up_more;
    for (size_t i = 0; limit > 0 && i < n; i++)
        gate[i] = gate[i] > limit ? limit : gate[i];
    if (limit > 0)
        m->kernels.clamp(up, limit, n);
    for (size_t i = 0; more > 0 && i < n; i++)
        up[i] += more;
}

/* y = act(y), times `by` unless it is NULL. Changes `by` in models with limits. */
static void activate(const mgpt_model *m, const struct layer *l, float *y, float *by, size_t n)
{
    if (by)
        limit_gate(m, y, by, n);
    if (m->act == ACT_XIELU)
        m->kernels.xielu(y, &l->xielu, n);
    else
        m->kernels.act[m->act](y, n);
    if (by)
        m->kernels.mul(y, by, n);
}

/* Panels [p0, p1) of the products that share them, and the activation of the same rows. */
static void shared_panels(const struct matmul_job *job, const struct matmul_product *p, int worker,
                          size_t p0, size_t p1)
{
    for (size_t i = 0; i < job->per; i++)
        matmul_panels(job, &p[i], worker, p0, p1);
    size_t F = p->l->n_out, r0 = p0 * PANEL, r1 = p1 * PANEL < F ? p1 * PANEL : F;
    float *y = product_y(job, p, worker), *by = NULL;
    if (job->per > 1)
        by = product_y(job, p + 1, worker);
    for (size_t i = 0; job->mlp && i < p->n; i++)
        activate(job->model, job->mlp, y + i * F + r0, by ? by + i * F + r0 : NULL, r1 - r0);
}

static void matmul_range(const struct matmul_job *job, int worker, size_t first, size_t last)
{
    for (size_t i = 0, begin = 0; i < job->count && begin < last; i += job->per) {
        size_t end = begin + panels_of(job->p[i].l->n_out);
        if (first < end)
            shared_panels(job, &job->p[i], worker, (first > begin ? first : begin) - begin,
                          (last < end ? last : end) - begin);
        begin = end;
    }
}

/* Panels [first, last) of the job's matrices, numbered consecutively. */
static void matmul_part(void *ctx, int worker, size_t first, size_t last)
{
    const struct matmul_job *job = ctx;
    if (!job->stops) {
        matmul_range(job, worker, first, last);
        return;
    }
    /* A kernel copies its input in each call, so few calls are fast. At 40 G multiply-adds a second
     * those of gate and up take 0.1 s, the longest that Ctrl-C should wait. */
    size_t some = (STOP_WORK / (job->n * job->p[0].l->n_in) / LEAST_PANELS + 1) * LEAST_PANELS;
    for (; first < last && !session_stop_asked(job->stops); first += some)
        matmul_range(job, worker, first, min_size(first + some, last));
}

/* ---- jobs ---- */

static void publish_part(void *ctx, int worker, size_t first, size_t last)
{
    const struct matmul_job *job = ctx;
    for (size_t i = 0, begin = 0; i < job->count && begin < last; i += job->per) {
        size_t n = job->p[i].l->n_out, end = begin + panels_of(n);
        size_t r0 = first > begin ? (first - begin) * PANEL : 0;
        size_t r1 = last < end ? (last - begin) * PANEL : n;
        const float *own = product_y(job, &job->p[i], worker);
        r1 = r1 < n ? r1 : n;
        if (r0 < r1)
            memcpy(job->p[i].y + r0, own + r0, (r1 - r0) * sizeof(float));
        begin = end;
    }
}

/* Returns the job in its slot, with products and an input of its own. */
static struct matmul_job *put_in_slot(struct matmul_slot *slot, struct matmul_job job)
{
    memcpy(slot->x, job.x, job.n * job.p[0].l->n_in * sizeof(float));
    memcpy(slot->p, job.p, job.count * sizeof *job.p);
    job.x = slot->x;
    job.qx = slot->qx;
    job.p = slot->p;
    slot->job = job;
    return &slot->job;
}

/* Bytes of weights that the rows of all products read. Gives products their place in a row of
 * slots->y. */
static size_t place_products(const struct matmul_job *job)
{
    size_t bytes = 0;
    for (size_t i = 0, at = 0; i < job->count; i++) {
        const struct linear *l = job->p[i].l;
        bytes += panels_of(l->n_out) * l->panel_bytes * job->p[i].n;
        job->p[i].at = at;
        at += l->n_out;
    }
    return bytes;
}

static void run_matmul_job(pass *p, struct matmul_job *job)
{
    size_t bytes = place_products(job), panels = 0;
    if (job->n == 0)
        return;
    for (size_t i = 0; i < job->count; i += job->per)
        panels += panels_of(job->p[i].l->n_out);
    int own = job->one && bytes >= SLOT_BYTES;
    job->slot = own ? pool_free_slot(p->pool) : 0;
    struct pool *pool = own && job->slot == 0 ? NULL : p->pool;
    job->model = p->model;
    job->s = p->s;
    job->stops = job->n > 1 ? p->lead : NULL;
    job->qx = p->s->qx;
    if (job->slot)
        job = put_in_slot(&p->s->slots->at[job->slot], *job);
    quantize_input(pool, job);
    pool_deal(pool, &(struct pool_units){.slot = job->slot,
                                         .bytes = bytes,
                                         .n = panels,
                                         .least = LEAST_PANELS,
                                         .fn = matmul_part,
                                         .publish = job->slot ? publish_part : NULL,
                                         .ctx = job});
}

/* Products of all rows of x, each by itself. */
static struct matmul_job job_of(struct matmul_product *p, size_t count, mat x)
{
    for (size_t i = 0; i < count; i++)
        p[i].n = x.n;
    return (struct matmul_job){
        .p = p, .count = count, .per = 1, .one = x.n == 1, .n = x.n, .x = x.at};
}

void qkv_matmul(pass *p, const struct layer *l, mat h)
{
    struct matmul_product products[MOST] = {
        {.l = &l->q, .y = p->q.at}, {.l = &l->k, .y = p->k.at}, {.l = &l->v, .y = p->v.at}};
    size_t count = l->v.n_out ? MOST : l->k.n_out ? 2 : 1;
    struct matmul_job job = job_of(products, count, h);
    float limit = p->model->qkv_clamp;
    if (l->heads) {
        latent_project(p, l, h);
        return;
    }
    run_matmul_job(p, &job);
    for (size_t i = l->q_norm.kind == NORM_NONE ? 0 : 2; limit != 0 && i < count; i++)
        p->kernels->clamp(products[i].y, limit, h.n * products[i].l->n_out);
}

void matmul(pass *p, mat y, const struct linear *l, mat x)
{
    struct matmul_product product = {.l = l, .y = y.at};
    struct matmul_job job = job_of(&product, 1, x);
    if (l->w && !screened_matmul(p, y, l, x))
        run_matmul_job(p, &job);
}

void mlp_up(pass *p, const struct layer *l, mat h)
{
    int gated = l->gate.w != NULL;
    mat gate = p->f = (mat){p->s->gate, h.n, l->up.n_out}, up = {p->s->up, h.n, gate.cols};
    struct matmul_product products[2] = {{.l = gated ? &l->gate : &l->up, .y = gate.at},
                                         {.l = &l->up, .y = up.at}};
    struct matmul_job job = job_of(products, gated ? 2 : 1, h);
    if (!l->up.w)
        return;
    if (!TAPPED(p, MGPT_MLP_PRE) && !TAPPED(p, MGPT_MLP_PRE_LINEAR)) {
        job.per = job.count;
        job.mlp = l;
        run_matmul_job(p, &job);
        return;
    }
    run_matmul_job(p, &job);
    SEE(MLP_PRE, gate);
    if (gated)
        SEE(MLP_PRE_LINEAR, up);
    activate(p->model, l, gate.at, gated ? up.at : NULL, h.n * gate.cols);
}

void expert_products(pass *p, struct matmul_product *products, size_t count, mat x, int are_up)
{
    size_t per = are_up ? 2 : 1;
    struct matmul_job job = {.p = products,
                             .count = count,
                             .per = per,
                             .mlp = are_up ? &p->model->layers[p->il] : NULL,
                             .one = p->n == 1 && count <= per * p->model->shape.n_expert_used,
                             .n = x.n,
                             .x = x.at};
    run_matmul_job(p, &job);
}
