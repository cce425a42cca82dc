/* Unpacking of packed integer weights: bytes, scales and minima.
 *
 * The including file defines ISA (vec.h) and SIGNED_8: 1 if 8-bit weights are needed as signed
 * bytes.
 */
#include "kernels/simd/ivec.h"

/* Halves of a head, for LANES rows. */
VEC_INLINE vec get_halves(const uint8_t *head)
{
    return vec_load_f16((const uint16_t *)(const void *)head);
}

/* The bytes of lines j and j + 1 (j even) of a block. */
VEC_INLINE void get_pair(ivec w[2], const uint8_t *lines, size_t j, const struct layout *l)
{
    if (l->bits == 8) {
        for (size_t i = 0; i < 2; i++) {
            w[i] = ivec_load(lines + (j + i) * LINE);
            if (SIGNED_8)
                w[i] ^= ivec_of_byte(128);
        }
        return;
    }
    ivec both = ivec_load(lines + j / 2 * LINE);
    w[0] = both & ivec_of_byte(15);
    w[1] = ivec_shift(both, -4) & ivec_of_byte(15);
    for (size_t i = 0; i < 2 && l->bits == 5; i++) {
        ivec high = ivec_load(lines + 4 * LINE);
        w[i] |= ivec_shift(high, 4 - (int)(j + i)) & ivec_of_byte(16);
    }
    for (size_t i = 0; i < 2 && l->bits == 6; i++) {
        ivec high = ivec_load(lines + (4 + j / 4) * LINE);
        w[i] |= ivec_shift(high, 4 - 2 * (int)((j + i) % 4)) & ivec_of_byte(48);
    }
}

/* Scales of sub-block s of block b of a group for LANES rows; head and bytes point to the first. */
VEC_INLINE vec get_scale(const uint8_t *head, const uint8_t *bytes, size_t b, size_t s,
                         const struct layout *l)
{
    if (l->sub_blocks == 2)
        return vec_mul(get_halves(head), vec_load_i8(bytes + (2 * b + s) * PANEL));
    if (l->k)
        return vec_mul(get_halves(head), vec_load_u8(bytes + b * PANEL));
    return get_halves(head + (l->has_min ? 0 : b * LINE / 2));
}

VEC_INLINE vec get_min(const uint8_t *head, const uint8_t *bytes, size_t b, const struct layout *l)
{
    vec min = get_halves(head + LINE / 2);
    return l->k ? vec_mul(min, vec_load_u8(bytes + (8 + b) * PANEL)) : min;
}
