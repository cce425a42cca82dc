/* Latent attention (MLA; DeepSeek-AI 2024), in the absorbed form:
 *
 *     c = norm(W_c h), r = rotated(W_r h)     a row of the cache: what is kept of a token, for all heads
 *     k_i = [W_k c; r], v_i = W_v c           of head i, as transformers has them
 *     q_i . k_i = [W_k' q_i; q_i's rotated part] . [c; r]
 *     o_i = sum_j w_j v_j = W_v sum_j w_j c_j
 *
 * So attention.c has one KV head, whose keys are rows [c; r] and whose values are their first n_latent
 * elements. k and v of heads are computed only to be shown. They are copies: a tap cannot change them.
 */
#include "base/error.h"
#include "base/mem.h"
#include "run/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct latent_job {
    const pass *p;
    const struct layer *l;
    const struct norm *norm; /* of the first n values of rows of `stride` */
    float *rows;
    size_t n, stride;
};

/* ---- rows ---- */

static void latent_norm_part(void *ctx, int worker, int n_workers)
{
    const struct latent_job *job = ctx;
    const mgpt_model *m = job->p->model;
    float eps = m->latent_eps > 0 ? m->latent_eps : m->eps;
    size_t first, last;
    pool_split(job->p->n, worker, n_workers, &first, &last);
    for (; first < last; first++) {
        float *row = job->rows + first * job->stride;
        m->kernels.rmsnorm(row, row, job->norm->gain, NULL, job->n, eps);
    }
}

static void latent_norm(pass *p, const struct norm *norm, mat rows, size_t n)
{
    struct latent_job job = {.p = p, .norm = norm, .rows = rows.at, .n = n, .stride = rows.cols};
    pool_run_sized(p->n > 1 ? p->pool : NULL, p->n * n * 2 * sizeof(float), latent_norm_part, &job);
}

void latent_project(pass *p, const struct layer *l, mat h)
{
    const struct model_shape *d = l->shape;
    mat kept = {p->s->latent, h.n, d->kept_dim}, q = {p->s->q_latent, h.n, d->n_q_latent};
    matmul(p, kept, &l->kv_down, h);
    latent_norm(p, &l->kv_down_norm, kept, d->n_latent);
    if (l->q_down.w) {
        matmul(p, q, &l->q_down, h);
        latent_norm(p, &l->q_down_norm, q, q.cols);
    }
    matmul(p, p->q, &l->q, l->q_down.w ? q : h);
    if (TAPPED(p, MGPT_K) || TAPPED(p, MGPT_V))
        latent_show(p, l);
}

/* ---- heads ---- */

/* y = l x of a head for all rows of the pass. */
static void head_matmul(const pass *p, const struct linear *l, float *y, size_t ldy, const float *x,
                        size_t ldx, int worker)
{
    p->kernels->matmul[l->type](
        &(struct matmul){.y = y,
                         .ldy = ldy,
                         .w = l->w,
                         .x = x,
                         .x_stride = ldx * sizeof *x,
                         .n = p->n,
                         .n_in = l->n_in,
                         .n_out = l->n_out,
                         .p1 = panels_of(l->n_out),
                         .work = p->s->work + (size_t)worker * p->s->work_bytes,
                         .streaming = model_streaming(p->model)});
}

static void queries_part(void *ctx, int worker, int n_workers)
{
    const struct latent_job *job = ctx;
    const pass *p = job->p;
    const struct model_shape *d = job->l->shape;
    size_t h, last, row = d->n_head * d->kept_dim, nope = d->head_dim - d->n_rot;
    pool_split(d->n_head, worker, n_workers, &h, &last);
    for (; h < last; h++) {
        const float *q = p->s->q + h * d->head_dim;
        float *to = p->s->q_kept + h * d->kept_dim;
        head_matmul(p, &job->l->heads[h].k, to, row, q, d->n_q, worker);
        for (size_t i = 0; i < p->n; i++)
            memcpy(to + i * row + d->n_latent, q + i * d->n_q + nope, d->n_rot * sizeof *q);
    }
}

static void outputs_part(void *ctx, int worker, int n_workers)
{
    const struct latent_job *job = ctx;
    const pass *p = job->p;
    const struct model_shape *d = job->l->shape;
    size_t h, last;
    pool_split(d->n_head, worker, n_workers, &h, &last);
    for (; h < last; h++)
        head_matmul(p, &job->l->heads[h].v, p->s->o + h * d->value_dim, d->n_z,
                    p->s->o_kept + h * d->kept_dim, d->n_head * d->kept_dim, worker);
}

/* The job for all heads, which read `bytes` of weights. */
static void run_heads(pass *p, const struct layer *l, pool_fn *fn)
{
    const struct model_shape *d = l->shape;
    struct latent_job job = {.p = p, .l = l};
    if (p->n > 0)
        pool_run_sized(p->pool, d->n_head * d->n_latent * d->value_dim * sizeof(float), fn, &job);
}

void latent_queries(pass *p, const struct layer *l)
{
    run_heads(p, l, queries_part);
}

void latent_outputs(pass *p, const struct layer *l)
{
    run_heads(p, l, outputs_part);
}

/* ---- keys and values of heads ---- */

/* The key and the value of a head from a row of the cache; k and v may be NULL. */
static void expand(const struct layer *l, size_t head, const float *kept, float *k, float *v)
{
    const struct model_shape *d = l->shape;
    size_t R = d->n_latent, nope = d->head_dim - d->n_rot;
    const float *w = l->k_up + head * R * nope;
    if (k)
        memset(k, 0, nope * sizeof *k);
    for (size_t j = 0; k && j < R; j++, w += nope)
        for (size_t i = 0; i < nope; i++)
            k[i] = fmaf(w[i], kept[j], k[i]);
    if (k)
        memcpy(k + nope, kept + R, d->n_rot * sizeof *k);
    w = l->v_up + head * R * d->value_dim;
    for (size_t i = 0; v && i < d->value_dim; i++, w += R) {
        v[i] = 0;
        for (size_t j = 0; j < R; j++)
            v[i] = fmaf(w[j], kept[j], v[i]);
    }
}

static void show_part(void *ctx, int worker, int n_workers)
{
    const struct latent_job *job = ctx;
    const pass *p = job->p;
    const struct model_shape *d = job->l->shape;
    size_t i, last;
    pool_split(p->n * d->n_head, worker, n_workers, &i, &last);
    for (; i < last; i++) {
        size_t row = i / d->n_head, h = i % d->n_head;
        expand(job->l, h, p->s->latent + row * d->kept_dim, p->s->k + i * d->head_dim,
               p->s->v + i * d->value_dim);
    }
}

void latent_show(pass *p, const struct layer *l)
{
    struct latent_job job = {.p = p, .l = l};
    pool_run(p->pool, show_part, &job);
}

int latent_read(const mgpt_session *s, struct kv_part part, float *k, float *v, mgpt_error *err)
{
    const struct layer *l = &s->model->layers[part.layer];
    const struct model_shape *d = l->shape;
    size_t n = part.n * d->kept_dim, head = part.head;
    float *kept = mem_new(n, sizeof *kept);
    if (!kept)
        return err_memory(err, "rows of the cache", n * sizeof *kept);
    part.head = 0;
    kv_get(&s->kv, part, NULL, kept, NULL);
    for (size_t i = 0; i < part.n; i++)
        expand(l, head, kept + i * d->kept_dim, k ? k + i * d->head_dim : NULL,
               v ? v + i * d->value_dim : NULL);
    free(kept);
    return MGPT_OK;
}
