/* Floor 0. Worker threads of one session.
 *
 * pool_run calls fn(ctx, i, n) once for each i < n, on n threads, and returns when all are done; the
 * caller is worker 0. Workers spin for a moment after a job, then sleep. One job at a time; a pool
 * belongs to one thread, as its session does. What the split computes must not depend on n.
 */
#ifndef MGPT_POOL_H
#define MGPT_POOL_H

#include "mgpt.h"

struct pool;

typedef void pool_fn(void *ctx, int worker, int n_workers);

/* n_threads >= 1 in all, so n_threads - 1 are created. NULL: MGPT_EMEM. */
struct pool *pool_new(int n_threads, mgpt_error *err);
void pool_free(struct pool *pool);

/* A NULL pool has one worker: the caller. */
int pool_size(const struct pool *pool);
void pool_run(struct pool *pool, pool_fn *fn, void *ctx);

/* The part of n units that worker i of n_workers takes: contiguous and complete. */
static inline void pool_split(size_t n, int worker, int n_workers, size_t *first, size_t *last)
{
    size_t w = (size_t)worker, of = (size_t)n_workers, each = n / of, more = n % of;
    *first = w * each + (w < more ? w : more);
    *last = *first + each + (w < more ? 1 : 0);
}

#endif
