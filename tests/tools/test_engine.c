/* The tools' engine: what --check-finite sees, several watchers of one session, and the sliding
 * window.
 *
 * The first value that is not finite is looked for a second time, by a tap of this file on a
 * session of its own; a window is computed a second time in a fresh session, and compared to the
 * bit.
 */
#include "common/interrupt.h"
#include "engine/circuit.h"
#include "engine/engine.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>
#include <signal.h>

enum { N = 12 };

static void open_engine(struct engine *e, mgpt_model *model, int32_t n_ctx, int check_finite)
{
    *e = (struct engine){.model = model, .n_ctx = n_ctx, .check_finite = check_finite};
    assert_int_equal(mgpt_get_info(model, &e->info, NULL), MGPT_OK);
    assert_int_equal(engine_session(e), EXIT_OK);
}

/* ---- --check-finite ---- */

/* Windows, caps, gates, quantised weights: what hides keys is not infinity, and looking changes no
 * bit. */
static void check_clean(const struct subject *s)
{
    struct engine e;
    mgpt_error err;
    open_engine(&e, s->model, 0, 1);
    size_t half = s->n / 2;
    assert_int_equal(engine_feed(&e, e.session, s->tokens, half, NULL, &err), MGPT_OK);
    for (size_t i = half; i < s->n; i++) {
        const float *logits = engine_step(&e, s->tokens[i], &err);
        assert_non_null(logits);
        subject_check(s, i, 1, logits, "checked", i);
    }
    mgpt_session *copy = engine_fork(&e, e.session, &err);
    assert_non_null(copy);
    assert_int_equal(mgpt_rewind(copy, s->n - 1, &err), MGPT_OK);
    assert_int_equal(engine_step_many(&e, &copy, &s->tokens[s->n - 1], 1, &err), MGPT_OK);
    subject_check(s, s->n - 1, 1, mgpt_logits(copy), "checked in a batch", 0);
    assert_int_equal(e.finite.n_told, 0);
    mgpt_session_free(copy);
    mgpt_session_free(e.session);
}

TEST(clean_models_pass)
{
    subject_each(check_clean);
}

/* The first value that is not finite, in the order in which points fire. */
struct finite_seen {
    int windows; /* the model has some: minus infinity is a score as well */
    char hook[80], position[40];
};

static int watch_values(const mgpt_value *v, void *user)
{
    struct finite_seen *seen = user;
    const int one_query = v->point == MGPT_SCORES || v->point == MGPT_WEIGHTS;
    for (int i = 0; i < v->rows; i++) {
        for (int j = 0; j < v->cols; j++) {
            float x = v->data[(size_t)i * v->stride + (size_t)j];
            if (isfinite(x) || (seen->windows && v->point == MGPT_SCORES && x < 0))
                continue;
            mgpt_point_name(v->point, v->layer, seen->hook, sizeof seen->hook);
            snprintf(seen->position, sizeof seen->position, ", position %d, ",
                     one_query ? v->pos : v->pos + i);
            return 1;
        }
    }
    return 0;
}

static const uint64_t everywhere = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;

static void check_same_place(const char *told, const struct finite_seen *seen)
{
    size_t n = strlen(seen->hook);
    if (strncmp(told, seen->hook, n) != 0 || told[n] != ',' || !strstr(told, seen->position) ||
        !strstr(told, ", expected a finite number"))
        fail_msg("told '%s', seen %s%s", told, seen->hook, seen->position);
}

