/* 512-bit vectors for int_tile_tmpl.h, and quantize: shared by the ISA levels with and without
 * VNNI.
 */
#include "kernels/pack/int_layout.h"

#include <immintrin.h>
#include <string.h>

#define IVEC __m512i
#define FVEC __m512
#define LANES 16
#define I_KEEP(v) __asm__("" : "+v"(v)) /* keep v in a register, do not reload per use */

static inline IVEC i_load(const void *p)
{
    return _mm512_loadu_si512(p);
}

static inline void i_store(void *p, IVEC v)
{
    _mm512_storeu_si512(p, v);
}

static inline IVEC i_zero(void)
{
    return _mm512_setzero_si512();
}

static inline IVEC i_bytes(uint8_t b)
{
    return _mm512_set1_epi8((char)b);
}

/* Four bytes, repeated. */
static inline IVEC i_word(const void *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm512_set1_epi32(word);
}

static inline IVEC i_and(IVEC a, IVEC b)
{
    return _mm512_and_si512(a, b);
}

static inline IVEC i_xor(IVEC a, IVEC b)
{
    return _mm512_xor_si512(a, b);
}

static inline IVEC i_add(IVEC a, IVEC b)
{
    return _mm512_add_epi32(a, b);
}

static inline IVEC i_add16(IVEC a, IVEC b)
{
    return _mm512_add_epi16(a, b);
}

/* Sums of adjacent 16-bit lanes. */
static inline IVEC i_add_pairs(IVEC v)
{
    return _mm512_madd_epi16(v, _mm512_set1_epi16(1));
}

static inline IVEC i_sub(IVEC a, IVEC b)
{
    return _mm512_sub_epi32(a, b);
}

/* a | (b & mask) */
static inline IVEC i_or_and(IVEC a, IVEC b, IVEC mask)
{
    return _mm512_ternarylogic_epi32(a, b, mask, 0xF8);
}

/* Shifts 16-bit lanes left, or right if `left` is negative. */
static inline IVEC i_shift(IVEC v, int left)
{
    switch (left) {
    case 4:
        return _mm512_slli_epi16(v, 4);
    case 3:
        return _mm512_slli_epi16(v, 3);
    case 2:
        return _mm512_slli_epi16(v, 2);
    case 1:
        return _mm512_slli_epi16(v, 1);
    case -1:
        return _mm512_srli_epi16(v, 1);
    case -2:
        return _mm512_srli_epi16(v, 2);
    case -3:
        return _mm512_srli_epi16(v, 3);
    case -4:
        return _mm512_srli_epi16(v, 4);
    default:
        return v;
    }
}

/* -128 * s to -offset * s. */
static inline IVEC i_offset(IVEC minus_128, int offset)
{
    switch (offset) {
    case 8:
        return _mm512_srai_epi32(minus_128, 4);
    case 16:
        return _mm512_srai_epi32(minus_128, 3);
    case 32:
        return _mm512_srai_epi32(minus_128, 2);
    default:
        return minus_128;
    }
}

static inline FVEC f_zero(void)
{
    return _mm512_setzero_ps();
}

static inline FVEC f_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void f_store(float *p, FVEC v)
{
    _mm512_storeu_ps(p, v);
}

static inline FVEC f_all(const float *p)
{
    return _mm512_set1_ps(*p);
}

static inline FVEC f_mul(FVEC a, FVEC b)
{
    return _mm512_mul_ps(a, b);
}

static inline FVEC f_fma(FVEC a, FVEC b, FVEC c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline FVEC f_from(IVEC v)
{
    return _mm512_cvtepi32_ps(v);
}

static inline FVEC f_half(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

static inline FVEC f_bytes(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p)));
}

static inline FVEC f_signed_bytes(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}

/* As in quantize_tmpl.h. */
static void quantize_x_block(struct x_block *b, const float *x)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + 16);
    __m512i bits0 = _mm512_and_si512(_mm512_castps_si512(x0), magnitude);
    __m512i bits1 = _mm512_and_si512(_mm512_castps_si512(x1), magnitude);
    int32_t most = _mm512_reduce_max_epi32(_mm512_max_epi32(bits0, bits1));
    float m;
    memcpy(&m, &most, sizeof m);
    int finite = most < 0x7F800000, counts = m >= QUANT_TINY && finite;
    __m512 by = _mm512_set1_ps(counts ? 127.0f / m : 0.0f);
    __mmask16 keep = counts ? 0xFFFF : 0;
    __m512i q0 = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(x0, by));
    __m512i q1 = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(x1, by));
    _mm_storeu_si128((__m128i *)(void *)b->q, _mm512_cvtepi32_epi8(q0));
    _mm_storeu_si128((__m128i *)(void *)(b->q + 16), _mm512_cvtepi32_epi8(q1));
    int32_t all = _mm512_reduce_add_epi32(_mm512_add_epi32(q0, q1));
    b->scale = counts || !finite ? m / 127.0f : 0.0f;
    b->sum = b->scale * (float)all;
    b->minus_128[0] = -128 * all;
    b->minus_128[1] = -128 * _mm512_reduce_add_epi32(q0);
}

static void quantize_blocks(void *dst, const float *x, size_t n)
{
    struct x_block *b = dst;
    for (size_t i = 0; i < n / BLOCK; i++)
        quantize_x_block(b + i, x + i * BLOCK);
}
