/* A model with one thing changed: a description for the float64 oracle, and a source of tensors
 * that reads the file with the change applied.
 *
 * Nothing is written anywhere; the model itself stays as it is. A change that does not fit (two
 * tensors of different shapes exchanged, say) fails with MGPT_EARG when the tensor is read.
 */
#ifndef MGPT_WHATIF_H
#define MGPT_WHATIF_H

#include "check/oracle/oracle_model.h"

/* How the tensors of an edit are read. The orders permute the rows of projections head by head, and
 * the columns of attn_output. */
enum whatif_change {
    TENSORS_AS_THEY_ARE,
    TENSORS_SWAPPED,    /* `names` and `other` have each other's name */
    TENSOR_HIDDEN,      /* names: "W_Q.bias W_K.bias"; none: all of the kind */
    TENSORS_TRANSPOSED, /* b: before the rows were permuted */
    LAYERS_MOVED,       /* layer n is the file's n + a; a 0: in reverse. names: only of these */
    LAYERS_SWAPPED,     /* layers a and b */
    LAYER_OTHER,        /* layer a is the file's b */
    TENSORS_COPIED,     /* `names` are the file's `other` */
    TENSORS_ZERO,
    /* b: which matrices, as bits: of layers 1, output 2, token_embd 4, others 8. a >= 0: element type.
     * a < 0: -a bits, one scale for each x values of a row (x = 0: for each row). */
    TENSORS_QUANTISED,
    TENSORS_SCALED,  /* times x */
    TENSOR_OF_LAYER, /* names: those of layer a are those of layer b */
    LAYERS_SHARED,   /* all layers have the file's tensors `names` of layer a; -1: of the last */
    /* Rows of gate and up alternate in one matrix, in the other all rows of gate come first. a = 0: they
     * alternate here, 1: in the reference. */
    ROWS_INTERLEAVED,
    /* a = 0: heads of q, k and v are stored by group and read as all of q, of k, of v; 1: the inverse. */
    QKV_GROUPED,
    EXPERTS_MOVED,    /* expert n is n + a, a 0: in reverse */
    EXPERTS_SWAPPED,  /* a and b */
    GAINS_SHIFTED,    /* x is added to the gains of norms */
    ORDER_TO_PAIRS,   /* row 2i is the file's i, 2i + 1 is i + n_rot / 2; a: number of heads */
    ORDER_FROM_PAIRS, /* inverse of ORDER_TO_PAIRS; b = 1: apply the permutation twice */
    /* Rows of q and k were reordered (oracle_layer.stored) with a wrong number of heads, `a`, or a wrong
     * width, `block`: when the file was made, or (UNBLOCKED) when the reference read it. */
    ORDER_REBLOCKED,
    ORDER_UNBLOCKED,
    ORDER_REVERSED, /* heads, last first */
    ORDER_ROLLED,   /* head h is the file's h + a */
    ORDER_BY_TWOS,  /* heads 0 and 1 exchanged, 2 and 3, ... */
    ORDER_GROUPED,  /* heads counted by group first */
    ORDER_UNGROUPED,
    ORDER_SWAPPED,    /* heads `a` and `b` exchanged */
    ORDER_COMPONENTS, /* component i of head h is the file's row i H + h */
    ORDER_HEADS,      /* the reverse */
    ORDER_QKV_AXES,   /* axes of one matrix: the reference reads order `a`, not `b` */
    ORDER_QKV_ROLLED, /* one matrix holds v, q, k (a 1) or k, v, q */
    ORDER_REGROUPED,  /* q, k, v stored head by head were separated for heads of width `block` */
    ORDER_ROW_NEXT,   /* row r is the file's r + 1, of any matrix */
    ORDER_ROW_PREVIOUS,
    ORDER_HALVES,    /* the second half of the rows comes first */
    ORDER_BACKWARDS, /* the last row comes first */
    ORDER_ROW_OTHER  /* row a is the file's b */
};
enum { QKV_PARTS, N_QKV_AXES = 6 }; /* all of q, of k, of v; orders of these axes */

/* Values used instead of a tensor of the file, or for one that the file lacks. */
struct whatif_tensor {
    char name[80];
    float *values; /* [n] */
    size_t n;
    const struct whatif_tensor *next; /* another one, or NULL */
};

/* What becomes of a row of logits as a whole. */
enum whatif_row {
    ROW_AS_IT_IS,
    ROW_PROBABILITIES,
    ROW_LOGARITHMS, /* natural logarithms of probabilities */
    ROW_LESS_LARGEST,
    ROW_LESS_MEAN,
    ROW_LOGARITHMS_2, /* logarithms of probabilities to base 2 */
    ROW_PLUS,         /* added[position] */
    ROW_DIVIDED,      /* by x */
    ROW_REPETITION    /* logits of the tokens so far: divided by x above 0, times x below */
};

