/* Quantised matrices of Hugging Face directories: GPTQ, AWQ (gemm) and MLX (affine).
 *
 * hf_quant.c finds the tensors that make a matrix and checks them; hf_packed.c computes its values.
 * With q the stored number, s the scale and z the zero or b the bias of its group, a weight is
 *     GPTQ, AWQ: s (q - z)     MLX: s q + b
 * as real numbers, rounded to float32: never rounded to half precision in between. With half-precision
 * scales a product is exact in float32.
 */
#ifndef MGPT_CONVERT_HF_QUANT_H
#define MGPT_CONVERT_HF_QUANT_H

#include "convert/core/state.h"

enum hf_scheme { HF_GPTQ, HF_AWQ, HF_MLX };

/* Numbers of `bits` bits follow each other in little-endian 32-bit words, the first in the lowest bits:
 *     GPTQ   q: down a column of [n_in * bits / 32, n_out]; z - plus: along [n_groups, n_out * bits / 32]
 *     AWQ    q and z along [.., n_out / 8]; the nibbles of a word are columns 0 2 4 6 1 3 5 7
 *     MLX    q along [n_out, n_in * bits / 32]
 * Scales are [n_groups, n_out], those and the biases of MLX [n_out, n_groups]. */
struct hf_packed {
    struct state_packed base; /* the first member: base.values gets its address */
    enum hf_scheme scheme;
    unsigned bits; /* 2 to 8 */
    uint64_t n_in, n_out, n_groups, group;
    const uint8_t *q, *zeros, *scales; /* zeros: the biases of MLX */
    const uint8_t *g_idx;       /* int32 [n_in] below n_groups; NULL: column i has i / group */
    enum state_type scale_type; /* the type of the scales, and of the biases of MLX */
    unsigned plus;
};

enum { HF_MAX_BASE = 255, HF_MAX_SIDE = 1 << 24 /* rows, columns */ };

/* Whether there are two dimensions of 1 to HF_MAX_SIDE. Stops where they are not in order or have gaps. */
int hf_is_matrix(struct checkpoint *c, const struct state_tensor *t);

/* The part that has the group of each column, int32 [n_in] below n_groups; NULL: it is absent or empty. */
const uint8_t *hf_column_groups(struct state *s, const char *base, const char *part, uint64_t n_in,
                                uint64_t n_groups);

/* Puts a matrix under BASE.weight in the place of t, the tensor of its codes, whose bytes it keeps. */
void hf_put_packed(struct checkpoint *c, struct state_tensor *t, const char *base, uint64_t n_out,
                   uint64_t n_in, const struct state_packed *packed);

/* Whether a name ends so; *base is what is before it. */
int hf_ends_with(const char *name, const char *end, char base[HF_MAX_BASE + 1]);

/* Word i. */
static inline uint32_t hf_packed_word(const uint8_t *p, uint64_t i)
{
    p += 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Sets base: the type that holds every value exactly, of these the one with the fewest bits (Q4_0, Q5_0,
 * Q8_0, Q4_1, Q5_1), or F32. */
void hf_packed_seal(struct hf_packed *m);

#endif
