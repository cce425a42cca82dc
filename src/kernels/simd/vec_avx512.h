/* Vectors of AVX-512 F, BW, DQ and VL. Included by vec.h only. */
#ifndef MGPT_KERNELS_VEC_AVX512_H
#define MGPT_KERNELS_VEC_AVX512_H

#include "kernels/simd/vec_x86.h"

#define VEC_NATIVE 1
#define LANES 16
#define REGISTERS 32

typedef __m512 vec;
typedef struct {
    vec v[1];
} lanes;

VEC_INLINE vec vec_of(float x)
{
    return _mm512_set1_ps(x);
}

VEC_INLINE vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

VEC_INLINE void vec_store(float *p, vec a)
{
    _mm512_storeu_ps(p, a);
}

/* A bit for each of the first n lanes, n >= 0. */
VEC_INLINE __mmask16 avx512_mask(ptrdiff_t n)
{
    return (__mmask16)(0xFFFFu >> (16 - (n < 16 ? n : 16)));
}

VEC_INLINE vec vec_first(ptrdiff_t n, vec a, vec b)
{
    return _mm512_mask_blend_ps(avx512_mask(n), b, a);
}

VEC_INLINE vec vec_load_part(const float *p, ptrdiff_t n, float rest)
{
    return _mm512_mask_loadu_ps(vec_of(rest), avx512_mask(n), p);
}

VEC_INLINE void vec_store_part(float *p, vec a, size_t n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a);
}

VEC_INLINE vec vec_put(vec a, ptrdiff_t i, float x)
{
    return _mm512_mask_broadcastss_ps(a, (__mmask16)(1u << i), _mm_set_ss(x));
}

VEC_INLINE vec vec_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

VEC_INLINE vec vec_load_part_f16(const uint16_t *p, size_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p));
}

VEC_INLINE void vec_store_f16(uint16_t *p, vec a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a, 0));
}

VEC_INLINE vec vec_load_bf16(const uint16_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

VEC_INLINE vec vec_load_i8(const uint8_t *p)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

VEC_INLINE void vec_keep(vec *a)
{
    __asm__("" : "+v"(*a));
}

VEC_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

VEC_INLINE vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

VEC_INLINE vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

VEC_INLINE vec vec_at_least(vec a, vec b, vec x)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_GE_OQ), x);
}

VEC_INLINE vec vec_max_at_least(vec a, vec b, vec x, vec y)
{
    return _mm512_mask_max_ps(y, _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ), x, y);
}

VEC_INLINE vec vec_scale2(vec p, vec shifted, vec whole)
{
    (void)shifted;
    return _mm512_scalef_ps(p, whole);
}

VEC_INLINE __m256 avx512_low(vec a)
{
    return _mm512_castps512_ps256(a);
}

VEC_INLINE __m256 avx512_high(vec a)
{
    return _mm512_extractf32x8_ps(a, 1);
}

VEC_INLINE float vec_reduce(vec a)
{
    return x86_reduce(avx512_low(a) + avx512_high(a));
}

VEC_INLINE float vec_biggest(vec a)
{
    return x86_biggest(_mm256_max_ps(avx512_low(a), avx512_high(a)));
}

#define LANES_QUADS

VEC_INLINE vec vec_quads(vec a, enum quad_lanes from)
{
    return X86_QUADS(_mm512_permute_ps, a, from);
}

VEC_INLINE vec vec_firsts(size_t n, vec a, vec b)
{
    return _mm512_mask_blend_ps((__mmask16)(0x1111u * ((1u << n) - 1)), b, a);
}

/* ---- four at a time, with shared shuffles ---- */

#define LANES_FOURS
#define AVX512_QUARTERS(a, b, which) _mm512_shuffle_f32x4(a, b, which)

VEC_INLINE lanes lanes_biggest_all(lanes all)
{
    vec a = all.v[0];
    a = vec_max(a, AVX512_QUARTERS(a, a, 0x4E));
    a = vec_max(a, AVX512_QUARTERS(a, a, 0xB1));
    a = vec_max(a, _mm512_permute_ps(a, 0x4E));
    return (lanes){{vec_max(a, _mm512_permute_ps(a, 0xB1))}};
}

VEC_INLINE void avx512_spread(vec each, lanes to[4])
{
    to[0].v[0] = AVX512_QUARTERS(each, each, 0x00);
    to[1].v[0] = AVX512_QUARTERS(each, each, 0x55);
    to[2].v[0] = AVX512_QUARTERS(each, each, 0xAA);
    to[3].v[0] = AVX512_QUARTERS(each, each, 0xFF);
}

/* Reduces four vectors at once by the tree of lanes_reduce; quarter i of the result belongs to a[i]. */
VEC_INLINE void lanes_biggest_four(const lanes a[4], lanes to[4])
{
    vec a0 = a[0].v[0], a1 = a[1].v[0], a2 = a[2].v[0], a3 = a[3].v[0];
    vec a01 = vec_max(AVX512_QUARTERS(a0, a1, 0x44), AVX512_QUARTERS(a0, a1, 0xEE));
    vec a23 = vec_max(AVX512_QUARTERS(a2, a3, 0x44), AVX512_QUARTERS(a2, a3, 0xEE));
    vec p = vec_max(AVX512_QUARTERS(a01, a23, 0x88), AVX512_QUARTERS(a01, a23, 0xDD));
    p = vec_max(p, _mm512_permute_ps(p, 0x4E));
    avx512_spread(vec_max(p, _mm512_permute_ps(p, 0xB1)), to);
}

