/* Attention stage by stage. See attend_stages.h.
 *
 * The order of every sum is the kernels'; nothing is computed here that they can compute. As in the
 * engine, causality is the bounds of a row: softmax and mix get what a query sees.
 */
#include "attend/attend_stages.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct stage_job {
    const struct attend_input *in;
    const struct kernels *kernels;
    struct attend_stages *out;
    mgpt_error *err;
};

/* ---- sizes ---- */

static int check_rows(const char *name, const struct matrix *w, size_t n, mgpt_error *err)
{
    if (w->rows == n)
        return MGPT_OK;
    return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                   "%s is %zu x %zu: expected %zu rows, one for each column of X", name, w->rows,
                   w->cols, n);
}

static int check_n_heads(const char *name, const struct matrix *w, size_t n, mgpt_error *err)
{
    if (w->cols % n == 0)
        return MGPT_OK;
    return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                   "%s is %zu x %zu: its columns cannot be cut into %zu heads", name, w->rows,
                   w->cols, n);
}

static int check_matrices(const struct attend_input *in, mgpt_error *err)
{
    int status = check_rows("W_Q", in->wq, in->x->cols, err);
    if (status == MGPT_OK)
        status = check_rows("W_K", in->wk, in->x->cols, err);
    if (status == MGPT_OK)
        status = check_rows("W_V", in->wv, in->x->cols, err);
    if (status == MGPT_OK && in->wq->cols != in->wk->cols)
        status = err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                         "W_Q has %zu columns and W_K %zu: a query and a key must be as long",
                         in->wq->cols, in->wk->cols);
    if (status == MGPT_OK)
        status = check_n_heads("W_Q", in->wq, in->n_heads, err);
    return status < 0 ? status : check_n_heads("W_V", in->wv, in->n_heads, err);
}

/* ---- products ---- */

/* Rows [n_out][n_in], n_in of them every ld floats, in the panels that the kernels take; NULL. */
static float *pack(const struct stage_job *job, const float *rows, size_t n_out, size_t n_in,
                   size_t row_step, size_t column_step)
{
    float *packed = mem_new(panels_of(n_out) * PANEL * n_in, sizeof *packed);
    float *plain = mem_new(n_out * n_in, sizeof *plain);
    for (size_t i = 0; plain && i < n_out * n_in; i++)
        plain[i] = rows[i / n_in * row_step + i % n_in * column_step];
    if (packed && plain)
        job->kernels->pack[WEIGHT_F32](packed, plain, n_in, n_out, 0, panels_of(n_out));
    else
        err_memory(job->err, "a packed matrix", n_out * n_in * sizeof *packed);
    if (!plain) {
        free(packed);
        packed = NULL;
    }
    free(plain);
    return packed;
}

/* y = X W. The kernel's rows are W's columns. */
static int project(const struct stage_job *job, struct matrix *y, const struct matrix *w)
{
    const struct matrix *x = job->in->x;
    int status = matrix_new(y, x->rows, w->cols, job->err);
    if (status < 0)
        return status;
    float *packed = pack(job, w->v, w->cols, w->rows, 1, w->cols);
    if (!packed)
        return MGPT_EMEM;
    size_t n_work = kernels_work_bytes(x->rows);
    void *work = mem_new(n_work, 1);
    if (work)
        job->kernels->matmul[WEIGHT_F32](&(struct matmul){.y = y->v,
                                                          .ldy = y->cols,
                                                          .w = packed,
                                                          .x = x->v,
                                                          .x_stride = x->cols * sizeof *x->v,
                                                          .n = x->rows,
                                                          .n_in = w->rows,
                                                          .n_out = w->cols,
                                                          .p1 = panels_of(w->cols),
                                                          .work = work});
    else
        status = err_memory(job->err, "scratch", n_work);
    free(work);
    free(packed);
    return status;
}

/* ---- one head ---- */

/* s = by Q K^T of a head. Kernels write whole panels, so the last may need more room than there
 * is. */
static int scores(const struct stage_job *job, size_t head, const float *keys, float by,
                  struct matrix *s)
{
    const struct matrix *q = &job->out->q;
    size_t n = q->rows, d = q->cols / job->in->n_heads, stride = panels_of(n) * PANEL;
    float *wide = mem_new(stride, sizeof *wide);
    if (!wide || matrix_new(s, n, n, job->err) < 0) {
        free(wide);
        return err_memory(job->err, "a row of scores", stride * sizeof *wide);
    }
    for (size_t i = 0; i < n; i++) {
        const float *row = q->v + i * q->cols + head * d;
        job->kernels->scores[KV_F32](&(struct scores){wide, stride, keys, &row, 1, d, by, 0,
                                                      panels_of(n), job->kernels, NULL, 0});
        memcpy(s->v + i * n, wide, n * sizeof *wide);
    }
    free(wide);
    return MGPT_OK;
}

