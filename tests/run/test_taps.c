/* mgpt.h's contract for taps: names, which points fire and in which order, stopping, batches.
 * True values, and changing them: test_forward. That looking changes no bit: test_equal_bits. */
#include "run/session.h"
#include "support/toy_zoo.h"
#include "support/trace.h"
#include "support/unit.h"

#include <math.h>

static const uint64_t all_points = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;

TEST(point_names)
{
    static const char all[] =
        "hook_embed hook_pos_embed ln_embed.hook_normalized blocks.12.hook_resid_pre "
        "blocks.12.ln1.hook_normalized blocks.12.attn.hook_q blocks.12.attn.hook_k "
        "blocks.12.attn.hook_v blocks.12.attn.hook_rot_q blocks.12.attn.hook_rot_k "
        "blocks.12.attn.hook_attn_scores blocks.12.attn.hook_pattern blocks.12.attn.hook_gate "
        "blocks.12.attn.hook_z "
        "blocks.12.hook_attn_out blocks.12.hook_resid_mid blocks.12.ln2.hook_normalized "
        "blocks.12.mlp.hook_pre blocks.12.mlp.hook_pre_linear blocks.12.mlp.hook_post "
        "blocks.12.mlp.hook_router_scores blocks.12.mlp.hook_expert_weights "
        "blocks.12.hook_mlp_out blocks.12.hook_resid_post ln_final.hook_normalized "
        "mlm_head.ln.hook_normalized logits";
    const char *name = all;
    char buf[64];
    for (int p = 0; p < MGPT_N_POINTS; p++) {
        size_t n = strcspn(name, " ");
        assert_int_equal(mgpt_point_name((mgpt_point)p, 12, buf, sizeof buf), n);
        assert_int_equal(strlen(buf), n);
        assert_memory_equal(buf, name, n);
        assert_int_equal(mgpt_point_name((mgpt_point)p, 12, NULL, 0), n);
        memset(buf, 'x', sizeof buf);
        assert_int_equal(mgpt_point_name((mgpt_point)p, 12, buf, 5), n);
        assert_memory_equal(buf, name, 4);
        assert_int_equal(buf[4], 0);
        assert_int_equal(buf[5], 'x');
        name += n + (name[n] == ' ');
    }
    assert_int_equal(*name, 0);
}

static int choice_of(enum toy_choice choice, int row)
{
    return choice == TOY_DEFAULT ? row : choice == TOY_YES;
}

/* Points of the MLP are those of the shared expert in a mixture, points of the router of others
 * none. A short convolution has no scores and no rotation. A layer that reads another's keys has no K, V, ROT_K. */
static int layer_has(const struct toy_spec *s, int p, int layer)
{
    int attention =
        p == MGPT_ROT_Q || p == MGPT_ROT_K || p == MGPT_GATES || trace_is_attention((mgpt_point)p);
    if (layer >= 0 && toy_convolves(s, layer) && attention)
        return 0;
    if (layer >= 0 && toy_shares(s, layer) && (p == MGPT_K || p == MGPT_V || p == MGPT_ROT_K))
        return 0;
    int mixture = s->n_expert && layer >= 0 && !(s->dense >> layer & 1);
    if (p == MGPT_ROUTER_SCORES || p == MGPT_EXPERT_WEIGHTS)
        return mixture;
    return p < MGPT_MLP_PRE || p > MGPT_MLP_POST || !mixture || s->n_ff_shared;
}

static void check_points(const struct toy_spec *s, const struct trace *t)
{
    int learned = s->row->place == PLACE_LEARNED;
    int has[MGPT_N_POINTS];
    for (int p = 0; p < MGPT_N_POINTS; p++)
        has[p] = 1;
    has[MGPT_POS_EMBD] = learned;
    has[MGPT_EMBD_NORM] = choice_of(s->embedding_norm, s->row->embd_norm);
    has[MGPT_FINAL] = choice_of(s->final_norm, s->row->final_norm);
    has[MGPT_ROT_Q] = has[MGPT_ROT_K] =
        s->row->place > PLACE_ALIBI; /* also in layers that do not rotate */
    has[MGPT_RESID_MID] = !choice_of(s->parallel, s->row->parallel);
    has[MGPT_MLP_PRE_LINEAR] = s->row->gated;
    has[MGPT_GATES] = toy_gates(s, 0) > 0;
    has[MGPT_HEAD_IN] = s->row->dense_head;
    for (int p = 0; p < MGPT_N_POINTS; p++) {
        int inside = p >= MGPT_RESID_PRE && p <= MGPT_RESID_POST;
        for (int layer = -1; layer < s->n_layer; layer++) {
            int expected = has[p] && inside == (layer >= 0) && layer_has(s, p, layer);
            if ((trace_at(t, (mgpt_point)p, layer)->data != NULL) != expected)
                fail_msg("%s: point %d of layer %d %s", s->label, p, layer,
                         expected ? "is missing" : "fires");
        }
    }
}

