/* The tensors of each stage of the pass: at which point their effect shows first, and what they are
 * multiplied with. */
#ifndef MGPT_STAGES_H
#define MGPT_STAGES_H

#include "check/oracle/oracle_model.h"
#include "check/reference/reference.h"

/* The points where a change of some tensors shows first: of "W_Q W_K", of "W_Q.bias". */
uint64_t stage_points(const char *tensors);

/* Role of the norm whose output a point is; -1: the point is not the output of a norm. */
int stage_norm(mgpt_point point);

/* Whether a hook holds the output of a norm, as products do where the model has a norm after
 * them. */
int stage_is_normed(const mgpt_model *model, struct ref_hook hook);

/* The tensor whose product a hook holds. */
struct stage_product {
    char name[80];          /* in the file */
    int role;               /* of oracle.h */
    size_t first_row, n_in; /* the hook's rows begin at first_row */
    mgpt_point input;       /* the point of its input */
    mgpt_tensor tensor;
    const uint32_t *order; /* of the rows of each head (mgpt_model.qk_order), or NULL */
    size_t head_dim;
};

/* 0: the hook is not a product. */
int stage_product(struct stage_product *product, const mgpt_model *model, struct ref_hook hook);

/* The row of the tensor that column `column` of the hook is the product of. */
size_t stage_product_row(const struct stage_product *p, size_t column);

/* The name of a role's tensor of that kind; layer -1: no layer. Returns whether the model has it. */
int stage_tensor(const mgpt_model *m, int layer, int role, const char *kind, char name[80],
                 mgpt_tensor *t);

#endif
