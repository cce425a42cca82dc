/* Quantised weights and activations of the specification (README.md), for pass.c and vectors.c. */
#pragma once

#include "arithmetic.h"

/* Types of weights by their numbers in GGUF. */
enum {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    IQ4_NL = 20,
    IQ4_XS = 23,
    BF16 = 30,
    TQ1_0 = 34,
    TQ2_0 = 35,
    MXFP4 = 39,
    N_TYPES
};

/* Columns and bytes of a block. */
static const struct {
    size_t columns, bytes;
} blocks[N_TYPES] = {
    [F32] = {1, 4},      [F16] = {1, 2},      [BF16] = {1, 2},       [Q8_0] = {32, 34},
    [Q4_0] = {32, 18},   [Q4_1] = {32, 20},   [Q5_0] = {32, 22},     [Q5_1] = {32, 24},
    [Q4_K] = {256, 144}, [Q5_K] = {256, 176}, [Q6_K] = {256, 210},   [Q2_K] = {256, 84},
    [Q3_K] = {256, 110}, [IQ4_NL] = {32, 18}, [IQ4_XS] = {256, 136}, [MXFP4] = {32, 17},
    [TQ1_0] = {256, 54}, [TQ2_0] = {256, 66},
};

static int is_float(int type)
{
    return type == F32 || type == F16 || type == BF16;
}

/* Scales that 32 weights have. */
static int scales_of(int type)
{
    return type == Q6_K || type == Q2_K || type == Q3_K ? 2 : 1;
}

static int has_min(int type)
{
    return type == Q4_1 || type == Q5_1 || type == Q4_K || type == Q5_K || type == Q2_K;
}

enum { BLOCK = 32 };

/* 32 weights of a row: w = scale * q + min, of the first 16 and the last 16 where scales_of is 2. */
struct block {
    int q[BLOCK];
    float scale[2], min[2];
};

/* Q8_0, Q4_0, Q4_1, Q5_0, Q5_1: d, m, high bits, low bits. */
static struct block simple_block(int type, const uint8_t *p)
{
    int five = type == Q5_0 || type == Q5_1;
    int min = has_min(type);
    int offset = min ? 0 : five ? 16 : 8;
    const uint8_t *high = p + 2 + 2 * min, *low = high + 4 * five;
    struct block b = {.scale = {half(p), half(p)}, .min = {min ? half(p + 2) : 0}};
    for (int i = 0; i < BLOCK; i++) {
        int v = low[i % 16] >> (i < 16 ? 0 : 4) & 15;
        v |= five ? (high[i / 8] >> i % 8 & 1) << 4 : 0;
        b.q[i] = type == Q8_0 ? (int8_t)p[2 + i] : v - offset;
    }
    return b;
}

/* Block s of 8 of Q4_K and Q5_K: d, dmin, 6-bit scales and minima in 12 bytes, high bits, low bits. */
static struct block k_block(int type, const uint8_t *p, int s)
{
    int five = type == Q5_K;
    const uint8_t *six = p + 4, *high = p + 16, *low = high + 32 * five;
    int scale = s < 4 ? six[s] & 63 : (six[s + 4] & 15) | six[s - 4] >> 6 << 4;
    int min = s < 4 ? six[s + 4] & 63 : six[s + 4] >> 4 | six[s] >> 6 << 4;
    struct block b = {.min = {-half(p + 2) * (float)min}};
    b.scale[0] = b.scale[1] = half(p) * (float)scale;
    for (int i = 0; i < BLOCK; i++) {
        b.q[i] = low[s / 2 * 32 + i] >> (s % 2 * 4) & 15;
        b.q[i] |= five ? (high[i] >> s & 1) << 4 : 0;
    }
    return b;
}

/* Block s of 8 of Q6_K: 128 bytes of low bits, 64 of high bits, 16 signed scales, d. */
static struct block six_block(const uint8_t *p, int s)
{
    struct block b = {.min = {0}};
    for (int i = 0; i < BLOCK; i++) {
        int low = p[s / 4 * 64 + s % 2 * 32 + i] >> (s % 4 / 2 * 4) & 15;
        b.q[i] = (low | (p[128 + s / 4 * 32 + i] >> (s % 4 * 2) & 3) << 4) - 32;
    }
    for (int i = 0; i < 2; i++)
        b.scale[i] = half(p + 208) * (float)(int8_t)p[192 + s * 2 + i];
    return b;
}

/* Block s of 8 of Q2_K: 16 scales and minima of 4 bits, 2 bits of each value, d, dmin; and of Q3_K: third
 * bits, which are 1 where nothing is subtracted, 2 bits, 16 scales of 6 bits, d. */
static struct block two_block(int type, const uint8_t *p, int s)
{
    int three = type == Q3_K;
    const uint8_t *low = p + (three ? 32 : 16) + s / 4 * 32;
    struct block b = {.min = {0}};
    for (int i = 0; i < BLOCK; i++) {
        b.q[i] = low[i] >> s % 4 * 2 & 3;
        b.q[i] -= three && !(p[i] >> s & 1) ? 4 : 0;
    }
    for (int h = 0; h < 2; h++) {
        int at = 2 * s + h;
        int six = (p[96 + at % 8] >> at / 8 * 4 & 15) | (p[104 + at % 4] >> at / 4 * 2 & 3) << 4;
        b.scale[h] = three ? half(p + 108) * (float)(six - 32) : half(p + 80) * (float)(p[at] & 15);
        b.min[h] = three ? 0 : -half(p + 82) * (float)(p[at] >> 4);
    }
    return b;
}

