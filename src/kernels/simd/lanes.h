/* Sixteen floats as one value: a row of a panel in the vectors of the ISA level (vec.h).
 *
 * Only lanes_reduce and lanes_biggest combine lanes, in the order stated there.
 */
#ifndef MGPT_KERNELS_LANES_H
#define MGPT_KERNELS_LANES_H

#include "kernels/simd/vec.h"

enum { LANES_REGISTERS = REGISTERS * LANES / PANEL }; /* values of this type in registers */

#define EACH_VEC(i) UNROLLED(i, PANEL / LANES)

VEC_INLINE lanes lanes_of(float x)
{
    lanes a;
    EACH_VEC(i)
        a.v[i] = vec_of(x);
    return a;
}

VEC_INLINE lanes lanes_load(const float *p)
{
    lanes a;
    EACH_VEC(i)
        a.v[i] = vec_load(p + i * LANES);
    return a;
}

VEC_INLINE void lanes_store(float *p, lanes a)
{
    EACH_VEC(i)
        vec_store(p + i * LANES, a.v[i]);
}

/* Returns n - from: how many of the first n lanes a vector that begins at lane `from` has. It may
 * be negative. */
VEC_INLINE ptrdiff_t lanes_left(size_t n, size_t from)
{
    return (ptrdiff_t)n - (ptrdiff_t)from;
}

/* The first n lanes; `rest` in the others. */
VEC_INLINE lanes lanes_load_some(const float *p, size_t n, float rest)
{
    lanes a;
    EACH_VEC(i)
        a.v[i] = vec_load_part(p + i * LANES, lanes_left(n, i * LANES), rest);
    return a;
}

/* The first n < PANEL lanes. */
VEC_INLINE void lanes_store_some(float *p, size_t n, lanes a)
{
    for (size_t i = 0; i < n; i += LANES)
        vec_store_part(p + i, a.v[i / LANES], n - i < LANES ? n - i : LANES);
}

VEC_INLINE void lanes_keep(lanes *a)
{
    EACH_VEC(i)
        vec_keep(&a->v[i]);
}

#define LANES_OF_TWO(name, vec_name)                                                               \
    VEC_INLINE lanes name(lanes a, lanes b)                                                        \
    {                                                                                              \
        EACH_VEC(i)                                                                                \
            a.v[i] = vec_name(a.v[i], b.v[i]);                                                     \
        return a;                                                                                  \
    }
LANES_OF_TWO(lanes_add, vec_add)
LANES_OF_TWO(lanes_sub, vec_sub)
LANES_OF_TWO(lanes_mul, vec_mul)
LANES_OF_TWO(lanes_div, vec_div)
LANES_OF_TWO(lanes_max, vec_max) /* a > b ? a : b */
LANES_OF_TWO(lanes_min, vec_min) /* a < b ? a : b */

VEC_INLINE lanes lanes_fma(lanes a, lanes b, lanes c)
{
    EACH_VEC(i)
        c.v[i] = vec_fma(a.v[i], b.v[i], c.v[i]);
    return c;
}

/* The first n lanes of a, the others of b. */
VEC_INLINE lanes lanes_first(size_t n, lanes a, lanes b)
{
    EACH_VEC(i)
        a.v[i] = vec_first(lanes_left(n, i * LANES), a.v[i], b.v[i]);
    return a;
}

/* a >= b ? x : 0 */
VEC_INLINE lanes lanes_at_least(lanes a, lanes b, lanes x)
{
    EACH_VEC(i)
        x.v[i] = vec_at_least(a.v[i], b.v[i], x.v[i]);
    return x;
}

/* a >= b ? max(x, y) : y */
VEC_INLINE lanes lanes_max_at_least(lanes a, lanes b, lanes x, lanes y)
{
    EACH_VEC(i)
        y.v[i] = vec_max_at_least(a.v[i], b.v[i], x.v[i], y.v[i]);
    return y;
}

/* a with x in lane i. */
VEC_INLINE lanes lanes_put(lanes a, size_t i, float x)
{
    EACH_VEC(j)
        a.v[j] = vec_put(a.v[j], lanes_left(i, j * LANES), x);
    return a;
}

#if defined(LANES_QUADS)

VEC_INLINE lanes lanes_quads(lanes a, enum quad_lanes from)
{
    EACH_VEC(i)
        a.v[i] = vec_quads(a.v[i], from);
    return a;
}

