/* Mixtures of experts (Shazeer et al. 2017), for any number of rows.
 *
 *     s = W_r h                        scores of the X experts
 *     p = softmax(s)                   or p_e = sigmoid(s_e)
 *     w_e = p_e for the k largest s_e  (of equal ones the first), 0 for the others; divided by their
 *                                      sum, e ascending from +0, where the model says so; scaled
 *           With a bias b, or groups:  for the k largest p_e + b_e of the groups with the largest
 *                                      one (DeepSeek-V2), or sums of their two largest (sigmoids)
 *           With a jitter j:           w_e = softmax_e of what is left of s, without scores that are
 *                                      less than s_e by more than 2 j max(|s|, s_e), for k times the
 *                                      largest s_e, which is then taken away
 *     m = g m                          the shared expert's output, g = sigmoid(W_g h) or 1; or m = 0
 *     m = fmaf(w_e, y_e, m)            y_e = W_down_e (act(W_gate_e h) * W_up_e h), e ascending;
 *                                      halved at the end where the model says so
 *
 * An expert whose weight is 0 is not computed. So a row's result does not depend on what other rows
 * choose. Rows are sorted by expert and computed in groups: as many whole experts at a time as their
 * rows fit in the scratch, which has room for each row once (or for k rows). One job computes gate
 * and up of a group, another one down; the sum is split by columns.
 */
#include "run/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct expert_scratch {
    float *weights;                  /* [n_chunk][X] scores, then weights */
    uint32_t *rows;                  /* [n_chunk X] rows of the pass, sorted by expert */
    size_t *first;                   /* [X + 1] each expert's first entry in rows */
    size_t n_rows;                   /* of the four matrices that follow */
    float *x, *f, *up, *y;           /* [n_rows][E F F E] of a group */
    struct matmul_product *products; /* [2 min(X, n_rows)] */
};

struct expert_scratch *experts_new(const mgpt_model *m, size_t n_chunk)
{
    const struct model_shape *d = &m->shape;
    struct expert_scratch *s = mem_new(1, sizeof *s);
    if (!s)
        return NULL;
    size_t n = s->n_rows = expert_rows(d, n_chunk), X = d->n_expert;
    s->weights = mem_new(n_chunk, X * sizeof *s->weights);
    s->rows = mem_new(n_chunk, X * sizeof *s->rows);
    s->first = mem_new(X + 1, sizeof *s->first);
    s->x = mem_new(n, d->n_embd * sizeof(float));
    s->f = mem_new(n, d->n_ff_expert * sizeof(float));
    s->up = mem_new(n, d->n_ff_expert * sizeof(float));
    s->y = mem_new(n, d->n_embd * sizeof(float));
    s->products = mem_new(X < n ? X : n, 2 * sizeof *s->products);
    if (s->weights && s->rows && s->first && s->x && s->f && s->up && s->y && s->products)
        return s;
    experts_free(s);
    return NULL;
}

void experts_free(struct expert_scratch *s)
{
    if (!s)
        return;
    free(s->weights);
    free(s->rows);
    free(s->first);
    free(s->x);
    free(s->f);
    free(s->up);
    free(s->y);
    free(s->products);
    free(s);
}

/* ---- weights ---- */

/* The number of the largest score that is not yet chosen; NaN is less than all others. */
static size_t largest_score(const float *s, const uint8_t *chosen, size_t n)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (!chosen[i] && (best == n || s[i] > s[best] || (s[best] != s[best] && s[i] == s[i])))
            best = i;
    return best;
}

/* The largest of a group; among sigmoids the sum of the two largest. */
static float group_score(const float *s, size_t n, int sum)
{
    uint8_t taken[MODEL_EXPERTS_MOST] = {0};
    size_t first = largest_score(s, taken, n);
    taken[first] = 1;
    return sum ? s[first] + s[largest_score(s, taken, n)] : s[first];
}

/* Experts of groups that are not used cannot be chosen. */
static void keep_groups(const mgpt_model *m, const float *s, uint8_t *chosen)
{
    float score[MODEL_EXPERTS_MOST];
    uint8_t kept[MODEL_EXPERTS_MOST] = {0};
    size_t n = m->expert_groups, each = m->shape.n_expert / n;
    for (size_t g = 0; g < n; g++)
        score[g] = group_score(s + g * each, each, m->expert_sigmoid);
    for (size_t i = 0; i < m->expert_groups_used; i++)
        kept[largest_score(score, kept, n)] = 1;
    for (size_t e = 0; e < n * each; e++)
        chosen[e] = (uint8_t)!kept[e / each];
}

enum { CHOSEN = 2 }; /* 1: cannot be */

