/* The model: tensors assigned to fields, every shape checked, weights packed.
 *
 * Words of this folder:
 *   architecture  a row of arch.c: the name in general.architecture and the forms that it has
 *   slot          a place of struct model or struct layer for a tensor, with its names and shape (slots.c)
 *   bind          to give every tensor of the file its slot; what has none is an error (bind.c)
 *   linear        a weight matrix with an optional bias; its weights are packed into panels (kernels.h)
 *   head          the matrix of logits (output.weight, or token_embd if the two are tied)
 *   gated         an MLP down(act(gate x) * (up x)): SwiGLU, GeGLU, ReGLU by the activation
 *   expert        one MLP of a mixture of experts; the router chooses n_expert_used for each token
 *   stage         what a pass needs at a time: 0 its beginning, l + 1 layer l; the head is of the last one,
 *                 or of 0 if it is the token embedding
 *   rope          the rotary embedding of q and k
 *   latent        of latent attention (MLA): the row that keys and values of all heads are products of
 *
 * Absent parts do nothing: a norm of kind NORM_NONE, a bias or gain of NULL, a matrix without
 * weights is the identity where page.inc uses it.
 */
#ifndef MGPT_MODEL_H
#define MGPT_MODEL_H

#include "base/file.h"
#include "gguf/gguf.h"
#include "kernels/kernels.h"
#include "mgpt.h"
#include "model/arch.h"
#include "model/numbers.h"
#include "tokenizer/tok.h"

#include <stdatomic.h>

struct norm {
    enum norm_kind kind;
    const float *gain, *bias; /* or NULL */
    size_t width;             /* values normalised together */
    size_t n_gains;           /* row i of a projection has gain i % n_gains; 0: all have one */
};

struct linear {
    const void *w; /* packed panels of kernels.h, or NULL: absent */
    enum weight_type type;
    const float *bias; /* or NULL */
    size_t n_in, n_out, panel_bytes;
};

/* A mixture of experts (Shazeer et al. 2017). Each row goes through the experts that the router
 * chooses for it. */
struct expert {
    struct linear gate, up, down;
};
enum { MODEL_EXPERTS_MOST = 1024 };
enum { MODEL_CONV_MOST = 64 }; /* rows that a short convolution adds up */

/* The matrices of a head of latent attention (DeepSeek-AI 2024): its key is [k' latent; rotated part], its
 * value v latent. */
struct latent_head {
    struct linear k, v; /* [n_latent][head_dim - n_rot], [value_dim][n_latent] */
};

struct layer {
    const struct model_shape *shape; /* the model's, or where layers differ its own */
    size_t kv_from; /* the layer whose keys and values it reads: this one, or one before it */
    struct norm attn_norm, q_norm, k_norm, v_norm, post_attn_norm, ffn_norm, post_ffn_norm;
    struct norm mid_norm, end_norm; /* of the residual stream after attention, after the MLP */
    struct linear q, k, v, o;
    struct linear gate, up, down; /* gate absent: a plain MLP; with experts: of the shared one */
    struct linear router, shared_gate; /* shared_gate absent: the shared expert is added as it is */
    struct expert *experts;            /* [n_expert], or NULL: no mixture */
    const float *expert_bias;          /* [n_expert] of the choice alone; NULL: none */
    const struct rope *rope;           /* NULL: no rotation */
    struct xielu xielu;                /* of ACT_XIELU */
    const float *sinks;                /* [n_head] scores without a key; NULL: none */
    struct linear head_gate; /* its sigmoids, or softplus, multiply what heads mix; absent */
    const float *conv;       /* [E][n_conv] a short convolution; NULL: attention */
    size_t window;           /* most keys a query sees, its own included; 0: all */
    float x_scale, x0_scale; /* x = x_scale x + x0_scale x0 before the layer; 1 and 0 */
    float out_scale;         /* x = out_scale x after the layer; 1 */
    struct linear input_gate, input_out; /* x += norm(W_out (act(W_gate x) * input)); absent */
    struct norm input_norm;
    /* [V][n_kv] or NULL. Added to the values of tokens, times value_gate_scale * sigmoid(value_gate x), one
     * factor for each KV head. */
    const struct gguf_tensor *value_embd;
    struct linear value_gate;
    /* Latent attention: q reads q_down_norm(q_down h) if that is present. */
    struct linear q_down, kv_down;
    struct norm q_down_norm, kv_down_norm;
    struct latent_head *heads; /* [n_head]; NULL: other attention */
    const float *k_up, *v_up;  /* the values of their matrices, consecutively */
};

