/* ISA level "avx512", integer types: AVX-512 without VNNI. The sums of a tile, two panels by six
 * tokens, take 12 of 32 registers.
 */
#define ISA avx512
#define TILE_PANELS 2
#define TILE_TOKENS 6
#define Y_IN_REGISTERS 0
#define SIGNED_8 1
#include "kernels/simd/ivec.h"

VEC_INLINE ivec_16 multiply_pairs(ivec w, ivec x, int bits)
{
    __m512i a = (__m512i)w, b = (__m512i)x;
    if (bits == 8) {
        b = _mm512_mask_sub_epi8(b, _mm512_movepi8_mask(a), _mm512_setzero_si512(), b);
        a = _mm512_abs_epi8(a);
    }
    return (ivec_16)_mm512_maddubs_epi16(a, b);
}

VEC_INLINE ivec add_pairs(ivec_16 v)
{
    return (ivec)_mm512_madd_epi16((__m512i)v, _mm512_set1_epi16(1));
}

#include "kernels/isa/quantize_avx512.h"
#include "kernels/simd/ivec_pairs.h"
#include "kernels/tiles/int_tile_tmpl.h"
