/* Values of JSON: the same as jansson's, for texts of all kinds, and in the memory that jval.h states. */
#include "base/xxh64.h"
#include "common/json_out.h"

#include "support/build_model.h"
#include "support/unit.h"
#include "support/wrap_malloc.h"

#include <jansson.h>
#include <stdlib.h>

/* What of a text is read, as JSON; NULL: it is refused with *e. */
static char *our_values(const char *text, size_t n, int flags, struct jval_error *e)
{
    char *copy = malloc(n + 1), *written = NULL; /* exact: nothing after the text is read */
    size_t size;
    memcpy(copy, text, n);
    char *exact = realloc(copy, n ? n : 1);
    const struct jval *root = jval_read(exact, n, flags, NULL, e);
    free(exact);
    if (!root)
        return NULL;
    struct json_out out = {open_memstream(&written, &size), 0};
    json_out_value(&out, root);
    fclose(out.to);
    jval_free(root);
    return written;
}

static char *jansson_of(const char *text, size_t n, int flags)
{
    json_error_t e;
    json_t *root = json_loadb(
        text, n, JSON_REJECT_DUPLICATES | (flags & JVAL_ALLOW_NUL ? JSON_ALLOW_NUL : 0), &e);
    char *written = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return written;
}

static void same_as_jansson(const char *text, size_t n, int flags)
{
    struct jval_error e = {.text = "what was written is refused"};
    char *written = our_values(text, n, flags, &e), *theirs = jansson_of(text, n, flags);
    char *ours = written ? jansson_of(written, strlen(written), flags) : NULL; /* other escapes */
    if (written && !theirs && strstr(text, "922337203685477")) { /* too big for jansson */
        free(written);
        free(ours);
        return;
    }
    if (!written != !theirs || !ours != !theirs || (ours && strcmp(ours, theirs) != 0))
        fail_msg("'%.*s': %s, jansson %s", (int)n, text, ours ? ours : e.text,
                 theirs ? theirs : "refuses");
    free(written);
    free(ours);
    free(theirs);
}

static const char *const texts[] = {
    "[]",
    "{}",
    " [ ] ",
    "{ }",
    "[[],{},[[]],{\"a\":{}}]",
    "",
    " ",
    "7",
    "[",
    "]",
    "{",
    "[1",
    "[1,",
    "[1,]",
    "[1 2]",
    "[,1]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{\"a\":1 \"b\":2}",
    "{1:2}",
    "{\"a\" : [ 1 , 2 ] }",
    "[] x",
    "[]]",
    "[true,false,null]",
    "[tru]",
    "[nul",
    "[truex]",
    "[True]",
    "[NaN]",
    "[-Infinity]",
    "[0]",
    "[-0]",
    "[00]",
    "[01]",
    "[-]",
    "[+1]",
    "[1.]",
    "[.5]",
    "[1e]",
    "[1e+]",
    "[1E5,1e-5,1e+5,-1.25e2,0e0]",
    "[1e999]",
    "[-1e999]",
    "[1e-999]",
    "[9223372036854775807,-9223372036854775807]",
    "[999999999999999999]",
    "[0.1,123456789.125,3.0,1.7976931348623157e308]",
    "[\"\"]",
    "[\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
    "[\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"]",
    "[\"\\ud83d\"]",
    "[\"\\ud83dx\"]",
    "[\"\\ud83d\\u0041\"]",
    "[\"\\ude00\"]",
    "[\"\\u12\"]",
    "[\"\\u12g4\"]",
    "[\"\\x\"]",
    "[\"\\",
    "[\"\\u0000\"]",
    "[\"a\\u0000b\\u0000\"]",
    "{\"\\u0000\":1}",
    "[\"\t\"]",
    "[\"\x7f\"]",
    "[\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"]",
    "[\"\xc3\"]",
    "[\"\xff\"]",
    "[\"\xed\xa0\x80\"]",
    "[\"\xc0\x80\"]",
    "[\"abc",
    "{\"a\":1,\"a\":2}",
    "{\"a\":{\"b\":1,\"b\":2}}",
    "{\"\":1}",
    "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":10}",
    "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"\\u0061\":10}",
    "[[1,[2,[3,[4]]]],\"x\",[5]]",
    "[\"]\",[\"[\"],\"}\"]",
    "\xef\xbb\xbf[]",
    "[1]\n\t\r ",
};

