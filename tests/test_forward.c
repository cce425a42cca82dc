/* Tests of the page: the engine against the float64 oracle at every point, for every model of the zoo
 * and for the models of weights/.
 *
 * Tolerances. u = 2^-24 is half a unit in the last place of a float32.
 *   - Typical error: rounding errors of a float32 pass are nearly independent, so the root mean square
 *     error relative to the tensor's root mean square is a few u per operation times a few operations
 *     per layer. NMSE (its square) <= 1e-12 allows 17 u, for up to three layers.
 *   - Worst element: a dot product of n terms is off by at most n * u * sum |w x| (Higham 2002, 3.5);
 *     with n <= 172, at most about 6 products in a row per layer and sums that do not cancel below the
 *     tensor's largest element, 6 * n * u per layer of that element.
 * That this is tight enough to tell dialects apart is itself tested at the end.
 */
#include "oracle.h"
#include "toy_zoo.h"
#include "trace.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define U 0x1p-24

enum { N_TOKENS = 50 }; /* several chunks, several panels of the cache */

static const uint64_t all_points = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;

/* The models of weights/ are deeper than the zoo: the error grows at most linearly with depth. And in a
 * tensor of a few numbers one sum that cancels is not averaged away: three times the error there. */
static double nmse_allowed(const struct toy_spec *s, size_t n_values)
{
    double layers = s->n_layer > 3 ? s->n_layer : 3;
    return (n_values < 64 ? 1e-11 : 1e-12) * (layers / 3) * (layers / 3);
}

static double worst_allowed(const struct toy_spec *s)
{
    int n = s->n_ff > s->n_embd ? s->n_ff : s->n_embd;
    return 6 * (double)n * U * (s->n_layer + 1);
}

struct error {
    double nmse, worst; /* worst: largest |difference| relative to the largest |reference| */
};

/* Masked scores are -inf on both sides and count as equal; NaN on our side gives NaN. */
static struct error measure(const struct trace_value *ours, const struct trace_value *ref, size_t n)
{
    double square = 0, ref_square = 0, worst = 0, scale = 0;
    for (size_t i = 0; i < n; i++) {
        if (isinf(ref->data[i]) && ours->data[i] == ref->data[i])
            continue;
        double d = ours->data[i] - ref->data[i];
        square += d * d;
        ref_square += ref->data[i] * ref->data[i];
        scale = fmax(scale, fabs(ref->data[i]));
        if (!(fabs(d) <= worst))
            worst = fabs(d);
    }
    if (scale == 0) /* all zero, as after a ReLU that lets nothing through: must be met exactly */
        return (struct error){square, worst};
    return (struct error){square / ref_square, worst / scale};
}

static int value_agrees(const struct toy_spec *s, const struct trace_value *ours,
                        const struct trace_value *ref, size_t n_tokens, struct error *e)
{
    *e = (struct error){NAN, NAN};
    if (!ours->data || !ref->data)
        return ours->data == ref->data;
    if (ours->cols != ref->cols)
        return 0;
    size_t n = n_tokens * ref->cols;
    *e = measure(ours, ref, n);
    return e->nmse <= nmse_allowed(s, n) && e->worst <= worst_allowed(s);
}

/* 1 when the engine's trace is the oracle's within the tolerances; else 0 and *what says where. */
static int traces_agree(const struct toy_spec *s, const struct trace *ours, const struct trace *ref,
                        char *what, size_t cap)
{
    for (int layer = -1; layer < s->n_layer; layer++) {
        for (int p = 0; p < MGPT_N_POINTS; p++) {
            const struct trace_value *a = trace_at(ours, (mgpt_point)p, layer);
            const struct trace_value *b = trace_at(ref, (mgpt_point)p, layer);
            struct error e;
            char name[64];
            if (value_agrees(s, a, b, ref->n_tokens, &e))
                continue;
            mgpt_point_name((mgpt_point)p, layer, name, sizeof name);
            snprintf(what, cap, "%s: %s: %zu columns, oracle %zu; NMSE %.3g, worst %.3g (%.3g)",
                     s->label, name, a->cols, b->cols, e.nmse, e.worst, worst_allowed(s));
            return 0;
        }
    }
    return 1;
}

