/* Tests of tools/patch/why.h: the metric of every coalition, and of the prompt without a token, has
 * the bits of a fresh session that is fed this prompt; Shapley values against all orders. */
#include "patch/why.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>

enum { N = 11, SEGMENTS = 7 };

/* The metric after the tokens of the prompt that are marked. */
static double value_of(const struct why *w, const uint8_t *marked)
{
    mgpt_session *s = mgpt_session_new(w->engine->model, NULL, NULL);
    float *none = calloc(w->metric->n_vocab, sizeof *none);
    for (size_t i = 0; i < w->n_prompt; i++)
        if (marked[i])
            assert_non_null(mgpt_step(s, w->prompt[i], NULL));
    double value = metric_value(w->metric, mgpt_pos(s) > 0 ? mgpt_logits(s) : none);
    mgpt_session_free(s);
    free(none);
    return value;
}

static void check_coalitions(const struct why *w)
{
    for (size_t set = 0; set < (size_t)1 << w->n_segments; set++) {
        uint8_t marked[N] = {0};
        memset(marked, 1, w->first[0]);
        for (size_t i = 0; i < w->n_segments; i++)
            memset(marked + w->first[i], (int)(set >> i & 1), w->first[i + 1] - w->first[i]);
        double want = value_of(w, marked);
        assert_memory_equal(&want, &w->coalitions[set], sizeof want);
    }
}

/* The mean over all orders, an order after the other. */
static void add_orders(const struct why *w, size_t set, double *sums, double *n_orders)
{
    for (size_t i = 0; i < w->n_segments; i++)
        if (!(set >> i & 1)) {
            double before = *n_orders,
                   change = w->coalitions[set | (size_t)1 << i] - w->coalitions[set];
            add_orders(w, set | (size_t)1 << i, sums, n_orders);
            sums[i] += change * (*n_orders - before);
        }
    *n_orders += set + 1 == (size_t)1 << w->n_segments;
}

static void check_shapley(const struct why *w)
{
    double sums[WHY_SEGMENTS] = {0}, n_orders = 0;
    add_orders(w, 0, sums, &n_orders);
    for (size_t i = 0; i < w->n_segments; i++)
        assert_true(fabs(w->shapley[i] - sums[i] / n_orders) < 1e-9);
}

static void check_why(const struct subject *s)
{
    mgpt_error err;
    struct engine e = {.model = s->model};
    struct metric metric = {.kind = METRIC_LOGPROB, .a = 1, .n_vocab = s->n_vocab};
    assert_int_equal(mgpt_get_info(s->model, &e.info, NULL), MGPT_OK);
    assert_int_equal(engine_session(&e), EXIT_OK);
    struct why w = {.engine = &e, .metric = &metric, .prompt = s->tokens, .n_prompt = N};
    assert_int_equal(mgpt_feed(e.session, s->tokens, N, NULL), MGPT_OK);
    assert_int_equal(why_cut(&w, s->tokens[0] == e.info.bos ? "1,2,5,6,8,9,10" : "0,2,5,6,8,9,10"),
                     EXIT_OK);
    assert_int_equal(w.n_segments, SEGMENTS);
    assert_int_equal(why_tokens(&w, &err), MGPT_OK);
    assert_int_equal(why_segments(&w, &err), MGPT_OK);
    for (size_t i = 0; i < N; i++) {
        uint8_t marked[N];
        memset(marked, 1, N);
        marked[i] = 0;
        double want = value_of(&w, marked);
        assert_memory_equal(&want, &w.tokens[i], sizeof want);
    }
    check_coalitions(&w);
    check_shapley(&w);
    why_free(&w);
    mgpt_session_free(e.session);
}

TEST(each_prompt_is_run)
{
    subject_each(check_why);
}
