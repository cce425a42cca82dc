/* What a model would be if one thing about it were different: a description for the float64 oracle that
 * can be changed, and a source of tensors that reads them otherwise than they stand in the file.
 *
 * Nothing is written anywhere; the model itself stays as it is. What does not fit (two tensors of
 * different shapes exchanged, say) fails when it is read, with MGPT_EARG.
 */
#ifndef MGPT_WHATIF_H
#define MGPT_WHATIF_H

#include "check/oracle/oracle_model.h"

/* Another order of the rows of a projection (or the columns of attention's output), head by head. */
enum whatif_order {
    ORDER_SAME,
    ORDER_TO_PAIRS,   /* row 2i holds what stands at i, 2i + 1 what stands at i + n_rot / 2 */
    ORDER_FROM_PAIRS, /* the reverse */
    ORDER_REVERSED,   /* heads, last first */
    ORDER_NEXT,       /* head h holds what stands at head h + 1 */
    ORDER_PREVIOUS,
    ORDER_GROUPED, /* heads counted by group first */
    ORDER_UNGROUPED,
    ORDER_SWAPPED,     /* heads `a` and `b` exchanged */
    ORDER_QKV_BY_HEAD, /* one matrix holds q, k and v of head 0, then of head 1, ... */
    ORDER_QKV_NEXT,    /* where q, k, v are expected stand v, q, k */
    ORDER_QKV_PREVIOUS,
    ORDER_REBLOCKED, /* rows of q and k were reordered (oracle_layer.stored) in heads of width `block` */
    ORDER_REGROUPED, /* q, k, v of one head after another were taken apart for heads of that width */
    ORDER_ROW_NEXT,  /* row r holds what stands at row r + 1, whatever matrix it is */
    ORDER_ROW_PREVIOUS
};

/* Values to stand for a tensor of the file, or for one that it lacks. */
struct whatif_tensor {
    char name[80];
    float *values; /* [n] */
    size_t n;
    const struct whatif_tensor *next; /* another one, or NULL */
};

/* What becomes of the values at a point, or of n rows of a tensor: i is times[i] * what stands at from[i]. */
struct whatif_columns {
    mgpt_point point;
    int layer;
    char tensor[80]; /* empty: at the point */
    size_t first, n; /* the rows begin at `first`, from which `from` counts */
    uint32_t *from;
    double *times;
    int log_softmax; /* nothing of that: less the logarithm of the sum of their exponentials */
};

struct whatif {
    const mgpt_model *model;
    mgpt_info info;
    struct oracle_spec spec; /* spec.layers is `layers` */
    struct oracle_layer *layers;
    double *freq;                /* [n_layer][n_rot / 2], what the layers' freq point into */
    struct oracle_source source; /* the file as it is */
    int layer;                   /* the one that what follows is about; -1: all */
    const char *swap[2];         /* these two tensors have each other's name */
    const char *hide;            /* is not there: "output.weight", "attn_q.bias" */
    const char *turn;            /* matrices whose columns stand as rows, "name name" */
    const char *ordered;         /* projections whose rows stand in another order, "name name" */
    enum whatif_order order;
    size_t block; /* width of a head in ORDER_REBLOCKED and ORDER_REGROUPED */
    int a, b;
    double gain;         /* added to the gains of norms */
    int layer_step;      /* layer n is what stands at n + step; -n_layer: in reverse */
    const char *patched; /* one value of this tensor is another one */
    uint64_t patch_at;
    float patch;
    const struct whatif_tensor *given;    /* NULL: none */
    const struct whatif_columns *columns; /* NULL: none */
    const int32_t *tokens;                /* n of them */
    size_t n, n_behind; /* there are so many more of the same text behind these n */
    int offset;         /* our position p answers to the reference's p - offset */
    int32_t *storage;   /* of changed tokens */
    float *matrix;      /* the last one that was turned */
    char matrix_name[80];
};

/* The model as it is, for n tokens, which are borrowed. MGPT_OK or MGPT_EMEM. */
int whatif_open(struct whatif *w, const mgpt_model *model, const int32_t *tokens, size_t n,
                mgpt_error *err);
void whatif_close(struct whatif *w);

/* Applies w->columns to a row at a point; `scratch` has room for n. */
void whatif_edit(const struct whatif *w, mgpt_point point, int layer, double *row, size_t n,
                 double *scratch);

/* Whether `name` is one of the words of `list`. */
int whatif_lists(const char *list, const char *name, size_t n);

#endif
