/* The kernel table: all arithmetic on weights and activations.
 *
 * Words of this folder:
 *   ISA level  one set of kernels for an instruction set; the ladder (ladder.c) lists the levels
 *   matmul     the product of a packed matrix and n rows of activations: GEMV for n = 1, else GEMM.
 *              Functions are generated for each weight type: matmul_F32, matmul_F16, matmul_BF16,
 *              matmul_Q8_0, matmul_Q4_K, ... (types.h); `dequantize` here means decoding to float, which
 *              integer types are not: their dot products are of int8 (ivec_dot)
 *   panel      16 adjacent rows of a packed matrix, or 16 tokens of the KV cache: see below
 *   block      32 adjacent columns of quantised weights, activations, keys or values
 *   chain      a sum that is computed term after term by fmaf, in the order that is stated
 *   tile       the part of a result that is in registers at a time: some panels by some tokens
 *   streaming  an order in which panels are read for one token; the fastest is measured at load (tune.c)
 *   screen     a bound for each logit from int8 copies, which saves most of the head's product (screen.c)
 *
 * A kernel knows nothing of threads or models. float_tmpl.h is the specification: short loops in
 * float32 with explicit fmaf and a written order of summation. Each ISA level of the ladder
 * (scalar, avx2, avx512, ...) must give the same bits for the same arguments.
 *
 * Orders of summation:
 *   matmul, float types: y[r] = sum over k of w[r][k] * x[k], by fmaf from +0. Wide matrices
 *            (n_out > NARROW) have one chain, k ascending. Narrow ones are bound by the latency of
 *            a chain and have four: chain c takes k = c, c+4, c+8, ...; then (c0 + c1) + (c2 + c3).
 *   matmul, integer types: activations are int8 in blocks of 32 with a float scale each, weights
 *            integers in sub-blocks of 32 (16 for Q6_K). Per sub-block s, ascending, from +0:
 *              y = fmaf(ws[s] * xs[s], (float)sum of w x, y)      the sum exact in int32
 *              y = fmaf(wm[s], xsum[s], y)                        types with a minimum only
 *            where ws and wm are the sub-block's scale and minimum as floats (products of d or dmin
 *            and an integer: exact), xs the activation block's scale, xsum = xs * (float)(sum of
 *            its int8).
 *   scores   s[t] = by * (sum over j of k[t][j] * q[j], ascending, one chain of fmaf from +0).
 *   mix      o[j] = sum over t of v[t][j] * a[t], ascending, one chain of fmaf per j from +0.
 *   Q8_0 keys and values: integers kq, vq and a scale ks, vs per block b of 32 elements of a head;
 *            q is quantised as activations are, to qq and qs.
 *              s[t] = fmaf(ks[t][b] * (qs[b] * by), (float)sum of kq * qq, s[t])  b ascending
 *              o[j] = fmaf(a[t] * vs[t][b], (float)vq[t][j], o[j])                t ascending
 *   norms and the softmax sum: sixteen partial sums, number i takes elements i, i+16, ...; then
 *            p[i] += p[i + 8] for i < 8, then 4, 2, 1.
 * SPEC_VERSION is their number: a change of the bits of any key, value or logit raises it.
 * exp and the functions built on it are our own polynomials, because libm differs between machines.
 * No flush to zero, no reciprocal approximation; division and square root are those of IEEE 754.
 *
 * Panels. Weights are packed at load into panels of 16 output rows, k-major inside a panel:
 *
 *     element (row r, column k) is at  panel[(r / 16) * n_in * 16 + k * 16 + r % 16]
 *
 * so a vector lane is an output row: one load of 16 weights is multiplied by one broadcast
 * activation, and neither decode nor prefill adds across lanes. Padding rows are zero. The keys of
 * the KV cache have the same layout: a row is a token. Integer types (pack/int_layout.h) and
 * BF16_COMPRESSED (pack/float_compressed.h) have layouts of their own.
 */
#ifndef MGPT_KERNELS_H
#define MGPT_KERNELS_H

#include "dtype/types.h"
#include "kernels/activations.h"
#include "kernels/sample_kernels.h"