static void check_poisoned(struct toy *m, const struct toy_tensor *t)
{
    struct engine e;
    struct finite_seen seen = {m->spec.window > 0, "", ""};
    mgpt_error err = {0};
    int32_t tokens[N];
    for (int i = 0; i < N; i++)
        tokens[i] = i % m->spec.n_vocab;
    mgpt_model *model = toy_open(m, NULL);
    mgpt_session *plain = mgpt_session_new(model, NULL, NULL);
    assert_int_equal(mgpt_tap(plain, everywhere, watch_values, &seen, NULL), MGPT_OK);
    int stopped = mgpt_feed(plain, tokens, N, NULL);
    open_engine(&e, model, 0, 1);
    int status = engine_feed(&e, e.session, tokens, N, NULL, &err);
    if (stopped == MGPT_OK) { /* weights of an id or a position that no token has */
        assert_int_equal(status, MGPT_OK);
    } else {
        if (status != MGPT_EFILE)
            fail_msg("%s of %s: status %d", t->name, m->spec.label, status);
        check_same_place(err.text, &seen);
        assert_int_equal(mgpt_pos(e.session), 0); /* as before */
        assert_int_equal(e.finite.n_told, 1);
        assert_true(err.offset == MGPT_NO_OFFSET && strlen(err.text) < 160);
    }
    mgpt_session_free(plain);
    mgpt_session_free(e.session);
    mgpt_close(model);
}

TEST(poisoned_weights)
{
    static const int kinds[] = {ZOO_MICROGPT, ZOO_LLAMA, ZOO_GPT2,        ZOO_GEMMA3,
                                ZOO_GPTNEOX,  ZOO_PHI2,  ZOO_LLAMA_WINDOW};
    const float poisons[] = {NAN, INFINITY, -INFINITY, 3e38f};
    for (size_t k = 0; k < COUNT(kinds); k++) {
        struct toy_spec spec = toy_zoo[kinds[k]];
        spec.seed = 7 + k;
        struct toy *m = toy_build(&spec);
        for (size_t i = 0; i < m->n_tensors; i++) {
            struct toy_tensor *t = &m->tensors[i];
            float old = t->values[t->n / 2];
            t->values[t->n / 2] = poisons[(i + k) % 4];
            check_poisoned(m, t);
            t->values[t->n / 2] = old;
        }
        toy_free(m);
    }
}

/* Weights that are subnormal, or nothing at all, are numbers like others. */
TEST(subnormal_weights)
{
    const float tiny[] = {1e-45f, -1e-40f, 0.0f};
    for (size_t k = 0; k < 3; k++) {
        struct toy_spec spec = toy_zoo[k == 1 ? ZOO_MICROGPT : ZOO_LLAMA];
        struct toy *m = toy_build(&spec);
        struct engine e;
        mgpt_sampler sampler = {.temperature = 1, .rng = k};
        for (size_t i = 0; i < m->n_tensors; i++)
            for (size_t j = 0; j < m->tensors[i].n; j++)
                m->tensors[i].values[j] = tiny[(k + j % 2) % 3];
        mgpt_model *model = toy_open(m, NULL);
        open_engine(&e, model, 0, 1);
        for (int32_t i = 0; i < N; i++) {
            const float *logits = engine_step(&e, i % spec.n_vocab, NULL);
            assert_non_null(logits);
            int32_t token = mgpt_sample(&sampler, logits, (size_t)spec.n_vocab);
            assert_true(token >= 0 && token < spec.n_vocab);
        }
        mgpt_session_free(e.session);
        mgpt_close(model);
        toy_free(m);
    }
}

/* ---- watchers ---- */

static int overwrite(const mgpt_value *v, void *user)
{
    v->data[0] = *(const float *)user;
    return 0;
}

struct last {
    float value;
    int n;
};

static int remember(const mgpt_value *v, void *user)
{
    struct last *last = user;
    last->value = v->data[0];
    last->n++;
    return 0;
}

/* Each sees what those before have changed, --check-finite what all have; afterwards it is
 * alone. */
