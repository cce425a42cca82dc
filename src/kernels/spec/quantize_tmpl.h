/* The specification of quantize: activations to int8 blocks (struct x_block in int_layout.h).
 */
#include "base/float_bits.h"
#include "kernels/pack/int_layout.h"

#include <string.h>

/* Bits of the largest |x|. Compared as integers, magnitudes keep their order; NaN is largest. */
static uint32_t largest_magnitude(const float *x)
{
    uint32_t most = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        uint32_t magnitude = f32_bits(x[i]) & 0x7FFFFFFF;
        most = magnitude > most ? magnitude : most;
    }
    return most;
}

static void quantize_x_block(struct x_block *b, const float *x)
{
    uint32_t most = largest_magnitude(x);
    float m = f32_from_bits(most);
    int finite = most < 0x7F800000, counts = m >= QUANT_TINY && finite;
    float by = counts ? 127.0f / m : 0.0f;
    int32_t sum[2] = {0};
    for (size_t h = 0; h < 2; h++)
        for (size_t i = 16 * h; i < 16 * h + 16; i++) {
            float v = (finite ? x[i] : 0.0f) * by;
            int32_t q = (int32_t)(f32_bits(v + 0x1.8p23f) - 0x4B400000u); /* to nearest even */
            b->q[i] = (int8_t)q;
            sum[h] += q;
        }
    b->scale = counts || !finite ? m / 127.0f : 0.0f;
    b->sum = b->scale * (float)(sum[0] + sum[1]);
    set_minus(b, sum[0], sum[1]);
}

static void quantize_blocks(void *dst, const float *x, size_t n)
{
    struct x_block *b = dst;
    for (size_t i = 0; i < n / BLOCK; i++)
        quantize_x_block(b + i, x + i * BLOCK);
}
