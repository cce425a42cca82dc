/* Tests of attention by hand: small cases whose numbers fit on paper, run through the engine
 * itself.
 *
 * The models are microgpt toys with one layer and one head whose weights are set by the test. In
 * the worked example X = (1,0,1,0), (0,1,0,1), (1,1,0,0) and q = k = v = x, so with scores q.k /
 * sqrt(4)
 *
 *     row 2 of the scores   1/2, 1/2, 1
 *     A[2]                  0.274069, 0.274069, 0.451863
 *     Out[2]                0.725931, 0.725931, 0.274069, 0.274069
 *
 * The often printed A[2] = [0.211, 0.211, 0.578] forgets the 1/sqrt(d).
 */
#include "support/build_model.h"
#include "support/trace.h"
#include "support/unit.h"

#include <math.h>

enum { T = 3, D = 4 };

static const double X[T][D] = {{1, 0, 1, 0}, {0, 1, 0, 1}, {1, 1, 0, 0}};

static const double A[T][T] = {
    {1, 0, 0},
    {0.26894142, 0.73105858, 0}, /* scores 0 and 1: 1 / (1 + e) */
    {0.27406862, 0.27406862, 0.45186276},
};

static const double OUT[T][D] = {
    {1, 0, 1, 0},
    {0.26894142, 0.73105858, 0.26894142, 0.73105858},
    {0.72593138, 0.72593138, 0.27406862, 0.27406862},
};

/* One layer, one head of width 4, no norm after the embedding; MLP and output projection random. */
static struct toy *one_head(void)
{
    const struct toy_spec spec = {.label = "worked example",
                                  .arch = "microgpt",
                                  .n_layer = 1,
                                  .n_embd = D,
                                  .n_head = 1,
                                  .n_ff = 8,
                                  .n_ctx = 16,
                                  .n_vocab = 16,
                                  .embedding_norm = TOY_NO,
                                  .seed = 1};
    return toy_build(&spec);
}

static void set_diagonal(struct toy *m, const char *name, double v)
{
    struct toy_tensor *t = toy_find(m, name);
    for (size_t i = 0; i < t->n; i++)
        t->values[i] = i % (D + 1) == 0 ? (float)v : 0.0f;
}

/* Feeds tokens 0..n-1 through the tap. */
static void run_example(struct toy *m, size_t n, mgpt_tap_fn *tap, void *user)
{
    mgpt_model *model = toy_open(m, NULL);
    mgpt_session *session = mgpt_session_new(model, NULL, NULL);
    assert_non_null(session);
    int32_t tokens[16];
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)i;
    assert_int_equal(mgpt_tap(session, MGPT_POINT_BIT(MGPT_N_POINTS) - 1, tap, user, NULL),
                     MGPT_OK);
    assert_int_equal(mgpt_feed(session, tokens, n, NULL), MGPT_OK);
    mgpt_session_free(session);
    mgpt_close(model);
}

/* 1e-6 is 8 units in the last place of a float32 near 1: rounding of inputs, scores and softmax. */
static void check_worked_example(const struct trace *t)
{
    const struct trace_value *a = trace_at(t, MGPT_WEIGHTS, 0), *out = trace_at(t, MGPT_HEADS, 0);
    assert_string_equal(t->fault, "");
    for (size_t i = 0; i < T; i++) {
        for (size_t j = 0; j < T; j++)
            assert_true(fabs(a->data[i * T + j] - A[i][j]) <= 1e-6);
        for (size_t j = 0; j < D; j++)
            assert_true(fabs(out->data[i * D + j] - OUT[i][j]) <= 1e-6);
    }
}

/* By weights: all rows of X have mean square 1/2, so RMSNorm only divides by sqrt(1/2 + eps), and
 * projections that multiply by it give q = k = v = x. */
TEST(worked_example_by_weights)
{
    struct toy *m = one_head();
    double length = sqrt(0.5 + 1e-5);
    set_diagonal(m, "blk.0.attn_q.weight", length);
    set_diagonal(m, "blk.0.attn_k.weight", length);
    set_diagonal(m, "blk.0.attn_v.weight", length);
    struct toy_tensor *position = toy_find(m, "position_embd.weight");
    memset(position->values, 0, position->n * sizeof *position->values);
    struct toy_tensor *token = toy_find(m, "token_embd.weight");
    for (size_t i = 0; i < T * D; i++)
        token->values[i] = (float)X[i / D][i % D];
    struct trace *t = trace_new(1, T);
    run_example(m, T, trace_tap, t);
    check_worked_example(t);
    trace_free(t);
    toy_free(m);
}

/* Writes rows over Q, K and V; a NULL matrix is left alone. */
struct writer {
    const double *q, *k, *v; /* [n][D] */
    struct trace *trace;
};