/* Each lane of quarter i is the sum of a[i]. */
VEC_INLINE vec avx512_sums_four(const lanes a[4])
{
    vec a0 = a[0].v[0], a1 = a[1].v[0], a2 = a[2].v[0], a3 = a[3].v[0];
    vec a01 = AVX512_QUARTERS(a0, a1, 0x44) + AVX512_QUARTERS(a0, a1, 0xEE);
    vec a23 = AVX512_QUARTERS(a2, a3, 0x44) + AVX512_QUARTERS(a2, a3, 0xEE);
    vec p = AVX512_QUARTERS(a01, a23, 0x88) + AVX512_QUARTERS(a01, a23, 0xDD);
    p = p + _mm512_permute_ps(p, 0x4E);
    return p + _mm512_permute_ps(p, 0xB1);
}

VEC_INLINE void lanes_inverse_sums_four(const lanes a[4], lanes to[4])
{
    avx512_spread(vec_of(1.0f) / avx512_sums_four(a), to);
}

VEC_INLINE quad lanes_reduce_four(const lanes a[4])
{
    const __m512i firsts = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, avx512_sums_four(a)));
}

VEC_INLINE void lanes_quarters(const lanes a[4], lanes to[4])
{
    vec a0 = a[0].v[0], a1 = a[1].v[0], a2 = a[2].v[0], a3 = a[3].v[0];
    vec low01 = AVX512_QUARTERS(a0, a1, 0x44), high01 = AVX512_QUARTERS(a0, a1, 0xEE);
    vec low23 = AVX512_QUARTERS(a2, a3, 0x44), high23 = AVX512_QUARTERS(a2, a3, 0xEE);
    to[0].v[0] = AVX512_QUARTERS(low01, low23, 0x88);
    to[1].v[0] = AVX512_QUARTERS(low01, low23, 0xDD);
    to[2].v[0] = AVX512_QUARTERS(high01, high23, 0x88);
    to[3].v[0] = AVX512_QUARTERS(high01, high23, 0xDD);
}

VEC_INLINE void lanes_cross(const lanes a[4], lanes to[4])
{
    vec a0 = a[0].v[0], a1 = a[1].v[0], a2 = a[2].v[0], a3 = a[3].v[0];
    vec low01 = _mm512_unpacklo_ps(a0, a1), high01 = _mm512_unpackhi_ps(a0, a1);
    vec low23 = _mm512_unpacklo_ps(a2, a3), high23 = _mm512_unpackhi_ps(a2, a3);
    to[0].v[0] = _mm512_shuffle_ps(low01, low23, 0x44);
    to[1].v[0] = _mm512_shuffle_ps(low01, low23, 0xEE);
    to[2].v[0] = _mm512_shuffle_ps(high01, high23, 0x44);
    to[3].v[0] = _mm512_shuffle_ps(high01, high23, 0xEE);
}

/* Without the branch of lanes.h: the lane changes with every token. */
VEC_INLINE void lanes_store_from(float *p, size_t i, float x)
{
    _mm512_mask_storeu_ps(p, (__mmask16)(i ? 1u << i : 0xFFFF), vec_of(x));
}

/* ---- sixteen integers of 64 bits ---- */

#define LANES_FIXED

enum { FIXED_MOST = 4 }; /* values that fixed_passed takes */

typedef struct {
    __m512i v[2];
} fixed;

VEC_INLINE fixed fixed_zero(void)
{
    return (fixed){{_mm512_setzero_si512(), _mm512_setzero_si512()}};
}

VEC_INLINE fixed fixed_of(lanes a)
{
    return (fixed){
        {_mm512_cvtps_epi64(avx512_low(a.v[0])), _mm512_cvtps_epi64(avx512_high(a.v[0]))}};
}

VEC_INLINE fixed fixed_add(fixed a, fixed b)
{
    return (fixed){{_mm512_add_epi64(a.v[0], b.v[0]), _mm512_add_epi64(a.v[1], b.v[1])}};
}

VEC_INLINE void fixed_store(uint64_t *p, fixed a)
{
    _mm512_storeu_si512(p, a.v[0]);
    _mm512_storeu_si512(p + 8, a.v[1]);
}

VEC_INLINE uint64_t fixed_sum(fixed a)
{
    return (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(a.v[0], a.v[1]));
}

/* The running sums inside a register, in three rounds. */
VEC_INLINE __m512i fixed_running(__m512i a)
{
    const __m512i zero = _mm512_setzero_si512();
    a = _mm512_add_epi64(a, _mm512_alignr_epi64(a, zero, 7));
    a = _mm512_add_epi64(a, _mm512_alignr_epi64(a, zero, 6));
    return _mm512_add_epi64(a, _mm512_alignr_epi64(a, zero, 4));
}

/* All values stay in vector registers until the end: a move to general registers and back costs as
 * much as one round. */
VEC_INLINE size_t fixed_passed(const fixed *a, size_t n, double u)
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

#endif
