/* Sixteen floats in one register of AVX-512. Included by lanes.h only. */
#ifndef MGPT_KERNELS_LANES_AVX512_H
#define MGPT_KERNELS_LANES_AVX512_H

enum { LANES_REGISTERS = 32 }; /* values of this type that fit in registers */
enum { LANES_ARE_VECTORS = 1 };
typedef __m512 lanes;

static inline lanes lanes_of(float x)
{
    return _mm512_set1_ps(x);
}

static inline lanes lanes_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

/* A bit for each of the first n lanes. */
static inline __mmask16 lanes_mask(size_t n)
{
    return (__mmask16)(0xFFFFu >> (16 - (n < 16 ? n : 16)));
}

/* The first n lanes; `rest` in the others. */
static inline lanes lanes_load_some(const float *p, size_t n, float rest)
{
    return _mm512_mask_loadu_ps(_mm512_set1_ps(rest), lanes_mask(n), p);
}

static inline void lanes_store(float *p, lanes a)
{
    _mm512_storeu_ps(p, a);
}

/* Keeps a in a register. */
static inline void lanes_keep(lanes *a)
{
    __asm__("" : "+v"(*a));
}

static inline lanes lanes_add(lanes a, lanes b)
{
    return _mm512_add_ps(a, b);
}

static inline lanes lanes_sub(lanes a, lanes b)
{
    return _mm512_sub_ps(a, b);
}

static inline lanes lanes_mul(lanes a, lanes b)
{
    return _mm512_mul_ps(a, b);
}

static inline lanes lanes_div(lanes a, lanes b)
{
    return _mm512_div_ps(a, b);
}

static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* a > b ? a : b */
static inline lanes lanes_max(lanes a, lanes b)
{
    return _mm512_max_ps(a, b);
}

/* a < b ? a : b */
static inline lanes lanes_min(lanes a, lanes b)
{
    return _mm512_min_ps(a, b);
}

/* The first n lanes of a, the others of b. */
static inline lanes lanes_first(size_t n, lanes a, lanes b)
{
    return _mm512_mask_blend_ps(lanes_mask(n), b, a);
}

/* a >= b ? x : 0 */
static inline lanes lanes_at_least(lanes a, lanes b, lanes x)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_GE_OQ), x);
}

/* a >= b ? max(x, y) : y */
static inline lanes lanes_max_at_least(lanes a, lanes b, lanes x, lanes y)
{
    return _mm512_mask_max_ps(y, _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ), x, y);
}

/* Stores x to lane i at p; i = 0: to all lanes. */
static inline void lanes_store_from(float *p, size_t i, float x)
{
    _mm512_mask_storeu_ps(p, (__mmask16)(i ? 1u << i : 0xFFFF), _mm512_set1_ps(x));
}

/* a with x in lane i. */
static inline lanes lanes_put(lanes a, size_t i, float x)
{
    return _mm512_mask_broadcastss_ps(a, (__mmask16)(1u << i), _mm_set_ss(x));
}

/* p 2^whole, rounded once; p in [1/2, 2). `shifted` is whole + 1.5 * 2^23. */
static inline lanes lanes_scale2(lanes p, lanes shifted, lanes whole)
{
    (void)shifted;
    return _mm512_scalef_ps(p, whole);
}

static inline __m256 lanes_low(lanes a)
{
    return _mm512_castps512_ps256(a);
}

static inline __m256 lanes_high(lanes a)
{
    return _mm512_extractf32x8_ps(a, 1);
}

/* ---- sixteen integers of 64 bits ---- */

enum { FIXED_MOST = 4 }; /* values that fixed_passed takes */

struct fixed {
    __m512i v[2];
};

static inline struct fixed fixed_zero(void)
{
    return (struct fixed){{_mm512_setzero_si512(), _mm512_setzero_si512()}};
}

static inline struct fixed fixed_of(lanes a)
{
    return (struct fixed){{_mm512_cvtps_epi64(lanes_low(a)), _mm512_cvtps_epi64(lanes_high(a))}};
}

static inline struct fixed fixed_add(struct fixed a, struct fixed b)
{
    return (struct fixed){{_mm512_add_epi64(a.v[0], b.v[0]), _mm512_add_epi64(a.v[1], b.v[1])}};
}

static inline void fixed_store(uint64_t *p, struct fixed a)
{
    _mm512_storeu_si512(p, a.v[0]);
    _mm512_storeu_si512(p + 8, a.v[1]);
}

static inline uint64_t fixed_sum(struct fixed a)
{
    return (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(a.v[0], a.v[1]));
}

/* The running sums inside a register, in three rounds. */
static inline __m512i fixed_running(__m512i a)
{
    const __m512i zero = _mm512_setzero_si512();
    a = _mm512_add_epi64(a, _mm512_alignr_epi64(a, zero, 7));
    a = _mm512_add_epi64(a, _mm512_alignr_epi64(a, zero, 6));
    return _mm512_add_epi64(a, _mm512_alignr_epi64(a, zero, 4));
}

