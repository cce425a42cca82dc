/* The float64 oracle. See oracle.h.
 *
 * Letters: T tokens, E n_embd, H heads, G key/value heads, d head_dim, F n_ff, V n_vocab. Matrices are
 * row-major, one row a position. All buffers are made in the beginning; the first failure sticks, and
 * what follows it does nothing.
 */
#include "check/oracle/oracle.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 80, AT_ONCE = 4 };

struct oracle {
    const struct oracle_spec *s;
    oracle_point *fn;
    void *user;
    const int32_t *tokens;
    size_t T, E, H, G, d, F, V, qw, kw;
    double *x, *x0, *h, *q, *k, *v, *z, *a, *f, *up, *logits, *in, *scores;
    float *row, *gain, *bias;
    mgpt_error *err;
    int status;
};

/* ---- numbers ----------------------------------------------------------------------------------- */

static void full_name(char *name, int layer, const char *stem, const char *kind)
{
    if (layer < 0)
        text_format(name, NAME, "%s%s", stem, kind);
    else
        text_format(name, NAME, "blk.%d.%s%s", layer, stem, kind);
}

static enum oracle_tensor oracle_find(const struct oracle *o, int layer, const char *stem,
                                      const char *kind)
{
    char name[NAME];
    full_name(name, layer, stem, kind);
    return o->s->source.find(o->s->source.user, name);
}

static void read_row(struct oracle *o, int layer, const char *stem, const char *kind, size_t row,
                     size_t n, float *out)
{
    char name[NAME];
    full_name(name, layer, stem, kind);
    if (o->status == MGPT_OK)
        o->status = o->s->source.read(o->s->source.user, name, row, n, out, o->err);
}

/* A vector that may be absent: n floats in buf, or NULL. */
static const float *vector(struct oracle *o, int layer, const char *stem, const char *kind,
                           size_t n, float *buf)
{
    if (oracle_find(o, layer, stem, kind) == ORACLE_ABSENT)
        return NULL;
    read_row(o, layer, stem, kind, 0, n, buf);
    return o->status == MGPT_OK ? buf : NULL;
}

/* ---- points ------------------------------------------------------------------------------------ */

static void fire(struct oracle *o, mgpt_point at, int layer, size_t pos, size_t head, double *row,
                 size_t n)
{
    if (o->status == MGPT_OK && o->fn && o->fn(at, layer, pos, head, row, n, o->user) != 0)
        o->status = MGPT_ESTOP;
}

static void point(struct oracle *o, mgpt_point at, int layer, double *x, size_t cols)
{
    for (size_t t = 0; t < o->T; t++)
        fire(o, at, layer, t, 0, x + t * cols, cols);
}

static size_t stored_component(const struct oracle *o, int layer, size_t i)
{
    size_t n_rot = o->s->n_rot, half = n_rot / 2;
    enum oracle_components stored = o->s->layers[layer].stored;
    if (stored == ORACLE_AS_SHOWN || i >= n_rot)
        return i;
    if (stored == ORACLE_PAIRS)
        return i < half ? 2 * i : 2 * (i - half) + 1;
    return (i + half) % n_rot;
}

/* A row of heads to the order of the points, or back. */
static void reorder(const struct oracle *o, int layer, double *to, const double *from, size_t n,
                    int back)
{
    for (size_t i = 0; i < n; i++) {
        size_t place = i - i % o->d + stored_component(o, layer, i % o->d);
        to[back ? place : i] = from[back ? i : place];
    }
}

/* The same as point() for q and k. */
static void point_qk(struct oracle *o, mgpt_point at, int layer, double *x, size_t cols)
{
    for (size_t t = 0; t < o->T; t++) {
        reorder(o, layer, o->in, x + t * cols, cols, 0);
        fire(o, at, layer, t, 0, o->in, cols);
        reorder(o, layer, x + t * cols, o->in, cols, 1);
    }
}

/* ---- the verbs --------------------------------------------------------------------------------- */

