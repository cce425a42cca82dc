/* UTF-8. What is well-formed is checked against the definition, over all code points and
 * over all byte strings of up to three bytes. */
#include "base/utf8.h"
#include "support/unit.h"

static int is_scalar(uint32_t code)
{
    return code <= 0x10FFFF && !(code >= 0xD800 && code <= 0xDFFF);
}

/* The encoding by its definition: the shortest form, bits cut into groups of six. */
static size_t encode_scalar(uint32_t code, uint8_t out[4])
{
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : 4;
    if (code >= 0x800 && code < 0x10000)
        n = 3;
    const uint8_t lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (uint8_t)(0x80 + code % 64);
    out[0] = (uint8_t)(lead[n] + code);
    return n;
}

TEST(every_code_point)
{
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        uint8_t want[4];
        char got[4];
        uint32_t back;
        size_t n = encode_scalar(is_scalar(code) ? code : 0xFFFD, want);
        if (utf8_put(code, got) != n || memcmp(got, want, n) != 0)
            fail_msg("U+%x: wrong bytes", code);
        if (is_scalar(code) && (utf8_next(got, n, &back) != n || back != code))
            fail_msg("U+%x: not read back", code);
        for (size_t part = 1; part < n; part++)
            if (utf8_next(got, part, &back) != 1 || back != UTF8_BAD ||
                utf8_incomplete(got, part) != part)
                fail_msg("U+%x: %zu bytes are not an incomplete character", code, part);
        if (utf8_incomplete(got, n) != 0)
            fail_msg("U+%x: complete, called incomplete", code);
    }
}

TEST(not_a_code_point)
{
    char out[4];
    const uint32_t codes[] = {UTF8_BAD, 0x110000, 0xD800, 0xDFFF};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(utf8_put(codes[i], out), 3);
        assert_memory_equal(out, "\xEF\xBF\xBD", 3);
    }
}

/* As many strings of n bytes are one character as there are code points of that length: together with the test above, no ill-formed string is accepted. */
TEST(every_short_string)
{
    const size_t expected[4] = {0, 128, 0x800 - 0x80, 0x10000 - 0x800 - 0x800};
    for (size_t n = 1; n <= 3; n++) {
        size_t found = 0;
        for (uint32_t v = 0; v < UINT32_C(1) << (8 * n); v++) {
            char p[3] = {(char)(v & 255), (char)(v >> 8 & 255), (char)(v >> 16)};
            uint32_t code;
            found += utf8_next(p, n, &code) == n && code != UTF8_BAD;
        }
        assert_int_equal(found, expected[n]);
    }
}

TEST(four_bytes)
{
    const uint8_t last[] = {0x00, 0x7F, 0x80, 0xBF, 0xC0, 0xFF};
    for (unsigned first = 0xF0; first <= 0xFF; first++)
        for (unsigned second = 0; second < 256; second++)
            for (size_t i = 0; i < 36; i++) {
                uint8_t b[4] = {(uint8_t)first, (uint8_t)second, last[i / 6], last[i % 6]};
                uint32_t code, plain = (first & 7) << 18 | (second & 63) << 12 | (b[2] & 63u) << 6 |
                                       (b[3] & 63u);
                int right = (second & 0xC0) == 0x80 && (b[2] & 0xC0) == 0x80 &&
                            (b[3] & 0xC0) == 0x80 && first < 0xF8 && plain >= 0x10000 &&
                            plain <= 0x10FFFF;
                size_t n = utf8_next((const char *)b, 4, &code);
                assert_int_equal(n, right ? 4 : 1);
                assert_int_equal(code, right ? plain : UTF8_BAD);
            }
}

/* Every ill-formed byte is one unit, and what follows it is read as if it stood alone. */
TEST(resynchronises)
{
    const char text[] = "a\xC3(\xE2\x82\xF0\x9F\x98"
                        "b\xED\xA0\x80\xC0\xAF\xC3\xA9";
    const uint32_t want[] = {'a',      UTF8_BAD, '(',      UTF8_BAD, UTF8_BAD,
                             UTF8_BAD, UTF8_BAD, UTF8_BAD, 'b',      UTF8_BAD,
                             UTF8_BAD, UTF8_BAD, UTF8_BAD, UTF8_BAD, 0xE9};
    size_t n = sizeof text - 1, k = 0;
    for (size_t i = 0; i < n; k++) {
        uint32_t code;
        i += utf8_next(text + i, n - i, &code);
        assert_true(k < COUNT(want));
        assert_int_equal(code, want[k]);
    }
    assert_int_equal(k, COUNT(want));
}

