/* Inside the oracle: its buffers, attention (oracle_attention.c), MLP and experts (oracle_experts.c). */
#ifndef MGPT_ORACLE_IMPL_H
#define MGPT_ORACLE_IMPL_H

#include "check/oracle/oracle.h"

struct oracle {
    const struct oracle_spec *s;
    oracle_point *fn;
    void *user;
    const int32_t *tokens;
    size_t T, E, H, G, d, F, V, qw, kw, n_rot; /* H, G, d, F, qw, kw, n_rot: of the layer */
    size_t vd, vw, zw;  /* width of a value; those of a token, and the outputs of heads */
    double *kept[2][2]; /* keys and values of the last layer with a window, without one; or NULL */
    double *inputs;     /* [T][n_layer n_input] */
    struct oracle_spec plain; /* with norms as they are */
    double *x, *x0, *middle, *start, *h, *q, *k, *v, *z, *a, *f, *up, *logits, *scores;
    double *c, *kv; /* latent attention: latents, keys and values of all heads */
    double *gates;  /* of heads */
    double *sums;   /* of softmax over heads or queries */
    double *m, *y, *weights, *probabilities; /* mixtures: [T][E], [T][E], [T][X], [X] */
    double *in, *rows; /* of products: MATH_ROWS positions at a time, and as they are */
    float *row, *gain, *bias;
    mgpt_error *err;
    int status;
};

void oracle_fire(struct oracle *o, mgpt_point at, int layer, size_t pos, size_t head, double *row,
                 size_t n);

/* Fires a point for every position. */
void oracle_fire_rows(struct oracle *o, mgpt_point at, int layer, double *x, size_t cols);

enum oracle_tensor oracle_find(const struct oracle *o, int layer, int role, const char *kind);

/* Row `row`, n values, of a tensor that must be there. */
void oracle_read_row(struct oracle *o, int layer, int role, const char *kind, size_t row, size_t n,
                     float *out);

/* A vector that may be absent: n floats in buf, or NULL. */
const float *oracle_vector(struct oracle *o, int layer, int role, const char *kind, size_t n,
                           float *buf);

/* A norm of rows as wide as the residual, with the gain and bias that there are. y may be x. */
void oracle_norm(struct oracle *o, int layer, int role, double *y, const double *x);

/* The norms of a branch, where they are. */
enum { NO_NORM = -1 };
struct oracle_branch {
    int before, after, sum; /* roles, or NO_NORM */
};
/* The input of a branch, attention (1) or the MLP (2), into h. */
void oracle_branch_input(struct oracle *o, int layer, int branch, int role);

/* The output of a branch, n values, in place. */
void oracle_branch_output(struct oracle *o, int layer, int role, double times, double *y);

struct oracle_branch oracle_branch_norms(const struct oracle *o, int layer, int role, int normed,
                                         int after);

/* The norm before the MLP: its own, or attention's. */
int oracle_mlp_norm(const struct oracle *o, int layer);

/* The spec that norms of that kind follow (enum oracle_norm_where). */
const struct oracle_spec *oracle_norm_spec(const struct oracle *o, int where);

/* y = rows [first, first + n_out) of a matrix times x, plus bias. */
void oracle_matmul(struct oracle *o, int layer, int role, size_t first, const double *x,
                   size_t n_in, size_t n_out, double *y);

/* y = down (act(gate h) * up h), or down act(up h) without a gate, F wide. */
struct oracle_mlp {
    int gate, up, down; /* roles; gate may be `up`: its first F rows */
    size_t F, number;   /* number of an expert: its matrices are parts of the tensors */
    int points;         /* 1: fires the points of the MLP */
};
void oracle_mlp(struct oracle *o, int layer, const struct oracle_mlp *mlp, double *y);

/* The layer's mixture of experts of h, into h. */
void oracle_mixture(struct oracle *o, int layer);

/* What is added besides the branches: after the embedding's norm, to values, before a layer, after
 * one; and gates of heads. oracle_mix_in.c. */
void oracle_smear(struct oracle *o);
void oracle_token_values(struct oracle *o, int layer);
void oracle_gate_heads(struct oracle *o, int layer);
void oracle_mix_in_x0(struct oracle *o, int layer);
void oracle_back_out(struct oracle *o, int layer);

/* H, G, d, F, qw, kw and n_rot of a layer: its own, or the spec's. oracle_inputs.c. */
void oracle_enter_layer(struct oracle *o, const struct oracle_layer *l);

/* The widths of all layers: the largest of MLPs and convolutions, of queries and keys (in o); whether any
 * layer reads the keys of another one. */
void oracle_widen(struct oracle *o, size_t *F, size_t *conv, int *shares);

/* Keeps keys and values for the layers that read them, or takes those of the layer that has them. */
void oracle_share_keys(struct oracle *o, int layer);

/* Layers' inputs, and what they add to the residual. oracle_inputs.c. */
void oracle_make_inputs(struct oracle *o);

/* x = norm(act(W x)), which the head reads, if the model has that. */
void oracle_make_head_input(struct oracle *o);
void oracle_add_input(struct oracle *o, int layer);

/* Normalises the residual, if there is such a norm. */
void oracle_residual_norm(struct oracle *o, int layer, int role);

/* Where a tensor has component i of a head that is shown. */
size_t oracle_stored(const struct oracle *o, int layer, size_t i);

size_t oracle_position(const struct oracle *o, size_t t);

/* Attention of the normed residual, h: the outputs of heads, into z. Keys that a query does not see
 * have score -inf and weight 0, also when a caller changes them. */
void oracle_heads(struct oracle *o, int layer);

/* q, k and v of latent attention before the rotation. oracle_latent.c. */
void oracle_latent(struct oracle *o, int layer);

/* A short convolution of h in place of attention, into z: C * conv(B * x), all E wide (LFM2). */
void oracle_convolution(struct oracle *o, int layer);

#endif