/* All values stay in vector registers until the end: a move to general registers and back costs as
 * much as one round. */
static inline size_t fixed_passed(const struct fixed *a, size_t n, double u)
{
    __m512i sums[2 * FIXED_MOST], before = _mm512_setzero_si512(), last = _mm512_set1_epi64(7);
    size_t count = 0;
    for (size_t i = 0; i < 2 * n; i++) {
        __m512i running = fixed_running(a[i / 2].v[i % 2]);
        sums[i] = _mm512_add_epi64(before, running);
        before = _mm512_add_epi64(before, _mm512_permutexvar_epi64(last, running));
    }
    __m512i target =
        _mm512_cvttpd_epi64(_mm512_mul_pd(_mm512_cvtepi64_pd(before), _mm512_set1_pd(u)));
    for (size_t i = 0; i < 2 * n; i++)
        count += (size_t)_mm_popcnt_u32(_mm512_cmple_epi64_mask(sums[i], target));
    return count;
}

/* ---- four at a time ---- */

#define LANES_QUARTERS(a, b, which) _mm512_shuffle_f32x4(a, b, which)

static inline void lanes_spread(__m512 each, lanes to[4])
{
    to[0] = LANES_QUARTERS(each, each, 0x00);
    to[1] = LANES_QUARTERS(each, each, 0x55);
    to[2] = LANES_QUARTERS(each, each, 0xAA);
    to[3] = LANES_QUARTERS(each, each, 0xFF);
}

/* The same tree as lanes_reduce; quarter i of the result belongs to a[i]. */
static inline void lanes_biggest_four(const lanes a[4], lanes to[4])
{
    __m512 ab = _mm512_max_ps(LANES_QUARTERS(a[0], a[1], 0x44), LANES_QUARTERS(a[0], a[1], 0xEE));
    __m512 cd = _mm512_max_ps(LANES_QUARTERS(a[2], a[3], 0x44), LANES_QUARTERS(a[2], a[3], 0xEE));
    __m512 p = _mm512_max_ps(LANES_QUARTERS(ab, cd, 0x88), LANES_QUARTERS(ab, cd, 0xDD));
    p = _mm512_max_ps(p, _mm512_permute_ps(p, 0x4E));
    lanes_spread(_mm512_max_ps(p, _mm512_permute_ps(p, 0xB1)), to);
}

/* Each lane of quarter i is the sum of a[i]. */
static inline __m512 lanes_sums_four(const lanes a[4])
{
    __m512 ab = _mm512_add_ps(LANES_QUARTERS(a[0], a[1], 0x44), LANES_QUARTERS(a[0], a[1], 0xEE));
    __m512 cd = _mm512_add_ps(LANES_QUARTERS(a[2], a[3], 0x44), LANES_QUARTERS(a[2], a[3], 0xEE));
    __m512 p = _mm512_add_ps(LANES_QUARTERS(ab, cd, 0x88), LANES_QUARTERS(ab, cd, 0xDD));
    p = _mm512_add_ps(p, _mm512_permute_ps(p, 0x4E));
    return _mm512_add_ps(p, _mm512_permute_ps(p, 0xB1));
}

static inline void lanes_inverse_sums_four(const lanes a[4], lanes to[4])
{
    lanes_spread(_mm512_div_ps(_mm512_set1_ps(1.0f), lanes_sums_four(a)), to);
}

/* to[q] = quarter q of a[0], a[1], a[2], a[3]. */
static inline void lanes_quarters(const lanes a[4], lanes to[4])
{
    __m512 low01 = LANES_QUARTERS(a[0], a[1], 0x44), high01 = LANES_QUARTERS(a[0], a[1], 0xEE);
    __m512 low23 = LANES_QUARTERS(a[2], a[3], 0x44), high23 = LANES_QUARTERS(a[2], a[3], 0xEE);
    to[0] = LANES_QUARTERS(low01, low23, 0x88);
    to[1] = LANES_QUARTERS(low01, low23, 0xDD);
    to[2] = LANES_QUARTERS(high01, high23, 0x88);
    to[3] = LANES_QUARTERS(high01, high23, 0xDD);
}

/* In each quarter lane i of a[j] becomes lane j of to[i]. */
static inline void lanes_cross(const lanes a[4], lanes to[4])
{
    __m512 low01 = _mm512_unpacklo_ps(a[0], a[1]), high01 = _mm512_unpackhi_ps(a[0], a[1]);
    __m512 low23 = _mm512_unpacklo_ps(a[2], a[3]), high23 = _mm512_unpackhi_ps(a[2], a[3]);
    to[0] = _mm512_shuffle_ps(low01, low23, 0x44);
    to[1] = _mm512_shuffle_ps(low01, low23, 0xEE);
    to[2] = _mm512_shuffle_ps(high01, high23, 0x44);
    to[3] = _mm512_shuffle_ps(high01, high23, 0xEE);
}

#endif