TEST(watchers_in_order)
{
    struct toy *m = toy_build(&toy_zoo[ZOO_MICROGPT_DEEP]);
    mgpt_model *model = toy_open(m, NULL);
    struct engine e;
    mgpt_error err;
    float put = 5;
    struct last before = {0, 0}, after = {0, 0};
    const uint64_t mlp = MGPT_POINT_BIT(MGPT_MLP_OUT);
    struct watcher third = {mlp, remember, &after, NULL}, second = {mlp, overwrite, &put, &third},
                   none = {0, NULL, NULL, &second}, first = {mlp, remember, &before, &none};
    const int32_t tokens[] = {0, 1, 2};
    open_engine(&e, model, 0, 1);
    assert_int_equal(engine_feed(&e, e.session, tokens, 3, &first, &err), MGPT_OK);
    assert_true(before.n == m->spec.n_layer && after.n == before.n);
    assert_true(before.value != 5 && after.value == 5);
    assert_null(third.next);
    put = NAN;
    assert_int_equal(engine_feed(&e, e.session, tokens, 3, &first, &err), MGPT_EFILE);
    assert_string_equal(
        err.text, "blocks.0.hook_mlp_out, position 3, value 0: nan, expected a finite number");
    assert_int_equal(mgpt_pos(e.session), 3);
    assert_int_equal(engine_feed(&e, e.session, tokens, 3, NULL, &err), MGPT_OK);
    assert_int_equal(after.n,
                     m->spec.n_layer + 1); /* not called any more; the NaN was seen by it too */
    mgpt_session_free(e.session);
    mgpt_close(model);
    toy_free(m);
}

/* ---- the sliding window ---- */

static void check_window(const mgpt_model *model, const int32_t *tokens, size_t n,
                         const float *logits, size_t n_vocab)
{
    mgpt_session *fresh = mgpt_session_new(model, NULL, NULL);
    assert_non_null(fresh);
    assert_int_equal(mgpt_feed(fresh, tokens, n, NULL), MGPT_OK);
    assert_memory_equal(logits, mgpt_logits(fresh), n_vocab * sizeof *logits);
    mgpt_session_free(fresh);
}

/* nanoGPT: idx_cond = idx[:, -block_size:]. Contexts of one position, and of the model's. */
TEST(slide_is_the_crop)
{
    for (size_t i = 0; i < ZOO_SIZE; i++) {
        struct toy_spec spec = toy_zoo[i];
        spec.seed = 90 + i;
        struct toy *m = toy_build(&spec);
        mgpt_model *model = toy_open(m, NULL);
        const size_t widths[] = {1, 5, (size_t)spec.n_ctx};
        for (size_t k = 0; k < 3; k++) {
            size_t n_ctx = widths[k] < (size_t)spec.n_ctx ? widths[k] : (size_t)spec.n_ctx;
            int32_t *tokens = toy_alloc(n_ctx + 6, sizeof *tokens);
            struct engine e;
            toy_tokens(m, i, tokens, n_ctx + 6);
            tokens[n_ctx] = tokens[0]; /* a prefix that the window may have in common with itself */
            open_engine(&e, model, (int32_t)n_ctx, (int)(i % 2));
            assert_int_equal(engine_sync(&e, e.session, tokens, n_ctx), EXIT_OK);
            for (size_t j = 1; j < 6; j++) {
                assert_int_equal(engine_slide(&e, e.session, tokens[n_ctx + j - 1], NULL), MGPT_OK);
                assert_int_equal(mgpt_pos(e.session), n_ctx);
                check_window(model, tokens + j, n_ctx, mgpt_logits(e.session),
                             (size_t)e.info.n_vocab);
            }
            assert_int_equal(engine_slide(&e, e.session, -1, NULL), MGPT_EARG);
            mgpt_session_free(e.session);
            free(tokens);
        }
        mgpt_close(model);
        toy_free(m);
    }
}

/* ---- Ctrl-C ---- */

enum { FEED, SYNC, STEP, STEP_MANY, FEED_MANY, N_ENGINE_CALLS };

/* Runs 3 tokens, or one, on the engine's session, or on it and another. A status. */
static int engine_call(struct engine *e, mgpt_session *other, int call, mgpt_error *err)
{
    static const int32_t tokens[] = {1, 2, 3};
    mgpt_session *both[] = {e->session, other};
    mgpt_run runs[] = {{.session = e->session, .tokens = tokens, .n = 3},
                       {.session = other, .tokens = tokens, .n = 3}};
    switch (call) {
    case FEED:
        return engine_feed(e, e->session, tokens, 3, NULL, err);
    case SYNC:
        return engine_sync(e, e->session, tokens, 3) == EXIT_OK ? MGPT_OK : MGPT_ESTOP;
    case STEP:
        return engine_step(e, 1, err) ? MGPT_OK : err->status;
    case STEP_MANY:
        return engine_step_many(e, both, tokens, 2, err);
    default:
        return engine_feed_many(e, runs, 2, err);
    }
}

