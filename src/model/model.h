/* The model: tensors bound to their meaning once, every shape checked, weights packed.
 *
 * Absent is identity: a norm of kind NORM_NONE, a bias or gain of NULL, a linear without weights, does
 * nothing where the page (page.inc) calls it.
 */
#ifndef MGPT_MODEL_H
#define MGPT_MODEL_H

#include "base/file.h"
#include "gguf/gguf.h"
#include "kernels/kernels.h"
#include "mgpt.h"
#include "model/arch.h"
#include "tokenizer/tok.h"

struct norm {
    enum norm_kind kind;
    const float *gain, *bias; /* or NULL */
    size_t width;             /* of what is normalised */
};

struct linear {
    const void *w; /* packed panels of kernels.h, or NULL: absent */
    enum weight_type type;
    const float *bias; /* or NULL */
    size_t n_in, n_out, panel_bytes;
};

struct layer {
    struct norm attn_norm, q_norm, k_norm, post_attn_norm, ffn_norm, post_ffn_norm;
    struct linear q, k, v, o;
    struct linear gate, up, down; /* gate absent: a plain MLP */
    const struct rope *rope;      /* NULL: no rotation */
    size_t window;                /* most keys a query sees, its own included; 0: all */
    float keep, blend;            /* x = keep x + blend x0 before the layer (nanochat); 1 and 0 */
};

/* Rotary frequencies: radians per position for each of n_rot / 2 pairs. A model has at most two. */
enum { ROPE_GLOBAL, ROPE_LOCAL, N_ROPES };
struct rope {
    double *freq; /* NULL: not used */
    size_t row;   /* offset of its cos and sin in a row of scratch.cs */
};

/* Letters of the page: E = n_embd, H heads, G KV heads of width d, F = n_ff, V = n_vocab. */
struct model_shape {
    size_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff, n_rot;
    size_t n_q, n_kv; /* n_head * head_dim, n_head_kv * head_dim */
};

struct mgpt_model {
    struct file file; /* zeroed for borrowed bytes */
    struct gguf gguf;
    struct tok *tok;
    struct kernels kernels;
    const struct arch *arch;
    char *name; /* general.name */
    char *chat_template;
    struct model_shape shape;
    float eps, attn_scale;
    float embd_scale;    /* 1: nothing */
    float qkv_clamp;     /* 0: none */
    float logit_softcap; /* 0: none */
    enum act act;
    enum branches branches;
    double rope_base, rope_factor; /* positions are divided by the factor */
    struct rope ropes[N_ROPES];
    const uint32_t
        *qk_order; /* [head_dim] the component of a stored head of q or k that is shown as
                                  component i (arch.h); NULL: all are shown as stored */
    size_t n_cs;   /* floats of a row of scratch.cs */
    size_t window, full_every; /* sliding window, and which layers go without (arch.h) */
    int blends;                /* some layer's keep or blend is not neutral: x0 is kept */
    const struct gguf_tensor *token_embd, *position_embd; /* position_embd may be NULL */
    struct norm embd_norm, final_norm;
    struct linear head;
    struct layer *layers;
    void **owned;          /* stb_ds array: every block that packing and binding allocated */
    struct plan *plans;    /* stb_ds array: what is to be packed; NULL once the model is open */
    uint64_t packed_bytes; /* of all panels */
    uint64_t packed_end;   /* of the same with each matrix aligned */
    size_t x_bytes;        /* of the widest row of quantised activations; 0: no integer types */
    int tied;
    const struct fused_model *fused; /* NULL: the model takes no fused path (fused_model.h) */
};

/* Says in *err that `isa` does not run here, and what does. MGPT_EARG. */
int model_refuse_isa(const char *isa, mgpt_error *err);

/* Binds all tensors of the file to model->layers and the rest, and plans what is to be packed. bind.c. */
int model_bind(mgpt_model *m, mgpt_error *err);

/* Plans that rows [row, row + n_out) of a tensor become l. pack.c. */
int pack_plan(mgpt_model *m, struct linear *l, const struct gguf_tensor *t, size_t row,
              size_t n_out, mgpt_error *err);

/* What the weights of a tensor are multiplied as. pack.c. */
enum weight_type pack_type(const mgpt_model *m, const struct gguf_tensor *t);

/* Carries the plans out, on so many threads; 0: chosen. */
int model_pack(mgpt_model *m, int n_threads, mgpt_error *err);

/* Reads the hyper-parameters into model->shape and the fields beside it. hyperparams.c. */
int model_hyper(mgpt_model *m, mgpt_error *err);

/* Those of positions: rope and windows. positions.c. */
int model_positions(mgpt_model *m, mgpt_error *err);

/* What layers do not have tensors for: norm kinds, windows, ropes. After model_bind's slots. */
int model_layers(mgpt_model *m, mgpt_error *err);

/* What a session's cache holds unless it asks otherwise (mgpt.h, mgpt_session_params). */
enum kv_type model_kv_type(const mgpt_model *m);

/* All that mgpt_open would refuse in a file that has been parsed, but without the work of opening it: MGPT_OK
 * when it is a model, or a status. model.c. */
int model_check(const struct gguf *gguf, mgpt_error *err);

const struct tok *model_tok(const mgpt_model *m);

#endif
