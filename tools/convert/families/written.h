/* Checkpoints whose tensors have no names: a header, then arrays in a fixed order, each of all layers.
 *
 * A format is a table of rows, one for each array, in GGUF's order of tensors, and the order of the arrays in
 * its files. Sizes are letters of state_size, so the numbers of the header come first.
 */
#ifndef MGPT_CONVERT_WRITTEN_H
#define MGPT_CONVERT_WRITTEN_H

#include "convert/core/state.h"

enum { WRITTEN_MOST = 16 };

struct written_row {
    const char *name; /* GGUF's; with an N it is a tensor of each layer; NULL: not kept */
    char n_out, n_in; /* n_out 0: a vector */
    int is_norm;
};

struct written {
    const struct written_row *rows;
    size_t n_rows;
    const uint8_t *order; /* the rows' numbers in the order of the file; NULL: that of the rows */
    size_t n_order;
    const struct dtype *type;
    const struct dtype *norm_type;
    uint64_t group; /* not 0: matrices are int8, then a float32 factor for each `group` values */
    struct written_array {
        uint64_t n_in, n_out;
        uint64_t start, each; /* bytes in the file, and of one tensor */
    } arrays[WRITTEN_MOST];
};

/* The values of a row's tensor. */
uint64_t written_values(const struct ckpt_hparams *hp, const struct written_row *row);

/* Places the arrays from byte `at` on. Returns the byte after the last. The caller has bounded the
 * sizes, so that no sum overflows. */
uint64_t written_place(struct written *w, const struct ckpt_hparams *hp, uint64_t at);

/* Adds the tensors to the checkpoint, whose bytes these are. */
void written_add(struct checkpoint *c, const struct written *w, struct span bytes);

#endif
