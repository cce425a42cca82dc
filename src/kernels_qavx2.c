/* Floor 1. Rung "avx2", integer types. vpmaddubsw adds pairs of products in int16: with weights of six bits
 * two such pairs fit. Weights of eight bits are taken as |w| times x with the sign of w: 128 * 127 * 2
 * fits, once.
 */
#define TILE_PANELS 1
#define TILE_TOKENS 4
#define STEP 2
#define SIGNED_8 1
#define PREFETCH 1024
#include "kernels_q256.h"

static inline IVEC products(IVEC w, IVEC x, int bits)
{
    return bits == 8 ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                     : _mm256_maddubs_epi16(w, x);
}

static inline IVEC i_dot(IVEC sum, const IVEC *w, const IVEC *x, int bits)
{
    const IVEC one = _mm256_set1_epi16(1);
    IVEC a = products(w[0], x[0], bits), b = products(w[1], x[1], bits);
    if (bits < 8)
        return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(a, b), one));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, one));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(b, one));
}

#include "kernels_qtile.h"
#include "kernels_quantize.h"

void kernels_quant_init_avx2(struct kernels *k)
{
    tile_init(k);
    k->quantize = quantize;
}
