/* The oracle's MLP and mixtures of experts. See oracle_impl.h.
 *
 * Every expert that some row has chosen is computed for all rows, and added where its weight is not
 * 0. */
#include "check/oracle/oracle_impl.h"

#include "check/oracle/oracle_math.h"

#include <math.h>
#include <string.h>

/* gpt-oss: the gate is limited above, `up` on both sides. */
static void limit_gate(const struct oracle_spec *s, int no_up, double *gate, double *up)
{
    double limit = s->glu_limit != 0 ? s->glu_limit : INFINITY;
    *gate = *gate > limit ? limit : *gate;
    *up = fabs(*up) > limit ? copysign(limit, *up) : *up;
    *up += no_up ? 0 : s->up_more;
}

void oracle_mlp(struct oracle *o, int layer, const struct oracle_mlp *mlp, double *y)
{
    size_t F = mlp->F, first = mlp->number * F;
    int raw = o->s->layers[layer].raw;
    const double *x[2] = {raw & ORACLE_RAW_GATE ? o->x : o->h, raw & ORACLE_RAW_UP ? o->x : o->h};
    int gated = o->s->gated, fused = gated && mlp->gate == mlp->up;
    oracle_matmul(o, layer, gated ? mlp->gate : mlp->up, fused ? 2 * first : first, x[!gated], o->E,
                  F, o->f);
    if (mlp->points)
        oracle_fire_rows(o, MGPT_MLP_PRE, layer, o->f, F);
    if (gated)
        oracle_matmul(o, layer, mlp->up, fused ? 2 * first + F : first, x[1], o->E, F, o->up);
    for (size_t i = 0; gated && i < o->T * F && o->s->layers[layer].no_up; i++)
        o->up[i] = 1;
    if (gated && mlp->points)
        oracle_fire_rows(o, MGPT_MLP_PRE_LINEAR, layer, o->up, F);
    for (size_t i = 0; gated && i < o->T * F; i++)
        limit_gate(o->s, o->s->layers[layer].no_up, &o->f[i], &o->up[i]);
    int late = gated && o->s->layers[layer].act_late;
    for (size_t i = 0; late && i < o->T * F; i++)
        o->f[i] *= o->up[i];
    math_activate(&o->s->layers[layer], o->f, o->T * F);
    if (gated && o->s->layers[layer].act_both)
        math_activate(&o->s->layers[layer], o->up, o->T * F);
    math_round(o->s, o->f, o->T * F);
    for (size_t i = 0; gated && !late && i < o->T * F; i++)
        o->f[i] *= o->up[i];
    math_round(o->s, o->f, o->T * F);
    if (mlp->points)
        oracle_fire_rows(o, MGPT_MLP_POST, layer, o->f, F);
    oracle_matmul(o, layer, mlp->down, mlp->number * o->E, o->f, F, o->E, y);
}

/* How many of n values are chosen before value i: larger ones, and of equal ones the first. */
static size_t oracle_before(const double *by, size_t n, size_t i)
{
    size_t before = 0;
    for (size_t k = 0; k < n; k++)
        before += by[k] > by[i] || (by[k] == by[i] && k < i);
    return before;
}

/* The sum of a group's largest, one or two. */
static double oracle_group_score(const double *by, size_t each, size_t largest)
{
    double sum = 0;
    for (size_t i = 0; i < each; i++)
        sum += oracle_before(by, each, i) < largest ? by[i] : 0;
    return sum;
}

/* What experts are chosen by, in place of their scores, where there is a bias, or groups. */
static void oracle_choice(const struct oracle *o, const float *bias, const double *p, double *by)
{
    const struct oracle_spec *s = o->s;
    size_t n = s->expert_groups, each = n ? s->n_expert / n : 0;
    double score[1024];
    for (size_t e = 0; e < s->n_expert && (bias || n > 1); e++)
        by[e] = (bias && s->bias_of_scores ? by[e] : p[e]) + (bias ? (double)bias[e] : 0);
    for (size_t g = 0; g < n && n > 1; g++)
        score[g] = oracle_group_score(by + g * each, each, s->expert_sigmoid ? 2 : 1);
    for (size_t e = 0; e < s->n_expert && n > 1; e++)
        if (oracle_before(score, n, e / each) >= s->expert_groups_used)
            by[e] = -INFINITY;
}

/* The sparse mixer of Phi-3.5, k times: takes the largest score that is left. Its weight is the softmax over the scores near it. */
static void oracle_mix(const struct oracle *o, double *w)
{
    size_t X = o->s->n_expert;
    double *p = o->probabilities;
    memcpy(p, w, X * sizeof *p);
    for (size_t k = 0; k < o->s->n_expert_used; k++) {
        size_t best = 0;
        double near = 0;
        for (size_t e = 1; e < X; e++)
            best = p[e] > p[best] ? e : best;
        for (size_t e = 0; e < X; e++) {
            double gap = (p[best] - p[e]) / fmax(fabs(p[e]), p[best]);
            near += gap > 2 * o->s->expert_jitter || isinf(p[e]) ? 0 : exp(p[e] - p[best]);
        }
        w[best] = o->s->expert_scale / near;
        p[best] = -INFINITY;
    }
    for (size_t e = 0; e < X; e++)
        w[e] = isinf(p[e]) ? w[e] : 0;
}