/* Bytes that are no space, and one that is, in a text at `at`. */
static void same_with_bytes(const char *text, size_t n, size_t at)
{
    static const char bytes[] = {'\v', '\f', 0x1f, 0x7f, '\xa0', '\r'};
    char changed[512];
    assert_true(n < sizeof changed);
    memcpy(changed, text, at);
    memcpy(changed + at + 1, text + at, n - at);
    for (size_t i = 0; i < sizeof bytes; i++) {
        changed[at] = bytes[i];
        same_as_jansson(changed, n + 1, JVAL_ALLOW_NUL);
    }
    struct jval_error e;
    changed[at] = 0; /* jansson passes over it after a number */
    assert_null(our_values(changed, n + 1, JVAL_ALLOW_NUL, &e));
}

TEST(values_and_refusals_are_those_of_jansson)
{
    for (size_t i = 0; i < COUNT(texts); i++) {
        size_t n = strlen(texts[i]);
        same_as_jansson(texts[i], n, 0);
        same_as_jansson(texts[i], n, JVAL_ALLOW_NUL);
        for (size_t at = 0; at < n; at++) {
            same_as_jansson(texts[i], at, JVAL_ALLOW_NUL);
            same_with_bytes(texts[i], n, at);
        }
    }
    same_as_jansson("[\"a\0b\"]", 7, JVAL_ALLOW_NUL);
}

TEST(damaged_texts_are_read_as_by_jansson)
{
    static const char letters[] = "[]{},:\"\\u0e.-1tfn \x01\xc3\xa9";
    uint64_t rng = 3;
    char text[256];
    for (size_t i = 0; i < 200000; i++) {
        const char *from = texts[toy_random(&rng) % COUNT(texts)];
        size_t n = strlen(from);
        memcpy(text, from, n + 1);
        for (size_t k = toy_random(&rng) % 3; n && k < 3; k++)
            text[toy_random(&rng) % n] = letters[toy_random(&rng) % (sizeof letters - 1)];
        same_as_jansson(text, n, i % 2 ? JVAL_ALLOW_NUL : 0);
    }
}

static const struct jval *values_in(const char *text)
{
    struct jval_error e;
    const struct jval *root = jval_read(text, strlen(text), JVAL_ALLOW_NUL, NULL, &e);
    assert_non_null(root);
    return root;
}

TEST(values_of_other_types_are_absent)
{
    const struct jval *root =
        values_in("{\"s\":\"x\",\"i\":7,\"r\":2.5,\"a\":[1,[2],3],\"n\":null,"
                  "\"big\":92233720368547758070,\"z\":\"a\\u0000b\",\"e\":[]}");
    const struct jval *s = jval_get(root, "s"), *i = jval_get(root, "i"), *a = jval_get(root, "a");
    assert_null(jval_get(root, "x"));
    assert_null(jval_get(a, "x"));
    assert_null(jval_get(NULL, "x"));
    assert_null(jval_at(root, 0));
    assert_null(jval_at(a, 3));
    assert_null(jval_at(jval_get(root, "e"), 0));
    assert_null(jval_text(i));
    assert_int_equal(jval_whole(s), 0);
    assert_int_equal(jval_whole(i), 7);
    assert_int_equal(jval_whole(jval_at(jval_at(a, 1), 0)), 2);
    assert_int_equal(jval_whole(jval_at(a, 2)), 3);
    assert_int_equal(jval_size(root), 0);
    assert_int_equal(jval_members(root), 8);
    assert_int_equal(jval_members(a), 0);
    assert_true(jval_number(jval_get(root, "r")) == 2.5);
    assert_true(jval_is(jval_get(root, "big"), JVAL_REAL));
    assert_true(jval_number(jval_get(root, "big")) == 92233720368547758070.0);
    assert_false(jval_is(NULL, JVAL_NULL));
    assert_int_equal(jval_text_size(jval_get(root, "z")), 3);
    assert_memory_equal(jval_text(jval_get(root, "z")), "a\0b", 4);
    jval_free(root);
    jval_free(NULL);
}

