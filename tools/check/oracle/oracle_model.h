/* A model as the float64 oracle takes it: what binding found, and tensors read from the file
 * again. */
#ifndef MGPT_ORACLE_MODEL_H
#define MGPT_ORACLE_MODEL_H

#include "check/oracle/oracle.h"

/* The description of a model; the caller frees *layers. MGPT_OK or MGPT_EMEM. The model must
 * outlive it. */
int oracle_describe(const mgpt_model *model, struct oracle_spec *spec, struct oracle_layer **layers,
                    mgpt_error *err);

/* The i-th matrix or vector by name, or NULL: the tensor as the file has it. */
int oracle_tensor_find(const mgpt_model *model, const char *name, mgpt_tensor *tensor);

/* Rows of q and k are shown in another order than they have in the tensors: mgpt_model.qk_order, or
 * NULL. */
const uint32_t *oracle_qk_order(const mgpt_model *model, size_t *head_dim);

int oracle_final_norm(const mgpt_model *model);

#endif
