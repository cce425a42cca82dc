/* Regular expressions: what they match, what is refused, and how their states are kept. */
#include "base/mem.h"
#include "choose/pattern.h"
#include "support/unit.h"
#include "support/wrap_malloc.h"

static size_t from_hex(const char *hex, char *to)
{
    size_t n = 0;
    for (unsigned byte; *hex != '-' && sscanf(hex, "%2x", &byte) == 1; hex += 2)
        to[n++] = (char)byte;
    return n;
}

/* Whether a text matches is what Python says; what begins a text that matches is not dead. */
static void check_match(char *line, void *user)
{
    char pattern_hex[256], text_hex[256], pattern[128], text[128];
    int matches, begins;
    struct pattern p;
    struct automaton a = {.pass = 0};
    mgpt_error err;
    assert_int_equal(sscanf(line, "%255s %255s %d %d", pattern_hex, text_hex, &matches, &begins),
                     4);
    size_t n_pattern = from_hex(pattern_hex, pattern), n = from_hex(text_hex, text);
    if (pattern_parse(&p, pattern, n_pattern, &err) < 0)
        fail_msg("%.*s: %s", (int)n_pattern, pattern, err.text);
    assert_int_equal(automaton_open(&a, &p, &err), MGPT_OK);
    int32_t state = 0;
    for (size_t i = 0; i < n && state >= 0; i++)
        state = automaton_byte(&a, state, (unsigned char)text[i]);
    int found = state >= 0 && a.states[state].accepts;
    if (found != matches || (begins && state < 0))
        fail_msg("'%.*s' and '%.*s': %d, expected %d", (int)n_pattern, pattern, (int)n, text, found,
                 matches);
    ++*(size_t *)user;
    automaton_close(&a);
    pattern_free(&p);
}

TEST(patterns_match_as_in_python)
{
    size_t n = 0;
    unit_rows("tests/vectors/patterns.txt", check_match, &n);
    assert_true(n > 1000);
}

/* A state has each place of the expression once, and a set of places is one state. */
TEST(states_are_sets)
{
    static const struct {
        const char *pattern, *text;
        size_t n_states, n_members; /* read letter by letter */
    } rows[] = {{"(a|a|a)*b", "aaaab", 2, 5},
                {"(a|b)*a(a|b){2}", "abbbaaababb", 8, 44},
                {"a{3}", "aaa", 4, 4},
                {"(ab)*", "ababab", 2, 3}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pattern p;
        struct automaton a = {.pass = UINT32_MAX};
        int32_t at_state = 0;
        assert_int_equal(pattern_parse(&p, rows[i].pattern, strlen(rows[i].pattern), NULL),
                         MGPT_OK);
        assert_int_equal(automaton_open(&a, &p, NULL), MGPT_OK);
        for (const char *at = rows[i].text; *at; at++)
            at_state = automaton_byte(&a, at_state, (unsigned char)*at);
        assert_true(at_state >= 0);
        if (arr_len(a.states) != rows[i].n_states || arr_len(a.members) != rows[i].n_members)
            fail_msg("%s: %zu states of %zu places", rows[i].pattern, arr_len(a.states),
                     arr_len(a.members));
        automaton_close(&a);
        pattern_free(&p);
    }
}

/* The numbers of passes begin anew, and the marks with them. */
TEST(passes_wrap)
{
    struct pattern p;
    struct automaton a = {.pass = 0};
    assert_int_equal(pattern_parse(&p, "(ab|ac)*d", 9, NULL), MGPT_OK);
    assert_int_equal(automaton_open(&a, &p, NULL), MGPT_OK);
    int32_t after = automaton_byte(&a, 0, 'a');
    a.pass = UINT32_MAX;
    int32_t again = automaton_byte(&a, after, 'b');
    assert_int_equal(again, 0);
    assert_true(automaton_byte(&a, again, 'd') > 0);
    assert_int_equal(automaton_byte(&a, again, 'b'), AUTOMATON_DEAD);
    automaton_close(&a);
    pattern_free(&p);
}

