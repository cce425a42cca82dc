/* Floor 5. The verbs of the page. See verbs.h. */
#include "verbs.h"

#include "dmath.h"

#include <string.h>

/* Fewer multiply-adds than this are not worth a hand-over to other threads. */
enum { WORK_WORTH_SPLITTING = 1 << 16 };

static void lookup(const struct gguf_tensor *table, size_t row, float *out)
{
    size_t n = (size_t)table->dims[0];
    size_t row_bytes = n / table->type->block * table->type->block_bytes;
    table->type->to_float(table->data + row * row_bytes, out, n);
}

/* Angles in float64, rounded once: position * frequency, exact sine and cosine. */
static void angles(const mgpt_model *m, size_t pos, float *row)
{
    for (int which = 0; which < N_ROPES; which++) {
        const struct rope *rope = &m->ropes[which];
        float *cs = row + rope->row;
        for (size_t i = 0; rope->freq && i < m->shape.n_rot / 2; i++) {
            double sine, cosine;
            d_sincos((double)pos * rope->freq[i], &sine, &cosine);
            cs[2 * i] = (float)cosine;
            cs[2 * i + 1] = (float)sine;
        }
    }
}

void embed(struct run *r)
{
    const mgpt_model *m = r->model;
    size_t E = m->shape.n_embd;
    for (size_t i = 0; i < r->n; i++)
        lookup(m->token_embd, (size_t)r->tokens[i], r->s->x + i * E);
    if (m->embd_scale != 1)
        r->kernels->scale(r->s->x, m->embd_scale, r->n * E);
    TAP(r, MGPT_EMBD, -1, r->s->x, E);
    for (size_t i = 0; i < r->n_segments; i++) {
        const struct segment *seg = &r->segments[i];
        for (size_t j = 0; j < seg->n; j++) {
            angles(m, seg->pos + j, r->s->cs + (seg->row + j) * m->n_cs);
            if (m->position_embd)
                lookup(m->position_embd, seg->pos + j, r->s->h + (seg->row + j) * E);
        }
    }
    if (!m->position_embd)
        return;
    TAP(r, MGPT_POS_EMBD, -1, r->s->h, E);
    r->kernels->add(r->s->x, r->s->h, r->n * E);
}

void normalize(struct run *r, const struct norm *norm, float *y, const float *x, size_t n)
{
    size_t w = norm->width;
    float eps = r->model->eps;
    if (norm->kind == NORM_NONE && y != x)
        memcpy(y, x, n * w * sizeof *y);
    for (size_t i = 0; norm->kind == NORM_RMS && i < n; i++)
        r->kernels->rmsnorm(y + i * w, x + i * w, norm->gain, norm->bias, w, eps);
    for (size_t i = 0; norm->kind == NORM_LAYER && i < n; i++)
        r->kernels->layernorm(y + i * w, x + i * w, norm->gain, norm->bias, w, eps);
}

void blend(struct run *r, const struct layer *l)
{
    size_t n = r->n * r->model->shape.n_embd;
    if (!r->model->blends)
        return;
    if (l == r->model->layers)
        memcpy(r->s->x0, r->s->x, n * sizeof *r->s->x0);
    r->kernels->blend(r->s->x, l->keep, l->blend, r->s->x0, n);
}

struct linear_job {
    const struct kernels *kernels;
    const struct linear *l;
    float *y;
    const float *x;
    size_t n;
};

static void linear_part(void *ctx, int worker, int n_workers)
{
    const struct linear_job *job = ctx;
    const struct linear *l = job->l;
    size_t p0, p1;
    pool_split(panels_of(l->n_out), worker, n_workers, &p0, &p1);
    if (p0 == p1)
        return;
    job->kernels->linear[l->type](job->y, l->n_out, l->w, job->x, l->n_in, job->n, l->n_in,
                                  l->n_out, p0, p1);
    size_t r0 = p0 * PANEL, r1 = p1 * PANEL < l->n_out ? p1 * PANEL : l->n_out;
    for (size_t i = 0; l->bias && i < job->n; i++)
        job->kernels->add(job->y + i * l->n_out + r0, l->bias + r0, r1 - r0);
}

void linear(struct run *r, const struct linear *l, float *y, const float *x, size_t n)
{
    if (n == 0)
        return;
    struct linear_job job = {r->kernels, l, y, x, n};
    int worth = l->n_in * l->n_out * n >= WORK_WORTH_SPLITTING;
    pool_run(worth ? r->pool : NULL, linear_part, &job);
}

void clamp_qkv(struct run *r)
{
    const struct shape *d = &r->model->shape;
    float limit = r->model->qkv_clamp;
    if (limit == 0)
        return;
    r->kernels->clamp(r->s->q, limit, r->n * d->n_q);
    r->kernels->clamp(r->s->k, limit, r->n * d->n_kv);
    r->kernels->clamp(r->s->v, limit, r->n * d->n_kv);
}

void position_qk(struct run *r, const struct layer *l)
{
    const struct shape *d = &r->model->shape;
    enum rope_pairs pairs = r->model->arch->pairs;
    float *q = r->s->q, *k = r->s->k;
    normalize(r, &l->q_norm, q, q, r->n * d->n_q / l->q_norm.width);
    normalize(r, &l->k_norm, k, k, r->n * d->n_kv / l->k_norm.width);
    for (size_t i = 0; l->rope && i < r->n; i++) {
        const float *cs = r->s->cs + i * r->model->n_cs + l->rope->row;
        r->kernels->rope(q + i * d->n_q, cs, d->n_head, d->head_dim, d->n_rot, pairs);
        r->kernels->rope(k + i * d->n_kv, cs, d->n_head_kv, d->head_dim, d->n_rot, pairs);
    }
}

void remember(struct run *r, size_t layer)
{
    size_t n_kv = r->model->shape.n_kv;
    for (size_t i = 0; i < r->n_segments; i++) {
        const struct segment *seg = &r->segments[i];
        for (size_t j = seg->row; j < seg->row + seg->n; j++)
            kv_put(&seg->session->kv, layer, seg->pos + j - seg->row, r->s->k + j * n_kv,
                   r->s->v + j * n_kv);
    }
}

void activate(struct run *r, const struct layer *l)
{
    size_t n = r->n * r->model->shape.n_ff;
    r->kernels->act[r->model->act](r->s->gate, n);
    if (l->gate.w)
        r->kernels->mul(r->s->gate, r->s->up, n);
}

void residual(struct run *r, const float *y, int now)
{
    if (now)
        r->kernels->add(r->s->x, y, r->n * r->model->shape.n_embd);
}

void softcap(struct run *r)
{
    const mgpt_model *m = r->model;
    if (m->logit_softcap > 0)
        r->kernels->softcap(r->logits, m->logit_softcap, r->n_out * m->shape.n_vocab);
}

void gather_out(struct run *r, float *h)
{
    size_t E = r->model->shape.n_embd;
    for (size_t i = 0; i < r->n_segments; i++) {
        const struct segment *seg = &r->segments[i];
        const float *from = r->s->x + (seg->row + seg->n - seg->n_out) * E;
        memcpy(h + seg->out * E, from, seg->n_out * E * sizeof *h);
    }
}
