/* Named tensors out of any container that holds them, by content. */
#ifndef MGPT_CONVERT_STATE_OPEN_H
#define MGPT_CONVERT_STATE_OPEN_H

#include "convert/containers/npy_state.h"
#include "convert/containers/safetensors.h"

/* Adds the tensors of a file to s: safetensors, a dict that torch.save wrote, or .npz. The caller seals s.
 * Errors: MGPT_EFILE for any other file, and for a damaged one. */
int state_open(struct state *s, struct span bytes, mgpt_error *err);

/* What state_open adds of a safetensors file and of the arrays of an archive. */
int state_add_safetensors(struct state *s, const struct safetensors *st, mgpt_error *err);
int state_add_arrays(struct state *s, const struct npz_member *arrays, mgpt_error *err);

/* A tensor of a safetensors file, without its name. An element type that has no number here is
 * STATE_OTHER. */
struct state_tensor state_of_safetensors(const struct st_tensor *from);

#endif
