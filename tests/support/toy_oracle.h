/* Tests: a toy's forward pass in float64 (tools/check/oracle/oracle.h), as a trace.
 *
 * What the toy is comes from its specification and from toy_arch.h, its weights are the toy's own:
 * of src/ nothing is asked.
 */
#ifndef TESTS_TOY_ORACLE_H
#define TESTS_TOY_ORACLE_H

#include "support/build_model.h"
#include "support/trace.h"

/* Called with every row at every point, before it is stored and used; what it writes is what the
 * pass goes on with, like a tap. At SCORES and WEIGHTS a row is one head's. */
typedef void oracle_patch(mgpt_point point, int layer, double *row, size_t n, void *user);

/* The trace of n tokens from position 0; patch may be NULL. */
struct trace *oracle_run(const struct toy *m, const int32_t *tokens, size_t n, oracle_patch *patch,
                         void *user);

#endif
