/* What matrices multiply: for each column of a matrix the sum of the squares of its inputs.
 *
 *   place    where rows come by that one or more matrices of a layer multiply
 *   entry    a matrix by its name in the file, with its place
 *   expert   a matrix of a mixture has sums and a count for each; elsewhere there is one
 */
#ifndef MGPT_INPUT_SUMS_H
#define MGPT_INPUT_SUMS_H

#include "gguf/gguf.h"
#include "mgpt.h"

struct sums_place {
    int32_t layer, point; /* mgpt_point, or one of experts */
    size_t n_cols, n_experts;
    double *sums;     /* [n_experts][n_cols] */
    uint64_t *counts; /* [n_experts] rows */
};

struct sums_entry {
    char name[80];
    size_t place;
};

struct input_sums {
    struct sums_place *places;  /* stb_ds array */
    struct sums_entry *entries; /* stb_ds array */
};

/* Lists the matrices of a model; with_head: also output.weight, if it is one of its own. Returns a status. */
int input_sums_begin(struct input_sums *s, const mgpt_model *model, int with_head, mgpt_error *err);
void input_sums_free(struct input_sums *s);

/* A tap of the points below, and what mixtures show of their experts (experts_seen). */
enum { N_INPUT_POINTS = 5 };
uint64_t input_sums_points(void);
int input_sums_tap(const mgpt_value *value, void *sums);
void input_sums_experts(void *sums, size_t layer, size_t expert, const float *x, const float *f,
                        size_t n);

/* Declares the tensors NAME.in_sum2 and NAME.counts, and writes their data. */
void input_sums_write(const struct input_sums *s, struct gguf_writer *w);

#endif
