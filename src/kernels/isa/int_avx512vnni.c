/* ISA level "avx512vnni", integer types: AVX-512 with VNNI, Intel servers since Cascade Lake
 * (2019), AMD since Zen 4. vpdpbusd multiplies 64 unsigned by 64 signed bytes and adds each four
 * adjacent products to an int32.
 */
#define ISA avx512vnni
#define TILE_PANELS 2 /* sums and results of a tile: 24 of 32 registers */
#define TILE_TOKENS 6
#define STEP(bits) 1
#define Y_IN_REGISTERS 1
#define SIGNED_8 0
#include "kernels/simd/ivec.h"

VEC_INLINE ivec ivec_dot(ivec sum, const ivec *w, const ivec *x, int bits)
{
    (void)bits;
    return (ivec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w[0], (__m512i)x[0]);
}

#include "kernels/isa/quantize_avx512.h"
#include "kernels/tiles/int_tile_tmpl.h"

#define ENTRY(NAME, ...) [WEIGHT_##NAME] = matmul_##NAME,
matmul_fn *const int_matmul_avx512vnni[WEIGHT_N_TYPES] = {INT_TYPES(ENTRY)};
