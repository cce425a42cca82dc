/* The sampler: exact where the contract is exact, chi-square against the exact distribution where
 * it is a distribution. Seeds are fixed, so a test that passes once passes always. mgpt_top,
 * mgpt_logprob: test_top.c. */
#include "kernels/sample_kernels.h"
#include "mgpt.h"
#include "support/build_model.h"
#include "support/unit.h"

#include <math.h>

enum { V = 12, N_DRAWS = 6000 };

static const float logits12[V] = {0.5f, -1.25f, 2.0f,  1.5f,  -3.0f, 0.0f,
                                  1.0f, 2.25f,  -0.5f, 0.75f, -2.0f, 1.25f};

/* ---- the exact distribution ---- */

static int larger(const double *p, int a, int b)
{
    return p[a] > p[b] || (p[a] == p[b] && a < b);
}

/* Tokens from the likeliest down, lowest id first on ties. */
static void ranked(const double *p, int n, int *order)
{
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && larger(p, i, order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static void normalise(double *p, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += p[i];
    for (int i = 0; i < n; i++)
        p[i] /= sum;
}

static void cut(double *p, const int *order, int n, int keep)
{
    for (int i = keep; i < n; i++)
        p[order[i]] = 0;
    normalise(p, n);
}

/* Temperature, then top-k, top-p, min-p, each on what the one before left. */
static void distribution(const mgpt_sampler *s, const float *logits, int n, double *p)
{
    int order[V], keep = 0;
    for (int i = 0; i < n; i++)
        p[i] = exp((double)logits[i] / (double)s->temperature);
    normalise(p, n);
    ranked(p, n, order);
    if (s->top_k > 0 && s->top_k < n)
        cut(p, order, n, s->top_k);
    if (s->top_p > 0 && s->top_p < 1) {
        for (double sum = 0; sum < (double)s->top_p; keep++)
            sum += p[order[keep]];
        cut(p, order, n, keep);
    }
    if (s->min_p > 0) {
        double least = (double)s->min_p * p[order[0]];
        for (int i = 0; i < n; i++)
            if (p[i] < least)
                p[i] = 0;
        normalise(p, n);
    }
}

/* mgpt_draw_prob gives the distribution. Weights are whole numbers up to 2^40, and (logit - max) / temperature to 24,
 * where it is up to 10.5: 1e-5 of a probability is wide. */
static void check_probabilities(const mgpt_sampler *sampler, const double *p)
{
    double sum = 0;
    for (int i = 0; i < V; i++) {
        double found = mgpt_draw_prob(sampler, logits12, V, i);
        assert_true(fabs(found - p[i]) <= 1e-5 * p[i]);
        sum += found;
    }
    assert_true(fabs(sum - 1) < 1e-15 * V);
}

/* Pearson's chi-square must lie below the quantile that a correct sampler exceeds once in a million
 * seeds (z = 4.75; Wilson & Hilferty 1931). Impossible tokens must never be drawn. */
static void check_distribution(mgpt_sampler sampler)
{
    double p[V], chi = 0;
    int counts[V] = {0}, possible = 0;
    float logits[V];
    distribution(&sampler, logits12, V, p);
    memcpy(logits, logits12, sizeof logits);
    check_probabilities(&sampler, p);
    for (int i = 0; i < N_DRAWS; i++) {
        int32_t token = mgpt_sample(&sampler, logits, V);
        assert_in_range(token, 0, V - 1);
        counts[token]++;
    }
    assert_memory_equal(logits, logits12, sizeof logits);
    for (int i = 0; i < V; i++) {
        double expected = p[i] * N_DRAWS;
        if (expected == 0) {
            assert_int_equal(counts[i], 0);
            continue;
        }
        chi += (counts[i] - expected) * (counts[i] - expected) / expected;
        possible++;
    }
    if (possible == 1)
        return;
    double k = possible - 1, root = 1 - 2 / (9 * k) + 4.75 * sqrt(2 / (9 * k));
    if (chi > k * root * root * root)
        fail_msg("chi-square %g with %g degrees of freedom", chi, k);
}

TEST(single_filters)
{
    const float temperatures[] = {0.5f, 1.0f, 2.0f, 10.0f};
    const float ps[] = {0.0f, 1e-6f, 0.01f, 0.1f, 0.25f, 0.3f, 0.5f, 0.77f, 0.9f, 0.99f, 1.0f};
    for (uint64_t i = 0; i < COUNT(temperatures); i++)
        check_distribution((mgpt_sampler){.temperature = temperatures[i], .rng = i});
    for (int32_t k = 0; k <= V + 1; k++)
        check_distribution((mgpt_sampler){.temperature = 1.5f, .top_k = k, .rng = (uint64_t)k});
    for (uint64_t i = 0; i < COUNT(ps); i++) {
        check_distribution((mgpt_sampler){.temperature = 1.0f, .top_p = ps[i], .rng = i});
        check_distribution((mgpt_sampler){.temperature = 1.0f, .min_p = ps[i], .rng = i});
    }
}

/* Each filter works on what the one before left: top_p 0.5 of the whole keeps three tokens, of the
 * four that top-k leaves two. */
TEST(filters_in_order)
{
    const mgpt_sampler rows[] = {
        {.temperature = 1.0f, .top_k = 4, .top_p = 0.5f, .rng = 1},
        {.temperature = 0.8f, .top_k = 6, .min_p = 0.4f, .rng = 2},
        {.temperature = 1.2f, .top_p = 0.8f, .min_p = 0.2f, .rng = 3},
        {.temperature = 0.7f, .top_k = 8, .top_p = 0.9f, .min_p = 0.1f, .rng = 4}};
    for (size_t i = 0; i < COUNT(rows); i++)
        check_distribution(rows[i]);
}

/* ---- determinism ---- */

TEST(seed_fixes_the_sequence)
{
    mgpt_sampler a = {.temperature = 1.0f, .rng = 42}, b = a, c = a;
    int different = 0;
    c.rng = 43;
    for (int i = 0; i < 200; i++) {
        int32_t token = mgpt_sample(&a, logits12, V);
        assert_int_equal(token, mgpt_sample(&b, logits12, V));
        different += token != mgpt_sample(&c, logits12, V);
    }
    assert_true(a.rng == b.rng);
    assert_true(different > 0);
}

/* SplitMix64, top 53 bits, one number a token: two equal logits show the leading bit. */
TEST(rng_is_splitmix64)
{
    const float equal[2] = {1.0f, 1.0f};
    mgpt_sampler sampler = {.temperature = 1.0f, .rng = 0};
    uint64_t rng = 0;
    assert_true((toy_random(&rng), rng) == 0x9E3779B97F4A7C15u);
    rng = 0;
    for (int i = 0; i < 64; i++) {
        int32_t expected = toy_random(&rng) >> 63 ? 1 : 0;
        assert_int_equal(mgpt_sample(&sampler, equal, 2), expected);
        assert_true(sampler.rng == rng);
    }
}

static double fixed(void *user)
{
    return *(double *)user;
}

/* The draw goes through the tokens in order of id, as Python's random.choices does: the first whose
 * cumulative probability exceeds u. */
TEST(own_uniform_goes_by_token_id)
{
    const float logits[4] = {0.0f, 1.0f, -1.0f, 0.5f};
    double p[4], u, below = 0;
    mgpt_sampler sampler = {.temperature = 1.0f, .rng = 5, .uniform = fixed, .uniform_user = &u};
    distribution(&sampler, logits, 4, p);
    for (int32_t i = 0; i < 4; i++) {
        u = below + 1e-6; /* far above rounding errors of a cumulative sum of float64 or float32 */
        assert_int_equal(mgpt_sample(&sampler, logits, 4), i);
        u = below + p[i] - 1e-6;
        assert_int_equal(mgpt_sample(&sampler, logits, 4), i);
        below += p[i];
    }
    u = 0;
    assert_int_equal(mgpt_sample(&sampler, logits, 4), 0);
    u = 1 - 0x1p-53;
    assert_int_equal(mgpt_sample(&sampler, logits, 4), 3);
    assert_true(sampler.rng == 5);
    sampler.top_k = 2; /* leaves tokens 1 and 3 */
    u = 0;
    assert_int_equal(mgpt_sample(&sampler, logits, 4), 1);
    u = 1 - 0x1p-53;
    assert_int_equal(mgpt_sample(&sampler, logits, 4), 3);
}

/* A source that breaks its promise must not lead out of bounds. */
TEST(bad_uniform_stays_in_range)
{
    const double bad[] = {1.0, 2.0, -1.0, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < COUNT(bad); i++) {
        double u = bad[i];
        mgpt_sampler sampler = {.temperature = 1.0f, .uniform = fixed, .uniform_user = &u};
        int32_t token = mgpt_sample(&sampler, logits12, V);
        assert_true(token >= 0 && token < V);
    }
}

/* ---- greedy and the edges ---- */

static int32_t sample(mgpt_sampler sampler, const float *logits, size_t n)
{
    return mgpt_sample(&sampler, logits, n);
}

TEST(greedy_takes_the_lowest_id_of_ties)
{
    const float tied[5] = {1.0f, 3.0f, 3.0f, -2.0f, 3.0f}, zeros[3] = {-0.0f, 0.0f, 0.0f};
    const mgpt_sampler greedy = {0};
    assert_int_equal(sample(greedy, tied, 5), 1);
    assert_int_equal(sample(greedy, zeros, 3), 0);
    assert_int_equal(sample(greedy, logits12, V), 7);
    assert_int_equal(sample((mgpt_sampler){.temperature = -1.0f}, logits12, V), 7);
    assert_int_equal(sample((mgpt_sampler){.temperature = 0.0f, .top_k = 3}, logits12, V), 7);
}

/* With one token left there is nothing to choose, and ties at the edge of top-k go to the lowest
 * id. */
TEST(single_choices)
{
    const float tied[4] = {0.0f, 2.0f, 2.0f, 2.0f}, one[1] = {-5.0f};
    int drawn[4] = {0};
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_int_equal(sample((mgpt_sampler){.temperature = 1, .rng = seed}, one, 1), 0);
        assert_int_equal(
            sample((mgpt_sampler){.temperature = 1, .top_k = 1, .rng = seed}, logits12, V), 7);
        assert_int_equal(sample((mgpt_sampler){.temperature = 1, .top_k = 1, .rng = seed}, tied, 4),
                         1);
        drawn[sample((mgpt_sampler){.temperature = 1, .top_k = 2, .rng = seed}, tied, 4)]++;
        assert_int_equal(
            sample((mgpt_sampler){.temperature = 1, .top_p = 1e-9f, .rng = seed}, tied, 4), 1);
    }
    assert_true(drawn[0] == 0 && drawn[1] > 0 && drawn[2] > 0 && drawn[3] == 0);
}

TEST(extreme_temperatures)
{
    int seen[V] = {0};
    mgpt_sampler hot = {.temperature = 1e30f, .rng = 3}, cold = {.temperature = 1e-30f, .rng = 3};
    mgpt_sampler subnormal = {.temperature = 1e-44f, .rng = 3};
    mgpt_sampler infinite = {.temperature = INFINITY, .rng = 3};
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(mgpt_sample(&cold, logits12, V), 7);
        assert_int_equal(mgpt_sample(&subnormal, logits12, V), 7);
        seen[mgpt_sample(&hot, logits12, V)]++;
        int32_t token = mgpt_sample(&infinite, logits12, V);
        assert_true(token >= 0 && token < V);
    }
    for (int i = 0; i < V; i++) /* uniform: 83 expected, and 40 is 5 standard deviations below */
        assert_true(seen[i] > 40);
}

