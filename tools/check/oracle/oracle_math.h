/* The operations of the oracle on plain arrays, in float64. */
#ifndef MGPT_ORACLE_MATH_H
#define MGPT_ORACLE_MATH_H

#include "check/oracle/oracle.h"

/* n rows of width w, each by itself: LayerNorm or RMSNorm. y may be x; gain and bias may be
 * NULL. */
void math_norm(const struct oracle_spec *s, double *y, const double *x, size_t n, size_t w,
               const float *gain, const float *bias);

/* x as the spec's type has it; math_round: where the results of the whole pass are rounded. */
double math_rounded(const struct oracle_spec *s, double x);
void math_round(const struct oracle_spec *s, double *x, size_t n);

/* The activation of a layer, of n values in place; NaN for an unknown name. */
void math_activate(const struct oracle_layer *l, double *x, size_t n);

/* n > 0. The sink is one more score, whose weight is left out; -INFINITY: there is none. */
void math_softmax(double *row, size_t n, double sink, enum oracle_softmax how);

/* Soft cap: cap * tanh(x / cap); cap 0: none. */
double math_cap(double x, double cap);

/* Rounds what integer weights are multiplied with: 32 activations at a time become multiples of a
 * step, 127 of which reach the largest. The rule is src/kernels/kernels.h's, in float32; the rest
 * is float64. */
void math_to_int8(double *x, size_t n);

/* Products of n_w rows w (1 or MATH_COLS) with MATH_ROWS rows at a time, whose values are side by
 * side: block[i][t] is value i of row t, of n rows, or 0. Each sum adds up in the order of i; those
 * of rows from n on may be left as they are. */
enum { MATH_ROWS = 12, MATH_COLS = 4 };
void math_transpose(double *block, const double *x, size_t n_in, size_t n);
void math_dots(const float *w, size_t n_w, const double *block, size_t n_in, size_t n,
               double sum[][MATH_ROWS]);

/* y[k] += row k of w times x, for n_w rows: the same sums. */
void math_dots_with_one(const float *w, size_t n_w, const double *x, size_t n_in, double *y);

#endif
