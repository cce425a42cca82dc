/* NumPy's .npy arrays: the header, and single elements. Untrusted: every length is checked. */
#ifndef MGPT_NPY_H
#define MGPT_NPY_H

#include "mgpt.h"

enum { NPY_MAX_HEADER = 4096, NPY_MAX_DIMS = 4 };

struct npy {
    char kind;      /* 'f' or 'i'; from npy_header also 'u' 'b' 'U' 'S' 'O' 'V' */
    unsigned width; /* bytes of an element: f 2, 4, 8; i 4, 8; U characters of 4 bytes */
    int fortran;    /* the first index varies fastest */
    char descr[16]; /* the element type as written */
    unsigned n_dims;
    uint64_t dims[NPY_MAX_DIMS];
    size_t header;    /* bytes before the data */
    uint64_t n_bytes; /* of the data */
};

/* Reads the header from the first n bytes of a file (NPY_MAX_HEADER of them suffice). Accepted:
 * little endian, C order, f2 f4 f8 i4 i8, up to 4 dimensions. n_bytes is computed, not compared
 * with the file. */
int npy_parse(struct npy *npy, const void *data, size_t n, mgpt_error *err);

/* As npy_parse, for any simple little-endian element type and either order. n_bytes is 0 for
 * objects ('O'), which are a pickle. npy_plain refuses what npy_parse does not accept. */
int npy_plain(const struct npy *npy, mgpt_error *err);
int npy_header(struct npy *npy, const void *data, size_t n, mgpt_error *err);

/* Element i of the data after the header; any alignment. */
double npy_real(const struct npy *npy, const uint8_t *data, size_t i);
int64_t npy_integer(const struct npy *npy, const uint8_t *data, size_t i);

#endif
