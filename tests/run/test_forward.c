/* The page: the engine against the float64 oracle at every point, for every model of the zoo
 * and for the models of weights/. Tolerances: agree.h. */
#include "model/arch.h"
#include "model/numbers.h"
#include "support/agree.h"
#include "support/toy_oracle.h"
#include "support/toy_zoo.h"
#include "support/trace.h"
#include "support/unit.h"

#include <glob.h>
#include <math.h>

#define U 0x1p-24

static const uint64_t all_points = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;

/* ---- the zoo ---- */

static void check_agrees(const struct toy *m, mgpt_model *model, const int32_t *tokens, size_t n)
{
    struct trace *ours = agree_run(model, &m->spec, tokens, n);
    struct trace *ref = agree_oracle(m, ours, tokens, n);
    char what[256];
    if (!agree(&m->spec, ours, ref, what, sizeof what))
        fail_msg("%s", what);
    trace_free(ours);
    trace_free(ref);
}

/* Several chunks, several panels of the cache. */
TEST_ZOO(zoo_at_every_point)
{
    check_agrees(s->m, s->model, s->tokens, s->n);
}

/* A model of the zoo with one number changed agrees with the oracle. 0 if the number has no effect
 * in this model: its logits are the same. */
static int number_agrees(const struct toy_spec *zoo, size_t at, double value)
{
    struct toy_spec spec = *zoo;
    memcpy((char *)&spec + at, &value, sizeof value);
    struct subject usual = subject_new(zoo, 700), s = subject_new(&spec, 700);
    int differs = memcmp(usual.logits, s.logits, s.n * s.n_vocab * sizeof *s.logits) != 0;
    if (differs)
        check_agrees(s.m, s.model, s.tokens, s.n);
    subject_free(&usual);
    subject_free(&s);
    return differs;
}

/* Every row of model/numbers.h, in the first model where it has an effect. */
TEST(every_number_at_every_point)
{
#define NUMBER_OF_TOY(field, absent, kind, key, least, most, knows, ...)                           \
    {key, offsetof(struct toy_spec, field), fmin(fmax(0.37, least), most), knows},
    const struct {
        const char *key;
        size_t at;
        double value;
        unsigned knows;
    } numbers[] = {MODEL_NUMBERS(NUMBER_OF_TOY)};
    for (size_t i = 0; i < COUNT(numbers); i++) {
        size_t zoo = 0;
        while (zoo < ZOO_SIZE) {
            const char *arch = toy_zoo[zoo].arch;
            unsigned knows = arch_find(arch, strlen(arch))->knows | KNOWS_ALL;
            if (knows & numbers[i].knows &&
                number_agrees(&toy_zoo[zoo], numbers[i].at, numbers[i].value))
                break;
            zoo++;
        }
        if (zoo == ZOO_SIZE)
            fail_msg("%s: no model of the zoo computes with it", numbers[i].key);
    }
}

/* Every activation, gated and not. */
TEST(every_activation_at_every_point)
{
    static const char *const names[] = {ACTIVATIONS(ACTIVATION_NAME)};
    const size_t zoo[] = {ZOO_LLAMA_DIALECT, ZOO_GPT2};
    for (size_t i = 0; i < COUNT(names) * COUNT(zoo); i++) {
        struct toy_spec spec = toy_zoo[zoo[i % COUNT(zoo)]];
        spec.activation = names[i / COUNT(zoo)];
        struct subject s = subject_new(&spec, 800 + i);
        check_agrees(s.m, s.model, s.tokens, s.n);
        subject_free(&s);
    }
}

/* What experts are chosen by: scores or probabilities, with a bias or not, in groups or not. In each
 * architecture of a mixture, as some have the choice otherwise. */