/* n rows of width w, each by itself: LayerNorm or RMSNorm. */
static void normalize(const struct oracle *o, double *y, const double *x, size_t n, size_t w,
                      const float *gain, const float *bias)
{
    for (size_t row = 0; row < n; row++, x += w, y += w) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < w && o->s->layer_norm; i++)
            mean += x[i] / (double)w;
        for (size_t i = 0; i < w; i++)
            square += (x[i] - mean) * (x[i] - mean) / (double)w;
        double size = sqrt(square + o->s->eps);
        for (size_t i = 0; i < w; i++)
            y[i] =
                (x[i] - mean) / size * (gain ? (double)gain[i] : 1) + (bias ? (double)bias[i] : 0);
    }
}

/* A norm of rows as wide as the residual, with the gain and bias that there are. y may be x. */
static void norm(struct oracle *o, int layer, const char *stem, double *y, const double *x)
{
    const float *gain = vector(o, layer, stem, ".weight", o->E, o->gain);
    const float *bias = vector(o, layer, stem, ".bias", o->E, o->bias);
    normalize(o, y, x, o->T, o->E, gain, bias);
}

/* The input of a branch into h. */
static void branch_input(struct oracle *o, int layer, const char *stem, int normed)
{
    if (normed)
        norm(o, layer, stem, o->h, o->x);
    else
        memcpy(o->h, o->x, o->T * o->E * sizeof *o->h);
}

/* The output of a branch, in place. */
static void branch_output(struct oracle *o, int layer, const char *stem, double *y)
{
    if (oracle_find(o, layer, stem, ".weight") != ORACLE_ABSENT)
        norm(o, layer, stem, y, y);
}

static void qk_norm(struct oracle *o, int layer, const char *stem, double *x, size_t heads)
{
    enum oracle_qk kind = o->s->qk_norm;
    if (kind == ORACLE_QK_PLAIN)
        return;
    size_t w = kind == ORACLE_QK_WHOLE ? heads * o->d : o->d;
    const float *gain = vector(o, layer, stem, ".weight", w, o->gain);
    normalize(o, x, x, o->T * heads * o->d / w, w, gain, NULL);
}

/* What integer weights are multiplied with: 32 activations at a time as whole multiples of a step, 127
 * of which reach the largest. The rule is src/kernels/kernels.h's, in float32; the rest is float64. */
static void to_int8_blocks(double *x, size_t n)
{
    for (size_t i = 0; i + 32 <= n; i += 32) {
        float largest = 0;
        for (size_t j = i; j < i + 32; j++)
            largest = fmaxf(largest, fabsf((float)x[j]));
        float step = largest / 127, per_step = largest > 0 ? 127 / largest : 0;
        for (size_t j = i; j < i + 32; j++)
            x[j] = (double)step * (double)rintf((float)x[j] * per_step);
    }
}

/* Some rows' products with one row of a matrix, which is read from memory once for all of them. */
static void dots(const float *w, const double *x, size_t n_in, size_t n, double *sum)
{
    for (size_t i = 0; n == AT_ONCE && i < n_in; i++)
        for (size_t t = 0; t < AT_ONCE; t++)
            sum[t] += (double)w[i] * x[t * n_in + i];
    for (size_t t = 0; n < AT_ONCE && t < n; t++)
        for (size_t i = 0; i < n_in; i++)
            sum[t] += (double)w[i] * x[t * n_in + i];
}

/* y = rows [first, first + n_out) of a matrix times x, plus bias. */
static void linear(struct oracle *o, int layer, const char *stem, size_t first, const double *x,
                   size_t n_in, size_t n_out, double *y)
{
    enum oracle_tensor kind = oracle_find(o, layer, stem, ".weight");
    const float *bias = vector(o, layer, stem, ".bias", first + n_out, o->bias);
    memcpy(o->in, x, o->T * n_in * sizeof *x);
    for (size_t t = 0; kind == ORACLE_INTEGERS && o->s->int8_inputs && t < o->T; t++)
        to_int8_blocks(o->in + t * n_in, n_in);
    for (size_t r = 0; r < n_out && o->status == MGPT_OK; r++) {
        read_row(o, layer, stem, ".weight", first + r, n_in, o->row);
        for (size_t t = 0; t < o->T; t += AT_ONCE) {
            double sum[AT_ONCE];
            size_t n = o->T - t < AT_ONCE ? o->T - t : AT_ONCE;
            for (size_t i = 0; i < AT_ONCE; i++)
                sum[i] = bias ? (double)bias[first + r] : 0;
            dots(o->row, o->in + t * n_in, n_in, n, sum);
            for (size_t i = 0; i < n; i++)
                y[(t + i) * n_out + r] = sum[i];
        }
    }
}