VEC_INLINE lanes lanes_firsts(size_t n, lanes a, lanes b)
{
    EACH_VEC(i)
        a.v[i] = vec_firsts(n, a.v[i], b.v[i]);
    return a;
}

#endif

/* p 2^whole, rounded once; p in [1/2, 2). `shifted` is whole + 1.5 * 2^23. */
VEC_INLINE lanes lanes_scale2(lanes p, lanes shifted, lanes whole)
{
    EACH_VEC(i)
        p.v[i] = vec_scale2(p.v[i], shifted.v[i], whole.v[i]);
    return p;
}

/* ---- across the lanes ---- */

/* The sum of the lanes: p[i] += p[i + 8] for i < 8, then 4, 2, 1. */
VEC_INLINE float lanes_reduce(lanes a)
{
    UNROLL for (size_t half = PANEL / LANES / 2; half > 0; half /= 2) UNROLLED(i, half) a.v[i] =
        vec_add(a.v[i], a.v[i + half]);
    return vec_reduce(a.v[0]);
}

/* The largest lane. If a lane is NaN the result is any lane or NaN. */
VEC_INLINE float lanes_biggest(lanes a)
{
    UNROLL for (size_t half = PANEL / LANES / 2; half > 0; half /= 2) UNROLLED(i, half) a.v[i] =
        vec_max(a.v[i], a.v[i + half]);
    return vec_biggest(a.v[0]);
}

#if !defined(LANES_FOURS)

/* lanes_biggest, in every lane. */
VEC_INLINE lanes lanes_biggest_all(lanes a)
{
    return lanes_of(lanes_biggest(a));
}

/* Four at a time. Every lane of to[i] is the largest lane of a[i], or 1 / lanes_reduce(a[i]). */
VEC_INLINE void lanes_biggest_four(const lanes a[4], lanes to[4])
{
    for (size_t i = 0; i < 4; i++)
        to[i] = lanes_of(lanes_biggest(a[i]));
}

VEC_INLINE void lanes_inverse_sums_four(const lanes a[4], lanes to[4])
{
    for (size_t i = 0; i < 4; i++)
        to[i] = lanes_of(1.0f / lanes_reduce(a[i]));
}

/* Stores x to lane i at p; i = 0: to all lanes. */
VEC_INLINE void lanes_store_from(float *p, size_t i, float x)
{
    if (i == 0)
        lanes_store(p, lanes_of(x));
    p[i] = x;
}

#endif

/* Lane i of a[j] becomes lane j of a[i]. */
VEC_INLINE void lanes_transpose(lanes a[16])
{
    lanes t[16], four[4];
    for (size_t i = 0; i < 4; i++) {
        const lanes from[4] = {a[i], a[4 + i], a[8 + i], a[12 + i]};
        lanes_quarters(from, four);
        for (size_t q = 0; q < 4; q++)
            t[4 * q + i] = four[q];
    }
    for (size_t q = 0; q < 4; q++)
        lanes_cross(t + 4 * q, a + 4 * q);
}

/* ---- exp ---- */

/* e^x 2^by for -104 <= x <= 0, the polynomial of exp_f32 in float_tmpl.h. */
VEC_INLINE lanes lanes_exp_by(lanes c, float by)
{
    lanes magic = lanes_of(0x1.8p23f);
    lanes shifted = lanes_fma(c, lanes_of(0x1.715476p0f), magic);
    lanes whole = lanes_sub(shifted, magic);
    lanes r = lanes_fma(whole, lanes_of(-0x1.62e4p-1f), c);
    r = lanes_fma(whole, lanes_of(-0x1.7f7d1cp-20f), r);
    lanes p = lanes_fma(lanes_of(0x1.6a1a76p-10f), r, lanes_of(0x1.123fc6p-7f));
    p = lanes_fma(p, r, lanes_of(0x1.555916p-5f));
    p = lanes_fma(p, r, lanes_of(0x1.55548ap-3f));
    p = lanes_fma(p, r, lanes_of(0x1.fffffcp-2f));
    p = lanes_add(lanes_fma(p, lanes_mul(r, r), r), lanes_of(1.0f));
    return lanes_scale2(p, lanes_add(shifted, lanes_of(by)), lanes_add(whole, lanes_of(by)));
}

/* e^x for x <= 0. NaN stays NaN. */
VEC_INLINE lanes lanes_exp(lanes x)
{
    return lanes_exp_by(lanes_max(lanes_of(-104.0f), x), 0);
}

#endif
