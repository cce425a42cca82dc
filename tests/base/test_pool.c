/* Worker threads. */
#include "base/threads.h"

#include "support/unit.h"

#include <sched.h>
#include <time.h>

struct pool_job {
    size_t calls[8]; /* one a worker: no worker touches another's */
    int wrong;
    int n_expected;
};

static void count_call(void *ctx, int worker, int n_workers)
{
    struct pool_job *job = ctx;
    if (worker < 0 || worker >= job->n_expected || n_workers != job->n_expected)
        job->wrong = 1;
    else
        job->calls[worker]++;
}

TEST(pool_runs_each_worker)
{
    static const int sizes[] = {1, 2, 4};
    for (size_t s = 0; s < 3; s++) {
        struct pool_job job = {.n_expected = sizes[s]};
        struct pool *pool = pool_new(sizes[s], NULL);
        assert_non_null(pool);
        assert_int_equal(pool_size(pool), sizes[s]);
        for (size_t i = 1; i <= 10000; i++) {
            pool_run(pool, count_call, &job);
            for (int w = 0; w < sizes[s]; w++) /* all are done, exactly once, when it returns */
                if (job.calls[w] != i)
                    fail_msg("worker %d of %d: %zu calls after job %zu", w, sizes[s], job.calls[w],
                             i);
        }
        assert_false(job.wrong);
        pool_free(pool);
    }
}

TEST(pool_sleeps_and_wakes)
{
    struct pool_job job = {.n_expected = 3};
    struct pool *pool = pool_new(3, NULL);
    assert_non_null(pool);
    for (size_t i = 1; i <= 20; i++) {
        struct timespec pause = {0, 2000000}; /* long enough for the workers to fall asleep */
        nanosleep(&pause, NULL);
        pool_run(pool, count_call, &job);
        for (int w = 0; w < 3; w++)
            assert_int_equal(job.calls[w], i);
    }
    assert_false(job.wrong);
    pool_free(pool);
    pool_free(pool_new(4, NULL)); /* never used */
}

/* Every size of job is done completely, by however many: pool_split's parts of n units. */
struct marks {
    uint8_t units[100];
    int n_workers;
};

static void mark_units(void *ctx, int worker, int n_workers)
{
    struct marks *marks = ctx;
    size_t first, last;
    pool_split(100, worker, n_workers, &first, &last);
    for (size_t i = first; i < last; i++)
        marks->units[i]++;
    if (worker == 0)
        marks->n_workers = n_workers;
}

TEST(pool_by_size)
{
    static const size_t sizes[] = {0, POOL_WORTH_SPLITTING - 1, POOL_WORTH_SPLITTING,
                                   POOL_WORTH_WAKING, SIZE_MAX};
    struct pool *pool = pool_new(3, NULL);
    assert_non_null(pool);
    for (int asleep = 0; asleep <= 1; asleep++) {
        for (size_t i = 0; i < COUNT(sizes); i++) {
            struct marks marks = {.n_workers = 0};
            struct timespec pause = {0, asleep ? 2000000 : 0};
            nanosleep(&pause, NULL);
            pool_run_sized(pool, sizes[i], mark_units, &marks);
            for (size_t u = 0; u < 100; u++)
                assert_int_equal(marks.units[u], 1);
            assert_true(marks.n_workers == 1 || marks.n_workers == 3);
            if (sizes[i] < POOL_WORTH_SPLITTING)
                assert_int_equal(marks.n_workers, 1);
            if (sizes[i] >= POOL_WORTH_WAKING)
                assert_int_equal(marks.n_workers, 3);
        }
    }
    pool_free(pool);
}

/* Every unit is done exactly once, also when one worker is delayed in its first. */
struct dealt {
    _Atomic uint8_t units[300];
    size_t n, slow; /* doing this unit takes a millisecond */
    int n_workers;
    _Atomic int wrong, calls;
};

static void do_units(void *ctx, int worker, size_t first, size_t last)
{
    struct dealt *dealt = ctx;
    struct timespec pause = {0, 1000000};
    if (worker < 0 || worker >= dealt->n_workers || first >= last || last > dealt->n)
        dealt->wrong = 1;
    for (size_t i = first; i < last && !dealt->wrong; i++)
        dealt->units[i]++;
    if (first <= dealt->slow && dealt->slow < last)
        nanosleep(&pause, NULL);
    dealt->calls++;
}

