/* mgpt score's texts: each log-probability is that of the subject's logits, to the bit, whatever a
 * text shares its passes with; and a context that texts share runs once.
 */
#include "common/reader.h"
#include "score/score_texts.h"
#include "score/score_tree.h"

#include "support/place.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>
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
    size_t known = n < s->n ? n : s->n;
    assert_true(set->n < N_TEXTS && (n <= s->n || (n == s->n + 1 && last >= 0)));
    struct scored_text *text = &set->texts[set->n++];
    *text = (struct scored_text){.n_context = n_context, .n_scored = n_scored, .is_greedy = 1};
    text->tokens = malloc(n * sizeof *text->tokens);
    text->logprobs = malloc((n_scored + 1) * sizeof *text->logprobs);
    assert_true(text->tokens && text->logprobs);
    memcpy(text->tokens, s->tokens, known * sizeof *text->tokens);
    if (last >= 0)
        text->tokens[n - 1] = last;
}

/* The logits that predict scored token i. */
static const float *expected_row(const struct subject *s, const struct scored_text *text, size_t i)
{
    return s->logits + (text->n_context + i - 1) * s->n_vocab;
}

static void check_sums(const struct subject *s, const struct scored_text *text)
{
    double nll = 0;
    for (size_t i = 0; i < text->n_scored; i++) {
        double logprob =
            mgpt_logprob(expected_row(s, text, i), s->n_vocab, text->tokens[text->n_context + i]);
        assert_memory_equal(&text->logprobs[i], &logprob, sizeof logprob);
        nll -= logprob;
    }
    assert_memory_equal(&text->nll, &nll, sizeof nll);
}

static void check_text(const struct subject *s, const struct scored_text *text)
{
    int is_greedy = 1;
    check_sums(s, text);
    for (size_t i = 0; i < text->n_scored; i++)
        is_greedy &= mgpt_sample(&(mgpt_sampler){0}, expected_row(s, text, i), s->n_vocab) ==
                     text->tokens[text->n_context + i];
    assert_int_equal(text->is_greedy, is_greedy);
}

static int count_rows(const mgpt_value *v, void *n_rows)
{
    *(size_t *)n_rows += (size_t)v->rows;
    return 0;
}

/* Scores the set with nothing but sums and log-probabilities. */
static void score_sums(struct score_team *team, const struct subject *s, struct scored_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        set->texts[i].is_greedy = 0;
        set->texts[i].is_done = 0;
        for (size_t k = 0; k < set->texts[i].n_scored; k++)
            set->texts[i].logprobs[k] = 1;
    }
    assert_int_equal(score_texts(team, set->texts, set->n), EXIT_OK);
    for (size_t i = 0; i < set->n; i++) {
        assert_true(set->texts[i].is_done);
        check_sums(s, &set->texts[i]);
    }
}

/* Scores the set twice, in the sessions of score_walk.h or in passes over many rows; returns the number of tokens that
 * ran. Texts that a walk has scored need no pass for their sums: its tree has them. */
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
    size_t n_before = n_rows;
    score_sums(&team, s, set);
    assert_true(walks ? n_rows == n_before : n_rows > n_before);
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

/* The longest text there can be: the whole context, and a token that no pass needs. Of 63 tokens the arrays of a walk,
 * which are whole lines of 64 bytes, have no room to spare. */
