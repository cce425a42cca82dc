/* Attention of the fused step (fused_tmpl.h): scores, softmax and weighted sum of values.
 *
 * One row with at most 16 keys: the softmax of four heads runs in four registers, one key per lane.
 * Interleaved caches: a lane is one of four keys of one of four heads. Maximum and sum then hardly need
 * shuffles, and the number of exponentials is that of the keys. Other caches, several rows of at most
 * 16 keys: 16 heads at a time, with the scores transposed, so that a lane is one head of one row and
 * a register is one key. Sums keep the order of kernels.h, where lane t is key t.
 */
#ifndef MGPT_FUSED_ATTEND_TMPL_H
#define MGPT_FUSED_ATTEND_TMPL_H

#include "page/fused_matmul_tmpl.h"

struct step_heads {
    size_t n, d, group; /* query heads, head width, query heads per KV head */
    float scale;
};

/* What one row attends to: the caches of a layer, by KV head, and the number of visible keys. */
struct step_keys {
    unsigned char *const *k, *const *v;
    size_t n;
};

/* Scores and weights: those of key t for head h are at at[h * next_head + t * next_key]. */
struct step_weights {
    float *at;
    size_t next_head, next_key;
};

/* `cache` is the index of the layer's first cache in row->k and row->v. */
VEC_INLINE struct step_keys step_keys(const struct fused_row *row, size_t cache)
{
    return (struct step_keys){row->k + cache, row->v + cache, row->pos + 1};
}

/* A head's keys or values in the cache (kv.h): floats, from a multiple of 64. */
VEC_INLINE float *step_cache(unsigned char *p)
{
    return (float *)(void *)p;
}

/* Appends key and value of one head. The key goes into lane pos % 16 of the d vectors of its panel.
 * read_at_once (a single row): whole vectors are stored, because the next loads follow at once and
 * the CPU forwards only whole stores. */
VEC_INLINE void step_kv_append(float *keys, float *values, const float *k, const float *v,
                               size_t pos, size_t d, int read_at_once)
{
    float *panel = keys + pos / PANEL * PANEL * d;
    for (size_t j = 0; j < d; j++) {
        if (read_at_once) {
            lanes old = pos % PANEL ? lanes_load(panel + j * PANEL) : lanes_of(0);
            lanes_store(panel + j * PANEL, lanes_put(old, pos % PANEL, k[j]));
        } else {
            lanes_store_from(panel + j * PANEL, pos % PANEL, k[j]);
        }
    }
    for (size_t j = 0; j < d; j += 4)
        quad_store(values + pos * d + j, quad_load(v + j));
}

VEC_INLINE lanes step_scores(const float *keys, const float *q, size_t d, float scale)
{
    lanes sum = lanes_of(0);
    for (size_t j = 0; j < d; j++)
        sum = lanes_fma(lanes_load(keys + j * PANEL), lanes_of(q[j]), sum);
    return lanes_mul(sum, lanes_of(scale));
}

/* ---- one row ---- */

/* Lanes after the last key are set to the maximum for the exponential (a subnormal result would be
 * slow), then their weight is set to 0. */
VEC_INLINE lanes step_exp(lanes s, lanes max, size_t n)
{
    lanes e = lanes_exp(lanes_sub(lanes_first(n, s, max), max));
    return lanes_first(n, e, lanes_of(0));
}

/* Softmax of the scores of one head, in place. The last panel is padded with zeros. */
VEC_INLINE void step_softmax(float *s, size_t n)
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
    lanes inverse = lanes_of(1.0f / lanes_reduce(sum));
    for (size_t t = 0; t < n; t += PANEL)
        lanes_store(s + t, lanes_mul(lanes_load(s + t), inverse));
}

