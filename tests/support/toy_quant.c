/* Tests: tensors of quantised types, made by drawing the bytes of their blocks.
 *
 * Nothing is searched: a block's scales and quants are random, and the values are what the
 * published decoding rules make of them, written here a second time (src/dtype_*.c is the first).
 * float32 throughout, every product rounded in the order of the rule.
 */
#include "support/build_model.h"

#include <math.h>
#include <string.h>

static uint8_t random_below(uint64_t *rng, unsigned n)
{
    return (uint8_t)(toy_random(rng) % n);
}

/* A half 2^e (1 + mantissa / 1024), and its value. */
static float put_half(uint8_t *to, int e, unsigned mantissa)
{
    unsigned bits = (unsigned)(e + 15) << 10 | mantissa;
    to[0] = (uint8_t)bits;
    to[1] = (uint8_t)(bits >> 8);
    float v = 1 + (float)mantissa / 1024;
    for (; e < 0; e++)
        v /= 2;
    return v;
}

/* The power of two at or below v < 1. */
static int exponent(double v)
{
    int e = 0;
    while (v < 1 && e > -14) {
        v *= 2;
        e--;
    }
    return e;
}

/* f16 d, int8 q[32]: y = q d. Uniform in [-127, 127]: of size 73 d. */
static void fill_q8_0(uint8_t *block, float *y, double scale, uint64_t *rng)
{
    float d = put_half(block, exponent(scale / 73), random_below(rng, 256) * 4u);
    for (int i = 0; i < 32; i++) {
        int q = (int)random_below(rng, 255) - 127;
        block[2 + i] = (uint8_t)q;
        y[i] = (float)q * d;
    }
}

/* 32 numbers n below 2^bits, 4 or 5: the low four bits of numbers i and i + 16 share byte i of
 * `nibbles`, the fifth of number i is bit i of the little-endian word `high`. */
static void put_numbers(uint8_t *nibbles, uint8_t *high, int bits, unsigned *n, uint64_t *rng)
{
    for (int i = 0; i < 32; i++) {
        n[i] = random_below(rng, 1u << bits);
        unsigned low = n[i] & 15;
        if (i < 16)
            nibbles[i] = (uint8_t)low;
        else
            nibbles[i - 16] |= (uint8_t)(low << 4);
        if (bits == 5)
            high[i / 8] |= (uint8_t)(n[i] >> 4 << i % 8);
    }
}

/* Q4_0: f16 d, nibbles: y = (n - 8) d. Q5_0: f16 d, high bits, nibbles: y = (n - 16) d. */
static void fill_centred(uint8_t *block, float *y, int bits, double scale, uint64_t *rng)
{
    unsigned n[32], high = bits == 5 ? 4 : 0;
    int middle = 1 << (bits - 1);
    float d = put_half(block, exponent(scale / (0.58 * middle)), random_below(rng, 256) * 4u);
    memset(block + 2, 0, high + 16);
    put_numbers(block + 2 + high, block + 2, bits, n, rng);
    for (int i = 0; i < 32; i++)
        y[i] = (float)((int)n[i] - middle) * d;
}

static void fill_q4_0(uint8_t *block, float *y, double scale, uint64_t *rng)
{
    fill_centred(block, y, 4, scale, rng);
}

static void fill_q5_0(uint8_t *block, float *y, double scale, uint64_t *rng)
{
    fill_centred(block, y, 5, scale, rng);
}

/* Q4_1, Q5_1: f16 d, f16 m, high bits, nibbles: y = n d + m. m is about -d times the middle. */
static void fill_with_minimum(uint8_t *block, float *y, int bits, double scale, uint64_t *rng)
{
    unsigned n[32], high = bits == 5 ? 4 : 0, mantissa = random_below(rng, 128) * 4u;
    int middle = 1 << (bits - 1), e = exponent(scale / (0.58 * middle));
    float d = put_half(block, e, mantissa), m = -put_half(block + 2, e + bits - 1, mantissa + 9);
    block[3] |= 0x80; /* the sign */
    memset(block + 4, 0, high + 16);
    put_numbers(block + 4 + high, block + 4, bits, n, rng);
    for (int i = 0; i < 32; i++)
        y[i] = (float)n[i] * d + m;
}

static void fill_q4_1(uint8_t *block, float *y, double scale, uint64_t *rng)
{
    fill_with_minimum(block, y, 4, scale, rng);
}

static void fill_q5_1(uint8_t *block, float *y, double scale, uint64_t *rng)
{
    fill_with_minimum(block, y, 5, scale, rng);
}

/* Q4_K: f16 d and dmin, eight pairs of 6-bit scales and minima in 12 bytes, 128 bytes of nibbles:
 * y = (d sc) n - dmin mn. Q5_K: 32 bytes of fifth bits before the nibbles; bit s of byte i % 32 is
 * that of number i in sub-block s. With mn near sc and dmin = d 2^(bits - 1) that is about
 * d sc (n - 2^(bits - 1)). */