/* Which points a model has follows from what it is made of; the others never fire. */
TEST_ZOO(absent_points_never_fire)
{
    mgpt_session *session = subject_session(s->model, 0, 0);
    struct trace *t = trace_new(s->m->spec.n_layer, 3);
    assert_int_equal(mgpt_tap(session, all_points, trace_tap, t, NULL), MGPT_OK);
    subject_feed(session, s->tokens, 3);
    assert_string_equal(t->fault, "");
    check_points(&s->m->spec, t);
    trace_free(t);
    mgpt_session_free(session);
}

/* The last value that fired; the test fails when the next one does not come after it. Scores and
 * weights come query by query: `scores` and `weights` are the next ones of this layer. */
struct order {
    int layer, point, n;
    int32_t scores, weights;
};

static int in_order(const mgpt_value *value, struct order *o)
{
    if (value->point == MGPT_SCORES)
        return value->pos == o->scores++;
    if (value->point == MGPT_WEIGHTS)
        return value->pos == o->weights++ && value->pos < o->scores;
    return 1;
}

static int check_order(const mgpt_value *value, void *user)
{
    struct order *last = user;
    int point = (int)value->point, layer = value->layer;
    if (layer < 0 && point >= MGPT_FINAL)
        layer = INT32_MAX; /* after the layers */
    if (layer != last->layer)
        last->scores = last->weights = 0;
    int repeats = trace_is_attention(value->point) && trace_is_attention((mgpt_point)last->point);
    int follows = layer > last->layer || (layer == last->layer && (point > last->point || repeats));
    if (!follows || !in_order(value, last))
        fail_msg("point %d of layer %d, position %d, after point %d of layer %d", point, layer,
                 value->pos, last->point, last->layer);
    last->layer = layer;
    last->point = point;
    last->n++;
    return 0;
}

/* Points fire in the order of the enum, layer after layer. */
TEST_ZOO(points_fire_in_order)
{
    mgpt_session *session = subject_session(s->model, 0, 0);
    struct order order = {-1, -1, 0, 0, 0};
    assert_int_equal(mgpt_tap(session, all_points, check_order, &order, NULL), MGPT_OK);
    subject_feed(session, s->tokens, 3);
    assert_true(order.n >= 2);
    mgpt_session_free(session);
}

/* Writes nonsense everywhere, then stops at one point of one layer and position. */
struct stopper {
    mgpt_point point;
    int layer, pos;
    int stopped;
};

static int stop_there(const mgpt_value *value, void *user)
{
    struct stopper *s = user;
    value->data[0] = 1e9f;
    if (s->stopped)
        fail_msg("point %d fires after the tap has stopped the call", (int)value->point);
    if (value->point != s->point || value->layer != s->layer)
        return 0;
    int last = trace_is_attention(value->point) ? value->pos : value->pos + value->rows - 1;
    s->stopped = s->pos >= value->pos && s->pos <= last;
    return s->stopped ? 3 : 0;
}

/* Stopped anywhere, by any call, the session is as before: position, tokens, logits, and all that
 * is to come. Position 9 is in the second chunk of the feed. */
static void check_stop(mgpt_session *session, const int32_t *tokens, struct stopper stopper,
                       const float *logits, const float *next, size_t n_vocab)
{
    mgpt_error err = {0};
    int at_step = stopper.pos == 5, batch = stopper.point % 2;
    assert_int_equal(mgpt_tap(session, all_points, stop_there, &stopper, NULL), MGPT_OK);
    if (at_step && !batch)
        assert_null(mgpt_step(session, tokens[5], &err));
    else if (at_step)
        assert_int_equal(mgpt_step_many(&session, tokens + 5, 1, &err), MGPT_ESTOP);
    else
        assert_int_equal(mgpt_feed(session, tokens + 5, 11, &err), MGPT_ESTOP);
    assert_int_equal(err.status, MGPT_ESTOP);
    assert_true(err.text[0]);
    assert_true(stopper.stopped);
    assert_int_equal(mgpt_pos(session), 5);
    assert_memory_equal(mgpt_tokens(session), tokens, 5 * sizeof *tokens);
    assert_memory_equal(mgpt_logits(session), logits, n_vocab * sizeof *logits);
    assert_int_equal(mgpt_tap(session, 0, NULL, NULL, NULL), MGPT_OK);
    mgpt_session *fork = mgpt_fork(session, NULL);
    assert_memory_equal(mgpt_step(fork, tokens[5], NULL), next, n_vocab * sizeof *next);
    mgpt_session_free(fork);
}