/* Marks the chosen experts of a row: by the scores s, or by them or the probabilities p and the bias. */
static void choose(const mgpt_model *m, const struct layer *l, const float *s, const float *p,
                   uint8_t *chosen)
{
    size_t X = m->shape.n_expert;
    float by[MODEL_EXPERTS_MOST];
    int by_score = !l->expert_bias && m->expert_groups == 1;
    for (size_t i = 0; i < X; i++)
        by[i] = by_score || (l->expert_bias && m->arch->bias_of_scores) ? s[i] : p[i];
    for (size_t i = 0; i < X && l->expert_bias; i++)
        by[i] += l->expert_bias[i];
    if (m->expert_groups > 1)
        keep_groups(m, by, chosen);
    for (size_t i = 0; i < m->shape.n_expert_used; i++)
        chosen[largest_score(by, chosen, X)] = CHOSEN;
}

/* The sparse mixer: weights of the chosen from their scores, one after the other. */
static void mix_sparsely(const pass *p, float *w)
{
    size_t X = p->model->shape.n_expert;
    float s[MODEL_EXPERTS_MOST], near[MODEL_EXPERTS_MOST], most = 2 * p->model->expert_jitter;
    uint8_t taken[MODEL_EXPERTS_MOST] = {0};
    memcpy(s, w, X * sizeof *s);
    memset(w, 0, X * sizeof *w);
    for (size_t k = 0; k < p->model->shape.n_expert_used; k++) {
        size_t best = largest_score(s, taken, X);
        for (size_t e = 0; e < X; e++) {
            float size = fabsf(s[e]) > s[best] ? fabsf(s[e]) : s[best];
            near[e] = taken[e] || (s[best] - s[e]) / size > most ? -INFINITY : s[e];
        }
        p->kernels->softmax(near, X);
        w[best] = near[best] * p->model->expert_scale;
        taken[best] = 1;
    }
}

/* Turns the scores of a row into weights: 0 for experts that are not chosen. */
static void weigh_row(const pass *p, float *w)
{
    const mgpt_model *m = p->model;
    size_t X = m->shape.n_expert;
    if (m->expert_jitter > 0) {
        mix_sparsely(p, w);
        return;
    }
    uint8_t chosen[MODEL_EXPERTS_MOST] = {0};
    float s[MODEL_EXPERTS_MOST], sum = 0;
    memcpy(s, w, X * sizeof *s);
    if (m->expert_sigmoid)
        sigmoid_row(p->kernels, w, X);
    else
        p->kernels->softmax(w, X);
    choose(m, &m->layers[p->il], s, w, chosen);
    for (size_t i = 0; i < X; i++) {
        w[i] = chosen[i] == CHOSEN ? w[i] : 0;
        sum += w[i];
    }
    sum += (float)m->arch->expert_more;
    for (size_t i = 0; i < X; i++) {
        w[i] = m->expert_norm && chosen[i] == CHOSEN ? w[i] / sum : w[i];
        w[i] *= m->expert_scale;
    }
}

static void weigh_part(void *ctx, int worker, int n_workers)
{
    const pass *p = ctx;
    size_t first, last, X = p->model->shape.n_expert;
    pool_split(p->n, worker, n_workers, &first, &last);
    for (size_t i = first; i < last; i++)
        weigh_row(p, p->s->experts->weights + i * X);
}

/* Sorts the rows of the pass by expert. Rows of an expert ascend. */
static void sort_rows(const pass *p)
{
    struct expert_scratch *s = p->s->experts;
    size_t X = p->model->shape.n_expert, n = 0;
    for (size_t e = 0; e < X; e++) {
        s->first[e] = n;
        for (size_t i = 0; i < p->n; i++)
            if (s->weights[i * X + e] != 0)
                s->rows[n++] = (uint32_t)i;
    }
    s->first[X] = n;
}

/* ---- the shared expert ---- */

/* m = g m, or 0 without a shared expert. y is scratch for the gates. */
static void scale_shared(pass *p, const struct layer *l, mat h)
{
    mat g = {p->s->experts->y, p->n, 1};
    if (!l->up.w)
        memset(p->m.at, 0, p->n * p->m.cols * sizeof *p->m.at);
    if (!l->shared_gate.w)
        return;
    matmul(p, g, &l->shared_gate, h);
    sigmoid_row(p->kernels, g.at, p->n);
    for (size_t i = 0; i < p->n; i++)
        p->kernels->scale(p->m.at + i * p->m.cols, g.at[i], p->m.cols);
}

/* ---- groups ---- */

/* Experts [e0, e1) with rows [r0, r1) of the sorted rows. */
struct expert_group {
    const pass *p;
    const float *h;
    size_t e0, e1, r0, r1;
};

