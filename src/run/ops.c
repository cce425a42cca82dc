/* The operations of the page except matrix products and attention. See ops.h. */
#include "run/ops.h"

#include "base/dmath.h"
#include "base/mem.h"

#include <string.h>

/* ---- splitting ---- */

/* One operation over n units (rows or elements). fn does units [first, last). */
struct row_split {
    pass *p;
    size_t n;
    void (*fn)(const struct row_split *s, size_t first, size_t last);
    const struct norm *norm;
    const struct layer *layer;
    float *to;
    const float *from;
    float by;
};

static void split_part(void *ctx, int worker, int n_workers)
{
    const struct row_split *s = ctx;
    size_t first, last;
    pool_split(s->n, worker, n_workers, &first, &last);
    if (first < last)
        s->fn(s, first, last);
}

static void split_rows(struct row_split *s, size_t bytes_each)
{
    pool_run_sized(s->n > 1 ? s->p->pool : NULL, s->n * bytes_each, split_part, s);
}

/* ---- embedding ---- */

/* Cosines and sines of position * frequency, in float64, rounded once to float32, and the factor of
 * queries. */
static void rope_angles(const mgpt_model *m, size_t pos, float *row)
{
    for (int which = 0; which < N_ROPES; which++) {
        const struct rope *rope = &m->ropes[which];
        float *cs = row + rope->row;
        for (size_t i = 0; rope->freq && i < rope->n_rot / 2; i++) {
            double sine, cosine;
            d_sincos((double)pos * rope->freq[i], &sine, &cosine);
            cs[2 * i] = (float)(cosine * rope->scale);
            cs[2 * i + 1] = (float)(sine * rope->scale);
        }
    }
    if (m->query_beta > 0)
        row[m->n_cs - 1] =
            (float)(1 + (double)m->query_beta * d_log((double)(1 + pos / m->query_context)));
    if (m->query_power > 0)
        row[m->n_cs - 1] =
            (float)d_exp((double)m->query_power * d_log(1 + (double)(pos + 1) / 2048));
}

/* Sets the rows' pointers to their angles. A session computes the angles of each position once. */
static void find_rope_angles(pass *p)
{
    const mgpt_model *m = p->model;
    for (size_t i = 0; m->n_cs && i < p->n_segments; i++) {
        const struct segment *seg = &p->segments[i];
        mgpt_session *s = seg->session;
        for (size_t pos = arr_len(s->angles) / m->n_cs; pos < seg->pos + seg->n; pos++) {
            rope_angles(m, pos, s->angles + pos * m->n_cs);
            arr_set_len(s->angles, (pos + 1) * m->n_cs);
        }
        for (size_t j = 0; j < seg->n; j++)
            p->s->cs[seg->row + j] = s->angles + (seg->pos + j) * m->n_cs;
    }
}

static void token_part(const struct row_split *s, size_t first, size_t last)
{
    const mgpt_model *m = s->p->model;
    const struct segment *seg = s->p->segments;
    size_t E = m->shape.n_embd;
    for (size_t i = first; i < last; i++) {
        while (i >= seg->row + seg->n)
            seg++;
        size_t token = (size_t)seg->session->tokens[seg->pos + i - seg->row];
        model_table_row(m, m->token_embd, token, s->to + i * E);
    }
    if (m->embd_scale != 1)
        s->p->kernels->scale(s->to + first * E, m->embd_scale, (last - first) * E);
}

void token_rows(pass *p, mat x)
{
    if (p->model->packed_bytes * p->n >= POOL_WORTH_WAKING)
        pool_wake(p->pool);
    split_rows(&(struct row_split){.p = p, .n = x.n, .fn = token_part, .to = x.at},
               x.cols * sizeof(float));
}

mat position_rows(pass *p, mat y)
{
    const struct gguf_tensor *table = p->model->position_embd;
    find_rope_angles(p);
    if (!table)
        return (mat){NULL, 0, 0};
    for (size_t i = 0; i < p->n_segments; i++) {
        const struct segment *seg = &p->segments[i];
        for (size_t j = 0; j < seg->n; j++)
            model_table_row(p->model, table, seg->pos + j, y.at + (seg->row + j) * y.cols);
    }
    return y;
}

/* ---- rows ---- */

static const float *gain_of_row(const struct norm *norm, size_t i)
{
    return norm->n_gains ? norm->gain + i % norm->n_gains * norm->width : norm->gain;
}

