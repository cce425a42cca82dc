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

/* One unpacked block of a panel. */
struct w_block {
    _Alignas(LINE) uint8_t q[BLOCK_WORDS][LINE];
    float scale[2][PANEL], min[PANEL];
};

/* Unpacks the bytes of a block; `minus` is subtracted from each. */
VEC_INLINE void unpack_bytes(struct w_block *to, const uint8_t *lines, uint8_t minus,
                             const struct layout *l)
{
#pragma GCC unroll 4
    for (size_t j = 0; j < BLOCK_WORDS; j += 2)
        for (size_t at = 0; at < LINE; at += 4 * LANES) {
            ivec w[2];
            get_pair(w, lines + at, j, l);
            ivec_store(to->q[j] + at, w[0] - ivec_of_byte(minus));
            ivec_store(to->q[j + 1] + at, w[1] - ivec_of_byte(minus));
        }
}

/* Unpacks the scales and minima of block b of a group. */
VEC_INLINE void unpack_scales(struct w_block *to, const uint8_t *head, size_t b,
                              const struct layout *l)
{
    for (size_t r = 0; r < PANEL; r += LANES) {
        const uint8_t *halves = head + 2 * r, *bytes = head + LINE + r;
        for (size_t s = 0; s < l->sub_blocks; s++)
            vec_store(to->scale[s] + r, get_scale(halves, bytes, b, s, l));
        if (l->has_min)
            vec_store(to->min + r, get_min(halves, bytes, b, l));
    }
}
