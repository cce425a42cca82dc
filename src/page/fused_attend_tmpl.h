/* Attention of the fused step (fused_tmpl.h): scores, softmax and weighted sum of values.
 *
 * One row with at most 16 keys: the softmax of four heads runs in four registers, one key per lane.
 * Several such rows: 16 heads at a time, with the scores transposed, so that a lane is one head of
 * one row and a register is one key. Maximum and sum then need no shuffles, and the number of
 * exponentials is that of the longest row. Sums keep the order of kernels.h, where lane t is key t.
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
