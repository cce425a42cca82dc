/* Tests: the zoo and its subjects. See toy_zoo.h. */
#include "support/toy_zoo.h"

#include "base/fnv.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define ARCH(...)
#define TOY(id, ...) [id] = {__VA_ARGS__},
const struct toy_spec toy_zoo[ZOO_SIZE] = {
#include "support/toys.inc"
};
/* clang-format on */

void subject_check(const struct subject *s, size_t first, size_t rows, const float *logits,
                   const char *what, size_t v)
{
    size_t row = s->n_vocab * sizeof *logits;
    const float *expected = s->logits + first * s->n_vocab;
    if (!logits)
        fail_msg("%s: %s %zu: no logits", s->m->spec.label, what, v);
    if (memcmp(logits, expected, rows * row) == 0)
        return;
    size_t at = 0;
    while (memcmp(logits + at * s->n_vocab, expected + at * s->n_vocab, row) == 0)
        at++;
    fail_msg(
        "%s, seed %llu: %s %zu: logits of positions %zu..%zu hash to %016llx, expected %016llx; "
        "first difference at position %zu",
        s->m->spec.label, (unsigned long long)s->m->spec.seed, what, v, first, first + rows - 1,
        (unsigned long long)fnv1a(FNV_START, logits, rows * row),
        (unsigned long long)fnv1a(FNV_START, expected, rows * row), first + at);
}

mgpt_session *subject_session(const mgpt_model *model, int32_t n_chunk, int32_t n_threads)
{
    mgpt_session_params params = {.n_chunk = n_chunk, .n_threads = n_threads};
    mgpt_error err;
    mgpt_session *session = mgpt_session_new(model, &params, &err);
    if (!session)
        fail_msg("%s", err.text);
    return session;
}

void subject_feed(mgpt_session *session, const int32_t *tokens, size_t n)
{
    mgpt_error err;
    if (mgpt_feed(session, tokens, n, &err) != MGPT_OK)
        fail_msg("%s", err.text);
}

/* Collects the logits of every position through a tap. */
static int collect_logits(const mgpt_value *value, void *user)
{
    float *to = (float *)user + (size_t)value->pos * (size_t)value->cols;
    for (int32_t i = 0; i < value->rows; i++)
        memcpy(to + i * value->cols, value->data + (size_t)i * value->stride,
               (size_t)value->cols * sizeof *to);
    return 0;
}

void subject_check_feed(const struct subject *s, mgpt_session *session, const char *what, size_t v)
{
    size_t pos = mgpt_pos(session);
    float *logits = toy_alloc(s->n * s->n_vocab, sizeof *logits);
    mgpt_tap(session, MGPT_POINT_BIT(MGPT_LOGITS), collect_logits, logits, NULL);
    subject_feed(session, s->tokens + pos, s->n - pos);
    mgpt_tap(session, 0, NULL, NULL, NULL);
    subject_check(s, pos, s->n - pos, logits + pos * s->n_vocab, what, v);
    subject_check(s, s->n - 1, 1, mgpt_logits(session), what, v);
    free(logits);
}

/* The reference: one token at a time, one thread, no tap. */
static void run_reference(struct subject *s)
{
    mgpt_session *session = subject_session(s->model, 1, 1);
    s->logits = toy_alloc(s->n * s->n_vocab, sizeof *s->logits);
    for (size_t i = 0; i < s->n; i++) {
        mgpt_error err;
        const float *logits = mgpt_step(session, s->tokens[i], &err);
        if (!logits)
            fail_msg("%s: %s", s->m->spec.label, err.text);
        memcpy(s->logits + i * s->n_vocab, logits, s->n_vocab * sizeof *logits);
    }
    mgpt_session_free(session);
}

struct subject subject_new(const struct toy_spec *spec, uint64_t seed)
{
    struct toy_spec seeded = *spec;
    seeded.seed = seed;
    struct subject s = {.m = toy_build(&seeded), .n_vocab = (size_t)spec->n_vocab};
    s.model = toy_open(s.m, NULL);
    s.n = spec->n_ctx < MAX_TOKENS ? (size_t)spec->n_ctx : MAX_TOKENS;
    toy_tokens(s.m, seed, s.tokens, s.n);
    run_reference(&s);
    return s;
}

struct subject subject_zoo(size_t zoo)
{
    return subject_new(&toy_zoo[zoo], 1000 + zoo);
}

void subject_free(struct subject *s)
{
    free(s->logits);
    mgpt_close(s->model);
    toy_free(s->m);
}

void subject_each(void test(const struct subject *))
{
    for (size_t i = 0; i < ZOO_SIZE; i++) {
        struct subject s = subject_zoo(i);
        test(&s);
        subject_free(&s);
    }
}