/* Rotary frequencies: radians per position for each of n_rot / 2 pairs. A model has at most two. */
enum { ROPE_GLOBAL, ROPE_LOCAL, N_ROPES };
struct rope {
    double *freq; /* NULL: not used */
    size_t n_rot;
    size_t row;   /* offset of its cos and sin in a row of scratch.cs */
    double scale; /* multiplies cos and sin */
};

/* In page.inc: E = n_embd, H = n_head, G = n_head_kv, d = head_dim, F = n_ff, V = n_vocab. Where layers
 * differ, the model's has the most heads, the widest ones, the widest MLP. */
struct model_shape {
    size_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff, n_rot;
    size_t n_q, n_kv;           /* n_head * head_dim, n_head_kv * head_dim */
    size_t n_kv_most;           /* widest k or v: n_kv, or n_q in a model with short convolutions */
    size_t value_dim, n_v, n_z; /* width of a value; n_head_kv * value_dim, n_head * value_dim */
    size_t n_latent, n_q_latent; /* widths of latents; 0: none */
    /* Heads that the cache keeps of a token, and the widths of their keys and values. In latent attention both
     * are one: the latent and the rotated part of keys. */
    size_t n_kept, kept_dim, kept_value;
    size_t n_conv;    /* rows that a short convolution adds up; 0: no layer is one */
    size_t n_ff_most; /* the largest width of an MLP that all rows go through; 0: there is none */
    size_t n_expert, n_expert_used, n_ff_expert, n_ff_shared; /* X, k, widths; 0: no mixture */
    size_t n_further; /* layers after the last one, which predict further tokens: left out */
    size_t n_gate;    /* rows of head_gate: n_head, or n_z; 0: there is none */
    size_t n_input, n_inputs; /* width of a layer's input, and of those of all layers; 0: none */
};

enum { SCREEN_EMPTY, SCREEN_BEGUN, SCREEN_FULL };

