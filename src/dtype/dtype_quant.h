/* Shared by the files of src/dtype only: fields of a block, and the functions of dtype.c's table
 * that are defined in other files.
 *
 * A decoder takes n values, a whole number of blocks, from bytes that may be unaligned; any bytes
 * decode. Products are rounded to float32 in the order written, as ggml does, so all programs see
 * the same weights. An encoder takes any floats: values that are not finite give a block of wrong
 * values, not undefined behaviour.
 */
#ifndef MGPT_DTYPE_QUANT_H
#define MGPT_DTYPE_QUANT_H

#include "dtype/dtype.h"

#include <stddef.h>
#include <stdint.h>

enum { QK = 32, QK_K = 256 }; /* values of a block, of a super-block */

static inline uint16_t u16_at(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline void put_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline float f16_at(const uint8_t *p)
{
    return f16_to_f32(u16_at(p));
}

static inline void put_f16(uint8_t *p, float v)
{
    put_u16(p, f16_from_f32(v));
}

#define DECLARE_RW(NAME) void encode_##NAME(const float *src, void *dst, size_t n);
#define DECLARE_RWW(NAME)                                                                          \
    DECLARE_RW(NAME)                                                                               \
    void weighted_##NAME(const float *src, const float *weight, void *dst, size_t n);
#define DECLARE_R(NAME)
#define DECLARE_CODEC(NAME, ID, ACCESS, ...)                                                       \
    void decode_##NAME(const void *src, float *dst, size_t n);                                     \
    DECLARE_##ACCESS(NAME)
READABLE_TYPES(DECLARE_CODEC)

/* Defines decode_NAME. DECODE decodes the block at b to y. */
#define ROW_DECODER(NAME, DECODE)                                                                  \
    void decode_##NAME(const void *src, float *dst, size_t n)                                      \
    {                                                                                              \
        const uint8_t *b = src;                                                                    \
        for (float *y = dst; y < dst + n; y += NAME##_BLOCK, b += NAME##_BYTES)                    \
            DECODE;                                                                                \
    }

/* Defines encode_NAME. ENCODE encodes x to the block at b. */
#define ROW_ENCODER(NAME, ENCODE)                                                                  \
    void encode_##NAME(const float *src, void *dst, size_t n)                                      \
    {                                                                                              \
        uint8_t *b = dst;                                                                          \
        for (const float *x = src; x < src + n; x += NAME##_BLOCK, b += NAME##_BYTES)              \
            ENCODE;                                                                                \
    }

/* Defines weighted_NAME, and encode_NAME, which is that without weights. ENCODE encodes x to the
 * block at b; w: the weights of x, or NULL. */
#define WEIGHTED_ENCODER(NAME, ENCODE)                                                             \
    void weighted_##NAME(const float *src, const float *weight, void *dst, size_t n)               \
    {                                                                                              \
        uint8_t *b = dst;                                                                          \
        for (size_t i = 0; i < n; i += NAME##_BLOCK, b += NAME##_BYTES) {                          \
            const float *x = src + i, *w = weight ? weight + i : NULL;                             \
            ENCODE;                                                                                \
        }                                                                                          \
    }                                                                                              \
    void encode_##NAME(const float *src, void *dst, size_t n)                                      \
    {                                                                                              \
        weighted_##NAME(src, NULL, dst, n);                                                        \
    }

#endif
