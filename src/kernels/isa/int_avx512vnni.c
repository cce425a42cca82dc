/* ISA level "avx512vnni", integer types: AVX-512 with VNNI, Intel servers since Cascade Lake
 * (2019), AMD since Zen 4. vpdpbusd multiplies 64 unsigned by 64 signed bytes and adds each four
 * adjacent products to an int32.
 */
#define TILE_PANELS 4 /* sums of a tile: 24 of 32 registers */
#define TILE_TOKENS 6
#define STEP 1
#define SIGNED_8 0
#define PREFETCH 4096
#include "kernels/simd/int_512.h"

static inline IVEC i_dot(IVEC sum, const IVEC *w, const IVEC *x, int bits)
{
    (void)bits;
    return _mm512_dpbusd_epi32(sum, w[0], x[0]);
}

#include "kernels/tiles/int_tile_tmpl.h"

#define ENTRY(NAME, ...) [WEIGHT_##NAME] = matmul_##NAME,
matmul_fn *const int_matmul_avx512vnni[WEIGHT_N_TYPES] = {INT_TYPES(ENTRY)};

void kernels_quant_init_avx512vnni(struct kernels *k)
{
    INT_TYPES(SET_MATMUL)
    k->quantize = quantize_blocks;
}