static void gather_part(void *ctx, int worker, int n_workers)
{
    const struct expert_group *g = ctx;
    const struct expert_scratch *s = g->p->s->experts;
    size_t first, last, E = g->p->m.cols;
    pool_split(g->r1 - g->r0, worker, n_workers, &first, &last);
    for (size_t i = first; i < last; i++)
        memcpy(s->x + i * E, g->h + s->rows[g->r0 + i] * E, E * sizeof *s->x);
}

/* Columns of the sum, in the order of the experts. */
static void sum_part(void *ctx, int worker, int n_workers)
{
    const struct expert_group *g = ctx;
    const pass *p = g->p;
    const struct expert_scratch *s = p->s->experts;
    size_t first, last, E = p->m.cols, X = p->model->shape.n_expert, i = 0;
    pool_split(panels_of(E), worker, n_workers, &first, &last);
    first *= PANEL;
    last = last * PANEL < E ? last * PANEL : E;
    for (size_t e = g->e0; e < g->e1 && first < last; e++)
        for (size_t r = s->first[e]; r < s->first[e + 1]; r++, i++)
            p->kernels->axpby(p->m.at + s->rows[r] * E + first, 1, s->weights[s->rows[r] * X + e],
                              s->y + i * E + first, last - first);
}

/* Products of the experts of a group that have rows: gate and up, or down. Returns their number. */
static size_t list_products(const struct expert_group *g, const struct layer *l, int are_up)
{
    const struct expert_scratch *s = g->p->s->experts;
    size_t count = 0, E = g->p->m.cols, F = g->p->model->shape.n_ff_expert;
    for (size_t e = g->e0; e < g->e1; e++) {
        const struct expert *x = &l->experts[e];
        size_t row = s->first[e] - g->r0, n = s->first[e + 1] - s->first[e];
        size_t from = are_up && g->p->n == 1 ? 0 : row;
        if (n == 0)
            continue;
        if (are_up) {
            s->products[count++] = (struct matmul_product){&x->gate, s->f + row * F, from, n, 0};
            s->products[count++] = (struct matmul_product){&x->up, s->up + row * F, from, n, 0};
        } else {
            s->products[count++] = (struct matmul_product){&x->down, s->y + row * E, from, n, 0};
        }
    }
    return count;
}

/* A pass of one row has not gathered it. */
static void show_group(const pass *p, const struct expert_group *g, const float *x)
{
    const struct experts_seen *seen = &p->segments[0].session->seen;
    const struct expert_scratch *s = p->s->experts;
    size_t E = p->m.cols, F = p->model->shape.n_ff_expert;
    for (size_t e = g->e0; e < g->e1 && seen->fn; e++) {
        size_t row = s->first[e] - g->r0, n = s->first[e + 1] - s->first[e];
        if (n > 0)
            seen->fn(seen->user, p->il, e, x + (p->n == 1 ? 0 : row) * E, s->f + row * F, n);
    }
}

static void run_group(pass *p, const struct layer *l, struct expert_group *g)
{
    struct expert_scratch *s = p->s->experts;
    size_t n = g->r1 - g->r0, E = p->m.cols, bytes = n * E * sizeof(float);
    mat x = {s->x, n, E}, f = {s->f, n, p->model->shape.n_ff_expert};
    if (p->n == 1)
        x = (mat){(float *)(uintptr_t)g->h, 1, E};
    else
        pool_run_sized(p->pool, 2 * bytes, gather_part, g);
    expert_products(p, s->products, list_products(g, l, 1), x, 1);
    show_group(p, g, x.at);
    expert_products(p, s->products, list_products(g, l, 0), f, 0);
    pool_run_sized(p->pool, 2 * bytes, sum_part, g);
}

void add_experts(pass *p, const struct layer *l, mat h)
{
    struct expert_scratch *s = p->s->experts;
    size_t X = p->model->shape.n_expert;
    if (!l->experts)
        return;
    mat w = {s->weights, p->n, X};
    matmul(p, w, &l->router, h);
    SEE(ROUTER_SCORES, w);
    pool_run_sized(p->n > 1 ? p->pool : NULL, p->n * X * sizeof(float), weigh_part, p);
    SEE(EXPERT_WEIGHTS, w);
    sort_rows(p);
    scale_shared(p, l, h);
    struct expert_group g = {.p = p, .h = h.at};
    for (; g.e0 < X; g.e0 = g.e1, g.r0 = g.r1) {
        for (g.e1 = g.e0; g.e1 < X && s->first[g.e1 + 1] - g.r0 <= s->n_rows; g.e1++)
            g.r1 = s->first[g.e1 + 1];
        if (g.r1 > g.r0)
            run_group(p, l, &g);
    }
    if (p->model->arch->half_shared && l->up.w)
        p->kernels->scale(p->m.at, 0.5F, p->n * p->m.cols);
}
