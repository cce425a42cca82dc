/* A thread pool: the worker threads of one session, or of opening a model.
 *
 * A pool has workers, and runs one job at a time. A part is what one worker does of a job that is divided
 * beforehand (pool_run); a unit is a piece of a job that is handed out while it runs (pool_deal).
 *
 * pool_run calls fn(ctx, i, n) once for each i < n and returns when all are done. The caller is
 * worker 0. When its own part is done it also runs the parts that no worker has begun: a worker
 * that sleeps costs nothing but its help. Workers spin for a moment after a job,
 * then sleep. One job at a time; a pool belongs to one thread, as its session does. Results must
 * not depend on n, nor on which thread computes a part.
 */
#ifndef MGPT_THREADS_H
#define MGPT_THREADS_H

#include "mgpt.h"

struct pool;

/* Stack of a thread. The system's default may be 128 KiB (musl) or the limit of ulimit -s. */
enum { POOL_STACK_BYTES = 512 << 10 };

typedef void pool_fn(void *ctx, int worker, int n_workers);

/* Least size of a job, in bytes that it reads or writes, that is worth handing to an awake
 * thread (about 200 ns there and back), and that is worth waking a sleeping one (5 to 50 us). */
enum { POOL_WORTH_SPLITTING = 1 << 16, POOL_WORTH_WAKING = 1 << 20 };

/* n_threads >= 1 includes the caller, so n_threads - 1 are created. Returns NULL with MGPT_EMEM. */
struct pool *pool_new(int n_threads, mgpt_error *err);
void pool_free(struct pool *pool);

/* Threads that this machine is worth (cores.h), at most 16; a caller must ask for more. Writes the
 * reason to why[cap] unless that is NULL. */
int pool_cores(char *why, size_t cap);

/* A NULL pool has one worker: the caller. */
int pool_size(const struct pool *pool);
void pool_run(struct pool *pool, pool_fn *fn, void *ctx);

/* Runs a job that reads `bytes` bytes. The size decides who takes part: the caller alone, the awake
 * workers, or all. */
void pool_run_sized(struct pool *pool, size_t bytes, pool_fn *fn, void *ctx);

typedef void pool_units_fn(void *ctx, int worker, size_t first, size_t last);

/* A job of n < 2^32 units that are handed out while it runs: fn does units [first, last). Each
 * worker takes from its own pool_split, three quarters of the rest at a time, in multiples of `least`
 * units, then half of the rest of the others. A slower worker thus does less. `bytes` as above. */
struct pool_units {
    int slot; /* 0, or what pool_free_slot returned */
    size_t bytes, n, least;
    pool_units_fn *fn, *publish; /* publish: NULL in slot 0 */
    void *ctx;
};

/* In slot 0 the caller waits for the last unit of each worker. In other slots it does not wait for
 * a worker that has lost its core: it computes that unit itself, and the worker may be in fn after
 * pool_deal has returned. There fn writes the results for worker 0; for another worker it writes to
 * that worker's memory, and publish copies from there. ctx, what it points to and all that fn reads
 * must stay unchanged until pool_free_slot returns this slot again. */
void pool_deal(struct pool *pool, const struct pool_units *job);

/* A slot in 1..POOL_SLOTS - 1 that no worker is in; 0: none, or no workers. */
enum { POOL_SLOTS = 5 };
int pool_free_slot(const struct pool *pool);

/* Wakes the workers because jobs will follow soon. */
void pool_wake(struct pool *pool);

/* The part of n units that worker i of n_workers takes: contiguous and complete. */
static inline void pool_split(size_t n, int worker, int n_workers, size_t *first, size_t *last)
{
    size_t w = (size_t)worker, of = (size_t)n_workers, each = n / of, more = n % of;
    *first = w * each + (w < more ? w : more);
    *last = *first + each + (w < more ? 1 : 0);
}

#endif
