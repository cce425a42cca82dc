/* Floor 0. Worker threads. See pool.h.
 *
 * A job is announced by a new value of `job`. A worker spins on it for some microseconds, since the
 * next job of the same token usually follows at once, and then sleeps on a condition variable. Both
 * sides order their two accesses (job, sleeping) sequentially: either the worker sees the new job
 * before it sleeps, or the caller sees that it sleeps and wakes it.
 */
#include "pool.h"

#include "error.h"
#include "mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SPINS_BEFORE_SLEEP = 4000, SPINS_BEFORE_YIELD = 20000 };

struct worker {
    struct pool *pool;
    pthread_t thread;
    int index;
};

struct pool {
    int n;      /* workers, the caller included */
    int n_made; /* threads that exist */
    struct worker *workers;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_uint job; /* number of the current job */
    atomic_int sleeping;
    atomic_int left; /* workers that have not finished the current job */
    atomic_int quit;
    pool_fn *fn;
    void *ctx;
};

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_until_job(struct pool *p, unsigned seen)
{
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleeping, 1);
    while (atomic_load(&p->job) == seen)
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleeping, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    for (unsigned seen = 0;; seen++) {
        for (int i = 0; i < SPINS_BEFORE_SLEEP && atomic_load(&p->job) == seen; i++)
            pause_cpu();
        if (atomic_load(&p->job) == seen)
            sleep_until_job(p, seen);
        if (atomic_load(&p->quit))
            return NULL;
        p->fn(p->ctx, w->index, p->n);
        atomic_fetch_sub(&p->left, 1);
    }
}

static void announce(struct pool *p)
{
    atomic_fetch_add(&p->job, 1);
    if (atomic_load(&p->sleeping) == 0)
        return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static int start(struct pool *p)
{
    for (int i = 1; i < p->n; i++) {
        p->workers[i] = (struct worker){.pool = p, .index = i};
        if (pthread_create(&p->workers[i].thread, NULL, work, &p->workers[i]) != 0)
            return 0;
        p->n_made++;
    }
    return 1;
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
    announce(p);
    for (int i = 1; i <= p->n_made; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    free(p);
}

int pool_size(const struct pool *p)
{
    return p ? p->n : 1;
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx)
{
    if (pool_size(p) == 1) {
        fn(ctx, 0, 1);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    atomic_store(&p->left, p->n - 1);
    announce(p);
    fn(ctx, 0, p->n);
    for (int i = 0; atomic_load(&p->left) != 0; i++) {
        if (i < SPINS_BEFORE_YIELD)
            pause_cpu();
        else
            sched_yield();
    }
}