static void check_stops(size_t zoo, uint64_t absent)
{
    struct subject s = subject_zoo(zoo);
    mgpt_session *session = subject_session(s.model, 4, 0);
    float logits[80], next[80];
    subject_feed(session, s.tokens, 6);
    memcpy(next, mgpt_logits(session), s.n_vocab * sizeof *next);
    assert_int_equal(mgpt_sync(session, s.tokens, 5, NULL), MGPT_OK);
    memcpy(logits, mgpt_logits(session), s.n_vocab * sizeof *logits);
    for (int p = 0; p < MGPT_N_POINTS; p++) {
        int inside = p >= MGPT_RESID_PRE && p <= MGPT_RESID_POST;
        for (int pos = 5; pos <= 9 && !(absent & MGPT_POINT_BIT(p)); pos += 4)
            check_stop(session, s.tokens, (struct stopper){(mgpt_point)p, inside ? 0 : -1, pos, 0},
                       logits, next, s.n_vocab);
    }
    mgpt_session_free(session);
    subject_free(&s);
}

TEST(a_tap_stops_the_call)
{
    const uint64_t both = MGPT_POINT_BIT(MGPT_POS_EMBD) | MGPT_POINT_BIT(MGPT_GATES) |
                          MGPT_POINT_BIT(MGPT_ROUTER_SCORES) | MGPT_POINT_BIT(MGPT_EXPERT_WEIGHTS);
    check_stops(ZOO_LLAMA_DIALECT,
                both | MGPT_POINT_BIT(MGPT_FINAL) | MGPT_POINT_BIT(MGPT_HEAD_IN));
    check_stops(ZOO_MODERNBERT, both);
}

/* A tap that tries to change `about`, a session that is running: each call is refused, reading is
 * not. */
struct meddler {
    mgpt_session *about;
    float *row; /* of floats, long enough for anything */
    size_t n;   /* calls of the tap */
};

static int meddle(const mgpt_value *value, void *user)
{
    struct meddler *m = user;
    mgpt_session *s = m->about;
    const int32_t token = 1;
    const size_t pos = mgpt_pos(s);
    mgpt_error err = {0};
    (void)value;
    m->n++;
    assert_null(mgpt_step(s, token, &err));
    assert_int_equal(err.status, MGPT_EARG);
    assert_non_null(strstr(err.text, "called by a tap"));
    assert_int_equal(mgpt_feed(s, &token, 1, NULL), MGPT_EARG);
    assert_int_equal(mgpt_feed(s, &token, 0, NULL), MGPT_EARG);
    assert_int_equal(mgpt_sync(s, &token, 1, NULL), MGPT_EARG);
    assert_int_equal(mgpt_rewind(s, 0, NULL), MGPT_EARG);
    assert_int_equal(mgpt_step_many(&s, &token, 1, &err), MGPT_EARG);
    assert_int_equal(mgpt_tap(s, 0, NULL, NULL, NULL), MGPT_EARG);
    assert_int_equal(mgpt_unembed(s, m->row, m->row + 64, NULL), MGPT_EARG);
    assert_int_equal(mgpt_pos(s), pos);
    mgpt_session *fork = mgpt_fork(s, NULL); /* reads, and is a session of its own */
    assert_non_null(fork);
    assert_non_null(mgpt_step(fork, token, NULL));
    mgpt_session_free(fork);
    return 0;
}

/* The tapped session itself, or one without a tap that is stepped with it, also where steps are
 * fused; with a chunk of 1 the other one's pass comes later. */
