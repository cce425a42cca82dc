/* Element types with blocks of 32 values: one scale (d), for some an offset (m), and small
 * integers. See dtype_quant.h.
 *
 * In all 4-bit types byte j of a block stores value j in its low half and value j + 16 in its high
 * half. The encoders match ggml's reference encoders bit for bit: d is used unrounded for the
 * integers and stored rounded to f16. Where ggml's conversion to an integer is undefined (NaN, and
 * 1/d that overflows for blocks below 1e-36) the integer is 0.
 */
#include "dtype/dtype_quant.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { HALF = QK / 2 };

const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};

/* ---- decoding -------------------------------------------------------------------------------- */

static void get_Q8_0(const uint8_t *b, float *y)
{
    int8_t q[QK];
    float d = f16_at(b);
    memcpy(q, b + 2, QK);
    for (size_t j = 0; j < QK; j++)
        y[j] = (float)q[j] * d;
}
ROW_DECODER(Q8_0)

static void get_nibbles(const uint8_t *src, uint8_t q[QK])
{
    for (size_t j = 0; j < HALF; j++) {
        q[j] = src[j] & 15;
        q[j + HALF] = src[j] >> 4;
    }
}

/* Four bits from `low`, the fifth from bit j of the 32 at `high`. */
static void get_fives(const uint8_t *high, const uint8_t *low, uint8_t q[QK])
{
    get_nibbles(low, q);
    uint32_t bits = (uint32_t)u16_at(high) | (uint32_t)u16_at(high + 2) << 16;
    for (size_t j = 0; j < QK; j++)
        q[j] = (uint8_t)(q[j] | (bits >> j & 1) << 4);
}

static void get_Q4_0(const uint8_t *b, float *y)
{
    uint8_t q[QK];
    float d = f16_at(b);
    get_nibbles(b + 2, q);
    for (size_t j = 0; j < QK; j++)
        y[j] = (float)(q[j] - 8) * d;
}
ROW_DECODER(Q4_0)

static void get_Q4_1(const uint8_t *b, float *y)
{
    uint8_t q[QK];
    float d = f16_at(b), m = f16_at(b + 2);
    get_nibbles(b + 4, q);
    for (size_t j = 0; j < QK; j++)
        y[j] = (float)q[j] * d + m;
}
ROW_DECODER(Q4_1)

static void get_Q5_0(const uint8_t *b, float *y)
{
    uint8_t q[QK];
    float d = f16_at(b);
    get_fives(b + 2, b + 6, q);
    for (size_t j = 0; j < QK; j++)
        y[j] = (float)(q[j] - 16) * d;
}
ROW_DECODER(Q5_0)

static void get_Q5_1(const uint8_t *b, float *y)
{
    uint8_t q[QK];
    float d = f16_at(b), m = f16_at(b + 2);
    get_fives(b + 4, b + 8, q);
    for (size_t j = 0; j < QK; j++)
        y[j] = (float)q[j] * d + m;
}
ROW_DECODER(Q5_1)

/* Decodes nibbles: d times the table value that each nibble selects. */
static void look_up(const int8_t table[16], const uint8_t *nibbles, float d, float *dst)
{
    uint8_t q[QK];
    get_nibbles(nibbles, q);
    for (size_t j = 0; j < QK; j++)
        dst[j] = d * (float)table[q[j]];
}

static void get_IQ4_NL(const uint8_t *b, float *y)
{
    look_up(iq4_values, b + 2, f16_at(b), y);
}
ROW_DECODER(IQ4_NL)

