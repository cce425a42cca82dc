/* The second promise, for timelines: rewound, forked, synced or run in a batch with others, a
 * session gives the bits of a fresh one. The reference and the models are toy_zoo.h's. */
#include "support/toy_zoo.h"
#include "support/unit.h"

/* Positions worth going back to: both ends, and around the edges of the cache's panels of 16. */
static const size_t positions[] = {0, 1, 8, 15, 16, 17, 33, 40, 65};
enum { N_POSITIONS = COUNT(positions) };

/* Takes n steps with tokens that are not the subject's. */
static void go_astray(const struct subject *s, mgpt_session *session, size_t n)
{
    for (size_t i = mgpt_pos(session); i < s->n && n-- > 0; i++)
        assert_non_null(mgpt_step(session, (s->tokens[i] + 1) % (int32_t)s->n_vocab, NULL));
}

/* Back from the end and from a detour with other tokens. */
TEST_ZOO(rewind)
{
    mgpt_session *session = subject_session(s->model, 5, 1);
    subject_feed(session, s->tokens, s->n);
    for (size_t i = 0; i < N_POSITIONS && positions[i] < s->n; i++) {
        assert_int_equal(mgpt_rewind(session, positions[i], NULL), MGPT_OK);
        go_astray(s, session, 5);
        assert_int_equal(mgpt_rewind(session, positions[i], NULL), MGPT_OK);
        subject_check_feed(s, session, "rewound to", positions[i]);
    }
    mgpt_session_free(session);
}

/* A fork and its origin go on independently, whichever ends first. */
TEST_ZOO(fork)
{
    for (size_t p = 0; p < N_POSITIONS && positions[p] < s->n; p++) {
        size_t pos = positions[p];
        mgpt_session *origin = subject_session(s->model, 7, 1);
        subject_feed(origin, s->tokens, pos);
        mgpt_session *fork = mgpt_fork(origin, NULL), *other = mgpt_fork(fork, NULL);
        assert_non_null(fork);
        assert_non_null(other);
        assert_int_equal(mgpt_pos(fork), pos);
        if (pos > 0)
            subject_check(s, pos - 1, 1, mgpt_logits(fork), "logits of the fork at", pos);
        go_astray(s, other, 5);
        subject_check_feed(s, fork, "fork at", pos);
        mgpt_session_free(fork);
        subject_check_feed(s, origin, "origin of the fork at", pos);
        mgpt_session_free(origin);
        mgpt_session_free(other);
    }
}

/* A fork that went back into the part which it shares with its origin is forked. */
TEST_ZOO(fork_within_what_is_shared)
{
    mgpt_session *origin = subject_session(s->model, 7, 1);
    subject_feed(origin, s->tokens, s->n);
    mgpt_session *fork = mgpt_fork(origin, NULL);
    size_t pos = s->n / 3;
    assert_int_equal(mgpt_rewind(fork, pos, NULL), MGPT_OK);
    mgpt_session *other = mgpt_fork(fork, NULL);
    assert_non_null(other);
    subject_check_feed(s, other, "fork of a rewound fork at", pos);
    subject_check_feed(s, fork, "rewound fork at", pos);
    mgpt_session_free(other);
    mgpt_session_free(fork);
    mgpt_session_free(origin);
}

/* From any other text by mgpt_sync: random edits, shorter, longer, equal, and after a rewind. */
TEST_ZOO(sync)
{
    mgpt_session *session = subject_session(s->model, 0, 1);
    uint64_t rng = 7;
    int32_t other[MAX_TOKENS];
    for (size_t round = 0; round < 12; round++) {
        size_t n = 1 + toy_random(&rng) % s->n, n_other = toy_random(&rng) % (s->n + 1);
        memcpy(other, s->tokens, sizeof other);
        if (n_other > 0 && round % 4 != 3)
            other[toy_random(&rng) % n_other] = (int32_t)(toy_random(&rng) % s->n_vocab);
        assert_int_equal(mgpt_sync(session, other, n_other, NULL), MGPT_OK);
        assert_int_equal(mgpt_pos(session), n_other);
        if (round % 3 == 2)
            assert_int_equal(mgpt_rewind(session, n_other / 2, NULL), MGPT_OK);
        assert_int_equal(mgpt_sync(session, s->tokens, n, NULL), MGPT_OK);
        assert_int_equal(mgpt_pos(session), n);
        assert_memory_equal(mgpt_tokens(session), s->tokens, n * sizeof *s->tokens);
        subject_check(s, n - 1, 1, mgpt_logits(session), "sync, round", round);
    }
    mgpt_session_free(session);
}

/* Sessions of different lengths take steps together: session i holds each * i tokens. The first one
 * lends its scratch, so its chunk is the number of rows of a pass: down to one, and with a
 * remainder. */