static void fill_k(uint8_t *block, float *y, int bits, double scale, uint64_t *rng)
{
    unsigned mantissa = random_below(rng, 256) * 2u, sc[8], mn[8], n_high = bits == 5 ? 32 : 0;
    int e = exponent(scale / (0.58 * (1 << (bits - 1)) * 40));
    float d = put_half(block, e, mantissa);
    float dmin = put_half(block + 2, e + bits - 1, mantissa + 9);
    uint8_t *packed = block + 4, *high = block + 16, *nibbles = high + n_high;
    memset(packed, 0, 12 + n_high + 128);
    for (int s = 0; s < 8; s++) {
        sc[s] = 20 + random_below(rng, 44);
        mn[s] = sc[s] - random_below(rng, 3);
    }
    for (int s = 0; s < 4; s++) {
        packed[s] = (uint8_t)(sc[s] | sc[s + 4] >> 4 << 6);
        packed[s + 4] = (uint8_t)(mn[s] | mn[s + 4] >> 4 << 6);
        packed[s + 8] = (uint8_t)((sc[s + 4] & 15) | (mn[s + 4] & 15) << 4);
    }
    for (int i = 0; i < 256; i++) {
        unsigned n = random_below(rng, 1u << bits), s = (unsigned)i / 32, low = n & 15;
        nibbles[32 * (i / 64) + i % 32] |= (uint8_t)(s % 2 ? low << 4 : low);
        if (bits == 5)
            high[i % 32] |= (uint8_t)(n >> 4 << s);
        float step = d * (float)sc[s], lowest = dmin * (float)mn[s];
        y[i] = step * (float)n - lowest;
    }
}

static void fill_q4_k(uint8_t *block, float *y, double scale, uint64_t *rng)
{
    fill_k(block, y, 4, scale, rng);
}

static void fill_q5_k(uint8_t *block, float *y, double scale, uint64_t *rng)
{
    fill_k(block, y, 5, scale, rng);
}

/* 128 bytes of nibbles, 64 of pairs of bits, int8 scales of 16 values each, f16 d: y = d sc (n -
 * 32). Number i of a half (128) has its nibble in byte i % 64, low for i < 64, and its two high
 * bits in byte i % 32 from bit 2 (i / 32) on. */
static void fill_q6_k(uint8_t *block, float *y, double scale, uint64_t *rng)
{
    memset(block, 0, 192);
    float d = put_half(block + 208, exponent(scale / (18.5 * 90)), random_below(rng, 256) * 4u);
    for (int s = 0; s < 16; s++) {
        int sign = random_below(rng, 2) ? 1 : -1;
        block[192 + s] = (uint8_t)(sign * (60 + (int)random_below(rng, 68)));
    }
    for (int i = 0; i < 256; i++) {
        unsigned n = random_below(rng, 64), low = n & 15, at = (unsigned)i % 128;
        block[64 * (i / 128) + i % 64] |= (uint8_t)(at < 64 ? low : low << 4);
        block[128 + 32 * (i / 128) + i % 32] |= (uint8_t)(n >> 4 << 2 * (at / 32));
        int sc = (int8_t)block[192 + i / 16];
        y[i] = d * (float)sc * (float)((int)n - 32);
    }
}

/* 16 bytes with a 4-bit scale and, above it, a minimum for 16 values each; 64 bytes of pairs of
 * bits; f16 d and dmin: y = d sc n - dmin mn. Number i has its bits in byte 32 (i / 128) + i % 32,
 * from bit 2 (i % 128 / 32) on. */
static void fill_q2_k(uint8_t *block, float *y, double scale, uint64_t *rng)
{
    unsigned mantissa = random_below(rng, 256) * 2u;
    int e = exponent(scale / (1.1 * 11.5));
    float d = put_half(block + 80, e, mantissa), dmin = put_half(block + 82, e + 1, mantissa + 9);
    memset(block, 0, 80);
    for (int i = 0; i < 256; i++) {
        unsigned n = random_below(rng, 4), sc = 8 + random_below(rng, 8);
        if (i % 16 == 0)
            block[i / 16] = (uint8_t)(sc | sc * 3 / 4 << 4);
        block[16 + 32 * (i / 128) + i % 32] |= (uint8_t)(n << 2 * (i % 128 / 32));
        float step = d * (float)(block[i / 16] & 15), lowest = dmin * (float)(block[i / 16] >> 4);
        y[i] = step * (float)n - lowest;
    }
}

/* f16 d; 6-bit scales of 32 values: pairs of high bits, then nibbles; 128 nibbles: y = d (sc - 32)
 * times the number that a nibble selects. Nibbles i and i + 16 of 32 share a byte. */