/* Every row that fired fired once, and every point that fired did so for all positions. */
static void check_complete(const struct toy_spec *s, const struct trace *t)
{
    if (t->fault[0])
        fail_msg("%s: %s", s->label, t->fault);
    for (int layer = -1; layer < s->n_layer; layer++) {
        for (int p = 0; p < MGPT_N_POINTS; p++) {
            const struct trace_value *v = trace_at(t, (mgpt_point)p, layer);
            int heads = trace_is_attention((mgpt_point)p) ? s->n_head : 1;
            for (size_t i = 0; v->data && i < t->n_tokens * (size_t)heads; i++)
                if (v->seen[i] != 1)
                    fail_msg("%s: point %d layer %d row %zu fired %d times", s->label, p, layer, i,
                             v->seen[i]);
        }
    }
}

static struct trace *engine_run(mgpt_model *model, const struct toy_spec *s, const int32_t *tokens,
                                size_t n)
{
    mgpt_error err;
    mgpt_session *session = mgpt_session_new(model, NULL, &err);
    assert_non_null(session);
    struct trace *t = trace_new(s->n_layer, n);
    assert_int_equal(mgpt_tap(session, all_points, trace_tap, t, &err), MGPT_OK);
    if (mgpt_feed(session, tokens, n, &err) != MGPT_OK)
        fail_msg("%s: %s", s->label, err.text);
    mgpt_session_free(session);
    check_complete(s, t);
    return t;
}

static size_t fitting(const struct toy_spec *s)
{
    return s->n_ctx < N_TOKENS ? (size_t)s->n_ctx : N_TOKENS;
}

/* ---- the zoo -----------------------------------------------------------------------------------
 */

static void test_zoo_at_every_point(void **state)
{
    (void)state;
    for (size_t i = 0; i < ZOO_SIZE; i++) {
        struct toy_spec spec = toy_zoo[i];
        spec.seed = 100 + i;
        struct toy *m = toy_build(&spec);
        mgpt_model *model = toy_open(m, NULL);
        int32_t tokens[N_TOKENS];
        size_t n = fitting(&spec);
        toy_tokens(m, i, tokens, n);
        struct trace *ours = engine_run(model, &m->spec, tokens, n);
        struct trace *ref = oracle_run(m, tokens, n, NULL, NULL);
        char what[256];
        if (!traces_agree(&m->spec, ours, ref, what, sizeof what))
            fail_msg("%s", what);
        trace_free(ours);
        trace_free(ref);
        mgpt_close(model);
        toy_free(m);
    }
}

/* Weights are positive, sum to 1 and reach no further than their query. Each of n weights is rounded
 * once (u of itself, so u of the sum in total) and divided by a float32 sum of sixteen chains, which is
 * off by at most (n / 16 + 4) u. */
static void check_softmax(const struct toy_spec *s, const struct trace *t)
{
    for (int layer = 0; layer < s->n_layer; layer++) {
        const struct trace_value *v = trace_at(t, MGPT_WEIGHTS, layer);
        for (size_t row = 0; row < t->n_tokens * (size_t)s->n_head; row++) {
            size_t pos = row / (size_t)s->n_head;
            const double *a = v->data + row * t->n_tokens;
            double sum = 0, allowed = ((double)(pos + 1) / 16 + 6) * U;
            for (size_t j = 0; j < t->n_tokens; j++) {
                assert_true(j <= pos ? a[j] >= 0 && a[j] <= 1 : a[j] == 0);
                sum += a[j];
            }
            if (!(fabs(sum - 1) <= allowed))
                fail_msg("%s: layer %d, query %zu: weights sum to 1 %+.3g", s->label, layer, pos,
                         sum - 1);
        }
    }
}

