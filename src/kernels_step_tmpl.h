/* Floor 1. The whole step of a narrow model in one call: what forward.c says, for the few dozen
 * numbers of a row at which a call per verb costs more than its arithmetic.
 *
 * Knows nothing of models: struct narrow (kernels_step.h) is pointers and widths. Every sum has the order
 * that kernels.h states, so the bits are the page's; tests/test_narrow.c holds it to the page. It goes
 * stage by stage over up to ROWS rows, whose chains of latency overlap. step_of is compiled once with
 * the widths of the canonical microgpt as constants, and once for all others.
 */
#ifndef MGPT_KERNELS_STEP_TMPL_H
#define MGPT_KERNELS_STEP_TMPL_H

#include "kernels.h"
#include "kernels_lanes.h"

#define STEP_INLINE static inline __attribute__((always_inline))

enum { ROWS = 8, CHAINS = 4, TOGETHER = LANES_REGISTERS / 8 };

/* What stands between the stages; rows are as wide as the model, not as the array. */
struct step_buffers {
    float x[ROWS * NARROW], h[ROWS * NARROW], qkv[ROWS * 3 * NARROW], o[ROWS * NARROW];
    float ff[ROWS * 2 * NARROW_FF];
};

/* What was stored at p comes from memory again: a broadcast from there is a load, which costs less
 * than the two shuffles that compilers make of one from the register. */
