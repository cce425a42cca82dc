/* Small matrices of numbers for mgpt attend: from text, .npy, or by name. Untrusted. */
#ifndef MGPT_ATTEND_MATRIX_H
#define MGPT_ATTEND_MATRIX_H

#include "mgpt.h"

#include <stddef.h>

enum { MATRIX_MAX = 1024 }; /* rows, and columns: these are lessons */

struct matrix {
    size_t rows, cols;
    float *v; /* [rows][cols], malloc'ed */
};

/* Zeros. MGPT_OK or MGPT_EMEM. */
int matrix_new(struct matrix *m, size_t rows, size_t cols, mgpt_error *err);
void matrix_free(struct matrix *m);

/* The matrix in n bytes: a .npy array of one or two dimensions, or text, a row per line, numbers
 * separated by spaces, tabs or commas; empty lines and what follows `#` do not count. Refused, each
 * with its line: rows of different lengths, what is not a number, what no float32 can hold. The
 * bytes must end in a NUL that does not count. */
int matrix_parse(struct matrix *m, const char *bytes, size_t n, mgpt_error *err);

/* Parses a file; - is stdin. */
int matrix_read(struct matrix *m, const char *path, mgpt_error *err);

/* A projection of n dimensions by name: identity, zero, dim:K (only the K-th, from 1), negate, flip
 * (the dimensions in reverse order). Returns 1, or 0 when the name is none of these; MGPT_EARG for
 * a K that is out of range, MGPT_EMEM. */
int matrix_preset(struct matrix *m, const char *name, size_t n, mgpt_error *err);

#endif
