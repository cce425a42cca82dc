/* Importance matrices: how much an error in each column of a matrix matters, as the mean of the
 * squares that the column multiplies in a text. `mgpt imatrix` and llama-imatrix measure them.
 *
 * Two forms are read. GGUF: of a matrix NAME the tensors NAME.in_sum2 [columns, experts] and
 * NAME.counts [experts], both F32. Before it, of bytes that begin with the number of entries:
 *     i32 length, name, i32 calls, i32 n, n x f32 sums     for each entry
 * A mean of the older form is sum / calls.
 */
#ifndef MGPT_CONVERT_IMPORTANCE_H
#define MGPT_CONVERT_IMPORTANCE_H

#include "convert/core/checkpoint.h"

/* Gives the checkpoint's matrices their importance, and says in a note how many have it. MGPT_EFILE
 * for another file, or one of another model; the checkpoint is then of no use. */
int ckpt_weigh(struct checkpoint *c, struct span bytes, mgpt_error *err);

/* Encodes n values of a tensor, from `first` on, as blocks of `type`, by their importance if the
 * tensor has one. */
void ckpt_encode(const struct ckpt_tensor *t, const struct dtype *type, uint64_t first, size_t n,
                 const float *values, uint8_t *out);

#endif