/* Permutes and scales the values at a point, or n rows of a tensor: i becomes times[i] *
 * from[i]. */
struct whatif_columns {
    mgpt_point point;
    int layer;
    char tensor[80]; /* empty: at the point */
    size_t first, n; /* the rows begin at `first`, from which `from` counts */
    uint32_t *from;
    double *times;
    enum whatif_row how; /* instead */
    const double *added; /* [n_added] */
    size_t n_added;
    double x;
};

struct whatif;
struct whatif_edit;

/* The layers whose rotation an edit changes. */
enum whatif_layers { LAYERS_ALL, LAYERS_GLOBAL, LAYERS_WINDOWED };

/* Makes an edit in one layer or (-1) in all. 0: it changes nothing, or does not apply. */
typedef int whatif_fn(struct whatif *w, const struct whatif_edit *e, int layer);

/* One thing changed. `apply` is one of the functions below; each says which members it reads. */
struct whatif_edit {
    whatif_fn *apply;
    enum whatif_change change;
    const char *names, *other; /* roles, separated by spaces: "W_Q W_K" */
    const char *kind;          /* ".bias": only these; NULL: all tensors of the names */
    double x;
    int a, b;
    enum whatif_layers layers;
    size_t member; /* offset in struct oracle_spec or oracle_layer */
    const struct whatif_tensor *given;
    const struct whatif_columns *columns;
};

struct whatif {
    const mgpt_model *model;
    mgpt_info info;
    struct oracle_spec spec; /* spec.layers is `layers` */
    struct oracle_layer *layers;
    double *freq;                /* [n_layer][n_rot / 2], what the layers' freq point into */
    struct oracle_source source; /* the unchanged file */
    struct whatif_edit edit;     /* of tensors */
    int layer;                   /* of the edit; -1: all */
    int begins;                  /* layers before this one are those of `base` */
    size_t block, heads;         /* width of a head in orders, or their number; 0: as they are */
    const int32_t *tokens;       /* n of them */
    size_t n, n_more;            /* n_more tokens of the same text follow them */
    int offset;                  /* our position p is the reference's p - offset */
    const struct whatif *base;   /* of whatif_over, or NULL */
    int32_t *storage;            /* of changed tokens: n, n_more and PADDING_MOST */
    int32_t *places;             /* of spec.places */
    struct oracle_layer *turned; /* spec.turned */
    float *matrix;               /* the last one that was transposed */
    char matrix_name[80];
    char called[80], file_name[80]; /* the last tensor that was read, and the file's name of it */
    struct oracle_memo *memo;       /* of whatif_open */
};

/* The model as it is, for n tokens, which are borrowed. MGPT_OK or MGPT_EMEM. */
int whatif_open(struct whatif *w, const mgpt_model *model, const int32_t *tokens, size_t n,
                mgpt_error *err);

/* What `base` is, for its first n tokens: an edit of it adds to those of `base`, which must outlive
 * it. */
int whatif_over(struct whatif *w, const struct whatif *base, size_t n, mgpt_error *err);
void whatif_close(struct whatif *w);

/* Applies whatif_columns to the row of a position at a point; `scratch` has room for n. */
struct whatif_place {
    mgpt_point point;
    int layer;
    size_t pos;
};
void whatif_columns_at(const struct whatif *w, struct whatif_place at, double *row, size_t n,
                       double *scratch);

/* Makes an edit; as whatif_fn. Those of the rotation and of the width of heads do not apply to a model whose
 * layers differ in them. whatif_edit.c. */
int whatif_apply(struct whatif *w, const struct whatif_edit *e, int layer);

/* Whether `name` is one of the words of `list`, which ends at '=' or its end. */
int whatif_lists(const char *list, const char *name, size_t n);

/* ---- edits (whatif_edit.c, whatif_rope.c) ---- */