/* NaN counts as minus infinity, for greedy and for drawing. */
TEST(nan_is_never_chosen)
{
    const float logits[5] = {NAN, 0.0f, NAN, 0.0f, NAN};
    mgpt_sampler sampler = {.temperature = 1.0f, .rng = 9};
    int seen[5] = {0};
    assert_int_equal(sample((mgpt_sampler){0}, logits, 5), 1);
    for (int i = 0; i < 200; i++)
        seen[mgpt_sample(&sampler, logits, 5)]++;
    assert_int_equal(seen[0] + seen[2] + seen[4], 0);
    assert_true(seen[1] > 50 && seen[3] > 50);
    sampler.temperature = NAN; /* no meaning is promised, but a token in range */
    int32_t token = mgpt_sample(&sampler, logits, 5);
    assert_true(token >= 0 && token < 5);
}

/* A logit of minus infinity is a probability of zero at any temperature. */
TEST(masked_tokens_are_never_drawn)
{
    const float logits[5] = {-INFINITY, 0.0f, -INFINITY, 1.0f, -INFINITY};
    const float temperatures[] = {1e-44f, 1e-3f, 1.0f, 1e30f, 3e38f, INFINITY};
    for (size_t i = 0; i < COUNT(temperatures); i++) {
        mgpt_sampler sampler = {.temperature = temperatures[i], .rng = i};
        for (int j = 0; j < 100; j++) {
            sampler.top_k = j % 2 ? 4 : 0;
            sampler.top_p = j % 3 ? 0.99f : 0.0f;
            int32_t token = mgpt_sample(&sampler, logits, 5);
            assert_true(token == 1 || token == 3);
        }
    }
}