struct mgpt_model {
    struct file file; /* zeroed for borrowed bytes */
    struct gguf gguf;
    struct tok *tok;
    struct kernels kernels;
    const struct arch *arch;
    char *name; /* general.name */
    char *chat_template;
    struct model_shape shape;
    float eps;
    MODEL_NUMBERS(NUMBER_FLOAT) /* attn_scale, residual_scale, ...: numbers.h */
    int expert_norm;            /* 1: the weights of the chosen experts are divided by their sum */
    int expert_sigmoid;         /* 1: weights are sigmoids of scores, not their softmax */
    float expert_scale;         /* multiplies the weights of experts */
    size_t expert_groups, expert_groups_used; /* experts are chosen from these; 1: no groups */
    const float *alibi_slopes;                /* [n_head]; NULL without ALiBi */
    enum act act;
    enum branches branches;
    double rope_base, rope_factor; /* positions are divided by the factor */
    int rope_short;                /* LongRoPE: 1: the factors for short texts */
    struct kv_shape *kept;         /* [n_layer] or NULL: all layers keep the same (kv.h) */
    struct rope ropes[N_ROPES];
    int rope_first; /* q and k are rotated before their norms */
    /* [head_dim] Taps show stored component qk_order[i] of q or k as component i (arch.h); NULL: as
     * stored. */
    const uint32_t *qk_order;
    size_t n_cs;               /* floats of a row of scratch.cs */
    size_t query_context;      /* with query_beta, whose factor is the last float of that row */
    size_t window, full_every; /* sliding window, and which layers have none (arch.h) */
    struct linear smear_gate;  /* of the embedding of the token before; absent: not added */
    float smear_scale;
    size_t n_value_embd; /* layers that have one */
    /* Inputs of layers (Gemma 4): a row for each token with those of all layers, and a matrix that makes them of the embedding. */
    const struct gguf_tensor *input_embd;
    struct linear input_proj;
    struct norm input_norm; /* of a layer's input */
    float backout; /* times x after layer n_layer / 2 is subtracted after the last; 0: nothing is */
    int mixes_x0;  /* 1: layers have x_scale and x0_scale, so a session stores x0 */
    const struct gguf_tensor *token_embd, *position_embd; /* position_embd may be NULL */
    struct norm embd_norm, final_norm;
    struct linear head, head_dense; /* the head reads head_norm(act(head_dense h)); absent: h */
    struct norm head_norm;
    struct layer *layers;
    void **owned;       /* stb_ds array: the blocks of model_own */
    struct plan *plans; /* stb_ds array: matrices to pack */
    size_t plan_stage;  /* of the matrices that are being planned */
    struct packing *packing;
    atomic_size_t n_packed;             /* stages that are packed */
    atomic_uint_least64_t packed_bytes; /* bytes of all panels */
    atomic_uint_least64_t token_bytes;  /* model_token_bytes */
    uint64_t packed_end;                /* the same, each matrix aligned */
    size_t x_bytes; /* bytes of the widest row of quantised input; 0: no integer types */
    int n_cores;    /* threads for a session that asks for none: 1 if a pass is too little work */
    double streaming_rate[N_STREAMINGS]; /* bytes per second measured at open; 0: not measured */
    int tied; /* 1: the head is the token embedding, whose rows are read from its panels */
    struct int8_screen screen;       /* of the head; w is NULL: none */
    atomic_int *screen_state;        /* the first session that needs the screen fills it */
    size_t top_k, n_choices;         /* what the screen looks for: the k largest logits of
                                            the first n_choices ids */
    const struct fused_model *fused; /* NULL: no fused path (fused_model.h) */
};

/* Gives a block from malloc or mem.h to the model: mgpt_close frees it. Returns the block; NULL if it
 * is NULL, or freed because there is no memory to note it. model.c. */
void *model_own(mgpt_model *m, void *block);

/* Sets *err: `isa` does not run here; lists those that do. Returns MGPT_EARG. */
int model_refuse_isa(const char *isa, mgpt_error *err);

/* 1 if a pass reads so little that one thread does it best: 1 MiB is in L2. */
static inline int model_is_small(const mgpt_model *m)
{
    return m->packed_bytes < (uint64_t)1 << 20;
}

/* 1 if the layer is a short convolution, which keeps rows instead of keys and values. */
static inline int model_keeps_rows(const mgpt_model *m, size_t layer)
{
    return m->kept && m->kept[layer].rows > 0;
}

/* Assigns all tensors of the file to the model's fields and plans the packing. bind.c. */
int model_bind(mgpt_model *m, mgpt_error *err);

/* Reads the numbers of mixtures. mixture.c. */
int model_experts(mgpt_model *m, mgpt_error *err);

/* Bytes of packed weights that one token reads: of experts, those of n_expert_used. mixture.c. */
uint64_t model_token_bytes(const mgpt_model *m);

/* Allocates zeroed memory that mgpt_close frees. bind.c. */
void *bind_own(mgpt_model *m, size_t n, size_t each, const char *what, mgpt_error *err);

/* What mgpt_get_tensor tells of a tensor. facts.c. */
void model_describe_tensor(const struct gguf_tensor *t, mgpt_tensor *tensor);

/* Error offset for a missing tensor: the end of the tensor list, where the data begins. bind.c. */
uint64_t bind_end_of_list(const struct gguf *g);

