/* NumPy's arrays as named tensors: .npy files and the members of .npz archives. */
#ifndef MGPT_CONVERT_NPY_STATE_H
#define MGPT_CONVERT_NPY_STATE_H

#include "common/npy.h"
#include "convert/core/state.h"

struct npz_member {
    const char *name; /* of the member, without ".npy" */
    struct npy npy;
    struct span data; /* after the header: in the archive, or, of a deflated member, in memory */
};

/* The element type: that of weights, f2, f4 and f8, or "V2", which is how MLX writes bfloat16;
 * STATE_OTHER for any other. */
enum state_type npy_type(const struct npy *npy);

/* The array as a tensor without a name. */
struct state_tensor npy_tensor(const struct npy *npy, struct span data);

/* Whether a file begins like an archive of arrays. */
int npz_begins(struct span bytes);

/* The arrays of an archive in the order of the file, an stb_ds array that is there until the run ends.
 * Names and inflated data live as long as the checkpoint. Members that are no arrays become notes. Errors
 * leave the run: an archive that is damaged, an array whose size is not its header's. */
const struct npz_member *npz_arrays(struct checkpoint *c, struct span bytes);

#endif