/* Weights of four heads (or one) from h0 on with at most 16 keys, computed in registers. */
VEC_INLINE void step_weights_short(const struct step_weights w, const struct step_keys keys,
                                   const float *q, size_t h0, size_t count,
                                   const struct step_heads heads)
{
    lanes s[4], seen[4], all[4];
    for (size_t h = 0; h < 4; h++) {
        size_t head = h0 + (h < count ? h : 0);
        s[h] = step_scores(step_cache(keys.k[head / heads.group]), q + head * heads.d, heads.d,
                           heads.scale);
        seen[h] = lanes_first(keys.n, s[h], lanes_of(-INFINITY));
    }
    lanes_biggest_four(seen, all);
    for (size_t h = 0; h < 4; h++)
        s[h] = step_exp(s[h], all[h], keys.n);
    lanes_inverse_sums_four(s, all);
    for (size_t h = 0; h < count; h++)
        lanes_store(w.at + (h0 + h) * w.next_head, lanes_mul(s[h], all[h]));
}

/* Sixteen values of o, of one or more heads, in one loop over the keys. */
VEC_INLINE void step_mix(float *o, const struct step_weights w, const struct step_keys keys,
                         size_t first, const struct step_heads heads)
{
    const float *value[4], *weight[4];
    quad sum[4];
    for (size_t i = 0; i < 4; i++) {
        size_t h = (first + 4 * i) / heads.d, j = (first + 4 * i) % heads.d;
        value[i] = step_cache(keys.v[h / heads.group]) + j;
        weight[i] = w.at + h * w.next_head;
        sum[i] = quad_of(0);
    }
    UNROLL_TWICE for (size_t t = 0; t < keys.n; t++)
    {
        for (size_t i = 0; i < 4; i++)
            sum[i] = quad_fma(quad_of(weight[i][t * w.next_key]), quad_load(value[i] + t * heads.d),
                              sum[i]);
    }
    for (size_t i = 0; i < 4; i++)
        quad_store(o + first + 4 * i, sum[i]);
}

VEC_INLINE void step_mixes(float *o, const struct step_weights w, const struct step_keys keys,
                           const struct step_heads heads)
{
    for (size_t first = 0; first < heads.n * heads.d; first += PANEL)
        step_mix(o, w, keys, first, heads);
}

/* All heads of one row. w.next_key is 1. */
VEC_INLINE void step_attend(float *o, const float *q, const struct step_keys keys,
                            const struct step_weights w, const struct step_heads heads)
{
    size_t h = 0;
    if (keys.n <= PANEL) {
        for (; h + 4 <= heads.n; h += 4)
            step_weights_short(w, keys, q, h, 4, heads);
        for (; h < heads.n; h++)
            step_weights_short(w, keys, q, h, 1, heads);
    }
    for (; h < heads.n; h++) {
        float *s = w.at + h * w.next_head, *k = step_cache(keys.k[h / heads.group]);
        for (size_t t = 0; t < keys.n; t += PANEL)
            lanes_store(s + t, step_scores(k + t * heads.d, q + h * heads.d, heads.d, heads.scale));
        step_softmax(s, keys.n);
    }
    step_mixes(o, w, keys, heads);
}

/* ---- one row, interleaved caches (kv.h): four heads at a time, and four keys ---- */

#if defined(LANES_QUADS)
enum { INTERLEAVES = 1 };

/* Four floats of each of four heads, whose rows of d floats begin at p. */
VEC_INLINE lanes step_quads(const float *p, size_t d)
{
    float quads[PANEL];
    for (size_t h = 0; h < 4 && d != 4; h++)
        quad_store(quads + 4 * h, quad_load(p + h * d));
    return lanes_load(d == 4 ? p : quads);
}

VEC_INLINE void step_put_quads(float *p, size_t d, lanes a)
{
    float quads[PANEL];
    lanes_store(d == 4 ? p : quads, a);
    for (size_t h = 0; h < 4 && d != 4; h++)
        quad_store(p + h * d, quad_load(quads + 4 * h));
}

/* Quad number i of the values of four heads. */
VEC_INLINE float *step_value(const struct step_keys keys, size_t i)
{
    return step_cache(keys.v[i % 4]) + i / 4 * PANEL;
}

