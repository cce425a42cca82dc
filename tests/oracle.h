/* Tests: the forward pass in float64, straight from the formulas.
 *
 * Plain loops over all positions at once, no cache, no chunks, no kernels; nothing of src/ is used, and
 * the weights are the toy's own. float64 carries 29 bits more than float32, so what the oracle says is
 * the true value as far as a float32 engine is concerned.
 */
#ifndef TESTS_ORACLE_H
#define TESTS_ORACLE_H

#include "build_model.h"
#include "trace.h"

/* Called with every row at every point, before it is stored and used; what it writes is what the pass
 * goes on with, like a tap. At SCORES and WEIGHTS a row is one head's. */
typedef void oracle_patch(mgpt_point point, int layer, double *row, size_t n, void *user);

/* The trace of n tokens from position 0; patch may be NULL. */
struct trace *oracle_run(const struct toy *m, const int32_t *tokens, size_t n, oracle_patch *patch,
                         void *user);

#endif