static void check_meddling(size_t zoo, int32_t n_chunk)
{
    struct subject t = subject_zoo(zoo);
    mgpt_session *s[2] = {subject_session(t.model, n_chunk, 0), subject_session(t.model, 0, 0)};
    const int32_t *next = t.tokens + 6;
    float row[256] = {0};
    for (int other = 0; other < 2; other++) {
        struct meddler m = {s[other], row, 0};
        subject_feed(s[1], t.tokens, 6);
        assert_int_equal(mgpt_tap(s[0], MGPT_POINT_BIT(MGPT_EMBD), meddle, &m, NULL), MGPT_OK);
        if (!other)
            subject_feed(s[0], t.tokens, 6);
        assert_int_equal(mgpt_step_many(s, next, 2, NULL), MGPT_OK);
        assert_true(m.n > 0);
        assert_int_equal(mgpt_tap(s[0], 0, NULL, NULL, NULL), MGPT_OK);
        assert_int_equal(mgpt_sync(s[1], t.tokens, 6, NULL), MGPT_OK);
        subject_check(&t, 5, 1, mgpt_logits(s[1]), "meddled with, other", (size_t)other);
        mgpt_rewind(s[1], 0, NULL);
    }
    mgpt_session_free(s[0]);
    mgpt_session_free(s[1]);
    subject_free(&t);
}

TEST(a_tap_cannot_change_its_session)
{
    check_meddling(ZOO_LLAMA_DEEP, 0);
    check_meddling(ZOO_LLAMA_DEEP, 1);
    check_meddling(ZOO_MICROGPT, 0); /* a small model: fused where nothing is tapped */
    check_meddling(ZOO_MICROGPT, 1);
}

/* In a batch every session's tap sees its own rows, as if alone. */
static void check_batch(size_t zoo)
{
    struct subject s = subject_zoo(zoo);
    mgpt_session *batch[3];
    struct trace *alone[3], *together[3];
    const int32_t *next = s.tokens + 6;
    char where[80];
    for (size_t i = 0; i < 3; i++) {
        size_t n = 3 * i;
        alone[i] = trace_new(s.m->spec.n_layer, n + 1);
        together[i] = trace_new(s.m->spec.n_layer, n + 1);
        batch[i] = subject_session(s.model, 0, 0);
        subject_feed(batch[i], s.tokens, n);
        mgpt_session *single = mgpt_fork(batch[i], NULL);
        mgpt_tap(single, all_points, trace_tap, alone[i], NULL);
        assert_non_null(mgpt_step(single, next[i], NULL));
        mgpt_session_free(single);
        if (i != 1) /* not all need to be tapped */
            mgpt_tap(batch[i], all_points, trace_tap, together[i], NULL);
    }
    assert_int_equal(mgpt_step_many(batch, next, 3, NULL), MGPT_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(together[i]->fault, "");
        if (i != 1 && !trace_equal(alone[i], together[i], where, sizeof where))
            fail_msg("session %zu: %s", i, where);
        trace_free(alone[i]);
        trace_free(together[i]);
        mgpt_session_free(batch[i]);
    }
    subject_free(&s);
}

TEST(taps_in_a_batch)
{
    check_batch(ZOO_LLAMA_DEEP);
    check_batch(ZOO_GEMMA3_PERIOD); /* the last session holds more than a window */
    check_batch(ZOO_NANOCHAT_2026);
}

static int stop_at_once(const mgpt_value *value, void *user)
{
    (void)value;
    ++*(int *)user;
    return 1;
}

/* A session whose tap stops a batch stops it for the others too; their taps are not called. */
TEST(one_stops_a_batch)
{
    struct subject s = subject_zoo(ZOO_GPT2);
    mgpt_session *batch[3];
    int called[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        batch[i] = subject_session(s.model, 0, 0);
        assert_int_equal(
            mgpt_tap(batch[i], MGPT_POINT_BIT(MGPT_EMBD), stop_at_once, &called[i], NULL), MGPT_OK);
    }
    assert_int_equal(mgpt_step_many(batch, s.tokens, 3, NULL), MGPT_ESTOP);
    assert_true(called[0] == 1 && called[1] == 0 && called[2] == 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mgpt_pos(batch[i]), 0);
        mgpt_session_free(batch[i]);
    }
    subject_free(&s);
}

static int count_rows(const mgpt_value *value, void *user)
{
    size_t *rows = user;
    *rows += trace_is_attention(value->point) ? 1 : (size_t)value->rows;
    return 0;
}

