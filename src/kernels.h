/* Floor 1. The kernel table: everything that is computed per number.
 *
 * A kernel knows nothing of threads or models. kernels_tmpl.h is the specification: short loops in
 * float32 with explicit fmaf and a written order of summation. Each rung of the ladder (scalar, avx2,
 * avx512, ...) must give the same bits for the same arguments; the rungs of today are that template
 * compiled for the instruction set, since its inner loops run over independent lanes.
 *
 * Orders of summation:
 *   linear   y[r] = sum over k of w[r][k] * x[k] in four chains: chain c takes k = c, c+4, c+8, ...,
 *            each by fmaf from +0; then (c0 + c1) + (c2 + c3).
 *   mix      o[j] = sum over t, ascending, one chain of fmaf per j.
 *   norms and the softmax sum: sixteen partial sums, number i takes elements i, i+16, ...; then
 *            p[i] += p[i + 8] for i < 8, then 4, 2, 1.
 * exp and what is built on it are polynomials of ours: libm differs between machines. There is no
 * flush to zero and no reciprocal approximation; division and square root are IEEE's.
 *
 * Panels. Weights are packed at load into panels of 16 output rows, k-major inside a panel:
 *
 *     element (row r, column k) is at  panel[(r / 16) * n_in * 16 + k * 16 + r % 16]
 *
 * so a vector lane is an output row: one load of 16 weights meets one broadcast activation, and
 * neither decode nor prefill ever adds across lanes. Rows behind the last are zero. The keys of the
 * KV cache are kept in the same shape (a row is a token), which makes attention scores a linear too.
 */
#ifndef MGPT_KERNELS_H
#define MGPT_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum { PANEL = 16 }; /* rows of a panel */

static inline size_t panels_of(size_t n_rows)
{
    return (n_rows + PANEL - 1) / PANEL;
}

/* Element types that linear multiplies directly; the order of the table's entries. */
enum weight_type { WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_N_TYPES };

enum act { ACT_RELU, ACT_RELU2, ACT_SILU, ACT_GELU_TANH, ACT_GELU_ERF, ACT_N_KINDS };

enum rope_pairs { ROPE_ADJACENT, ROPE_HALVES };

/* y[i][r] = sum_k w[r][k] * x[i][k] for tokens i < n and the rows of panels [p0, p1), r < n_out. Row i
 * of x is at x + i * ldx, of y at y + i * ldy. w is the whole packed matrix. */
typedef void linear_fn(float *y, size_t ldy, const void *w, const float *x, size_t ldx, size_t n,
                       size_t n_in, size_t n_out, size_t p0, size_t p1);

/* Packs the rows of panels [p0, p1) of a row-major [n_out][n_in] matrix, which may be unaligned. */
typedef void pack_fn(void *dst, const void *src, size_t n_in, size_t n_out, size_t p0, size_t p1);

struct kernels {
    const char *isa;
    linear_fn *linear[WEIGHT_N_TYPES];
    pack_fn *pack[WEIGHT_N_TYPES];

    /* y = x / sqrt(mean(x^2) + eps) [* gain]; and LayerNorm: the mean removed first [* gain + bias].
     * gain and bias may be NULL; y may be x. (Zhang & Sennrich 2019; Ba et al. 2016, biased variance.) */
    void (*rmsnorm)(float *y, const float *x, const float *gain, const float *bias, size_t n,
                    float eps);
    void (*layernorm)(float *y, const float *x, const float *gain, const float *bias, size_t n,
                      float eps);

    /* Rotates the first n_rot of every head_dim values (Su et al. 2021). cs holds n_rot / 2 pairs
     * {cos, sin}; pair i is (2i, 2i+1) or (i, i + n_rot/2). */
    void (*rope)(float *x, const float *cs, size_t n_heads, size_t head_dim, size_t n_rot,
                 enum rope_pairs pairs);

    void (*softmax)(float *x, size_t n);
    void (*scale)(float *x, float by, size_t n);
    void (*add)(float *x, const float *y, size_t n);                     /* x += y */
    void (*mul)(float *x, const float *y, size_t n);                     /* x *= y */
    void (*blend)(float *x, float a, float b, const float *y, size_t n); /* x = a x + b y */
    void (*clamp)(float *x, float limit, size_t n);                      /* to [-limit, limit] */
    void (*softcap)(float *x, float cap, size_t n);                      /* cap tanh(x / cap) */
    void (*act[ACT_N_KINDS])(float *x, size_t n);

    /* o[j] = sum_t a[t] * v[t * d + j] for j < d. */
    void (*mix)(float *o, const float *a, const float *v, size_t n, size_t d);
};

/* Fills the table with the named rung, or the best this machine runs for NULL. Returns 0 when the name
 * is unknown or the machine lacks it. */
int kernels_init(struct kernels *k, const char *isa);

/* The i-th rung from the base up, NULL past the end; whether this machine runs it. */
const char *kernels_rung(size_t i, int *runs_here);

/* Rungs; each overwrites what it does better. Callers use kernels_init. */
void kernels_init_scalar(struct kernels *k);
void kernels_init_avx2(struct kernels *k);
void kernels_init_avx512(struct kernels *k);

#endif
