/* microgpt in NumPy's files, inside: what npy_model.c and npz_model.c share. */
#ifndef MGPT_CONVERT_NPY_MODEL_H
#define MGPT_CONVERT_NPY_MODEL_H

#include "common/npy.h"
#include "convert/families/microgpt.h"

/* The element type of weights: f2, f4, f8; 0 when it is another. */
int npy_weights(const struct npy *npy, enum state_type *type);

/* The array as a tensor, but for its name and bytes. */
struct state_tensor npy_tensor(const struct npy *npy, enum state_type type);

/* What an array of objects was made of: the object of a 0-d array, the list of others. `p` is the pickle
 * behind the header; 0 when it is no such array. */
pickle_id npy_objects(const struct pickle *p);

#endif
