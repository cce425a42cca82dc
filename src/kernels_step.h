/* Floor 1. The whole step of a narrow model as one kernel: what it is given. The kernel is
 * kernels_step_tmpl.h.
 */
#ifndef MGPT_KERNELS_STEP_H
#define MGPT_KERNELS_STEP_H

#include <stddef.h>

/* A narrow model, flattened: what the fused step (kernels_step_tmpl.h) needs of one. Widths are
 * multiples of 16, head_dim of 4; matrices are F32 panels, those of q, k, v and of gate, up behind
 * one another; gains and biases are padded to whole panels. */
enum { NARROW_FF = 256 /* widest MLP, gate and up each */ };
enum narrow_kind { NARROW_NO_NORM, NARROW_RMSNORM, NARROW_LAYERNORM };

struct narrow_norm {
    enum narrow_kind kind;
    const float *gain, *bias; /* or NULL */
};

struct narrow_linear {
    const float *w;
    const float *bias; /* or NULL */
};

struct narrow_layer {
    struct narrow_norm attn_norm, ffn_norm;
    struct narrow_linear qkv, o, up, down;
};

struct narrow {
    size_t n_embd, n_head, n_head_kv, head_dim, n_ff, n_head_panels, n_layer;
    int gated, one_chain_up, one_chain_head;
    int act;                              /* enum act */
    void (*activate)(float *x, size_t n); /* the table's */
    float eps, attn_scale;
    const float *begun; /* [n_vocab][n_ctx][n_begun], or NULL: too many */
    size_t n_ctx, n_begun;
    const float *tokens, *positions; /* embeddings, n_embd a row; positions may be NULL */
    struct narrow_norm embd_norm, final_norm;
    struct narrow_linear head;
    struct narrow_layer *layers;
};

/* A token to run: its embeddings, and where its session keeps keys and values: the arrays of kv.h,
 * [layer * n_head_kv + head], with room for it and of type KV_F32. */
struct narrow_row {
    const float *token, *position; /* its embeddings; position may be NULL */
    const float *begun; /* NULL, or what narrow_begin made of these: they are not read then */
    size_t pos;
    unsigned char *const *k, *const *v;
    float *logits; /* room for whole panels; NULL: not wanted */
};

/* begin: the first layer's input and its q, k and v, n_begun floats; they depend on nothing but the
 * token and its position. step: runs n rows in order, those of one session too. scores is
 * [n_head][score_stride]; the stride is a multiple of 16. */
typedef void narrow_begin_fn(const struct narrow *m, const struct narrow_row *row, float *begun);
typedef void narrow_step_fn(const struct narrow *m, const struct narrow_row *rows, size_t n,
                            float *scores, size_t score_stride);

#endif