TEST(many_keys_are_found_and_their_duplicates_refused)
{
    char *text = NULL, key[32];
    size_t size;
    struct jval_error e;
    for (int n_same = 0; n_same < 2; n_same++) {
        FILE *to = open_memstream(&text, &size);
        putc('{', to);
        for (int i = 0; i < 20000; i++)
            fprintf(to, "\"k%d\": [%d],\n", i * 7, i);
        fprintf(to, "\"k%d\": 0}", n_same ? 7 * 12345 : 1);
        fclose(to);
        const struct jval *root = jval_read(text, size, 0, NULL, &e);
        assert_int_equal(!root, n_same);
        for (int i = 0; root && i < 140000; i++) {
            snprintf(key, sizeof key, "k%d", i);
            const struct jval *v = jval_get(root, key);
            if (i % 7)
                assert_int_equal(v != NULL, i == 1);
            else
                assert_int_equal(jval_whole(jval_at(v, 0)), i / 7);
        }
        jval_free(root);
        free(text);
    }
    assert_string_equal(e.text, "duplicate object key 'k86415'");
    assert_int_equal(e.line, 20001);
    assert_int_equal(e.column, 1);
}

TEST(errors_have_their_place)
{
    static const struct {
        const char *text, *error;
        size_t offset;
        int line, column;
    } rows[] = {
        {"{\"a\": 1,\n \"b\" 2}", "expected ':', found '2'", 14, 2, 6},
        {"[1,\n\n x]", "expected a value, found 'x'", 6, 3, 2},
        {"[1", "expected ',' or ']', found the end of the text", 2, 1, 3},
        {"[1]\n2", "expected the end of the text, found '2'", 4, 2, 1},
        {"  7", "expected '{' or '[', found '7'", 2, 1, 3},
        {"  [\"a\", \"\x01\"]", "control character 0x01 in a string", 9, 1, 10},
        {" [1e999]", "a number is too large", 2, 1, 3},
        {" {\"a\":1, \"a\":2}", "duplicate object key 'a'", 9, 1, 10},
        {"[\"\xff\"]", "a string is not UTF-8: byte 0xff", 2, 1, 3},
        {"[\x80]", "expected a value, found the byte 0x80", 1, 1, 2},
        {"[\"abc", "a string does not end", 1, 1, 2},
        {"[\"\\u0000\"]", "\\u0000 in a string", 2, 1, 3},
        {"[\"\\ud800\"]", "half of a pair of surrogates: \\ud800", 2, 1, 3},
        {"[-x]", "expected a digit, found 'x'", 2, 1, 3},
        {"{x}", "expected a key in quotes, found 'x'", 1, 1, 2},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct jval_error e;
        assert_null(jval_read(rows[i].text, strlen(rows[i].text), 0, NULL, &e));
        assert_string_equal(e.text, rows[i].error);
        assert_int_equal(e.offset, rows[i].offset);
        assert_int_equal(e.line, rows[i].line);
        assert_int_equal(e.column, rows[i].column);
        assert_false(e.is_memory);
    }
}

TEST(brackets_are_limited)
{
    char text[2 * 2049 + 2];
    struct jval_error e;
    for (size_t depth = 2048; depth < 2050; depth++) {
        memset(text, '[', depth);
        text[depth] = '1';
        memset(text + depth + 1, ']', depth);
        const struct jval *root = jval_read(text, 2 * depth + 1, 0, NULL, &e);
        assert_int_equal(root != NULL, depth == 2048);
        jval_free(root);
    }
    assert_string_equal(e.text, "more than 2048 brackets in one another");
}

TEST(several_values_in_a_text)
{
    static const char text[] = " [1] {\"a\":2}\n[] x";
    struct jval_error e;
    size_t at = 0, end, ends[] = {4, 12, 15};
    for (size_t i = 0; i < COUNT(ends); i++) {
        const struct jval *root = jval_read(text + at, sizeof text - 1 - at, JVAL_FIRST, &end, &e);
        assert_non_null(root);
        jval_free(root);
        at += end;
        assert_int_equal(at, ends[i]);
    }
    assert_null(jval_read(text + at, sizeof text - 1 - at, JVAL_FIRST, &end, &e));
    assert_int_equal(e.offset, 1);
}

/* ---- memory ---- */

/* A text of about 2 MB of repetitions of a format with two numbers, between two other texts. */
static char *repeated(const char *before, const char *format, const char *after, size_t *n)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, n);
    fputs(before, to);
    for (unsigned i = 0; i == 0 || ftell(to) < 2 << 20; i++) {
        fputs(i ? "," : "", to);
        fprintf(to, format, i + 100, i * 7919 % 100000, i % 1000);
    }
    fputs(after, to);
    fclose(to);
    return text;
}

