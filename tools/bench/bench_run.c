/* One sample of one test: prefill, decode, or the whole loop of generating text. See bench.h.
 *
 * A stretch is what the test names: the session goes back to its depth and takes its tokens. A
 * sample is as many stretches as a clock needs. Tokens fed have no meaning; what is computed does
 * not depend on them.
 */
#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

static const double sample_seconds = 0.02, first_seconds = 0.05;

/* The state of one text that is being drawn. */
struct drawing {
    mgpt_sampler sampler;
    mgpt_stream stream;
    int32_t token;
};

/* What a sample needs at hand. */
struct running {
    struct bench *bench;
    struct test *test;
    int32_t *tokens;          /* [longest of n, depth, n_sessions] */
    struct drawing *drawings; /* [n_sessions] */
    int status;
    mgpt_error err;
};

const char *test_name(const struct test *t, char *buf, size_t cap)
{
    static const char *const names[] = {
        [TEST_PREFILL] = "pp", [TEST_DECODE] = "tg", [TEST_GENERATE] = "gen"};
    int n = snprintf(buf, cap, "%s%d", names[t->kind], t->n);
    if (t->depth > 0 && n > 0 && (size_t)n < cap)
        n += snprintf(buf + n, cap - (size_t)n, " @ d%d", t->depth);
    if (t->n_sessions > 1 && n > 0 && (size_t)n < cap)
        snprintf(buf + n, cap - (size_t)n, " x%d", t->n_sessions);
    return buf;
}

static int32_t bench_run_token_at(const mgpt_info *info, size_t i)
{
    return (int32_t)((i * 7 + 1) % (size_t)info->n_vocab);
}

/* ---- stretches ---- */

static int back(const struct test *t, mgpt_error *err)
{
    int status = MGPT_OK;
    for (int32_t i = 0; status == MGPT_OK && i < t->n_sessions; i++)
        status = mgpt_rewind(t->sessions[i], (size_t)t->depth, err);
    return status;
}

/* Runs one token in each session of the test. */
static int bench_run_step(const struct test *t, const int32_t *tokens, mgpt_error *err)
{
    int status = MGPT_OK;
    if (t->n_sessions > 1)
        status = mgpt_step_many(t->sessions, tokens, (size_t)t->n_sessions, err);
    else if (!mgpt_step(t->sessions[0], tokens[0], err))
        status = err->status;
    return status;
}

static int bench_run_decode(struct running *r)
{
    const struct test *t = r->test;
    int status = back(t, &r->err);
    for (int32_t i = 0; status == MGPT_OK && i < t->n; i++) {
        for (int32_t s = 0; s < t->n_sessions; s++)
            r->tokens[s] = bench_run_token_at(&r->bench->engine.info, (size_t)(i + s));
        status = bench_run_step(t, r->tokens, &r->err);
    }
    return status;
}

static int prefill(struct running *r)
{
    const struct test *t = r->test;
    int status = back(t, &r->err);
    return status == MGPT_OK ? mgpt_feed(t->sessions[0], r->tokens, (size_t)t->n, &r->err) : status;
}

/* Draws a token of one text, writes it, and begins a new text after an end. */
static void bench_run_draw(struct drawing *d, const struct engine *e, mgpt_session *session,
                           int32_t start)
{
    char text[256];
    const float *logits = mgpt_logits(session);
    d->token = mgpt_sample(&d->sampler, logits, engine_n_choices(e));
    if (mgpt_is_end(e->model, d->token) || mgpt_pos(session) == mgpt_n_ctx(session)) {
        mgpt_stream_end(&d->stream, text, sizeof text);
        mgpt_rewind(session, 0, NULL);
        d->token = start;
    } else {
        mgpt_stream_put(&d->stream, e->model, d->token, text, sizeof text);
    }
}

static int generate(struct running *r)
{
    const struct test *t = r->test;
    const struct engine *e = &r->bench->engine;
    int32_t start = e->info.bos >= 0 ? e->info.bos : 0;
    int status = back(t, &r->err);
    for (int32_t s = 0; s < t->n_sessions; s++)
        r->drawings[s] =
            (struct drawing){.sampler = {.temperature = 0.8f, .rng = (uint64_t)s}, .token = start};
    for (int32_t i = 0; status == MGPT_OK && i < t->n; i++) {
        for (int32_t s = 0; s < t->n_sessions; s++)
            r->tokens[s] = r->drawings[s].token;
        status = bench_run_step(t, r->tokens, &r->err);
        for (int32_t s = 0; status == MGPT_OK && s < t->n_sessions; s++)
            bench_run_draw(&r->drawings[s], e, t->sessions[s], start);
    }
    return status;
}