/* Ctrl-C ends each call of the engine through mgpt_stop and leaves its sessions as they were. A
 * signal after the end of a call does not stop the next one. */
TEST(ctrl_c_ends_every_call)
{
    struct engine e;
    mgpt_error err;
    struct subject s = subject_zoo(0);
    open_engine(&e, s.model, 0, 0);
    mgpt_session *other = engine_fork(&e, e.session, &err);
    assert_non_null(other);
    for (int call = 0; call < N_ENGINE_CALLS; call++) {
        interrupt_catch();
        raise(SIGINT);
        assert_int_equal(engine_call(&e, other, call, &err), MGPT_ESTOP);
        assert_int_equal(mgpt_pos(e.session) + mgpt_pos(other), 0);
        interrupt_catch(); /* the signal is done with */
        assert_int_equal(engine_call(&e, other, call, &err), MGPT_OK);
        assert_true(mgpt_pos(e.session) > 0);
        interrupt_release();
        assert_int_equal(mgpt_rewind(e.session, 0, &err), MGPT_OK);
        assert_int_equal(mgpt_rewind(other, 0, &err), MGPT_OK);
    }
    mgpt_session_free(other);
    mgpt_session_free(e.session);
    subject_free(&s);
}

/* ---- circuits ---- */

static int has_circuit(const mgpt_model *m, enum circuit_kind kind, int32_t layer, int32_t index,
                       int32_t token)
{
    const int32_t ids[] = {1, token};
    struct circuit c = {.ids = ids, .n_ids = 2};
    mgpt_error err;
    int status = circuit_read(&c, m, kind, layer, index, &err);
    assert_true(status == MGPT_OK || status == MGPT_EARG);
    circuit_free(&c);
    return status == MGPT_OK;
}

/* Heads only where a layer has keys of its own, and no layer, head, neuron or token next to those that there are. */
TEST_ZOO(circuits_of_what_there_is)
{
    static const enum circuit_kind kinds[] = {CIRCUIT_QK, CIRCUIT_OV, CIRCUIT_FIRES,
                                              CIRCUIT_PROMOTES};
    mgpt_info info;
    assert_int_equal(mgpt_get_info(s->model, &info, NULL), MGPT_OK);
    int32_t last = info.n_layer - 1, n = info.n_tokens;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int32_t most = (k < 2 ? info.n_head : info.n_ff) - 1;
        for (int32_t i = 0; i < info.n_layer; i++) {
            mgpt_layer l;
            assert_int_equal(mgpt_get_layer(s->model, (size_t)i, &l, NULL), MGPT_OK);
            int has = has_circuit(s->model, kinds[k], i, most, n - 1);
            if (k < 2 && (l.n_conv > 0 || l.kv_from != i))
                assert_false(has);
        }
        assert_false(has_circuit(s->model, kinds[k], -1, 0, 1) ||
                     has_circuit(s->model, kinds[k], last + 1, 0, 1));
        assert_false(has_circuit(s->model, kinds[k], last, -1, 1) ||
                     has_circuit(s->model, kinds[k], last, most + 1, 1));
        assert_false(has_circuit(s->model, kinds[k], last, 0, -1) ||
                     has_circuit(s->model, kinds[k], last, 0, n));
    }
    mgpt_tensor t; /* logits that are no products with the residual */
    int dense = mgpt_find_role(s->model, MGPT_W_HEAD, 0, MGPT_WEIGHT, &t, NULL) == MGPT_OK;
    assert_int_equal(has_circuit(s->model, CIRCUIT_DIRECT, 0, 0, n - 1), !dense);
    assert_false(has_circuit(s->model, CIRCUIT_DIRECT, 0, 0, n));
    if (dense)
        assert_false(has_circuit(s->model, CIRCUIT_PROMOTES, last, 0, n - 1));
}

