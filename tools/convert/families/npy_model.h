/* microgpt in NumPy's files, inside: what npy_model.c, npz_model.c and npz_stream.c share. */
#ifndef MGPT_CONVERT_NPY_MODEL_H
#define MGPT_CONVERT_NPY_MODEL_H

#include "convert/containers/npz.h"
#include "convert/families/microgpt.h"

/* The element type of weights: f2, f4, f8; 0 when it is another. */
int npy_weights(const struct npy *npy, enum state_type *type);

/* The array as a tensor, but for its name and bytes. */
struct state_tensor npy_tensor(const struct npy *npy, enum state_type type);

/* What an array of objects was made of: the object of a 0-d array, the list of others. `p` is the
 * pickle after the header; 0 when it is no such array. */
pickle_id npy_objects(const struct pickle *p);

/* ---- npz_stream.c ---------------------------------------------------------------------------- */

struct npz_stream {
    struct checkpoint *c;
    zip_t *zip;
    zip_file_t *open; /* the entry that is being read, or NULL */
    zip_uint64_t index;
    uint64_t next; /* byte of its data that comes next */
};

void npz_close(struct npz_stream *z);

const char *npz_entry_name(const struct npz_stream *z, zip_uint64_t index);

/* Adds an entry in C order, as `t` describes it, as a matrix whose values are read when they are
 * asked for. */
int npz_add(struct npz_stream *z, struct mg_parts *m, const char *name, zip_uint64_t index,
            const struct state_tensor *t);

/* The data of a small entry, in memory that lives as long as the checkpoint. */
int npz_hold(struct npz_stream *z, zip_uint64_t index, struct span *bytes, mgpt_error *err);

/* F16, F32 or F64 as floats. */
void npz_decode(enum state_type type, const uint8_t *bytes, size_t n, float *out);

#endif