static void test_softmax_rows_and_causal_mask(void **state)
{
    (void)state;
    for (size_t i = 0; i < ZOO_SIZE; i++) {
        struct toy_spec spec = toy_zoo[i];
        spec.seed = 200 + i;
        struct toy *m = toy_build(&spec);
        mgpt_model *model = toy_open(m, NULL);
        int32_t tokens[80];
        size_t n = (size_t)spec.n_ctx;
        toy_tokens(m, i, tokens, n);
        struct trace *t = engine_run(model, &m->spec, tokens, n);
        check_softmax(&m->spec, t);
        trace_free(t);
        mgpt_close(model);
        toy_free(m);
    }
}

/* What comes later does not change what came before: to the bit, at every point. */
static void test_the_future_is_invisible(void **state)
{
    (void)state;
    for (size_t i = 0; i < ZOO_SIZE; i++) {
        struct toy_spec spec = toy_zoo[i];
        spec.seed = 300 + i;
        struct toy *m = toy_build(&spec);
        mgpt_model *model = toy_open(m, NULL);
        int32_t tokens[N_TOKENS];
        size_t n = fitting(&spec), half = n / 2;
        toy_tokens(m, i, tokens, n);
        struct trace *a = engine_run(model, &m->spec, tokens, n);
        for (size_t j = half; j < n; j++)
            tokens[j] = (tokens[j] + 1) % spec.n_vocab;
        struct trace *b = engine_run(model, &m->spec, tokens, n);
        const struct trace_value *x = trace_at(a, MGPT_LOGITS, -1),
                                 *y = trace_at(b, MGPT_LOGITS, -1);
        assert_memory_equal(x->data, y->data, half * x->cols * sizeof *x->data);
        assert_memory_not_equal(x->data + half * x->cols, y->data + half * x->cols,
                                x->cols * sizeof *x->data);
        trace_free(a);
        trace_free(b);
        mgpt_close(model);
        toy_free(m);
    }
}

/* ---- far positions -----------------------------------------------------------------------------
 */

enum { FAR = 2000, ROPE_DIM = 8 };

/* K before and after rotation, [FAR][ROPE_DIM] each. */
struct rotation {
    float before[FAR][ROPE_DIM], after[FAR][ROPE_DIM];
};

static int keep_rotation(const mgpt_value *value, void *user)
{
    struct rotation *r = user;
    float(*to)[ROPE_DIM] = value->point == MGPT_K ? r->before : r->after;
    for (int32_t i = 0; i < value->rows; i++)
        memcpy(to[value->pos + i], value->data + (size_t)i * value->stride, sizeof to[0]);
    return 0;
}

/* Angles of thousands of radians are as exact as small ones: cosine, sine, two products and their sum
 * are rounded once each, so a rotated pair is within 4 u of its length. */
static void check_rotation(const struct rotation *r, size_t pos, size_t i)
{
    double angle = (double)pos * pow(10000, -(double)i / ROPE_DIM);
    double a = (double)r->before[pos][i], b = (double)r->before[pos][i + 1];
    double allowed = 4 * U * hypot(a, b);
    double da = a * cos(angle) - b * sin(angle) - (double)r->after[pos][i];
    double db = a * sin(angle) + b * cos(angle) - (double)r->after[pos][i + 1];
    if (!(fabs(da) <= allowed && fabs(db) <= allowed))
        fail_msg("position %zu, pair %zu is off by %g, %g; allowed %g", pos, i / 2, da, db,
                 allowed);
}

