/* Reference logits: what another program computed for some tokens, in the files people make.
 *
 *   JSON  {"input": [ids], "logits": [[...], ...]} or a list of these; input may be called ids,
 *         input_ids or tokens; "text" is a label
 *   .npz  entries tokens, input_ids, input or ids, and logits; stored or deflated
 *   .npy  logits only; the ids come from the caller
 *
 * There is one row of logits per token. A leading dimension of 1 (a batch) is accepted everywhere.
 * Files are untrusted; logits are checked against the vocabulary before anything is allocated for
 * them, and read row by row, so that a large .npz needs one row of memory.
 */
#ifndef MGPT_REFERENCE_H
#define MGPT_REFERENCE_H

#include "mgpt.h"

struct reference;

/* One sequence: ids[0 .. n). */
struct ref_sequence {
    const char *label; /* may be NULL; UTF-8, any character */
    const int32_t *ids;
    size_t n;
};

/* Opens a reference for a model with n_vocab logits a row. `ids` (NULL, or the text of a list of
 * ids) is for .npy and is refused for files that have their own. */
struct reference *reference_open(const char *path, const char *ids, int32_t n_vocab,
                                 mgpt_error *err);
void reference_close(struct reference *ref);

size_t reference_count(const struct reference *ref);
struct ref_sequence reference_sequence(const struct reference *ref, size_t i);

/* Copies row `row` of sequence i to out (n_vocab doubles). Rows must be asked for in order; rows at
 * the end may be left out. NaN and infinities are passed on as they are. */
int reference_row(struct reference *ref, size_t i, size_t row, double *out, mgpt_error *err);

#endif