whatif_fn edit_tensors,                  /* change, names, other, kind, x, a, b */
    edit_spec, edit_layers,              /* member becomes x */
    flip_spec, flip_layers,              /* member is negated */
    choose_spec,                         /* member, an int, becomes a */
    flip_qk_norm,                        /* member is negated, in a model with norms of q and k */
    edit_activation,                     /* names */
    edit_act_late, edit_rope_values,     /* of gated MLPs; where something rotates */
    edit_window,                         /* larger by a; a 0: none */
    edit_window_size,                    /* x, in layers that have one */
    edit_scale_by_layer,                 /* attention scores of layer n are divided by n + 1 */
    edit_kv_heads,                       /* query head h reads KV head a (enum oracle_kv), of b */
    edit_all_keys,                       /* choose_spec, where what follows a position matters */
    edit_experts_used,                   /* a more; a 0: all */
    flip_experts,                        /* flip_spec, of mixtures */
    flip_gates,                          /* flip_spec, of gates of heads */
    edit_plain_softmax,                  /* a: their weights add up to 1 */
    edit_layer_skipped,                  /* layer a; its MLP (x 1) or attention (x -1) */
    edit_layers_cut,                     /* layers from a on are left out */
    edit_head_width,                     /* width a, rows in order `change` */
    edit_rounded,                        /* to type a, where b */
    edit_bos_added, edit_first_dropped,  /* tokens */
    edit_padded,                         /* a tokens of id b come first */
    edit_first_token,                    /* is b */
    edit_tokens_moved,                   /* by a; b: BOS comes first */
    edit_ids_shifted, edit_rows_shifted, /* by a */
    edit_given,                          /* given, columns */
    edit_norms,                          /* how a, which b, x for ORACLE_NORM_EPS */
    edit_mask_adds,                      /* x */
    edit_window_all,                     /* a in all layers; b: in chunks of that length */
    edit_zero_keys,                      /* of positions a to b */
    edit_turn_form,                      /* bits a */
    edit_first_keys, edit_prefix,        /* a */
    edit_turn_heads,                     /* a */
    edit_alibi,                          /* x, slopes as of a heads, b: ALIBI_ */
    edit_lost_head,                      /* head a of layer b; b -1: of all */
    edit_layer_again,                    /* layer a */
    choose_layers,                       /* member, an int, becomes a */
    flip_qk_bias,                        /* biases of q and k follow the rotation */
    edit_no_multipliers,                 /* of embeddings, branches, scores, logits */
    edit_residual_sum, /* s (x + f(x)) for x + s f(x), with s = x; 0: the model's */
    edit_raw;          /* products of the bits a */

whatif_fn edit_pairs, edit_as_stored, /* order of rotated components */
    edit_shown_pairs,                 /* of what is shown, where files have another order */
    edit_rope_base, edit_rope_factor, /* x, layers */
    edit_rope_linear, edit_rope_ntk,  /* factor x instead of the scaling that there is, layers */
    edit_rope_llama3,                 /* factor x, original length b, high_freq_factor a (0: 4) */
    edit_rope_yarn,                   /* factor x, original length b; a: bounds are not rounded */
    edit_rope_unscaled,               /* layers */
    edit_rope_other,                  /* layers have the base of the other ones */
    edit_layers_alike,                /* layers are like the other ones */
    edit_layers_pattern,              /* windows and RoPE of layer n are those of n + a here */
    edit_layers_kinds,    /* layers n with n % a = b (a 0: n >= b) are of one kind, `layers`,
                                       * the others of the other */
    edit_rope_everywhere, /* layers without RoPE have that of the others */
    edit_rope_factors,    /* divisors are those of the role `names` */
    edit_rotated,         /* a components of a head, otherwise as the bits of b say */
    edit_no_rope, edit_positions, /* shifted by a + x */
    edit_turn_one, /* of a (enum oracle_of) alone: b 0: other pairs, 1: edit_rope_factor */
    edit_places;   /* positions as enum whatif_places a says, with number b and x */

/* Positions of tokens, from b on otherwise than they are. */
enum whatif_places {
    PLACES_RESTART, /* 0, 1, ... again at every b-th token */
    PLACES_DOUBLED, /* what precedes a chunk of b tokens counts twice */
    PLACES_MOVED,   /* by x from token b on */
    PLACES_STAY,    /* at b - 1 */
    PLACES_SKIP,    /* one more for each chunk of b */
    PLACES_REPEAT,  /* one less for each chunk of b */
    PLACES_SHARED,  /* one more for each chunk of b alone */
    N_WHATIF_PLACES
};

/* The largest divisor of the file's frequencies: 1 without scaling. 0: nothing rotates. */
double whatif_rope_divisor(const struct whatif *w);

enum { PADDING_MOST = 8 };
enum {
    ALIBI_BACK = 1,
    ALIBI_NEGATIVE,
    ALIBI_TIMES,
    ALIBI_EVEN
}; /* edit_alibi's b; ALIBI_TIMES: slopes times x; ALIBI_EVEN: oracle_spec's alibi_even */

/* Bits of edit_rotated: the last components, pairs that reach over the whole head, adjacent ones;
 * frequencies as of a width that all of a head or the file's n_rot is. */
enum {
    ROTATED_LAST = 1,
    ROTATED_ACROSS = 2,
    ROTATED_ADJACENT = 4,
    ROTATED_AS_HEAD = 8,
    ROTATED_AS_FILE = 16,
    ROTATED_AS_EMBD = 32,
    ROTATED_MIXED = 64,
    ROTATED_BACKWARDS = 128, /* the last pair has the first one's frequency */
    ROTATED_HALVES = 256     /* of a model of adjacent pairs */
};

#endif