static void fill_iq4_xs(uint8_t *block, float *y, double scale, uint64_t *rng)
{
    static const float of[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};
    float d = put_half(block, exponent(scale / (70 * 24.0)), random_below(rng, 256) * 4u), step = 0;
    memset(block + 2, 0, 134);
    for (int i = 0; i < 256; i++) {
        unsigned n = random_below(rng, 16), s = (unsigned)i / 32;
        if (i % 32 == 0) {
            unsigned sc =
                random_below(rng, 2) ? random_below(rng, 16) : 48u + random_below(rng, 16);
            block[2 + s / 4] |= (uint8_t)(sc >> 4 << 2 * (s % 4));
            block[4 + s / 2] |= (uint8_t)((sc & 15) << 4 * (s % 2));
            step = d * (float)((int)sc - 32);
        }
        block[8 + 16 * s + (unsigned)i % 16] |= (uint8_t)(i % 32 < 16 ? n : n << 4);
        y[i] = step * of[n];
    }
}

/* A byte e, then nibbles: 2^(e - 127) times a sign and a number of 2 bits exponent, 1 bit fraction.
 * Nibbles i and i + 16 share a byte. */
static void fill_mxfp4(uint8_t *block, float *y, double scale, uint64_t *rng)
{
    static const float of[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    int e = exponent(scale / 3);
    memset(block, 0, 17);
    block[0] = (uint8_t)(127 + e);
    for (unsigned i = 0; i < 32; i++) {
        unsigned n = random_below(rng, 16);
        block[1 + i % 16] |= (uint8_t)(n << 4 * (i / 16));
        y[i] = ldexpf(n > 8 ? -of[n & 7] : of[n & 7], e); /* 8 is 0, not -0 */
    }
}

/* Four scales of 16 values, unsigned 8-bit floats: 2^(e - 7) (1 + f / 8); then 8 bytes of nibbles
 * for each: a sign and a number of 2 bits exponent, 1 bit fraction. Nibbles i and i + 8 share a
 * byte. */
static void fill_nvfp4(uint8_t *block, float *y, double scale, uint64_t *rng)
{
    static const float of[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    memset(block, 0, 36);
    for (unsigned i = 0; i < 64; i++) {
        unsigned n = random_below(rng, 16);
        if (i % 16 == 0)
            block[i / 16] =
                (uint8_t)((unsigned)(exponent(scale / 3) + 7) << 3 | random_below(rng, 8));
        int e = (block[i / 16] >> 3) - 7;
        float step = 1 + (float)(block[i / 16] & 7) / 8;
        for (; e < 0; e++)
            step /= 2;
        block[4 + i / 16 * 8 + i % 8] |= (uint8_t)(n << 4 * (i / 8 % 2));
        y[i] = step * (n > 8 ? -of[n & 7] : of[n & 7]); /* 8 is 0, not -0 */
    }
}

static const struct toy_quantizer {
    enum toy_type type;
    struct toy_block block;
    void (*fill)(uint8_t *block, float *y, double scale, uint64_t *rng);
} quants[] = {
    {TOY_Q8_0, {32, 34}, fill_q8_0},   {TOY_Q4_0, {32, 18}, fill_q4_0},
    {TOY_Q4_1, {32, 20}, fill_q4_1},   {TOY_Q5_0, {32, 22}, fill_q5_0},
    {TOY_Q5_1, {32, 24}, fill_q5_1},   {TOY_Q4_K, {256, 144}, fill_q4_k},
    {TOY_Q5_K, {256, 176}, fill_q5_k}, {TOY_Q6_K, {256, 210}, fill_q6_k},
    {TOY_Q2_K, {256, 84}, fill_q2_k},  {TOY_IQ4_XS, {256, 136}, fill_iq4_xs},
    {TOY_NVFP4, {64, 36}, fill_nvfp4}, {TOY_MXFP4, {32, 17}, fill_mxfp4},
};

enum { N_QUANTS = sizeof quants / sizeof *quants };

static const struct toy_quantizer *quant_of(enum toy_type type)
{
    for (size_t i = 0; i < N_QUANTS; i++)
        if (quants[i].type == type)
            return &quants[i];
    return NULL;
}

struct toy_block toy_block(enum toy_type type)
{
    const struct toy_quantizer *q = quant_of(type);
    return q ? q->block : (struct toy_block){1, type == TOY_F32 ? 4 : 2};
}

void toy_quantise(struct toy_tensor *t, double mean, double scale, uint64_t *rng)
{
    (void)mean; /* matrices have none */
    const struct toy_quantizer *q = quant_of(t->type);
    t->blocks = toy_alloc((size_t)toy_bytes(t->type, t->n), 1);
    for (size_t i = 0; i < t->n; i += q->block.n_values)
        q->fill(t->blocks + i / q->block.n_values * q->block.n_bytes, t->values + i, scale, rng);
}