TEST(every_choice_of_experts_at_every_point)
{
    enum { SIGMOID = 1, BIAS = 2, GROUPS = 4, N_CHOICES = 8 };
    const char *arch = "";
    for (size_t i = 0; i < ZOO_SIZE; i++) {
        if (!toy_zoo[i].n_expert || toy_zoo[i].expert_jitter > 0 ||
            strcmp(toy_zoo[i].arch, arch) == 0)
            continue;
        arch = toy_zoo[i].arch;
        for (int choice = 0; choice < N_CHOICES; choice++) {
            struct toy_spec spec = toy_zoo[i];
            spec.n_expert = 8;
            spec.n_expert_used = 3;
            spec.expert_bias = (choice & BIAS) > 0;
            spec.expert_sigmoid |=
                choice & SIGMOID || (spec.n_latent && spec.expert_bias); /* DeepSeek V3 */
            spec.n_group = choice & GROUPS;
            spec.n_group_used = spec.n_group / 2;
            spec.type = TOY_F32; /* what is rounded to 8 bits inside an expert is no point */
            for (size_t seed = 1000; seed < 1003; seed++) {
                struct subject s = subject_new(&spec, seed + 7919 * i);
                check_agrees(s.m, s.model, s.tokens, s.n);
                subject_free(&s);
            }
        }
    }
}

/* Keys that a query of this layer may see, its own included: as the spec states it, without the
 * row's period of full layers, which the oracle applies. */
static size_t widest_window(const struct toy_spec *s, int layer)
{
    if (s->windows && s->windows[layer])
        return (size_t)s->windows[layer];
    int all = s->window && !s->full_every && !s->row->full_every && !s->pattern;
    return all ? (size_t)s->window : SIZE_MAX;
}

/* Weights are positive, sum to 1 (less with a sink) and reach no further than their query, nor back beyond the window;
 * a score is -inf exactly where the key is outside the visible range. Each of n weights is rounded
 * once (u of itself, so u of the sum in total) and divided by a float32 sum of sixteen chains,
 * which is off by at most (n / 16 + 4) u. */
static void check_softmax_row(const struct toy_spec *s, int layer, size_t pos, const double *scores,
                              const double *weights, size_t n)
{
    double sum = 0, allowed = ((double)(pos + 1) / 16 + 6) * U;
    size_t window = widest_window(s, layer);
    for (size_t j = 0; j < n; j++) {
        int in_sight = j <= pos && pos - j < window;
        assert_true(in_sight ? weights[j] >= 0 && weights[j] <= 1 : weights[j] == 0);
        assert_true(in_sight || scores[j] == -INFINITY);
        assert_true(scores[j] > -INFINITY || weights[j] == 0);
        sum += weights[j];
    }
    if (toy_has_sinks(s, layer) ? !(sum < 1) : !(fabs(sum - 1) <= allowed))
        fail_msg("%s: layer %d, query %zu: weights sum to 1 %+.3g", s->label, layer, pos, sum - 1);
}

static void check_softmax(const struct toy_spec *s, const struct trace *t)
{
    for (int layer = 0; layer < s->n_layer; layer++) {
        const struct trace_value *scores = trace_at(t, MGPT_SCORES, layer);
        const struct trace_value *weights = trace_at(t, MGPT_WEIGHTS, layer);
        if (toy_convolves(s, layer))
            continue;
        for (size_t row = 0; row < t->n_tokens * (size_t)toy_heads(s, layer); row++) {
            size_t first = row * t->n_tokens;
            check_softmax_row(s, layer, row / (size_t)toy_heads(s, layer), scores->data + first,
                              weights->data + first, t->n_tokens);
        }
    }
}

TEST_ZOO(softmax_rows_and_causal_mask)
{
    int32_t tokens[80];
    size_t n = (size_t)s->m->spec.n_ctx;
    toy_tokens(s->m, 1, tokens, n);
    struct trace *t = agree_run(s->model, &s->m->spec, tokens, n);
    check_softmax(&s->m->spec, t);
    trace_free(t);
}

/* Two runs whose tokens differ from position `changed` on, or there only. */
struct two_runs {
    struct trace *a, *b;
    const double *x, *y; /* logits, [n][cols] */
    size_t cols;
};