static size_t position(const struct oracle *o, size_t t)
{
    return o->s->shift < 0 && t < (size_t)-o->s->shift ? 0 : t + (size_t)o->s->shift;
}

/* The first n_rot components of every head turn in pairs: (a, b) by pos * frequency. */
static void rope(const struct oracle *o, int layer, double *x, size_t heads)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    size_t n_pairs = o->s->n_rot / 2;
    for (size_t i = 0; l->freq && i < n_pairs; i++) {
        size_t first = l->halves ? i : 2 * i, second = l->halves ? i + n_pairs : 2 * i + 1;
        for (size_t row = 0; row < o->T * heads; row++) {
            double *v = x + row * o->d;
            double angle = (double)position(o, row / heads) * l->freq[i];
            double a = v[first], b = v[second];
            v[first] = a * cos(angle) - b * sin(angle);
            v[second] = a * sin(angle) + b * cos(angle);
        }
    }
}

static double activate(const char *name, double x)
{
    if (strcmp(name, "relu") == 0)
        return x > 0 || isnan(x) ? x : 0;
    if (strcmp(name, "relu2") == 0)
        return x > 0 || isnan(x) ? x * x : 0;
    if (strcmp(name, "silu") == 0)
        return x / (1 + exp(-x));
    if (strcmp(name, "gelu_erf") == 0)
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    if (strcmp(name, "gelu_quick") == 0)
        return x / (1 + exp(-1.702 * x));
    if (strcmp(name, "gelu_tanh") == 0)
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    return (double)NAN;
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

static double capped(double x, double cap)
{
    return cap != 0 ? cap * tanh(x / cap) : x;
}

/* ---- the page ---------------------------------------------------------------------------------- */

/* One query t and head h over the keys in sight, which end with position t. Keys out of sight have score
 * -inf and weight 0, whatever a caller makes of them. */
static void attend(struct oracle *o, int layer, size_t t, size_t h)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    size_t d = o->d, g = l->kv_interleaved ? h % o->G : h / (o->H / o->G), w = l->window;
    size_t first = w && t + 1 > w ? t + 1 - w : 0;
    double *row = o->scores, *out = o->z + (t * o->H + h) * d;
    for (size_t j = 0; j <= t; j++) {
        row[j] = 0;
        for (size_t i = 0; i < d; i++)
            row[j] += o->q[(t * o->H + h) * d + i] * o->k[(j * o->G + g) * d + i];
        row[j] = j < first ? -INFINITY : capped(row[j] * l->attn_scale, o->s->attn_cap);
    }
    fire(o, MGPT_SCORES, layer, t, h, row, t + 1);
    for (size_t j = 0; j < first; j++)
        row[j] = 0;
    softmax(row + first, t + 1 - first);
    fire(o, MGPT_WEIGHTS, layer, t, h, row, t + 1);
    memset(out, 0, d * sizeof *out);
    for (size_t j = first; j <= t; j++)
        for (size_t i = 0; i < d; i++)
            out[i] += row[j] * o->v[(j * o->G + g) * d + i];
}

static void clamp(const struct oracle *o, double *x, size_t cols)
{
    double limit = o->s->clamp;
    for (size_t i = 0; i < o->T * cols && limit != 0; i++)
        x[i] = fmax(-limit, fmin(limit, x[i]));
}

static void project(struct oracle *o, int layer)
{
    size_t qw = o->qw, kw = o->kw;
    int fused = oracle_find(o, layer, "attn_qkv", ".weight") != ORACLE_ABSENT;
    linear(o, layer, fused ? "attn_qkv" : "attn_q", 0, o->h, o->E, qw, o->q);
    linear(o, layer, fused ? "attn_qkv" : "attn_k", fused ? qw : 0, o->h, o->E, kw, o->k);
    linear(o, layer, fused ? "attn_qkv" : "attn_v", fused ? qw + kw : 0, o->h, o->E, kw, o->v);
    clamp(o, o->q, qw);
    clamp(o, o->k, kw);
    clamp(o, o->v, kw);
    point_qk(o, MGPT_Q, layer, o->q, qw);
    point_qk(o, MGPT_K, layer, o->k, kw);
    point(o, MGPT_V, layer, o->v, kw);
    qk_norm(o, layer, "attn_q_norm", o->q, o->H);
    qk_norm(o, layer, "attn_k_norm", o->k, o->G);
    if (o->s->n_rot == 0)
        return;
    rope(o, layer, o->q, o->H);
    rope(o, layer, o->k, o->G);
    point_qk(o, MGPT_ROT_Q, layer, o->q, qw);
    point_qk(o, MGPT_ROT_K, layer, o->k, kw);
}