static void norm_rows(const pass *p, const struct norm *norm, float *y, const float *x, size_t n)
{
    size_t w = norm->width;
    float eps = p->model->eps;
    if (norm->kind == NORM_NONE && y != x)
        memcpy(y, x, n * w * sizeof *y);
    for (size_t i = 0; norm->kind == NORM_RMS && i < n; i++)
        p->kernels->rmsnorm(y + i * w, x + i * w, gain_of_row(norm, i), norm->bias, w, eps);
    for (size_t i = 0; norm->kind == NORM_LAYER && i < n; i++)
        p->kernels->layernorm(y + i * w, x + i * w, gain_of_row(norm, i), norm->bias, w, eps);
}

static void normalize_part(const struct row_split *s, size_t first, size_t last)
{
    size_t w = s->norm->width;
    norm_rows(s->p, s->norm, s->to + first * w, s->from + first * w, last - first);
}

mat norm(pass *p, mat y, const struct norm *norm, mat x)
{
    y.n = x.n;
    if (norm->kind != NORM_NONE || y.at != x.at)
        split_rows(
            &(struct row_split){
                .p = p, .n = x.n, .fn = normalize_part, .norm = norm, .to = y.at, .from = x.at},
            2 * norm->width * sizeof(float));
    return y;
}

static void scale_part(const struct row_split *s, size_t first, size_t last)
{
    s->p->kernels->scale(s->to + first, s->by, last - first);
}

void scale_rows(pass *p, mat y, float by)
{
    if (by != 1)
        split_rows(
            &(struct row_split){.p = p, .n = y.n * y.cols, .fn = scale_part, .to = y.at, .by = by},
            2 * sizeof(float));
}

void post_norm(pass *p, const struct norm *n, mat y)
{
    norm(p, y, n, y);
    scale_rows(p, y, p->model->residual_scale);
    if (!p->model->arch->residual_by_depth)
        return;
    double k = 2 * (double)p->il + 1 + (n == &p->model->layers[p->il].post_ffn_norm);
    scale_rows(p, y, (float)(1 / __builtin_sqrt(k + 1)));
    scale_rows(p, p->x, (float)__builtin_sqrt(k / (k + 1)));
}

static void norm_qk(const pass *p, const struct layer *l, float *q, float *k, size_t n)
{
    size_t n_q = n * p->q.cols, n_k = n * p->k.cols;
    norm_rows(p, &l->q_norm, q, q, n_q / l->q_norm.width);
    norm_rows(p, &l->k_norm, k, k, n_k / l->k_norm.width);
    if (l->q_norm.kind != NORM_NONE && p->model->qkv_clamp != 0) {
        p->kernels->clamp(q, p->model->qkv_clamp, n_q);
        p->kernels->clamp(k, p->model->qkv_clamp, n_k);
    }
}

/* 1: queries of the layer have a factor that grows with their position. */
static int grows_queries(const mgpt_model *m, const struct layer *l)
{
    return m->query_beta > 0 || (m->query_power > 0 && !l->rope);
}

static void qk_norm_rope_part(const struct row_split *s, size_t first, size_t last)
{
    const pass *p = s->p;
    const struct layer *l = s->layer;
    const struct arch *arch = p->model->arch;
    const struct model_shape *d = l->shape;
    size_t n_q = p->q.cols, n_k = l->heads ? d->kept_dim : p->k.cols; /* n_k 0: another layer's */
    size_t skip = l->heads ? d->head_dim - d->n_rot : 0;
    float *q = p->s->q + first * n_q, *k = kept_keys(p) + first * n_k;
    if (!p->model->rope_first)
        norm_qk(p, l, q, k, last - first);
    for (size_t i = 0; l->rope && i < last - first; i++) {
        const float *cs = p->s->cs[first + i] + l->rope->row;
        p->kernels->rope(q + i * n_q + skip, cs, d->n_head, d->head_dim, l->rope->n_rot,
                         arch->pairs);
        p->kernels->rope(k + i * n_k + d->n_latent, cs, n_k / d->kept_dim, d->kept_dim,
                         l->rope->n_rot, arch->pairs);
    }
    if (p->model->rope_first)
        norm_qk(p, l, q, k, last - first);
    for (size_t i = 0; grows_queries(p->model, l) && i < last - first; i++)
        p->kernels->scale(q + i * n_q, p->s->cs[first + i][p->model->n_cs - 1], n_q);
}

