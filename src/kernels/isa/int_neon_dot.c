/* ISA level "neon_dot", integer types: Advanced SIMD with the dot products of ARMv8.2-A and later
 * (Cortex-A55 and A75 of 2017, Graviton 2, Apple A13 and M1). sdot multiplies 16 bytes by 16 bytes
 * and adds each four adjacent products to an int32. The sums of a tile, one panel by five tokens,
 * take 20 of 32 registers.
 */
#define ISA neon_dot
#define TILE_PANELS 1
#define TILE_TOKENS 5
#define STEP(bits) 1
#define Y_IN_REGISTERS 0
#define SIGNED_8 1
#include "kernels/simd/ivec.h"

VEC_INLINE ivec ivec_dot(ivec sum, const ivec *w, const ivec *x, int bits)
{
    (void)bits;
    return (ivec)vdotq_s32((int32x4_t)sum, (int8x16_t)w[0], (int8x16_t)x[0]);
}

#include "kernels/spec/quantize_tmpl.h"
#include "kernels/tiles/int_tile_tmpl.h"
