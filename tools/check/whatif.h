/* What a model would be if one thing about it were different: a description for the float64 oracle that
 * can be changed, and a source of tensors that reads them otherwise than they stand in the file.
 *
 * Nothing is written anywhere; the model itself stays as it is. What does not fit (two tensors of
 * different shapes exchanged, say) fails when it is read, with MGPT_EARG.
 */
#ifndef MGPT_WHATIF_H
#define MGPT_WHATIF_H

#include "oracle_model.h"

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
    ORDER_SWAPPED,    /* heads `a` and `b` exchanged */
    ORDER_QKV_BY_HEAD /* one matrix holds q, k and v of head 0, then of head 1, ... */
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
    int a, b;
    double gain;         /* added to the gains of norms */
    int layer_step;      /* layer n is what stands at n + step; -n_layer: in reverse */
    const char *patched; /* one value of this tensor is another one */
    uint64_t patch_at;
    float patch;
    const int32_t *tokens; /* n of them */
    size_t n;
    int offset;       /* our position p answers to the reference's p - offset */
    int32_t *storage; /* of changed tokens */
    float *matrix;    /* the last one that was turned */
    char matrix_name[80];
};

/* The model as it is, for n tokens, which are borrowed. MGPT_OK or MGPT_EMEM. */
int whatif_open(struct whatif *w, const mgpt_model *model, const int32_t *tokens, size_t n,
                mgpt_error *err);
void whatif_close(struct whatif *w);

/* Whether `name` is one of the words of `list`. */
int whatif_lists(const char *list, const char *name, size_t n);

#endif
