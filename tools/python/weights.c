/* Facts of weights for the Python package, which the public header does not have. */
#include "model/model.h"

/* For ctypes (conventions.py). Returns [head_dim]: row i of a head of q or k, as taps show it, is row
 * order[i] of its tensor (mgpt_model.qk_order); NULL: rows are as in the tensor. */
const uint32_t *weights_qk_order(const mgpt_model *model);

const uint32_t *weights_qk_order(const mgpt_model *model)
{
    return model->qk_order;
}