TEST(longest_text)
{
    struct toy_spec spec = toy_zoo[ZOO_MICROGPT];
    spec.n_ctx = 63;
    struct subject s = subject_new(&spec, 900);
    struct scored_set set = {.n = 0};
    assert_int_equal(s.n, 63);
    for (size_t n_context = 1; n_context < 64; n_context += 31)
        add_scored(&set, &s, n_context, 64 - n_context, 1);
    score_set(&s, &set);
    subject_free(&s);
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

/* Texts with one context are several batches, so that each thread has some: none has many more rows than a pass. */
TEST(batches_of_one_context)
{
    enum { N = 1000, N_SCORED = 7 };
    static int32_t tokens[1 + N_SCORED];
    static struct scored_text texts[N];
    struct scored_text *order[N];
    size_t n_batches = 0, prefix;
    for (size_t i = 0; i < N; i++) {
        texts[i] = (struct scored_text){.tokens = tokens, .n_context = 1, .n_scored = N_SCORED};
        order[i] = &texts[i];
    }
    for (size_t i = 0, n; i < N; i += n, n_batches++) {
        n = score_batch_size(order + i, N - i, &prefix);
        assert_true(n > 0 && i + n <= N && n * N_SCORED < 1000);
    }
    assert_true(n_batches >= 8 && n_batches <= 12);
}

/* A tree finds each of many texts and no other; the texts that it lacks come first, in their order. When it is full it
 * has what it had. */
TEST(tree_of_many_texts)
{
    enum { N = 20000, LACKS = 10 };
    static int32_t tokens[N][3];
    static struct scored_text texts[N];
    static struct scored_text *order[N];
    struct score_tree tree = {.most = 100 + (N - N / LACKS) +
                                      1000}; /* edges of the first tokens, the second, some last */
    assert_int_equal(tree_score(&tree, order, N), N);
    for (int32_t i = 0; i < N; i++) {
        memcpy(tokens[i], (int32_t[]){i % 100, (i / 100) * (i / 100) * 19, 7}, sizeof tokens[i]);
        texts[i] = (struct scored_text){.tokens = tokens[i], .n_context = 1, .n_scored = 1};
        order[i] = &texts[i];
        if (i % LACKS)
            tree_add(&tree, &texts[i], (double[]){NAN, -i - 0.5});
    }
    size_t n_left = tree_score(&tree, order, N);
    assert_int_equal(n_left, N / LACKS);
    for (size_t i = 0; i < n_left; i++)
        assert_ptr_equal(order[i], &texts[LACKS * i]);
    for (int32_t i = 0; i < N; i++)
        assert_true(texts[i].is_done == (i % LACKS != 0) &&
                    texts[i].nll == (i % LACKS ? i + 0.5 : 0));
    for (int32_t i = 0; i < N; i++) {
        texts[i].n_scored = 2;
        order[i] = &texts[i];
        tree_add(&tree, &texts[i], (double[]){NAN, -i - 0.5, -2 * i});
    }
    assert_int_equal(tree.n, tree.most);
    n_left = tree_score(&tree, order, N);
    assert_true(n_left > N / 2 && n_left < N);
    tree_free(&tree);
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
 * session runs 20 tokens once for the three rounds, a fork of it the 20th again for its logits. */
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
    assert_int_equal(score_set(&s, &set), 20 + 3 * (1 + 3 + 2 + 4));
    subject_free(&s);
}

/* Lines of at most four bytes, their ends not counted. */
TEST_IN_PLACE(lines_that_just_fit)
{
    static const char text[] = "abcd\n\nabc\r\nwxyz\nabcd";
    static const char *const lines[] = {"abcd", "", "abc", "wxyz", "abcd"};
    struct text_reader r;
    const char *line;
    size_t n;
    put_file(place.path, text);
    for (size_t most = 3; most <= 4; most++) {
        assert_int_equal(reader_open(&r, place.path, NULL), MGPT_OK);
        assert_int_equal(r.n_all, sizeof text - 1);
        for (size_t i = 0; i < COUNT(lines) && most == 4; i++) {
            assert_int_equal(reader_line(&r, most, &line, &n, NULL), 1);
            assert_int_equal(n, strlen(lines[i]));
            assert_memory_equal(line, lines[i], n);
        }
        assert_int_equal(reader_line(&r, most, &line, &n, NULL), most == 4 ? 0 : MGPT_EFULL);
        reader_close(&r);
    }
}