/* IQ4_NL: d, nibbles that choose a value. IQ4_XS, block s of 8: d, two high bits of each scale, four low
 * bits, nibbles. MXFP4: e for 2^(e - 128), nibbles that choose a value. */
static struct block chosen_block(int type, const uint8_t *p, int s)
{
    static const int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};
    static const int fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    int is_fp4 = type == MXFP4, is_k = type == IQ4_XS;
    const uint8_t *low = p + (is_fp4 ? 1 : is_k ? 8 + 16 * s : 2);
    int six = (p[4 + s / 2] >> s % 2 * 4 & 15) | (p[2 + s / 4] >> s % 4 * 2 & 3) << 4;
    struct block b = {.scale = {is_fp4 ? ldexpf(1, p[0] - 128) : half(p)}};
    b.scale[0] *= is_k ? (float)(six - 32) : 1;
    for (int i = 0; i < BLOCK; i++)
        b.q[i] = (is_fp4 ? fp4 : iq4)[low[i % 16] >> (i < 16 ? 0 : 4) & 15];
    return b;
}

/* Block s of 8 of TQ2_0: 2 bits of each value, d; and of TQ1_0: bytes that are fractions of 256, whose
 * digits in base 3 are values: 5 of 32 bytes, 5 of 16, 4 of 4; d. */
static struct block ternary_block(int type, const uint8_t *p, int s)
{
    struct block b = {.scale = {half(p + (type == TQ1_0 ? 52 : 64))}};
    for (int i = 0; i < BLOCK; i++) {
        int at = s * BLOCK + i, digit = at < 160   ? at / 32
                                        : at < 240 ? (at - 160) / 16
                                                   : at / 4 - 60;
        unsigned byte = p[at < 160 ? at % 32 : at < 240 ? 32 + at % 16 : 48 + at % 4];
        for (int d = 0; d < digit; d++)
            byte = byte * 3 % 256;
        b.q[i] = (int)(type == TQ1_0 ? byte * 3 / 256 : p[s / 4 * 32 + i] >> s % 4 * 2 & 3u) - 1;
    }
    return b;
}

struct quantised {
    int q[BLOCK];
    float scale;
};

/* The block of x that begins at i; what lies past n is zero. */
static struct quantised quantise(const float *x, size_t i, size_t n)
{
    struct quantised b = {.scale = 0};
    float most = 0;
    for (size_t j = 0; j < BLOCK && i + j < n; j++)
        most = fabsf(x[i + j]) > most ? fabsf(x[i + j]) : most;
    if (most < 0x1p-120f)
        return b;
    for (size_t j = 0; j < BLOCK; j++) {
        b.q[j] = i + j < n ? (int)((x[i + j] * (127.0f / most) + 0x1.8p23f) - 0x1.8p23f) : 0;
    }
    b.scale = most / 127.0f;
    return b;
}

static struct block get_block(int type, const uint8_t *p, int s)
{
    switch (type) {
    case Q4_K:
    case Q5_K:
        return k_block(type, p, s);
    case Q6_K:
        return six_block(p, s);
    case Q2_K:
    case Q3_K:
        return two_block(type, p, s);
    case IQ4_NL:
    case IQ4_XS:
    case MXFP4:
        return chosen_block(type, p, s);
    case TQ1_0:
    case TQ2_0:
        return ternary_block(type, p, s);
    default:
        return simple_block(type, p);
    }
}

/* The block of row `w` that column i is in. */
static struct block block_of(int type, const uint8_t *w, size_t i)
{
    return get_block(type, w + i / blocks[type].columns * blocks[type].bytes,
                     (int)(i % 256 / BLOCK));
}

/* A weight of row `w` as a float. */
static float weight_at(int type, const uint8_t *w, size_t i)
{
    if (type == F32)
        return from_bits((uint32_t)number(w + 4 * i, 4));
    if (type == F16)
        return half(w + 2 * i);
    if (type == BF16)
        return from_bits((uint32_t)number(w + 2 * i, 2) << 16);
    struct block b = block_of(type, w, i);
    size_t s = i % BLOCK * (size_t)scales_of(type) / BLOCK;
    float value = b.scale[s] * (float)b.q[i % BLOCK];
    return has_min(type) ? value + b.min[s] : value;
}

static float integer_product(int type, const uint8_t *w, const float *x, size_t n)
{
    int halves = scales_of(type);
    float y = 0;
    for (size_t i = 0; i < n; i += BLOCK) {
        struct quantised xs = quantise(x, i, n);
        struct block ws = block_of(type, w, i);
        for (int h = 0; h < halves; h++) {
            int sum = 0, x_sum = 0;
            for (int j = BLOCK / halves * h; j < BLOCK / halves * (h + 1); j++) {
                sum += ws.q[j] * xs.q[j];
                x_sum += xs.q[j];
            }
            y = fmaf(ws.scale[h] * xs.scale, (float)sum, y);
            if (has_min(type))
                y = fmaf(ws.min[h], xs.scale * (float)x_sum, y);
        }
    }
    return y;
}

/* Row `w` of n weights times x. n_rows: of the matrix. */
static float product(int type, const uint8_t *w, const float *x, size_t n, size_t n_rows)
{
    size_t n_chains = n_rows > NARROW ? 1 : 4;
    float c[4] = {0};
    if (!is_float(type))
        return integer_product(type, w, x, n);
    for (size_t k = 0; k < n; k++)
        c[k % n_chains] = fmaf(weight_at(type, w, k), x[k], c[k % n_chains]);
    return n_chains == 1 ? c[0] : (c[0] + c[1]) + (c[2] + c[3]);
}
