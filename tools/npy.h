/* NumPy's .npy arrays: the header, and single elements. Untrusted: every length is checked. */
#ifndef MGPT_NPY_H
#define MGPT_NPY_H

#include "mgpt.h"

enum { NPY_MAX_HEADER = 4096, NPY_MAX_DIMS = 4 };

struct npy {
    char kind;      /* 'f' or 'i' */
    unsigned width; /* bytes of an element: f 2, 4, 8; i 4, 8 */
    unsigned n_dims;
    uint64_t dims[NPY_MAX_DIMS];
    size_t header;    /* bytes before the data */
    uint64_t n_bytes; /* of the data */
};

/* Reads the header from the first n bytes of a file (NPY_MAX_HEADER of them suffice). Accepted:
 * little endian, C order, f2 f4 f8 i4 i8, up to 4 dimensions. n_bytes is computed, not compared
 * with the file. */
int npy_parse(struct npy *npy, const void *data, size_t n, mgpt_error *err);

/* Element i of the data behind the header; any alignment. */
double npy_real(const struct npy *npy, const uint8_t *data, size_t i);
int64_t npy_integer(const struct npy *npy, const uint8_t *data, size_t i);

#endif
