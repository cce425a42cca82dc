/* Unpacking of packed integer weights: bytes, scales and minima.
 *
 * The including file defines ISA (vec.h) and SIGNED_8: 1 if 8-bit weights are needed as signed
 * bytes.
 */
#include "kernels/pack/int_layout.h"
#include "kernels/simd/ivec.h"
#include "kernels/simd/ivec_zip.h"

/* d of a head, for LANES rows. */
VEC_INLINE vec get_d(const uint8_t *head, const struct layout *l)
{
    const uint16_t *d = (const uint16_t *)(const void *)head;
    return l->is_bf16 ? vec_load_bf16(d) : vec_load_f16(d);
}

VEC_INLINE ivec get_table(const struct layout *l)
{
    return ivec_of_16((const uint8_t *)l->table) + ivec_of_byte(SIGNED_8 ? 0 : 128);
}

/* The bytes of line j of a block. */
VEC_INLINE ivec get_line(const uint8_t *lines, size_t j, const struct layout *l)
{
    const int low = l->low, high = l->high, at = (int)j * low % 8, high_at = (int)j * high % 8;
    ivec w = ivec_load(lines + j * l->low / 8 * LINE);
    if (low == 8)
        return SIGNED_8 ? w ^ ivec_of_byte(128) : w;
    w = ivec_shift(w, -at) & ivec_of_byte((uint8_t)((1 << low) - 1));
    if (high)
        w |= ivec_shift(ivec_load(lines + (l->low + j * l->high / 8) * LINE), low - high_at) &
             ivec_of_byte((uint8_t)(((1 << high) - 1) << low));
    return l->table ? ivec_lookup(get_table(l), w) : w;
}

/* Scales of sub-block s of block b of a group for LANES rows; head and bytes point to the first. */
VEC_INLINE vec get_scale(const uint8_t *head, const uint8_t *bytes, size_t b, size_t s,
                         const struct layout *l)
{
    if (l->k)
        return vec_mul(get_d(head, l), vec_load_i8(bytes + k_scale_at(l, b, s)));
    return get_d(head + (l->has_min ? 0 : b * LINE / 2), l);
}

VEC_INLINE vec get_min(const uint8_t *head, const uint8_t *bytes, size_t b, size_t s,
                       const struct layout *l)
{
    vec min = get_d(head + LINE / 2, l);
    return l->k ? vec_mul(min, vec_load_i8(bytes + k_min_at(l, b, s))) : min;
}

/* One unpacked block of a panel. */
struct w_block {
    _Alignas(LINE) uint8_t q[BLOCK_WORDS][LINE];
    float scale[2][PANEL], min[2][PANEL];
};

/* Unpacks the bytes of a block; `minus` is subtracted from each. */
VEC_INLINE void unpack_bytes(struct w_block *to, const uint8_t *lines, uint8_t minus,
                             const struct layout *l)
{
#pragma GCC unroll 8
    for (size_t j = 0; j < BLOCK_WORDS; j++)
        for (size_t at = 0; at < LINE; at += 4 * LANES)
            ivec_store(to->q[j] + at, get_line(lines + at, j, l) - ivec_of_byte(minus));
}

/* Unpacks the scales and minima of block b of a group. */
VEC_INLINE void unpack_scales(struct w_block *to, const uint8_t *head, size_t b,
                              const struct layout *l)
{
    for (size_t r = 0; r < PANEL; r += LANES) {
        const uint8_t *halves = head + 2 * r, *bytes = head + LINE + r;
        for (size_t s = 0; s < l->sub_blocks; s++) {
            vec_store(to->scale[s] + r, get_scale(halves, bytes, b, s, l));
            if (l->has_min)
                vec_store(to->min[s] + r, get_min(halves, bytes, b, s, l));
        }
    }
}
