/* Sixteen floats as one value, in the instructions of the including ISA level.
 *
 * Only lanes_reduce and lanes_biggest combine lanes, in the order stated there. Each function gives
 * the same bits on every ISA level: comparisons agree with max and min of x86 for zeros and NaN.
 */
#ifndef MGPT_KERNELS_LANES_H
#define MGPT_KERNELS_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#include "kernels/simd/lanes_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__)
#include "kernels/simd/lanes_avx2.h"
#else
#include "kernels/simd/lanes_plain.h"
#endif

/* ---- four floats ---- */

#if defined(__AVX2__) && defined(__FMA__)

typedef __m128 quad;

static inline quad quad_of(float x)
{
    return _mm_set1_ps(x);
}

static inline quad quad_load(const float *p)
{
    return _mm_loadu_ps(p);
}

static inline void quad_store(float *p, quad a)
{
    _mm_storeu_ps(p, a);
}

static inline quad quad_add(quad a, quad b)
{
    return _mm_add_ps(a, b);
}

static inline quad quad_div(quad a, quad b)
{
    return _mm_div_ps(a, b);
}

static inline quad quad_sqrt(quad a)
{
    return _mm_sqrt_ps(a);
}

static inline quad quad_fma(quad a, quad b, quad c)
{
    return _mm_fmadd_ps(a, b, c);
}

#else

typedef struct {
    float v[4];
} quad;

static inline quad quad_of(float x)
{
    return (quad){{x, x, x, x}};
}

static inline quad quad_load(const float *p)
{
    return (quad){{p[0], p[1], p[2], p[3]}};
}

static inline void quad_store(float *p, quad a)
{
    memcpy(p, a.v, sizeof a.v);
}

#define QUAD_EACH(i) for (size_t i = 0; i < 4; i++)

static inline quad quad_add(quad a, quad b)
{
    QUAD_EACH(i)
    a.v[i] += b.v[i];
    return a;
}

static inline quad quad_div(quad a, quad b)
{
    QUAD_EACH(i)
    a.v[i] /= b.v[i];
    return a;
}

static inline quad quad_sqrt(quad a)
{
    QUAD_EACH(i)
    a.v[i] = sqrtf(a.v[i]);
    return a;
}

static inline quad quad_fma(quad a, quad b, quad c)
{
    QUAD_EACH(i)
    c.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
    return c;
}

#endif

#if !defined(MGPT_KERNELS_LANES_AVX512_H)

/* ---- sixteen integers of 64 bits ---- */

struct fixed {
    uint64_t v[16];
};

static inline struct fixed fixed_zero(void)
{
    return (struct fixed){{0}};
}

/* Rounds to nearest, ties to even, for 0 <= a <= 2^40: after adding 2^52 the low bits are the
 * integer. */
static inline struct fixed fixed_of(lanes a)
{
    float x[16];
    struct fixed f;
    lanes_store(x, a);
    for (size_t i = 0; i < 16; i++) {
        double d = (double)x[i] + 0x1p52;
        memcpy(&f.v[i], &d, sizeof d);
        f.v[i] -= UINT64_C(0x4330000000000000);
    }
    return f;
}

static inline struct fixed fixed_add(struct fixed a, struct fixed b)
{
    for (size_t i = 0; i < 16; i++)
        a.v[i] += b.v[i];
    return a;
}

static inline void fixed_store(uint64_t *p, struct fixed a)
{
    memcpy(p, a.v, sizeof a.v);
}

static inline uint64_t fixed_sum(struct fixed a)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < 16; i++)
        sum += a.v[i];
    return sum;
}

/* The number of lanes, over n values in order, whose running sum is at most u * total, rounded
 * down. */
static inline size_t fixed_passed(const struct fixed *a, size_t n, double u)
{
    uint64_t sum = 0, target;
    size_t count = 0;
    for (size_t j = 0; j < n; j++)
        sum += fixed_sum(a[j]);
    target = (uint64_t)(u * (double)sum);
    sum = 0;
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < 16; i++) {
            sum += a[j].v[i];
            count += sum <= target; /* no branch: it could not be predicted */
        }
    return count;
}

#endif

/* ---- across the lanes, and exp ---- */

