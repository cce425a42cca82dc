/* Decoders of IQ1 to IQ3: super-blocks of 256 values, of which 8 (IQ3: 4) consecutive ones are a
 * point of a grid times a scale. See dtype_quant.h.
 *
 * The grid of a type is a set of points, numbered in ascending order of their digits in base 3
 * (IQ3: base 8), the first value's being the lowest. So a bit for each possible point is the whole
 * table: 6561 bits (IQ3: 4096). A decoder first makes the list of points, once for all its blocks.
 *
 * Products are exact in float32: 11 bits of d, at most 5 of a scale and 6 of a value.
 */
#include "dtype/dtype_quant.h"

#include "dtype/grids.h"

#ifndef MGPT_NO_GRIDS

/* The points of a grid in order. A digit takes 2 bits (base 8: 3 bits), the first value's the
 * lowest. */
static void list_points(const uint64_t *bits, unsigned base, uint16_t *points)
{
    const unsigned width = base == 3 ? 2 : 3, n_digits = base == 3 ? 8 : 4,
                   n = base == 3 ? 6561 : 4096;
    unsigned point = 0;
    for (unsigned i = 0; i < n; i++) {
        if (bits[i / 64] >> i % 64 & 1)
            *points++ = (uint16_t)point;
        for (unsigned k = 0; k < n_digits; k++) { /* counts up by one */
            unsigned digit = point >> width * k & ((1u << width) - 1);
            if (digit + 1 < base) {
                point += 1u << width * k;
                break;
            }
            point -= digit << width * k;
        }
    }
}

static uint32_t u32_at(const uint8_t *p)
{
    return (uint32_t)u16_at(p) | (uint32_t)u16_at(p + 2) << 16;
}

/* Eight values, negative where `signs` has a 1. */
static void put_signed2(float *y, float scale, unsigned point, unsigned signs)
{
    static const float values[4] = {8, 25, 43};
    for (unsigned j = 0; j < 8; j++) {
        float v = values[point >> 2 * j & 3];
        y[j] = scale * (signs >> j & 1 ? -v : v);
    }
}

/* Decodes 8 values from two grid points of four digits each, 3 bits a digit. Digit d is 2 d + 1, digit 7
 * is `last`: 15, or 15.5 in IQ3_XXS. */
static void put_signed3(float *y, float scale, const uint16_t points[2], unsigned signs, float last)
{
    for (unsigned j = 0; j < 8; j++) {
        unsigned digit = points[j / 4] >> 3 * (j % 4) & 7;
        float v = digit < 7 ? (float)(2 * digit + 1) : last;
        y[j] = scale * (signs >> j & 1 ? -v : v);
    }
}

/* Digits 0, 1 and 2 are -1, 0 and 1. */
static void put_shifted(float *y, float scale, unsigned point, float shift)
{
    for (unsigned j = 0; j < 8; j++)
        y[j] = scale * ((float)(point >> 2 * j & 3) - 1 + shift);
}

/* Eight signs of which seven are stored: the number of negative ones is even. */
static unsigned even_signs(uint32_t seven)
{
    return (seven & 127) | (unsigned)__builtin_parity(seven & 127) << 7;
}

/* f16 d; for each 32 values the numbers of four points, and a word of 4 times 7 signs and a scale. */
static void get_IQ2_XXS(const uint8_t *b, float *y, const uint16_t *points)
{
    float d = f16_at(b);
    for (size_t k = 0; k < 32; k++, y += 8) {
        const uint8_t *p = b + 2 + 8 * (k / 4);
        uint32_t word = u32_at(p + 4);
        float scale = d * (0.5f + (float)(word >> 28)) * 0.25f;
        put_signed2(y, scale, points[p[k % 4]], even_signs(word >> 7 * (k % 4)));
    }
}

/* f16 d; for each 8 values 9 bits with the number of a point and 7 signs; a nibble of scale for 16. */
static void get_IQ2_XS(const uint8_t *b, float *y, const uint16_t *points)
{
    float d = f16_at(b);
    for (size_t k = 0; k < 32; k++, y += 8) {
        unsigned q = u16_at(b + 2 + 2 * k), nibble = b[66 + k / 4] >> k / 2 % 2 * 4 & 15;
        float scale = d * (0.5f + (float)nibble) * 0.25f;
        put_signed2(y, scale, points[q & 511], even_signs(q >> 9));
    }
}

/* f16 d; 32 low bytes of the numbers of points, 32 bytes of signs, 8 with two high bits of four
 * numbers each, 8 with scales. */
