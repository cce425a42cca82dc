/* Tests: how far a float32 engine may be from the float64 oracle, and running it to find out.
 *
 * Tolerances. u = 2^-24 is half a unit in the last place of a float32.
 *   - Typical error: rounding errors of a float32 pass are nearly independent, so the root mean square
 *     error relative to the tensor's root mean square is a few u per operation times a few operations
 *     per layer. NMSE (its square) <= 1e-12 allows 17 u, for up to three layers.
 *   - Worst element: a dot product of n terms is off by at most n * u * sum |w x| (Higham 2002, 3.5);
 *     with n <= 172, at most about 6 products in a row per layer and sums that do not cancel below the
 *     tensor's largest element, 6 * n * u per layer of that element.
 * That this is tight enough to tell models apart is itself tested (test_told_apart).
 */
#ifndef TESTS_AGREE_H
#define TESTS_AGREE_H

#include "support/build_model.h"
#include "support/trace.h"

/* 1 when the engine's trace is the oracle's within the tolerances; else 0 and *what says where. */
int agree(const struct toy_spec *s, const struct trace *ours, const struct trace *ref, char *what,
          size_t cap);

/* Runs n tokens through a fresh session with taps at every point. Every row that fired must have
 * fired once, and every point that fired for all positions. */
struct trace *agree_run(mgpt_model *model, const struct toy_spec *s, const int32_t *tokens,
                        size_t n);

/* The oracle's trace of the tokens of `ours`, a trace of the engine. For models of integer weights
 * it continues with the engine's value at each point: activations are rounded to whole steps there,
 * and a difference in the last bit that changes a rounding would hide everything after it. Each
 * operation is still held to float64, its inputs being the engine's. */
struct trace *agree_oracle(const struct toy *m, const struct trace *ours, const int32_t *tokens,
                           size_t n);

#endif