/* The k largest scores, of equal ones the first; the weights of the others are 0. */
static void oracle_weigh(const struct oracle *o, const float *bias, double *w)
{
    const struct oracle_spec *s = o->s;
    size_t X = s->n_expert;
    double *p = o->probabilities, largest = w[0], sum = 0, kept = 0;
    if (s->expert_jitter > 0) {
        oracle_mix(o, w);
        return;
    }
    for (size_t e = 1; e < X; e++)
        largest = fmax(largest, w[e]);
    for (size_t e = 0; e < X; e++)
        sum += p[e] = s->expert_sigmoid ? 1 / (1 + exp(-w[e])) : exp(w[e] - largest);
    for (size_t e = 0; e < X && !s->expert_sigmoid; e++)
        p[e] /= sum;
    for (size_t e = 0; e < X && s->expert_raw; e++)
        p[e] = w[e];
    oracle_choice(o, bias, p, w);
    for (size_t e = 0; e < X; e++)
        kept += oracle_before(w, X, e) < s->n_expert_used ? p[e] : 0;
    for (size_t e = 0; e < X; e++)
        p[e] = oracle_before(w, X, e) < s->n_expert_used ? p[e] : 0;
    for (size_t e = 0; e < X; e++)
        w[e] = p[e] / (s->expert_norm ? kept + s->expert_more : 1) * s->expert_scale;
}

static int oracle_is_chosen(const struct oracle *o, size_t e)
{
    for (size_t t = 0; t < o->T; t++)
        if (o->weights[t * o->s->n_expert + e] != 0)
            return 1;
    return 0;
}

/* m = g m for the gate of the shared expert, which is in m. */
static void oracle_shared_gate(struct oracle *o, int layer)
{
    if (oracle_find(o, layer, MGPT_SHARED_GATE, ".weight") == ORACLE_ABSENT)
        return;
    oracle_matmul(o, layer, MGPT_SHARED_GATE, 0, o->h, o->E, 1, o->y);
    for (size_t i = 0; i < o->T * o->E; i++)
        o->m[i] *= 1 / (1 + exp(-o->y[i / o->E]));
}

/* The matrix gate, or where it is not there the one that has up, too. */
static int present(const struct oracle *o, int layer, int gate, int both)
{
    return oracle_find(o, layer, gate, ".weight") != ORACLE_ABSENT ? gate : both;
}

void oracle_mixture(struct oracle *o, int layer)
{
    size_t X = o->s->n_expert, F = o->s->n_ff_expert, E = o->E;
    int gate = present(o, layer, MGPT_EXPERTS_GATE, MGPT_EXPERTS_UP);
    int shared = oracle_find(o, layer, ORACLE_SHARED_W_UP, ".weight") != ORACLE_ABSENT;
    memset(o->m, 0, o->T * E * sizeof *o->m);
    if (shared) {
        const struct oracle_mlp mlp = {present(o, layer, ORACLE_SHARED_W_GATE, ORACLE_SHARED_W_UP),
                                       ORACLE_SHARED_W_UP,
                                       ORACLE_SHARED_W_DOWN,
                                       o->s->n_ff_shared,
                                       0,
                                       1};
        oracle_mlp(o, layer, &mlp, o->m);
        if (!o->s->shared_gate_late)
            oracle_shared_gate(o, layer);
    }
    oracle_matmul(o, layer, MGPT_W_ROUTER, 0,
                  o->s->layers[layer].raw & ORACLE_RAW_ROUTER ? o->x : o->h, E, X, o->weights);
    oracle_fire_rows(o, MGPT_ROUTER_SCORES, layer, o->weights, X);
    const float *bias =
        o->s->no_expert_bias ? NULL : oracle_vector(o, layer, MGPT_EXPERT_BIAS, "", X, o->bias);
    for (size_t t = 0; t < o->T; t++)
        oracle_weigh(o, bias, o->weights + t * X);
    oracle_fire_rows(o, MGPT_EXPERT_WEIGHTS, layer, o->weights, X);
    for (size_t e = 0; e < X && o->status == MGPT_OK; e++) {
        const struct oracle_mlp expert = {gate, MGPT_EXPERTS_UP, MGPT_EXPERTS_DOWN, F, e, 0};
        if (!oracle_is_chosen(o, e))
            continue;
        oracle_mlp(o, layer, &expert, o->y);
        for (size_t i = 0; i < o->T * E; i++) {
            double w = o->weights[i / E * X + e];
            o->m[i] += w != 0 ? w * o->y[i] : 0;
        }
    }
    if (o->s->shared_gate_late)
        oracle_shared_gate(o, layer);
    for (size_t i = 0; i < o->T * E && shared && o->s->half_shared; i++)
        o->m[i] /= 2;
    memcpy(o->h, o->m, o->T * E * sizeof *o->m);
}
