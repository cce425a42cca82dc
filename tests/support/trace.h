/* Tests: everything that happens inside one forward pass, as matrices of float64.
 *
 * The oracle fills a trace, and trace_tap fills one from the engine: float32 goes to float64 and
 * back without loss, so traces of two engine runs can be compared to the bit. A value exists once
 * something was stored at its point and layer, which tells "fired" from "never fired".
 */
#ifndef TESTS_TRACE_H
#define TESTS_TRACE_H

#include "mgpt.h"

#include <stddef.h>

struct trace_value {
    size_t cols;  /* of a row; at SCORES and WEIGHTS heads * n_tokens, head by head */
    double *data; /* [n_tokens][cols], NULL: never fired; masked scores are -inf, weights 0 */
    unsigned char *seen; /* [n_tokens][heads]: how often each row was stored */
};

struct trace {
    int n_layer;
    size_t n_tokens;
    struct trace_value *values; /* [n_layer + 1][MGPT_N_POINTS], index 0: outside the layers */
    char fault[160]; /* what was wrong with a value that trace_tap got, "" when nothing */
};

struct trace *trace_new(int n_layer, size_t n_tokens);
void trace_free(struct trace *t);

/* layer -1: outside the layers. */
struct trace_value *trace_at(const struct trace *t, mgpt_point point, int layer);

/* Stores row `row` of the query at position `pos`: for ordinary points n_rows is 1 and row 0, for
 * attention n_rows is the number of heads and n is pos + 1. Returns 0 when the shape is wrong. */
int trace_put(struct trace *t, mgpt_point point, int layer, size_t pos, size_t row, size_t n_rows,
              const double *data, size_t n);

/* A mgpt_tap_fn; user is the trace. Changes nothing. */
int trace_tap(const mgpt_value *value, void *user);

/* 1 when both hold the same points with the same bits; else 0 and *where is "point, layer, row". */
int trace_equal(const struct trace *a, const struct trace *b, char *where, size_t cap);

/* 1 for the points whose rows are heads: MGPT_SCORES and MGPT_WEIGHTS. */
int trace_is_attention(mgpt_point point);

#endif
