/* Named tensors out of any container that holds them, by content. */
#ifndef MGPT_CONVERT_STATE_OPEN_H
#define MGPT_CONVERT_STATE_OPEN_H

#include "convert/containers/npy_state.h"
#include "convert/containers/safetensors.h"

/* Adds the tensors of a file to s: safetensors, a dict that torch.save wrote, or .npz. The caller seals s.
 * Errors leave the run (checkpoint.h): any other file, and a damaged one. */
void state_open(struct state *s, struct span bytes);

/* What state_open adds of a safetensors file, which is there until the run ends, and of the arrays of an
 * archive. */
const struct safetensors *state_add_safetensors(struct state *s, struct span bytes);
void state_add_arrays(struct state *s, const struct npz_member *arrays);

/* A tensor of a safetensors file, without its name. An element type that has no number here is
 * STATE_OTHER. */
struct state_tensor state_of_safetensors(const struct st_tensor *from);

#endif