void qk_norm_rope(pass *p, const struct layer *l)
{
    if (l->rope || grows_queries(p->model, l) || l->q_norm.kind != NORM_NONE ||
        l->k_norm.kind != NORM_NONE)
        split_rows(&(struct row_split){.p = p, .n = p->n, .fn = qk_norm_rope_part, .layer = l},
                   2 * (p->q.cols + p->k.cols) * sizeof(float));
    if (l->heads && TAPPED(p, MGPT_ROT_K))
        latent_show(p, l);
}

/* Heads go to threads in the order of attention.c, so a thread's newest keys are in its cache. */
static void kv_append_part(void *ctx, int worker, int n_workers)
{
    const pass *p = ctx;
    const struct model_shape *d = p->model->layers[p->il].shape;
    size_t n_keys = d->n_kept * d->kept_dim, n_values = d->n_kept * d->kept_value, turn = 0;
    for (size_t i = 0; i < p->n_segments; i++) {
        const struct segment *seg = &p->segments[i];
        for (size_t h = 0; h < d->n_kept; h++)
            if (turn++ % (size_t)n_workers == (size_t)worker)
                kv_put(&seg->session->kv, p->kernels, (struct kv_part){p->il, h, seg->pos, seg->n},
                       kept_keys(p) + seg->row * n_keys, kept_values(p) + seg->row * n_values);
    }
}

enum { STORES_WORTH_SPLITTING = 8192 }; /* floats: chunks use the threads, single steps do not */

void kv_append(pass *p)
{
    const struct layer *l = &p->model->layers[p->il];
    int worth = p->n * l->shape->n_kv >= STORES_WORTH_SPLITTING;
    if (l->conv)
        convolution_append(p);
    else if (l->kv_from == p->il)
        pool_run(worth ? p->pool : NULL, kv_append_part, p);
}

mat logit_rows(pass *p)
{
    size_t E = p->model->shape.n_embd;
    for (size_t i = 0; i < p->n_segments; i++) {
        const struct segment *seg = &p->segments[i];
        const struct out_rows out = out_rows(p, seg);
        if (out.n > 0)
            memcpy(p->h.at + out.at * E, p->s->x + (seg->row + seg->n - out.n - out.after) * E,
                   out.n * E * sizeof *p->s->x);
    }
    return (mat){p->h.at, p->stopped ? 0 : p->logits.n, E};
}

mat head_input(pass *p, mat h)
{
    const mgpt_model *m = p->model;
    mat y = {p->s->a, h.n, h.cols};
    if (!m->head_dense.w)
        return h;
    matmul(p, y, &m->head_dense, h);
    p->kernels->act[m->act](y.at, y.n * y.cols);
    return norm(p, y, &m->head_norm, y);
}

/* ---- elements ---- */

static void mix_in_x0_part(const struct row_split *s, size_t first, size_t last)
{
    s->p->kernels->axpby(s->to + first, s->layer->x_scale, s->layer->x0_scale, s->from + first,
                         last - first);
}

void mix_in_x0(pass *p, const struct layer *l)
{
    size_t n = p->n * p->model->shape.n_embd;
    if (!p->model->mixes_x0)
        return;
    if (l == p->model->layers)
        memcpy(p->s->x0, p->s->x, n * sizeof *p->s->x0);
    split_rows(
        &(struct row_split){
            .p = p, .n = n, .fn = mix_in_x0_part, .layer = l, .to = p->s->x, .from = p->s->x0},
        2 * sizeof(float));
}

static void add_rows_part(const struct row_split *s, size_t first, size_t last)
{
    s->p->kernels->add(s->to + first, s->from + first, last - first);
}

void add_rows(pass *p, mat x, mat y)
{
    if (y.at)
        split_rows(
            &(struct row_split){
                .p = p, .n = x.n * x.cols, .fn = add_rows_part, .to = x.at, .from = y.at},
            2 * sizeof(float));
}

static void softcap_part(const struct row_split *s, size_t first, size_t last)
{
    s->p->kernels->softcap(s->to + first, s->p->model->logit_softcap, last - first);
}

void scale_and_cap(pass *p)
{
    mat y = p->logits;
    scale_rows(p, y, p->model->logit_scale);
    if (p->model->logit_softcap > 0)
        split_rows(&(struct row_split){.p = p, .n = y.n * y.cols, .fn = softcap_part, .to = y.at},
                   2 * sizeof(float));
}
