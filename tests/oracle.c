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
    double *x0; /* what the first layer began with */
    size_t T, E, H, G, d, F, V;
};

static double *matrix(const struct oracle *o, size_t cols)
{
    return toy_alloc(o->T * cols, sizeof(double));
}

static const struct toy_tensor *find_tensor(const struct oracle *o, int layer, const char *stem,
                                            const char *kind)
{
    char name[80];
    if (layer < 0)
        snprintf(name, sizeof name, "%s.%s", stem, kind);
    else
        snprintf(name, sizeof name, "blk.%d.%s.%s", layer, stem, kind);
    return toy_find(o->m, name);
}

static const float *find(const struct oracle *o, int layer, const char *stem, const char *kind)
{
    const struct toy_tensor *t = find_tensor(o, layer, stem, kind);
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

/* n rows of width w, each by itself: LayerNorm or RMSNorm, as the architecture has it. */
static void normalize(const struct oracle *o, double *y, const double *x, size_t n, size_t w,
                      const float *gain, const float *bias)
{
    for (size_t row = 0; row < n; row++, x += w, y += w) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < w && o->s->row->layer_norm; i++)
            mean += x[i] / (double)w;
        for (size_t i = 0; i < w; i++)
            square += (x[i] - mean) * (x[i] - mean) / (double)w;
        double size = sqrt(square + (double)(float)o->s->eps);
        for (size_t i = 0; i < w; i++)
            y[i] =
                (x[i] - mean) / size * (gain ? (double)gain[i] : 1) + (bias ? (double)bias[i] : 0);
    }
}

/* A norm of rows as wide as the residual, with the gain and bias that the file has. */
static double *norm(const struct oracle *o, int layer, const char *stem, const double *x)
{
    double *y = matrix(o, o->E);
    normalize(o, y, x, o->T, o->E, find(o, layer, stem, "weight"), find(o, layer, stem, "bias"));
    return y;
}

/* The input of a branch: the norm of that name, or x itself where norms stand behind the branches. */
static double *branch_input(const struct oracle *o, int layer, const char *stem, const double *x)
{
    enum toy_norms norms = o->s->row->norms;
    if (norms != NORMS_AFTER)
        return norm(o, layer, norms == NORMS_SHARED ? "attn_norm" : stem, x);
    return memcpy(matrix(o, o->E), x, o->T * o->E * sizeof *x);
}

/* The output of a branch, in place. */
static void branch_output(const struct oracle *o, int layer, const char *stem, double *y)
{
    enum toy_norms norms = o->s->row->norms;
    const float *gain = find(o, layer, stem, "weight");
    assert_true((gain != NULL) == (norms == NORMS_AFTER || norms == NORMS_AROUND));
    if (gain)
        normalize(o, y, y, o->T, o->E, gain, NULL);
}

/* Norms of q and k come without the mean removed: only RMSNorm models have them. */
static void qk_norm(const struct oracle *o, int layer, const char *stem, double *x, size_t heads)
{
    const float *gain = find(o, layer, stem, "weight");
    enum toy_qk qk = o->s->row->qk;
    assert_true((gain != NULL) == (qk == QK_PER_HEAD || qk == QK_WHOLE));
    if (qk == QK_WHOLE)
        normalize(o, x, x, o->T, heads * o->d, gain, NULL);
    else if (qk != QK_PLAIN)
        normalize(o, x, x, o->T * heads, o->d, gain, NULL);
}

/* What integer weights are multiplied with: 32 activations at a time as whole multiples of a step, 127
 * of which reach the largest. The rule is src/kernels.h's, in float32; the rest is float64. */
static void to_int8_blocks(double *x, size_t n)
{
    for (size_t i = 0; i < n; i += 32) {
        float largest = 0;
        for (size_t j = i; j < i + 32; j++)
            largest = fmaxf(largest, fabsf((float)x[j]));
        float step = largest / 127, per_step = largest > 0 ? 127 / largest : 0;
        for (size_t j = i; j < i + 32; j++)
            x[j] = (double)step * (double)rintf((float)x[j] * per_step);
    }
}

/* Rows [first, first + n_out) of a matrix times x, plus bias. */
static double *linear(const struct oracle *o, int layer, const char *stem, size_t first,
                      const double *x, size_t n_in, size_t n_out)
{
    const struct toy_tensor *w = find_tensor(o, layer, stem, "weight");
    const float *bias = find(o, layer, stem, "bias");
    assert_non_null(w);
    double *y = matrix(o, n_out), *in = toy_alloc(n_in, sizeof *in);
    for (size_t t = 0; t < o->T; t++) {
        memcpy(in, x + t * n_in, n_in * sizeof *in);
        if (w->blocks)
            to_int8_blocks(in, n_in);
        for (size_t r = 0; r < n_out; r++) {
            double sum = bias ? (double)bias[first + r] : 0;
            for (size_t i = 0; i < n_in; i++)
                sum += (double)w->values[(first + r) * n_in + i] * in[i];
            y[t * n_out + r] = sum;
        }
    }
    free(in);
    return y;
}

