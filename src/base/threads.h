/* Floor 0. Worker threads of one session, or of opening a model.
 *
 * pool_run calls fn(ctx, i, n) once for each i < n and returns when all are done. The caller is worker 0,
 * and does the parts of those that have not begun when its own is done: a worker that sleeps, or that
 * the system has given no core, costs nothing but its help. Workers spin for a moment after a job, then
 * sleep. One job at a time; a pool belongs to one thread, as its session does. What the split computes
 * must not depend on n, nor on which thread computes it.
 */
#ifndef MGPT_POOL_H
#define MGPT_POOL_H

#include "mgpt.h"

struct pool;

typedef void pool_fn(void *ctx, int worker, int n_workers);

/* What a job must weigh, in bytes that it reads or writes, to be worth a hand-over to a thread that is
 * awake (some 200 ns there and back), and waking one that sleeps (5 to 50 us). */
enum { POOL_WORTH_SPLITTING = 1 << 16, POOL_WORTH_WAKING = 1 << 20 };

/* n_threads >= 1 in all, so n_threads - 1 are created. NULL: MGPT_EMEM. */
struct pool *pool_new(int n_threads, mgpt_error *err);
void pool_free(struct pool *pool);

/* Cores of this machine, at most 16: more are not asked for unless a caller says so. */
int pool_cores(void);

/* A NULL pool has one worker: the caller. */
int pool_size(const struct pool *pool);
void pool_run(struct pool *pool, pool_fn *fn, void *ctx);

/* The same for a job of so many bytes, which decides who takes part: the caller alone, those who are
 * awake, or all. */
void pool_run_sized(struct pool *pool, size_t bytes, pool_fn *fn, void *ctx);

/* A job of n < 2^32 units that are dealt out while it runs: fn does units [first, last). Each worker takes
 * from its pool_split, half of what is left of it at a time, in multiples of `least` units, then from what is
 * left of the others': whoever is slower, or served more slowly by memory, does less. `bytes` as above. */
typedef void pool_units_fn(void *ctx, int worker, size_t first, size_t last);
void pool_deal(struct pool *pool, size_t bytes, size_t n, size_t least, pool_units_fn *fn,
               void *ctx);

/* Wakes the workers for jobs that are about to come. */
void pool_wake(struct pool *pool);

/* The part of n units that worker i of n_workers takes: contiguous and complete. */
static inline void pool_split(size_t n, int worker, int n_workers, size_t *first, size_t *last)
{
    size_t w = (size_t)worker, of = (size_t)n_workers, each = n / of, more = n % of;
    *first = w * each + (w < more ? w : more);
    *last = *first + each + (w < more ? 1 : 0);
}

#endif
