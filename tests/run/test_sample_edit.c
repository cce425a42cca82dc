/* mgpt_sampler.edit: draws from a changed copy of the logits are those from the changed logits. */
#include "mgpt.h"
#include "support/unit.h"

#include <math.h>

enum { V = 12 };

static const float logits12[V] = {0.5f, -1.25f, 2.0f,  1.5f,  -3.0f, 0.0f,
                                  1.0f, 2.25f,  -0.5f, 0.75f, -2.0f, 1.25f};
/* Token 7 cannot be drawn; the first token of the text gets 1 more. */
static void edit_two(float *logits, size_t n, const int32_t *tokens, size_t n_tokens, void *user)
{
    ++*(int *)user;
    assert_true(n == V && n_tokens == 2 && tokens[1] == 9);
    logits[7] = -INFINITY;
    logits[tokens[0]] += 1;
}

/* An edit changes a copy: the draws are those of the changed logits. */
TEST(edits_of_a_copy)
{
    float logits[V], changed[V], copy[V];
    const int32_t text[2] = {3, 9};
    int n_calls = 0;
    memcpy(logits, logits12, sizeof logits);
    memcpy(changed, logits12, sizeof changed);
    changed[7] = -INFINITY;
    changed[3] += 1;
    for (int k = 0; k < 4; k++) {
        mgpt_sampler plain = {.temperature = (float)k * 0.5f, .top_k = k == 3 ? 5 : 0, .rng = 11};
        mgpt_sampler edited = plain;
        edited.edit = edit_two;
        edited.edit_user = &n_calls;
        edited.copy = copy;
        edited.tokens = text;
        edited.n_tokens = 2;
        uint64_t rng[2][3] = {{1, 2, 3}, {1, 2, 3}};
        int32_t many[2][3];
        for (int i = 0; i < 50; i++) {
            int32_t token = mgpt_sample(&plain, changed, V);
            assert_int_equal(mgpt_sample(&edited, logits, V), token);
            assert_true(mgpt_draw_prob(&edited, logits, V, token) ==
                        mgpt_draw_prob(&plain, changed, V, token));
        }
        assert_true(mgpt_draw_prob(&edited, logits, V, 7) == 0);
        assert_int_equal(mgpt_sample_many(&plain, rng[0], 3, changed, V, many[0]), MGPT_OK);
        n_calls = 0;
        assert_int_equal(mgpt_sample_many(&edited, rng[1], 3, logits, V, many[1]), MGPT_OK);
        assert_int_equal(n_calls, 1);
        assert_memory_equal(many[0], many[1], sizeof many[0]);
        assert_memory_equal(rng[0], rng[1], sizeof rng[0]);
    }
    assert_memory_equal(logits, logits12, sizeof logits);
}

TEST(edit_without_a_copy)
{
    int n_calls = 0;
    uint64_t rng = 1;
    int32_t token;
    mgpt_sampler s = {.edit = edit_two, .edit_user = &n_calls};
    assert_int_equal(mgpt_sample(&s, logits12, V), MGPT_EARG);
    assert_int_equal(mgpt_sample_many(&s, &rng, 1, logits12, V, &token), MGPT_EARG);
    assert_true(isnan(mgpt_draw_prob(&s, logits12, V, 1)));
    assert_int_equal(n_calls, 0);
}