TEST(patterns_that_are_refused)
{
    static const struct {
        const char *text, *part;
    } rows[] = {{"a(b", "a ( without its ) at byte 1"},
                {"a)", "a ) without its ( at byte 1"},
                {"[ab", "a [ without its ] at byte 0"},
                {"*a", "a repetition of nothing at byte 0"},
                {"a**", "a repetition of nothing at byte 2"},
                {"(?=a)", "a group (? that is not (?: is not supported, at byte 0"},
                {"a\\b", "an escape that is not supported at byte 2"},
                {"(a)\\1", "an escape that is not supported"},
                {"a$b", "^ or $ inside"},
                {"[b-a]", "a range whose end is before its beginning"},
                {"a{2,1}", "expected {m}, {m,} or {m,n}"},
                {"a{x}", "expected {m}"},
                {"a++", "possessive"},
                {"\xff", "a byte that is not UTF-8"},
                {"\\xZ1", "expected \\xHH"},
                {"\\x4", "expected \\xHH"},
                {"\\u123", "expected \\xHH"},
                {"\\u{}", "expected \\xHH"},
                {"\\u{41", "expected \\xHH"},
                {"\\u{41x", "expected \\xHH"},
                {"\\u{110000}", "expected \\xHH"},
                {"\\uD800", "expected \\xHH"},
                {"\\uDFFF", "expected \\xHH"},
                {"a{10001}", "expected {m}, {m,} or {m,n} of at most 10000"},
                {"a{4294967297}", "expected {m}, {m,} or {m,n} of at most 10000"},
                {"a{1,4294967298}", "expected {m}, {m,} or {m,n} of at most 10000"},
                {"a{1,2", "expected {m}, {m,} or {m,n} of at most 10000"},
                {"a{1,x}", "expected {m}, {m,} or {m,n} of at most 10000"},
                {"a{1", "expected {m}, {m,} or {m,n} of at most 10000"},
                {"{2}", "a repetition of nothing at byte 0"},
                {"a|+b", "a repetition of nothing at byte 2"},
                {"?", "a repetition of nothing"},
                {"a^b", "^ or $ inside"},
                {"[a-\\w]", "a range whose end is before its beginning"},
                {"\\Q", "an escape that is not supported"},
                {"\\8", "an escape that is not supported"},
                {"\\\xc3\xa9", "an escape that is not supported"},
                {"a\\", "an escape that is not supported"},
                {"[a\\", "an escape that is not supported"},
                {"(?", "a repetition of nothing"},
                {"(?jx", "a group (? that is not (?:"},
                {"(?j", "a group (? that is not (?:"},
                {"[", "a [ without its ]"},
                {"[]", "a [ without its ]"},
                {"[^]", "a [ without its ]"},
                {"((((a{99}){99}){99}){99})", "a repetition that is too large"},
                {"[^\\x00-\\u{10FFFF}]", "a class without characters"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pattern p;
        mgpt_error err = {.text = ""};
        assert_int_equal(pattern_parse(&p, rows[i].text, strlen(rows[i].text), &err), MGPT_EARG);
        if (!strstr(err.text, rows[i].part))
            fail_msg("%s: '%s'", rows[i].text, err.text);
    }
}

/* A class has room for 128 ranges; groups nest 200 deep. */
TEST(patterns_that_are_large)
{
    for (size_t n = 127; n < 131; n++) {
        struct pattern p;
        mgpt_error err = {.text = ""};
        char text[600] = "[", groups[600] = "";
        for (size_t i = 0; i < n; i++)
            snprintf(text + strlen(text), 8, "\\x%02zx", i);
        strcat(text, "]");
        int status = pattern_parse(&p, text, strlen(text), &err);
        assert_int_equal(status, n > 128 ? MGPT_EARG : MGPT_OK);
        if (n > 128)
            assert_non_null(strstr(err.text, "a class of too many ranges"));
        pattern_free(&p);
        memset(groups, '(', n + 72);
        memset(groups + n + 72, ')', n + 72);
        status = pattern_parse(&p, groups, strlen(groups), &err);
        assert_int_equal(status, n > 128 ? MGPT_EARG : MGPT_OK);
        if (n > 128)
            assert_non_null(strstr(err.text, "groups that are too deep"));
        pattern_free(&p);
    }
}

/* Memory that runs out at any place of an expression is an error: its parts come after 0 to 40 letters, where the
 * states grow. */
TEST(patterns_without_memory)
{
    const char *parts[] = {"b|c",    "(b|)*",     "b{2,}",     "b{1,3}|c",
                           "[b-dx]", "(?j:.)\\d", "b?c+|(d|e)"};
    for (size_t i = 0; i < COUNT(parts); i++)
        for (size_t n = 0; n <= 40; n++)
            for (int k = 0, failed = 1; failed; k++) {
                struct pattern p;
                mgpt_error err = {.text = ""};
                char text[80];
                snprintf(text, sizeof text, "%.*s%s", (int)n,
                         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", parts[i]);
                fail_after = k;
                int status = pattern_parse(&p, text, strlen(text), &err);
                failed = fail_after < 0;
                fail_after = -1;
                if (status != (failed ? MGPT_EMEM : MGPT_OK))
                    fail_msg("%s without allocation %d: %d, %s", text, k, status, err.text);
                pattern_free(&p);
            }
}
