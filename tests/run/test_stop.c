/* mgpt_stop: every call that runs tokens ends with MGPT_ESTOP and leaves its sessions as they were, wherever
 * the stop comes from: before the call, a tap, another thread, a signal handler.
 */
#include "mgpt.h"
#include "support/unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { HELD = 3, N = 12, LONG = 250, CALLS = 5 };

static struct stop_case {
    mgpt_model *model;
    mgpt_session *session, *other;
    int32_t tokens[LONG];
    size_t n_vocab;
    float *logits, *next; /* after HELD tokens, and after HELD + N */
} f;
static mgpt_error err;

static void open_case(const char *name)
{
    char path[1024];
    mgpt_info info;
    snprintf(path, sizeof path, "%s/weights/%s.gguf", getenv("MGPT_SOURCE_ROOT"), name);
    f.model = mgpt_open(path, NULL, &err);
    assert_non_null(f.model);
    assert_int_equal(mgpt_get_info(f.model, &info, NULL), MGPT_OK);
    f.n_vocab = (size_t)info.n_vocab;
    for (size_t i = 0; i < LONG; i++)
        f.tokens[i] = (int32_t)((i * i * 7919 + i * 13 + 5) % (size_t)info.n_tokens);
    f.session = mgpt_session_new(f.model, NULL, &err);
    f.other = mgpt_session_new(f.model, NULL, &err);
    f.logits = malloc(2 * f.n_vocab * sizeof *f.logits);
    f.next = f.logits + f.n_vocab;
    assert_int_equal(mgpt_feed(f.session, f.tokens, HELD + N, &err), MGPT_OK);
    memcpy(f.next, mgpt_logits(f.session), f.n_vocab * sizeof *f.next);
    assert_int_equal(mgpt_rewind(f.session, 0, &err), MGPT_OK);
    assert_int_equal(mgpt_feed(f.session, f.tokens, HELD, &err), MGPT_OK);
    memcpy(f.logits, mgpt_logits(f.session), f.n_vocab * sizeof *f.logits);
}

static void close_case(void)
{
    mgpt_session_free(f.session);
    mgpt_session_free(f.other);
    mgpt_close(f.model);
    free(f.logits);
}

static void assert_unchanged(void)
{
    assert_int_equal(mgpt_pos(f.session), HELD);
    assert_memory_equal(mgpt_tokens(f.session), f.tokens, HELD * sizeof *f.tokens);
    assert_memory_equal(mgpt_logits(f.session), f.logits, f.n_vocab * sizeof *f.logits);
}

/* Runs HELD + N tokens in a fork: the bits of a call that nothing stopped. */
static void assert_goes_on(void)
{
    mgpt_session *fork = mgpt_fork(f.session, &err);
    assert_int_equal(mgpt_feed(fork, f.tokens + HELD, N, &err), MGPT_OK);
    assert_memory_equal(mgpt_logits(fork), f.next, f.n_vocab * sizeof *f.next);
    mgpt_session_free(fork);
}

/* Call number `which` of those that run tokens, of f.session and, in batches, of f.other before it. */
static int run_call(int which)
{
    mgpt_session *both[] = {f.other, f.session};
    const mgpt_run runs[] = {{.session = f.other, .tokens = f.tokens, .n = 1},
                             {.session = f.session, .tokens = f.tokens + HELD, .n = N}};
    switch (which) {
    case 0:
        return mgpt_step(f.session, f.tokens[HELD], &err) ? MGPT_OK : err.status;
    case 1:
        return mgpt_feed(f.session, f.tokens + HELD, N, &err);
    case 2:
        return mgpt_step_many(both, f.tokens + HELD, 2, &err);
    case 3:
        return mgpt_feed_many(runs, 2, &err);
    default:
        return mgpt_sync(f.session, f.tokens, HELD + N, &err);
    }
}

static void check_before_a_call(const char *name)
{
    open_case(name);
    for (int which = 0; which < CALLS; which++) {
        mgpt_stop(f.session);
        assert_int_equal(run_call(which), MGPT_ESTOP);
        assert_string_equal(err.text, "stopped by mgpt_stop");
        assert_int_equal(mgpt_pos(f.other), 0);
        assert_unchanged();
        assert_goes_on();
        mgpt_stop(f.session);
        assert_int_equal(mgpt_rewind(f.session, HELD, &err), MGPT_OK);
        assert_unchanged();
        assert_int_equal(run_call(which),
                         MGPT_OK); /* the rewind withdrew it, and the call above met it */
        assert_int_equal(mgpt_rewind(f.other, 0, &err), MGPT_OK);
        assert_int_equal(mgpt_sync(f.session, f.tokens, HELD, &err), MGPT_OK);
    }
    mgpt_stop(NULL);
    close_case();
}

