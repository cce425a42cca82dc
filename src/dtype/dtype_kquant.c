/* Decoders of the types with super-blocks of 256 values and two levels of scales. See
 * dtype_quant.h; the encoders are in dtype_kput.c.
 *
 * A super-block is divided into sub-blocks of 16 or 32 values, each with a small integer scale (and
 * for some types an integer minimum). The super-block's f16 d (and dmin) multiply those. Fields are
 * laid out so that 32 consecutive values come from 32 consecutive bytes with one shift.
 */
#include "dtype/dtype_quant.h"

/* Scale and minimum of sub-block s in the 12 bytes of Q4_K and Q5_K: 6 bits each. The first four
 * have their own bytes, whose spare top bits store the top two bits of the last four. */
static void get_scale_min(const uint8_t *p, size_t s, int *scale, int *min)
{
    if (s < 4) {
        *scale = p[s] & 63;
        *min = p[s + 4] & 63;
    } else {
        *scale = (p[s + 4] & 15) | p[s - 4] >> 6 << 4;
        *min = p[s + 4] >> 4 | p[s] >> 6 << 4;
    }
}

/* Q4_K: f16 d, f16 dmin, 12 bytes of scales, 128 of nibbles: sub-blocks 2i and 2i + 1 are the
 * halves of the same 32 bytes. Q5_K: 32 bytes before the nibbles, at `high`; bit s of each is the
 * fifth bit of a value of sub-block s. */
static void get_nibbles_k(const uint8_t *b, float *y, const uint8_t *high)
{
    float d = f16_at(b), dmin = f16_at(b + 2);
    const uint8_t *nibbles = b + (high ? 48 : 16);
    for (size_t s = 0; s < 8; s++, y += 32) {
        const uint8_t *q = nibbles + 32 * (s / 2);
        unsigned shift = 4 * (s % 2);
        int sc, mn;
        get_scale_min(b + 4, s, &sc, &mn);
        float scale = d * (float)sc, min = dmin * (float)mn;
        for (size_t l = 0; l < 32; l++)
            y[l] = scale * (float)((q[l] >> shift & 15) | (high ? high[l] >> s & 1 : 0) << 4) - min;
    }
}
ROW_DECODER(Q4_K, get_nibbles_k(b, y, NULL))
ROW_DECODER(Q5_K, get_nibbles_k(b, y, b + 16))

/* 128 bytes of low nibbles, 64 of two high bits, 16 signed scales, f16 d. Each half of 128
 * values takes 64 low and 32 high bytes; k counts its rows of 32 values, with two scales each. */
static void get_Q6_K(const uint8_t *b, float *y)
{
    float d = f16_at(b + 208);
    for (size_t row = 0; row < 8; row++, y += 32) {
        size_t h = row / 4, k = row % 4;
        const uint8_t *low = b + 64 * h + 32 * (k & 1), *high = b + 128 + 32 * h;
        const uint8_t *sc = b + 192 + 2 * row;
        unsigned shift = k < 2 ? 0 : 4;
        const float scale[2] = {d * (float)(int8_t)sc[0], d * (float)(int8_t)sc[1]};
        for (size_t l = 0; l < 32; l++) {
            int q = (low[l] >> shift & 15) | (high[l] >> 2 * k & 3) << 4;
            y[l] = scale[l / 16] * (float)(q - 32);
        }
    }
}
ROW_DECODER(Q6_K, get_Q6_K(b, y))

/* 16 bytes with a 4-bit scale and a 4-bit minimum each, 64 of 2-bit values, f16 d, f16 dmin. */
static void get_Q2_K(const uint8_t *b, float *y)
{
    float d = f16_at(b + 80), dmin = f16_at(b + 82);
    for (size_t j = 0; j < 16; j++, y += 16) {
        size_t h = j / 8, k = j / 2 % 4;
        const uint8_t *q = b + 16 + 32 * h + 16 * (j % 2);
        float scale = d * (float)(b[j] & 15), min = dmin * (float)(b[j] >> 4);
        for (size_t l = 0; l < 16; l++)
            y[l] = scale * (float)(q[l] >> 2 * k & 3) - min;
    }
}
ROW_DECODER(Q2_K, get_Q2_K(b, y))

/* 32 bytes of third bits, 64 of 2-bit values, 12 of 6-bit scales, f16 d. A third bit of 0
 * subtracts 4. */
static void get_Q3_K(const uint8_t *b, float *y)
{
    float d = f16_at(b + 108);
    const uint8_t *packed = b + 96;
    for (size_t j = 0; j < 16; j++, y += 16) {
        size_t h = j / 8, k = j / 2 % 4;
        const uint8_t *q = b + 32 + 32 * h + 16 * (j % 2), *third = b + 16 * (j % 2);
        int low = j < 8 ? packed[j] & 15 : packed[j - 8] >> 4;
        int high = packed[8 + j % 4] >> 2 * (j / 4) & 3;
        float scale = d * (float)((low | high << 4) - 32);
        for (size_t l = 0; l < 16; l++) {
            int unset = ~(third[l] >> (4 * h + k)) & 1;
            y[l] = scale * (float)((q[l] >> 2 * k & 3) - 4 * unset);
        }
    }
}
ROW_DECODER(Q3_K, get_Q3_K(b, y))

/* f16 d, 8 times the two high bits of a scale, 8 times the four low bits, 128 bytes of nibbles. */
static void get_IQ4_XS(const uint8_t *b, float *y)
{
    float d = f16_at(b);
    unsigned high = u16_at(b + 2);
    const uint8_t *q = b + 8;
    for (size_t s = 0; s < 8; s++, y += 32, q += 16) {
        int scale = (b[4 + s / 2] >> 4 * (s % 2) & 15) | (int)(high >> 2 * s & 3) << 4;
        float each = d * (float)(scale - 32);
        for (size_t l = 0; l < 16; l++) {
            y[l] = each * (float)iq4_values[q[l] & 15];
            y[l + 16] = each * (float)iq4_values[q[l] >> 4];
        }
    }
}
ROW_DECODER(IQ4_XS, get_IQ4_XS(b, y))

/* 64 bytes of 2-bit values, those of a byte 32 apart; f16 d. A value v means (v - 1) d. */
static void get_TQ2_0(const uint8_t *b, float *y)
{
    float d = f16_at(b + 64);
    for (size_t i = 0; i < QK_K; i++)
        y[i] = d * (float)((b[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3) - 1);
}
ROW_DECODER(TQ2_0, get_TQ2_0(b, y))

static void get_TQ1_0(const uint8_t *b, float *y)
{
    float d = f16_at(b + 52);
    for (size_t i = 0; i < QK_K; i++)
        y[i] = d * (float)(tq1_value(b, i) - 1);
}
ROW_DECODER(TQ1_0, get_TQ1_0(b, y))
