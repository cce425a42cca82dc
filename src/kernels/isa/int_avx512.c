/* ISA level "avx512", integer types: AVX-512 without VNNI. The sums of a tile, two panels by six
 * tokens, take 12 of 32 registers. `products` is specified in int_pairs.h.
 */
#define TILE_PANELS 2
#define TILE_TOKENS 6
#define STEP 2
#define SIGNED_8 1
#define PREFETCH 1024
#include "kernels/simd/int_512.h"

static inline IVEC products(IVEC w, IVEC x, int bits)
{
    if (bits == 8) {
        x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
        w = _mm512_abs_epi8(w);
    }
    return _mm512_maddubs_epi16(w, x);
}

#include "kernels/simd/int_pairs.h"
#include "kernels/tiles/int_tile_tmpl.h"

void kernels_quant_init_avx512(struct kernels *k)
{
    INT_TYPES(SET_MATMUL)
    k->quantize = quantize_blocks;
}
