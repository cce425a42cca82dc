/* Encoders of the types with super-blocks: what the search has found, laid out as the decoders of
 * dtype_kquant.c read it. See dtype_ksearch.h.
 */
#include "dtype/dtype_ksearch.h"

#include <string.h>

static const struct scale_form form_q2 = {0, 3, 16, 1, 15}, form_q3 = {-4, 3, 16, 0, 31},
                               form_q4 = {0, 15, 32, 1, 63}, form_q5 = {0, 31, 32, 1, 63},
                               form_q6 = {-32, 31, 16, 0, 127};

/* 6 bits each, packed as get_scale_min reads them. */
static void put_scale_min(uint8_t *p, size_t s, int scale, int min)
{
    if (s < 4) {
        p[s] = (uint8_t)(p[s] | scale);
        p[s + 4] = (uint8_t)(p[s + 4] | min);
    } else {
        p[s + 4] = (uint8_t)((scale & 15) | (min & 15) << 4);
        p[s - 4] = (uint8_t)(p[s - 4] | scale >> 4 << 6);
        p[s] = (uint8_t)(p[s] | min >> 4 << 6);
    }
}

/* Q4_K, and Q5_K: its fifth bits are before the nibbles. */
static void put_nibbles_k(uint8_t *p, const float *x, const float *w, int is_q5)
{
    struct super_block b;
    uint8_t *high = p + 16, *nibbles = p + (is_q5 ? 48 : 16);
    search_super_block(is_q5 ? &form_q5 : &form_q4, x, w, &b);
    put_f16(p, b.d);
    put_f16(p + 2, b.dmin);
    memset(p + 4, 0, 12);
    for (size_t s = 0; s < 8; s++)
        put_scale_min(p + 4, s, b.scale[s], b.min[s]);
    for (size_t j = 0; j < QK_K / 2; j++) {
        size_t low = j / 32 * 64 + j % 32;
        nibbles[j] = (uint8_t)((b.q[low] & 15) | (b.q[low + 32] & 15) << 4);
    }
    for (size_t l = 0; is_q5 && l < 32; l++) {
        high[l] = 0;
        for (size_t s = 0; s < 8; s++)
            high[l] = (uint8_t)(high[l] | b.q[32 * s + l] >> 4 << s);
    }
}
WEIGHTED_ENCODER(Q4_K, put_nibbles_k(b, x, w, 0))
WEIGHTED_ENCODER(Q5_K, put_nibbles_k(b, x, w, 1))

/* Rows of 32 values: see get_Q6_K. */
static void put_row6(uint8_t *p, size_t row, const int8_t *q)
{
    size_t h = row / 4, k = row % 4;
    uint8_t *low = p + 64 * h + 32 * (k & 1), *high = p + 128 + 32 * h;
    unsigned shift = k < 2 ? 0 : 4;
    for (size_t l = 0; l < 32; l++) {
        unsigned level = (unsigned)(q[l] + 32);
        low[l] = (uint8_t)(low[l] | (level & 15) << shift);
        high[l] = (uint8_t)(high[l] | level >> 4 << 2 * k);
    }
}

static void put_Q6_K(uint8_t *p, const float *x, const float *w)
{
    struct super_block b;
    search_super_block(&form_q6, x, w, &b);
    memset(p, 0, 192);
    for (size_t row = 0; row < 8; row++)
        put_row6(p, row, b.q + 32 * row);
    for (size_t s = 0; s < 16; s++)
        p[192 + s] = (uint8_t)b.scale[s];
    put_f16(p + 208, b.d);
}
WEIGHTED_ENCODER(Q6_K, put_Q6_K(b, x, w))

/* Two bits of the 16 values of sub-block j: see get_Q2_K. */
static void put_pairs(uint8_t *pairs, size_t j, const int8_t *q, int offset)
{
    uint8_t *to = pairs + j / 8 * 32 + j % 2 * 16;
    for (size_t l = 0; l < 16; l++)
        to[l] = (uint8_t)(to[l] | ((q[l] + offset) & 3) << j / 2 % 4 * 2);
}

static void put_Q2_K(uint8_t *p, const float *x, const float *w)
{
    struct super_block b;
    search_super_block(&form_q2, x, w, &b);
    memset(p, 0, 80);
    for (size_t j = 0; j < 16; j++) {
        p[j] = (uint8_t)(b.scale[j] | b.min[j] << 4);
        put_pairs(p + 16, j, b.q + 16 * j, 0);
    }
    put_f16(p + 80, b.d);
    put_f16(p + 82, b.dmin);
}
WEIGHTED_ENCODER(Q2_K, put_Q2_K(b, x, w))

static void put_Q3_K(uint8_t *p, const float *x, const float *w)
{
    struct super_block b;
    search_super_block(&form_q3, x, w, &b);
    memset(p, 0, 108);
    for (size_t j = 0; j < 16; j++) {
        int scale = b.scale[j] + 32;
        uint8_t *third = p + 16 * (j % 2), *low = p + 96 + j % 8, *high = p + 104 + j % 4;
        put_pairs(p + 32, j, b.q + 16 * j, 4);
        for (size_t l = 0; l < 16; l++)
            third[l] = (uint8_t)(third[l] | (b.q[16 * j + l] >= 0) << (j / 8 * 4 + j / 2 % 4));
        *low = (uint8_t)(*low | (scale & 15) << j / 8 * 4);
        *high = (uint8_t)(*high | scale >> 4 << j / 4 * 2);
    }
    put_f16(p + 108, b.d);
}
WEIGHTED_ENCODER(Q3_K, put_Q3_K(b, x, w))