#include <float.h>
#include <stddef.h>
#include <stdint.h>

/* On other machines logits would differ without an error. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error                                                                                             \
    "mgpt needs a little-endian machine: packed weights and the KV cache are read as they are stored"
#endif
#if FLT_EVAL_METHOD != 0
#error "mgpt needs float arithmetic in float: on 32-bit x86 compile with -msse2 -mfpmath=sse"
#endif

/* gcc and clang define these with -ffast-math and with each flag of it that changes results, as far
 * as they tell: clang has no macro for -fassociative-math alone, nor any for -fno-signed-zeros. In
 * a debug build mgpt_open compares a hash of results. */
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) ||           \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error "mgpt needs the arithmetic of IEEE 754: compile without -ffast-math, -Ofast and their parts"
#endif

enum {
    SPEC_VERSION = 2,
    PANEL = 16, /* rows of a panel */
    NARROW = 64 /* most rows of a matrix whose sums have four chains */
};

static inline size_t panels_of(size_t n_rows)
{
    return (n_rows + PANEL - 1) / PANEL;
}

/* Rows of a matrix of n_out rows in `panels` panels from p on. The last panel may be partial. */
static inline size_t rows_of_panels(size_t n_out, size_t p, size_t panels)
{
    return n_out - p * PANEL < panels * PANEL ? n_out - p * PANEL : panels * PANEL;
}

/* x > 0: p x^2 + beta x; else n (e^min(x, eps) - 1 - x) + beta x (Huang & Schlag 2025). eps <= 0. */
struct xielu {
    float p, n, beta, eps;
};

enum rope_pairs { ROPE_ADJACENT, ROPE_HALVES };

/* How one token reads weights from memory. The fastest depends on the make of CPU, so it is measured
 * when a large model is opened (tune.c). Bits do not depend on it. The first is the default. */
struct streaming {
    size_t panels; /* read in parallel; two: only of 8-bit types */
    size_t ahead;  /* prefetch distance in bytes, of integer types; 0: panels far apart, none */
};
enum { N_STREAMINGS = 4, PANELS_APART = 4 };
static const struct streaming streamings[N_STREAMINGS] = {
    {1, 4096}, {2, 4096}, {1, 2048}, {PANELS_APART, 0}};

static inline int reads_apart(size_t streaming)
{
    return streamings[streaming].ahead == 0;
}

/* Returns 1 if this streaming reads weights of the type differently from every streaming with a smaller
 * index. */
static inline int streaming_differs(enum weight_type type, size_t streaming)
{
    const struct streaming *s = &streamings[streaming];
    if (type == WEIGHT_BF16_COMPRESSED || streaming == 0)
        return streaming == 0;
    return reads_apart(streaming) ||
           (weight_is_integer(type) && (s->panels == 1 || type == WEIGHT_Q8_0));
}

/* y[i][r] = sum_k w[r][k] * x[i][k] for tokens i < n and the rows of panels [p0, p1), r < n_out. */
struct matmul {
    float *y; /* row i is at y + i * ldy */
    size_t ldy;
    const void *w; /* the whole packed matrix */
    const void *x; /* row i is at x + i * x_stride bytes: float[n_in], or for integer types the
                      output of quantize */
    size_t x_stride, n, n_in, n_out, p0, p1;
    void *work; /* scratch of kernels_work_bytes(n) bytes, 64-aligned, for this call alone; may be
                   NULL for one token */
    size_t streaming; /* of one token: index of streamings */
};

typedef void matmul_fn(const struct matmul *m);

/* Row i of x. */
static inline const void *matmul_x(const struct matmul *m, size_t i)
{
    return (const char *)m->x + i * m->x_stride;
}

/* Scratch of a thread, in bytes, for calls of matmul with up to n tokens and for the fused step:
 * copies of activations (WORK_ROW for each token of a group) and unpacked weights. The caller
 * allocates it: threads of musl and of many programs have stacks of 128 KiB or less. */
enum { WORK_TOKENS = 192, WORK_ROW = 1408, WORK_WEIGHTS = 48 << 10 };
static inline size_t kernels_work_bytes(size_t n)
{
    size_t tokens = n < WORK_TOKENS ? (n + 15) / 16 * 16 : WORK_TOKENS;
    return WORK_WEIGHTS + tokens * WORK_ROW;
}

