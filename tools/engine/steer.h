/* Steering vectors: a row for some layers that is added to the residual stream after the layer
 * (MGPT_RESID_POST), at every position.
 *
 * Files: GGUF control vectors as llama.cpp writes and applies them (tensors direction.N for layer
 * N, counted from 0, which has none), and .npy of [n_layer, n_embd], or [n_embd] with a layer. */
#ifndef MGPT_STEER_H
#define MGPT_STEER_H

#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

struct steer {
    size_t n_layer, n_embd; /* the caller sets them to the model's */
    float *rows;            /* [n_layer][n_embd], times the scale; NULL: nothing is added */
    uint8_t *has;           /* [n_layer] */
};

/* Reads the bytes of a file: rows and has. layer: of an .npy of one row; else -1. Returns a status;
 * steer_free frees them in any case. */
int steer_parse(struct steer *steer, int32_t layer, const uint8_t *data, size_t n, mgpt_error *err);

/* Writes all rows times a scale to `to`, which may be steer->rows. */
void steer_scale(const struct steer *steer, float scale, float *to);

/* steer_parse of a file, times a scale. Returns a status, and as with steer_parse steer_free in any case. */
int steer_open(struct steer *steer, const char *path, double scale, int32_t layer, mgpt_error *err);

/* Reads "FILE", "FILE:SCALE" or "FILE:SCALE:LAYER". Returns an exit code; the user has been told. */
int steer_read(struct steer *steer, const char *spec);

/* The FILE of such a text, malloc'ed; NULL: out of memory. */
char *steer_path(const char *spec);

void steer_free(struct steer *steer);

/* A mgpt_tap_fn for MGPT_RESID_POST; user: the struct steer. */
int steer_add(const mgpt_value *value, void *user);

#endif