/* The file in memory and its values: at most four times the file. */
TEST(values_take_at_most_three_times_their_text)
{
    static const struct {
        const char *what, *before, *format, *after;
    } rows[] = {
        {"vocab.json", "{", "\"%x\":%u", "}"},
        {"merges as lists", "{\"model\":{\"merges\":[", "[\"%x\",\"%x\"]", "]}}"},
        {"merges as texts", "{\"model\":{\"merges\":[", "\"%x %x\"", "]}}"},
        {"tekken.json", "{\"vocab\":[",
         "{\"rank\":%u,\"token_bytes\":\"AA%x==\",\"token_str\":null}", "]}"},
        {"unigram", "{\"model\":{\"vocab\":[", "[\"%x\",-%u.25]", "]}}"},
        {"weights", "[", "[-0.0%u%u,1.5]", "]"},
        {"logits", "{\"logits\":[[", "%u.%u", "]]}"},
        {"ids", "{\"ids\":[", "%u,%u,%u", "]}"},
        {"top_logprobs", "{\"top_logprobs\":[", "{\"%u\":-0.%u,\"%u\":-1.5}", "]}"},
        {"safetensors", "{",
         "\"h.%u.w\":{\"dtype\":\"F32\",\"shape\":[8,%u],\"data_offsets\":[0,%u]}", "}"},
        {"the index", "{\"weight_map\":{", "\"model.layers.%u.w%u\":\"model-0%u.safetensors\"",
         "}}"},
        {"added_tokens", "[", "{\"id\":%u,\"content\":\"<%u>\",\"special\":true,\"lstrip\":false}",
         "]"},
        {"a text", "{\"text\":\"", "\\u00e9%u%u", "\"}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct jval_error e;
        size_t n;
        char *text = repeated(rows[i].before, rows[i].format, rows[i].after, &n);
        allocated = 0;
        const struct jval *root = jval_read(text, n, 0, NULL, &e);
        if (!root || allocated > 3 * n)
            fail_msg("%s: %zu bytes for a text of %zu %s", rows[i].what, allocated, n,
                     root ? "" : e.text);
        jval_free(root);
        free(text);
    }
}

/* No text gets more than 3 n and a constant. */
TEST(many_small_values_are_refused)
{
    static const char *const formats[] = {"[]", "[0]", "{\"\":0}", "{\"\":[[0]]}"};
    for (size_t i = 0; i < COUNT(formats); i++) {
        size_t n = strlen(formats[i]) + 1, size = (size_t)24 << 20, at = 0;
        char *text = malloc(size + n + 1);
        for (text[at++] = '['; at + n < size; at += n)
            snprintf(text + at, n + 1, "%s,", formats[i]);
        text[at - 1] = ']';
        struct jval_error e;
        allocated = 0;
        const struct jval *root = jval_read(text, at, 0, NULL, &e);
        assert_true(allocated <= 3 * at + (33 << 20));
        if (!root)
            assert_string_equal(e.text, "too many values for a text of this size");
        assert_int_equal(root != NULL, i == 0);
        jval_free(root);
        free(text);
    }
}

TEST(lack_of_memory_is_told_from_bad_text)
{
    struct jval_error e;
    mgpt_error err = {0};
    fail_after = 0;
    assert_null(jval_read("[1]", 3, 0, NULL, &e));
    assert_int_equal(fail_after, -1);
    assert_true(e.is_memory);
    assert_true(jval_no_memory(&e, 3, &err));
    assert_int_equal(err.status, MGPT_EMEM);
    assert_null(jval_read("[1", 2, 0, NULL, &e));
    assert_false(jval_no_memory(&e, 2, &err));
}

/* Keys of one slot of the table would make each look-up as long as the table. */
TEST(keys_that_collide_on_purpose_are_refused)
{
    enum { KEYS = 2000, SLOTS = KEYS + KEYS / 4 + 1 };
    char *text = NULL, key[32];
    size_t size, found = 0;
    struct jval_error e;
    FILE *to = open_memstream(&text, &size);
    for (unsigned i = 0; found < KEYS; i++) {
        size_t n = (size_t)snprintf(key, sizeof key, "%u", i);
        if (((xxh64(key, n) >> 32) * SLOTS) >> 32 < 10)
            fprintf(to, "%c\"%s\":0", found++ ? ',' : '{', key);
    }
    putc('}', to);
    fclose(to);
    assert_null(jval_read(text, size, 0, NULL, &e));
    assert_string_equal(e.text, "keys that were chosen to be slow to look up");
    free(text);
}
