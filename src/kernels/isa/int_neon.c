/* ISA level "neon", integer types: Advanced SIMD without products of bytes that add to int32. The
 * sums of a tile, one panel by four tokens, take 16 of 32 registers.
 */
#define ISA neon
#define TILE_PANELS 1
#define TILE_TOKENS 4
#define STEP(bits) 2
#define Y_IN_REGISTERS 0
#define SIGNED_8 1
#include "kernels/simd/ivec.h"

/* Products of vectors in int16 fit if they are added in pairs, or by four if bits < 8. */
VEC_INLINE ivec ivec_dot(ivec sum, const ivec *w, const ivec *x, int bits)
{
    int16x8_t low[2], high[2];
    for (size_t i = 0; i < 2; i++) {
        low[i] = vmull_s8(vget_low_s8((int8x16_t)w[i]), vget_low_s8((int8x16_t)x[i]));
        high[i] = vmull_high_s8((int8x16_t)w[i], (int8x16_t)x[i]);
    }
    if (bits < 8)
        return (ivec)vpadalq_s16((int32x4_t)sum, vpaddq_s16(low[0] + low[1], high[0] + high[1]));
    sum = (ivec)vpadalq_s16((int32x4_t)sum, vpaddq_s16(low[0], high[0]));
    return (ivec)vpadalq_s16((int32x4_t)sum, vpaddq_s16(low[1], high[1]));
}

#include "kernels/spec/quantize_tmpl.h"
#include "kernels/tiles/int_tile_tmpl.h"
