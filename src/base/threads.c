/* Worker threads. See threads.h.
 *
 * A job is announced by a new number in `job`. Part i belongs to the thread that advances worker
 * i's `taken` from the last number to this one: the worker, or the caller once it has nothing else
 * to do. The fast path takes no lock and moves two cache lines: the job's to the worker, the
 * worker's back.
 *
 * A job is described in a slot. In slot 0 the caller waits for every part that has begun. In the
 * others a worker shows its unit in `unit`, and the one thread that changes it back to 0 decides:
 * the worker publishes its results, or the caller computes the unit itself and goes on without
 * the worker. Such a worker can still read the slot, so the slot is not used until it is done.
 *
 * A worker spins on `job` for some microseconds, since the next job of the same token usually
 * follows at once, then yields, then sleeps on a condition variable. The caller waits in the same
 * three steps for a part that another thread has begun. Both sides of each sleep order their two
 * accesses (job and sleeping, done and waiting) sequentially: either the sleeper sees the change,
 * or the other side sees that it sleeps and wakes it.
 */
#include "base/threads.h"

#include "base/cores.h"
#include "base/error.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A pause is 10 to 50 ns. A few yields let another thread on the same core run. After that,
 * sleep: a woken thread is given an idle core, a yielding one stays on its core. */
enum { SPINS = 6000, YIELDS = 10, LINE = 64 };

enum { SLOTS = POOL_SLOTS };

/* Pauses that a worker has for its last unit: some, and one for each 128 bytes of the unit. */
enum { PATIENCE_LEAST = 200, PATIENCE_MOST = 3000, PATIENCE_BYTES = 128 };

/* Units [left % 2^32, left / 2^32) are left of a worker's share. */
struct share {
    _Alignas(LINE) atomic_uint_least64_t left;
};

struct worker {
    _Alignas(LINE) atomic_uint_least64_t taken; /* the last job whose part has an owner */
    atomic_uint_least64_t done;                 /* the last job whose part it has finished */
    struct pool *pool;
    pthread_t thread;
    int index;
    uint64_t lost_job; /* the last job that the caller finished without it; the caller's */
    int lost_slot;     /* the slot of lost_job; the caller's */
    _Alignas(LINE) atomic_uint_least64_t unit; /* what it computes, as `left`; 0: nothing shown */
    struct share shares[SLOTS];
};

struct pool_slot {
    struct pool *pool;
    pool_fn *fn;
    void *ctx;
    struct pool_units units;
};

struct pool {
    _Alignas(LINE) atomic_uint_least64_t job; /* number * SLOTS + slot of the current job */
    int n;                                    /* workers, the caller included */
    struct pool_slot slots[SLOTS];
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
static int wait_awake(const atomic_uint_least64_t *number, uint64_t value, int other)
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

static void sleep_until_called(struct pool *p, uint64_t seen)
{
    pthread_mutex_lock(&p->lock);
    unsigned calls = p->calls;
    atomic_fetch_add(&p->sleeping, 1);
    while (atomic_load(&p->job) == seen && p->calls == calls)
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleeping, 1);
    pthread_mutex_unlock(&p->lock);
}

