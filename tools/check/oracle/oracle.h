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
#include "model/numbers.h"

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

/* What layer.kv applies to (layer.kv_of: keys, values or both), and what spec.turned applies to
 * (spec.turned_of: keys or queries). The rest is as in models. */
enum oracle_of { ORACLE_OF_BOTH, ORACLE_OF_KEYS, ORACLE_OF_VALUES, ORACLE_OF_QUERIES };

/* The keys that a query sees. A window, where there is one, limits them further. */
enum oracle_mask {
    ORACLE_CAUSAL,        /* up to its own position: the causal mask */
    ORACLE_NEXT_KEY,      /* and the next one */
    ORACLE_ALL_KEYS,      /* all of the text */
    ORACLE_NOT_OWN_KEY,   /* causal without its own key, unless no other is left */
    ORACLE_NOT_FIRST_KEY, /* causal without the first key, unless no other is left */
    ORACLE_CHUNKS,        /* with windows: causal, within its own chunk of the window's length */
    ORACLE_BOTH_SIDES,    /* with windows: as many keys after its position as before */
    ORACLE_LATER_KEYS     /* from its own position on */
};

/* The sum that weights of attention are divided by. m is the largest score s of the row. */
enum oracle_softmax {
    ORACLE_SUM,        /* of exp(s - m) over the keys that the query sees */
    ORACLE_SUM_FROM_1, /* and 1 */
    ORACLE_SUM_WITH_0, /* and exp(-m) */
    ORACLE_OVER_HEADS, /* over all heads of a query and key; keys that are not seen get equal weights */
    ORACLE_OF_ALL_KEYS, /* over all keys; weights of keys that are not seen become 0 after it */
    ORACLE_OVER_QUERIES /* over the queries that see a key */
};

/* The soft cap of attention is taken of scaled scores, of those before, or after keys that are not seen
 * got -infinity: they take part with -cap. Or those have a score of 0, with or without a cap, or their
 * own and mask_adds. */
enum oracle_cap {
    ORACLE_CAP_SCALED,
    ORACLE_CAP_FIRST,
    ORACLE_CAP_MASKED,
    ORACLE_MASKED_0,
    ORACLE_MASK_ADDS
};

/* What norms do that is not what they should: LayerNorm for RMSNorm or the reverse, the mean of squares
 * by n - 1, their sum, eps after the root, gains before, gains alone, twice, not at all, norm_eps. */
enum oracle_norm_how {
    ORACLE_NORM_AS_IS,
    ORACLE_NORM_OTHER,
    ORACLE_NORM_UNBIASED,
    ORACLE_NORM_SUM,
    ORACLE_NORM_EPS_OUTSIDE,
    ORACLE_NORM_GAIN_FIRST,
    ORACLE_NORM_GAIN_ONLY,
    ORACLE_NORM_TWICE,
    ORACLE_NORM_LEFT_OUT,
    ORACLE_NORM_EPS
};

/* Which norms, as bits. */
enum oracle_norm_where {
    ORACLE_NORM_ATTN = 1,
    ORACLE_NORM_MLP = 2,
    ORACLE_NORM_FINAL = 4,
    ORACLE_NORM_Q = 8,
    ORACLE_NORM_K = 16,
    ORACLE_NORM_POST_ATTN = 32,
    ORACLE_NORM_POST_MLP = 64,
    ORACLE_NORM_EMBD = 128,
    ORACLE_NORM_ALL = 255
};

/* Where the two norms of a layer are: as in the model; after their branches; after these were added;
 * before the branches, of a model that has them after; those after the branches of the sums. */
enum oracle_norm_order {
    ORACLE_NORMS_AS_THEY_ARE,
    ORACLE_NORMS_OF_BRANCHES,
    ORACLE_NORMS_OF_SUMS,
    ORACLE_NORMS_FIRST,
    ORACLE_NORMS_AFTER_SUMS
};