static void test_far_positions_rotate_as_exactly(void **state)
{
    (void)state;
    const struct toy_spec spec = {.label = "far",
                                  .arch = "llama",
                                  .n_layer = 1,
                                  .n_embd = ROPE_DIM,
                                  .n_head = 1,
                                  .n_ff = 1,
                                  .n_ctx = FAR,
                                  .n_vocab = 2,
                                  .seed = 6};
    struct toy *m = toy_build(&spec);
    mgpt_model *model = toy_open(m, NULL);
    mgpt_session *session = mgpt_session_new(model, NULL, NULL);
    assert_non_null(session);
    struct rotation *r = toy_alloc(1, sizeof *r);
    int32_t *tokens = toy_alloc(FAR, sizeof *tokens);
    toy_tokens(m, 1, tokens, FAR);
    uint64_t points = MGPT_POINT_BIT(MGPT_K) | MGPT_POINT_BIT(MGPT_ROT_K);
    assert_int_equal(mgpt_tap(session, points, keep_rotation, r, NULL), MGPT_OK);
    assert_int_equal(mgpt_feed(session, tokens, FAR, NULL), MGPT_OK);
    for (size_t pos = 0; pos < FAR; pos++)
        for (size_t i = 0; i < ROPE_DIM; i += 2)
            check_rotation(r, pos, i);
    free(tokens);
    free(r);
    mgpt_session_free(session);
    mgpt_close(model);
    toy_free(m);
}

/* ---- writing through a tap ---------------------------------------------------------------------
 */

/* One point of one layer is bent on both sides; both must then go the same way. */
struct bend {
    mgpt_point point;
    int layer;
    struct trace *trace; /* the engine's values, as bent */
};

static void bend_oracle(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    const struct bend *b = user;
    for (size_t i = 0; i < n && b->point == point && b->layer == layer; i++)
        row[i] = row[i] * 0.75 + 0.125;
}

static int bend_engine(const mgpt_value *value, void *user)
{
    struct bend *b = user;
    for (int i = 0; i < value->rows && b->point == value->point && b->layer == value->layer; i++)
        for (int j = 0; j < value->cols; j++) {
            float *x = &value->data[(size_t)i * value->stride + (size_t)j];
            *x = *x * 0.75f + 0.125f;
        }
    return trace_tap(value, b->trace);
}

static void check_bend(struct toy *m, mgpt_session *session, struct bend b, const int32_t *tokens,
                       size_t n)
{
    mgpt_error err;
    char what[256];
    struct trace *ref = oracle_run(m, tokens, n, bend_oracle, &b);
    b.trace = trace_new(m->spec.n_layer, n);
    assert_int_equal(mgpt_rewind(session, 0, &err), MGPT_OK);
    assert_int_equal(mgpt_tap(session, all_points, bend_engine, &b, &err), MGPT_OK);
    assert_int_equal(mgpt_feed(session, tokens, n, &err), MGPT_OK);
    if (!traces_agree(&m->spec, b.trace, ref, what, sizeof what))
        fail_msg("point %d of layer %d was written to; %s", (int)b.point, b.layer, what);
    const float *logits = mgpt_logits(session);
    const struct trace_value *last = trace_at(b.trace, MGPT_LOGITS, -1);
    for (size_t i = 0; i < last->cols; i++)
        assert_true((double)logits[i] == last->data[(n - 1) * last->cols + i]);
    trace_free(b.trace);
    trace_free(ref);
}

/* The models that have every point between them, each point in turn. */
static void test_what_a_tap_writes_is_used(void **state)
{
    (void)state;
    const size_t chosen[] = {ZOO_MICROGPT_DEEP, ZOO_MICROGPT_RELU2, ZOO_LLAMA_TIED,
                             ZOO_LLAMA_DIALECT, ZOO_GPT2};
    for (size_t c = 0; c < sizeof chosen / sizeof chosen[0]; c++) {
        struct toy_spec spec = toy_zoo[chosen[c]];
        spec.seed = 400 + c;
        spec.n_layer = 2;
        struct toy *m = toy_build(&spec);
        mgpt_model *model = toy_open(m, NULL);
        mgpt_session_params params = {.n_chunk = 4};
        mgpt_session *session = mgpt_session_new(model, &params, NULL);
        assert_non_null(session);
        int32_t tokens[9];
        toy_tokens(m, c, tokens, 9);
        for (int p = 0; p < MGPT_N_POINTS; p++) {
            int inside = p >= MGPT_RESID_PRE && p <= MGPT_RESID_POST;
            for (int layer = inside ? 0 : -1; layer < (inside ? spec.n_layer : 0); layer++)
                check_bend(m, session, (struct bend){(mgpt_point)p, layer, NULL}, tokens, 9);
        }
        mgpt_session_free(session);
        mgpt_close(model);
        toy_free(m);
    }
}