/* Claims worker w's part of job `number`: 1 for the one thread that gets it. */
static int take_part(struct worker *w, uint64_t number)
{
    uint64_t last = number - 1;
    return atomic_compare_exchange_strong(&w->taken, &last, number);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    for (uint64_t seen = 0;;) {
        if (!wait_awake(&p->job, seen, 1))
            sleep_until_called(p, seen);
        uint64_t job = atomic_load(&p->job);
        if (atomic_load(&p->quit))
            return NULL;
        int mine = job != seen && take_part(w, job / SLOTS);
        seen = job;
        if (!mine)
            continue;
        const struct pool_slot *s = &p->slots[job % SLOTS];
        s->fn(s->ctx, w->index, p->n);
        atomic_store(&w->done, job / SLOTS);
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

/* Returns the number of the job, which is in `slot`. */
static uint64_t announce(struct pool *p, int slot, int wake)
{
    uint64_t number = atomic_load_explicit(&p->job, memory_order_relaxed) / SLOTS + 1;
    atomic_store(&p->job, number * SLOTS + (uint64_t)slot);
    if (wake)
        pool_wake(p);
    return number;
}

static int start(struct pool *p)
{
    pthread_attr_t attr;
    int ok = pthread_attr_init(&attr) == 0;
    if (!ok)
        return 0;
    ok = pthread_attr_setstacksize(&attr, POOL_STACK_BYTES) == 0;
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
    announce(p, 0, 1);
    for (int i = 1; i <= p->n_made; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->finished);
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    free(p);
}

int pool_cores(char *why, size_t cap)
{
    struct cores cores;
    cores_look(&cores);
    if (why)
        cores_why(&cores, why, cap);
    return cores.n;
}

int pool_size(const struct pool *p)
{
    return p ? p->n : 1;
}

static void sleep_until_done(struct pool *p, struct worker *w, uint64_t number)
{
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->waiting, 1);
    while (atomic_load(&w->done) != number)
        pthread_cond_wait(&p->finished, &p->lock);
    atomic_store(&p->waiting, 0);
    pthread_mutex_unlock(&p->lock);
}

static size_t patience(const struct pool_units *u, uint64_t unit)
{
    size_t n = (size_t)((unit >> 32) - (unit & UINT32_MAX));
    size_t pauses = PATIENCE_LEAST + u->bytes / u->n * n / PATIENCE_BYTES;
    return pauses < PATIENCE_MOST ? pauses : PATIENCE_MOST;
}

/* Gives worker w a moment, then computes its unit. Returns 0 if there is none to take over. */
static int take_over(struct worker *w, int slot, uint64_t number)
{
    const struct pool_units *u = &w->pool->slots[slot].units;
    uint64_t unit = atomic_load(&w->unit);
    for (size_t i = patience(u, unit); i > 0; i--, pause_cpu())
        if (atomic_load_explicit(&w->done, memory_order_acquire) == number)
            return 1;
    if (!unit || !atomic_compare_exchange_strong(&w->unit, &unit, 0))
        return 0;
    w->lost_job = number;
    w->lost_slot = slot;
    u->fn(u->ctx, 0, unit & UINT32_MAX, unit >> 32);
    return 1;
}

/* The caller's part is done: does worker w's, or waits for it. */
static void finish_part(struct pool *p, struct worker *w, int slot, uint64_t number)
{
    if (atomic_load_explicit(&w->done, memory_order_acquire) == number)
        return;
    if (take_part(w, number)) {
        if (slot == 0)
            p->slots[slot].fn(p->slots[slot].ctx, w->index, p->n);
    } else if (slot == 0 || !take_over(w, slot, number)) {
        if (!wait_awake(&w->done, number, 0))
            sleep_until_done(p, w, number);
    }
}

static void run_job(struct pool *p, int slot, int wake)
{
    uint64_t number = announce(p, slot, wake);
    p->slots[slot].fn(p->slots[slot].ctx, 0, p->n);
    for (int i = 1; i < p->n; i++)
        finish_part(p, &p->workers[i], slot, number);
}

static void run_plain(struct pool *p, pool_fn *fn, void *ctx, int wake)
{
    p->slots[0].fn = fn;
    p->slots[0].ctx = ctx;
    run_job(p, 0, wake);
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx)
{
    if (pool_size(p) == 1)
        fn(ctx, 0, 1);
    else
        run_plain(p, fn, ctx, 1);
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
        run_plain(p, fn, ctx, bytes >= POOL_WORTH_WAKING);
}

/* ---- units ----------------------------------------------------------------------------------- */

static uint64_t units(uint64_t first, uint64_t last)
{
    return last << 32 | first;
}

/* Takes units of a share that are left: if `own`, the first three quarters, which are few calls of the
 * kernels and mostly units that this thread had in the last job of the kind; else the last half. */
static int take_units(struct share *s, int own, size_t least, size_t *first, size_t *last)
{
    uint64_t left = atomic_load_explicit(&s->left, memory_order_relaxed), rest;
    do {
        uint64_t a = left & UINT32_MAX, b = left >> 32,
                 n = (own ? (b - a) * 3 / 4 : (b - a) / 2) / least * least;
        if (a == b)
            return 0;
        n = n > least ? n : least;
        n = n < b - a ? n : b - a;
        *first = own ? a : b - n;
        *last = *first + n;
        rest = own ? units(a + n, b) : units(a, b - n);
    } while (!atomic_compare_exchange_weak_explicit(&s->left, &left, rest, memory_order_relaxed,
                                                    memory_order_relaxed));
    return 1;
}

/* Computes units of a worker. Returns 0 if the caller has gone on without it. */
static int do_units(const struct pool_slot *s, int worker, size_t first, size_t last)
{
    const struct pool_units *u = &s->units;
    atomic_uint_least64_t *shown = &s->pool->workers[worker].unit;
    uint64_t unit = units(first, last);
    if (worker == 0 || !u->publish) {
        u->fn(u->ctx, worker, first, last);
        return 1;
    }
    atomic_store_explicit(shown, unit, memory_order_release);
    u->fn(u->ctx, worker, first, last);
    if (!atomic_compare_exchange_strong(shown, &unit, 0))
        return 0;
    u->publish(u->ctx, worker, first, last);
    return 1;
}

static void deal_part(void *ctx, int worker, int n_workers)
{
    const struct pool_slot *s = ctx;
    size_t first, last;
    for (int i = 0; i < n_workers; i++) {
        struct worker *w = &s->pool->workers[(worker + i) % n_workers];
        struct share *share = &w->shares[s->units.slot];
        while (take_units(share, i == 0, s->units.least, &first, &last))
            if (!do_units(s, worker, first, last))
                return;
    }
}

static int is_used(const struct pool *p, int slot)
{
    for (int i = 1; i < p->n; i++) {
        const struct worker *w = &p->workers[i];
        if (w->lost_slot == slot && atomic_load(&w->done) < w->lost_job)
            return 1;
    }
    return 0;
}

int pool_free_slot(const struct pool *p)
{
    for (int slot = 1; pool_size(p) > 1 && slot < SLOTS; slot++)
        if (!is_used(p, slot))
            return slot;
    return 0;
}

void pool_deal(struct pool *p, const struct pool_units *job)
{
    if (runs_alone(p, job->bytes)) {
        job->fn(job->ctx, 0, 0, job->n);
        return;
    }
    struct pool_slot *s = &p->slots[job->slot];
    for (int i = 0; i < p->n; i++) {
        size_t first, last;
        pool_split(job->n, i, p->n, &first, &last);
        atomic_store_explicit(&p->workers[i].shares[job->slot].left, units(first, last),
                              memory_order_relaxed);
    }
    s->pool = p;
    s->units = *job;
    s->fn = deal_part;
    s->ctx = s;
    run_job(p, job->slot, job->bytes >= POOL_WORTH_WAKING);
}
