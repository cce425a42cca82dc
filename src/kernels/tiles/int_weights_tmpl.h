/* Unpacking of packed integer weights: bytes, scales and minima, in the vectors of the including
 * file.
 *
 * The including file defines the vector types IVEC (integers) and FVEC (LANES floats) with their i_
 * and f_ functions, and SIGNED_8: 1 if 8-bit weights are needed as signed bytes.
 */
#include "kernels/pack/int_layout.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The bytes of lines j and j + 1 (j even) of a block. */
ALWAYS_INLINE void get_pair(IVEC w[2], const uint8_t *lines, size_t j, const struct layout *l)
{
    if (l->bits == 8) {
        for (size_t i = 0; i < 2; i++) {
            w[i] = i_load(lines + (j + i) * LINE);
            if (SIGNED_8)
                w[i] = i_xor(w[i], i_bytes(128));
        }
        return;
    }
    IVEC both = i_load(lines + j / 2 * LINE);
    w[0] = i_and(both, i_bytes(15));
    w[1] = i_and(i_shift(both, -4), i_bytes(15));
    for (size_t i = 0; i < 2 && l->bits == 5; i++) {
        IVEC high = i_load(lines + 4 * LINE);
        w[i] = i_or_and(w[i], i_shift(high, 4 - (int)(j + i)), i_bytes(16));
    }
    for (size_t i = 0; i < 2 && l->bits == 6; i++) {
        IVEC high = i_load(lines + (4 + j / 4) * LINE);
        w[i] = i_or_and(w[i], i_shift(high, 4 - 2 * (int)((j + i) % 4)), i_bytes(48));
    }
}

/* Scales of sub-block s of block b of a group for LANES rows; head and bytes point to the first. */
ALWAYS_INLINE FVEC get_scale(const uint8_t *head, const uint8_t *bytes, size_t b, size_t s,
                             const struct layout *l)
{
    if (l->sub_blocks == 2)
        return f_mul(f_half(head), f_signed_bytes(bytes + (2 * b + s) * PANEL));
    if (l->k)
        return f_mul(f_half(head), f_bytes(bytes + b * PANEL));
    return f_half(head + (l->has_min ? 0 : b * LINE / 2));
}

ALWAYS_INLINE FVEC get_min(const uint8_t *head, const uint8_t *bytes, size_t b,
                           const struct layout *l)
{
    FVEC min = f_half(head + LINE / 2);
    return l->k ? f_mul(min, f_bytes(bytes + (8 + b) * PANEL)) : min;
}
