/* Mixtures of experts beyond what every model of the zoo is tested for: which experts are chosen,
 * which are computed, and mixtures whose matrices are large enough for threads. */
#include "run/session.h"
#include "support/build_model.h"
#include "support/toy_zoo.h"

#include <math.h>

static const struct toy_spec mixture = {.label = "mixture",
                                        .arch = "llama",
                                        TOY_SIZES(1, 16, 2, 24, 32, 20),
                                        .n_expert = 5,
                                        .n_expert_used = 2,
                                        .seed = 3};

/* ---- choosing ---- */

struct weights {
    float first[8]; /* weights of the first position */
    size_t n;
};

static int keep_weights(const mgpt_value *value, void *user)
{
    struct weights *w = user;
    w->n = (size_t)value->cols;
    memcpy(w->first, value->data, w->n * sizeof *w->first);
    return 0;
}

static struct weights weights_of(const char *edits)
{
    struct weights w = {.n = 0};
    struct toy *m = toy_build(&mixture);
    toy_edit(m, edits);
    mgpt_model *model = toy_open(m, NULL);
    mgpt_session *session = subject_session(model, 0, 0);
    int32_t token = 3;
    mgpt_tap(session, MGPT_POINT_BIT(MGPT_EXPERT_WEIGHTS), keep_weights, &w, NULL);
    subject_feed(session, &token, 1);
    mgpt_session_free(session);
    mgpt_close(model);
    toy_free(m);
    return w;
}

TEST(of_equal_scores_the_first_are_chosen)
{
    struct weights w = weights_of("times blk.0.ffn_gate_inp.weight all 0");
    assert_int_equal(w.n, 5);
    for (size_t i = 0; i < w.n; i++)
        assert_true(w.first[i] == (i < 2 ? 0.5f : 0.0f));
    w = weights_of("times blk.0.ffn_gate_inp.weight all 0; bool llama.expert_weights_norm 0; "
                   "f32 llama.expert_weights_scale 10");
    for (size_t i = 0; i < w.n; i++)
        assert_true(w.first[i] == (i < 2 ? 2.0f : 0.0f));
    w = weights_of("times blk.0.ffn_gate_inp.weight all 0; bool llama.expert_weights_norm 0; "
                   "u32 llama.expert_gating_func 2");
    for (size_t i = 0; i < w.n; i++)
        assert_true(w.first[i] == (i < 2 ? 0.5f : 0.0f));
}

TEST(scores_that_are_not_numbers_are_chosen_last)
{
    struct weights w = weights_of("value blk.0.ffn_gate_inp.weight 3 nan"); /* of expert 0 */
    assert_true(w.first[0] == 0);
    w = weights_of("value blk.0.ffn_gate_inp.weight all nan");
    for (size_t i = 2; i < w.n; i++)
        assert_true(w.first[i] == 0);
}

/* ---- computing ---- */

/* Expert 1 is the only one, or is left out. */
static int leave_out(const mgpt_value *value, void *user)
{
    int only = *(const int *)user;
    for (int32_t i = 0; i < value->rows; i++)
        for (int32_t e = 0; e < value->cols; e++) {
            float *w = &value->data[(size_t)i * value->stride + (size_t)e];
            *w = only ? (float)(e == 1) : *w * (float)(e != 1);
        }
    return 0;
}

/* Expert 1 gives NaN: whether it is computed shows. */
TEST(an_expert_of_weight_0_is_not_computed)
{
    struct toy *m = toy_build(&mixture);
    struct toy_tensor *down = toy_find(m, "blk.0.ffn_down_exps.weight");
    size_t each = (size_t)(down->dims[0] * down->dims[1]);
    for (size_t i = 0; i < each; i++)
        down->values[each + i] = NAN;
    mgpt_model *model = toy_open(m, NULL);
    const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int only = 0; only < 2; only++)
        for (int32_t chunk = 1; chunk < 9; chunk += 7) {
            mgpt_session *session = subject_session(model, chunk, 0);
            mgpt_tap(session, MGPT_POINT_BIT(MGPT_EXPERT_WEIGHTS), leave_out, &only, NULL);
            subject_feed(session, tokens, 8);
            assert_int_equal(isnan(mgpt_logits(session)[0]), only);
            mgpt_session_free(session);
        }
    mgpt_close(model);
    toy_free(m);
}

/* ---- what experts are shown to multiply ---- */

enum { SEEN_TOKENS = 8, SEEN_E = 16, SEEN_X = 5, SEEN_F = 24 };

struct seen_rows {
    size_t n[SEEN_X]; /* rows that each expert had */
    float x[SEEN_X][SEEN_TOKENS][SEEN_E], f[SEEN_X][SEEN_TOKENS][SEEN_F];
    float in[SEEN_TOKENS][SEEN_E], weights[SEEN_TOKENS][SEEN_X];
};

static void keep_expert(void *user, size_t layer, size_t expert, const float *x, const float *f,
                        size_t n)
{
    struct seen_rows *seen = user;
    size_t *at = &seen->n[expert];
    assert_int_equal(layer, 0);
    assert_true(*at + n <= SEEN_TOKENS);
    memcpy(seen->x[expert][*at], x, n * sizeof *seen->in);
    memcpy(seen->f[expert][*at], f, n * sizeof seen->f[0][0]);
    *at += n;
}