/* Packs the rows of panels [p0, p1) of a row-major [n_out][n_in] matrix in the file's own layout,
 * which may be unaligned. dst and src are those of the whole matrix. */
typedef void pack_fn(void *dst, const void *src, size_t n_in, size_t n_out, size_t p0, size_t p1);

/* A row of a packed matrix as floats: those that the file's dtype decodes. */
void kernels_unpack_row(enum weight_type type, const void *w, size_t n_in, size_t row, float *to);

/* Bytes of one packed panel of n_in columns, and of one row of activations as matmul takes it. Both
 * are multiples of 64 for integer types. n_in is a multiple of the type's block. */
size_t kernels_panel_bytes(enum weight_type type, size_t n_in);
size_t kernels_x_bytes(enum weight_type type, size_t n_in);

/* 1: matrices of this shape may be compressed: they are wide and have whole groups of columns. */
int kernels_compressible(size_t n_in, size_t n_out);

/* A screen of a packed matrix of a float type or BF16_COMPRESSED: an int8 copy, packed as Q8_0, and
 * for each row the distance of the copy from the row, and the row's length (L2 norms). From them and
 * the product y of the copy with the quantised x follows a bound on the row's product, as matmul
 * computes it with x: at most
 *     y + rest[r] * x->rest_by + norm[r] * x->norm_by + SCREEN_TINY
 * if norm[r] * x->norm < SCREEN_HUGE; otherwise, or if that is not finite, nothing is known. The
 * proof is in pack/screen_tmpl.h. n_in is a multiple of 32 and at most SCREEN_COLUMNS. */
struct int8_screen {
    uint8_t *w;
    float *rest, *norm; /* [rows of all panels] */
};
struct screen_x {
    float rest_by, norm_by, norm;
};
#define SCREEN_TINY 1e-30f
#define SCREEN_HUGE 1e37f
enum { SCREEN_COLUMNS = 1 << 20, SCREEN_TOP = 64 /* most of the largest that are looked for */ };

/* qx: what quantize made of x. */
struct screen_x kernels_screen_x(const float *x, const void *qx, size_t n_in);

/* Element types of the KV cache: float; IEEE half that is converted to float when read; int8 in
 * blocks of 32 with a scale (kv_q8.c). */
enum kv_type { KV_F32, KV_F16, KV_Q8_0, KV_N_TYPES };

/* A layer keeps a key and a value of each token for each of n_head heads, or a row of floats. */
struct kv_shape {
    size_t n_head, head_dim, value_dim; /* 0: none of its own */
    size_t rows;                        /* floats of a row; 0: keys and values */
};

/* Bytes of the keys or values of 16 tokens, d elements each. */
size_t kernels_kv_bytes(enum kv_type type, size_t d);

/* s[i * lds + t] = by * (sum_j keys[t][j] * q[i][j]) for rows i < n and the tokens t of panels
 * [p0, p1). keys are panels of d columns whose rows are tokens. Writes whole panels. */
struct scores {
    float *s;
    size_t lds;
    const void *keys;
    const float *const *q;
    size_t n, d;
    float by;
    size_t p0, p1;
    const struct kernels *kernels;
    void *work; /* Q8_0 only: scratch of kernels_scores_work(n, d) bytes, 64-aligned */
    int far;    /* 1: keys come from memory, not from a cache; bits do not depend on it */
};

typedef void scores_fn(const struct scores *s);
size_t kernels_scores_work(size_t n, size_t d);

/* o[i][j] += sum_t a[i * lda + t] * values[(t0 + t) * ldv + j0 + j] for rows i < n, columns j < d
 * and tokens t < n_keys. Each o[i][j] is one chain that successive calls continue. Q8_0: ldv is the
 * elements of a head, j0 a multiple of 16. */
struct mix {
    float *const *o;
    const float *a;
    size_t lda;
    const void *values;
    size_t ldv, n, n_keys, d, t0, j0;
    int far; /* as in struct scores */
};

typedef void mix_fn(const struct mix *m);