/* Plus infinity wins against everything finite; with several of them one of these is drawn. */
TEST(infinite_logits)
{
    const float one[4] = {0.0f, 1.0f, INFINITY, 2.0f};
    const float two[4] = {INFINITY, 1.0f, INFINITY, NAN};
    for (uint64_t seed = 0; seed < 50; seed++) {
        mgpt_sampler sampler = {.temperature = 0.5f, .rng = seed};
        assert_int_equal(sample(sampler, one, 4), 2);
        int32_t token = sample(sampler, two, 4);
        assert_true(token == 0 || token == 2);
        sampler.top_p = 0.9f;
        assert_int_equal(sample(sampler, one, 4), 2);
    }
    assert_int_equal(sample((mgpt_sampler){0}, two, 4), 0);
}

TEST(nothing_possible_stays_in_range)
{
    const float none[3] = {-INFINITY, -INFINITY, -INFINITY}, nan[3] = {NAN, NAN, NAN};
    const mgpt_sampler samplers[] = {{0},
                                     {.temperature = 1.0f, .rng = 1},
                                     {.temperature = 1.0f, .top_k = 2, .rng = 1},
                                     {.temperature = 1.0f, .top_p = 0.5f, .rng = 1},
                                     {.temperature = 1.0f, .min_p = 0.5f, .rng = 1}};
    for (size_t i = 0; i < COUNT(samplers); i++) {
        int32_t a = sample(samplers[i], none, 3), b = sample(samplers[i], nan, 3);
        assert_true(a >= 0 && a < 3);
        assert_true(b >= 0 && b < 3);
    }
}