static struct two_runs run_twice(const struct subject *s, size_t changed, size_t until)
{
    int32_t tokens[MAX_TOKENS];
    memcpy(tokens, s->tokens, sizeof tokens);
    for (size_t i = changed; i < until; i++)
        tokens[i] = (tokens[i] + 1) % (int32_t)s->n_vocab;
    struct two_runs r = {.a = agree_run(s->model, &s->m->spec, s->tokens, s->n),
                         .b = agree_run(s->model, &s->m->spec, tokens, s->n)};
    r.x = trace_at(r.a, MGPT_LOGITS, -1)->data;
    r.y = trace_at(r.b, MGPT_LOGITS, -1)->data;
    r.cols = s->n_vocab;
    return r;
}

static void free_runs(struct two_runs *r)
{
    trace_free(r->a);
    trace_free(r->b);
}

/* What comes later does not change what came before: to the bit. */
TEST_ZOO(the_future_is_invisible)
{
    size_t half = s->n / 2;
    struct two_runs r = run_twice(s, half, s->n);
    assert_memory_equal(r.x, r.y, half * r.cols * sizeof *r.x);
    assert_memory_not_equal(r.x + half * r.cols, r.y + half * r.cols, r.cols * sizeof *r.x);
    free_runs(&r);
}

/* A query of layer n sees what its window lets through of what layer n - 1 saw: with L layers and a
 * window of w nothing reaches further than L (w - 1) positions. To the bit; and that far it does
 * reach. */
static void check_horizon(size_t zoo, size_t horizon)
{
    struct subject s = subject_zoo(zoo);
    struct two_runs r = run_twice(&s, 0, 1);
    for (size_t pos = 0; pos < s.n; pos++) {
        size_t at = pos * r.cols;
        int same_bits = memcmp(r.x + at, r.y + at, r.cols * sizeof *r.x) == 0;
        if (same_bits != (pos > horizon))
            fail_msg("%s: position %zu %s token 0", s.m->spec.label, pos,
                     same_bits ? "does not see" : "sees");
    }
    free_runs(&r);
    subject_free(&s);
}

TEST(windows_have_a_horizon)
{
    check_horizon(ZOO_NANOCHAT_ONE_KEY, 0);
    check_horizon(ZOO_LLAMA_WINDOW, (size_t)2 * 18);
    check_horizon(ZOO_PHI2_SEPARATE, MAX_TOKENS);
}

/* ---- far positions ---- */

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

/* Angles of thousands of radians are as exact as small ones: cosine, sine, two products and their
 * sum are rounded once each, so a rotated pair is within 4 u of its length. */
static void check_rotation(const struct rotation *r, size_t pos, size_t i)
{
    const size_t half = ROPE_DIM / 2;
    double angle = (double)pos * pow(10000, -2 * (double)i / ROPE_DIM);
    double a = (double)r->before[pos][i], b = (double)r->before[pos][i + half];
    double allowed = 4 * U * hypot(a, b);
    double da = a * cos(angle) - b * sin(angle) - (double)r->after[pos][i];
    double db = a * sin(angle) + b * cos(angle) - (double)r->after[pos][i + half];
    if (!(fabs(da) <= allowed && fabs(db) <= allowed))
        fail_msg("position %zu, pair %zu is off by %g, %g; allowed %g", pos, i, da, db, allowed);
}

TEST(far_positions_rotate_as_exactly)
{
    const struct toy_spec spec = {
        .label = "far", .arch = "llama", TOY_SIZES(1, ROPE_DIM, 1, 1, FAR, 2), .seed = 6};
    struct toy *m = toy_build(&spec);
    mgpt_model *model = toy_open(m, NULL);
    mgpt_session *session = subject_session(model, 0, 0);
    struct rotation *r = toy_alloc(1, sizeof *r);
    int32_t *tokens = toy_alloc(FAR, sizeof *tokens);
    toy_tokens(m, 1, tokens, FAR);
    uint64_t points = MGPT_POINT_BIT(MGPT_K) | MGPT_POINT_BIT(MGPT_ROT_K);
    assert_int_equal(mgpt_tap(session, points, keep_rotation, r, NULL), MGPT_OK);
    assert_int_equal(mgpt_feed(session, tokens, FAR, NULL), MGPT_OK);
    for (size_t pos = 0; pos < FAR; pos++)
        for (size_t i = 0; i < ROPE_DIM / 2; i++)
            check_rotation(r, pos, i);
    free(tokens);
    free(r);
    mgpt_session_free(session);
    mgpt_close(model);
    toy_free(m);
}