struct kernels {
    const char *isa;        /* name of the ISA level (ladder.c) */
    const char *vectors;    /* ISA level of the float kernels: "avx512" for "amx" too */
    size_t streaming;       /* for struct matmul and scores, 0 unless measured or fixed */
    int streaming_is_fixed; /* 1: the caller of kernels_init chose it */
    matmul_fn *matmul[WEIGHT_N_PACKED];
    pack_fn *pack[WEIGHT_N_TYPES];

    /* Compresses a packed panel of BF16. 0: it needs more patches than BF16_COMPRESSED has. */
    int (*compress)(void *to, const void *panel, size_t n_in);
    int compresses; /* 1: compressed weights are multiplied faster than plain ones from memory */

    /* Makes panel p of a screen of m, whose weights have this type. */
    void (*screen)(const struct int8_screen *s, enum weight_type type, const struct matmul *m,
                   size_t p);

    /* n floats (a multiple of 32) to int8 blocks, kernels_x_bytes() at dst, 64-aligned. */
    void (*quantize)(void *dst, const float *x, size_t n);

    /* y = x / sqrt(mean(x^2) + eps) [* gain]; LayerNorm: the mean removed first [* gain + bias].
     * gain and bias may be NULL; y may be x. (Zhang & Sennrich 2019; Ba et al. 2016, biased
     * variance.) */
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
    void (*axpby)(float *x, float a, float b, const float *y, size_t n); /* x = a x + b y */
    void (*clamp)(float *x, float limit, size_t n);                      /* to [-limit, limit] */
    void (*softcap)(float *x, float cap, size_t n);                      /* cap tanh(x / cap) */
    void (*act[ACT_N_KINDS])(float *x, size_t n);
    void (*xielu)(float *x, const struct xielu *c, size_t n);

    scores_fn *scores[KV_N_TYPES];
    mix_fn *mix[KV_N_TYPES];
    void (*to_f16)(uint16_t *dst, const float *src, size_t n); /* to IEEE halves, nearest even */

    const struct sample_kernels *sample;
};

/* Fills the table for the named ISA level; NULL: the best one that this machine runs. "avx2:1"
 * fixes streaming 1. Returns 0 if the name is unknown or the machine cannot run it. */
int kernels_init(struct kernels *k, const char *isa);

/* 1: a hash of results is that of IEEE arithmetic. arithmetic.c. */
int kernels_arithmetic_holds(const struct kernels *k);

/* Name of ISA level i, lowest first; NULL past the end. *runs_here: this machine runs it. */
const char *kernels_isa_level(size_t i, int *runs_here);

/* Packing of F32, F16 and BF16, the same for every ISA level. */
void kernels_pack_floats_init(struct kernels *k);

/* Q8_0 in the KV cache: writes the d elements of a key or value, or zeros, to its lane (0 to 15) of
 * a panel; reads element j. */
void kv_q8_put(const struct kernels *k, void *panel, size_t lane, int is_key, const float *x,
               size_t d);
void kv_q8_clear(void *panel, size_t lane, int is_key, size_t d);
void kv_q8_copy(void *to, const void *from, size_t lane, int is_key, size_t d);
float kv_q8_get(const void *panel, size_t lane, int is_key, size_t j, size_t d);
void kernels_scores_q8_0(const struct scores *s);

/* One per ISA level. Called by kernels_init only. */
void kernels_init_scalar(struct kernels *k);
void kernels_init_avx2(struct kernels *k);
void kernels_init_avx512(struct kernels *k);
void kernels_init_neon(struct kernels *k);

/* Set matmul and quantize of the integer types; scalar also sets pack. Called by kernels_init only:
 * first scalar, then the chosen ISA level. */
void kernels_quant_init_scalar(struct kernels *k);
void kernels_quant_init_avx2(struct kernels *k);
void kernels_quant_init_avx512(struct kernels *k);
void kernels_quant_init_avx512vnni(struct kernels *k);
void kernels_quant_init_amx(struct kernels *k);
void kernels_quant_init_neon(struct kernels *k);
void kernels_quant_init_neon_dot(struct kernels *k);

#endif