static void check_batch(const struct subject *s, int32_t n_chunk, size_t n_sessions, size_t each)
{
    enum { MOST = 7, ROUNDS = 3 };
    mgpt_session *sessions[MOST];
    int32_t next[MOST];
    for (size_t i = 0; i < n_sessions; i++) {
        sessions[i] = subject_session(s->model, i == 0 ? n_chunk : 0, i == 0 ? 2 : 1);
        subject_feed(sessions[i], s->tokens, each * i);
    }
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < n_sessions; i++)
            next[i] = s->tokens[each * i + round];
        assert_int_equal(mgpt_step_many(sessions, next, n_sessions, NULL), MGPT_OK);
        for (size_t i = 0; i < n_sessions; i++)
            subject_check(s, each * i + round, 1, mgpt_logits(sessions[i]), "batch, session", i);
    }
    subject_check_feed(s, sessions[n_sessions - 1], "after a batch, session", n_sessions - 1);
    for (size_t i = 0; i < n_sessions; i++)
        mgpt_session_free(sessions[i]);
}

TEST_ZOO(batches)
{
    size_t each = s->n / 7 - 1; /* 7 sessions, 3 rounds, and something left to feed */
    check_batch(s, 0, 7, each);
    check_batch(s, 1, 3, each);
    check_batch(s, 2, 5, each);
    check_batch(s, 3, 7, each);
    check_batch(s, 4, 7, each);
}

/* Forks of one session step together: their first whole panels are one copy, read by one block of
 * attention. Each has tokens of its own, and a fresh session with the same tokens is the reference.
 * The first fork goes back to the last token that it shares, the last one to half of them.
 * Meanwhile the origin goes on from position `back`, which is among what they share or after it. */
static void check_forks(const struct subject *s, size_t pos, size_t n_forks, int32_t n_chunk,
                        size_t back)
{
    enum { MOST = 5, ROUNDS = 20 };
    mgpt_session *origin = subject_session(s->model, n_chunk, 2), *forks[MOST], *fresh[MOST];
    int32_t next[MOST];
    pos = pos < s->n ? pos : s->n - 1;
    subject_feed(origin, s->tokens, pos);
    for (size_t i = 0; i < n_forks; i++) {
        assert_non_null(forks[i] = mgpt_fork(i == 2 ? forks[1] : origin, NULL));
        fresh[i] = subject_session(s->model, 0, 1);
        subject_feed(fresh[i], s->tokens, pos);
    }
    for (size_t i = 0; i < n_forks; i += n_forks - 1) {
        size_t to = i == 0 && pos >= 16 ? pos / 16 * 16 - 1 : pos / 2;
        assert_int_equal(mgpt_rewind(forks[i], to, NULL), MGPT_OK);
        assert_int_equal(mgpt_rewind(fresh[i], to, NULL), MGPT_OK);
    }
    assert_int_equal(mgpt_rewind(origin, back < pos ? back : pos, NULL), MGPT_OK);
    for (size_t round = 0; round < ROUNDS && pos + round < s->n; round++) {
        go_astray(s, origin, 1);
        for (size_t i = 0; i < n_forks; i++)
            next[i] = (s->tokens[round] + (int32_t)i) % (int32_t)s->n_vocab;
        assert_int_equal(mgpt_step_many(forks, next, n_forks, NULL), MGPT_OK);
        for (size_t i = 0; i < n_forks; i++)
            assert_memory_equal(mgpt_logits(forks[i]), mgpt_step(fresh[i], next[i], NULL),
                                s->n_vocab * sizeof(float));
    }
    for (size_t i = 0; i < n_forks; i++) {
        mgpt_session_free(forks[i]);
        mgpt_session_free(fresh[i]);
    }
    mgpt_session_free(origin);
}

TEST_ZOO(forks_together)
{
    check_forks(s, 16, 5, 0, 5);
    check_forks(s, 16, 3, 0, 16);
    check_forks(s, 33, 5, 3, 31);
    check_forks(s, 50, 4, 1, 50);
}

/* mgpt_tokens() may be fed to the session it came from, although the array moves when it grows. */
TEST_ZOO(own_tokens)
{
    size_t half = s->n / 2;
    mgpt_session *own = subject_session(s->model, 3, 1), *fresh = subject_session(s->model, 3, 1);
    subject_feed(own, s->tokens, half);
    subject_feed(fresh, s->tokens, half);
    subject_feed(fresh, s->tokens, half);
    assert_int_equal(mgpt_feed(own, mgpt_tokens(own), half, NULL), MGPT_OK);
    assert_int_equal(mgpt_pos(own), 2 * half);
    assert_memory_equal(mgpt_tokens(own), mgpt_tokens(fresh), 2 * half * sizeof *s->tokens);
    assert_memory_equal(mgpt_logits(own), mgpt_logits(fresh), s->n_vocab * sizeof(float));
    assert_int_equal(mgpt_sync(own, mgpt_tokens(own), half, NULL), MGPT_OK);
    subject_check(s, half - 1, 1, mgpt_logits(own), "synced to its own tokens, position", half - 1);
    mgpt_session_free(own);
    mgpt_session_free(fresh);
}
