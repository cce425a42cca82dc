/* mgpt score's texts: each log-probability is that of the subject's logits, to the bit, whatever a
 * text shares its passes with; and a context that texts share runs once.
 */
#include "score/score_texts.h"

#include "support/toy_zoo.h"
#include "support/unit.h"

#include <stdlib.h>

enum { N_TEXTS = 150 }; /* more short ones than slots */

struct scored_set {
    struct scored_text texts[N_TEXTS];
    size_t n;
};

/* The subject's first n_context tokens and the n_scored after them, the last changed to `last`
 * unless it is negative. */
static void add_scored(struct scored_set *set, const struct subject *s, size_t n_context,
                       size_t n_scored, int32_t last)
{
    size_t n = n_context + n_scored;
    assert_true(set->n < N_TEXTS && n <= s->n);
    struct scored_text *text = &set->texts[set->n++];
    *text = (struct scored_text){.n_context = n_context, .n_scored = n_scored, .is_greedy = 1};
    text->tokens = malloc(n * sizeof *text->tokens);
    text->logprobs = malloc((n_scored + 1) * sizeof *text->logprobs);
    assert_true(text->tokens && text->logprobs);
    memcpy(text->tokens, s->tokens, n * sizeof *text->tokens);
    if (last >= 0)
        text->tokens[n - 1] = last;
}

static void check_text(const struct subject *s, const struct scored_text *text)
{
    double nll = 0;
    int is_greedy = 1;
    for (size_t i = 0; i < text->n_scored; i++) {
        const float *row = s->logits + (text->n_context + i - 1) * s->n_vocab;
        int32_t token = text->tokens[text->n_context + i];
        double logprob = mgpt_logprob(row, s->n_vocab, token);
        assert_memory_equal(&text->logprobs[i], &logprob, sizeof logprob);
        is_greedy &= mgpt_sample(&(mgpt_sampler){0}, row, s->n_vocab) == token;
        nll -= logprob;
    }
    assert_memory_equal(&text->nll, &nll, sizeof nll);
    assert_int_equal(text->is_greedy, is_greedy);
}

static int count_rows(const mgpt_value *v, void *n_rows)
{
    *(size_t *)n_rows += (size_t)v->rows;
    return 0;
}

/* Scores the set twice, in the sessions of score_walk.h or in passes over many rows; returns the number of tokens that
 * ran. */
static size_t score_by(const struct subject *s, struct scored_set *set, int walks)
{
    struct engine e = {.model = s->model, .check_finite = 1, .n_threads = 1};
    size_t n_rows = 0;
    assert_int_equal(mgpt_get_info(s->model, &e.info, NULL), MGPT_OK);
    assert_int_equal(engine_session(&e), EXIT_OK);
    e.info.bytes_per_token = walks ? 1 : UINT64_MAX;
    e.always = (struct watcher){MGPT_POINT_BIT(MGPT_EMBD), count_rows, &n_rows, NULL};
    struct score_team team = {.engine = &e};
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < set->n; i++)
            set->texts[i].is_greedy = 1;
        assert_int_equal(score_texts(&team, set->texts, set->n), EXIT_OK);
        assert_int_equal(team.walks[0] != NULL, walks);
        for (size_t i = 0; i < set->n; i++)
            check_text(s, &set->texts[i]);
    }
    score_close(&team);
    mgpt_session_free(e.session);
    return n_rows;
}

/* Scores the set both ways and frees it; returns the number of tokens that ran in passes. */
static size_t score_set(const struct subject *s, struct scored_set *set)
{
    score_by(s, set, 1);
    size_t n_rows = score_by(s, set, 0);
    for (size_t i = 0; i < set->n; i++) {
        free(set->texts[i].tokens);
        free(set->texts[i].logprobs);
    }
    return n_rows;
}

/* Contexts and continuations of every length, neighbours or not, short and long. */
TEST_ZOO(numbers_are_those_of_the_logits)
{
    static const size_t contexts[] = {1, 30, 2, 17, 5, 1, 40}, lengths[] = {1, 3, 17, 0, 20, 2};
    struct scored_set set = {.n = 0};
    for (size_t i = 0; i < N_TEXTS; i++) {
        size_t n_context = contexts[i % 7], n_scored = lengths[i % 6];
        n_context = n_context < s->n ? n_context : s->n - 1;
        n_scored = n_context + n_scored <= s->n ? n_scored : s->n - n_context;
        add_scored(&set, s, n_context, n_scored,
                   i % 3 && n_scored ? (int32_t)(i % s->n_vocab) : -1);
    }
    score_set(s, &set);
}

/* Scores n texts of 40 tokens and 4 after them, which part from the subject's at token 18, 21, ... */
static void score_parting(const struct subject *s, size_t first, size_t n, double *nll)
{
    struct engine e = {.model = s->model};
    struct scored_set set = {.n = 0};
    assert_int_equal(mgpt_get_info(s->model, &e.info, NULL), MGPT_OK);
    assert_int_equal(engine_session(&e), EXIT_OK);
    struct score_team team = {.engine = &e};
    for (size_t i = 0; i < n; i++) {
        add_scored(&set, s, 40, 4, -1);
        int32_t *token = &set.texts[i].tokens[18 + 3 * (first + i)];
        *token = (*token + 1) % (int32_t)s->n_vocab;
    }
    assert_int_equal(score_texts(&team, set.texts, n), EXIT_OK);
    for (size_t i = 0; i < n; i++) {
        nll[i] = set.texts[i].nll;
        free(set.texts[i].tokens);
        free(set.texts[i].logprobs);
    }
    score_close(&team);
    mgpt_session_free(e.session);
}

/* Contexts that begin alike share passes up to the token where they part, and no further. */
TEST(contexts_that_part)
{
    enum { N = 7 };
    struct subject s = subject_zoo(ZOO_LLAMA_DEEP);
    double together[N], alone;
    score_parting(&s, 0, N, together);
    for (size_t i = 0; i < N; i++) {
        score_parting(&s, i, 1, &alone);
        assert_memory_equal(&together[i], &alone, sizeof alone);
    }
    subject_free(&s);
}

/* A context of 20 tokens with three continuations, and one of 24 that begins like it: the engine's
 * session runs 20 tokens once for both rounds, a fork of it the 20th again for its logits. */
TEST(contexts_run_once)
{
    struct subject s = subject_zoo(ZOO_LLAMA_DEEP);
    struct scored_set set = {.n = 0};
    assert_true(s.n >= 30);
    add_scored(&set, &s, 24, 1, -1);
    add_scored(&set, &s, 20, 1, -1);
    add_scored(&set, &s, 20, 4, 1);
    add_scored(&set, &s, 24, 1, 2);
    add_scored(&set, &s, 20, 3, 1);
    assert_int_equal(score_set(&s, &set), 20 + 2 * (1 + 3 + 2 + 4));
    subject_free(&s);
}