/* The sum of the lanes: p[i] += p[i + 8] for i < 8, then 4, 2, 1. */
static inline float lanes_reduce(lanes a)
{
#if defined(__AVX2__) && defined(__FMA__)
    __m256 p8 = _mm256_add_ps(lanes_low(a), lanes_high(a));
    __m128 p4 = _mm_add_ps(_mm256_castps256_ps128(p8), _mm256_extractf128_ps(p8, 1));
    __m128 p2 = _mm_add_ps(p4, _mm_movehl_ps(p4, p4));
    return _mm_cvtss_f32(_mm_add_ss(p2, _mm_movehdup_ps(p2)));
#else
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            a.v[i] += a.v[i + width];
    return a.v[0];
#endif
}

/* The largest lane. If a lane is NaN the result is any lane or NaN. */
static inline float lanes_biggest(lanes a)
{
#if defined(__AVX2__) && defined(__FMA__)
    __m256 p8 = _mm256_max_ps(lanes_low(a), lanes_high(a));
    __m128 p4 = _mm_max_ps(_mm256_castps256_ps128(p8), _mm256_extractf128_ps(p8, 1));
    __m128 p2 = _mm_max_ps(p4, _mm_movehl_ps(p4, p4));
    return _mm_cvtss_f32(_mm_max_ss(p2, _mm_movehdup_ps(p2)));
#else
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            a.v[i] = a.v[i] > a.v[i + width] ? a.v[i] : a.v[i + width];
    return a.v[0];
#endif
}

/* lanes_biggest, in every lane. */
static inline lanes lanes_biggest_all(lanes a)
{
#if defined(MGPT_KERNELS_LANES_AVX512_H)
    a = lanes_max(a, LANES_QUARTERS(a, a, 0x4E));
    a = lanes_max(a, LANES_QUARTERS(a, a, 0xB1));
    a = lanes_max(a, _mm512_permute_ps(a, 0x4E));
    return lanes_max(a, _mm512_permute_ps(a, 0xB1));
#else
    return lanes_of(lanes_biggest(a));
#endif
}

/* Four at a time. Every lane of to[i] is the largest lane of a[i], or 1 / lanes_reduce(a[i]).
 * AVX-512 has its own versions, which share the shuffles. */
#if !defined(MGPT_KERNELS_LANES_AVX512_H)

static inline void lanes_biggest_four(const lanes a[4], lanes to[4])
{
    for (size_t i = 0; i < 4; i++)
        to[i] = lanes_of(lanes_biggest(a[i]));
}

static inline void lanes_inverse_sums_four(const lanes a[4], lanes to[4])
{
    for (size_t i = 0; i < 4; i++)
        to[i] = lanes_of(1.0f / lanes_reduce(a[i]));
}

#endif

/* lanes_reduce of four values. */
static inline quad lanes_reduce_four(const lanes a[4])
{
#if defined(MGPT_KERNELS_LANES_AVX512_H)
    const __m512i firsts = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, lanes_sums_four(a)));
#elif defined(__AVX2__) && defined(__FMA__)
    __m128 p[4];
    for (size_t i = 0; i < 4; i++) {
        __m256 p8 = _mm256_add_ps(lanes_low(a[i]), lanes_high(a[i]));
        p[i] = _mm_add_ps(_mm256_castps256_ps128(p8), _mm256_extractf128_ps(p8, 1));
    }
    __m128 p01 = _mm_add_ps(_mm_unpacklo_ps(p[0], p[1]), _mm_unpackhi_ps(p[0], p[1]));
    __m128 p23 = _mm_add_ps(_mm_unpacklo_ps(p[2], p[3]), _mm_unpackhi_ps(p[2], p[3]));
    return _mm_add_ps(_mm_movelh_ps(p01, p23), _mm_movehl_ps(p23, p01));
#else
    return (quad){{lanes_reduce(a[0]), lanes_reduce(a[1]), lanes_reduce(a[2]), lanes_reduce(a[3])}};
#endif
}

/* Lane i of a[j] becomes lane j of a[i]. */
static inline void lanes_transpose(lanes a[16])
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

/* e^x 2^by for -104 <= x <= 0, the polynomial of exp_f32 in float_tmpl.h. */
static inline lanes lanes_exp_by(lanes c, float by)
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

/* e^x for x <= 0. */
static inline lanes lanes_exp(lanes x)
{
    return lanes_exp_by(lanes_max(lanes_of(-104.0f), x), 0);
}

#endif