static void oracle_add(const struct oracle *o, const double *y)
{
    for (size_t i = 0; i < o->T * o->E; i++)
        o->x[i] += y[i];
}

/* What attention adds to the residual, into a. */
static void attention(struct oracle *o, int layer)
{
    branch_input(o, layer, "attn_norm", o->s->layers[layer].attn_norm);
    point(o, MGPT_ATTN_IN, layer, o->h, o->E);
    project(o, layer);
    for (size_t t = 0; t < o->T && o->status == MGPT_OK; t++)
        for (size_t head = 0; head < o->H; head++)
            attend(o, layer, t, head);
    point(o, MGPT_HEADS, layer, o->z, o->qw);
    linear(o, layer, "attn_output", 0, o->z, o->qw, o->E, o->a);
    branch_output(o, layer, "post_attention_norm", o->a);
    point(o, MGPT_ATTN_OUT, layer, o->a, o->E);
}

/* What the MLP adds, into h. */
static void mlp(struct oracle *o, int layer)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    int gated = o->s->gated;
    branch_input(o, layer, l->shared_norm ? "attn_norm" : "ffn_norm", l->mlp_norm);
    point(o, MGPT_MLP_IN, layer, o->h, o->E);
    linear(o, layer, gated ? "ffn_gate" : "ffn_up", 0, o->h, o->E, o->F, o->f);
    point(o, MGPT_MLP_PRE, layer, o->f, o->F);
    if (gated) {
        linear(o, layer, "ffn_up", 0, o->h, o->E, o->F, o->up);
        point(o, MGPT_MLP_PRE_LINEAR, layer, o->up, o->F);
    }
    for (size_t i = 0; i < o->T * o->F; i++)
        o->f[i] = activate(l->activation, o->f[i]) * (gated ? o->up[i] : 1);
    point(o, MGPT_MLP_POST, layer, o->f, o->F);
    linear(o, layer, "ffn_down", 0, o->f, o->F, o->E, o->h);
    branch_output(o, layer, "post_ffw_norm", o->h);
    point(o, MGPT_MLP_OUT, layer, o->h, o->E);
}

static void run_layer(struct oracle *o, int layer)
{
    const struct oracle_layer *l = &o->s->layers[layer];
    if (layer == 0)
        memcpy(o->x0, o->x, o->T * o->E * sizeof *o->x);
    for (size_t i = 0; i < o->T * o->E && (l->keep != 1 || l->blend != 0); i++)
        o->x[i] = l->keep * o->x[i] + l->blend * o->x0[i];
    point(o, MGPT_RESID_PRE, layer, o->x, o->E);
    attention(o, layer);
    if (!l->parallel) {
        oracle_add(o, o->a);
        point(o, MGPT_RESID_MID, layer, o->x, o->E);
    }
    mlp(o, layer);
    oracle_add(o, o->h);
    if (l->parallel)
        oracle_add(o, o->a);
    point(o, MGPT_RESID_POST, layer, o->x, o->E);
}

static void embed(struct oracle *o)
{
    int learned = oracle_find(o, -1, "position_embd", ".weight") != ORACLE_ABSENT;
    for (size_t t = 0; t < o->T; t++) {
        read_row(o, -1, "token_embd", ".weight", (size_t)o->tokens[t], o->E, o->row);
        for (size_t i = 0; i < o->E; i++)
            o->x[t * o->E + i] = o->s->embd_scale * (double)o->row[i];
    }
    point(o, MGPT_EMBD, -1, o->x, o->E);
    if (!learned)
        return;
    for (size_t t = 0; t < o->T; t++) {
        read_row(o, -1, "position_embd", ".weight", position(o, t), o->E, o->row);
        for (size_t i = 0; i < o->E; i++)
            o->h[t * o->E + i] = (double)o->row[i];
    }
    point(o, MGPT_POS_EMBD, -1, o->h, o->E);
    oracle_add(o, o->h);
}

