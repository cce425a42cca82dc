/* Tests: the float64 oracle. See oracle.h.
 *
 * Letters: T tokens, E n_embd, H heads, G key/value heads, d head_dim, F n_ff, V n_vocab. Matrices are
 * row-major, one row a position. What a model lacks is looked up by name and not found.
 */
#include "oracle.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct oracle {
    const struct toy *m;
    const struct toy_spec *s;
    struct trace *trace;
    oracle_patch *patch;
    void *user;
    const int32_t *tokens;
    size_t T, E, H, G, d, F, V;
};

static double *matrix(const struct oracle *o, size_t cols)
{
    return toy_alloc(o->T * cols, sizeof(double));
}

static const float *find(const struct oracle *o, int layer, const char *stem, const char *kind)
{
    char name[80];
    if (layer < 0)
        snprintf(name, sizeof name, "%s.%s", stem, kind);
    else
        snprintf(name, sizeof name, "blk.%d.%s.%s", layer, stem, kind);
    const struct toy_tensor *t = toy_find(o->m, name);
    return t ? t->values : NULL;
}

static int is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* All rows of an ordinary point: patched, then stored. */
static void point(struct oracle *o, mgpt_point at, int layer, double *x, size_t cols)
{
    for (size_t t = 0; t < o->T; t++) {
        if (o->patch)
            o->patch(at, layer, x + t * cols, cols, o->user);
        assert_true(trace_put(o->trace, at, layer, t, 0, 1, x + t * cols, cols));
    }
}

/* One head of one query. */
static void head_point(struct oracle *o, mgpt_point at, int layer, size_t t, size_t h, double *row)
{
    if (o->patch)
        o->patch(at, layer, row, t + 1, o->user);
    assert_true(trace_put(o->trace, at, layer, t, h, o->H, row, t + 1));
}

/* ---- the verbs ---------------------------------------------------------------------------------
 */

/* LayerNorm (gpt2) or RMSNorm (the others), with the gain and bias that the file has. */
static double *norm(const struct oracle *o, int layer, const char *stem, const double *x)
{
    const float *gain = find(o, layer, stem, "weight"), *bias = find(o, layer, stem, "bias");
    double *y = matrix(o, o->E), n = (double)o->E;
    for (size_t t = 0; t < o->T; t++) {
        const double *row = x + t * o->E;
        double mean = 0, square = 0;
        if (is(o->s->arch, "gpt2"))
            for (size_t i = 0; i < o->E; i++)
                mean += row[i] / n;
        for (size_t i = 0; i < o->E; i++)
            square += (row[i] - mean) * (row[i] - mean) / n;
        for (size_t i = 0; i < o->E; i++) {
            double v = (row[i] - mean) / sqrt(square + (double)(float)o->s->eps);
            y[t * o->E + i] = v * (gain ? (double)gain[i] : 1) + (bias ? (double)bias[i] : 0);
        }
    }
    return y;
}

/* Rows [first, first + n_out) of a matrix times x, plus bias. */
static double *linear(const struct oracle *o, int layer, const char *stem, size_t first,
                      const double *x, size_t n_in, size_t n_out)
{
    const float *w = find(o, layer, stem, "weight"), *bias = find(o, layer, stem, "bias");
    assert_non_null(w);
    double *y = matrix(o, n_out);
    for (size_t t = 0; t < o->T; t++) {
        for (size_t r = 0; r < n_out; r++) {
            double sum = bias ? (double)bias[first + r] : 0;
            for (size_t i = 0; i < n_in; i++)
                sum += (double)w[(first + r) * n_in + i] * x[t * n_in + i];
            y[t * n_out + r] = sum;
        }
    }
    return y;
}

/* Adjacent pairs of the first rope_dims components of every head turn by pos * base^(-2i/rope_dims). */
static void rope(const struct oracle *o, double *x, size_t heads)
{
    size_t n_rot = (size_t)o->s->rope_dims;
    for (size_t t = 0; t < o->T; t++) {
        for (size_t h = 0; h < heads; h++) {
            double *v = x + (t * heads + h) * o->d;
            for (size_t i = 0; i + 1 < n_rot; i += 2) {
                double angle = (double)t * pow(o->s->rope_base, -(double)i / (double)n_rot);
                double a = v[i], b = v[i + 1];
                v[i] = a * cos(angle) - b * sin(angle);
                v[i + 1] = a * sin(angle) + b * cos(angle);
            }
        }
    }
}

