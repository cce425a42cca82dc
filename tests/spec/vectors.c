/* Conformance vectors: 10,000 cases of the operations of a pass (cases.h), computed from the
 * specification (README.md) without code of the library.
 *
 *     vectors      a line per case: its number, operation, sizes, and a hash of the result's bits
 *     vectors N    all numbers of case N as bits: inputs, then results
 *
 * Build it without contraction: cc -O1 -ffp-contract=off vectors.c -lm
 */
#include "arithmetic.h"
#include "blocks.h"
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>

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

static size_t run_matmul(const struct spec_case *c, float *y)
{
    int type = spec_ops[c->op].type;
    size_t row = c->n_in / blocks[type].columns * blocks[type].bytes;
    for (size_t r = 0; r < c->n_out; r++)
        y[r] = product(type, c->w + r * row, c->x, c->n_in, c->n_out);
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

/* Attention of one query: scores of all keys, their softmax, the weighted sum of the values. */
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
        y[i] = c->op == SPEC_softcap   ? 15.0f * tanh_f32(c->x[i] / 15.0f)
               : c->op == SPEC_to_f16  ? round_to_half(c->x[i], &bits)
               : c->op == SPEC_sigmoid ? sigmoid(c->x[i])
               : c->op == SPEC_axpby   ? fmaf(c->b[0], c->a[i], c->a[0] * c->x[i])
               : c->op == SPEC_clamp   ? c->x[i]
                                       : activation(spec_ops[c->op].name, c->x[i], c->a);
    }
    clamp(y, c->n_in, c->op == SPEC_clamp ? 2.0f : 0);
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