static void unembed(struct oracle *o)
{
    int untied = oracle_find(o, -1, "output", ".weight") != ORACLE_ABSENT;
    linear(o, -1, untied ? "output" : "token_embd", 0, o->x, o->E, o->V, o->logits);
    const float *bias = untied ? NULL : vector(o, -1, "output", ".bias", o->V, o->bias);
    for (size_t i = 0; i < o->T * o->V; i++)
        o->logits[i] = capped(o->logits[i] + (bias ? (double)bias[i % o->V] : 0), o->s->softcap);
    point(o, MGPT_LOGITS, -1, o->logits, o->V);
}

static void page(struct oracle *o)
{
    embed(o);
    if (o->s->embd_norm) {
        norm(o, -1, "no such tensor", o->x, o->x);
        point(o, MGPT_EMBD_NORM, -1, o->x, o->E);
    }
    for (size_t layer = 0; layer < o->s->n_layer && o->status == MGPT_OK; layer++)
        run_layer(o, (int)layer);
    if (o->s->final_norm && o->status == MGPT_OK) {
        norm(o, -1, "output_norm", o->x, o->x);
        point(o, MGPT_FINAL, -1, o->x, o->E);
    }
    if (o->status == MGPT_OK)
        unembed(o);
}

/* ---- memory ------------------------------------------------------------------------------------ */

static size_t oracle_largest(size_t a, size_t b, size_t c)
{
    size_t ab = a > b ? a : b;
    return ab > c ? ab : c;
}

static void *oracle_take(struct oracle *o, size_t n, size_t each)
{
    void *p = o->T > SIZE_MAX / 16 / (n + 1) ? NULL : mem_new(n, each);
    if (!p && o->status == MGPT_OK)
        o->status = err_memory(o->err, "a pass in float64", n * each);
    return p;
}

static double *matrix(struct oracle *o, size_t cols)
{
    return oracle_take(o, o->T * cols, sizeof(double));
}

static void take_all(struct oracle *o)
{
    size_t wide = oracle_largest(o->E, o->qw, o->F);
    o->x = matrix(o, o->E), o->x0 = matrix(o, o->E), o->h = matrix(o, o->E);
    o->q = matrix(o, o->qw), o->k = matrix(o, o->kw), o->v = matrix(o, o->kw);
    o->z = matrix(o, o->qw), o->a = matrix(o, o->E), o->f = matrix(o, o->F);
    o->up = matrix(o, o->F), o->logits = matrix(o, o->V), o->in = matrix(o, wide);
    o->scores = matrix(o, 1);
    o->row = oracle_take(o, wide, sizeof *o->row);
    o->gain = oracle_take(o, wide, sizeof *o->gain);
    o->bias = oracle_take(o, oracle_largest(wide, o->V, o->qw + 2 * o->kw), sizeof *o->bias);
}

static void free_all(struct oracle *o)
{
    free(o->x), free(o->x0), free(o->h), free(o->q), free(o->k), free(o->v), free(o->z);
    free(o->a), free(o->f), free(o->up), free(o->logits), free(o->in), free(o->scores);
    free(o->row), free(o->gain), free(o->bias);
}

int oracle_pass(const struct oracle_spec *s, const int32_t *tokens, size_t n, oracle_point *fn,
                void *user, mgpt_error *err)
{
    struct oracle o = {.s = s,
                       .fn = fn,
                       .user = user,
                       .tokens = tokens,
                       .err = err,
                       .T = n,
                       .E = s->n_embd,
                       .H = s->n_head,
                       .G = s->n_head_kv,
                       .d = s->head_dim,
                       .F = s->n_ff,
                       .V = s->n_vocab,
                       .qw = s->n_head * s->head_dim,
                       .kw = s->n_head_kv * s->head_dim};
    take_all(&o);
    if (o.status == MGPT_OK)
        page(&o);
    free_all(&o);
    return o.status;
}
