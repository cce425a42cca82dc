/* mgpt_feed_many: runs of several sessions in one call have the bits that each has alone, wherever
 * they begin. The reference is mgpt_feed of one session, in pieces of another size. */
#include "support/toy_zoo.h"
#include "support/trace.h"
#include "support/unit.h"

static const int32_t kv_types[] = {MGPT_KV_F32, MGPT_KV_F16, MGPT_KV_Q8_0};

static mgpt_session *session_with(const struct subject *s, int32_t kv_type, int32_t n_chunk,
                                  int32_t n_threads)
{
    mgpt_session_params params = {.kv_type = kv_type, .n_chunk = n_chunk, .n_threads = n_threads};
    mgpt_session *session = mgpt_session_new(s->model, &params, NULL);
    assert_non_null(session);
    return session;
}

static void feed_many(const mgpt_run *runs, size_t n)
{
    mgpt_error err;
    if (mgpt_feed_many(runs, n, &err) != MGPT_OK)
        fail_msg("%s", err.text);
}

/* Both hold the same tokens, logits, keys and values, to the bit, and go on alike. */
static void check_same(const struct subject *s, mgpt_session *a, mgpt_session *b, const char *what)
{
    const struct toy_spec *spec = &s->m->spec;
    size_t n = mgpt_pos(a), row = s->n_vocab * sizeof(float);
    mgpt_info info;
    assert_int_equal(mgpt_pos(b), n);
    assert_memory_equal(mgpt_tokens(a), mgpt_tokens(b), n * sizeof(int32_t));
    if (memcmp(mgpt_logits(a), mgpt_logits(b), row) != 0)
        fail_msg("%s: %s: other logits", spec->label, what);
    assert_int_equal(mgpt_get_info(s->model, &info, NULL), MGPT_OK);
    size_t size = n * (size_t)(info.head_dim > info.value_dim ? info.head_dim : info.value_dim);
    float *kv = toy_alloc(4 * size, sizeof *kv);
    for (int32_t i = 0; i < info.n_layer * info.n_head_kv; i++) {
        int32_t layer = i / info.n_head_kv, head = i % info.n_head_kv;
        mgpt_read_kv(a, layer, head, 0, n, kv, kv + size, NULL);
        mgpt_read_kv(b, layer, head, 0, n, kv + 2 * size, kv + 3 * size, NULL);
        if (memcmp(kv, kv + 2 * size, 2 * size * sizeof *kv) != 0)
            fail_msg("%s: %s: other keys or values in layer %d", spec->label, what, layer);
    }
    free(kv);
    if (n < mgpt_n_ctx(a)) {
        const float *next = mgpt_step(a, s->tokens[0], NULL);
        if (memcmp(next, mgpt_step(b, s->tokens[0], NULL), row) != 0)
            fail_msg("%s: %s: goes on differently", spec->label, what);
    }
}

/* ---- ragged ---- */

/* Session i holds 5 i % 23 tokens and runs 7 i % 19 more, in two runs. The first one's chunk is the
 * number of rows of a pass. */
static void check_ragged(const struct subject *s, int32_t kv_type, int32_t n_chunk)
{
    enum { N = 6 };
    mgpt_session *alone[N];
    mgpt_run runs[2 * N];
    for (size_t i = 0; i < N; i++) {
        size_t pos = 5 * i % 23 * s->n / MAX_TOKENS, n = (1 + 7 * i % 19) * s->n / MAX_TOKENS;
        mgpt_session *session = session_with(s, kv_type, i ? 0 : n_chunk, i ? 1 : 2);
        subject_feed(session, s->tokens, pos);
        alone[i] = session_with(s, kv_type, 3, 1);
        n = n > 0 ? n : 1;
        subject_feed(alone[i], s->tokens, pos);
        subject_feed(alone[i], s->tokens + pos, n);
        runs[2 * i] = (mgpt_run){.session = session, .tokens = s->tokens + pos, .n = n / 2};
        runs[2 * i + 1] =
            (mgpt_run){.session = session, .tokens = s->tokens + pos + n / 2, .n = n - n / 2};
    }
    feed_many(runs, 2 * N);
    for (size_t i = 0; i < N; i++) {
        check_same(s, runs[2 * i].session, alone[i], "ragged");
        mgpt_session_free(runs[2 * i].session);
        mgpt_session_free(alone[i]);
    }
}