TEST(incomplete)
{
    const struct {
        const char *text;
        size_t n, want;
    } rows[] = {
        {"", 0, 0},
        {"abc", 3, 0},
        {"ab\xC3", 3, 1},
        {"\xE2\x82", 2, 2},
        {"xyz\xF0\x9F\x98", 6, 3},
        {"\xF0\x9F\x98\x80", 4, 0},
        {"\xF0\x9F\x98\x80\xF0", 5, 1},
        {"\x98", 1, 0},         /* a stray continuation byte */
        {"\x82\x82\x82", 3, 0}, /* several */
        {"\xC0", 1, 0},         /* begins nothing */
        {"\xF5", 1, 0},
        {"\xFF", 1, 0},
        {"\xE0\x80", 2, 0}, /* overlong */
        {"\xED\xA0", 2, 0}, /* a surrogate */
        {"\xF4\x90", 2, 0}, /* beyond U+10FFFF */
        {"\xF0\x8F", 2, 0},
        {"\xF0\x9F\x41", 3, 0},
        {"\xE2\xC3", 2, 1}, /* the first is lost, the second may live */
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(utf8_incomplete(rows[i].text, rows[i].n), rows[i].want);
}

/* At the end of a block of exactly that size: a sanitizer or valgrind sees a read past it. */
TEST(stays_inside)
{
    for (unsigned first = 0; first < 256; first++)
        for (size_t n = 1; n <= 3; n++) {
            char *p = malloc(n);
            assert_non_null(p);
            memset(p, 0x90, n);
            p[0] = (char)first;
            uint32_t code;
            assert_in_range(utf8_next(p, n, &code), 1, n);
            assert_in_range(utf8_incomplete(p, n), 0, n);
            free(p);
        }
}

/* The ends of each range, and their neighbours: controls, marks of direction, line separators. */
TEST(dangerous)
{
    const uint32_t ranges[][2] = {{0, 0x1F},        {0x7F, 0x9F},        {0x61C, 0x61C},
                                  {0x200E, 0x200F}, {0x2028, 0x202E},    {0x2066, 0x2069},
                                  {0xFFF9, 0xFFFB}, {UTF8_BAD, UTF8_BAD}};
    for (size_t i = 0; i < COUNT(ranges); i++) {
        assert_int_equal(utf8_dangerous(ranges[i][0]), 1);
        assert_int_equal(utf8_dangerous(ranges[i][1]), 1);
        assert_int_equal(i > 0 && utf8_dangerous(ranges[i][0] - 1), 0);
        assert_int_equal(ranges[i][1] < UTF8_BAD && utf8_dangerous(ranges[i][1] + 1), 0);
    }
}

/* What hides a text in another, and what is only invisible in its own place. */
TEST(hidden)
{
    static const uint32_t hidden[] = {0x200B,  0x2060,  0xFEFF,  0xFDD0,  0xFFFE,
                                      0x1FFFF, 0xE0001, 0xE0041, 0xE007F, 0xE01EF};
    static const uint32_t joining[] = {0xAD, 0x115F, 0x200C, 0x200D, 0xFE0F, 0x3164, 0x180E};
    static const uint32_t shown[] = {'a', 0xE9, 0x200A, 0x2070, 0xFDF0, 0xFF00, 0x1F600, 0xE1000};
    for (size_t i = 0; i < COUNT(hidden); i++)
        assert_true(utf8_hidden(hidden[i]) && utf8_invisible(hidden[i]));
    for (size_t i = 0; i < COUNT(joining); i++)
        assert_true(!utf8_hidden(joining[i]) && utf8_invisible(joining[i]));
    for (size_t i = 0; i < COUNT(shown); i++)
        assert_true(!utf8_hidden(shown[i]) && !utf8_invisible(shown[i]));
    assert_true(!utf8_hidden(0xE1000) && !utf8_hidden(UTF8_BAD));
    /* Unicode's Default_Ignorable_Code_Point has 4,174; 12 of them are dangerous. 66 are no characters. */
    size_t n_hidden = 0, n_joining = 0;
    for (uint32_t code = 0; code < 0x110000; code++) {
        n_hidden += utf8_hidden(code) != 0;
        n_joining += utf8_invisible(code) && !utf8_hidden(code);
    }
    assert_int_equal(n_joining, 31);
    assert_int_equal(n_hidden + n_joining, 4174 - 12 + 66);
}

TEST(well_formed)
{
    const struct {
        const char *text;
        size_t good;
    } cases[] = {{"", 0},     {"abc", 3},     {"a\xC3\xA9z", 4},
                 {"\xFF", 0}, {"ab\x80z", 2}, {"a\xE2\x82", 1}};
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(utf8_well_formed(cases[i].text, strlen(cases[i].text)), cases[i].good);
}
