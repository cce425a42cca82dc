/* The inputs of the conformance vectors (README.md). Case i uses a SplitMix64 generator with the
 * state i + 1. A program of another engine needs this file's functions, or their like.
 */
#ifndef MGPT_SPEC_CASES_H
#define MGPT_SPEC_CASES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* name, and of weights: GGUF's number of the type, columns and bytes of a block, where its halves are and how many */
#define SPEC_OPS(X)                                                                                \
    X(matmul_F32, 0, 1, 4, 0, 0)                                                                   \
    X(matmul_F16, 1, 1, 2, 0, 1)                                                                   \
    X(matmul_BF16, 30, 1, 2, 0, 0)                                                                 \
    X(matmul_Q8_0, 8, 32, 34, 0, 1)                                                                \
    X(matmul_Q4_0, 2, 32, 18, 0, 1)                                                                \
    X(matmul_Q4_1, 3, 32, 20, 0, 2)                                                                \
    X(matmul_Q5_0, 6, 32, 22, 0, 1)                                                                \
    X(matmul_Q5_1, 7, 32, 24, 0, 2)                                                                \
    X(matmul_Q4_K, 12, 256, 144, 0, 2)                                                             \
    X(matmul_Q5_K, 13, 256, 176, 0, 2)                                                             \
    X(matmul_Q6_K, 14, 256, 210, 208, 1)                                                           \
    X(matmul_Q2_K, 10, 256, 84, 80, 2)                                                             \
    X(matmul_Q3_K, 11, 256, 110, 108, 1)                                                           \
    X(matmul_IQ4_NL, 20, 32, 18, 0, 1)                                                             \
    X(matmul_IQ4_XS, 23, 256, 136, 0, 1)                                                           \
    X(matmul_MXFP4, 39, 32, 17, 0, 0)                                                              \
    X(matmul_TQ1_0, 34, 256, 54, 52, 1)                                                            \
    X(matmul_TQ2_0, 35, 256, 66, 64, 1)                                                            \
    X(rmsnorm, 0, 0, 0, 0, 0)                                                                      \
    X(layernorm, 0, 0, 0, 0, 0)                                                                    \
    X(softmax, 0, 0, 0, 0, 0)                                                                      \
    X(relu2, 0, 0, 0, 0, 0)                                                                        \
    X(silu, 0, 0, 0, 0, 0)                                                                         \
    X(gelu_tanh, 0, 0, 0, 0, 0)                                                                    \
    X(gelu_erf, 0, 0, 0, 0, 0)                                                                     \
    X(softcap, 0, 0, 0, 0, 0)                                                                      \
    X(rope_pairs, 0, 0, 0, 0, 0)                                                                   \
    X(rope_halves, 0, 0, 0, 0, 0)                                                                  \
    X(attend_F32, 0, 0, 0, 0, 0)                                                                   \
    X(attend_F16, 0, 0, 0, 0, 0)                                                                   \
    X(attend_Q8_0, 0, 0, 0, 0, 0)                                                                  \
    X(to_f16, 0, 0, 0, 0, 0)                                                                       \
    X(relu, 0, 0, 0, 0, 0)                                                                         \
    X(clamp, 0, 0, 0, 0, 0)                                                                        \
    X(sigmoid, 0, 0, 0, 0, 0)                                                                      \
    X(axpby, 0, 0, 0, 0, 0)                                                                        \
    X(xielu, 0, 0, 0, 0, 0)                                                                        \
    X(gelu_quick, 0, 0, 0, 0, 0)

enum { SPEC_CASES = 10000, SPEC_IN = 512, SPEC_OUT = 96, SPEC_KEYS = 40, SPEC_WIDTH = 80 };

#define SPEC_NAME(NAME, ...) SPEC_##NAME,
enum spec_op { SPEC_OPS(SPEC_NAME) SPEC_N_OPS };
#undef SPEC_NAME

#define SPEC_ROW(NAME, TYPE, COLUMNS, BYTES, AT, HALVES) {#NAME, TYPE, COLUMNS, BYTES, AT, HALVES},
static const struct {
    const char *name;
    int type;
    size_t columns, bytes, at, halves;
} spec_ops[] = {SPEC_OPS(SPEC_ROW)};
#undef SPEC_ROW

/* A case: y = op of x (n_in floats; of weights n_out rows; of attention n_out keys of n_in). */
struct spec_case {
    enum spec_op op;
    size_t n_in, n_out;
    float x[SPEC_IN], a[SPEC_IN], b[SPEC_IN]; /* the row; gain and bias, or cos and sin */
    float k[SPEC_KEYS][SPEC_WIDTH], v[SPEC_KEYS][SPEC_WIDTH];
    uint8_t w[SPEC_IN * SPEC_OUT * 4]; /* rows of blocks, as in a file */
};

static inline uint64_t spec_next(uint64_t *state)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = (*state ^ (*state >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline size_t spec_below(uint64_t *state, size_t n)
{
    return (size_t)(spec_next(state) >> 40) % n;
}

/* n numbers of [-size, size); in every fourth case some are zero, tiny or large. */
static inline void spec_fill(uint64_t *state, float *x, size_t n, float size)
{
    static const float odd[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-130f, 0x1p-20f, 300.0f, -90.0f, 1.0f};
    int is_odd = spec_below(state, 4) == 0;
    for (size_t i = 0; i < n; i++) {
        x[i] = ((float)(spec_next(state) >> 40) / 8388608.0f - 1.0f) * size;
        if (is_odd && spec_below(state, 5) == 0)
            x[i] = odd[spec_below(state, 8)];
    }
}

/* Random blocks whose floats are finite and below 1 in size; some are subnormal. */
static inline void spec_fill_weights(uint64_t *state, struct spec_case *c)
{
    size_t bytes = spec_ops[c->op].bytes, n = c->n_in / spec_ops[c->op].columns * c->n_out;
    for (uint8_t *block = c->w; n > 0; n--, block += bytes) {
        for (size_t i = 0; i < bytes; i++)
            block[i] = (uint8_t)(spec_next(state) >> 56);
        for (size_t i = 0; i < spec_ops[c->op].halves; i++)
            block[spec_ops[c->op].at + 2 * i + 1] &= 0xBB;
        if (c->op == SPEC_matmul_F32 || c->op == SPEC_matmul_BF16)
            block[bytes - 1] &= 0xBF;
        if (c->op == SPEC_matmul_MXFP4)
            block[0] &= 0x7F;
    }
}

static inline void spec_case(struct spec_case *c, size_t number)
{
    uint64_t state = number + 1;
    c->op = (enum spec_op)(number % SPEC_N_OPS);
    size_t columns = spec_ops[c->op].columns;
    int attends = c->op >= SPEC_attend_F32 && c->op <= SPEC_attend_Q8_0;
    c->n_in = 1 + spec_below(&state, attends ? SPEC_WIDTH : SPEC_IN);
    if (columns > 1)
        c->n_in = columns * (1 + spec_below(&state, SPEC_IN / columns));
    c->n_out = 1 + spec_below(&state, attends ? SPEC_KEYS : SPEC_OUT);
    spec_fill(&state, c->x, c->n_in, c->op == SPEC_softcap ? 60 : 8);
    spec_fill(&state, c->a, c->n_in, 1);
    spec_fill(&state, c->b, c->n_in, 1);
    for (size_t t = 0; attends && t < c->n_out; t++) {
        spec_fill(&state, c->k[t], c->n_in, 2);
        spec_fill(&state, c->v[t], c->n_in, 2);
    }
    if (columns > 0)
        spec_fill_weights(&state, c);
}

#endif