TEST_ZOO(ragged)
{
    const int32_t chunks[] = {0, 1, 4, 17};
    for (size_t i = 0; i < COUNT(chunks); i++)
        check_ragged(s, kv_types[i % 3], chunks[i]);
}

/* Every session's tap sees its own rows, all of them; the others' rows do not matter. */
static void check_taps(size_t zoo, int32_t n_chunk)
{
    enum { N = 4 };
    const uint64_t all = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;
    struct subject s = subject_zoo(zoo);
    struct trace *alone[N], *together[N];
    mgpt_run runs[N];
    char where[80];
    for (size_t i = 0; i < N; i++) {
        mgpt_session *session = session_with(&s, 0, i ? 0 : n_chunk, 1);
        size_t pos = 2 * i, n = 9 - 2 * i;
        subject_feed(session, s.tokens, pos);
        mgpt_session *single = mgpt_fork(session, NULL);
        alone[i] = trace_new(s.m->spec.n_layer, pos + n);
        together[i] = trace_new(s.m->spec.n_layer, pos + n);
        mgpt_tap(single, all, trace_tap, alone[i], NULL);
        mgpt_tap(session, all, trace_tap, together[i], NULL);
        subject_feed(single, s.tokens + pos, n);
        mgpt_session_free(single);
        runs[i] =
            (mgpt_run){.session = session, .tokens = s.tokens + pos, .n = n, .untapped = i == 1};
    }
    feed_many(runs, N);
    for (size_t i = 0; i < N; i++) {
        assert_string_equal(together[i]->fault, "");
        if (i != 1 && !trace_equal(alone[i], together[i], where, sizeof where))
            fail_msg("session %zu: %s", i, where);
        for (int p = 0; p < MGPT_N_POINTS && i == 1; p++)
            assert_null(trace_at(together[i], (mgpt_point)p, p < MGPT_RESID_PRE ? -1 : 0)->data);
        trace_free(alone[i]);
        trace_free(together[i]);
        mgpt_session_free(runs[i].session);
    }
    subject_free(&s);
}

TEST(each_has_its_tap)
{
    check_taps(ZOO_LLAMA_DEEP, 0);
    check_taps(ZOO_GEMMA3_PERIOD, 5);
    check_taps(ZOO_NANOCHAT_2026, 1);
    check_taps(ZOO_GPT2, 7);
}

/* ---- runs that begin in a layer ---- */

/* What is done to the row of one position at one point of one layer. */
struct row_edit {
    mgpt_point point;
    int32_t layer, pos;
    int32_t begin; /* the layer in which the run begins */
    size_t n;      /* how often it was done */
    size_t early;  /* calls with a layer before `begin` */
};

static int do_edit(const mgpt_value *value, void *user)
{
    struct row_edit *e = user;
    int32_t row = e->pos - value->pos, attention = trace_is_attention(value->point);
    e->early += value->layer < e->begin;
    if (value->layer != e->layer || row < 0 || (attention ? row > 0 : row >= value->rows))
        return 0;
    float *x = value->data + (attention ? 0 : (size_t)row * value->stride);
    x[0] = x[0] * 0.5f + 0.75f;
    x[value->cols - 1] -= 0.25f;
    e->n++;
    return 0;
}

/* MGPT_RESID_PRE of all layers and positions. */
struct residuals {
    float *x; /* [n_layer][n][n_embd] */
    size_t n, n_embd;
};

static int keep_stream(const mgpt_value *value, void *user)
{
    const struct residuals *t = user;
    size_t at = (size_t)value->layer * t->n + (size_t)value->pos;
    memcpy(t->x + at * t->n_embd, value->data, (size_t)value->rows * t->n_embd * sizeof *t->x);
    return 0;
}

struct clean_run {
    const struct subject *s;
    mgpt_session *session;
    struct residuals stream;
};

static struct clean_run clean_run(const struct subject *s, int32_t kv_type, size_t n)
{
    struct clean_run c = {.s = s, .session = session_with(s, kv_type, 5, 1)};
    c.stream.n = n;
    c.stream.n_embd = (size_t)s->m->spec.n_embd;
    c.stream.x = toy_alloc((size_t)s->m->spec.n_layer * n * c.stream.n_embd, sizeof(float));
    mgpt_tap(c.session, MGPT_POINT_BIT(MGPT_RESID_PRE), keep_stream, &c.stream, NULL);
    subject_feed(c.session, s->tokens, n);
    mgpt_tap(c.session, 0, NULL, NULL, NULL);
    return c;
}