/* Whether a layer's queries see no further than the window, and how many keys they see (0: all). */
static int window(const struct toy_spec *s, int layer)
{
    int full_every = s->full_every ? s->full_every : s->row->full_every;
    if (s->windows)
        return s->windows[layer];
    if (s->pattern)
        return s->pattern[layer] == 'w' ? s->window : 0;
    return full_every && (layer + 1) % full_every == 0 ? 0 : s->window;
}

/* Radians that pair i turns from one position to the next. Layers with a window may have a base of
 * their own, and then know no scaling of positions. */
static double frequency(const struct oracle *o, int layer, size_t i)
{
    const struct toy_spec *s = o->s;
    const float *divisors = find(o, -1, "rope_freqs", "weight");
    double own = s->window_base != 0 ? s->window_base : s->row->window_base;
    double exponent = -2 * (double)i / (double)s->rope_dims;
    if (own != 0 && window(s, layer))
        return pow((double)(float)own, exponent);
    double f = pow((double)(float)s->rope_base, exponent);
    if (s->rope_factor != 0)
        f /= (double)(float)s->rope_factor;
    return divisors ? f / (double)divisors[i] : f;
}

/* The first rope_dims components of every head turn in pairs: (a, b) by pos * frequency. */
static void rope(const struct oracle *o, int layer, double *x, size_t heads)
{
    size_t n_pairs = (size_t)o->s->rope_dims / 2;
    int halves = o->s->row->place == PLACE_HALVES, skip = o->s->row->no_rope_every;
    if (skip && (layer + 1) % skip == 0)
        return;
    for (size_t i = 0; i < n_pairs; i++) {
        size_t first = halves ? i : 2 * i, second = halves ? i + n_pairs : 2 * i + 1;
        double f = frequency(o, layer, i);
        for (size_t row = 0; row < o->T * heads; row++) {
            double *v = x + row * o->d, angle = (double)(row / heads) * f;
            double a = v[first], b = v[second];
            v[first] = a * cos(angle) - b * sin(angle);
            v[second] = a * sin(angle) + b * cos(angle);
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
    return s->activation ? s->activation : s->row->activation;
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

static double attn_scale(const struct oracle *o)
{
    return o->s->attn_scale != 0 ? (double)(float)o->s->attn_scale : 1 / sqrt((double)o->d);
}

/* One query t and head h over the keys in sight, which end with position t; out: d values. Keys out of
 * sight have score -inf and weight 0, whatever a patch makes of them. */
static void attend(struct oracle *o, int layer, size_t t, size_t h, const double *q,
                   const double *k, const double *v, double *out)
{
    size_t d = o->d, g = h / (o->H / o->G), w = (size_t)window(o->s, layer);
    size_t first = w && t + 1 > w ? t + 1 - w : 0;
    double *row = toy_alloc(t + 1, sizeof *row);
    for (size_t j = 0; j <= t; j++) {
        for (size_t i = 0; i < d; i++)
            row[j] += q[(t * o->H + h) * d + i] * k[(j * o->G + g) * d + i];
        row[j] = j < first ? -INFINITY : row[j] * attn_scale(o);
    }
    head_point(o, MGPT_SCORES, layer, t, h, row);
    for (size_t j = 0; j < first; j++)
        row[j] = 0;
    softmax(row + first, t + 1 - first);
    head_point(o, MGPT_WEIGHTS, layer, t, h, row);
    for (size_t j = first; j <= t; j++)
        for (size_t i = 0; i < d; i++)
            out[i] += row[j] * v[(j * o->G + g) * d + i];
    free(row);
}

static void clamp(const struct oracle *o, double *x, size_t cols)
{
    double limit = (double)(float)o->s->clamp;
    for (size_t i = 0; i < o->T * cols && limit != 0; i++)
        x[i] = fmax(-limit, fmin(limit, x[i]));
}

static void project(struct oracle *o, int layer, const double *h, double **q, double **k,
                    double **v)
{
    size_t qw = o->H * o->d, kw = o->G * o->d;
    int fused = find(o, layer, "attn_qkv", "weight") != NULL;
    *q = linear(o, layer, fused ? "attn_qkv" : "attn_q", 0, h, o->E, qw);
    *k = linear(o, layer, fused ? "attn_qkv" : "attn_k", fused ? qw : 0, h, o->E, kw);
    *v = linear(o, layer, fused ? "attn_qkv" : "attn_v", fused ? qw + kw : 0, h, o->E, kw);
    clamp(o, *q, qw);
    clamp(o, *k, kw);
    clamp(o, *v, kw);
    point(o, MGPT_Q, layer, *q, qw);
    point(o, MGPT_K, layer, *k, kw);
    point(o, MGPT_V, layer, *v, kw);
    qk_norm(o, layer, "attn_q_norm", *q, o->H);
    qk_norm(o, layer, "attn_k_norm", *k, o->G);
    if (o->s->row->place == PLACE_LEARNED)
        return;
    rope(o, layer, *q, o->H);
    rope(o, layer, *k, o->G);
    point(o, MGPT_ROT_Q, layer, *q, qw);
    point(o, MGPT_ROT_K, layer, *k, kw);
}

static void add(const struct oracle *o, double *x, const double *y)
{
    for (size_t i = 0; i < o->T * o->E; i++)
        x[i] += y[i];
}

/* What attention adds to the residual. */
static double *attention(struct oracle *o, int layer, const double *x)
{
    double *h = branch_input(o, layer, "attn_norm", x), *q, *k, *v;
    point(o, MGPT_ATTN_IN, layer, h, o->E);
    project(o, layer, h, &q, &k, &v);
    double *z = matrix(o, o->H * o->d);
    for (size_t t = 0; t < o->T; t++)
        for (size_t head = 0; head < o->H; head++)
            attend(o, layer, t, head, q, k, v, z + (t * o->H + head) * o->d);
    point(o, MGPT_HEADS, layer, z, o->H * o->d);
    double *out = linear(o, layer, "attn_output", 0, z, o->H * o->d, o->E);
    branch_output(o, layer, "post_attention_norm", out);
    point(o, MGPT_ATTN_OUT, layer, out, o->E);
    free(h), free(q), free(k), free(v), free(z);
    return out;
}

/* What the MLP adds. */
static double *mlp(struct oracle *o, int layer, const double *x)
{
    int gated = o->s->row->gated;
    double *h = branch_input(o, layer, "ffn_norm", x), *up = NULL;
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
    branch_output(o, layer, "post_ffw_norm", out);
    point(o, MGPT_MLP_OUT, layer, out, o->E);
    free(h), free(up), free(f);
    return out;
}

static int chosen(enum toy_choice choice, int row)
{
    return choice == TOY_DEFAULT ? row : choice == TOY_YES;
}

/* x = keep x + mix x0, both numbers the layer's own. */
static void blend(struct oracle *o, int layer, double *x)
{
    const struct toy_tensor *keep = toy_find(o->m, "resid_lambdas");
    const struct toy_tensor *mix = toy_find(o->m, "x0_lambdas");
    double a = keep ? (double)keep->values[layer] : 1, b = mix ? (double)mix->values[layer] : 0;
    if (layer == 0)
        memcpy(o->x0, x, o->T * o->E * sizeof *x);
    for (size_t i = 0; i < o->T * o->E; i++)
        x[i] = a * x[i] + b * o->x0[i];
}

static void run_layer(struct oracle *o, int layer, double *x)
{
    int parallel = chosen(o->s->parallel, o->s->row->parallel);
    blend(o, layer, x);
    point(o, MGPT_RESID_PRE, layer, x, o->E);
    double *a = attention(o, layer, x), *f;
    if (!parallel) {
        add(o, x, a);
        point(o, MGPT_RESID_MID, layer, x, o->E);
    }
    f = mlp(o, layer, x);
    add(o, x, f);
    if (parallel)
        add(o, x, a);
    point(o, MGPT_RESID_POST, layer, x, o->E);
    free(a), free(f);
}

static double *embed(struct oracle *o)
{
    const float *token = find(o, -1, "token_embd", "weight");
    const float *position = find(o, -1, "position_embd", "weight");
    double *x = matrix(o, o->E), *p = matrix(o, o->E);
    double root = o->s->row->embd_root ? sqrt((double)o->E) : 1;
    for (size_t t = 0; t < o->T; t++)
        for (size_t i = 0; i < o->E; i++)
            x[t * o->E + i] = root * (double)token[(size_t)o->tokens[t] * o->E + i];
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

/* Replaces x by its norm, which has a point of its own outside the layers. */
static void norm_in_place(struct oracle *o, mgpt_point at, const char *stem, double **x)
{
    double *h = norm(o, -1, stem, *x);
    point(o, at, -1, h, o->E);
    free(*x);
    *x = h;
}

static double *unembed(struct oracle *o, const double *x)
{
    const char *head = find(o, -1, "output", "weight") ? "output" : "token_embd";
    const float *bias = find(o, -1, "output", "bias");
    double *logits = linear(o, -1, head, 0, x, o->E, o->V), cap = (double)(float)o->s->softcap;
    for (size_t i = 0; i < o->T * o->V; i++) {
        if (bias && strcmp(head, "output") != 0)
            logits[i] += (double)bias[i % o->V];
        if (cap != 0)
            logits[i] = cap * tanh(logits[i] / cap);
    }
    point(o, MGPT_LOGITS, -1, logits, o->V);
    return logits;
}

struct trace *oracle_run(const struct toy *m, const int32_t *tokens, size_t n, oracle_patch *patch,
                         void *user)
{
    const struct toy_spec *s = &m->spec;
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
    o.x0 = matrix(&o, o.E);
    double *x = embed(&o);
    if (chosen(s->embedding_norm, s->row->embd_norm))
        norm_in_place(&o, MGPT_EMBD_NORM, "no such tensor", &x);
    for (int layer = 0; layer < s->n_layer; layer++)
        run_layer(&o, layer, x);
    if (chosen(s->final_norm, s->row->final_norm))
        norm_in_place(&o, MGPT_FINAL, "output_norm", &x);
    free(unembed(&o, x));
    free(x), free(o.x0);
    return o.trace;
}
