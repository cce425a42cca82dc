/* A thread in the background. See background.h. */
#include "base/background.h"

#include "base/mem.h"
#include "base/threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { WAIT_NS = 10 * 1000 * 1000 };

struct background {
    background_fn *fn;
    void *ctx;
    pthread_t thread;
    int started;
    pthread_mutex_t lock;
    pthread_cond_t told;
};

struct background *background_new(void)
{
    struct background *t = mem_new(1, sizeof *t);
    if (!t)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->told, NULL);
    return t;
}

static void *background_run(void *arg)
{
    struct background *t = arg;
    t->fn(t->ctx);
    return NULL;
}

int background_start(struct background *t, background_fn *fn, void *ctx)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return 0;
    t->fn = fn;
    t->ctx = ctx;
    t->started = pthread_attr_setstacksize(&attr, POOL_STACK_BYTES) == 0 &&
                 pthread_create(&t->thread, &attr, background_run, t) == 0;
    pthread_attr_destroy(&attr);
    return t->started;
}

void background_free(struct background *t)
{
    if (!t)
        return;
    if (t->started)
        pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->told);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void background_wait(struct background *t, const atomic_size_t *done, size_t at)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end); /* that of pthread_cond_timedwait */
    end.tv_nsec += WAIT_NS;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    int status = 0;
    pthread_mutex_lock(&t->lock);
    while (atomic_load(done) <= at && status == 0)
        status = pthread_cond_timedwait(&t->told, &t->lock, &end);
    pthread_mutex_unlock(&t->lock);
}

void background_tell(struct background *t)
{
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->told);
    pthread_mutex_unlock(&t->lock);
}
