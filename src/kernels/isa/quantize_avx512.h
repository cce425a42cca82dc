/* quantize of AVX-512: the bits of quantize_tmpl.h.
 */
#include "kernels/pack/int_layout.h"

#include <immintrin.h>
#include <string.h>

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
    int32_t first = _mm512_reduce_add_epi32(q0), last = _mm512_reduce_add_epi32(q1);
    b->scale = counts || !finite ? m / 127.0f : 0.0f;
    b->sum = b->scale * (float)(first + last);
    set_minus(b, first, last);
}

static void quantize_blocks(void *dst, const float *x, size_t n)
{
    struct x_block *b = dst;
    for (size_t i = 0; i < n / BLOCK; i++)
        quantize_x_block(b + i, x + i * BLOCK);
}
