/* Proposals of a draft: what the sampler would draw from the draft's logits, of the end of the text
 * when its context is short, and fewer and fewer while none is right. That they change no byte is
 * tested in tests/cli/samples.sh. */

#include "generate/speculate.h"
#include "support/unit.h"

enum { CAP = 6, BOS = 26 };

static struct engine target;
static struct draft draft;

static int open_both(void **state)
{
    (void)state;
    static char names[4096];
    snprintf(names, sizeof names, "%s/weights/names.gguf", getenv("MGPT_SOURCE_ROOT"));
    target = (struct engine){.path = names};
    draft = (struct draft){.engine = {.path = names}};
    assert_int_equal(engine_open(&target), EXIT_OK);
    assert_int_equal(engine_session(&target), EXIT_OK);
    assert_int_equal(draft_open(&draft, &target), EXIT_OK);
    draft.costs = (struct draft_costs){1e-9, 1e-9}; /* next to nothing: as many as there is room */
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    draft_close(&draft);
    engine_close(&target);
    return 0;
}

/* The draft is the target: what it proposes after n tokens is what the sampler draws there, from
 * the logits after the last `seen` tokens. Returns how many were proposed. */
static size_t check_proposal(const int32_t *text, size_t n, size_t seen, mgpt_sampler sampler)
{
    int32_t got[CAP];
    mgpt_sampler before = sampler;
    size_t n_got = draft_propose(&draft, text, n, &sampler, got, CAP);
    assert_memory_equal(&sampler, &before, sizeof sampler);
    assert_int_equal(mgpt_sync(target.session, text + n - seen, seen, NULL), MGPT_OK);
    for (size_t i = 0; i < n_got; i++) {
        const float *logits = mgpt_logits(target.session);
        assert_int_equal(got[i], mgpt_sample(&sampler, logits, engine_n_choices(&target)));
        assert_int_not_equal(got[i], BOS); /* it ends the text: no row for it */
        mgpt_step(target.session, got[i], NULL);
    }
    return n_got;
}

TEST_WITH(draws_as_the_sampler, open_both, close_both)
{
    const int32_t text[] = {BOS, 0, 13, 13, 0, 1, 4};
    size_t n_proposed = 0;
    for (uint64_t seed = 0; seed < 20; seed++)
        for (size_t n = 1; n <= COUNT(text); n++)
            n_proposed +=
                check_proposal(text, n, n, (mgpt_sampler){.temperature = 0.7f, .rng = seed});
    assert_true(n_proposed > 200);
    struct rng_python python;
    rng_python_seed(&python, 42);
    mgpt_sampler sampler = {
        .temperature = 0.5f, .uniform = rng_python_uniform, .uniform_user = &python};
    assert_true(check_proposal(text, 3, 3, sampler) > 0);
    assert_int_equal(draft_propose(&draft, text, 3, &sampler, NULL, 0), 0);
}

/* Its context of 16 positions is full: it goes on with the last 8 tokens, until they are 16. */
TEST_WITH(sees_the_end_of_a_long_text, open_both, close_both)
{
    int32_t text[100];
    for (size_t i = 0; i < COUNT(text); i++)
        text[i] = (int32_t)(i * i % 26);
    mgpt_sampler greedy = {0};
    assert_true(check_proposal(text, 80, 8, greedy) > 0);
    for (size_t n = 81; n <= 88; n++)
        check_proposal(text, n, n - 72, greedy);
    check_proposal(text, 89, 8, greedy);
    check_proposal(text, 3, 3, greedy); /* the text begins anew */
}

/* Proposals that are wrong become rare, but not for good; when they are right they come back. */
TEST_WITH(rests_while_nothing_is_right, open_both, close_both)
{
    const int32_t text[] = {BOS, 0, 13};
    const mgpt_sampler greedy = {0};
    int32_t got[CAP];
    size_t tries = 0, calls = 0;
    draft.costs = (struct draft_costs){0.1, 0.05};
    for (; calls < 4000; calls++) {
        size_t n = draft_propose(&draft, text, COUNT(text), &greedy, got, CAP);
        tries += n > 0;
        draft_learn(&draft, 0);
    }
    assert_in_range(tries, 5, 60);
    for (calls = 0; draft_propose(&draft, text, COUNT(text), &greedy, got, CAP) < 2; calls++) {
        draft_learn(&draft, draft.n);
        assert_true(calls < 3000);
    }
}

/* The draft is right, and costs nothing: two passes do for a name, with the logits of all steps. */
TEST_WITH(a_pass_for_many_tokens, open_both, close_both)
{
    struct speculation s;
    mgpt_error err;
    mgpt_sampler sampler = {.temperature = 0.5f, .rng = 8};
    int32_t token = BOS;
    mgpt_session *plain = mgpt_session_new(target.model, NULL, NULL);
    assert_int_equal(speculate_open(&s, &target, 0, &draft, &err), MGPT_OK);
    draft.engine.info.bytes_per_token = 0;
    s.times.row = s.times.usual = 1e-9;
    speculate_begin(&s);
    do {
        const float *logits = speculate_step(&s, token, &sampler, 15 - s.pos, &err);
        const float *want = mgpt_step(plain, token, NULL);
        assert_memory_equal(logits, want, s.n_vocab * sizeof *want);
        assert_int_equal(speculate_pos(&s), mgpt_pos(plain));
        token = mgpt_sample(&sampler, logits, engine_n_choices(&target));
    } while (token != BOS);
    assert_true(s.n_steps >= 5);
    assert_int_equal(s.n_right, s.n_proposed);
    assert_in_range(s.n_passes, 1, 2);
    speculate_close(&s);
    mgpt_session_free(plain);
}
