/* These parts change the residual stream, values and heads, besides the branches (nanochat of 2026; the gates of heads
 * are AFMoE's, LFM3's and Laguna's):
 *
 *     smear             x_t = x_t + s sigmoid(W x_t) x_{t-1}     after the embedding's norm, t > 0
 *     value embeddings  v_g = v_g + c sigmoid(W h)_g E[token]_g  for each KV head g
 *                       (Gemma 4: v_g = norm(v_g), where v is k in layers without a W_v; MiMo: v times a number)
 *     backout           x = x - b x_mid                          x_mid: x after layer n_layer / 2
 *     head gates        o_h = sigmoid(W h)_h o_h                 for each head h, or each value of it
 *                       (Laguna: log(1 + e^(W h)))
 *
 * W of the others' gates has the first values of x or h only. The row x_{t-1} of smear is computed from its
 * token, not taken from the pass: so it is the same in any chunk, batch and fork, and a tap that
 * changes the embedding of a token changes only that token's row.
 */
#include "base/dmath.h"
#include "run/ops.h"

#include <string.h>

void sigmoid_row(const struct kernels *kernels, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float two[2] = {x[i], 0};
        kernels->softmax(two, 2);
        x[i] = two[0];
    }
}

/* A number for each row: y = by sigmoid(l x), from the first columns of x. `in` is scratch. */
static void gates(pass *p, mat y, const struct linear *l, float by, mat x, float *in)
{
    const struct kernels *kernels = &p->model->kernels;
    for (size_t i = 0; i < x.n; i++)
        memcpy(in + i * l->n_in, x.at + i * x.cols, l->n_in * sizeof *in);
    matmul(p, y, l, (mat){in, x.n, l->n_in});
    sigmoid_row(kernels, y.at, y.n * y.cols);
    kernels->scale(y.at, by, y.n * y.cols);
}

void embed_token(const pass *p, const struct segment *seg, size_t pos, float *y)
{
    const mgpt_model *m = p->model;
    size_t E = m->shape.n_embd;
    model_table_row(m, m->token_embd, (size_t)seg->session->tokens[pos], y);
    if (m->embd_scale != 1)
        m->kernels.scale(y, m->embd_scale, E);
    if (m->embd_norm.kind == NORM_RMS)
        m->kernels.rmsnorm(y, y, m->embd_norm.gain, NULL, E, m->eps);
}

void smear(pass *p, mat x)
{
    const struct linear *l = &p->model->smear_gate;
    mat g = {p->a.at, x.n, 1};
    if (!l->w)
        return;
    gates(p, g, l, p->model->smear_scale, x, p->h.at);
    for (size_t k = 0; k < p->n_segments; k++) {
        const struct segment *seg = &p->segments[k];
        for (size_t i = seg->pos == 0; i < seg->n; i++) {
            size_t row = seg->row + i;
            embed_token(p, seg, seg->pos + i - 1, p->h.at);
            p->model->kernels.axpby(x.at + row * x.cols, 1, g.at[row], p->h.at, x.cols);
        }
    }
}

static void add_values_part(void *ctx, int worker, int n_workers)
{
    const pass *p = ctx;
    const struct model_shape *d = &p->model->shape;
    const struct layer *l = &p->model->layers[p->il];
    const struct segment *seg = p->segments;
    size_t first, last, G = d->n_head_kv, each = d->head_dim;
    pool_split(p->n, worker, n_workers, &first, &last);
    for (size_t i = first; i < last; i++) {
        const float *g = p->s->values + p->n * d->n_kv + i * G;
        float *e = p->s->values + i * d->n_kv, *v = p->v.at + i * d->n_kv;
        while (i >= seg->row + seg->n)
            seg++;
        model_table_row(p->model, l->value_embd,
                        (size_t)seg->session->tokens[seg->pos + i - seg->row], e);
        for (size_t h = 0; h < G; h++)
            p->model->kernels.axpby(v + h * each, 1, g[h], e + h * each, each);
    }
}

/* Values that are the keys before their norm; their own norm. */
static void own_values(pass *p, const struct layer *l)
{
    mat v = {p->v.at, p->n * l->shape->n_head_kv, l->shape->head_dim};
    if (l->kv_from != p->il || l->v_norm.kind == NORM_NONE)
        return;
    if (l->v.n_out == 0)
        memcpy(v.at, p->k.at, v.n * v.cols * sizeof *v.at);
    norm(p, v, &l->v_norm, v);
}

void add_token_values(pass *p, const struct layer *l, mat h)
{
    const struct model_shape *d = l->shape;
    mat g = {p->s->values + p->n * d->n_kv, p->n, d->n_head_kv};
    own_values(p, l);
    if (p->model->value_scale != 1)
        p->kernels->scale(p->v.at, p->model->value_scale, p->v.n * p->v.cols);
    if (!l->value_embd)
        return;
    gates(p, g, &l->value_gate, p->model->value_gate_scale, h, p->a.at);
    pool_run_sized(p->n > 1 ? p->pool : NULL, 2 * p->n * d->n_kv * sizeof(float), add_values_part,
                   p);
}

/* x = log(1 + e^x) = max(x, 0) + log(1 + u), u = e^-|x|. */
static void softplus_row(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i], u = d_exp(v > 0 ? -v : v);
        double more = u < 1e-8 ? u : d_log(1 + u);
        x[i] = v == v ? (float)((v > 0 ? v : 0) + more) : x[i];
    }
}

static size_t n_gates(const pass *p)
{
    return p->model->layers[p->il].head_gate.n_out;
}

static void gates_part(void *ctx, int worker, int n_workers)
{
    const pass *p = ctx;
    size_t first, last, n = n_gates(p);
    pool_split(p->n, worker, n_workers, &first, &last);
    float *g = p->s->gate + first * n;
    if (p->model->arch->gates_softplus)
        softplus_row(g, (last - first) * n);
    else
        p->kernels->act[ACT_SIGMOID](g, (last - first) * n);
}

static void gate_part(void *ctx, int worker, int n_workers)
{
    const pass *p = ctx;
    size_t first, last, n = n_gates(p), each = p->o.cols / n;
    const float *g = p->s->gate;
    pool_split(p->n, worker, n_workers, &first, &last);
    if (each == 1)
        p->kernels->mul(p->o.at + first * n, g + first * n, (last - first) * n);
    for (size_t i = first * n; each > 1 && i < last * n; i++)
        p->kernels->scale(p->o.at + i * each, g[i], each);
}

void gate_heads(pass *p, const struct layer *l)
{
    struct pool *pool = p->n > 1 ? p->pool : NULL;
    mat g = {p->s->gate, p->n, l->head_gate.n_out};
    if (!l->head_gate.w)
        return;
    matmul(p, g, &l->head_gate, (mat){p->h.at, p->n, p->h.cols});
    pool_run_sized(pool, 2 * g.n * g.cols * sizeof(float), gates_part, p);
    SEE(GATES, g);
    pool_run_sized(pool, 2 * p->o.n * p->o.cols * sizeof(float), gate_part, p);
}

void back_out(pass *p)
{
    size_t n = p->n * p->x.cols;
    if (p->model->backout == 0)
        return;
    if (p->il == p->n_layer / 2)
        memcpy(p->s->middle, p->x.at, n * sizeof *p->s->middle);
    if (p->il + 1 == p->n_layer)
        p->model->kernels.axpby(p->x.at, 1, -p->model->backout, p->s->middle, n);
}
