/* Element types with blocks of 32 values (NVFP4, Q2_0: 64, Q1_0: 128): one scale (d), for some an
 * offset (m), and small integers. See dtype_quant.h.
 *
 * In all 4-bit types byte j of a block stores value j in its low half and value j + 16 in its high
 * half. The encoders match ggml's reference encoders bit for bit: d is used unrounded for the
 * integers and stored rounded to f16. Where ggml's conversion to an integer is undefined (NaN, and
 * 1/d that overflows for blocks below 1e-36) the integer is 0.
 */
#include "dtype/dtype_ksearch.h"

#include "base/float_bits.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { HALF = QK / 2 };

/* ---- decoding -------------------------------------------------------------------------------- */

static void get_Q8_0(const uint8_t *b, float *y)
{
    int8_t q[QK];
    float d = f16_at(b);
    memcpy(q, b + 2, QK);
    for (size_t j = 0; j < QK; j++)
        y[j] = (float)q[j] * d;
}
ROW_DECODER(Q8_0, get_Q8_0(b, y))

static void get_nibbles(const uint8_t *src, uint8_t q[QK])
{
    for (size_t j = 0; j < HALF; j++) {
        q[j] = src[j] & 15;
        q[j + HALF] = src[j] >> 4;
    }
}

/* The numbers of a type of 4 or 5 bits, in the last bytes of a block: the fifth bits (bit j of 32),
 * then nibbles. */
static void get_numbers(const uint8_t *src, unsigned bits, uint8_t q[QK])
{
    get_nibbles(bits == 5 ? src + 4 : src, q);
    uint32_t high = (uint32_t)u16_at(src) | (uint32_t)u16_at(src + 2) << 16;
    for (size_t j = 0; bits == 5 && j < QK; j++)
        q[j] = (uint8_t)(q[j] | (high >> j & 1) << 4);
}

static void get_symmetric(const uint8_t *b, float *y, unsigned bits)
{
    uint8_t q[QK];
    float d = f16_at(b);
    get_numbers(b + 2, bits, q);
    for (size_t j = 0; j < QK; j++)
        y[j] = (float)(q[j] - (1 << (bits - 1))) * d;
}
ROW_DECODER(Q4_0, get_symmetric(b, y, 4))
ROW_DECODER(Q5_0, get_symmetric(b, y, 5))

static void get_range(const uint8_t *b, float *y, unsigned bits)
{
    uint8_t q[QK];
    float d = f16_at(b), m = f16_at(b + 2);
    get_numbers(b + 4, bits, q);
    for (size_t j = 0; j < QK; j++)
        y[j] = (float)q[j] * d + m;
}
ROW_DECODER(Q4_1, get_range(b, y, 4))
ROW_DECODER(Q5_1, get_range(b, y, 5))

/* Decodes nibbles: d times the table value that each nibble selects. */
static void look_up(const int8_t table[16], const uint8_t *nibbles, float d, float *dst)
{
    uint8_t q[QK];
    get_nibbles(nibbles, q);
    for (size_t j = 0; j < QK; j++)
        dst[j] = d * (float)table[q[j]];
}

ROW_DECODER(IQ4_NL, look_up(iq4_values, b + 2, f16_at(b), y))

/* 2^(e - 128). A float32 with exponent field e would be 2^(e - 127); e < 2 gives subnormals. */
static float power_of_two(uint8_t e)
{
    return f32_from_bits(e < 2 ? UINT32_C(0x200000) << e : (uint32_t)(e - 1) << 23);
}

ROW_DECODER(MXFP4, look_up(mxfp4_values, b + 1, power_of_two(b[0]), y))

/* Half the value of an unsigned 8-bit float: 4 bits of exponent (bias 7), 3 of fraction. The top
 * bit is unused; 0x7F is 0, as in ggml. */
static float half_of_e4m3(uint8_t e)
{
    unsigned exponent = e >> 3 & 15, fraction = e & 7;
    if (e == 0x7F)
        return 0;
    return exponent ? ldexpf((float)(8 + fraction), (int)exponent - 11)
                    : ldexpf((float)fraction, -10);
}

/* NVFP4: the scales of four sub-blocks of 16 values, then 8 bytes of nibbles for each, in
 * the order that other types have for 32 values. */
static void get_NVFP4(const uint8_t *b, float *y)
{
    for (size_t j = 0; j < NVFP4_BLOCK; j++) {
        unsigned nibble = b[4 + j / 16 * 8 + j % 8] >> j / 8 % 2 * 4 & 15;
        y[j] = half_of_e4m3(b[j / 16]) * (float)mxfp4_values[nibble];
    }
}
ROW_DECODER(NVFP4, get_NVFP4(b, y))