/* A point tapped alone shows every row of a prompt: logits, too, which else are of the last one. */
TEST(each_point_alone)
{
    enum { N = 11 };
    for (int p = 0; p < MGPT_N_POINTS; p++) {
        struct subject s = subject_zoo(p == MGPT_HEAD_IN ? ZOO_MODERNBERT : ZOO_GPT2);
        int inside = p >= MGPT_RESID_PRE && p <= MGPT_RESID_POST;
        size_t rows = 0, each = inside ? (size_t)s.m->spec.n_layer : 1;
        mgpt_session *session = subject_session(s.model, 4, 0);
        assert_int_equal(mgpt_tap(session, MGPT_POINT_BIT(p), count_rows, &rows, NULL), MGPT_OK);
        subject_feed(session, s.tokens, N);
        if (p == MGPT_EMBD_NORM || p == MGPT_ROT_Q || p == MGPT_ROT_K || p == MGPT_MLP_PRE_LINEAR ||
            p == MGPT_GATES || p == MGPT_ROUTER_SCORES || p == MGPT_EXPERT_WEIGHTS)
            each = 0; /* GPT-2 has none */
        if (rows != each * N)
            fail_msg("point %d alone: %zu rows, expected %zu", p, rows, each * N);
        mgpt_session_free(session);
        subject_free(&s);
    }
}

/* One thread has scores for one block of rows: a tap of them needs those of all heads of a block of queries. */
TEST(scores_of_a_prompt_on_one_thread)
{
    struct subject s = subject_zoo(ZOO_GPT2);
    const mgpt_session_params params = {.n_threads = 1};
    size_t rows = 0, heads = (size_t)s.m->spec.n_head;
    mgpt_session *session = mgpt_session_new(s.model, &params, NULL);
    assert_true(s.n > BLOCK_ROWS && heads > 1);
    assert_int_equal(mgpt_tap(session, MGPT_POINT_BIT(MGPT_SCORES), count_rows, &rows, NULL),
                     MGPT_OK);
    subject_feed(session, s.tokens, s.n);
    assert_true(session->scratch.score_rows >= heads * BLOCK_ROWS);
    subject_check(&s, s.n - 1, 1, mgpt_logits(session), "tapped scores, tokens", s.n);
    mgpt_session_free(session);
    subject_free(&s);
}

/* Rows of logits as a tap sees them. */
struct seen_logits {
    float *rows; /* [n][n_vocab] */
    size_t n, most;
};

static int keep_seen(const mgpt_value *value, void *user)
{
    struct seen_logits *seen = user;
    size_t n = (size_t)value->rows, n_vocab = (size_t)value->cols;
    assert_int_equal(value->pos, seen->n);
    memcpy(seen->rows + seen->n * n_vocab, value->data, n * n_vocab * sizeof *seen->rows);
    seen->n += n;
    seen->most = n > seen->most ? n : seen->most;
    return 0;
}

/* A pass with more rows of logits than are computed at a time: those of its runs are split where
 * the first ones end, and are those of single steps. */
TEST(logits_come_some_at_a_time)
{
    enum { RUNS = 3, N = 50 };
    struct subject s = subject_zoo(ZOO_LLAMA_DEEP);
    size_t n_vocab = (size_t)s.m->spec.n_vocab;
    struct seen_logits seen[RUNS] = {{0}};
    mgpt_run runs[RUNS];
    for (size_t i = 0; i < RUNS; i++) {
        seen[i].rows = calloc(N * n_vocab, sizeof *seen[i].rows);
        runs[i] = (mgpt_run){subject_session(s.model, 4096, 0), s.tokens + i, N, NULL, NULL, 0, 0};
        mgpt_tap(runs[i].session, MGPT_POINT_BIT(MGPT_LOGITS), keep_seen, &seen[i], NULL);
    }
    assert_int_equal(mgpt_feed_many(runs, RUNS, NULL), MGPT_OK);
    for (size_t i = 0; i < RUNS; i++) {
        mgpt_session *steps = subject_session(s.model, 0, 0);
        assert_int_equal(seen[i].n, N);
        for (size_t t = 0; t < N; t++)
            assert_memory_equal(mgpt_step(steps, runs[i].tokens[t], NULL),
                                seen[i].rows + t * n_vocab, n_vocab * sizeof(float));
        assert_memory_equal(mgpt_logits(steps), mgpt_logits(runs[i].session),
                            n_vocab * sizeof(float));
        mgpt_session_free(steps);
        mgpt_session_free(runs[i].session);
        free(seen[i].rows);
    }
    assert_true(seen[0].most == N && seen[1].most < N);
    subject_free(&s);
}