/* 2^(e - 128). A float32 with exponent field e would be 2^(e - 127); e < 2 gives subnormals. */
static float power_of_two(uint8_t e)
{
    uint32_t bits = e < 2 ? UINT32_C(0x200000) << e : (uint32_t)(e - 1) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The table stores twice the values of the 4-bit float (1 sign, 2 exponent, 1 fraction bit). */
static void get_MXFP4(const uint8_t *b, float *y)
{
    static const int8_t twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    look_up(twice, b + 1, power_of_two(b[0]), y);
}
ROW_DECODER(MXFP4)

/* ---- encoding -------------------------------------------------------------------------------- */

static float inverse(float d)
{
    return d != 0 ? 1 / d : 0;
}

/* The value of largest magnitude, the first of several, with its sign. */
static float largest_signed(const float *x)
{
    float most = 0, value = 0;
    for (size_t j = 0; j < QK; j++) {
        if (fabsf(x[j]) > most) {
            most = fabsf(x[j]);
            value = x[j];
        }
    }
    return value;
}

static void range(const float *x, float *min, float *max)
{
    *min = FLT_MAX;
    *max = -FLT_MAX;
    for (size_t j = 0; j < QK; j++) {
        *min = x[j] < *min ? x[j] : *min;
        *max = x[j] > *max ? x[j] : *max;
    }
}

/* v truncated to an integer of at most `top`; 0 if v is not in (0, 256). */
static uint8_t truncate(float v, uint8_t top)
{
    int in_range = v > 0 && v < 256;
    uint8_t q = (uint8_t)(in_range ? v : 0);
    return q < top ? q : top;
}

/* Rounds half away from zero like roundf, in a form that compilers vectorise; `rest` is exact. */
static int8_t round_away(float v)
{
    int in_range = v > -128 && v < 128;
    int q = (int)(in_range ? v : 0);
    float rest = (in_range ? v : 0) - (float)q;
    return (int8_t)(q + (rest >= 0.5f) - (rest <= -0.5f));
}

static void put_Q8_0(uint8_t *b, const float *x)
{
    int8_t q[QK];
    float d = fabsf(largest_signed(x)) / 127, id = inverse(d);
    for (size_t j = 0; j < QK; j++)
        q[j] = round_away(x[j] * id);
    put_f16(b, d);
    memcpy(b + 2, q, QK);
}
ROW_ENCODER(Q8_0)

static void put_nibbles(uint8_t *dst, const uint8_t q[QK])
{
    for (size_t j = 0; j < HALF; j++)
        dst[j] = (uint8_t)((q[j] & 15) | q[j + HALF] << 4);
}

static void put_fives(uint8_t *high, uint8_t *low, const uint8_t q[QK])
{
    uint32_t bits = 0;
    for (size_t j = 0; j < QK; j++)
        bits |= (uint32_t)(q[j] >> 4) << j;
    put_u16(high, (uint16_t)bits);
    put_u16(high + 2, (uint16_t)(bits >> 16));
    put_nibbles(low, q);
}

/* The integers of a symmetric type with 2 * half levels; returns the scale. The value of largest
 * magnitude becomes 0, since the range has one more level on that side. */
static float encode_symmetric(const float *x, uint8_t half, uint8_t q[QK])
{
    float d = largest_signed(x) / -(float)half, id = inverse(d), middle = (float)half + 0.5f;
    for (size_t j = 0; j < QK; j++)
        q[j] = truncate(x[j] * id + middle, (uint8_t)(2 * half - 1));
    return d;
}

/* The integers 0 to top of a type with an offset, stored in *min; returns the scale. */
static float encode_range(const float *x, uint8_t top, uint8_t q[QK], float *min)
{
    float max;
    range(x, min, &max);
    float d = (max - *min) / (float)top, id = inverse(d);
    for (size_t j = 0; j < QK; j++)
        q[j] = truncate((x[j] - *min) * id + 0.5f, top);
    return d;
}

static void put_Q4_0(uint8_t *b, const float *x)
{
    uint8_t q[QK];
    put_f16(b, encode_symmetric(x, 8, q));
    put_nibbles(b + 2, q);
}
ROW_ENCODER(Q4_0)

static void put_Q5_0(uint8_t *b, const float *x)
{
    uint8_t q[QK];
    put_f16(b, encode_symmetric(x, 16, q));
    put_fives(b + 2, b + 6, q);
}
ROW_ENCODER(Q5_0)

static void put_Q4_1(uint8_t *b, const float *x)
{
    uint8_t q[QK];
    float min;
    put_f16(b, encode_range(x, 15, q, &min));
    put_f16(b + 2, min);
    put_nibbles(b + 4, q);
}
ROW_ENCODER(Q4_1)

static void put_Q5_1(uint8_t *b, const float *x)
{
    uint8_t q[QK];
    float min;
    put_f16(b, encode_range(x, 31, q, &min));
    put_f16(b + 2, min);
    put_fives(b + 4, b + 8, q);
}
ROW_ENCODER(Q5_1)
