/* Tests: tensors of quantised types, made by drawing the bytes of their blocks.
 *
 * Nothing is searched: a block's scales and quants are random, and the values are what the published
 * decoding rules make of them, written here a second time (src/dtype_*.c is the first). float32
 * throughout, every product rounded in the order of the rule.
 */
#include "build_model.h"

#include <string.h>

static uint8_t below(uint64_t *rng, unsigned n)
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
    float d = put_half(block, exponent(scale / 73), below(rng, 256) * 4u);
    for (int i = 0; i < 32; i++) {
        int q = (int)below(rng, 255) - 127;
        block[2 + i] = (uint8_t)q;
        y[i] = (float)q * d;
    }
}

/* f16 d and dmin, eight pairs of 6-bit scales and minima in 12 bytes, 128 bytes of nibbles:
 * y = (d sc) n - dmin mn. With mn near sc and dmin = 8 d that is d sc (n - 8), of size 4.6 d sc. */
static void fill_q4_k(uint8_t *block, float *y, double scale, uint64_t *rng)
{
    unsigned mantissa = below(rng, 256) * 2u, sc[8], mn[8];
    int e = exponent(scale / (4.6 * 40));
    float d = put_half(block, e, mantissa), dmin = put_half(block + 2, e + 3, mantissa + 9);
    uint8_t *packed = memset(block + 4, 0, 12), *nibbles = memset(block + 16, 0, 128);
    for (int s = 0; s < 8; s++) {
        sc[s] = 20 + below(rng, 44);
        mn[s] = sc[s] - below(rng, 3);
    }
    for (int s = 0; s < 4; s++) {
        packed[s] = (uint8_t)(sc[s] | sc[s + 4] >> 4 << 6);
        packed[s + 4] = (uint8_t)(mn[s] | mn[s + 4] >> 4 << 6);
        packed[s + 8] = (uint8_t)((sc[s + 4] & 15) | (mn[s + 4] & 15) << 4);
    }
    for (int i = 0; i < 256; i++) {
        unsigned n = below(rng, 16), s = (unsigned)i / 32;
        nibbles[32 * (i / 64) + i % 32] |= (uint8_t)(s % 2 ? n << 4 : n);
        float step = d * (float)sc[s], low = dmin * (float)mn[s];
        y[i] = step * (float)n - low;
    }
}

void toy_quantise(struct toy_tensor *t, double mean, double scale, uint64_t *rng)
{
    (void)mean; /* matrices have none */
    t->blocks = toy_alloc((size_t)toy_bytes(t->type, t->n), 1);
    for (size_t i = 0; t->type == TOY_Q8_0 && i < t->n; i += 32)
        fill_q8_0(t->blocks + i / 32 * 34, t->values + i, scale, rng);
    for (size_t i = 0; t->type == TOY_Q4_K && i < t->n; i += 256)
        fill_q4_k(t->blocks + i / 256 * 144, t->values + i, scale, rng);
}