TEST(before_a_call)
{
    check_before_a_call("names"); /* the fused path */
    check_before_a_call("shakespeare");
}

struct stop_count {
    int calls, stop_at;
};

static int stop_in_tap(const mgpt_value *value, void *user)
{
    struct stop_count *s = user;
    (void)value;
    if (++s->calls == s->stop_at)
        mgpt_stop(f.session);
    return 0;
}

/* No tap sees what was computed after the stop. */
TEST(in_a_tap)
{
    open_case("shakespeare");
    struct stop_count s = {0};
    const uint64_t all = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;
    assert_int_equal(mgpt_tap(f.session, all, stop_in_tap, &s, &err), MGPT_OK);
    for (s.stop_at = 1; s.stop_at < 400; s.stop_at += 7) {
        s.calls = 0;
        int status = mgpt_feed(f.session, f.tokens + HELD, N, &err);
        if (status == MGPT_OK) /* the last values of all */
            break;
        assert_int_equal(status, MGPT_ESTOP);
        assert_int_equal(s.calls, s.stop_at);
        assert_unchanged();
    }
    assert_true(s.stop_at > 100);
    close_case();
}

static int stop_other(const mgpt_value *value, void *user)
{
    (void)value;
    ++*(int *)user;
    mgpt_stop(f.other);
    return 0;
}

/* The tokens of a session may be done when it stops the call: no later layer or pass runs. */
TEST(of_a_session_that_is_done)
{
    open_case("shakespeare");
    int calls = 0;
    for (int is_first = 0; is_first < 2; is_first++) {
        mgpt_run runs[] = {{.session = f.other, .tokens = f.tokens, .n = is_first ? 1 : 0},
                           {.session = f.session, .tokens = f.tokens + HELD, .n = LONG - HELD}};
        assert_int_equal(
            mgpt_tap(f.session, MGPT_POINT_BIT(MGPT_RESID_POST), stop_other, &calls, &err),
            MGPT_OK);
        calls = 0;
        assert_int_equal(mgpt_feed_many(runs, 2, &err), MGPT_ESTOP);
        assert_int_equal(calls, 1);
        assert_int_equal(mgpt_pos(f.other), 0);
        assert_unchanged();
    }
    assert_int_equal(mgpt_tap(f.session, 0, NULL, NULL, &err), MGPT_OK);
    assert_goes_on();
    close_case();
}

static void *stop_later(void *delay)
{
    const struct timespec wait = {0, *(const long *)delay};
    nanosleep(&wait, NULL);
    mgpt_stop(f.session);
    return NULL;
}

/* While a prompt runs: it is stopped or complete, never something in between. */
TEST(from_another_thread)
{
    int stopped = 0;
    open_case("shakespeare");
    for (long i = 0; i < 40; i++) {
        pthread_t thread;
        long delay = i * 200000;
        assert_int_equal(pthread_create(&thread, NULL, stop_later, &delay), 0);
        int status = mgpt_feed(f.session, f.tokens + HELD, LONG - HELD, &err);
        assert_int_equal(pthread_join(thread, NULL), 0);
        stopped += status == MGPT_ESTOP;
        if (status == MGPT_OK) {
            assert_int_equal(mgpt_pos(f.session), LONG);
            assert_int_equal(mgpt_rewind(f.session, 0, &err),
                             MGPT_OK); /* withdraws one that came too late */
            assert_int_equal(mgpt_feed(f.session, f.tokens, HELD, &err), MGPT_OK);
        }
        assert_unchanged();
    }
    assert_true(stopped > 0);
    assert_goes_on();
    close_case();
}

static void on_alarm(int number)
{
    (void)number;
    mgpt_stop(f.session);
}

TEST(from_a_signal_handler)
{
    open_case("shakespeare");
    const struct sigaction action = {.sa_handler = on_alarm};
    struct sigaction old;
    assert_int_equal(sigaction(SIGALRM, &action, &old), 0);
    raise(SIGALRM);
    assert_int_equal(mgpt_feed(f.session, f.tokens + HELD, N, &err), MGPT_ESTOP);
    assert_unchanged();
    assert_int_equal(sigaction(SIGALRM, &old, NULL), 0);
    close_case();
}