/* Tokens [pos, pos + n) from a layer on. */
static mgpt_run run_from(const struct clean_run *c, mgpt_session *session, int32_t layer,
                         size_t pos, size_t n)
{
    const struct residuals *t = &c->stream;
    return (mgpt_run){.session = session,
                      .tokens = c->s->tokens + pos,
                      .n = n,
                      .resid = t->x + ((size_t)layer * t->n + pos) * t->n_embd,
                      .clean = c->session,
                      .layer = layer};
}

/* The edit as two runs of a fork: its position, tapped; what follows, from the first layer that is
 * not as in the clean run. */
static void begin_edit(const struct clean_run *c, struct row_edit *e, mgpt_run *runs)
{
    mgpt_session *fork = mgpt_fork(c->session, NULL);
    size_t pos = (size_t)e->pos;
    int others = e->point <= MGPT_ROT_K && e->point != MGPT_Q && e->point != MGPT_ROT_Q;
    int32_t after = e->layer + (!others && e->layer + 1 < c->s->m->spec.n_layer);
    assert_int_equal(mgpt_rewind(fork, pos, NULL), MGPT_OK);
    mgpt_tap(fork, MGPT_POINT_BIT(e->point), do_edit, e, NULL);
    e->begin = e->layer;
    runs[0] = run_from(c, fork, e->layer, pos, 1);
    runs[1] = run_from(c, fork, after, pos + 1, c->stream.n - pos - 1);
    runs[1].untapped = 1;
}

/* The edited run alone: all tokens from the embedding on. */
static void check_edit(const struct clean_run *c, int32_t kv_type, const struct row_edit *done,
                       mgpt_session *fork)
{
    char what[80], name[48];
    struct row_edit e = *done;
    e.begin = 0;
    mgpt_session *alone = session_with(c->s, kv_type, 4, 1);
    mgpt_tap(fork, 0, NULL, NULL, NULL);
    mgpt_tap(alone, MGPT_POINT_BIT(e.point), do_edit, &e, NULL);
    subject_feed(alone, c->s->tokens, c->stream.n);
    mgpt_tap(alone, 0, NULL, NULL, NULL);
    assert_int_equal(done->early, 0);
    assert_int_equal(e.n - done->n, done->n); /* once, or never where the model lacks the point */
    mgpt_point_name(e.point, e.layer, name, sizeof name);
    snprintf(what, sizeof what, "%s at position %d", name, e.pos);
    check_same(c->s, alone, fork, what);
    mgpt_session_free(alone);
    mgpt_session_free(fork);
}

/* Points that latent attention has for show. */
static int is_copy(mgpt_point point)
{
    return point == MGPT_K || point == MGPT_V || point == MGPT_ROT_K;
}

/* All points of all layers at some positions, in one call. */
static void check_edits(const struct subject *s, int32_t kv_type, const int32_t *positions,
                        size_t n_positions)
{
    enum { POINTS = MGPT_RESID_POST - MGPT_RESID_PRE + 1 };
    size_t n = s->n < 35 ? s->n - 1 : 34, count = 0;
    size_t most = n_positions * POINTS * (size_t)s->m->spec.n_layer;
    struct clean_run c = clean_run(s, kv_type, n);
    struct row_edit *edits = toy_alloc(most, sizeof *edits);
    mgpt_run *runs = toy_alloc(2 * most, sizeof *runs);
    for (size_t i = 0; i < most; i++) {
        struct row_edit e = {(mgpt_point)(MGPT_RESID_PRE + i % POINTS),
                             (int32_t)(i / POINTS / n_positions),
                             positions[i / POINTS % n_positions],
                             0,
                             0,
                             0};
        if ((size_t)e.pos >= n || (s->m->spec.n_latent && is_copy(e.point)))
            continue;
        edits[count] = e;
        begin_edit(&c, &edits[count], runs + 2 * count);
        count++;
    }
    feed_many(runs, 2 * count);
    for (size_t i = 0; i < count; i++)
        check_edit(&c, kv_type, &edits[i], runs[2 * i].session);
    mgpt_session_free(c.session);
    free(c.stream.x);
    free(edits);
    free(runs);
}

