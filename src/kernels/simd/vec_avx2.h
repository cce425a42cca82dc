/* Vectors of AVX2, FMA and F16C. Included by vec.h only. */
#ifndef MGPT_KERNELS_VEC_AVX2_H
#define MGPT_KERNELS_VEC_AVX2_H

#include "kernels/simd/vec_x86.h"

#define VEC_NATIVE 1
#define LANES 8
#define REGISTERS 16

typedef __m256 vec;
typedef struct {
    vec v[2];
} lanes;

VEC_INLINE vec vec_of(float x)
{
    return _mm256_set1_ps(x);
}

VEC_INLINE vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

VEC_INLINE void vec_store(float *p, vec a)
{
    _mm256_storeu_ps(p, a);
}

VEC_INLINE __m256i avx2_count(void)
{
    return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}

/* All ones in the first n lanes. */
VEC_INLINE __m256i avx2_mask(ptrdiff_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), avx2_count());
}

VEC_INLINE vec vec_first(ptrdiff_t n, vec a, vec b)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(avx2_mask(n)));
}

VEC_INLINE vec vec_load_part(const float *p, ptrdiff_t n, float rest)
{
    __m256i mask = avx2_mask(n), loaded = _mm256_castps_si256(_mm256_maskload_ps(p, mask));
    return _mm256_castsi256_ps(loaded | (~mask & _mm256_castps_si256(vec_of(rest))));
}

VEC_INLINE void vec_store_part(float *p, vec a, size_t n)
{
    _mm256_maskstore_ps(p, avx2_mask((ptrdiff_t)n), a);
}

VEC_INLINE vec vec_put(vec a, ptrdiff_t i, float x)
{
    __m256i here = _mm256_cmpeq_epi32(_mm256_set1_epi32((int)i), avx2_count());
    return _mm256_blendv_ps(a, vec_of(x), _mm256_castsi256_ps(here));
}

#define LANES_QUADS

VEC_INLINE vec vec_quads(vec a, enum quad_lanes from)
{
    return X86_QUADS(_mm256_permute_ps, a, from);
}

VEC_INLINE vec vec_firsts(size_t n, vec a, vec b)
{
    __m256 first = _mm256_castsi256_ps(avx2_mask((ptrdiff_t)n));
    return _mm256_blendv_ps(b, a, _mm256_permute2f128_ps(first, first, 0x00));
}

VEC_INLINE vec vec_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

VEC_INLINE vec vec_load_part_f16(const uint16_t *p, size_t n)
{
    uint16_t part[LANES] = {0};
    for (size_t i = 0; i < n; i++)
        part[i] = p[i];
    return vec_load_f16(part);
}

VEC_INLINE void vec_store_f16(uint16_t *p, vec a)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(a, 0));
}

VEC_INLINE vec vec_load_bf16(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

VEC_INLINE vec vec_load_i8(const uint8_t *p)
{
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

VEC_INLINE void vec_keep(vec *a)
{
    __asm__("" : "+x"(*a));
}

VEC_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

VEC_INLINE vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

VEC_INLINE vec vec_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}

VEC_INLINE vec vec_at_least(vec a, vec b, vec x)
{
    return _mm256_and_ps(x, _mm256_cmp_ps(a, b, _CMP_GE_OQ));
}

VEC_INLINE vec vec_max_at_least(vec a, vec b, vec x, vec y)
{
    return _mm256_blendv_ps(y, vec_max(x, y), _mm256_cmp_ps(a, b, _CMP_GE_OQ));
}

/* 2^n is applied in two halves: the first product is exact, the second rounds. */
VEC_INLINE vec vec_scale2(vec p, vec shifted, vec whole)
{
    (void)whole;
    __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4B400000));
    __m256i half = _mm256_srai_epi32(n, 1), rest = _mm256_sub_epi32(n, half);
    __m256i bias = _mm256_set1_epi32(127);
    half = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    rest = _mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23);
    return p * _mm256_castsi256_ps(half) * _mm256_castsi256_ps(rest);
}

VEC_INLINE float vec_reduce(vec a)
{
    return x86_reduce(a);
}

VEC_INLINE float vec_biggest(vec a)
{
    return x86_biggest(a);
}

VEC_INLINE quad lanes_reduce_four(const lanes a[4])
{
    __m128 p[4];
    for (size_t i = 0; i < 4; i++) {
        __m256 p8 = a[i].v[0] + a[i].v[1];
        p[i] = _mm_add_ps(_mm256_castps256_ps128(p8), _mm256_extractf128_ps(p8, 1));
    }
    __m128 p01 = _mm_add_ps(_mm_unpacklo_ps(p[0], p[1]), _mm_unpackhi_ps(p[0], p[1]));
    __m128 p23 = _mm_add_ps(_mm_unpacklo_ps(p[2], p[3]), _mm_unpackhi_ps(p[2], p[3]));
    return _mm_add_ps(_mm_movelh_ps(p01, p23), _mm_movehl_ps(p23, p01));
}

VEC_INLINE void lanes_quarters(const lanes a[4], lanes to[4])
{
    for (int half = 0; half < 2; half++)
        for (int pair = 0; pair < 2; pair++) {
            __m256 low = a[2 * pair].v[half], high = a[2 * pair + 1].v[half];
            to[2 * half].v[pair] = _mm256_permute2f128_ps(low, high, 0x20);
            to[2 * half + 1].v[pair] = _mm256_permute2f128_ps(low, high, 0x31);
        }
}

VEC_INLINE void lanes_cross(const lanes a[4], lanes to[4])
{
    for (int i = 0; i < 2; i++) {
        __m256 low01 = _mm256_unpacklo_ps(a[0].v[i], a[1].v[i]);
        __m256 high01 = _mm256_unpackhi_ps(a[0].v[i], a[1].v[i]);
        __m256 low23 = _mm256_unpacklo_ps(a[2].v[i], a[3].v[i]);
        __m256 high23 = _mm256_unpackhi_ps(a[2].v[i], a[3].v[i]);
        to[0].v[i] = _mm256_shuffle_ps(low01, low23, 0x44);
        to[1].v[i] = _mm256_shuffle_ps(low01, low23, 0xEE);
        to[2].v[i] = _mm256_shuffle_ps(high01, high23, 0x44);
        to[3].v[i] = _mm256_shuffle_ps(high01, high23, 0xEE);
    }
}

#endif
