/* 256-bit vectors for int_tile_tmpl.h: half a line of weights. i_ functions work on integers, of 32
 * bits unless the name says otherwise; f_ functions on floats.
 */
#include "kernels/pack/int_layout.h"

#include <immintrin.h>
#include <string.h>

#define IVEC __m256i
#define FVEC __m256
#define LANES 8
#define I_KEEP(v) __asm__("" : "+x"(v)) /* keep v in a register, do not reload per use */

static inline IVEC i_load(const void *p)
{
    return _mm256_loadu_si256(p);
}

static inline void i_store(void *p, IVEC v)
{
    _mm256_storeu_si256(p, v);
}

static inline IVEC i_zero(void)
{
    return _mm256_setzero_si256();
}

static inline IVEC i_bytes(uint8_t b)
{
    return _mm256_set1_epi8((char)b);
}

/* Four bytes, repeated. */
static inline IVEC i_word(const void *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm256_set1_epi32(word);
}

static inline IVEC i_and(IVEC a, IVEC b)
{
    return _mm256_and_si256(a, b);
}

static inline IVEC i_xor(IVEC a, IVEC b)
{
    return _mm256_xor_si256(a, b);
}

static inline IVEC i_add(IVEC a, IVEC b)
{
    return _mm256_add_epi32(a, b);
}

static inline IVEC i_add16(IVEC a, IVEC b)
{
    return _mm256_add_epi16(a, b);
}

/* Sums of adjacent 16-bit lanes. */
static inline IVEC i_add_pairs(IVEC v)
{
    return _mm256_madd_epi16(v, _mm256_set1_epi16(1));
}

static inline IVEC i_sub(IVEC a, IVEC b)
{
    return _mm256_sub_epi32(a, b);
}

/* a | (b & mask) */
static inline IVEC i_or_and(IVEC a, IVEC b, IVEC mask)
{
    return _mm256_or_si256(a, _mm256_and_si256(b, mask));
}

/* Shifts 16-bit lanes left, or right if `left` is negative. */
static inline IVEC i_shift(IVEC v, int left)
{
    switch (left) {
    case 4:
        return _mm256_slli_epi16(v, 4);
    case 3:
        return _mm256_slli_epi16(v, 3);
    case 2:
        return _mm256_slli_epi16(v, 2);
    case 1:
        return _mm256_slli_epi16(v, 1);
    case -1:
        return _mm256_srli_epi16(v, 1);
    case -2:
        return _mm256_srli_epi16(v, 2);
    case -3:
        return _mm256_srli_epi16(v, 3);
    case -4:
        return _mm256_srli_epi16(v, 4);
    default:
        return v;
    }
}

/* -128 * s to -offset * s. */
static inline IVEC i_offset(IVEC minus_128, int offset)
{
    switch (offset) {
    case 8:
        return _mm256_srai_epi32(minus_128, 4);
    case 16:
        return _mm256_srai_epi32(minus_128, 3);
    case 32:
        return _mm256_srai_epi32(minus_128, 2);
    default:
        return minus_128;
    }
}

static inline FVEC f_zero(void)
{
    return _mm256_setzero_ps();
}

static inline FVEC f_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void f_store(float *p, FVEC v)
{
    _mm256_storeu_ps(p, v);
}

static inline FVEC f_all(const float *p)
{
    return _mm256_set1_ps(*p);
}

static inline FVEC f_mul(FVEC a, FVEC b)
{
    return _mm256_mul_ps(a, b);
}

static inline FVEC f_fma(FVEC a, FVEC b, FVEC c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline FVEC f_from(IVEC v)
{
    return _mm256_cvtepi32_ps(v);
}

static inline FVEC f_half(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

static inline FVEC f_bytes(const void *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p)));
}

static inline FVEC f_signed_bytes(const void *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}