/* With nothing to tell tokens apart, the lowest ids are what top-k and top-p keep, and all that is
 * left to chance is which of them. */
TEST(all_equal)
{
    enum { MANY = 1500 }; /* several chunks of the sampler */
    float equal[MANY];
    const float values[] = {0.0f, -3e38f, 3e38f, 1e-45f};
    for (uint64_t k = 0; k < 4; k++) {
        for (int i = 0; i < MANY; i++)
            equal[i] = values[k];
        assert_int_equal(sample((mgpt_sampler){0}, equal, MANY), 0);
        int beyond = 0;
        for (uint64_t seed = 0; seed < 200; seed++) {
            mgpt_sampler s = {.temperature = seed % 2 ? 1e-30f : 1e30f, .rng = seed};
            beyond += sample(s, equal, MANY) >= MANY / 2;
            s.min_p = 1; /* all are as likely as the likeliest */
            beyond += sample(s, equal, MANY) >= MANY / 2;
            s.top_k = 3;
            assert_in_range(sample(s, equal, MANY), 0, 2);
            s.top_p = 0.5f; /* two of three make up a half */
            assert_in_range(sample(s, equal, MANY), 0, 1);
            s.top_k = 0;
            s.top_p = 0.1f;
            assert_in_range(sample(s, equal, MANY), 0, MANY / 10);
        }
        assert_in_range(beyond, 150, 250); /* 400 tosses of a coin: 5 standard deviations */
    }
}

/* Every setting at and beyond its ends, on logits of every kind: a token that exists, and one that
 * has some probability if any has. */