static double activate(const char *name, double x)
{
    if (is(name, "relu"))
        return x > 0 ? x : 0;
    if (is(name, "relu2"))
        return x > 0 ? x * x : 0;
    if (is(name, "silu"))
        return x / (1 + exp(-x));
    if (is(name, "gelu_erf"))
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    assert_string_equal(name, "gelu_tanh");
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static const char *activation(const struct toy_spec *s)
{
    if (s->activation)
        return s->activation;
    if (is(s->arch, "microgpt"))
        return "relu";
    return is(s->arch, "llama") ? "silu" : "gelu_tanh";
}

static void softmax(double *row, size_t n)
{
    double max = row[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        max = fmax(max, row[i]);
    for (size_t i = 0; i < n; i++)
        sum += row[i] = exp(row[i] - max);
    for (size_t i = 0; i < n; i++)
        row[i] /= sum;
}

/* ---- the page ----------------------------------------------------------------------------------
 */

/* One query t and head h over positions 0..t; out: d values. */
static void attend(struct oracle *o, int layer, size_t t, size_t h, const double *q,
                   const double *k, const double *v, double *out)
{
    size_t d = o->d, g = h / (o->H / o->G);
    double *row = toy_alloc(t + 1, sizeof *row);
    for (size_t j = 0; j <= t; j++) {
        for (size_t i = 0; i < d; i++)
            row[j] += q[(t * o->H + h) * d + i] * k[(j * o->G + g) * d + i];
        row[j] /= sqrt((double)d);
    }
    head_point(o, MGPT_SCORES, layer, t, h, row);
    softmax(row, t + 1);
    head_point(o, MGPT_WEIGHTS, layer, t, h, row);
    for (size_t j = 0; j <= t; j++)
        for (size_t i = 0; i < d; i++)
            out[i] += row[j] * v[(j * o->G + g) * d + i];
    free(row);
}

static void project(struct oracle *o, int layer, const double *h, double **q, double **k,
                    double **v)
{
    size_t qw = o->H * o->d, kw = o->G * o->d;
    int fused = is(o->s->arch, "gpt2");
    *q = linear(o, layer, fused ? "attn_qkv" : "attn_q", 0, h, o->E, qw);
    *k = linear(o, layer, fused ? "attn_qkv" : "attn_k", fused ? qw : 0, h, o->E, kw);
    *v = linear(o, layer, fused ? "attn_qkv" : "attn_v", fused ? qw + kw : 0, h, o->E, kw);
    point(o, MGPT_Q, layer, *q, qw);
    point(o, MGPT_K, layer, *k, kw);
    point(o, MGPT_V, layer, *v, kw);
    if (!is(o->s->arch, "llama"))
        return;
    rope(o, *q, o->H);
    rope(o, *k, o->G);
    point(o, MGPT_ROT_Q, layer, *q, qw);
    point(o, MGPT_ROT_K, layer, *k, kw);
}

static void add(const struct oracle *o, double *x, const double *y)
{
    for (size_t i = 0; i < o->T * o->E; i++)
        x[i] += y[i];
}

static void attention(struct oracle *o, int layer, double *x)
{
    double *h = norm(o, layer, "attn_norm", x), *q, *k, *v;
    point(o, MGPT_ATTN_IN, layer, h, o->E);
    project(o, layer, h, &q, &k, &v);
    double *z = matrix(o, o->H * o->d);
    for (size_t t = 0; t < o->T; t++)
        for (size_t head = 0; head < o->H; head++)
            attend(o, layer, t, head, q, k, v, z + (t * o->H + head) * o->d);
    point(o, MGPT_HEADS, layer, z, o->H * o->d);
    double *out = linear(o, layer, "attn_output", 0, z, o->H * o->d, o->E);
    point(o, MGPT_ATTN_OUT, layer, out, o->E);
    add(o, x, out);
    point(o, MGPT_RESID_MID, layer, x, o->E);
    free(h), free(q), free(k), free(v), free(z), free(out);
}

static void mlp(struct oracle *o, int layer, double *x)
{
    int gated = find(o, layer, "ffn_gate", "weight") != NULL;
    double *h = norm(o, layer, "ffn_norm", x), *up = NULL;
    point(o, MGPT_MLP_IN, layer, h, o->E);
    double *f = linear(o, layer, gated ? "ffn_gate" : "ffn_up", 0, h, o->E, o->F);
    point(o, MGPT_MLP_PRE, layer, f, o->F);
    if (gated) {
        up = linear(o, layer, "ffn_up", 0, h, o->E, o->F);
        point(o, MGPT_MLP_PRE_LINEAR, layer, up, o->F);
    }
    for (size_t i = 0; i < o->T * o->F; i++)
        f[i] = activate(activation(o->s), f[i]) * (up ? up[i] : 1);
    point(o, MGPT_MLP_POST, layer, f, o->F);
    double *out = linear(o, layer, "ffn_down", 0, f, o->F, o->E);
    point(o, MGPT_MLP_OUT, layer, out, o->E);
    add(o, x, out);
    point(o, MGPT_RESID_POST, layer, x, o->E);
    free(h), free(up), free(f), free(out);
}

static double *embed(struct oracle *o)
{
    const float *token = find(o, -1, "token_embd", "weight");
    const float *position = find(o, -1, "position_embd", "weight");
    double *x = matrix(o, o->E), *p = matrix(o, o->E);
    for (size_t t = 0; t < o->T; t++)
        for (size_t i = 0; i < o->E; i++)
            x[t * o->E + i] = (double)token[(size_t)o->tokens[t] * o->E + i];
    point(o, MGPT_EMBD, -1, x, o->E);
    if (position) {
        for (size_t i = 0; i < o->T * o->E; i++)
            p[i] = (double)position[i];
        point(o, MGPT_POS_EMBD, -1, p, o->E);
        add(o, x, p);
    }
    free(p);
    return x;
}

static int chosen(enum toy_choice choice, int row)
{
    return choice == TOY_DEFAULT ? row : choice == TOY_YES;
}

struct trace *oracle_run(const struct toy *m, const int32_t *tokens, size_t n, oracle_patch *patch,
                         void *user)
{
    const struct toy_spec *s = &m->spec;
    int microgpt = is(s->arch, "microgpt");
    struct oracle o = {.m = m,
                       .s = s,
                       .patch = patch,
                       .user = user,
                       .tokens = tokens,
                       .T = n,
                       .E = (size_t)s->n_embd,
                       .H = (size_t)s->n_head,
                       .G = (size_t)s->n_head_kv,
                       .d = (size_t)s->head_dim,
                       .F = (size_t)s->n_ff,
                       .V = (size_t)s->n_vocab};
    o.trace = trace_new(s->n_layer, n);
    double *x = embed(&o);
    if (chosen(s->embedding_norm, microgpt)) {
        double *h = norm(&o, -1, "no such tensor", x);
        point(&o, MGPT_EMBD_NORM, -1, h, o.E);
        free(x);
        x = h;
    }
    for (int layer = 0; layer < s->n_layer; layer++) {
        point(&o, MGPT_RESID_PRE, layer, x, o.E);
        attention(&o, layer, x);
        mlp(&o, layer, x);
    }
    if (chosen(s->final_norm, !microgpt)) {
        double *h = norm(&o, -1, "output_norm", x);
        point(&o, MGPT_FINAL, -1, h, o.E);
        free(x);
        x = h;
    }
    const char *head = find(&o, -1, "output", "weight") ? "output" : "token_embd";
    double *logits = linear(&o, -1, head, 0, x, o.E, o.V);
    point(&o, MGPT_LOGITS, -1, logits, o.V);
    free(x), free(logits);
    return o.trace;
}
