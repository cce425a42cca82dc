/* What the vectors of AVX2 and AVX-512 share: eight floats, and four. Included by vec.h only. */
#ifndef MGPT_KERNELS_VEC_X86_H
#define MGPT_KERNELS_VEC_X86_H

#include <immintrin.h>
#include <stdint.h>

typedef __m128 quad;

VEC_INLINE quad quad_load(const float *p)
{
    return _mm_loadu_ps(p);
}

VEC_INLINE void quad_store(float *p, quad a)
{
    _mm_storeu_ps(p, a);
}

VEC_INLINE quad quad_sqrt(quad a)
{
    return _mm_sqrt_ps(a);
}

VEC_INLINE quad quad_fma(quad a, quad b, quad c)
{
    return _mm_fmadd_ps(a, b, c);
}

/* vec_quads: permute needs a constant. */
#define X86_QUADS(permute, a, from)                                                                \
    ((from) == QUAD_0      ? permute(a, 0x00)                                                      \
     : (from) == QUAD_1    ? permute(a, 0x55)                                                      \
     : (from) == QUAD_2    ? permute(a, 0xAA)                                                      \
     : (from) == QUAD_3    ? permute(a, 0xFF)                                                      \
     : (from) == QUAD_2301 ? permute(a, 0x4E)                                                      \
                           : permute(a, 0xB1))

VEC_INLINE float x86_reduce(__m256 a)
{
    __m128 p4 = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 p2 = _mm_add_ps(p4, _mm_movehl_ps(p4, p4));
    return _mm_cvtss_f32(_mm_add_ss(p2, _mm_movehdup_ps(p2)));
}

VEC_INLINE float x86_biggest(__m256 a)
{
    __m128 p4 = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 p2 = _mm_max_ps(p4, _mm_movehl_ps(p4, p4));
    return _mm_cvtss_f32(_mm_max_ss(p2, _mm_movehdup_ps(p2)));
}

VEC_INLINE void vec_prefetch(uintptr_t address)
{
    _mm_prefetch((const char *)address, _MM_HINT_T1);
}

#endif