/* The number of keys that query i sees: the first ones with a causal mask, else all. */
static size_t is_seen(const struct stage_job *job, size_t i)
{
    return job->in->causal ? i + 1 : job->in->x->rows;
}

static int soften(const struct stage_job *job, struct attend_head *h)
{
    size_t n = h->scaled.rows;
    if (matrix_new(&h->masked, n, n, job->err) < 0 || matrix_new(&h->a, n, n, job->err) < 0)
        return MGPT_EMEM;
    for (size_t i = 0; i < n; i++) {
        float *masked = h->masked.v + i * n, *a = h->a.v + i * n;
        memcpy(masked, h->scaled.v + i * n, n * sizeof *masked);
        for (size_t j = is_seen(job, i); j < n; j++)
            masked[j] = -INFINITY;
        memcpy(a, masked, is_seen(job, i) * sizeof *a);
        job->kernels->softmax(a, is_seen(job, i));
    }
    return MGPT_OK;
}

static int attend_stages_mix(const struct stage_job *job, size_t head, struct attend_head *h)
{
    struct matrix *v = &job->out->v, *all = &job->out->out;
    size_t n = v->rows, d = v->cols / job->in->n_heads;
    if (matrix_new(&h->out, n, d, job->err) < 0)
        return MGPT_EMEM;
    for (size_t i = 0; i < n; i++) {
        float *o = h->out.v + i * d;
        const struct mix mix = {
            &o, h->a.v + i * n, n, v->v + head * d, v->cols, 1, is_seen(job, i), d, 0, 0, 0};
        job->kernels->mix[KV_F32](&mix);
        memcpy(all->v + i * all->cols + head * d, o, d * sizeof *o);
    }
    return MGPT_OK;
}

/* Numbers near the largest float32 have no finite product. */
static int check_finite(const struct matrix *m, const char *name, mgpt_error *err)
{
    for (size_t i = 0; i < m->rows * m->cols; i++)
        if (!isfinite(m->v[i]))
            return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                           "%s: row %zu, column %zu is too large for float32", name,
                           i / m->cols + 1, i % m->cols + 1);
    return MGPT_OK;
}

static int run_head(const struct stage_job *job, size_t head)
{
    struct attend_head *h = &job->out->heads[head];
    const struct matrix *k = &job->out->k;
    size_t d = k->cols / job->in->n_heads;
    float *keys = pack(job, k->v + head * d, k->rows, d, k->cols, 1);
    if (!keys)
        return MGPT_EMEM;
    int status = scores(job, head, keys, 1, &h->s);
    if (status == MGPT_OK)
        status = scores(job, head, keys, (float)(1 / job->out->tau), &h->scaled);
    free(keys);
    if (status == MGPT_OK)
        status = check_finite(&h->s, "S", job->err);
    if (status == MGPT_OK)
        status = check_finite(&h->scaled, "S / tau", job->err);
    if (status == MGPT_OK)
        status = soften(job, h);
    if (status == MGPT_OK)
        status = attend_stages_mix(job, head, h);
    return status < 0 ? status : check_finite(&h->out, "A V", job->err);
}

/* ---- all ---- */

static int run_all(const struct stage_job *job)
{
    const struct attend_input *in = job->in;
    struct attend_stages *out = job->out;
    int status = project(job, &out->q, in->wq);
    if (status == MGPT_OK)
        status = project(job, &out->k, in->wk);
    if (status == MGPT_OK)
        status = project(job, &out->v, in->wv);
    if (status == MGPT_OK)
        status = matrix_new(&out->out, in->x->rows, in->wv->cols, job->err);
    for (size_t i = 0; i < in->n_heads && status == MGPT_OK; i++)
        status = run_head(job, i);
    return status;
}

int attend_run(struct attend_stages *stages, const struct attend_input *in,
               const struct kernels *kernels, mgpt_error *err)
{
    struct stage_job job = {in, kernels, stages, err};
    *stages = (struct attend_stages){.tau = in->tau, .n_heads = in->n_heads};
    int status = check_matrices(in, err);
    if (status < 0)
        return status;
    if (in->tau == 0)
        stages->tau = sqrt((double)(in->wq->cols / in->n_heads));
    stages->heads = calloc(in->n_heads, sizeof *stages->heads);
    if (!stages->heads)
        return err_memory(err, "the heads", in->n_heads * sizeof *stages->heads);
    status = run_all(&job);
    if (status < 0)
        attend_free(stages);
    return status;
}

void attend_free(struct attend_stages *s)
{
    for (size_t i = 0; s->heads && i < s->n_heads; i++) {
        struct attend_head *h = &s->heads[i];
        matrix_free(&h->s);
        matrix_free(&h->scaled);
        matrix_free(&h->masked);
        matrix_free(&h->a);
        matrix_free(&h->out);
    }
    free(s->heads);
    matrix_free(&s->q);
    matrix_free(&s->k);
    matrix_free(&s->v);
    matrix_free(&s->out);
    *s = (struct attend_stages){0};
}
