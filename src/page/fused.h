/* Floor 1. The fused path: the page (page.inc) compiled for small models, a whole step in one call. This is
 * what a call is given; the compilation is fused_tmpl.h, once per ISA level.
 */
#ifndef MGPT_KERNELS_STEP_H
#define MGPT_KERNELS_STEP_H

#include <stddef.h>

/* A small model, flattened: what the fused step needs of one. Widths are
 * multiples of 16, head_dim of 4; matrices are F32 panels, those of q, k, v and of gate, up behind
 * one another; gains and biases are padded to whole panels. */
enum { FUSED_FF = 256 /* widest MLP, gate and up each */ };
enum fused_kind { FUSED_NO_NORM, FUSED_RMSNORM, FUSED_LAYERNORM };

struct fused_norm {
    enum fused_kind kind;
    const float *gain, *bias; /* or NULL */
};

struct fused_linear {
    const float *w;
    const float *bias; /* or NULL */
};

struct fused_layer {
    struct fused_norm attn_norm, ffn_norm;
    struct fused_linear qkv, o, up, down;
};

struct fused_model {
    const struct fused_kernels *kernels;
    size_t n_embd, n_head, n_head_kv, head_dim, n_ff, n_head_panels, n_layer;
    int gated, one_chain_up, one_chain_head;
    int act;                              /* enum act */
    void (*activate)(float *x, size_t n); /* the table's */
    float eps, attn_scale;
    const float *begun; /* [n_vocab][n_ctx][n_begun], or NULL: too many */
    size_t n_ctx, n_begun;
    const float *tokens, *positions; /* embeddings, n_embd a row; positions may be NULL */
    struct fused_norm embd_norm, final_norm;
    struct fused_linear head;
    struct fused_layer *layers;
};

/* A token to run: its embeddings, and where its session keeps keys and values: the arrays of kv.h,
 * [layer * n_head_kv + head], with room for it and of type KV_F32. */
struct fused_row {
    const float *token, *position; /* its embeddings; position may be NULL */
    const float *begun;            /* NULL, or what begin made of these: they are not read then */
    size_t pos;
    unsigned char *const *k, *const *v;
    float *logits; /* room for whole panels; NULL: not wanted */
};

struct fused_kernels {
    const char *vectors; /* as in struct kernels */

    /* The first layer's input and its q, k and v, n_begun floats: they depend on nothing but the token and
     * its position. */
    void (*begin)(const struct fused_model *m, const struct fused_row *row, float *begun);

    /* Runs n rows in order, which may be of one session. scores is [n_head][score_stride]; the stride is
     * a multiple of 16. work: kernels_work_bytes(1) bytes, 64-aligned. */
    void (*step)(const struct fused_model *m, const struct fused_row *rows, size_t n, float *scores,
                 size_t score_stride, void *work);
};

/* The compilation for the ISA level of that name; NULL in a build without any (-DMGPT_NO_FUSED). */
const struct fused_kernels *fused_kernels(const char *vectors);

#endif
