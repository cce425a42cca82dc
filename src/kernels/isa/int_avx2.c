/* ISA level "avx2", integer types; built with the flags of avx2.c. The sums of a tile, one panel by
 * four tokens, take eight of 16 registers. `products` is specified in int_pairs.h.
 */
#define TILE_PANELS 1
#define TILE_TOKENS 4
#define STEP 2
#define SIGNED_8 1
#define PREFETCH 1024
#include "kernels/simd/int_256.h"

static inline IVEC products(IVEC w, IVEC x, int bits)
{
    return bits == 8 ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                     : _mm256_maddubs_epi16(w, x);
}

#include "kernels/simd/int_pairs.h"
#include "kernels/spec/quantize_tmpl.h"
#include "kernels/tiles/int_tile_tmpl.h"

void kernels_quant_init_avx2(struct kernels *k)
{
    INT_TYPES(SET_MATMUL)
    k->quantize = quantize_blocks;
}