/* Products that read the residual, not its norm, as bits. */
enum oracle_raw {
    ORACLE_RAW_Q = 1,
    ORACLE_RAW_K = 2,
    ORACLE_RAW_V = 4,
    ORACLE_RAW_GATE = 8,
    ORACLE_RAW_UP = 16,
    ORACLE_RAW_ROUTER = 32
};

/* What one layer does beyond its tensors. */
struct oracle_layer {
    const double *freq; /* radians a position turns each pair by, [n_rot / 2]; NULL: no rotation */
    double rope_scale;  /* multiplies what was rotated */
    size_t window;      /* most keys a query sees; 0: all */
    size_t conv;        /* tokens that a short convolution adds up in place of attention; 0 */
    const char *activation; /* a name of math_activate: ACTIVATIONS, and what others have */
    /* p, n, beta, eps: p x^2 + beta x for x > 0, else n (e^min(x, eps) - 1 - x) + beta x. */
    double xielu[4];
    double attn_scale;
    /* For models whose layers differ; 0: the spec's. */
    size_t n_head, n_head_kv, head_dim, value_dim, n_rot, n_ff;
    size_t n_gate;    /* with n_head */
    int others_keys;  /* its keys and values are those of the last layer before it that has some of
                                its own, and a window, too, or none */
    double out_scale; /* of the residual after the layer; 0 means 1 */
    double keep, mix_in_x0;  /* x = keep x + mix_in_x0 x0 before the layer, x0: input of layer 0 */
    size_t value_gate;       /* columns of its matrix; 0: no value embeddings */
    int halves;              /* pairs are (i, i + n_rot / 2), not (2i, 2i + 1) */
    int adjacent;            /* pairs are 2i and 2i + 1 of what is shown */
    int attn_norm, mlp_norm; /* the branch reads a norm of the residual, not the residual itself */
    int shared_norm;         /* the MLP's is attn_norm, too */
    int parallel;            /* both branches read the same residual */
    enum oracle_components stored;
    enum oracle_kv kv;
    int kv_of;                /* enum oracle_of */
    int no_attention, no_mlp; /* adds nothing to the residual */
    /* The branch is added to (1 + attn_more) times the residual; -1: it takes the residual's place. */
    double attn_more;
    double mlp_more;
    int again;          /* the layer runs twice */
    int act_both;       /* the activation of gate and of up */
    size_t lost_head;   /* head lost_head - 1 adds nothing; 0: none */
    int mlp_from_start; /* the MLP's output is added to the layer's input */
    int raw;            /* enum oracle_raw */
    int act_late;       /* the activation of gate times up, not of gate */
    int no_up;          /* gate is not multiplied with up */
    int mlp_first;      /* attention follows the MLP */
    int kv_late;        /* keys and values are those of the position before, but for the first */
    int residual_normed; /* attention (1), the MLP (2) adds to its input, not to what was normalised */
};

enum oracle_qk { ORACLE_QK_PLAIN, ORACLE_QK_PER_HEAD, ORACLE_QK_WHOLE };

/* Results are rounded to a shorter type: those of the whole pass, of norms only, of a norm's mean of
 * squares, whose terms may be rounded before, or cosines and sines, weights when they are read,
 * frequencies, keys and values as they are stored, the weights of attention; angles of RoPE, the residual
 * after each layer, both sides of products, logits, scores of attention; these and their softmax;
 * results of norms. */
enum oracle_type {
    ORACLE_EXACT,
    ORACLE_BF16,
    ORACLE_F16,
    ORACLE_F8_E4M3,
    ORACLE_F8_E5M2,
    ORACLE_TF32,
    ORACLE_INT8, /* of the cache: with a factor for each head; for each 32 values, in float16 */
    ORACLE_Q8_0
};
enum oracle_rounded {
    ORACLE_ALL,
    ORACLE_NORMS,
    ORACLE_SQUARES,
    ORACLE_VARIANCE,
    ORACLE_TURNS,
    ORACLE_WEIGHTS,
    ORACLE_FREQUENCIES,
    ORACLE_CACHE,
    ORACLE_PATTERN,
    ORACLE_ANGLES,
    ORACLE_RESIDUAL,
    ORACLE_PRODUCTS,
    ORACLE_LOGITS,
    ORACLE_SCORES,
    ORACLE_SOFTMAX,
    ORACLE_NORM_RESULTS
};

