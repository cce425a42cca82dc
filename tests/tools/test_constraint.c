/* --regex and --heal in a vocabulary that drops the space before a text, as SentencePiece's do, and whose end token has a
 * text. */
#include "base/mem.h"
#include "choose/chooser.h"
#include "support/tok_file.h"
#include "support/unit.h"

#include <math.h>

enum { BOS = 1, SPACE_A = 3, B = 4, END = 5, N_TOKENS = 7 };

struct constraint_test {
    struct tok_file file;
    mgpt_model *model;
    struct edit_rules rules;
    struct chooser chooser;
    int32_t history[8]; /* the first token is not drawn */
};

/* <unk>, <s>, </s>, a with a space before it (U+2581), b, what ends a text: ab with a space, and bb. */
static void open_test(struct constraint_test *t)
{
    const mgpt_model_params params = {.vocab_only = 1};
    *t = (struct constraint_test){.history = {BOS}};
    tok_file_begin(&t->file, "llama", NULL);
    tok_file_sentencepiece(&t->file, 0);
    tok_file_token(&t->file, "\xe2\x96\x81\x61", 1, 0);
    tok_file_token(&t->file, "b", 1, 0);
    tok_file_token(&t->file, "\xe2\x96\x81\x61\x62", 1, 0);
    tok_file_token(&t->file, "bb", 1, 0);
    tok_file_edit(&t->file, "u32 bos_token_id 1; u32 eos_token_id 5");
    tok_file_encode(&t->file);
    t->model = mgpt_open_bytes(t->file.bytes, t->file.g.size, &params, NULL);
    assert_non_null(t->model);
    edit_rules_begin(&t->rules, t->model);
}

static void close_test(struct constraint_test *t)
{
    chooser_close(&t->chooser);
    edit_rules_free(&t->rules);
    mgpt_close(t->model);
    tok_file_free(&t->file);
}

static void set_regex(struct constraint_test *t, const char *regex)
{
    mgpt_error err;
    if (edit_rules_set(&t->rules, EDIT_REGEX, regex, &err) < 0)
        fail_msg("%s: %s", regex, err.text);
    assert_int_equal(chooser_open(&t->chooser, &t->rules, NULL), MGPT_OK);
    chooser_begin(&t->chooser, 1, 0);
}

/* Returns 1 if the token may be drawn after n tokens of the history. */
static int may_draw(struct constraint_test *t, size_t n, int32_t token)
{
    float logits[N_TOKENS] = {0};
    mgpt_sampler sampler = {.temperature = 1};
    assert_int_equal(chooser_prepare(&t->chooser, &sampler, t->history, n, NULL), MGPT_OK);
    sampler.edit(logits, N_TOKENS, sampler.tokens, n, sampler.edit_user);
    return logits[token] > -INFINITY;
}

/* What may begin a text is not what may go on with one. */
TEST(first_tokens_without_their_space)
{
    struct constraint_test t;
    open_test(&t);
    set_regex(&t, "( a)?b?");
    assert_false(may_draw(&t, 1, SPACE_A));
    assert_true(may_draw(&t, 1, B));
    set_regex(&t, "ab?|b ab");
    assert_true(may_draw(&t, 1, SPACE_A));
    t.history[1] = B;
    assert_true(may_draw(&t, 2, SPACE_A));
    set_regex(&t, "ab?|bab");
    assert_false(may_draw(&t, 2, SPACE_A));
    close_test(&t);
}

/* A text that matches is complete when no token may go on with it, here and at the beginning. */
TEST(complete_texts)
{
    struct constraint_test t;
    open_test(&t);
    set_regex(&t, "( a)?");
    assert_true(chooser_is_complete(&t.chooser, t.history, 1)); /* the only token writes a */
    set_regex(&t, "( a|a)?");
    assert_false(chooser_is_complete(&t.chooser, t.history, 1));
    set_regex(&t, "ab?");
    t.history[1] = SPACE_A;
    assert_false(chooser_is_complete(&t.chooser, t.history, 2)); /* one token may follow */
    t.history[2] = B;
    assert_true(chooser_is_complete(&t.chooser, t.history, 3));
    close_test(&t);
}

/* How much of a prompt of two tokens is drawn again. */
static void check_heal(const struct constraint_test *t, const int32_t *prompt, size_t n_bytes,
                       size_t n_kept)
{
    struct heal h = {.next = -1};
    assert_int_equal(heal_open(&h, t->model, prompt, 2, NULL), MGPT_OK);
    assert_int_equal(h.n_bytes, n_bytes);
    assert_int_equal(h.n_kept, n_kept);
    heal_close(&h);
}

/* What ends a text continues none: it is not drawn for its bytes, and no prompt goes back for it. */
TEST(end_tokens_with_bytes)
{
    struct constraint_test t;
    open_test(&t);
    set_regex(&t, "ab[b]");
    assert_false(may_draw(&t, 1, END));
    check_heal(&t, (const int32_t[]){BOS, SPACE_A}, 0, 2);
    close_test(&t);
}

/* bb can go over each border of bb: the prompt's first token stays all the same. */
TEST(one_token_is_kept)
{
    struct constraint_test t;
    open_test(&t);
    check_heal(&t, (const int32_t[]){B, B}, 1, 1);
    close_test(&t);
}

/* What is left out at the limit of paths is the least likely. */
TEST(likeliest_paths_first)
{
    struct constraint_test t;
    struct heal h = {.next = -1};
    double before = 0;
    int n_paths = 0;
    open_test(&t);
    const int32_t prompt[] = {B, B, B, B, B, B, B, B};
    assert_int_equal(heal_open(&h, t.model, prompt, 8, NULL), MGPT_OK);
    assert_int_equal(h.n_bytes, 7);
    for (; heal_next(&h) >= 0; n_paths++) {
        const struct heal_node *k = &h.nodes[h.next];
        float logits[N_TOKENS] = {[B] = 0.4F * (float)(n_paths % 3), [N_TOKENS - 1] = 0.5F};
        assert_true(k->logprob <= before);
        before = k->logprob;
        assert_int_equal(heal_learn(&h, logits, N_TOKENS, NULL), MGPT_OK);
    }
    assert_true(n_paths > 20); /* of the 33 that write a part of 7 bytes with b and bb */
    heal_close(&h);
    close_test(&t);
}

/* At most 64 bytes are drawn again, and at most 1000 paths are run. */
TEST(heal_is_bounded)
{
    struct constraint_test t;
    struct heal h = {.next = -1};
    int32_t prompt[90];
    int n_paths = 0;
    open_test(&t);
    for (size_t i = 0; i < COUNT(prompt); i++)
        prompt[i] = B;
    assert_int_equal(heal_open(&h, t.model, prompt, COUNT(prompt), NULL), MGPT_OK);
    assert_int_equal(h.n_bytes, 64);
    assert_int_equal(h.n_kept, COUNT(prompt) - 64);
    for (; heal_next(&h) >= 0; n_paths++) {
        const float logits[N_TOKENS] = {0};
        assert_in_range(n_paths, 0, 1000);
        assert_int_equal(heal_learn(&h, logits, N_TOKENS, NULL), MGPT_OK);
    }
    assert_int_equal(n_paths, 1000);
    heal_close(&h);
    close_test(&t);
}