TEST_ZOO(edits)
{
    const int32_t some[] = {0, 3, 16, 33};
    if (s->m->spec.n_layer == 0)
        return;
    check_edits(s, MGPT_KV_F32, some, COUNT(some));
    check_edits(s, MGPT_KV_F16, some + 1, 1);
    check_edits(s, MGPT_KV_Q8_0, some + 1, 2);
}

/* A later run of a session may begin in an earlier layer than the one before it; the logits are
 * those of its last token, with every row shown too. */
TEST(later_rows_begin_earlier)
{
    struct subject s = subject_zoo(ZOO_LLAMA_DEEP);
    struct clean_run c = clean_run(&s, 0, 20);
    mgpt_session *fork = mgpt_fork(c.session, NULL);
    struct trace *t = trace_new(s.m->spec.n_layer, 20);
    mgpt_session *lead = session_with(&s, 0, 16, 1); /* all in one pass */
    const mgpt_run runs[] = {{.session = lead, .tokens = s.tokens, .n = 3},
                             run_from(&c, fork, 1, 10, 5),
                             {.session = fork, .tokens = s.tokens + 15, .n = 5}};
    assert_int_equal(mgpt_rewind(fork, 10, NULL), MGPT_OK);
    mgpt_tap(fork, MGPT_POINT_BIT(MGPT_LOGITS), trace_tap, t, NULL);
    feed_many(runs, 3);
    assert_string_equal(t->fault, "");
    subject_check(&s, 2, 1, mgpt_logits(lead), "with them", 0);
    mgpt_tap(fork, 0, NULL, NULL, NULL);
    check_same(&s, c.session, fork, "later rows begin earlier");
    trace_free(t);
    mgpt_session_free(lead);
    mgpt_session_free(fork);
    mgpt_session_free(c.session);
    free(c.stream.x);
    subject_free(&s);
}

/* ---- failures ---- */

static int stop_here(const mgpt_value *value, void *user)
{
    return value->layer == *(int32_t *)user;
}

/* One tap stops the call: all sessions are as before. */
TEST(one_stops_all)
{
    struct subject s = subject_zoo(ZOO_LLAMA_DEEP);
    struct clean_run c = clean_run(&s, 0, 20);
    int32_t layer = s.m->spec.n_layer - 1;
    mgpt_session *plain = session_with(&s, 0, 0, 1), *fork = mgpt_fork(c.session, NULL);
    mgpt_run runs[] = {{.session = plain, .tokens = s.tokens, .n = 9},
                       run_from(&c, fork, layer, 18, 2)};
    assert_int_equal(mgpt_rewind(fork, 18, NULL), MGPT_OK);
    mgpt_tap(fork, MGPT_POINT_BIT(MGPT_HEADS), stop_here, &layer, NULL);
    assert_int_equal(mgpt_feed_many(runs, 2, NULL), MGPT_ESTOP);
    assert_int_equal(mgpt_pos(plain), 0);
    assert_null(mgpt_logits(plain));
    assert_int_equal(mgpt_pos(fork), 18);
    mgpt_tap(fork, 0, NULL, NULL, NULL);
    subject_check_feed(&s, fork, "stopped", 0);
    feed_many(runs, 1);
    subject_check(&s, 8, 1, mgpt_logits(plain), "with one that stopped", 0);
    mgpt_session_free(plain);
    mgpt_session_free(fork);
    mgpt_session_free(c.session);
    free(c.stream.x);
    subject_free(&s);
}

struct refused_run {
    mgpt_run second, third; /* third.session NULL: two runs */
    int status;
    const char *says;
};

/* Each call fails as a whole: neither `good` nor session `b` has moved. */
static void feed_many_refused(const mgpt_run *good, mgpt_session *b,
                              const struct refused_run *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const mgpt_run runs[] = {*good, cases[i].second, cases[i].third};
        mgpt_error err = {0};
        assert_int_equal(mgpt_feed_many(runs, cases[i].third.session ? 3 : 2, &err),
                         cases[i].status);
        if (!strstr(err.text, cases[i].says))
            fail_msg("case %zu: %s", i, err.text);
        assert_int_equal(mgpt_pos(good->session), 0);
        assert_int_equal(mgpt_pos(b), 0);
    }
}

