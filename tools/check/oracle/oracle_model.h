/* A model as the float64 oracle takes it: what binding found, and tensors read from the file
 * again. */
#ifndef MGPT_ORACLE_MODEL_H
#define MGPT_ORACLE_MODEL_H

#include "check/oracle/oracle.h"

/* The description of a model; the caller frees *layers. MGPT_OK or MGPT_EMEM. The model must
 * outlive it. */
int oracle_describe(const mgpt_model *model, struct oracle_spec *spec, struct oracle_layer **layers,
                    mgpt_error *err);

/* A source that reads each tensor of a file once and keeps it, up to 256 MB of all. NULL: out of
 * memory. */
struct oracle_memo;
struct oracle_memo *oracle_memo_new(const mgpt_model *model, struct oracle_source file,
                                    mgpt_error *err);
struct oracle_source oracle_memo_source(struct oracle_memo *memo);
void oracle_memo_free(struct oracle_memo *memo);

/* The name in the file of a role's tensor (oracle.h), there or not; kind: ".weight", ".bias". */
void oracle_model_name(const mgpt_model *model, int layer, int role, const char *kind,
                       char name[ORACLE_NAME]);

/* A role of the oracle's as a word, "W_Q"; NULL: there is none. And back; -1: it is no word. */
const char *oracle_word(int role);
int oracle_role_of_word(const char *word, size_t n);

/* The layer of a tensor's name in the file, or -1; *stem is what follows the layer. */
int oracle_layer_of(const char *name, const char **stem);

/* The role of the tensor with the stem of n characters in a layer, or outside (-1); -1: none. */
int oracle_role_of(const mgpt_model *model, int layer, const char *stem, size_t n);

/* oracle_model_name without the layer. Returns a part of `name`. */
const char *oracle_stem(const mgpt_model *model, int layer, int role, const char *kind,
                        char name[ORACLE_NAME]);

/* The name in a file of a layer, or outside (-1): prefix, stem and `kind`. */
void oracle_name(char name[ORACLE_NAME], int layer, const char *stem, const char *kind);

/* The i-th matrix or vector by name, or NULL: the tensor as the file has it. */
int oracle_tensor_find(const mgpt_model *model, const char *name, mgpt_tensor *tensor);

/* Rows of q and k are shown in another order than they have in the tensors: mgpt_model.qk_order, or
 * NULL. */
const uint32_t *oracle_qk_order(const mgpt_model *model, size_t *head_dim);

/* The engine's pass over n tokens with a cache in float32, watched at `points`. A tap that ends the
 * pass has set *err; its status is returned. */
int oracle_engine_pass(const mgpt_model *model, const int32_t *tokens, size_t n, uint64_t points,
                       mgpt_tap_fn *tap, void *user, mgpt_error *err);

int oracle_final_norm(const mgpt_model *model);

#endif
