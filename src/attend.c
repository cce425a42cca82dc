/* Floor 5. Softmax attention of a query over the growing cache (Vaswani et al. 2017, eq. 1).
 *
 * One query sees the keys 0..pos of its own session, or the last `window` of them: causality is the
 * length of the loop, there is no mask. Work is split by KV head; the query heads of a group share its keys and values. A query that is
 * tapped goes through the same three stages, only with the callbacks between them.
 */
#include "session.h"

#include <math.h>

struct attend_job {
    struct run *r;
    const struct segment *seg;
    size_t layer;
    size_t i; /* row within the segment */
    int stages;
};

enum { SCORE = 1, SOFTMAX = 2, MIX = 4 };

static void fill(float *x, float value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = value;
}

/* scores = scale q . k over the keys in sight; weights = softmax(scores); o = weights . v */
static void attend_head(const struct attend_job *job, size_t head)
{
    const struct run *r = job->r;
    const struct shape *d = &r->model->shape;
    const struct kv *kv = &job->seg->session->kv;
    size_t group = head / (d->n_head / d->n_head_kv), n_keys = job->seg->pos + job->i + 1;
    size_t window = r->model->layers[job->layer].window, row = job->seg->row + job->i;
    size_t first = window && n_keys > window ? n_keys - window : 0; /* key in sight */
    float *scores = r->s->scores + head * r->s->score_stride;
    int watched = job->stages != (SCORE | SOFTMAX | MIX);
    if (job->stages & SCORE) {
        const float *q = r->s->q + row * d->n_q + head * d->head_dim;
        r->kernels->linear[WEIGHT_F32](scores, 0, kv_keys(kv, job->layer, group), q, 0, 1,
                                       d->head_dim, n_keys, first / PANEL, panels_of(n_keys));
        r->kernels->scale(scores + first, r->model->attn_scale, n_keys - first);
        if (watched)
            fill(scores, -INFINITY, first);
    }
    if (job->stages & SOFTMAX) {
        r->kernels->softmax(scores + first, n_keys - first);
        if (watched)
            fill(scores, 0, first);
    }
    if (job->stages & MIX)
        r->kernels->mix(r->s->o + row * d->n_q + head * d->head_dim, scores + first,
                        kv_values(kv, job->layer, group) + first * d->head_dim, n_keys - first,
                        d->head_dim);
}

static void attend_part(void *ctx, int worker, int n_workers)
{
    struct attend_job job = *(const struct attend_job *)ctx;
    const struct shape *d = &job.r->model->shape;
    size_t g0, g1, per_group = d->n_head / d->n_head_kv;
    pool_split(d->n_head_kv, worker, n_workers, &g0, &g1);
    size_t rows = job.stages == (SCORE | SOFTMAX | MIX) ? job.seg->n : job.i + 1;
    for (; job.i < rows; job.i++)
        for (size_t head = g0 * per_group; head < g1 * per_group; head++)
            attend_head(&job, head);
}

/* Row by row with the taps between the stages. */
static void attend_tapped(struct attend_job *job)
{
    struct run *r = job->r;
    size_t stride = r->s->score_stride;
    for (job->i = 0; job->i < job->seg->n; job->i++) {
        size_t pos = job->seg->pos + job->i;
        job->stages = SCORE;
        attend_part(job, 0, 1);
        tap_heads(r, job->seg, MGPT_SCORES, job->layer, pos, r->s->scores, stride);
        job->stages = SOFTMAX;
        attend_part(job, 0, 1);
        tap_heads(r, job->seg, MGPT_WEIGHTS, job->layer, pos, r->s->scores, stride);
        job->stages = MIX;
        attend_part(job, 0, 1);
    }
}

void attend(struct run *r, size_t layer)
{
    const struct shape *d = &r->model->shape;
    for (size_t s = 0; s < r->n_segments; s++) {
        const struct segment *seg = &r->segments[s];
        struct attend_job job = {r, seg, layer, 0, SCORE | SOFTMAX | MIX};
        if (TAPPED(r, MGPT_SCORES) || TAPPED(r, MGPT_WEIGHTS)) {
            attend_tapped(&job);
            continue;
        }
        size_t work = d->n_q * seg->n * (seg->pos + seg->n) * 2;
        pool_run(work >= (1 << 16) ? r->pool : NULL, attend_part, &job);
    }
}