/* Rows of the embedding beyond the tokens are no tokens. */
TEST(no_circuit_of_padding)
{
    enum { TOKENS = 20, ROWS = 32 };
    struct toy_spec spec = toy_zoo[0];
    spec.n_vocab = TOKENS;
    spec.characters = 1;
    struct toy *m = toy_build(&spec);
    for (size_t i = 0; i < 2; i++) {
        struct toy_tensor *t = toy_find(m, i ? "output.weight" : "token_embd.weight");
        if (!t)
            continue;
        float *values = toy_alloc(ROWS * t->dims[0], sizeof *values);
        for (size_t k = 0; k < ROWS * t->dims[0]; k++)
            values[k] = t->values[k % t->n];
        free(t->values);
        t->values = values;
        t->dims[1] = ROWS;
        t->n = ROWS * t->dims[0];
    }
    toy_put_u32(m, "microgpt.vocab_size", ROWS);
    toy_encode(m);
    mgpt_error err;
    mgpt_info info;
    mgpt_model *model = mgpt_open_bytes(m->file, m->size, NULL, &err);
    if (!model)
        fail_msg("%s", err.text);
    assert_int_equal(mgpt_get_info(model, &info, NULL), MGPT_OK);
    assert_true(info.n_tokens == TOKENS && info.n_vocab == ROWS);
    for (int kind = 0; kind <= CIRCUIT_PROMOTES; kind++)
        assert_false(has_circuit(model, (enum circuit_kind)kind, 0, 0, TOKENS));
    assert_true(has_circuit(model, CIRCUIT_DIRECT, 0, 0, TOKENS - 1));
    mgpt_close(model);
    toy_free(m);
}

/* The factors are waves at right angles to each other. The order is that of the strongest wave: the mean of the other side
 * and a token that is left out do not change it. */
static void check_circuit_order(const float strengths[3], size_t strongest, int by_cols)
{
    enum { WIDE = 8, OUT = 3 };
    float own[WIDE * CIRCUIT_LANES] = {0}, other[WIDE * CIRCUIT_LANES] = {0};
    const unsigned char skip[WIDE] = {[OUT] = 1};
    double along[WIDE], largest = 0, length = 0;
    for (size_t i = 0; i < WIDE; i++)
        for (size_t k = 0; k < 3; k++) {
            double wave =
                cos(acos(-1) * ((double)(i - (i > OUT)) + 0.5) * (double)(k + 1) / (WIDE - 1));
            own[i * CIRCUIT_LANES + k] = i == OUT ? 90 : (float)wave;
            other[i * CIRCUIT_LANES + k] = i == OUT ? 90 : 5 + strengths[k] * (float)wave;
        }
    struct circuit c = {NULL, NULL, 0, WIDE, WIDE, 3, CIRCUIT_LANES, own, other};
    if (by_cols)
        c.rows = other, c.cols = own;
    assert_int_equal(circuit_order(&c, by_cols, skip, along), 1);
    assert_true(along[OUT] == 0);
    for (size_t i = 0; i < WIDE; i++) {
        largest = fabs(along[i]) > fabs(largest) ? along[i] : largest;
        length += along[i] * along[i];
    }
    assert_true(largest > 0);
    double scale = copysign(sqrt(length / ((WIDE - 1) / 2.0)), along[0] * (double)own[strongest]);
    for (size_t i = 0; i < WIDE; i++)
        assert_true(i == OUT ||
                    fabs(along[i] - (double)own[i * CIRCUIT_LANES + strongest] * scale) < 1e-5);
}

TEST(order_of_a_circuit)
{
    static const float strengths[][3] = {{1, 2, 0}, {2, 1, 0}, {1, 2, 3}, {3, 2, 1},
                                         {1, 3, 2}, {0, 0, 2}, {0, 2, 0}};
    static const size_t strongest[] = {1, 0, 2, 0, 1, 2, 1};
    for (size_t i = 0; i < COUNT(strengths); i++)
        for (int by_cols = 0; by_cols < 2; by_cols++)
            check_circuit_order(strengths[i], strongest[i], by_cols);
}
