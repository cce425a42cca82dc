/* Draws from a few logits, which one kernel makes in one go: against the path for many logits,
 * token for token, and on every ISA level against the specification's weights. Many draws from the
 * same logits. */
#include "kernels/kernels.h"
#include "mgpt.h"
#include "support/build_model.h"
#include "support/unit.h"

#include <float.h>
#include <math.h>

enum { MANY = SAMPLE_FEW + 9 };

/* Logits, some of them NaN, infinite or subnormal; after the n-th none can be drawn. */
static void odd_logits(float *logits, size_t n, uint64_t *rng)
{
    const float odd[] = {NAN, -INFINITY, -FLT_MAX, -0.0f, 0.0f, 1e-40f, 3e38f, INFINITY};
    uint64_t kinds = toy_random(rng) % 4 == 0 ? 1 + toy_random(rng) % 8 : 0;
    for (size_t i = 0; i < MANY; i++) {
        logits[i] = (float)(toy_random(rng) >> 40) * 0x1p-20f;
        if (kinds && toy_random(rng) % 3 == 0)
            logits[i] = odd[toy_random(rng) % kinds];
        if (i >= n)
            logits[i] = -INFINITY;
    }
}

/* A few logits are drawn from in one go; the path for many must give the same token. */
TEST(few_as_many)
{
    uint64_t rng = 5;
    float logits[MANY];
    for (uint64_t i = 0; i < 20000; i++) {
        size_t n = 1 + i % SAMPLE_FEW;
        odd_logits(logits, n, &rng);
        const float temperatures[] = {1.0f, 0.5f, 3.0f, 1e-3f, 1e-45f, 1e38f, INFINITY};
        mgpt_sampler few = {.temperature = temperatures[i % 7], .rng = i}, many;
        few.min_p = i % 3 ? 0.0f : (float)(i % 11) * 0.125f;
        many = few;
        int32_t token = mgpt_sample(&few, logits, n);
        assert_true(token >= 0 && (size_t)token < n);
        assert_int_equal(token, mgpt_sample(&many, logits, MANY));
        assert_true(few.rng == many.rng);
    }
}

/* ... and on every ISA level, whose weights are those of the specification. */
TEST(few_on_every_isa_level)
{
    struct kernels k;
    float logits[MANY];
    int runs_here;
    for (size_t r = 0; kernels_isa_level(r, &runs_here); r++) {
        uint64_t rng = 6;
        if (!runs_here)
            continue;
        assert_true(kernels_init(&k, kernels_isa_level(r, &runs_here)));
        for (size_t i = 0; i < 5000; i++) {
            uint64_t w[MANY + PANEL], own[MANY + PANEL], total, sum = 0;
            size_t n = 1 + i % SAMPLE_FEW, token = 0;
            float by = 0.25f * (float)(i % 9), least = i % 5 ? 0.0f : 0.25f;
            double u = (double)(toy_random(&rng) >> 11) * 0x1p-53;
            u = i % 7 ? u : (double)(i % 2) * (1 - 0x1p-53);
            odd_logits(logits, n, &rng);
            float max = sample_kernels_scalar.biggest(logits, n);
            assert_true(k.sample->biggest(logits, n) == max);
            total = sample_kernels_scalar.weigh(w, logits, n, max, by, least);
            assert_true(k.sample->weigh(own, logits, n, max, by, least) == total);
            assert_memory_equal(own, w, n * sizeof *w);
            while (total > 0 && (sum += w[token]) <= (uint64_t)(u * (double)total))
                token++;
            assert_int_equal(k.sample->few(logits, n, by, least, u), token);
        }
    }
}

/* Logits that have no largest have no weight: the first token, however many fill whole panels. */
TEST(no_weight)
{
    float logits[SAMPLE_FEW];
    int runs;
    for (size_t i = 0; i < SAMPLE_FEW; i++)
        logits[i] = NAN;
    for (size_t r = 0; kernels_isa_level(r, &runs) != NULL; r++) {
        struct kernels k;
        if (!runs || !kernels_init(&k, kernels_isa_level(r, &runs)))
            continue;
        for (size_t n = 1; n <= SAMPLE_FEW; n++)
            assert_int_equal(k.sample->few(logits, n, 1, 0, 0.5), 0);
    }
}

/* Sizes about those where the sampler changes its method. */
TEST(many_draws_are_single_draws)
{
    enum { DRAWS = 20, MOST = 140000 };
    const size_t sizes[] = {1, 27, 64, 65, 512, 513, 5000, MOST};
    const mgpt_sampler settings[] = {{.temperature = 1},
                                     {.temperature = 0},
                                     {.temperature = 0.7f, .top_k = 9},
                                     {.temperature = 2, .top_p = 0.5f},
                                     {.temperature = 1, .top_k = 40, .top_p = 0.9f, .min_p = 0.1f}};
    float *logits = toy_alloc(MOST, sizeof *logits);
    uint64_t seed = 5;
    for (size_t i = 0; i < MOST; i++)
        logits[i] = (float)(toy_random(&seed) >> 44) * 0x1p-17f; /* 0 to 8, ties included */
    logits[3] = NAN;
    for (size_t k = 0; k < COUNT(sizes) * COUNT(settings); k++) {
        size_t n = sizes[k / COUNT(settings)];
        mgpt_sampler s = settings[k % COUNT(settings)];
        uint64_t rng[DRAWS];
        int32_t tokens[DRAWS];
        for (size_t count = 1; count <= DRAWS; count += DRAWS - 1) {
            for (uint64_t i = 0; i < DRAWS; i++)
                rng[i] = i * i;
            assert_int_equal(mgpt_sample_many(&s, rng, count, logits, n, tokens), MGPT_OK);
            for (uint64_t i = 0; i < count; i++) {
                s.rng = i * i;
                assert_int_equal(tokens[i], mgpt_sample(&s, logits, n));
                assert_true(rng[i] == s.rng);
            }
            s.rng = 0;
        }
    }
    free(logits);
}

static double no_number(void *user)
{
    (void)user;
    return 0;
}

TEST(many_draws_need_all_arguments)
{
    const float logits[3] = {1, 2, 3};
    mgpt_sampler sampler = {.temperature = 1.0f};
    uint64_t rng[1] = {0};
    int32_t token[1];
    assert_int_equal(mgpt_sample_many(NULL, rng, 1, logits, 3, token), MGPT_EARG);
    assert_int_equal(mgpt_sample_many(&sampler, NULL, 1, logits, 3, token), MGPT_EARG);
    assert_int_equal(mgpt_sample_many(&sampler, rng, 1, NULL, 3, token), MGPT_EARG);
    assert_int_equal(mgpt_sample_many(&sampler, rng, 1, logits, 3, NULL), MGPT_EARG);
    assert_int_equal(mgpt_sample_many(&sampler, rng, 1, logits, 0, token), MGPT_EARG);
    sampler.uniform = no_number;
    assert_int_equal(mgpt_sample_many(&sampler, rng, 1, logits, 3, token), MGPT_EARG);
}