static int write_qkv(const mgpt_value *value, void *user)
{
    const struct writer *w = user;
    const double *from = NULL;
    if (value->point == MGPT_Q)
        from = w->q;
    if (value->point == MGPT_K)
        from = w->k;
    if (value->point == MGPT_V)
        from = w->v;
    for (int32_t i = 0; from && i < value->rows; i++)
        for (int32_t j = 0; j < value->cols; j++)
            value->data[(size_t)i * value->stride + (size_t)j] =
                (float)from[(value->pos + i) * D + j];
    return trace_tap(value, w->trace);
}

static struct trace *run_writer(struct toy *m, size_t n, struct writer w)
{
    w.trace = trace_new(1, n);
    run_example(m, n, write_qkv, &w);
    assert_string_equal(w.trace->fault, "");
    return w.trace;
}

/* A tap replaces Q, K and V of any model. */
TEST(worked_example_by_tap)
{
    struct toy *m = one_head();
    struct trace *t = run_writer(m, T, (struct writer){X[0], X[0], X[0], NULL});
    check_worked_example(t);
    const double *scores = trace_at(t, MGPT_SCORES, 0)->data + 2 * T;
    const double expected[T] = {0.5, 0.5, 1}; /* exact in float32 */
    assert_memory_equal(scores, expected, sizeof expected);
    trace_free(t);
    toy_free(m);
}

/* Queries of zero: all scores equal, so attention is the running average of the values. A sum of at
 * most 16 values near 1, each rounded a few times: 16 units in the last place. */
TEST(uniform_attention_is_the_running_average)
{
    enum { N = 16 };
    struct toy *m = one_head();
    static const double zero[N * D];
    struct trace *t = run_writer(m, N, (struct writer){.q = zero});
    const double *a = trace_at(t, MGPT_WEIGHTS, 0)->data, *z = trace_at(t, MGPT_HEADS, 0)->data;
    const double *v = trace_at(t, MGPT_V, 0)->data;
    double sum[D] = {0};
    for (size_t i = 0; i < N; i++) {
        double n = (double)i + 1;
        for (size_t j = 0; j <= i; j++)
            assert_true(a[i * N + j] == (double)(float)(1 / n));
        for (size_t j = 0; j < D; j++) {
            sum[j] += v[i * D + j];
            assert_true(fabs(z[i * D + j] - sum[j] / n) <= 16 * 0x1p-23);
        }
    }
    trace_free(t);
    toy_free(m);
}

/* A query that matches one key by far copies that key's value: exp(-500) is 0 in float32. Token i
 * looks at token i / 2, exactly. */
TEST(one_hot_attention_copies)
{
    enum { N = 4 };
    struct toy *m = one_head();
    double q[N * D] = {0}, k[N * D] = {0};
    for (size_t i = 0; i < N; i++) {
        q[i * D + i / 2] = 1000;
        k[i * D + i] = 1;
    }
    struct trace *t = run_writer(m, N, (struct writer){.q = q, .k = k});
    const double *a = trace_at(t, MGPT_WEIGHTS, 0)->data, *z = trace_at(t, MGPT_HEADS, 0)->data;
    const double *v = trace_at(t, MGPT_V, 0)->data;
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < N; j++)
            assert_true(a[i * N + j] == (j == i / 2 ? 1.0 : 0.0));
        assert_memory_equal(z + i * D, v + i / 2 * D, D * sizeof *z);
    }
    trace_free(t);
    toy_free(m);
}

/* Huge scores of either sign: the maximum is subtracted first, so nothing overflows. */
TEST(huge_scores_stay_finite)
{
    struct toy *m = one_head();
    for (int sign = -1; sign <= 1; sign += 2) {
        double q[T * D], k[T * D];
        for (size_t i = 0; i < T * D; i++) {
            q[i] = 1e15;
            k[i] = sign * 1e15 * (double)(i / D + 1);
        }
        struct trace *t = run_writer(m, T, (struct writer){.q = q, .k = k});
        const double *a = trace_at(t, MGPT_WEIGHTS, 0)->data + 2 * T;
        size_t winner = sign > 0 ? 2 : 0;
        for (size_t j = 0; j < T; j++)
            assert_true(a[j] == (j == winner ? 1.0 : 0.0));
        trace_free(t);
    }
    toy_free(m);
}

/* The first token sees only itself. */
TEST(first_token_attends_to_itself)
{
    struct toy *m = one_head();
    struct trace *t = trace_new(1, 1);
    run_example(m, 1, trace_tap, t);
    assert_true(trace_at(t, MGPT_WEIGHTS, 0)->data[0] == 1.0);
    assert_memory_equal(trace_at(t, MGPT_HEADS, 0)->data, trace_at(t, MGPT_V, 0)->data,
                        D * sizeof(double));
    trace_free(t);
    toy_free(m);
}