static void check_deal(struct pool *pool, size_t bytes, size_t n, size_t least, size_t slow)
{
    struct dealt dealt = {.n = n, .n_workers = pool_size(pool), .slow = slow};
    pool_deal(pool, &(struct pool_units){
                        .bytes = bytes, .n = n, .least = least, .fn = do_units, .ctx = &dealt});
    assert_false(dealt.wrong);
    for (size_t i = 0; i < 300; i++)
        if (dealt.units[i] != (i < n))
            fail_msg("unit %zu of %zu done %d times", i, n, dealt.units[i]);
    if (pool_size(pool) == 1 || bytes < POOL_WORTH_SPLITTING)
        assert_int_equal(dealt.calls, 1);
}

TEST(pool_deals_units)
{
    static const int sizes[] = {1, 2, 3, 8};
    for (size_t s = 0; s < COUNT(sizes); s++) {
        struct pool *pool = pool_new(sizes[s], NULL);
        assert_non_null(pool);
        for (size_t n = 1; n <= 300; n++)
            for (size_t least = 1; least <= 5; least += 2)
                check_deal(pool, POOL_WORTH_WAKING, n, least, SIZE_MAX);
        for (size_t slow = 0; slow < 300; slow += 50)
            check_deal(pool, POOL_WORTH_WAKING, 300, 4, slow);
        check_deal(pool, POOL_WORTH_SPLITTING - 1, 300, 4, SIZE_MAX);
        pool_free(pool);
    }
    check_deal(NULL, POOL_WORTH_WAKING, 300, 4, SIZE_MAX);
}

/* A worker that is held in its first unit, as one that has lost its core. */
struct held {
    _Atomic int results[300]; /* how often each unit's result was stored */
    _Atomic int is_held, release;
};

static void hold_worker(void *ctx, int worker, size_t first, size_t last)
{
    struct held *held = ctx;
    if (worker > 0)
        held->is_held = 1;
    while (worker > 0 ? !held->release : !held->is_held)
        sched_yield();
    for (size_t i = first; worker == 0 && i < last; i++)
        held->results[i]++;
}

static void publish_held(void *ctx, int worker, size_t first, size_t last)
{
    struct held *held = ctx;
    (void)worker;
    for (size_t i = first; i < last; i++)
        held->results[i]++;
}

static void check_held(const struct held *held)
{
    for (size_t i = 0; i < 300; i++)
        if (held->results[i] != 1)
            fail_msg("the result of unit %zu was stored %d times", i, held->results[i]);
}

/* The caller does not wait for it, uses no slot that it is in, and no result is stored twice. */
TEST(pool_goes_on_without_a_held_worker)
{
    struct held held[POOL_SLOTS] = {0};
    struct pool_job plain = {.n_expected = 2};
    struct pool *pool = pool_new(2, NULL);
    assert_int_equal(pool_free_slot(NULL), 0);
    for (int i = 1; i < POOL_SLOTS; i++) {
        int slot = pool_free_slot(pool);
        assert_int_equal(slot, i > 1 ? 2 : 1);
        held[i].is_held = i > 1;
        held[i].release = i > 1;
        pool_deal(pool, &(struct pool_units){slot, POOL_WORTH_WAKING, 300, 4, hold_worker,
                                             publish_held, &held[i]});
        check_held(&held[i]);
        pool_run(pool, count_call, &plain);
    }
    held[1].release = 1;
    while (pool_free_slot(pool) != 1)
        sched_yield();
    pool_free(pool);
    check_held(&held[1]);
    assert_int_equal(plain.calls[0] + plain.calls[1], 2 * (POOL_SLOTS - 1));
}

TEST(pool_without_threads)
{
    struct pool_job job = {.n_expected = 1};
    assert_int_equal(pool_size(NULL), 1);
    pool_run(NULL, count_call, &job);
    assert_int_equal(job.calls[0], 1);
    pool_free(NULL);
}

TEST(pool_split_is_complete)
{
    for (size_t n = 0; n < 40; n++) {
        for (int of = 1; of <= 9; of++) {
            size_t at = 0, first, last;
            for (int w = 0; w < of; w++) {
                pool_split(n, w, of, &first, &last);
                assert_int_equal(first, at);
                assert_true(last >= first && last - first <= n / (size_t)of + 1);
                at = last;
            }
            assert_int_equal(at, n);
        }
    }
}
