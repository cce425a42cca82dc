/* Floor 1. Rung "avx512", integer types: AVX-512 without VNNI. vpmaddubsw adds pairs of products in int16:
 * with weights of six bits two such pairs fit. Weights of eight bits are taken as |w| times x with the
 * sign of w: 128 * 127 * 2 fits, once.
 */
#define TILE_PANELS 2
#define TILE_TOKENS 6
#define STEP 2
#define SIGNED_8 1
#define PREFETCH 1024
#include "kernels_q512.h"

static inline IVEC products(IVEC w, IVEC x, int bits)
{
    if (bits == 8) {
        x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
        w = _mm512_abs_epi8(w);
    }
    return _mm512_maddubs_epi16(w, x);
}

static inline IVEC i_dot(IVEC sum, const IVEC *w, const IVEC *x, int bits)
{
    const IVEC one = _mm512_set1_epi16(1);
    IVEC a = products(w[0], x[0], bits), b = products(w[1], x[1], bits);
    if (bits < 8)
        return _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_add_epi16(a, b), one));
    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(a, one));
    return _mm512_add_epi32(sum, _mm512_madd_epi16(b, one));
}

#include "kernels_qtile.h"

void kernels_quant_init_avx512(struct kernels *k)
{
    tile_init(k);
    k->quantize = quantize;
}
