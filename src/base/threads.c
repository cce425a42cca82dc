/* Worker threads. See threads.h.
 *
 * A job is announced by a new number in `job`. Part i belongs to the thread that advances worker
 * i's `taken` from the last number to this one: the worker, or the caller once it has nothing else
 * to do. The fast path takes no lock and moves two cache lines: the job's to the worker, the
 * worker's back.
 *
 * A worker spins on `job` for some microseconds, since the next job of the same token usually
 * follows at once, then yields, then sleeps on a condition variable. The caller waits in the same
 * three steps for a part that another thread has begun. Both sides of each sleep order their two
 * accesses (job and sleeping, done and waiting) sequentially: either the sleeper sees the change,
 * or the other side sees that it sleeps and wakes it.
 */
#include "base/threads.h"

#include "base/error.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* A pause is 10 to 50 ns. A few yields let another thread on the same core run. After that,
 * sleep: a woken thread is given an idle core, a yielding one stays on its core. */
enum { SPINS = 6000, YIELDS = 10, CORES_MAX = 16, LINE = 64 };

/* Stack of a worker. The system's default may be 128 KiB (musl) or the limit of ulimit -s. */
enum { STACK_BYTES = 512 << 10 };

struct worker {
    _Alignas(LINE) atomic_uint taken; /* the last job whose part has an owner */
    atomic_uint done;                 /* the last job whose part the worker has finished */
    struct pool *pool;
    pthread_t thread;
    int index;
    _Alignas(LINE) atomic_uint_least64_t left; /* units [left % 2^32, left / 2^32) */
};

struct pool {
    _Alignas(LINE) atomic_uint job; /* number of the current job */
    pool_fn *fn;
    void *ctx;
    int n; /* workers, the caller included */
    atomic_int quit;
    _Alignas(LINE) atomic_int sleeping; /* workers */
    atomic_int waiting;                 /* the caller sleeps until a part is done */
    int n_made;                         /* threads that exist */
    unsigned calls;                     /* of pool_wake, under the lock */
    struct worker *workers;
    pthread_mutex_t lock;
    pthread_cond_t wake, finished;
};

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spins, then yields, until *number equals `value` (if `other` is set: differs from it). Returns
 * 0 at the limit of spins and yields. */
static int wait_awake(const atomic_uint *number, unsigned value, int other)
{
    for (int i = 0; i < SPINS + YIELDS; i++) {
        if ((atomic_load_explicit(number, memory_order_acquire) == value) != other)
            return 1;
        if (i < SPINS)
            pause_cpu();
        else
            sched_yield();
    }
    return 0;
}

static void sleep_until_called(struct pool *p, unsigned seen)
{
    pthread_mutex_lock(&p->lock);
    unsigned calls = p->calls;
    atomic_fetch_add(&p->sleeping, 1);
    while (atomic_load(&p->job) == seen && p->calls == calls)
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleeping, 1);
    pthread_mutex_unlock(&p->lock);
}

/* Claims worker w's part of `job`: 1 for the one thread that gets it. */
static int take_part(struct worker *w, unsigned job)
{
    unsigned last = job - 1;
    return atomic_compare_exchange_strong(&w->taken, &last, job);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    for (unsigned seen = 0;;) {
        if (!wait_awake(&p->job, seen, 1))
            sleep_until_called(p, seen);
        unsigned job = atomic_load(&p->job);
        if (atomic_load(&p->quit))
            return NULL;
        int mine = job != seen && take_part(w, job);
        seen = job;
        if (!mine)
            continue;
        p->fn(p->ctx, w->index, p->n);
        atomic_store(&w->done, seen);
        if (atomic_load(&p->waiting)) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->finished);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

void pool_wake(struct pool *p)
{
    if (!p || atomic_load(&p->sleeping) == 0)
        return;
    pthread_mutex_lock(&p->lock);
    p->calls++;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static unsigned announce(struct pool *p, int wake)
{
    unsigned job = atomic_fetch_add(&p->job, 1) + 1;
    if (wake)
        pool_wake(p);
    return job;
}

static int start(struct pool *p)
{
    pthread_attr_t attr;
    int ok = pthread_attr_init(&attr) == 0;
    if (!ok)
        return 0;
    ok = pthread_attr_setstacksize(&attr, STACK_BYTES) == 0;
    for (int i = 1; ok && i < p->n; i++) {
        p->workers[i].pool = p;
        p->workers[i].index = i;
        ok = pthread_create(&p->workers[i].thread, &attr, work, &p->workers[i]) == 0;
        p->n_made += ok;
    }
    pthread_attr_destroy(&attr);
    return ok;
}

struct pool *pool_new(int n_threads, mgpt_error *err)
{
    struct pool *p = mem_new(1, sizeof *p);
    if (!p || !(p->workers = mem_new((size_t)n_threads, sizeof *p->workers))) {
        free(p);
        err_memory(err, "threads", (size_t)n_threads * sizeof *p->workers);
        return NULL;
    }
    p->n = n_threads;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->finished, NULL);
    if (!start(p)) {
        err_set(err, MGPT_EMEM, MGPT_NO_OFFSET, "cannot start thread %d of %d", p->n_made + 2,
                n_threads);
        pool_free(p);
        return NULL;
    }
    return p;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    atomic_store(&p->quit, 1);
    announce(p, 1);
    for (int i = 1; i <= p->n_made; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->finished);
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    free(p);
}

int pool_cores(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores < 1)
        return 1;
    return cores < CORES_MAX ? (int)cores : CORES_MAX;
}

