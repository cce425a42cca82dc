/* Edits of logits: against golden vectors (vectors/edits.py), and what a text that goes back does. */
#include "choose/chooser.h"
#include "support/unit.h"

#include <math.h>

enum { MOST = 128 };

struct choose_test {
    mgpt_model *model;
    struct edit_rules rules;
    struct chooser chooser;
    int32_t history[MOST];
    size_t n_history, n_cases, n_all;
    float logits[MOST];
};

static void open_test(struct choose_test *t)
{
    mgpt_model_params params = {.vocab_only = 1};
    *t = (struct choose_test){.model = mgpt_open(unit_path("weights/names.gguf"), &params, NULL)};
    assert_non_null(t->model);
    edit_rules_begin(&t->rules, t->model);
}

static void close_test(struct choose_test *t)
{
    chooser_close(&t->chooser);
    edit_rules_free(&t->rules);
    mgpt_close(t->model);
}

static void set(struct choose_test *t, const char *name, const char *text)
{
    mgpt_error err;
    enum edit_id id = edit_setting_named(name);
    assert_int_not_equal(id, EDIT_N);
    if (edit_rules_set(&t->rules, id, text, &err) < 0)
        fail_msg("%s %s: %s", name, text, err.text);
}

/* ---- golden vectors ---- */

static size_t read_floats(const char *line, float *to)
{
    size_t n = 0;
    char *end;
    for (float x = strtof(line, &end); end != line; x = strtof(line = end, &end))
        to[n++] = x;
    return n;
}

static size_t ids_of_line(const char *line, int32_t *to)
{
    float x[MOST];
    size_t n = read_floats(line, x);
    for (size_t i = 0; i < n; i++)
        to[i] = (int32_t)x[i];
    return n;
}

/* As tools draw: XTC's coin has said yes, Mirostat begins at 2 TAU, the temperature is 0.8. */
static void check_case(struct choose_test *t, const char *expected_line)
{
    float expected[MOST], found[MOST];
    mgpt_sampler sampler = {.temperature = 0.8f};
    size_t n = read_floats(expected_line, expected);
    assert_int_equal(n, t->rules.n_tokens);
    assert_int_equal(chooser_open(&t->chooser, &t->rules, NULL), MGPT_OK);
    chooser_begin(&t->chooser, 0, 0);
    assert_int_equal(chooser_prepare(&t->chooser, &sampler, t->history, t->n_history, NULL),
                     MGPT_OK);
    t->chooser.drops = 1;
    memcpy(found, t->logits, sizeof found);
    if (sampler.edit)
        sampler.edit(found, n, sampler.tokens, sampler.n_tokens, sampler.edit_user);
    for (size_t i = 0; i < n; i++)
        if (!(found[i] == expected[i] ||
              fabsf(found[i] - expected[i]) <= 1e-5f * (1 + fabsf(expected[i]))))
            fail_msg("case %zu, token %zu: %g, expected %g", t->n_cases, i, (double)found[i],
                     (double)expected[i]);
    t->n_cases++;
    t->n_all += sampler.edit != NULL;
    for (int id = 0; id < EDIT_N; id++)
        edit_rules_clear(&t->rules, (enum edit_id)id);
}

static void read_row(char *line, void *user)
{
    struct choose_test *t = user;
    char *rest = strchr(line, ' '), *value;
    if (rest)
        *rest++ = 0;
    rest = rest ? rest : line + strlen(line);
    int32_t breaks[MOST];
    if (strcmp(line, "set") == 0) {
        value = strchr(rest, ' ');
        *value++ = 0;
        set(t, rest, value);
    } else if (strcmp(line, "breaks") == 0) {
        size_t n = ids_of_line(rest, breaks);
        for (size_t i = 0; t->rules.breaks && i < t->rules.n_tokens; i++)
            t->rules.breaks[i] = 0;
        for (size_t i = 0; i < n; i++)
            t->rules.breaks[breaks[i]] = 1;
    } else if (strcmp(line, "history") == 0) {
        t->n_history = ids_of_line(rest, t->history);
    } else if (strcmp(line, "logits") == 0) {
        read_floats(rest, t->logits);
    } else {
        check_case(t, rest);
    }
}

TEST(golden_vectors)
{
    struct choose_test t;
    open_test(&t);
    unit_rows("tests/vectors/edits.txt", read_row, &t);
    assert_true(t.n_cases > 80 && t.n_all > 70);
    close_test(&t);
}

/* ---- banned texts ---- */