/* ---- writing through a tap ---- */

/* One point of one layer is bent on both sides; both must then agree. */
struct bend {
    mgpt_point point;
    int layer;
    struct trace *trace; /* the engine's values, as bent */
};

static void bend_oracle(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    const struct bend *b = user;
    for (size_t i = 0; i < n && b->point == point && b->layer == layer; i++)
        row[i] = row[i] * 0.75 + 0.125 * (double)(1 + i % 3);
}

static int bend_engine(const mgpt_value *value, void *user)
{
    struct bend *b = user;
    for (int i = 0; i < value->rows && b->point == value->point && b->layer == value->layer; i++)
        for (int j = 0; j < value->cols; j++) {
            float *x = &value->data[(size_t)i * value->stride + (size_t)j];
            *x = *x * 0.75f + 0.125f * (float)(1 + j % 3);
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
    if (!agree(&m->spec, b.trace, ref, what, sizeof what))
        fail_msg("point %d of layer %d was written to; %s", (int)b.point, b.layer, what);
    const float *logits = mgpt_logits(session);
    const struct trace_value *last = trace_at(b.trace, MGPT_LOGITS, -1);
    for (size_t i = 0; i < last->cols; i++)
        assert_true((double)logits[i] == last->data[(n - 1) * last->cols + i]);
    trace_free(b.trace);
    trace_free(ref);
}

/* Models that together have every point and every operation, one point at a time. Windows of 5 and
 * 6 are shorter than the 9 tokens: what is written to scores and weights outside the visible range
 * has no effect. */
TEST(what_a_tap_writes_is_used)
{
    const size_t chosen[] = {
        ZOO_MICROGPT_DEEP, ZOO_MICROGPT_RELU2, ZOO_LLAMA_TIED, ZOO_LLAMA_DIALECT, ZOO_GPT2,
        ZOO_GEMMA3_PERIOD, ZOO_PHI2,           ZOO_GPTNEOX,    ZOO_OLMO2,         ZOO_OLMO,
        ZOO_NANOCHAT_2026, ZOO_MIXTRAL,        ZOO_QWEN2MOE};
    for (size_t c = 0; c < COUNT(chosen); c++) {
        struct toy_spec spec = toy_zoo[chosen[c]];
        spec.seed = 400 + c;
        spec.n_layer = 2;
        spec.dense = 0;
        struct toy *m = toy_build(&spec);
        mgpt_model *model = toy_open(m, NULL);
        mgpt_session *session = subject_session(model, 4, 0);
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

/* ---- weights/ ---- */

static void check_shipped(const char *path)
{
    struct toy *m = toy_load(path);
    mgpt_error err;
    mgpt_model *model = mgpt_open(path, NULL, &err);
    int32_t tokens[MAX_TOKENS];
    if (!m || !model)
        fail_msg("%s: %s", path, err.text);
    size_t n = m->spec.n_ctx < MAX_TOKENS ? (size_t)m->spec.n_ctx : MAX_TOKENS;
    toy_tokens(m, 1, tokens, n);
    check_agrees(m, model, tokens, n);
    mgpt_close(model);
    toy_free(m);
}

TEST(models_of_weights)
{
    glob_t found;
    if (glob(unit_path("weights/*.gguf"), 0, NULL, &found) != 0)
        skip();
    for (size_t i = 0; i < found.gl_pathc; i++)
        check_shipped(found.gl_pathv[i]);
    globfree(&found);
}
