/* JSON that is written piece by piece, or built as text, has the bytes of jansson's, but for characters that
 * are hidden or dangerous on a terminal: they are escaped, and a reader of JSON gets the same string. */
#include "base/utf8.h"
#include "common/json_out.h"
#include "common/jtext.h"

#include "support/build_model.h"
#include "support/unit.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

/* What jansson writes, with such characters escaped. The caller frees it. */
static char *dumped(json_t *value, size_t flags)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | flags), *all = NULL;
    size_t n = strlen(text), size;
    FILE *to = open_memstream(&all, &size);
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t code;
        length = utf8_next(text + i, n - i, &code);
        if (code != '\n' && (utf8_dangerous(code) || utf8_hidden(code)))
            fprintf(to, code > 0xFFFF ? "\\u%04X\\u%04X" : "\\u%04X",
                    code > 0xFFFF ? 0xD7C0 + (code >> 10) : code, 0xDC00 + (code & 0x3FF));
        else
            fwrite(text + i, 1, length, to);
    }
    fclose(to);
    json_t *again = json_loads(all, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_true(json_equal(again, value) || !json_is_string(value)); /* numbers may be cut */
    json_decref(again);
    free(text);
    return all;
}

/* Compares what the writer writes of one value, which is freed, with what jansson writes. */
static void same_text(json_t *value, const char *p, size_t n, double v, int ascii)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    struct json_out out = {to, ascii};
    if (p)
        json_out_string(&out, p, n);
    else
        json_out_real(&out, v);
    fclose(to);
    char *expected = dumped(value, ascii ? JSON_ENSURE_ASCII : 0u);
    assert_string_equal(text, expected);
    free(expected);
    free(text);
    json_decref(value);
}

TEST(json_out_reals)
{
    static const double values[] = {0,           -0.0,  1,      -1.5,   1e22,    1e-5, 1e-7,
                                    1e16,        1e17,  5e-324, 1e300,  -1e-300, 0.1,  1. / 3,
                                    123456789.0, 1e100, -2e-10, 1.5e15, 17,      1e9};
    uint64_t rng = 1;
    for (size_t i = 0; i < COUNT(values); i++)
        same_text(json_real(values[i]), NULL, 0, values[i], 0);
    for (size_t i = 0; i < 20000; i++) {
        uint64_t bits = toy_random(&rng);
        double v;
        memcpy(&v, &bits, sizeof v);
        if (isfinite(v))
            same_text(json_real(v), NULL, 0, v, 0);
    }
    same_text(json_null(), NULL, 0, NAN, 0);
    same_text(json_null(), NULL, 0, -INFINITY, 0);
}

TEST(json_out_strings)
{
    char text[8];
    for (uint32_t code = 0; code < 0x11000; code++) {
        size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        if (code >= 0xD800 && code < 0xE000)
            continue;
        static const uint8_t first[] = {0, 0, 0xC0, 0xE0, 0xF0};
        for (size_t i = 0; i < n; i++)
            text[i] = (char)(i || n == 1 ? (n == 1 ? code : 0x80 | (code >> 6 * (n - 1 - i) & 63))
                                         : first[n] | code >> 6 * (n - 1));
        for (int ascii = 0; ascii < 2; ascii++)
            same_text(json_stringn(text, n), text, n, 0, ascii);
    }
}

TEST(hidden_characters_are_escaped)
{
    struct jtext *value = jtext("[s]", "a\u200B\u202E\x7F\U000E0041\u00E9\xFF");
    size_t n;
    assert_string_equal(jtext_end(value, 0, &n),
                        "[\"a\\u200B\\u202E\\u007F\\uDB40\\uDC41\u00E9\uFFFD\"]");
    jtext_free(value);
}

/* Both values are freed. */
static void same_value(struct jtext *ours, json_t *theirs, size_t flags)
{
    size_t n;
    const char *text = jtext_end(ours, (flags & JSON_ENSURE_ASCII) != 0, &n);
    char *expected = dumped(theirs, flags);
    assert_string_equal(text, expected);
    assert_int_equal(n, strlen(expected));
    free(expected);
    jtext_free(ours);
    json_decref(theirs);
}

TEST(jtext_values)
{
    static const char text[] = "a\"\\\n\x01\x7f\xc3\xa4\xf0\x9f\x98\x80:[{,";
    const int32_t ids[] = {0, -1, INT32_MAX};
    const uint64_t dims[] = {3, 1ull << 40};
    for (int ascii = 0; ascii < 2; ascii++)
        same_value(jtext("{s:s, s:[i, I, [], {}], s:b, s:b, s:s, s:{s:s%}, s:o, s:o}", text, text,
                         "list", -7, INT64_MIN, "yes", 2, "no", 0, "none", (char *)NULL, "inner",
                         "cut", "abc", (size_t)2, "ids", jtext_ids(ids, 3), "dims",
                         jtext_shape(dims, 2)),
                   json_pack("{s:s, s:[i, I, [], {}], s:b, s:b, s:n, s:{s:s%}, s:[i, i, i], "
                             "s:[I, I]}",
                             text, text, "list", -7, (json_int_t)INT64_MIN, "yes", 1, "no", 0,
                             "none", "inner", "cut", "abc", (size_t)2, "ids", 0, -1, INT32_MAX,
                             "dims", (json_int_t)3, (json_int_t)1 << 40),
                   ascii ? JSON_ENSURE_ASCII : 0);
    same_value(jtext("[f, f, f, g]", 0.1, INFINITY, (double)NAN, 0.5),
               json_pack("[f, n, n, f]", 0.1, 0.5), 0);
    same_value(jtext("g", 1. / 3), json_real(1. / 3), JSON_REAL_PRECISION(9));
    same_value(jtext("s", "a\xff\xc3"), json_string("a\xef\xbf\xbd\xef\xbf\xbd"), 0);
    same_value(jtext_null(), json_null(), 0);
}

TEST(jtext_is_appended_to)
{
    struct jtext *object = jtext("{}"), *list = jtext("[]");
    jtext_add(list, "i", 1);
    jtext_add(list, "s, {s:i}, [i]", ":", "k", 2, 3);
    jtext_add(object, "s:o", "list", list);
    jtext_add(object, "s:b, s:[]", "on", 1, "empty");
    same_value(
        object,
        json_pack("{s:[i, s, {s:i}, [i]], s:b, s:[]}", "list", 1, ":", "k", 2, 3, "on", 1, "empty"),
        0);
}

TEST(jtext_that_is_not_whole_has_no_end)
{
    size_t n;
    struct jtext *lost = jtext("{s:o, s:i}", "a", (struct jtext *)NULL, "b", 1);
    struct jtext *outer = jtext("[o]", lost);
    assert_null(jtext_end(outer, 0, &n));
    jtext_free(outer);
    outer = jtext("[i]", 1);
    jtext_fail(outer);
    assert_null(jtext_end(outer, 1, &n));
    jtext_free(outer);
    jtext_add(NULL, "o", jtext("i", 1)); /* nothing is left behind */
    assert_null(jtext_end(NULL, 0, &n));
}