/* Appends the last token of `keys`. */
VEC_INLINE void step_append_four(const struct step_keys keys, const float *k, const float *v,
                                 size_t d)
{
    size_t pos = keys.n - 1;
    float *key = step_cache(keys.k[pos % PANEL / 4]) + pos / PANEL * PANEL * d;
    for (size_t j = 0; j < d; j += 4) {
        lanes new = step_quads(k + j, d);
        UNROLLED(c, 4) {
            float *at = key + (j + c) * PANEL;
            lanes_store(
                at, lanes_firsts(pos % 4, lanes_load(at), lanes_quads(new, (enum quad_lanes)c)));
        }
        lanes_store(step_value(keys, (pos * d + j) / 4), step_quads(v + j, d));
    }
}

/* Group g of the scores or weights, at w, or in registers if w is NULL. */
VEC_INLINE lanes step_get(const lanes *s, const float *w, size_t g)
{
    return w ? lanes_load(w + g * PANEL) : s[g];
}

VEC_INLINE void step_put(lanes *s, float *w, size_t g, lanes a)
{
    if (w)
        lanes_store(w + g * PANEL, a);
    else
        s[g] = a;
}

/* Attends to n groups of four keys: lane c of each quad is key 4 g + c of a head. n is a constant
 * of at most 4, or there is room for n groups at w. Sums have the order of lanes_reduce. */
VEC_INLINE void step_attend_four(float *o, const float *q, const struct step_keys keys, float *w,
                                 const struct step_heads heads, size_t n)
{
    size_t d = heads.d, last = (keys.n - 1) % 4 + 1; /* keys of the last group */
    lanes each[NARROW / 4], s[4], zero = lanes_of(0), most = lanes_of(-INFINITY);
    lanes sum[4] = {zero, zero, zero, zero};
    for (size_t j = 0; j < d; j += 4)
        UNROLLED(c, 4)
            each[j + c] = lanes_quads(step_quads(q + j, d), (enum quad_lanes)c);
    for (size_t g = 0; g < n; g++) {
        const float *key = step_cache(keys.k[g % 4]) + g / 4 * PANEL * d;
        lanes a = zero;
        for (size_t j = 0; j < d; j++)
            a = lanes_fma(lanes_load(key + j * PANEL), each[j], a);
        a = lanes_mul(a, lanes_of(heads.scale));
        step_put(s, w, g, a);
        most = lanes_max(most, g + 1 < n ? a : lanes_firsts(last, a, most));
    }
    most = lanes_max(most, lanes_quads(most, QUAD_2301));
    most = lanes_max(most, lanes_quads(most, QUAD_1032));
    for (size_t g = 0; g < n; g++) {
        lanes e = lanes_sub(step_get(s, w, g), most);
        e = lanes_exp(g + 1 < n ? e : lanes_firsts(last, e, zero));
        e = g + 1 < n ? e : lanes_firsts(last, e, zero);
        step_put(s, w, g, e);
        sum[g % 4] = g < 4 ? e : lanes_add(sum[g % 4], e);
    }
    lanes all = n > 2 ? lanes_add(sum[0], sum[2]) : sum[0];
    if (n > 1)
        all = lanes_add(all, n > 3 ? lanes_add(sum[1], sum[3]) : sum[1]);
    all = lanes_add(all, lanes_quads(all, QUAD_2301));
    all = lanes_div(lanes_of(1), lanes_add(all, lanes_quads(all, QUAD_1032)));
    for (size_t j = 0; j < d; j += 4) {
        lanes mix = zero;
        for (size_t g = 0; g < n; g++) {
            lanes weights = lanes_mul(step_get(s, w, g), all);
            UNROLLED(c, 4)
                if (g + 1 < n || c < last)
                    mix = lanes_fma(lanes_load(step_value(keys, ((4 * g + c) * d + j) / 4)),
                                    lanes_quads(weights, (enum quad_lanes)c), mix);
        }
        step_put_quads(o + j, d, mix);
    }
}

