/* What passes a tap, into the arrays of a trace file: `tokens`, and one array per hook. Rows are
 * written as they come, so that memory does not grow with the number of hooks. */
#ifndef MGPT_TRACE_VALUES_H
#define MGPT_TRACE_VALUES_H

#include "engine/hooks.h"
#include "trace/trace_file.h"

struct trace_values {
    size_t n_tokens;
    size_t *arrays; /* [layer + 1][point]: the array's number in the file, or none */
    float *row;     /* [n_tokens] of one head */
    struct trace_file out;
};

/* Plans a file for these hooks (an stb_ds array) and tokens: out.size is known afterwards.
 * trace_values_discard frees it in every case. */
int trace_values_plan(struct trace_values *v, const struct hook *hooks, int32_t n_layer,
                      size_t n_tokens, enum trace_format format, enum trace_type type,
                      mgpt_error *err);

/* Opens the planned file and writes the tokens. */
int trace_values_open(struct trace_values *v, const char *path, const int32_t *tokens,
                      mgpt_error *err);

/* A tap's callback, with the struct trace_values as user: stores a value if it was planned. Stops
 * when writing has failed, which trace_values_commit reports. */
int trace_values_store(const mgpt_value *value, void *user);

/* Moves the file to its place after a run that succeeded. Returns a status. */
int trace_values_commit(struct trace_values *v, mgpt_error *err);
void trace_values_discard(struct trace_values *v);

/* The format that a file's name asks for; 0: neither .npz nor .safetensors. */
int trace_format_of(const char *path, enum trace_format *format);

#endif