/* Plans that rows [row, row + n_out) of a tensor become l. pack.c. */
int pack_plan(mgpt_model *m, struct linear *l, const struct gguf_tensor *t, size_t row,
              size_t n_out, mgpt_error *err);

/* Chooses the types and places of all planned matrices; on n_threads threads, 0: chosen. MGPT_OK,
 * MGPT_EMEM or MGPT_EIO. packing.c. */
int model_place(mgpt_model *m, int n_threads, mgpt_error *err);

/* Packs them, then calls model_tune. `later`: a thread of the model does so; until it is done the stages
 * < n_packed can be used. pack_end ends it and frees the weights. MGPT_OK, MGPT_EMEM or MGPT_EIO.
 * packing.c. */
int model_pack(mgpt_model *m, int later, mgpt_error *err);
void pack_end(mgpt_model *m);

static inline int model_has_stage(const mgpt_model *m, size_t stage)
{
    return atomic_load_explicit(&m->n_packed, memory_order_acquire) > stage;
}

/* The error that has ended packing; or MGPT_OK. model_await returns the same after it has waited for a
 * stage, 10 ms at most. packing.c. */
int model_pack_failed(const mgpt_model *m, mgpt_error *err);
int model_await(const mgpt_model *m, size_t stage, mgpt_error *err);

/* Row `row` of token_embd or position_embd as floats, after model_pack. pack.c. */
void model_table_row(const mgpt_model *m, const struct gguf_tensor *table, size_t row, float *to);

enum { MEMORY_FROM = 8 << 20 }; /* bytes that are assumed not to stay in a cache of the CPU */

/* Measures how one token reads weights fastest on n_threads threads (0: chosen) and sets
 * kernels.streaming. The default stays if no other way is 5 % faster, there are fewer than
 * TUNE_LEAST bytes of weights, or no memory. tune.c. */
enum { TUNE_LEAST = 32 << 20 }; /* less may stay in a cache */
void model_tune(mgpt_model *m, int n_threads);

/* kernels.streaming, which passes read while model_pack measures. */
static inline size_t model_streaming(const mgpt_model *m)
{
    return __atomic_load_n(&m->kernels.streaming, __ATOMIC_RELAXED);
}

/* Allocates the screen of the head if top_k is not 0 and the head is fit for one. MGPT_OK or
 * MGPT_EMEM. head_screen.c. */
int model_screen(mgpt_model *m, int32_t top_k, mgpt_error *err);

/* Reads the hyper-parameters into model->shape and its neighbours. hyperparams.c. */
int model_hyper(mgpt_model *m, mgpt_error *err);

/* Reads the hyper-parameters of positions: rope and windows. positions.c. */
int model_positions(mgpt_model *m, mgpt_error *err);

/* Sets each layer's window. positions.c. */
int model_windows(mgpt_model *m, mgpt_error *err);

/* Sets each layer's shape, what it keeps and whose keys and values it reads; and its window where shapes depend
 * on it. shapes.c. */
int model_shapes(mgpt_model *m, mgpt_error *err);

/* Sets each layer's norm kinds, window and rope. Runs after all tensors are bound. positions.c. */
int model_layers(mgpt_model *m, mgpt_error *err);

/* Reads the constants of the layers' activations. activation.c. */
int model_activation(mgpt_model *m, mgpt_error *err);

/* The default element type of a session's cache (mgpt_session_params.kv_type). */
enum kv_type model_kv_type(const mgpt_model *m);

/* The XXH64 of the model's file, which is read again. MGPT_OK, MGPT_EIO or MGPT_EMEM. */
int model_hash(const mgpt_model *m, uint64_t *hash, mgpt_error *err);

/* Runs all checks of mgpt_open on a parsed file without packing it. MGPT_OK or the status that
 * mgpt_open would give. model.c. */
int model_check(const struct gguf *gguf, mgpt_error *err);

const struct tok *model_tok(const mgpt_model *m);

#endif