enum oracle_tensor { ORACLE_ABSENT, ORACLE_FLOATS, ORACLE_INTEGERS };

/* What the oracle reads: roles (mgpt_role), each from a tensor of its own, and tensors that hold
 * several. Gate and up in one tensor are W_UP. */
enum {
    ORACLE_W_QKV = MGPT_N_ROLES, /* q, k and v in one tensor; B, C and x of a short convolution */
    ORACLE_SHARED_W_GATE,        /* of the shared expert of a mixture */
    ORACLE_SHARED_W_UP,
    ORACLE_SHARED_W_DOWN,
    N_ORACLE_ROLES
};

enum { ORACLE_NAME = 80 };

/* Names, looks up and reads tensors. */
struct oracle_source {
    enum oracle_tensor (*find)(void *user, const char *name);
    /* Row `row` of n values; a vector is row 0. Returns a status. */
    int (*read)(void *user, const char *name, size_t row, size_t n, float *out, mgpt_error *err);
    void *user;
    /* n_rows rows from `row` on where they are kept, borrowed; NULL: they have to be read. The
     * function may be NULL. */
    const float *(*rows)(void *user, const char *name, size_t row, size_t n_rows, size_t n);
    /* The name of a role's tensor in a layer, or outside (-1); `kind`: ".weight" or ".bias". It need
     * not be there. */
    void (*name)(void *user, int layer, int role, const char *kind, char name[ORACLE_NAME]);
};

