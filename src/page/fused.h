/* The fused path: the page (page.inc) compiled for small models, one call per forward pass. This
 * file has the arguments of a call; fused_tmpl.h is compiled once per ISA level.
 */
#ifndef MGPT_FUSED_H
#define MGPT_FUSED_H

#include <stddef.h>

/* A small model as the fused step reads it. Widths are multiples of 16, head_dim of 4. Matrices are
 * F32 panels. The panels of q, k and v follow each other, and so do those of gate and up. Gains and
 * biases are padded to whole panels. */
enum { FUSED_FF = 256 /* largest MLP width, of gate and of up */ };
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

/* E: n_embd, H: n_head, G: n_head_kv, d: head_dim, F: n_ff; relu: a ReLU without a gate. */
struct fused_widths {
    size_t E, H, G, d, F;
    int gated, relu, one_chain_up;
};

/* 1 if caches of these widths are interleaved (kv.h), where the ISA level does that. */
static inline int fused_interleaves(int level_does, struct fused_widths w)
{
    return level_does && w.H == w.G && w.H % 4 == 0;
}

/* The widths of microgpt, which are constants in a compilation of their own. */
static const struct fused_widths fused_canonical = {16, 4, 4, 4, 64, 0, 1, 0};

struct fused_model {
    const struct fused_kernels *kernels;
    struct fused_widths widths;
    int is_canonical; /* they are fused_canonical */
    size_t n_head_panels, n_layer;
    int one_chain_head;
    int act;                              /* enum act */
    void (*activate)(float *x, size_t n); /* from struct kernels */
    float eps, attn_scale;
    const float *first_qkv; /* [n_vocab][n_ctx][n_first_qkv], NULL if too large */
    size_t n_ctx, n_first_qkv;
    const float *tokens, *positions; /* embeddings, [][n_embd]; positions may be NULL */
    struct fused_norm embd_norm, final_norm;
    struct fused_linear head;
    struct fused_layer *layers;
    int interleaved; /* 1: its KV caches are interleaved (kv.h) */
};

/* One token to run. k and v are the KV cache of its session (kv.h), indexed by
 * layer * n_head_kv + head, of type KV_F32, with room for this token. */
struct fused_row {
    const float *token, *position; /* its embeddings; position may be NULL */
    const float *first_qkv; /* result of first_qkv; then token and position are not read. Or NULL */
    size_t pos;
    unsigned char *const *k, *const *v;
    float *logits; /* output, room for whole panels; NULL: not computed */
};

struct fused_kernels {
    const char *vectors; /* as in struct kernels */

    /* Writes the first layer's x, q, k and v: n_first_qkv floats. They depend only on the token and
     * its position. */
    void (*first_qkv)(const struct fused_model *m, const struct fused_row *row, float *first_qkv);

    /* Runs n rows in order. Rows may belong to the same session. scores is [n_head][score_stride];
     * the stride is a multiple of 16. work: kernels_work_bytes(1) bytes, 64-aligned. */
    void (*step)(const struct fused_model *m, const struct fused_row *rows, size_t n, float *scores,
                 size_t score_stride, void *work);
    int interleaves; /* see fused_interleaves */
};

/* The compilation for the named ISA level; NULL if there is none (-DMGPT_NO_FUSED). */
const struct fused_kernels *fused_kernels(const char *vectors);

#endif