static int keep_seen_rows(const mgpt_value *value, void *user)
{
    struct seen_rows *seen = user;
    float *to = value->point == MGPT_MLP_IN ? seen->in[value->pos] : seen->weights[value->pos];
    memcpy(to, value->data, (size_t)(value->rows * value->cols) * sizeof *to);
    return 0;
}

static void see_experts(mgpt_model *model, int32_t chunk, struct seen_rows *seen)
{
    const int32_t tokens[SEEN_TOKENS] = {1, 2, 3, 4, 5, 6, 7, 8};
    mgpt_session *session = subject_session(model, chunk, 0);
    memset(seen, 0, sizeof *seen);
    session->seen = (struct experts_seen){keep_expert, seen};
    mgpt_tap(session, MGPT_POINT_BIT(MGPT_MLP_IN) | MGPT_POINT_BIT(MGPT_EXPERT_WEIGHTS),
             keep_seen_rows, seen, NULL);
    subject_feed(session, tokens, SEEN_TOKENS);
    mgpt_session_free(session);
}

/* Each expert is shown the MLP's inputs of the tokens that chose it, in passes of any number of rows. */
TEST(experts_are_shown_the_rows_that_chose_them)
{
    struct toy *m = toy_build(&mixture);
    mgpt_model *model = toy_open(m, NULL);
    static struct seen_rows seen, whole;
    see_experts(model, SEEN_TOKENS, &whole);
    for (int32_t chunk = 1; chunk <= SEEN_TOKENS; chunk++) {
        see_experts(model, chunk, &seen);
        assert_memory_equal(seen.f, whole.f, sizeof seen.f);
        for (size_t e = 0; e < SEEN_X; e++) {
            size_t n = 0;
            for (size_t t = 0; t < SEEN_TOKENS; t++)
                if (seen.weights[t][e] != 0)
                    assert_memory_equal(seen.x[e][n++], seen.in[t], sizeof *seen.in);
            assert_int_equal(seen.n[e], n);
        }
    }
    mgpt_close(model);
    toy_free(m);
}

/* ---- threads ---- */

enum { N_BESIDE = 3, N_STEPS = 6 };

/* Steps of several sessions at once: rows that choose different experts in one pass. */
static void check_mixture_batch(const struct subject *s, int32_t n_threads)
{
    mgpt_session *all[N_BESIDE];
    int32_t tokens[N_BESIDE];
    for (size_t k = 0; k < N_BESIDE; k++) {
        all[k] = subject_session(s->model, 5, n_threads);
        subject_feed(all[k], s->tokens, k);
    }
    for (size_t i = 0; i < N_STEPS; i++) {
        for (size_t k = 0; k < N_BESIDE; k++)
            tokens[k] = s->tokens[i + k];
        assert_int_equal(mgpt_step_many(all, tokens, N_BESIDE, NULL), MGPT_OK);
        for (size_t k = 0; k < N_BESIDE; k++)
            subject_check(s, i + k, 1, mgpt_logits(all[k]), "batch, threads", (size_t)n_threads);
    }
    for (size_t k = 0; k < N_BESIDE; k++)
        mgpt_session_free(all[k]);
}

static void check_threads(const struct subject *s)
{
    for (int32_t n_threads = 1; n_threads < 5; n_threads++) {
        mgpt_session *session = subject_session(s->model, 7, n_threads);
        for (size_t i = 0; i < N_STEPS; i++)
            subject_check(s, i, 1, mgpt_step(session, s->tokens[i], NULL), "steps, threads",
                          (size_t)n_threads);
        subject_check_feed(s, session, "fed, threads", (size_t)n_threads);
        mgpt_session_free(session);
        check_mixture_batch(s, n_threads);
    }
}

/* Matrices that threads share, in F32, in integers, and with a shared expert. */
TEST(large_mixtures_have_equal_bits)
{
    const struct toy_spec specs[] = {{.label = "large",
                                      .arch = "olmoe",
                                      TOY_SIZES(1, 192, 4, 400, 40, 30),
                                      .n_expert = 6,
                                      .n_expert_used = 3},
                                     {.label = "large, Q8_0, shared",
                                      .arch = "qwen2moe",
                                      TOY_SIZES(1, 256, 4, 512, 40, 30),
                                      .n_expert = 4,
                                      .n_expert_used = 3,
                                      .n_ff_expert = 640,
                                      .n_ff_shared = 512,
                                      .type = TOY_Q8_0}};
    for (size_t i = 0; i < COUNT(specs); i++) {
        struct subject s = subject_new(&specs[i], 50 + i);
        check_threads(&s);
        subject_free(&s);
    }
}

/* ---- facts ---- */

/* A token reads the experts that it chooses only. */
TEST(bytes_of_a_token_are_of_the_chosen_experts)
{
    uint64_t bytes[6];
    for (int k = 1; k < 6; k++) {
        struct toy_spec spec = mixture;
        spec.n_expert_used = k;
        struct toy *m = toy_build(&spec);
        mgpt_model *model = toy_open(m, NULL);
        mgpt_info info;
        assert_int_equal(mgpt_get_info(model, &info, NULL), MGPT_OK);
        assert_int_equal(info.n_expert, 5);
        assert_int_equal(info.n_expert_used, k);
        bytes[k] = info.bytes_per_token;
        mgpt_close(model);
        toy_free(m);
    }
    /* gate and up: 2 panels of 16 columns; down: 1 panel of 24 */
    for (int k = 2; k < 6; k++)
        assert_int_equal(bytes[k] - bytes[k - 1], (2 * 2 * 16 + 24) * 16 * 4);
}