struct oracle_spec {
    struct oracle_source source;
    const struct oracle_layer *layers;
    size_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_rot;
    size_t n_gate; /* rows of gates of heads: n_head, or a row for each value; 0: none */
    size_t value_dim, n_latent, n_q_latent; /* as in struct model_shape; value_dim 0: head_dim */
    double eps;
    MODEL_NUMBERS(NUMBER_DOUBLE) /* model/numbers.h; attn_scale is each layer's own */
    double smear_scale, backout; /* 0: none */
    size_t smear_gate;           /* columns of its matrix */
    size_t alibi_heads;          /* slopes are those of as many; 0: n_head */
    int alibi_even;              /* slope h is 2^(-alibi (h + 1) / H) for every H */
    int alibi_back;              /* the last head has the first one's */
    double alibi_times;          /* slopes; 0: 1 */
    size_t n_expert, n_expert_used, n_ff_expert, n_ff_shared; /* mixtures; 0: none */
    int expert_norm, expert_sigmoid;                          /* as in struct mgpt_model */
    double expert_scale, expert_more;
    size_t expert_groups, expert_groups_used; /* 0 or 1: no groups */
    int softplus_gates;                       /* not sigmoids */
    int no_gates;                             /* for --explain: heads are not gated */
    int no_expert_bias;               /* for --explain: the choice is by probability alone */
    int v_norm;                       /* v is normalised per head, without a gain */
    int n_input;                      /* width of each layer's input; 0: none */
    int layer_norm;                   /* the mean is removed */
    int embd_norm, final_norm, gated; /* final_norm: how often */
    const char *head_act;             /* activation of the matrix before the head */
    int dense_head;  /* 1: there is one, with a norm. For --explain: 2 not activated, 3 no norm */
    int final_shown; /* MGPT_FINAL fires also without a final norm */
    enum oracle_qk qk_norm;
    int int8_inputs; /* integer weights take their input in blocks of int8 (src/kernels/kernels.h) */
    int shift;       /* added to every position, not below 0 */
    int qk_norm_late;     /* after the rotation */
    size_t query_context; /* of query_beta */
    /* What no model has, for --explain; 0 is as models are. */
    int qk_norm_other;              /* one norm over all heads in place of each, or the inverse */
    int no_norm_q, no_norm_k;       /* q or k has no norm, in spite of qk_norm */
    int norm_moved_q, norm_moved_k; /* the norm of q or k is on the other side of the rotation */
    int no_rope_q, no_rope_k;       /* q or k is not rotated */
    int no_latent_norm;             /* latents are not normalised */
    int rope_v;                     /* values are rotated as keys are */
    int v_is_k;                     /* values are the rotated keys */
    const struct oracle_layer *turned; /* [n_layer]: the rotation of turned_of is theirs; or NULL */
    int turned_of;                     /* enum oracle_of: keys or queries */
    int shift_k;                       /* added to the positions of keys, not below 0 */
    int qk_bias_late;                  /* biases of q and k follow the rotation */
    double attn_times, mlp_times;      /* factors of the branches; 0 means 1 */
    double position_times;             /* factor of the position embeddings; 0 means 1 */
    int rope_again_q, rope_again_k;    /* rotated twice */
    int cap_of_x;          /* the soft cap c on logits gives x tanh(x / c), not c tanh(x / c) */
    int bias_of_scores;    /* the bias of the choice is added to scores, not to probabilities */
    int residual_by_depth; /* x = (sqrt(k) x + y) / sqrt(k + 1) for the k-th branch's y */
    int half_shared;       /* the sum of a shared expert and the chosen ones is halved */
    int expert_raw;        /* weights of experts are their scores */
    double heads_times;    /* the outputs of heads are multiplied by it; 0 means 1 */
    int shared_gate_late;  /* the shared expert's gate is of the sum with the others */
    int heads_first;       /* attention's output [H][T][d] is taken for [T][H d] */
    int mask, softmax;     /* enum oracle_mask, oracle_softmax */
    int rot_mixed;         /* component i of halves turns as that of adjacent pairs, or reverse */
    int norm_how, norm_where; /* enum oracle_norm_how, of which norms */
    double norm_eps, mask_adds;
    int norm_order, cap_at;      /* enum oracle_norm_order, oracle_cap */
    const int32_t *places;       /* [n]: positions of the tokens; NULL: 0, 1, 2, ... */
    size_t zero_from, zero_to;   /* positions whose keys and values are 0 */
    size_t first_keys, prefix;   /* keys that are seen in spite of windows; that see each other */
    unsigned turn_form;          /* bits in which the turn of a pair differs: oracle_attention.c */
    size_t turn_heads;           /* heads that are rotated; 0: all */
    int turn_by_head;            /* by the number of the head, not by the position */
    size_t n_stored;             /* n_rot of oracle_layer.stored; 0: the same */
    size_t rot_first, rot_apart; /* first component that is rotated; of a pair, 0: n_rot / 2 */
    enum oracle_type type;       /* results are rounded to it ... */
    enum oracle_rounded rounded; /* ... where */
    size_t first_layer;          /* the pass begins there, without points before it, ... */
    const double *residual;      /* ... with this residual, [n][n_embd]; NULL: with embeddings */
    uint64_t points;             /* bits of those that are shown; 0: all */
};

/* Heads of queries and of keys, their width and the components that turn: the layer's own, or the
 * model's. */
struct oracle_head_sizes {
    size_t n, kv, width, rot;
};

static inline struct oracle_head_sizes oracle_head_sizes(const struct oracle_spec *s, int layer)
{
    const struct oracle_layer none = {0}, *l = layer < 0 ? &none : &s->layers[layer];
    return (struct oracle_head_sizes){.n = l->n_head ? l->n_head : s->n_head,
                                      .kv = l->n_head_kv ? l->n_head_kv : s->n_head_kv,
                                      .width = l->head_dim ? l->head_dim : s->head_dim,
                                      .rot = l->n_rot ? l->n_rot : s->n_rot};
}

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