/* 'a' 'n' 'n' 'a' after a prompt of one token. */
TEST(banned_texts)
{
    struct choose_test t;
    const int32_t anna[] = {26, 0, 13, 13, 0};
    float logits[MOST] = {0};
    mgpt_sampler sampler = {.temperature = 0};
    mgpt_error err;
    open_test(&t);
    set(&t, "ban", "nn");
    set(&t, "ban", "\\x61nn");
    assert_int_equal(chooser_open(&t.chooser, &t.rules, NULL), MGPT_OK);
    chooser_begin(&t.chooser, 1, 0);
    assert_int_equal(chooser_back(&t.chooser, anna, 2, NULL), 2);
    assert_int_equal(chooser_final(&t.chooser, anna, 2), 1);
    assert_int_equal(chooser_back(&t.chooser, anna, 3, NULL), 3);
    assert_int_equal(chooser_final(&t.chooser, anna, 3), 1);
    assert_int_equal(chooser_back(&t.chooser, anna, 4, NULL), 2); /* the first that is banned: nn */
    /* n is banned at 2, and there only. */
    logits[13] = 2;
    logits[5] = 1;
    assert_int_equal(chooser_draw(&t.chooser, &sampler, logits, 27, anna, 2, &err), 5);
    assert_int_equal(chooser_draw(&t.chooser, &sampler, logits, 27, anna, 3, &err), 13);
    assert_int_equal(chooser_draw(&t.chooser, &sampler, logits, 27, anna, 1, &err), 13);
    /* Going back further forgets it. */
    const int32_t bnn[] = {26, 13, 13};
    assert_int_equal(chooser_back(&t.chooser, bnn, 3, NULL), 1);
    assert_int_equal(chooser_draw(&t.chooser, &sampler, logits, 27, anna, 2, &err), 13);
    assert_int_equal(chooser_draw(&t.chooser, &sampler, logits, 27, anna, 1, &err), 5);
    chooser_begin(&t.chooser, 1, 0);
    assert_int_equal(chooser_draw(&t.chooser, &sampler, logits, 27, anna, 1, &err), 13);
    /* A text that was not drawn does not count. */
    chooser_begin(&t.chooser, 3, 0);
    assert_int_equal(chooser_back(&t.chooser, anna, 4, NULL), 4);
    set(&t, "ban", "n");
    assert_int_equal(chooser_back(&t.chooser, anna, 3, NULL), 3);
    assert_int_equal(chooser_final(&t.chooser, anna, 3), 3);
    assert_int_equal(chooser_back(&t.chooser, anna, 4, NULL), 3);
    close_test(&t);
}

/* What Mirostat has learnt of draws that are taken back is forgotten: with the same random numbers they come again. */
TEST(mirostat_goes_back)
{
    struct choose_test t;
    float logits[27];
    mgpt_sampler sampler = {.temperature = 1, .rng = 3};
    mgpt_error err;
    open_test(&t);
    set(&t, "mirostat", "2:3:0.5");
    assert_int_equal(chooser_open(&t.chooser, &t.rules, NULL), MGPT_OK);
    chooser_begin(&t.chooser, 1, 0);
    double mus[5];
    uint64_t states[5];
    for (size_t n = 1; n < 9; n++) {
        size_t at = n < 5 ? n : n - 4; /* four draws, and again from the first on */
        for (int i = 0; i < 27; i++)
            logits[i] = (float)((i * 7 + (int)at * 5) % 11) / 3;
        if (n < 5)
            states[at] = sampler.rng;
        else
            sampler.rng = states[at];
        int32_t token = chooser_draw(&t.chooser, &sampler, logits, 27, t.history, at, &err);
        assert_true(token >= 0);
        if (n < 5) {
            t.history[at] = token;
            mus[at] = t.chooser.mu;
        }
        assert_int_equal(t.history[at], token);
        assert_true(t.chooser.mu == mus[at]);
    }
    close_test(&t);
}

TEST(no_token_left)
{
    struct choose_test t;
    char bias[16];
    float logits[MOST] = {0};
    const int32_t bos = 26;
    mgpt_sampler sampler = {.temperature = 1};
    mgpt_error err;
    open_test(&t);
    for (int i = 0; i < 27; i++) {
        snprintf(bias, sizeof bias, "%d-inf", i);
        set(&t, "bias", bias);
    }
    assert_int_equal(chooser_open(&t.chooser, &t.rules, NULL), MGPT_OK);
    assert_int_equal(chooser_draw(&t.chooser, &sampler, logits, 27, &bos, 1, &err), MGPT_ETEXT);
    assert_string_equal(err.text, "no token is left to draw at position 1: all are banned");
    close_test(&t);
}

/* ---- settings ---- */

