/* ISA level "avx2", integer types; built with the flags of avx2.c. The sums of a tile, one panel by
 * four tokens, take eight of 16 registers.
 */
#define ISA avx2
#define TILE_PANELS 1
#define TILE_TOKENS 4
#define Y_IN_REGISTERS 0
#define SIGNED_8 1
#include "kernels/simd/ivec.h"

VEC_INLINE ivec_16 multiply_pairs(ivec w, ivec x, int bits)
{
    __m256i a = (__m256i)w, b = (__m256i)x;
    if (bits == 8) {
        b = _mm256_sign_epi8(b, a);
        a = _mm256_abs_epi8(a);
    }
    return (ivec_16)_mm256_maddubs_epi16(a, b);
}

VEC_INLINE ivec add_pairs(ivec_16 v)
{
    return (ivec)_mm256_madd_epi16((__m256i)v, _mm256_set1_epi16(1));
}

#include "kernels/simd/ivec_pairs.h"
#include "kernels/spec/quantize_tmpl.h"
#include "kernels/tiles/int_tile_tmpl.h"