int pool_size(const struct pool *p)
{
    return p ? p->n : 1;
}

static void sleep_until_done(struct pool *p, struct worker *w, unsigned job)
{
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->waiting, 1);
    while (atomic_load(&w->done) != job)
        pthread_cond_wait(&p->finished, &p->lock);
    atomic_store(&p->waiting, 0);
    pthread_mutex_unlock(&p->lock);
}

static void run_job(struct pool *p, pool_fn *fn, void *ctx, int wake)
{
    p->fn = fn;
    p->ctx = ctx;
    unsigned job = announce(p, wake);
    fn(ctx, 0, p->n);
    for (int i = 1; i < p->n; i++) {
        struct worker *w = &p->workers[i];
        if (atomic_load_explicit(&w->done, memory_order_acquire) == job)
            continue;
        if (take_part(w, job))
            fn(ctx, i, p->n);
        else if (!wait_awake(&w->done, job, 0))
            sleep_until_done(p, w, job);
    }
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx)
{
    if (pool_size(p) == 1)
        fn(ctx, 0, 1);
    else
        run_job(p, fn, ctx, 1);
}

static int runs_alone(const struct pool *p, size_t bytes)
{
    return pool_size(p) == 1 || bytes < POOL_WORTH_SPLITTING ||
           (bytes < POOL_WORTH_WAKING &&
            atomic_load_explicit(&p->sleeping, memory_order_relaxed) == p->n - 1);
}

void pool_run_sized(struct pool *p, size_t bytes, pool_fn *fn, void *ctx)
{
    if (runs_alone(p, bytes))
        fn(ctx, 0, 1);
    else
        run_job(p, fn, ctx, bytes >= POOL_WORTH_WAKING);
}

/* ---- units ----------------------------------------------------------------------------------- */

struct deal {
    struct pool *pool;
    size_t least;
    pool_units_fn *fn;
    void *ctx;
};

static uint64_t units(uint64_t first, uint64_t last)
{
    return last << 32 | first;
}

/* Takes half of the units left to w: the first ones if `own`, else the last ones. */
static int take_units(struct worker *w, int own, size_t least, size_t *first, size_t *last)
{
    uint64_t left = atomic_load_explicit(&w->left, memory_order_relaxed), rest;
    do {
        uint64_t a = left & UINT32_MAX, b = left >> 32, n = (b - a) / 2 / least * least;
        if (a == b)
            return 0;
        n = n > least ? n : least;
        n = n < b - a ? n : b - a;
        *first = own ? a : b - n;
        *last = *first + n;
        rest = own ? units(a + n, b) : units(a, b - n);
    } while (!atomic_compare_exchange_weak_explicit(&w->left, &left, rest, memory_order_relaxed,
                                                    memory_order_relaxed));
    return 1;
}

static void deal_part(void *ctx, int worker, int n_workers)
{
    const struct deal *deal = ctx;
    size_t first, last;
    for (int i = 0; i < n_workers; i++) {
        struct worker *w = &deal->pool->workers[(worker + i) % n_workers];
        while (take_units(w, i == 0, deal->least, &first, &last))
            deal->fn(deal->ctx, worker, first, last);
    }
}

void pool_deal(struct pool *p, size_t bytes, size_t n, size_t least, pool_units_fn *fn, void *ctx)
{
    struct deal deal = {p, least, fn, ctx};
    if (runs_alone(p, bytes)) {
        fn(ctx, 0, 0, n);
        return;
    }
    for (int i = 0; i < p->n; i++) {
        size_t first, last;
        pool_split(n, i, p->n, &first, &last);
        atomic_store_explicit(&p->workers[i].left, units(first, last), memory_order_relaxed);
    }
    run_job(p, deal_part, &deal, bytes >= POOL_WORTH_WAKING);
}
