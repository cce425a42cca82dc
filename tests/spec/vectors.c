/* Conformance vectors: 10,000 cases of the operations of a pass (cases.h), computed from the
 * specification (README.md) without code of the library.
 *
 *     vectors      a line per case: its number, operation, sizes, and a hash of the result's bits
 *     vectors N    all numbers of case N as bits: inputs, then results
 *
 * Build it without contraction: cc -O1 -ffp-contract=off vectors.c -lm
 */
#include "arithmetic.h"
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 32 };

/* ---- quantised weights and activations ---- */

/* 32 weights of a row: w = scale[i / 16] * q[i] + min[i / 16]. */
struct block {
    int q[BLOCK];
    float scale[2], min[2];
};

/* Q8_0, Q4_0, Q4_1, Q5_0, Q5_1: d, m, high bits, low bits. */
static struct block simple_block(enum spec_op op, const uint8_t *p)
{
    int five = op == SPEC_matmul_Q5_0 || op == SPEC_matmul_Q5_1;
    int has_min = op == SPEC_matmul_Q4_1 || op == SPEC_matmul_Q5_1;
    int offset = has_min ? 0 : five ? 16 : 8;
    const uint8_t *high = p + 2 + 2 * has_min, *low = high + 4 * five;
    struct block b = {.scale = {half(p), half(p)}, .min = {has_min ? half(p + 2) : 0}};
    for (int i = 0; i < BLOCK; i++) {
        int v = low[i % 16] >> (i < 16 ? 0 : 4) & 15;
        v |= five ? (high[i / 8] >> i % 8 & 1) << 4 : 0;
        b.q[i] = op == SPEC_matmul_Q8_0 ? (int8_t)p[2 + i] : v - offset;
    }
    return b;
}