static void get_IQ2_S(const uint8_t *b, float *y, const uint16_t *points)
{
    float d = f16_at(b);
    for (size_t k = 0; k < 32; k++, y += 8) {
        unsigned high = b[66 + k / 4] >> k % 4 * 2 & 3,
                 nibble = b[74 + k / 4] >> k / 2 % 2 * 4 & 15;
        float scale = d * (0.5f + (float)nibble) * 0.25f;
        put_signed2(y, scale, points[b[2 + k] | high << 8], b[34 + k]);
    }
}

/* f16 d; 64 numbers of points of four; for each 32 values a word of 4 times 7 signs and a scale. */
static void get_IQ3_XXS(const uint8_t *b, float *y, const uint16_t *points)
{
    float d = f16_at(b);
    for (size_t k = 0; k < 32; k++, y += 8) {
        uint32_t word = u32_at(b + 66 + 4 * (k / 4));
        float scale = d * (0.5f + (float)(word >> 28)) * 2;
        const uint16_t two[2] = {points[b[2 + 2 * k]], points[b[3 + 2 * k]]};
        put_signed3(y, scale, two, even_signs(word >> 7 * (k % 4)), 15.5f);
    }
}

/* f16 d; 64 low bytes of the numbers of points, 8 bytes of high bits, 32 of signs, 4 of scales. */
static void get_IQ3_S(const uint8_t *b, float *y, const uint16_t *points)
{
    float d = f16_at(b);
    for (size_t k = 0; k < 32; k++, y += 8) {
        unsigned high = b[66 + k / 4] >> k % 4 * 2, nibble = b[106 + k / 8] >> k / 4 % 2 * 4 & 15;
        const uint16_t two[2] = {points[b[2 + 2 * k] | (high & 1) << 8],
                                 points[b[3 + 2 * k] | (high & 2) << 7]};
        put_signed3(y, d * (float)(1 + 2 * nibble), two, b[74 + k], 15);
    }
}

/* f16 d; the low bytes of 32 indices into the grid; for each 32 values 16 bits: the 3 high bits of four
 * indices, 3 bits of scale, the sign of the shift. */
static void get_IQ1_S(const uint8_t *b, float *y, const uint16_t *points)
{
    float d = f16_at(b);
    for (size_t k = 0; k < 32; k++, y += 8) {
        unsigned word = u16_at(b + 34 + 2 * (k / 4)), high = word >> 3 * (k % 4) & 7;
        float scale = d * (float)(2 * (word >> 12 & 7) + 1);
        put_shifted(y, scale, points[b[2 + k] | high << 8], word >> 15 ? -0.125f : 0.125f);
    }
}

/* 32 low bytes; 32 nibbles of 3 high bits and the sign of the shift; 4 words of four times 3 bits
 * of scale, for 16 values each. The high nibbles of the words are the f16 d, the last one the
 * highest. */
static void get_IQ1_M(const uint8_t *b, float *y, const uint16_t *points)
{
    const uint8_t *scales = b + 48;
    unsigned half = 0;
    for (size_t i = 0; i < 4; i++)
        half |= (unsigned)scales[2 * i + 1] >> 4 << 4 * i;
    float d = f16_to_f32((uint16_t)half);
    for (size_t k = 0; k < 32; k++, y += 8) {
        unsigned nibble = b[32 + k / 2] >> k % 2 * 4 & 15;
        unsigned three = u16_at(scales + 2 * (k / 8)) >> 3 * (k / 2 % 4) & 7;
        put_shifted(y, d * (float)(2 * three + 1), points[b[k] | (nibble & 7) << 8],
                    nibble & 8 ? -0.125f : 0.125f);
    }
}

/* Defines decode_NAME for a grid of N points. */
#define GRID_DECODER(NAME, GRID, BASE, N)                                                          \
    void decode_##NAME(const void *src, float *dst, size_t n)                                      \
    {                                                                                              \
        const uint8_t *b = src;                                                                    \
        uint16_t points[N];                                                                        \
        list_points(GRID, BASE, points);                                                           \
        for (float *y = dst; y < dst + n; y += NAME##_BLOCK, b += NAME##_BYTES)                    \
            get_##NAME(b, y, points);                                                              \
    }
GRID_DECODER(IQ2_XXS, grid_IQ2_XXS, 3, 256)
GRID_DECODER(IQ2_XS, grid_IQ2_XS, 3, 512)
GRID_DECODER(IQ2_S, grid_IQ2_S, 3, 1024)
GRID_DECODER(IQ3_XXS, grid_IQ3_XXS, 8, 256)
GRID_DECODER(IQ3_S, grid_IQ3_S, 8, 512)
GRID_DECODER(IQ1_S, grid_IQ1, 3, 2048)
GRID_DECODER(IQ1_M, grid_IQ1, 3, 2048)

#endif
