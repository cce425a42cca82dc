/* safetensors: the structure of one file, checked.
 *
 *     u64 N, N bytes of JSON {name: {"dtype", "shape", "data_offsets": [begin, end]}}, data
 *
 * Offsets count from the start of the data. Nothing is copied: tensors point into the caller's
 * bytes, names into the parsed header. What a tensor means is not looked at, nor is a number that
 * its element type can hold refused. Sharded models are put together in hf_state.c.
 */
#ifndef MGPT_CONVERT_SAFETENSORS_H
#define MGPT_CONVERT_SAFETENSORS_H

#include "common/jval.h"
#include "convert/core/checkpoint.h"

enum { ST_MAX_DIMS = 8, ST_MAX_TENSORS = 1 << 20 };

struct st_tensor {
    const char *name;           /* NUL-terminated */
    const char *dtype;          /* the name in the file: "F32", "I64" */
    uint32_t n_dims;            /* 0: a scalar */
    uint64_t dims[ST_MAX_DIMS]; /* C order: the last one is the row length */
    uint64_t begin, end;        /* in the data */
    const uint8_t *data;
};

struct safetensors {
    const struct jval *header;
    struct st_tensor *tensors; /* stb_ds array, in order of their bytes */
};

/* Whether bytes begin like a safetensors file. */
int st_sniff(struct span bytes);

/* Refused, each by name: a header that is longer than the file or than 100 MB, does not begin with
 * '{', is not JSON, has duplicate names; entries of another form; element types that the format
 * does not have; shapes whose bytes overflow or differ from the offsets; tensors that overlap,
 * leave gaps or end before or after the file does. On failure st is released. */
int st_parse(struct safetensors *st, struct span bytes, mgpt_error *err);
void st_free(struct safetensors *st);

#endif