TEST(settings_are_read_and_printed)
{
    struct choose_test t;
    static const struct {
        const char *name, *text, *printed;
    } rows[] = {{"dry", "0.8", "0.8"},           {"dry", "0.8:1.75:3", "0.8:1.75:3"},
                {"dry", "1:2:2:64", "1:2:2:64"}, {"repeat_penalty", "1.1", "1.1"},
                {"xtc", "0.5:0.1", "0.5"},       {"mirostat", "2:3:0.2", "2:3:0.2"},
                {"repeat-last", "64", "64"},     {"typical", "0.2", "0.2"}};
    static const struct {
        const char *name, *text, *part;
    } bad[] = {
        {"dry", "x", "number from 0 to 1000 as number 1 of X[:BASE"},
        {"dry", "1:2:3:4:5", "expected X[:BASE:ALLOWED:LAST], found"},
        {"dry", "1:2:0", "whole number from 1 to"},
        {"dry", "1:", "as number 2 of"},
        {"repeat-penalty", "0", "number from 0.001 to 1000, found '0'"},
        {"repeat-penalty", "nan", "found 'nan'"},
        {"repeat-last", "1.5", "expected a whole number from -1"},
        {"mirostat", "1", "found '1'"},
        {"typical", "1.01", "from 0 to 1"},
        {"bias", "zz+1", "the text of one token, found 'zz+1'"},
        {"bias", "27+1", "an id below 27"},
        {"bias", "a", "expected TOKEN+NUMBER"},
        {"bias", "+1", "expected TOKEN+NUMBER"},
        {"bias", "a+nan", "expected TOKEN+NUMBER"},
        {"bias", "a+", "expected TOKEN+NUMBER"},
        {"bias", "a+1x", "expected TOKEN+NUMBER"},
        {"bias", "99999999999999999999+1", "an id below 27"},
        {"bias", "-1+1", "the text of one token"},
        {"bias", "ab+1", "the text of one token"},
        {"bias", "\\q+1", "the text of one token"},
        {"bias", "\"a+1", "the text of one token"},
        {"bias", "\"ab+1", "the text of one token"},
        {"bias", "\"\"+1", "the text of one token"},
        {"dry", " 1", "found ' 1'"},
        {"dry", "1:\t2", "as number 2 of"},
        {"dry", "1:\n2", "as number 2 of"},
        {"dry", "1 :2", "as number 1 of"},
        {"dry", "1:2:1.5", "as number 3 of"},
        {"mirostat", "3", "found '3'"},
        {"mirostat", "2:x", "as number 2 of"},
        {"ban", "", "expected a text"},
        {"ban", "\\q", "expected a text"},
    };
    open_test(&t);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[64];
        enum edit_id id = edit_setting_named(rows[i].name);
        set(&t, rows[i].name, rows[i].text);
        edit_rules_print(&t.rules, id, 0, text, sizeof text);
        assert_string_equal(text, rows[i].printed);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        mgpt_error err = {.text = ""};
        enum edit_id id = edit_setting_named(bad[i].name);
        assert_int_equal(edit_rules_set(&t.rules, id, bad[i].text, &err), MGPT_EARG);
        if (!strstr(err.text, bad[i].part))
            fail_msg("%s %s: '%s'", bad[i].name, bad[i].text, err.text);
    }
    assert_int_equal(edit_setting_named("tempo"), EDIT_N);
    close_test(&t);
}

/* Bytes that no token has lead nowhere: a branch of the expression that needs them is not begun. */
TEST(regex_and_a_vocabulary)
{
    struct choose_test t;
    float logits[MOST] = {0};
    const int32_t text[] = {26, 0, 13};
    mgpt_sampler sampler = {.temperature = 0};
    mgpt_error err;
    open_test(&t);
    set(&t, "regex", "a[0-9]|[b-d]0|an");
    assert_int_equal(chooser_open(&t.chooser, &t.rules, NULL), MGPT_OK);
    chooser_begin(&t.chooser, 1, 0);
    logits[1] = logits[26] = 5;
    assert_int_equal(chooser_draw(&t.chooser, &sampler, logits, 27, text, 1, &err), 0);
    assert_int_equal(chooser_draw(&t.chooser, &sampler, logits, 27, text, 2, &err), 13);
    assert_false(chooser_is_complete(&t.chooser, text, 2));
    assert_true(chooser_is_complete(&t.chooser, text, 3));
    assert_int_equal(chooser_draw(&t.chooser, &sampler, logits, 27, text, 3, &err), 26);
    assert_int_equal(edit_rules_set(&t.rules, EDIT_REGEX, "[0-9]", &err), MGPT_EARG);
    assert_string_equal(err.text, "no text of this model's vocabulary matches the expression");
    assert_int_equal(edit_rules_count(&t.rules, EDIT_REGEX), 1); /* the one before */
    close_test(&t);
}