/* ---- the tolerance -----------------------------------------------------------------------------
 */

/* The oracle of a slightly different model must be told from the engine: else the tests above would
 * prove little. */
static void check_told_apart(const struct toy_spec *spec, void change(struct toy *m))
{
    struct toy *m = toy_build(spec);
    mgpt_model *model = toy_open(m, NULL);
    int32_t tokens[N_TOKENS];
    char what[256];
    toy_tokens(m, 5, tokens, N_TOKENS);
    struct trace *ours = engine_run(model, &m->spec, tokens, N_TOKENS);
    change(m);
    struct trace *ref = oracle_run(m, tokens, N_TOKENS, NULL, NULL);
    assert_false(traces_agree(&m->spec, ours, ref, what, sizeof what));
    trace_free(ours);
    trace_free(ref);
    mgpt_close(model);
    toy_free(m);
}

static void use_tanh(struct toy *m)
{
    m->spec.activation = "gelu_tanh";
}

static void use_other_eps(struct toy *m)
{
    m->spec.eps *= 2;
}

static void use_other_base(struct toy *m)
{
    m->spec.rope_base *= 1.001;
}

static void nudge_one_weight(struct toy *m)
{
    toy_find(m, "blk.0.ffn_down.weight")->values[7] += 0.001f;
}

static void test_the_tolerance_tells_models_apart(void **state)
{
    (void)state;
    check_told_apart(&toy_zoo[ZOO_GPT2_ERF], use_tanh);
    check_told_apart(&toy_zoo[ZOO_MICROGPT_DEEP], use_other_eps);
    check_told_apart(&toy_zoo[ZOO_LLAMA], use_other_base);
    check_told_apart(&toy_zoo[ZOO_LLAMA], nudge_one_weight);
}

/* ---- weights/ ----------------------------------------------------------------------------------
 */

static void check_shipped(const char *path)
{
    struct toy *m = toy_load(path);
    assert_non_null(m);
    mgpt_error err;
    mgpt_model *model = mgpt_open(path, NULL, &err);
    if (!model)
        fail_msg("%s: %s", path, err.text);
    int32_t tokens[N_TOKENS];
    size_t n = fitting(&m->spec);
    toy_tokens(m, 1, tokens, n);
    struct trace *ours = engine_run(model, &m->spec, tokens, n);
    struct trace *ref = oracle_run(m, tokens, n, NULL, NULL);
    char what[256];
    if (!traces_agree(&m->spec, ours, ref, what, sizeof what))
        fail_msg("%s", what);
    trace_free(ours);
    trace_free(ref);
    mgpt_close(model);
    toy_free(m);
}

static void test_models_of_weights(void **state)
{
    (void)state;
    const char *root = getenv("MGPT_SOURCE_ROOT");
    char pattern[512];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/weights/*.gguf", root ? root : ".");
    if (glob(pattern, 0, NULL, &found) != 0)
        skip();
    for (size_t i = 0; i < found.gl_pathc; i++)
        check_shipped(found.gl_pathv[i]);
    globfree(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zoo_at_every_point),
        cmocka_unit_test(test_softmax_rows_and_causal_mask),
        cmocka_unit_test(test_the_future_is_invisible),
        cmocka_unit_test(test_far_positions_rotate_as_exactly),
        cmocka_unit_test(test_what_a_tap_writes_is_used),
        cmocka_unit_test(test_the_tolerance_tells_models_apart),
        cmocka_unit_test(test_models_of_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
