/* mgpt_top and mgpt_logprob. */
#include "mgpt.h"
#include "support/build_model.h"
#include "support/unit.h"

#include <math.h>

enum { V = 12 };

static const float logits12[V] = {0.5f, -1.25f, 2.0f,  1.5f,  -3.0f, 0.0f,
                                  1.0f, 2.25f,  -0.5f, 0.75f, -2.0f, 1.25f};

/* Float64 sums of 12 terms near 1: 1e-14 is about 50 units in the last place. */
TEST(logprob)
{
    double sum = 0;
    for (size_t i = 0; i < V; i++)
        sum += exp((double)logits12[i]);
    for (int32_t i = 0; i < V; i++) {
        double want = log(exp((double)logits12[i]) / sum);
        assert_true(fabs(mgpt_logprob(logits12, V, i) - want) <= 1e-14 * fabs(want) + 1e-14);
    }
    const float far[2] = {3e38f, -3e38f}, odd[3] = {0.0f, -INFINITY, NAN};
    assert_true(mgpt_logprob(far, 2, 0) == 0);
    assert_true(mgpt_logprob(far, 2, 1) == (double)-3e38f - (double)3e38f);
    assert_true(mgpt_logprob(odd, 3, 0) == 0);
    assert_true(mgpt_logprob(odd, 3, 1) == -INFINITY);
    assert_false(mgpt_logprob(odd, 3, 2) > -INFINITY); /* NaN has no probability */
}

/* By logit, among equals by id. */
static void assert_sorted(const mgpt_candidate *top, size_t n)
{
    for (size_t i = 1; i < n; i++)
        assert_true(top[i - 1].logit > top[i].logit ||
                    (top[i - 1].logit == top[i].logit && top[i - 1].token < top[i].token));
}

TEST(top_is_sorted_and_sums_to_one)
{
    mgpt_candidate all[V], top[V + 3];
    double sum = 0;
    assert_int_equal(mgpt_top(logits12, V, all, V), V);
    assert_sorted(all, V);
    for (size_t i = 0; i < V; i++) {
        assert_true(all[i].logit == logits12[all[i].token]);
        assert_true(all[i].logprob == mgpt_logprob(logits12, V, all[i].token));
        sum += exp(all[i].logprob);
    }
    assert_true(fabs(sum - 1) <= 1e-14);
    for (size_t k = 1; k <= V + 3; k++) {
        size_t n = mgpt_top(logits12, V, top, k);
        assert_int_equal(n, k < V ? k : V);
        for (size_t i = 0; i < n; i++)
            assert_true(top[i].token == all[i].token && top[i].logit == all[i].logit &&
                        top[i].logprob == all[i].logprob);
    }
}

/* Many ties in a larger array: equal logits are in order of id, for every k. */
TEST(top_breaks_ties_by_id)
{
    enum { N = 1000 };
    float logits[N];
    mgpt_candidate top[N];
    uint64_t rng = 3;
    for (int i = 0; i < N; i++)
        logits[i] = (float)(toy_random(&rng) % 10);
    logits[17] = NAN;
    logits[500] = -INFINITY;
    for (size_t k = 1; k <= N; k = k * 2 + 1) {
        assert_int_equal(mgpt_top(logits, N, top, k), k);
        assert_sorted(top, k);
    }
    assert_int_equal(mgpt_top(logits, N, top, N), N);
    assert_int_equal(top[N - 2].token, 17); /* NaN counts as minus infinity, so by id */
    assert_int_equal(top[N - 1].token, 500);
    assert_sorted(top, N - 2);
}

TEST(wrong_arguments)
{
    mgpt_candidate top[1];
    assert_int_equal(mgpt_top(logits12, V, NULL, 3), 0);
    assert_int_equal(mgpt_top(NULL, V, top, 1), 0);
    assert_int_equal(mgpt_top(logits12, 0, top, 1), 0);
    assert_int_equal(mgpt_top(logits12, V, top, 0), 0);
    assert_true(isnan(mgpt_logprob(NULL, V, 0)));
    assert_true(isnan(mgpt_logprob(logits12, V, V)));
    assert_true(isnan(mgpt_logprob(logits12, V, -1)));
    assert_true(isnan(mgpt_logprob(logits12, 0, 0)));
}

TEST(greedy_probabilities)
{
    const mgpt_sampler greedy = {0}, one = {.temperature = 1.0f};
    const float logits[] = {1.0f, 2.0f, 2.0f, -3.0f};
    const float none[] = {NAN, -INFINITY, NAN};
    for (int i = 0; i < 4; i++)
        assert_true(mgpt_draw_prob(&greedy, logits, 4, i) == (i == 1));
    for (int i = 0; i < 3; i++) /* as mgpt_sample */
        assert_true(mgpt_draw_prob(&one, none, 3, i) == (i == 0));
}

static double nearly_one(void *user)
{
    (void)user;
    return 1 - 0x1p-53;
}

/* Among equal logits top_k keeps the lowest ids, however large they are. */
TEST(probabilities_of_ties)
{
    enum { MANY = 1 << 18 };
    const mgpt_sampler sampler = {.temperature = 1.0f, .top_k = 3};
    float *logits = toy_alloc(MANY, sizeof *logits);
    logits[7] = logits[4000] = logits[MANY - 9] = logits[MANY - 2] = 5;
    assert_true(mgpt_draw_prob(&sampler, logits, MANY, 7) == 1.0 / 3);
    assert_true(mgpt_draw_prob(&sampler, logits, MANY, MANY - 9) == 1.0 / 3);
    assert_true(mgpt_draw_prob(&sampler, logits, MANY, MANY - 2) == 0);
    assert_true(mgpt_draw_prob(&sampler, logits, MANY, 0) == 0);
    free(logits);
    const float last[1100] = {[1099] = 1}; /* top_k leaves it and 0 to 9 of the others */
    mgpt_sampler draw = {.temperature = 1.0f, .top_k = 11, .uniform = nearly_one};
    assert_int_equal(mgpt_sample(&draw, last, COUNT(last)), 1099);
}
