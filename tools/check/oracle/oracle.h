/* The forward pass in float64, straight from the formulas: what the engine is held to.
 *
 * Plain loops over all positions at once, no cache, no chunks, no kernels; nothing of src/ but
 * memory and error lines is used. The model is given by a complete description, and its numbers
 * come through a function: the tests describe their toys from what they know of each architecture,
 * `mgpt check --self` describes a model as the engine bound it, and --explain describes what a
 * model would be if one thing about it were different.
 *
 * float64 carries 29 bits more than float32, so what comes out is the true value as far as a
 * float32 engine is concerned. Large matrices are read row by row and never kept.
 */
#ifndef MGPT_ORACLE_H
#define MGPT_ORACLE_H

#include "mgpt.h"

/* Components of a head of q and k in the tensors. At the points they are as the programs that
 * models come from have them: of the first n_rot, those of pair i are i and i + n_rot / 2. */
enum oracle_components {
    ORACLE_AS_SHOWN,
    ORACLE_PAIRS,    /* 2i and 2i + 1 */
    ORACLE_EXCHANGED /* i + n_rot / 2 and i */
};

/* The KV head that query head h reads: h / (H / G), h % G, 0, h or h / G (none beyond the last). */
enum oracle_kv {
    ORACLE_KV_GROUPED,
    ORACLE_KV_INTERLEAVED,
    ORACLE_KV_FIRST,
    ORACLE_KV_SAME,
    ORACLE_KV_BY_NUMBER
};

/* The keys that a query sees: those up to its own; also the next one; all; those but its own, or but
 * the first, where others are left; where there are windows, those of its own chunk of that length. */
enum oracle_mask {
    ORACLE_CAUSAL,
    ORACLE_NEXT_KEY,
    ORACLE_ALL_KEYS,
    ORACLE_NOT_OWN_KEY,
    ORACLE_NOT_FIRST_KEY,
    ORACLE_CHUNKS
};

/* What is added to the sum of exp(s - largest s) of a row: nothing, 1, or exp(-largest s). */
enum oracle_softmax { ORACLE_SUM, ORACLE_SUM_FROM_1, ORACLE_SUM_WITH_0 };

/* What one layer does beyond its tensors. */
struct oracle_layer {
    const double *freq; /* radians a position turns each pair by, [n_rot / 2]; NULL: no rotation */
    double rope_scale;  /* multiplies what was rotated */
    size_t window;      /* most keys a query sees; 0: all */
    size_t conv;        /* tokens that a short convolution adds up in place of attention; 0 */
    const char *activation; /* relu relu2 silu gelu_tanh gelu_erf gelu_quick xielu */
    double xielu
        [4]; /* p, n, beta, eps: x > 0: p x^2 + beta x; else n (e^min(x, eps) - 1 - x) + beta x */
    double attn_scale;
    double keep, mix_in_x0;  /* x = keep x + mix_in_x0 x0 before the layer, x0: input of layer 0 */
    size_t value_gate;       /* columns of its matrix; 0: no value embeddings */
    int halves;              /* pairs are (i, i + n_rot / 2), not (2i, 2i + 1) */
    int attn_norm, mlp_norm; /* the branch reads a norm of the residual, not the residual itself */
    int shared_norm;         /* the MLP's is attn_norm, too */
    int parallel;            /* both branches read the same residual */
    enum oracle_components stored;
    enum oracle_kv kv;
    int no_attention, no_mlp; /* adds nothing to the residual */
    int replaces;             /* attention's output takes the residual's place */
    int act_late;             /* the activation of gate times up, not of gate */
    int kv_late;         /* keys and values are those of the position before, but for the first */
    int residual_normed; /* the branches add to their input, not to what was normalised */
};

enum oracle_qk { ORACLE_QK_PLAIN, ORACLE_QK_PER_HEAD, ORACLE_QK_WHOLE };

/* Results are rounded to a shorter type: those of the whole pass, of norms only, of a norm's mean of
 * squares, whose terms may be rounded before, or cosines and sines, weights when they are read,
 * frequencies, keys and values as they are stored, or the weights of attention. */
enum oracle_type { ORACLE_EXACT, ORACLE_BF16, ORACLE_F16 };
enum oracle_rounded {
    ORACLE_ALL,
    ORACLE_NORMS,
    ORACLE_SQUARES,
    ORACLE_VARIANCE,
    ORACLE_TURNS,
    ORACLE_WEIGHTS,
    ORACLE_FREQUENCIES,
    ORACLE_CACHE,
    ORACLE_PATTERN
};