STEP_INLINE void step_settle(const float *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* ---- linear ---- */

/* `count` panels at once: their chains hide each other's latency, and x is broadcast once. */
STEP_INLINE void step_panels(float *y, const float *w, const float *bias, const float *x,
                             size_t n_in, size_t count, size_t chains)
{
    lanes sum[TOGETHER][CHAINS];
    for (size_t p = 0; p < count; p++)
        for (size_t c = 0; c < chains; c++)
            sum[p][c] = lanes_of(0);
    for (size_t k = 0; k < n_in; k += chains)
        for (size_t c = 0; c < chains; c++) {
            lanes xk = lanes_of(x[k + c]);
            for (size_t p = 0; p < count; p++)
                sum[p][c] = lanes_fma(lanes_load(w + (p * n_in + k + c) * PANEL), xk, sum[p][c]);
        }
    for (size_t p = 0; p < count; p++) {
        lanes all = sum[p][0];
        if (chains == CHAINS)
            all = lanes_add(lanes_add(all, sum[p][1]), lanes_add(sum[p][2], sum[p][3]));
        if (bias)
            all = lanes_add(all, lanes_load(bias + p * PANEL));
        lanes_store(y + p * PANEL, all);
    }
}

STEP_INLINE void step_chains(float *y, const struct narrow_linear *l, const float *x, size_t n_in,
                             size_t n_panels, size_t chains)
{
    const float *w = l->w, *bias = l->bias;
    size_t p = 0;
    for (; p + TOGETHER <= n_panels; p += TOGETHER) {
        step_panels(y + p * PANEL, w + p * n_in * PANEL, bias, x, n_in, TOGETHER, chains);
        bias = bias ? bias + TOGETHER * PANEL : NULL;
    }
    const float *rest = w + p * n_in * PANEL;
    if (TOGETHER > 3 && n_panels - p == 3)
        step_panels(y + p * PANEL, rest, bias, x, n_in, TOGETHER > 3 ? 3 : 1, chains);
    else if (TOGETHER > 2 && n_panels - p == 2)
        step_panels(y + p * PANEL, rest, bias, x, n_in, TOGETHER > 2 ? 2 : 1, chains);
    else if (n_panels - p == 1)
        step_panels(y + p * PANEL, rest, bias, x, n_in, 1, chains);
}

STEP_INLINE void step_linear(float *y, const struct narrow_linear *l, const float *x, size_t n_in,
                             size_t n_panels, int one_chain)
{
    step_settle(x);
    if (one_chain)
        step_chains(y, l, x, n_in, n_panels, 1);
    else
        step_chains(y, l, x, n_in, n_panels, CHAINS);
}

/* ---- norms ---- */

STEP_INLINE void step_norm(float *y, const struct narrow_norm *norm, const float *x, size_t E,
                           float eps)
{
    lanes sum = lanes_of(0), mean = lanes_of(0);
    if (norm->kind == NARROW_NO_NORM) {
        for (size_t i = 0; i < E; i += PANEL)
            lanes_store(y + i, lanes_load(x + i));
        return;
    }
    if (norm->kind == NARROW_LAYERNORM) {
        for (size_t i = 0; i < E; i += PANEL)
            sum = lanes_add(sum, lanes_load(x + i));
        mean = lanes_of(lanes_fold(sum) / (float)E);
        sum = lanes_of(0);
    }
    for (size_t i = 0; i < E; i += PANEL) {
        lanes d = lanes_sub(lanes_load(x + i), mean);
        sum = lanes_fma(d, d, sum);
    }
    lanes inverse = lanes_of(1.0f / sqrtf(lanes_fold(sum) / (float)E + eps));
    for (size_t i = 0; i < E; i += PANEL) {
        lanes a = lanes_mul(lanes_sub(lanes_load(x + i), mean), inverse);
        if (norm->gain)
            a = lanes_mul(a, lanes_load(norm->gain + i));
        if (norm->bias)
            a = lanes_add(a, lanes_load(norm->bias + i));
        lanes_store(y + i, a);
    }
}

/* ---- attention ---- */

/* The cache begins at the first multiple of 64 (kv_align of kv.h). */
STEP_INLINE float *step_cache(unsigned char *p)
{
    return (float *)(void *)(p + (0 - (uintptr_t)p) % 64);
}

/* Appends key and value of one head: the key into lane pos % 16 of its panel's d vectors. */
STEP_INLINE void step_remember(float *keys, float *values, const float *k, const float *v,
                               size_t pos, size_t d)
{
    float *panel = keys + pos / PANEL * PANEL * d;
    for (size_t j = 0; j < d; j++) {
        lanes old = pos % PANEL ? lanes_load(panel + j * PANEL) : lanes_of(0);
        lanes_store(panel + j * PANEL, lanes_put(old, pos % PANEL, k[j]));
    }
    for (size_t j = 0; j < d; j += 4)
        quad_store(values + pos * d + j, quad_load(v + j));
}

STEP_INLINE lanes step_scores(const float *keys, const float *q, size_t d, float scale)
{
    lanes sum = lanes_of(0);
    for (size_t j = 0; j < d; j++)
        sum = lanes_fma(lanes_load(keys + j * PANEL), lanes_of(q[j]), sum);
    return lanes_mul(sum, lanes_of(scale));
}

/* Lanes behind the last key get the maximum while exponents are taken (e^0 costs nothing, a result too
 * small for a float would), and weigh nothing. */
STEP_INLINE lanes step_exp(lanes s, lanes max, size_t n)
{
    lanes e = lanes_exp(lanes_sub(lanes_first(n, s, max), max));
    return lanes_first(n, e, lanes_of(0));
}

/* The scores of a head to weights; the last panel is filled up with zeros. */
STEP_INLINE void step_softmax(float *s, size_t n)
{
    lanes most = lanes_of(-INFINITY), sum = lanes_of(0);
    for (size_t t = 0; t < n; t += PANEL)
        most = lanes_max(most, lanes_first(n - t, lanes_load(s + t), most));
    lanes max = lanes_of(lanes_biggest(most));
    for (size_t t = 0; t < n; t += PANEL) {
        lanes e = step_exp(lanes_load(s + t), max, n - t);
        sum = lanes_add(sum, e);
        lanes_store(s + t, e);
    }
    lanes inverse = lanes_of(1.0f / lanes_fold(sum));
    for (size_t t = 0; t < n; t += PANEL)
        lanes_store(s + t, lanes_mul(lanes_load(s + t), inverse));
}

/* Four heads (or one) whose keys are one panel, side by side and without a detour through memory. */
STEP_INLINE void step_weights_short(float *weights, size_t stride, unsigned char *const *k,
                                    const float *q, size_t n_keys, size_t h0, size_t count,
                                    size_t d, size_t group, float scale)
{
    lanes s[4], seen[4], all[4];
    for (size_t h = 0; h < 4; h++) {
        size_t head = h0 + (h < count ? h : 0);
        s[h] = step_scores(step_cache(k[head / group]), q + head * d, d, scale);
        seen[h] = lanes_first(n_keys, s[h], lanes_of(-INFINITY));
    }
    lanes_biggest_four(seen, all);
    for (size_t h = 0; h < 4; h++)
        s[h] = step_exp(s[h], all[h], n_keys);
    lanes_inverse_sums_four(s, all);
    for (size_t h = 0; h < count; h++)
        lanes_store(weights + (h0 + h) * stride, lanes_mul(s[h], all[h]));
}

/* Sixteen values of o, which may belong to several heads, in one loop over the tokens. */
STEP_INLINE void step_mix(float *o, const float *weights, size_t stride, unsigned char *const *v,
                          size_t first, size_t n_keys, size_t d, size_t group)
{
    const float *value[4], *weight[4];
    quad sum[4];
    for (size_t i = 0; i < 4; i++) {
        size_t h = (first + 4 * i) / d, j = (first + 4 * i) % d;
        value[i] = step_cache(v[h / group]) + j;
        weight[i] = weights + h * stride;
        sum[i] = quad_of(0);
    }
    for (size_t t = 0; t < n_keys; t++)
        for (size_t i = 0; i < 4; i++)
            sum[i] = quad_fma(quad_of(weight[i][t]), quad_load(value[i] + t * d), sum[i]);
    for (size_t i = 0; i < 4; i++)
        quad_store(o + first + 4 * i, sum[i]);
}

/* All heads of one row. */
STEP_INLINE void step_attend(float *o, const struct narrow *m, const struct narrow_row *row,
                             unsigned char *const *k, unsigned char *const *v, const float *q,
                             float *weights, size_t stride, size_t H, size_t d, size_t group)
{
    size_t n_keys = row->pos + 1, h = 0;
    if (n_keys <= PANEL) {
        for (; h + 4 <= H; h += 4)
            step_weights_short(weights, stride, k, q, n_keys, h, 4, d, group, m->attn_scale);
        for (; h < H; h++)
            step_weights_short(weights, stride, k, q, n_keys, h, 1, d, group, m->attn_scale);
    }
    for (; h < H; h++) {
        float *s = weights + h * stride, *keys = step_cache(k[h / group]);
        for (size_t t = 0; t < n_keys; t += PANEL)
            lanes_store(s + t, step_scores(keys + t * d, q + h * d, d, m->attn_scale));
        step_softmax(s, n_keys);
    }
    for (size_t first = 0; first < H * d; first += PANEL)
        step_mix(o, weights, stride, v, first, n_keys, d, group);
}

/* ---- the MLP ---- */

STEP_INLINE void step_activate(float *x, const struct narrow *m, size_t F, int gated)
{
    int relu = m->act == ACT_RELU || m->act == ACT_RELU2;
    if (!relu)
        m->activate(x, F);
    for (size_t i = 0; i < F; i += PANEL) {
        lanes a = lanes_load(x + i);
        if (relu)
            a = lanes_max(lanes_of(0), a);
        if (m->act == ACT_RELU2)
            a = lanes_mul(a, a);
        if (gated)
            a = lanes_mul(a, lanes_load(x + F + i));
        lanes_store(x + i, a);
    }
}

STEP_INLINE void step_add(float *x, const float *y, size_t E)
{
    for (size_t i = 0; i < E; i += PANEL)
        lanes_store(x + i, lanes_add(lanes_load(x + i), lanes_load(y + i)));
}

/* ---- the step ---- */

struct step_widths {
    size_t E, H, G, d, F;
    int gated, one_chain_up;
};

STEP_INLINE size_t step_qkv_width(const struct step_widths w)
{
    return (w.H + 2 * w.G) * w.d;
}

/* The first layer's input and its q, k and v. */
STEP_INLINE void step_begin(float *x, float *qkv, const struct narrow *m,
                            const struct narrow_row *row, const struct step_widths w)
{
    float h[NARROW];
    memcpy(x, row->token, w.E * sizeof *x);
    if (row->position)
        step_add(x, row->position, w.E);
    step_norm(x, &m->embd_norm, x, w.E, m->eps);
    if (m->n_layer == 0)
        return;
    step_norm(h, &m->layers[0].attn_norm, x, w.E, m->eps);
    step_linear(qkv, &m->layers[0].qkv, h, w.E, step_qkv_width(w) / PANEL, 0);
}

/* The same as it was found out at open: it depends on the token and its position alone. */
STEP_INLINE void step_recall(float *x, float *qkv, const float *begun, const struct step_widths w)
{
    size_t n = step_qkv_width(w);
    for (size_t i = 0; i < w.E; i += PANEL)
        lanes_store(x + i, lanes_load(begun + i));
    for (size_t i = 0; i < n; i += PANEL)
        lanes_store(qkv + i, lanes_load(begun + w.E + i));
}

STEP_INLINE void step_layer(const struct narrow *m, const struct narrow_layer *l, size_t il,
                            const struct narrow_row *rows, size_t n, float *scores, size_t stride,
                            struct step_buffers *b, const struct step_widths w)
{
    size_t E = w.E, q = w.H * w.d, kv = w.G * w.d, qkv = q + 2 * kv, ff = w.F << w.gated;
    for (size_t r = 0; r < n && il > 0; r++)
        step_norm(b->h + r * E, &l->attn_norm, b->x + r * E, E, m->eps);
    for (size_t r = 0; r < n && il > 0; r++)
        step_linear(b->qkv + r * qkv, &l->qkv, b->h + r * E, E, qkv / PANEL, 0);
    for (size_t r = 0; r < n; r++)
        for (size_t g = 0; g < w.G; g++)
            step_remember(step_cache(rows[r].k[il * w.G + g]), step_cache(rows[r].v[il * w.G + g]),
                          b->qkv + r * qkv + q + g * w.d, b->qkv + r * qkv + q + kv + g * w.d,
                          rows[r].pos, w.d);
    for (size_t r = 0; r < n; r++)
        step_attend(b->o + r * q, m, &rows[r], rows[r].k + il * w.G, rows[r].v + il * w.G,
                    b->qkv + r * qkv, scores, stride, w.H, w.d, w.H / w.G);
    for (size_t r = 0; r < n; r++) {
        step_linear(b->h + r * E, &l->o, b->o + r * q, q, E / PANEL, 0);
        step_add(b->x + r * E, b->h + r * E, E);
    }
    for (size_t r = 0; r < n; r++)
        step_norm(b->h + r * E, &l->ffn_norm, b->x + r * E, E, m->eps);
    for (size_t r = 0; r < n; r++) {
        step_linear(b->ff + r * ff, &l->up, b->h + r * E, E, ff / PANEL, w.one_chain_up);
        step_activate(b->ff + r * ff, m, w.F, w.gated);
    }
    for (size_t r = 0; r < n; r++) {
        step_linear(b->h + r * E, &l->down, b->ff + r * ff, w.F, E / PANEL, 0);
        step_add(b->x + r * E, b->h + r * E, E);
    }
}

STEP_INLINE void step_of(const struct narrow *m, const struct narrow_row *rows, size_t n,
                         float *scores, size_t stride, const struct step_widths w)
{
    struct step_buffers b;
    size_t E = w.E;
    for (size_t r = 0; r < n; r++) {
        if (rows[r].begun)
            step_recall(b.x + r * E, b.qkv + r * step_qkv_width(w), rows[r].begun, w);
        else
            step_begin(b.x + r * E, b.qkv + r * step_qkv_width(w), m, &rows[r], w);
    }
    for (size_t il = 0; il < m->n_layer; il++)
        step_layer(m, &m->layers[il], il, rows, n, scores, stride, &b, w);
    for (size_t r = 0; r < n; r++) {
        if (!rows[r].logits)
            continue;
        step_norm(b.h, &m->final_norm, b.x + r * E, E, m->eps);
        step_linear(rows[r].logits, &m->head, b.h, E, m->n_head_panels, m->one_chain_head);
    }
}

static struct step_widths step_widths_of(const struct narrow *m)
{
    return (struct step_widths){m->n_embd, m->n_head, m->n_head_kv,   m->head_dim,
                                m->n_ff,   m->gated,  m->one_chain_up};
}

static void narrow_begin(const struct narrow *m, const struct narrow_row *row, float *begun)
{
    step_begin(begun, begun + m->n_embd, m, row, step_widths_of(m));
}

static void narrow_step(const struct narrow *m, const struct narrow_row *rows, size_t n,
                        float *scores, size_t stride)
{
    const struct step_widths w = step_widths_of(m);
    int canonical = w.E == 16 && w.H == 4 && w.G == 4 && w.d == 4 && w.F == 64 && !w.gated;
    for (size_t done = 0; done < n; done += ROWS) {
        size_t some = n - done < ROWS ? n - done : ROWS;
        if (canonical && some == 1)
            step_of(m, rows + done, 1, scores, stride, (struct step_widths){16, 4, 4, 4, 64, 0, 0});
        else if (canonical)
            step_of(m, rows + done, some, scores, stride,
                    (struct step_widths){16, 4, 4, 4, 64, 0, 0});
        else
            step_of(m, rows + done, some, scores, stride, w);
    }
}

#endif