TEST(every_corner)
{
    const float temperatures[] = {0, -1, 1e-30f, 1e-45f, 1, 1e30f, INFINITY, NAN};
    const int32_t ks[] = {INT32_MIN, -1, 0, 1, V, V + 1, INT32_MAX};
    const float ps[] = {-1, 0, 1e-45f, 0.5f, 1, 2, INFINITY, NAN};
    static const float kinds[][4] = {{1, 1, 1, 1},
                                     {NAN, NAN, 0, NAN},
                                     {-INFINITY, 3, -INFINITY, 3},
                                     {INFINITY, 0, INFINITY, NAN},
                                     {1e-45f, -1e-45f, 0, -0.0f},
                                     {3e38f, -3e38f, 3e38f, 0},
                                     {-INFINITY, NAN, -INFINITY, NAN}};
    float logits[V];
    uint64_t seed = 0;
    for (size_t kind = 0; kind < COUNT(kinds); kind++) {
        for (int i = 0; i < V; i++)
            logits[i] = kinds[kind][i % 4];
        for (size_t i = 0; i < 8 * 7 * 8 * 8; i++, seed++) {
            mgpt_sampler s = {.top_k = ks[i / 8 % 7], .min_p = ps[i / 448], .rng = seed};
            s.temperature = temperatures[i % 8];
            s.top_p = ps[i / 56 % 8];
            int32_t token = mgpt_sample(&s, logits, V);
            assert_in_range(token, 0, V - 1);
            if (kind < 6) /* the last kind has no probability at all */
                assert_true(logits[token] > -INFINITY);
        }
    }
}

TEST(wrong_arguments)
{
    mgpt_sampler sampler = {.temperature = 1.0f};
    assert_int_equal(mgpt_sample(NULL, logits12, V), MGPT_EARG);
    assert_int_equal(mgpt_sample(&sampler, NULL, V), MGPT_EARG);
    assert_int_equal(mgpt_sample(&sampler, logits12, 0), MGPT_EARG);
    assert_true(isnan(mgpt_draw_prob(NULL, logits12, V, 0)));
    assert_true(isnan(mgpt_draw_prob(&sampler, NULL, V, 0)));
    assert_true(isnan(mgpt_draw_prob(&sampler, logits12, V, V)));
    assert_true(isnan(mgpt_draw_prob(&sampler, logits12, V, -1)));
}

/* A vocabulary of real size, every filter, against the same distribution computed here. */
TEST(large_vocabulary)
{
    enum { LARGE = 50257 };
    float *logits = toy_alloc(LARGE, sizeof *logits);
    uint64_t rng = 11;
    for (size_t i = 0; i < LARGE; i++)
        logits[i] = (float)(toy_random(&rng) >> 40) * 0x1p-20f; /* 0 to 16, ties included */
    mgpt_candidate top[40];
    assert_int_equal(mgpt_top(logits, LARGE, top, 40), 40);
    mgpt_sampler sampler = {.temperature = 0.9f, .top_k = 40, .rng = 2};
    for (int i = 0; i < 100; i++) {
        int32_t token = mgpt_sample(&sampler, logits, LARGE);
        int found = 0;
        for (int j = 0; j < 40; j++)
            found |= top[j].token == token;
        assert_true(found);
    }
    double sum = 0, all = 0;
    for (int j = 0; j < 40; j++)
        sum += exp(((double)top[j].logit - (double)top[0].logit) / (double)sampler.temperature);
    for (int j = 0; j < 40; j++) {
        double p = exp(((double)top[j].logit - (double)top[0].logit) / (double)sampler.temperature);
        double found = mgpt_draw_prob(&sampler, logits, LARGE, top[j].token);
        assert_true(fabs(found - p / sum) <= 1e-5 * found);
        all += found;
    }
    assert_true(fabs(all - 1) < 1e-14);
    assert_true(mgpt_draw_prob(&sampler, logits, LARGE, 17) == 0);
    free(logits);
}

/* Compared with libm, whose error is below one unit in the last place, 2.2e-16. Ours is the
 * rounding of 14 steps of Horner's rule, of which only the last ones count, and of the reduction. */
TEST(sum_exp)
{
    for (float x = 0; x > -60; x -= 0.0173f) {
        double expected = exp((double)x), found = kernels_sample()->sum_exp(&x, 1, 0);
        assert_true(fabs(found - expected) <= 1e-15 * expected);
    }
}