static void stretches(void *ctx, size_t times)
{
    static int (*const kinds[])(struct running *) = {prefill, bench_run_decode, generate};
    struct running *r = ctx;
    for (size_t i = 0; i < times && r->status == MGPT_OK; i++)
        r->status = kinds[r->test->kind](r);
}

/* ---- samples ---- */

static int out_of_memory(void)
{
    return cli_fail(NULL, &(mgpt_error){.status = MGPT_EMEM,
                                        .offset = MGPT_NO_OFFSET,
                                        .text = "out of memory for the benchmark"});
}

static int running_begin(struct running *r, struct bench *b, struct test *t)
{
    size_t n = (size_t)(t->n > t->depth ? t->n : t->depth);
    n = n > (size_t)t->n_sessions ? n : (size_t)t->n_sessions;
    *r = (struct running){.bench = b, .test = t, .status = MGPT_OK};
    r->tokens = malloc((n + 1) * sizeof *r->tokens);
    r->drawings = malloc((size_t)t->n_sessions * sizeof *r->drawings);
    if (!r->tokens || !r->drawings)
        return out_of_memory();
    for (size_t i = 0; i < n; i++)
        r->tokens[i] = bench_run_token_at(&b->engine.info, i);
    return EXIT_OK;
}

/* Seconds of a stretch, into *seconds. */
static int run_for(struct running *r, double min_seconds, double *seconds)
{
    *seconds = bench_time(stretches, r, min_seconds, &r->test->times);
    if (r->status < 0)
        return cli_fail(r->bench->engine.path, &r->err);
    return EXIT_OK;
}

static void running_end(struct running *r)
{
    free(r->tokens);
    free(r->drawings);
}

int test_sample(struct bench *b, struct test *t)
{
    struct running r;
    double seconds;
    int code = running_begin(&r, b, t);
    if (code == EXIT_OK)
        code = run_for(&r, sample_seconds, &seconds);
    running_end(&r);
    if (code != EXIT_OK)
        return code;
    const struct limits *l = t->limits;
    int i = t->rate.n;
    series_add(&t->rate, (double)t->n * t->n_sessions / seconds);
    if (i < l->read.n && t->step_bytes > 0)
        series_add(&t->read_share, t->step_bytes * t->n / seconds / l->read.v[i]);
    double least = limits_seconds(l, i, &b->work, t->linear_ops, t->attention_ops);
    if (least > 0)
        series_add(&t->peak_share, least / seconds);
    return EXIT_OK;
}

/* ---- sessions ---- */

/* A session of the options' kind that holds `depth` tokens. Returns an exit code. */
static int bench_session(struct bench *b, int n_threads, const int32_t *tokens, size_t depth,
                         mgpt_session **session)
{
    mgpt_error err;
    struct engine e = b->engine;
    e.n_threads = n_threads;
    int code = engine_session(&e);
    *session = e.session;
    if (code == EXIT_OK && mgpt_feed(e.session, tokens, depth, &err) < 0)
        code = cli_fail(e.path, &err);
    return code;
}

/* The first works for all with its threads; the others are alike, so forks of the second. */
static int bench_run_fill(struct bench *b, struct test *t, const int32_t *tokens)
{
    mgpt_error err;
    int code = EXIT_OK;
    for (int32_t i = 0; i < t->n_sessions && code == EXIT_OK; i++) {
        if (i < 2)
            code = bench_session(b, i == 0 ? t->limits->n_threads : 1, tokens, (size_t)t->depth,
                                 &t->sessions[i]);
        else if (!(t->sessions[i] = mgpt_fork(t->sessions[1], &err)))
            code = cli_fail(b->engine.path, &err);
    }
    return code;
}

int test_open(struct bench *b, struct test *t)
{
    struct running r;
    double seconds;
    t->sessions = calloc((size_t)t->n_sessions, sizeof(mgpt_session *));
    int code = running_begin(&r, b, t);
    if (!t->sessions && code == EXIT_OK)
        code = out_of_memory();
    if (code == EXIT_OK)
        code = bench_run_fill(b, t, r.tokens);
    if (code == EXIT_OK)
        code = run_for(&r, first_seconds, &seconds);
    running_end(&r);
    return code;
}

void test_close(struct test *t)
{
    for (int32_t i = 0; t->sessions && i < t->n_sessions; i++)
        mgpt_session_free(t->sessions[i]);
    free(t->sessions);
    t->sessions = NULL;
}