/* Q1_0: f16 d, a bit for each value: d if it is 1, else -d. */
static void get_Q1_0(const uint8_t *b, float *y)
{
    float d = f16_at(b);
    for (size_t j = 0; j < Q1_0_BLOCK; j++)
        y[j] = b[2 + j / 8] >> j % 8 & 1 ? d : -d;
}
ROW_DECODER(Q1_0, get_Q1_0(b, y))

/* Q2_0: f16 d, two bits for each value: -d, 0, d or 2 d. */
static void get_Q2_0(const uint8_t *b, float *y)
{
    float d = f16_at(b);
    for (size_t j = 0; j < Q2_0_BLOCK; j++)
        y[j] = (float)((b[2 + j / 4] >> j % 4 * 2 & 3) - 1) * d;
}
ROW_DECODER(Q2_0, get_Q2_0(b, y))

/* ---- encoding -------------------------------------------------------------------------------- */

static float inverse(float d)
{
    return d != 0 ? 1 / d : 0;
}

/* The value of largest magnitude with its sign; the first one if two are equal. */
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
static uint8_t truncate_to(float v, uint8_t top)
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
ROW_ENCODER(Q8_0, put_Q8_0(b, x))

static void put_nibbles(uint8_t *dst, const uint8_t q[QK])
{
    for (size_t j = 0; j < HALF; j++)
        dst[j] = (uint8_t)((q[j] & 15) | q[j + HALF] << 4);
}

/* The inverse of get_numbers. */
static void put_numbers(uint8_t *dst, unsigned bits, const uint8_t q[QK])
{
    uint32_t high = 0;
    for (size_t j = 0; j < QK; j++)
        high |= (uint32_t)(q[j] >> 4) << j;
    if (bits == 5) {
        put_u16(dst, (uint16_t)high);
        put_u16(dst + 2, (uint16_t)(high >> 16));
    }
    put_nibbles(bits == 5 ? dst + 4 : dst, q);
}

/* The block whose scale is best for values that count by their weights. */
static void put_weighted(uint8_t *b, const float *x, const float *weight, unsigned bits,
                         int has_min)
{
    int8_t q[QK];
    uint8_t numbers[QK];
    float d, m;
    int half = has_min ? 0 : 1 << (bits - 1);
    const struct scale_form form = {-half, (1 << bits) - 1 - half, QK, has_min, 0};
    search_block(&form, x, weight, &d, &m, q);
    put_f16(b, d);
    if (has_min)
        put_f16(b + 2, -m);
    for (size_t j = 0; j < QK; j++)
        numbers[j] = (uint8_t)(q[j] + half);
    put_numbers(b + (has_min ? 4 : 2), bits, numbers);
}

/* The value of largest magnitude becomes 0, since the range has one more level on that side. */
static void put_symmetric(uint8_t *b, const float *x, const float *weight, unsigned bits)
{
    if (weight) {
        put_weighted(b, x, weight, bits, 0);
        return;
    }
    uint8_t q[QK];
    float half = (float)(1 << (bits - 1)), d = largest_signed(x) / -half, id = inverse(d);
    for (size_t j = 0; j < QK; j++)
        q[j] = truncate_to(x[j] * id + (half + 0.5f), (uint8_t)((1 << bits) - 1));
    put_f16(b, d);
    put_numbers(b + 2, bits, q);
}
WEIGHTED_ENCODER(Q4_0, put_symmetric(b, x, w, 4))
WEIGHTED_ENCODER(Q5_0, put_symmetric(b, x, w, 5))

static void put_range(uint8_t *b, const float *x, const float *weight, unsigned bits)
{
    if (weight) {
        put_weighted(b, x, weight, bits, 1);
        return;
    }
    uint8_t q[QK], top = (uint8_t)((1 << bits) - 1);
    float min, max;
    range(x, &min, &max);
    float d = (max - min) / (float)top, id = inverse(d);
    for (size_t j = 0; j < QK; j++)
        q[j] = truncate_to((x[j] - min) * id + 0.5f, top);
    put_f16(b, d);
    put_f16(b + 2, min);
    put_numbers(b + 4, bits, q);
}
WEIGHTED_ENCODER(Q4_1, put_range(b, x, w, 4))
WEIGHTED_ENCODER(Q5_1, put_range(b, x, w, 5))