enum oracle_tensor { ORACLE_ABSENT, ORACLE_FLOATS, ORACLE_INTEGERS };

/* "blk.LAYER.STEM" and `kind` (".weight"), or without a layer (-1) "STEM" and `kind`. */
enum { ORACLE_NAME = 80 };
void oracle_name(char name[ORACLE_NAME], int layer, const char *stem, const char *kind);

/* Reads and looks up tensors by their GGUF names. */
struct oracle_source {
    enum oracle_tensor (*find)(void *user, const char *name);
    /* Row `row` of n values; a vector is row 0. Returns a status. */
    int (*read)(void *user, const char *name, size_t row, size_t n, float *out, mgpt_error *err);
    void *user;
};

struct oracle_spec {
    struct oracle_source source;
    const struct oracle_layer *layers;
    size_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_rot;
    double eps, embd_scale, residual_scale, logit_scale; /* scales: 1: none */
    double clamp, attn_cap, softcap;                     /* 0: none */
    double value_gate_scale, smear_scale, backout;       /* of value embeddings; 0: none; 0: none */
    size_t smear_gate;                                   /* columns of its matrix */
    double alibi;                                        /* ALiBi's largest exponent; 0: none */
    size_t n_expert, n_expert_used, n_ff_expert, n_ff_shared; /* mixtures; 0: none */
    int expert_norm, expert_sigmoid;                          /* as in struct mgpt_model */
    double expert_scale;
    int layer_norm;                   /* the mean is removed */
    int embd_norm, final_norm, gated; /* final_norm: how often */
    int final_shown;                  /* MGPT_FINAL fires also without a final norm */
    enum oracle_qk qk_norm;
    int int8_inputs; /* integer weights take their input in blocks of int8 (src/kernels/kernels.h) */
    int shift;       /* added to every position, not below 0 */
    int qk_norm_late; /* after the rotation */
    /* What no model has, for --explain; 0 is as models are. */
    int qk_norm_other;              /* over all heads with the gains of one, or over each */
    int no_norm_q, no_norm_k;       /* in spite of qk_norm */
    int norm_moved_q, norm_moved_k; /* that of q or k alone on the other side of the rotation */
    int no_rope_q, no_rope_k;       /* only the other is rotated */
    int rope_v;                     /* values are rotated as keys are */
    int shift_k;                    /* added to the positions of keys, not below 0 */
    double attn_times, mlp_times, position_times; /* of branches, position embeddings; 0: 1 */
    int rope_again_q, rope_again_k;               /* rotated twice */
    int heads_first;   /* attention's output [H][T][d] is taken for [T][H d] */
    int mask, softmax; /* enum oracle_mask, oracle_softmax */
    int rot_mixed;     /* component i of halves turns as that of adjacent pairs, or reverse */
    int eps_outside, unbiased;   /* sqrt(variance) + eps; a sum of squares by one less */
    int sum_squares;             /* norms divide by the root of the sum, not of the mean */
    size_t n_stored;             /* n_rot of oracle_layer.stored; 0: the same */
    size_t rot_first, rot_apart; /* first component that is rotated; of a pair, 0: n_rot / 2 */
    enum oracle_type type;       /* results are rounded to it ... */
    enum oracle_rounded rounded; /* ... where */
    size_t first_layer;          /* the pass begins there, without points before it, ... */
    const double *residual;      /* ... with this residual, [n][n_embd]; NULL: with embeddings */
};

/* Called with every row at every point, before it is used; what it writes is what the pass goes on
 * with, like a tap. At SCORES and WEIGHTS a row is head `head`'s of the query at pos, of pos + 1
 * values; elsewhere head is 0. Returning anything but 0 ends the pass with MGPT_ESTOP. */
typedef int oracle_point(mgpt_point point, int layer, size_t pos, size_t head, double *row,
                         size_t n, void *user);

/* n tokens (ids below n_vocab) from position 0. MGPT_OK, MGPT_ESTOP, or what reading or memory
 * said. */
int oracle_pass(const struct oracle_spec *spec, const int32_t *tokens, size_t n, oracle_point *fn,
                void *user, mgpt_error *err);

#endif