VEC_INLINE void step_attend_fours(float *o, const float *q, struct step_keys keys, float *w,
                                  const struct step_heads heads)
{
    size_t n = (keys.n + 3) / 4;
    for (size_t i = 0; i < heads.n * heads.d; i += 4 * heads.d, keys.k += 4, keys.v += 4) {
        if (n == 1)
            step_attend_four(o + i, q + i, keys, NULL, heads, 1);
        else if (n == 2)
            step_attend_four(o + i, q + i, keys, NULL, heads, 2);
        else if (n == 3)
            step_attend_four(o + i, q + i, keys, NULL, heads, 3);
        else if (n == 4)
            step_attend_four(o + i, q + i, keys, NULL, heads, 4);
        else
            step_attend_four(o + i, q + i, keys, w, heads, n);
    }
}

#else
enum { INTERLEAVES = 0 };
#define step_append_four(...) (void)0
#define step_attend_fours(...) (void)0
#endif

/* ---- several rows of no more than sixteen keys ---- */

/* Writes the weights of sixteen heads (of one or more rows) to w: those of key t at w + t * PANEL.
 * s holds the scores; lane i of n_keys is the number of keys of head i. `most`, a constant, is the
 * largest number of keys. */
VEC_INLINE void step_weigh(float *w, lanes s[PANEL], lanes n_keys, size_t most)
{
    lanes max, sum[PANEL];
    lanes_transpose(s);
    max = s[0];
    for (size_t t = 1; t < most; t++)
        max = lanes_max_at_least(n_keys, lanes_of((float)(t + 1)), s[t], max);
    for (size_t t = 0; t < most; t++) {
        lanes all = lanes_of((float)(t + 1)), less = lanes_sub(s[t], max);
        s[t] = lanes_at_least(n_keys, all, lanes_exp(lanes_at_least(n_keys, all, less)));
        sum[t] = s[t];
    }
    for (size_t width = PANEL / 2; width > 0; width /= 2)
        for (size_t t = 0; t < width && t + width < most; t++)
            sum[t] = lanes_add(sum[t], sum[t + width]);
    lanes inverse = lanes_div(lanes_of(1), sum[0]);
    for (size_t t = 0; t < most; t++)
        lanes_store(w + t * PANEL, lanes_mul(s[t], inverse));
}

/* The number of rows whose heads fit in sixteen lanes. */
VEC_INLINE size_t step_group(size_t n_heads)
{
    return PANEL / n_heads;
}

/* Number of keys per lane, for each group of rows. Unused lanes of a group get 1. */
VEC_INLINE void step_count_keys(float *n_keys, const struct fused_row *rows, size_t n,
                                size_t n_heads)
{
    size_t group = step_group(n_heads);
    for (size_t r0 = 0; r0 < n; r0 += group, n_keys += PANEL)
        for (size_t i = 0; i < PANEL; i++) {
            size_t r = i / n_heads;
            n_keys[i] = r < group && r0 + r < n ? (float)(rows[r0 + r].pos + 1) : 1;
        }
}

/* n rows, at most one group. q[r] points to the queries of row r; `cache` is the index of the
 * layer's first cache in rows[r].k and rows[r].v. */
VEC_INLINE void step_attend_group(float *o, const float *const *q, const struct fused_row *rows,
                                  size_t n, size_t cache, const float *n_keys,
                                  const struct step_heads heads)
{
    float w[PANEL * PANEL];
    lanes s[PANEL], keys = lanes_load(n_keys);
    size_t longest = 0;
    UNROLLED(i, PANEL) {
        size_t r = i / heads.n < n ? i / heads.n : 0, h = i % heads.n;
        s[i] = step_scores(step_cache(rows[r].k[cache + h / heads.group]), q[r] + h * heads.d,
                           heads.d, heads.scale);
    }
    for (size_t r = 0; r < n; r++)
        longest = rows[r].pos > longest ? rows[r].pos : longest;
    if (longest < 4)
        step_weigh(w, s, keys, 4);
    else if (longest < 8)
        step_weigh(w, s, keys, 8);
    else if (longest < 12)
        step_weigh(w, s, keys, 12);
    else
        step_weigh(w, s, keys, PANEL);
    for (size_t r = 0; r < n; r++)
        step_mixes(o + r * heads.n * heads.d, (struct step_weights){w + r * heads.n, 1, PANEL},
                   step_keys(&rows[r], cache), heads);
}

#endif