/* Block s of 8 of Q4_K and Q5_K: d, dmin, 6-bit scales and minima in 12 bytes, high bits, low bits. */
static struct block k_block(enum spec_op op, const uint8_t *p, int s)
{
    int five = op == SPEC_matmul_Q5_K;
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
static struct block two_block(enum spec_op op, const uint8_t *p, int s)
{
    int three = op == SPEC_matmul_Q3_K;
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
static struct block chosen_block(enum spec_op op, const uint8_t *p, int s)
{
    static const int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};
    static const int fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    int is_fp4 = op == SPEC_matmul_MXFP4, is_k = op == SPEC_matmul_IQ4_XS;
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
static struct block ternary_block(enum spec_op op, const uint8_t *p, int s)
{
    struct block b = {.scale = {half(p + (op == SPEC_matmul_TQ1_0 ? 52 : 64))}};
    for (int i = 0; i < BLOCK; i++) {
        int at = s * BLOCK + i, digit = at < 160   ? at / 32
                                        : at < 240 ? (at - 160) / 16
                                                   : at / 4 - 60;
        unsigned byte = p[at < 160 ? at % 32 : at < 240 ? 32 + at % 16 : 48 + at % 4];
        for (int d = 0; d < digit; d++)
            byte = byte * 3 % 256;
        b.q[i] =
            (int)(op == SPEC_matmul_TQ1_0 ? byte * 3 / 256 : p[s / 4 * 32 + i] >> s % 4 * 2 & 3u) -
            1;
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

static float round_to_half(float x, uint16_t *bits)
{
    uint32_t size, sign = signbit(x) ? 0x8000 : 0;
    float v = fabsf(x), unit = v < 0x1p-14f ? 0x1p-24f : ldexpf(1, ilogbf(v) - 10);
    float whole = nearbyintf(v / unit); /* ties to even */
    uint8_t bytes[2];
    size = v < 0x1p-14f ? (uint32_t)whole : (uint32_t)(ilogbf(v) + 14) * 1024 + (uint32_t)whole;
    size = v >= 65520.0f ? 0x7C00 : size;
    *bits = (uint16_t)(size | sign);
    bytes[0] = (uint8_t)*bits;
    bytes[1] = (uint8_t)(*bits >> 8);
    return half(bytes);
}

/* ---- operations: each returns the number of results in y ---- */

static struct block get_block(enum spec_op op, const uint8_t *p, int s)
{
    switch (op) {
    case SPEC_matmul_Q4_K:
    case SPEC_matmul_Q5_K:
        return k_block(op, p, s);
    case SPEC_matmul_Q6_K:
        return six_block(p, s);
    case SPEC_matmul_Q2_K:
    case SPEC_matmul_Q3_K:
        return two_block(op, p, s);
    case SPEC_matmul_IQ4_NL:
    case SPEC_matmul_IQ4_XS:
    case SPEC_matmul_MXFP4:
        return chosen_block(op, p, s);
    case SPEC_matmul_TQ1_0:
    case SPEC_matmul_TQ2_0:
        return ternary_block(op, p, s);
    default:
        return simple_block(op, p);
    }
}

static float integer_product(const struct spec_case *c, const uint8_t *row)
{
    enum spec_op op = c->op;
    int halves = op >= SPEC_matmul_Q6_K && op <= SPEC_matmul_Q3_K ? 2 : 1;
    int has_min = op == SPEC_matmul_Q4_1 || op == SPEC_matmul_Q5_1 || op == SPEC_matmul_Q4_K ||
                  op == SPEC_matmul_Q5_K || op == SPEC_matmul_Q2_K;
    float y = 0;
    for (size_t i = 0; i < c->n_in; i += BLOCK) {
        const uint8_t *p = row + i / spec_ops[op].columns * spec_ops[op].bytes;
        struct quantised x = quantise(c->x, i, c->n_in);
        struct block w = get_block(op, p, (int)(i % 256 / BLOCK));
        for (int h = 0; h < halves; h++) {
            int sum = 0, x_sum = 0;
            for (int j = BLOCK / halves * h; j < BLOCK / halves * (h + 1); j++) {
                sum += w.q[j] * x.q[j];
                x_sum += x.q[j];
            }
            y = fmaf(w.scale[h] * x.scale, (float)sum, y);
            if (has_min)
                y = fmaf(w.min[h], x.scale * (float)x_sum, y);
        }
    }
    return y;
}

static float float_product(const struct spec_case *c, const uint8_t *row)
{
    size_t n_chains = c->n_out > NARROW ? 1 : 4;
    float sums[4] = {0};
    for (size_t k = 0; k < c->n_in; k++) {
        const uint8_t *p = row + k * spec_ops[c->op].bytes;
        float w = c->op == SPEC_matmul_F16   ? half(p)
                  : c->op == SPEC_matmul_F32 ? from_bits((uint32_t)number(p, 4))
                                             : from_bits((uint32_t)number(p, 2) << 16);
        sums[k % n_chains] = fmaf(w, c->x[k], sums[k % n_chains]);
    }
    return n_chains == 1 ? sums[0] : (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static size_t run_matmul(const struct spec_case *c, float *y)
{
    size_t row = c->n_in / spec_ops[c->op].columns * spec_ops[c->op].bytes;
    for (size_t r = 0; r < c->n_out; r++)
        y[r] = c->op <= SPEC_matmul_BF16 ? float_product(c, c->w + r * row)
                                         : integer_product(c, c->w + r * row);
    return c->n_out;
}

static size_t run_norm(const struct spec_case *c, float *y)
{
    float n = (float)c->n_in;
    float mean = c->op == SPEC_layernorm ? sum_of(c->x, c->n_in, 0, 0) / n : 0;
    float inverse = 1.0f / sqrtf(sum_of(c->x, c->n_in, 1, mean) / n + 1e-5f);
    for (size_t i = 0; i < c->n_in; i++)
        y[i] = (c->x[i] - mean) * inverse * c->a[i] + c->b[i];
    return c->n_in;
}

static size_t run_rope(const struct spec_case *c, float *y)
{
    size_t n = c->n_in / 2, step = c->op == SPEC_rope_pairs ? 2 : 1;
    memcpy(y, c->x, c->n_in * sizeof *y);
    for (size_t i = 0; i < n; i++) {
        float *p = y + i * step, *q = p + (step == 2 ? 1 : n), p0 = *p, q0 = *q;
        *p = fmaf(p0, c->a[i], -(q0 * c->b[i]));
        *q = fmaf(p0, c->b[i], q0 * c->a[i]);
    }
    return c->n_in;
}

/* Rounds a key or value as the cache does, for F16; F32 keeps it. */
static float cached(const struct spec_case *c, float x)
{
    uint16_t bits;
    return c->op == SPEC_attend_F16 ? round_to_half(x, &bits) : x;
}

static float score_of(const struct spec_case *c, size_t t, float by)
{
    float s = 0;
    for (size_t j = 0; c->op != SPEC_attend_Q8_0 && j < c->n_in; j++)
        s = fmaf(cached(c, c->k[t][j]), c->x[j], s);
    for (size_t j = 0; c->op == SPEC_attend_Q8_0 && j < c->n_in; j += BLOCK) {
        struct quantised k = quantise(c->k[t], j, c->n_in), q = quantise(c->x, j, c->n_in);
        uint16_t bits;
        int sum = 0;
        for (size_t i = 0; i < BLOCK; i++)
            sum += k.q[i] * q.q[i];
        s = fmaf(round_to_half(k.scale, &bits) * (q.scale * by), (float)sum, s);
    }
    return c->op == SPEC_attend_Q8_0 ? s : s * by;
}

static void mix_value(const struct spec_case *c, size_t t, float weight, float *o)
{
    for (size_t j = 0; j < c->n_in; j++) {
        struct quantised v = quantise(c->v[t], j / BLOCK * BLOCK, c->n_in);
        uint16_t bits;
        if (c->op == SPEC_attend_Q8_0)
            o[j] = fmaf(weight * round_to_half(v.scale, &bits), (float)v.q[j % BLOCK], o[j]);
        else
            o[j] = fmaf(weight, cached(c, c->v[t][j]), o[j]);
    }
}

/* Scores of all keys, weights, the mix. */
static size_t run_attend(const struct spec_case *c, float *y)
{
    size_t n = c->n_out;
    float *weights = y + n, *o = y + 2 * n;
    for (size_t t = 0; t < n; t++)
        y[t] = weights[t] = score_of(c, t, 0.125f);
    softmax(weights, n);
    memset(o, 0, c->n_in * sizeof *o);
    for (size_t t = 0; t < n; t++)
        mix_value(c, t, weights[t], o);
    return 2 * n + c->n_in;
}

static size_t run_elements(const struct spec_case *c, float *y)
{
    for (size_t i = 0; i < c->n_in; i++) {
        uint16_t bits;
        y[i] = c->op == SPEC_softcap  ? 15.0f * tanh_f32(c->x[i] / 15.0f)
               : c->op == SPEC_to_f16 ? round_to_half(c->x[i], &bits)
                                      : activation(spec_ops[c->op].name, c->x[i]);
    }
    return c->n_in;
}

static size_t run_case(const struct spec_case *c, float *y)
{
    if (c->op <= SPEC_matmul_TQ2_0)
        return run_matmul(c, y);
    if (c->op == SPEC_rmsnorm || c->op == SPEC_layernorm)
        return run_norm(c, y);
    if (c->op == SPEC_rope_pairs || c->op == SPEC_rope_halves)
        return run_rope(c, y);
    if (c->op >= SPEC_attend_F32 && c->op <= SPEC_attend_Q8_0)
        return run_attend(c, y);
    if (c->op != SPEC_softmax)
        return run_elements(c, y);
    memcpy(y, c->x, c->n_in * sizeof *y);
    softmax(y, c->n_in);
    return c->n_in;
}

/* ---- output ---- */

static void print_bits(const char *name, const void *at, size_t n, size_t width)
{
    printf("%s", name);
    for (size_t i = 0; i < n; i++)
        printf(" %0*llx", (int)(2 * width),
               (unsigned long long)number((const uint8_t *)at + i * width, (int)width));
    printf("\n");
}

static void print_case(const struct spec_case *c, const float *y, size_t n)
{
    int attends = c->op >= SPEC_attend_F32 && c->op <= SPEC_attend_Q8_0;
    print_bits("x", c->x, c->n_in, 4);
    if (spec_ops[c->op].columns)
        print_bits("w", c->w, c->n_in / spec_ops[c->op].columns * c->n_out * spec_ops[c->op].bytes,
                   1);
    for (size_t t = 0; attends && t < c->n_out; t++) {
        print_bits("k", c->k[t], c->n_in, 4);
        print_bits("v", c->v[t], c->n_in, 4);
    }
    print_bits("a", c->a, c->n_in, 4);
    print_bits("b", c->b, c->n_in, 4);
    print_bits("y", y, n, 4);
}

int main(int argc, char **argv)
{
    static struct spec_case c;
    static float y[SPEC_IN + 2 * SPEC_KEYS];
    size_t first = argc > 1 ? (size_t)atoi(argv[1]) : 0, end = argc > 1 ? first + 1 : SPEC_CASES;
    for (size_t i = first; i < end; i++) {
        spec_case(&c, i);
        size_t n = run_case(&c, y);
        uint64_t hash = hash_floats(UINT64_C(0xCBF29CE484222325), y, n);
        printf("%zu %s %zu %zu %016llx\n", i, spec_ops[c.op].name, c.n_in, c.n_out,
               (unsigned long long)hash);
        if (argc > 1)
            print_case(&c, y, n);
    }
}