TEST(refusals)
{
    struct subject s = subject_zoo(ZOO_LLAMA_DEEP), g = subject_zoo(ZOO_GPT2);
    mgpt_session *a = session_with(&s, MGPT_KV_F32, 0, 1), *b = session_with(&s, 0, 0, 1),
                 *other = session_with(&g, 0, 0, 1);
    int32_t bad[] = {1, 2, -3}, *many = toy_alloc(s.n + 1, sizeof *many);
    const mgpt_run good = {.session = a, .tokens = s.tokens, .n = 3};
    const struct refused_run cases[] = {
        {{.session = b, .tokens = s.tokens, .n = 1}, good, MGPT_EARG, "session 2 is NULL"},
        {{.session = NULL, .tokens = s.tokens, .n = 1}, {0}, MGPT_EARG, "session 1 is NULL"},
        {{.session = other, .tokens = s.tokens, .n = 1}, {0}, MGPT_EARG, "another model"},
        {{.session = b, .tokens = NULL, .n = 1}, {0}, MGPT_EARG, "run 1: tokens is NULL"},
        {{.session = b, .tokens = bad, .n = 3}, {0}, MGPT_EARG, "token -3 (number 2)"},
        {{.session = b, .tokens = many, .n = s.n + 15}, {0}, MGPT_EFULL, "context full"},
        {{.session = b, .tokens = s.tokens, .n = s.n},
         {.session = b, .tokens = s.tokens, .n = 81 - s.n},
         MGPT_EFULL,
         "context full"},
    };
    feed_many_refused(&good, b, cases, COUNT(cases));
    const mgpt_run runs[] = {good, {.session = b, .tokens = s.tokens, .n = 3}};
    feed_many(runs, 2);
    subject_check(&s, 2, 1, mgpt_logits(a), "after refusals", 0);
    subject_check(&s, 2, 1, mgpt_logits(b), "after refusals", 1);
    assert_int_equal(mgpt_feed_many(NULL, 0, NULL), MGPT_OK);
    assert_int_equal(mgpt_feed_many(NULL, 1, NULL), MGPT_EARG);
    free(many);
    mgpt_session *all[] = {a, b, other};
    for (size_t i = 0; i < COUNT(all); i++)
        mgpt_session_free(all[i]);
    subject_free(&s);
    subject_free(&g);
}

TEST(refusals_from_a_layer)
{
    struct subject s = subject_zoo(ZOO_LLAMA_DEEP), twin = subject_zoo(ZOO_LLAMA_DEEP);
    struct clean_run c = clean_run(&s, MGPT_KV_F32, 20),
                     of_twin = clean_run(&twin, MGPT_KV_F32, 20);
    mgpt_session *a = session_with(&s, MGPT_KV_F32, 0, 1), *b = session_with(&s, 0, 0, 1),
                 *f16 = session_with(&s, MGPT_KV_F16, 0, 1);
    const mgpt_run good = {.session = a, .tokens = s.tokens, .n = 3};
    mgpt_run from = run_from(&c, b, 1, 0, 3), range = from, negative = from, no_resid = from,
             no_clean = from, kv_type = from, model = from, short_clean = from, tokens = from;
    range.layer = s.m->spec.n_layer;
    negative.layer = -1;
    no_resid.resid = NULL;
    no_clean.clean = NULL;
    kv_type.clean = f16;
    model.clean = of_twin.session;
    short_clean.n = 21;
    tokens.tokens = s.tokens + 1;
    subject_feed(f16, s.tokens, 3);
    const struct refused_run cases[] = {
        {range, {0}, MGPT_EARG, "run 1: the model has no such layer"},
        {negative, {0}, MGPT_EARG, "run 1: the model has no such layer"},
        {no_resid, {0}, MGPT_EARG, "run 1: a layer, but resid is NULL"},
        {no_clean, {0}, MGPT_EARG, "run 1: `clean` is NULL"},
        {kv_type, {0}, MGPT_EARG, "another kv_type"},
        {model, {0}, MGPT_EARG, "of another model"},
        {short_clean, {0}, MGPT_EARG, "does not hold its tokens"},
        {tokens, {0}, MGPT_EARG, "does not hold its tokens"},
    };
    feed_many_refused(&good, b, cases, COUNT(cases));
    const mgpt_run runs[] = {good, from};
    feed_many(runs, 2);
    subject_check(&s, 2, 1, mgpt_logits(b), "after refusals", 1);
    free(c.stream.x);
    free(of_twin.stream.x);
    mgpt_session *all[] = {a, b, f16, c.session, of_twin.session};
    for (size_t i = 0; i < COUNT(all); i++)
        mgpt_session_free(all[i]);
    subject_free(&s);
    subject_free(&twin);
}
