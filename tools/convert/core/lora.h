/* Adapters (LoRA; Hu et al. 2021): small changes of a checkpoint's matrices.
 *
 *     W' = W + s B A,   s = SCALE * alpha / r        B [n_out, r], A [r, n_in]
 *     DoRA (Liu et al. 2024):   row i of W' = m_i (W + s B A)_i / |(W + s B A)_i|
 *
 * W' is computed while the values of W are read, so that there is no second copy of the model; A and
 * B are kept as floats. Order: the sum over r from 0 on, in double, times s, plus W; rounded to
 * float once. Several adapters are applied in order, each to the result of the one before. A matrix
 * that is changed has the element type F32; the others keep theirs.
 *
 * Two forms are read: directories of PEFT (families/peft.c), whose names are those of the model's
 * Hugging Face form, and GGUF files of llama.cpp, whose names are GGUF's (lora_gguf.c).
 */
#ifndef MGPT_CONVERT_LORA_H
#define MGPT_CONVERT_LORA_H

#include "convert/core/checkpoint.h"

enum { LORA_MAX_RANK = 1 << 14 };

struct lora_adapter {
    const char *path;    /* as the user wrote it */
    struct span weights; /* both stay as long as the checkpoint */
    struct span config;  /* PEFT: adapter_config.json; data NULL: GGUF */
    double scale;
};

/* Changes the checkpoint's tensors and says so in a note. Errors: MGPT_EFILE for an adapter of
 * another model, one that holds what cannot be applied exactly, or one of no known form; the
 * checkpoint is then of no use. */
int lora_apply(struct checkpoint *c, const struct lora_adapter *adapter, mgpt_error *err);

/* Apply an adapter of one form; here and below, faults leave the run (checkpoint.h). */
void lora_apply_gguf(struct checkpoint *c, const struct lora_adapter *adapter);
void lora_apply_peft(struct checkpoint *c, const struct lora_adapter *adapter);

/* The file name of the adapter without its folders, for messages. */
const char *lora_name(const struct lora_adapter *adapter);

/* What changes n_rows rows of a tensor, from row `first` on. */
struct lora_change {
    uint64_t first, n_rows, rank;
    const float *a;         /* [rank][row length of the tensor] */
    const float *b;         /* [n_rows][rank] */
    const float *magnitude; /* DoRA: [n_rows]; or NULL */
    double scale;
};

/* The tensor of this name, or NULL. */
struct ckpt_tensor *lora_find(struct checkpoint *c, const char *name);

/* t, which is a matrix of c, with the change. */
void lora_change(struct checkpoint *c, struct ckpt_tensor *t, const struct lora_change *change);

/* All values of a tensor as floats in c's memory, transposed if asked for. */
float *lora_floats(struct checkpoint *c, const struct ckpt_tensor *t, int transposed);

/* Errors that both forms share: the rank; rows and columns of the matrix that B A is; a table of tokens that is also the head, where the
 * program that trained the adapter and its merged model differ. */
void lora_check_rank(struct checkpoint *c, const char *name, uint64_t rank_a, uint64_t rank_b);
void lora_check_size(struct checkpoint *c, const char *name, const uint64_t found[2],
                     const uint64_t expected[2]);
void lora_check_tied(struct checkpoint *c, const char *name, const char *to);

#endif
