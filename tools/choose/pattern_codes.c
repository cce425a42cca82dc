/* Characters of expressions, as bytes of UTF-8. See pattern_impl.h. */
#include "choose/pattern_impl.h"

#include "base/utf8.h"

#include <string.h>

/* Adds the bytes of the characters low .. high, all of which have as many, before `end` to *start. */
static int add_bytes(struct pattern_reader *r, uint32_t low, uint32_t high, int32_t end,
                     int32_t *start)
{
    char a[4], b[4];
    size_t n = utf8_put(low, a);
    utf8_put(high, b);
    int32_t next = end;
    for (size_t i = n; i > 0 && next >= 0; i--)
        next = pattern_state(r, (unsigned char)a[i - 1], (unsigned char)b[i - 1], next, -1);
    if (next < 0)
        return 0;
    *start = *start < 0 ? next : pattern_fork(r, *start, next);
    return *start >= 0;
}

/* Divides a range of characters into those whose bytes are a range in each place. */
static int add_range(struct pattern_reader *r, uint32_t low, uint32_t high, int32_t end,
                     int32_t *start)
{
    static const uint32_t last[] = {0x7F, 0x7FF, 0xD7FF, 0xDFFF, 0xFFFF};
    if (low > high)
        return 1;
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        if (low <= last[i] && high > last[i])
            return add_range(r, low, last[i], end, start) &&
                   add_range(r, last[i] + 1, high, end, start);
    if (low >= 0xD800 && high <= 0xDFFF) /* surrogates are no characters */
        return 1;
    for (int shift = 6; shift < 24 && high > 0x7F; shift += 6) {
        uint32_t mask = (UINT32_C(1) << shift) - 1;
        if ((low & ~mask) == (high & ~mask))
            break;
        if (low & mask)
            return add_range(r, low, low | mask, end, start) &&
                   add_range(r, (low | mask) + 1, high, end, start);
        if ((high & mask) != mask)
            return add_range(r, low, (high & ~mask) - 1, end, start) &&
                   add_range(r, high & ~mask, high, end, start);
    }
    return add_bytes(r, low, high, end, start);
}

/* A JSON string has these after a backslash, and no other of its control characters here. */
static const char json_codes[] = "\"\\\b\f\n\r\t", json_letters[] = "\"\\bfnrt";

/* The characters of `c` in a JSON string: *plain without escapes; the others are added. */
static int add_json_codes(struct pattern_reader *r, const struct code_ranges *c,
                          struct code_ranges *plain, int32_t end, int32_t *start)
{
    int32_t letters = -1;
    for (size_t i = 0; json_codes[i]; i++) {
        int32_t next = -1;
        if (codes_have(c, (unsigned char)json_codes[i])) {
            next = pattern_state(r, json_letters[i], json_letters[i], end, -1);
            letters = letters < 0 || next < 0 ? next : pattern_fork(r, letters, next);
            if (letters < 0)
                return 0;
        }
    }
    if (letters >= 0)
        *start = pattern_state(r, '\\', '\\', letters, -1);
    return (letters < 0 || *start >= 0) && codes_without_escapes(c, plain);
}

int pattern_codes(struct pattern_reader *r, const struct code_ranges *c, struct pattern_part *out)
{
    struct code_ranges plain;
    int32_t start = -1;
    out->end = pattern_fork(r, -1, -1);
    int ok = out->end >= 0;
    if (ok && r->in_json) {
        ok = add_json_codes(r, c, &plain, out->end, &start);
        c = &plain;
    }
    for (size_t i = 0; ok && i < c->n; i++)
        ok = add_range(r, c->low[i], c->high[i], out->end, &start);
    out->start = start;
    return ok && (start >= 0 || pattern_refuse(r, r->at, "a class without characters"));
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdefABCDEF", *at = c ? strchr(digits, c) : NULL;
    return !at ? -1 : at - digits < 16 ? (int)(at - digits) : (int)(at - digits) - 6;
}

/* \xHH, \uHHHH, \x{H}, \u{H}: at the letter. */
static int read_hex(struct pattern_reader *r, uint32_t *code)
{
    size_t at = r->at++, few = r->text[at] == 'u' ? 4 : 2;
    int braces = r->at < r->n && r->text[r->at] == '{';
    r->at += braces ? 1 : 0;
    size_t most = braces ? 6 : few;
    *code = 0;
    size_t digits = 0;
    for (; digits < most && r->at < r->n && hex_digit(r->text[r->at]) >= 0; digits++)
        *code = *code * 16 + (uint32_t)hex_digit(r->text[r->at++]);
    int closed = !braces || (r->at < r->n && r->text[r->at++] == '}');
    if (digits == 0 || (!braces && digits != few) || !closed || *code > CODE_MOST ||
        (*code >= 0xD800 && *code <= 0xDFFF))
        return pattern_refuse(r, at, "expected \\xHH, \\uHHHH or \\u{HHHHH}");
    return 1;
}

int pattern_escape(struct pattern_reader *r, struct code_ranges *c, int inverted, uint32_t *code)
{
    static const char names[] = "ntrfv0", to[] = "\n\t\r\f\v\0";
    size_t at = r->at;
    char letter = r->at < r->n ? r->text[r->at] : 0;
    const char *name = letter ? strchr(names, letter) : NULL;
    int is_class = codes_named(c, letter, r->in_json, inverted);
    *code = UINT32_MAX;
    if (is_class < 0)
        return 0;
    if (letter == 'x' || letter == 'u')
        return read_hex(r, code);
    r->at++;
    if (is_class)
        return 1;
    int is_letter = (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                    (letter >= 'A' && letter <= 'Z');
    if (letter == 0 || (is_letter && !name) || (unsigned char)letter >= 0x80)
        return pattern_refuse(r, at, "an escape that is not supported");
    *code = name ? (unsigned char)to[name - names] : (unsigned char)letter;
    return 1;
}

int pattern_code(struct pattern_reader *r, uint32_t *code)
{
    size_t n = utf8_next(r->text + r->at, r->n - r->at, code);
    if (n == 0 || *code == UTF8_BAD)
        return pattern_refuse(r, r->at, "a byte that is not UTF-8");
    r->at += n;
    return 1;
}

int pattern_class(struct pattern_reader *r, struct code_ranges *c)
{
    size_t begin = r->at - 1;
    int inverted = r->at < r->n && r->text[r->at] == '^';
    r->at += inverted ? 1 : 0;
    for (int first = 1; r->at < r->n && (first || r->text[r->at] != ']'); first = 0) {
        uint32_t low, high;
        int escaped = r->text[r->at] == '\\';
        r->at += escaped ? 1 : 0;
        if (!(escaped ? pattern_escape(r, c, inverted, &low) : pattern_code(r, &low)))
            return 0;
        if (low == UINT32_MAX)
            continue;
        high = low;
        if (r->at + 1 < r->n && r->text[r->at] == '-' && r->text[r->at + 1] != ']') {
            r->at++;
            escaped = r->text[r->at] == '\\';
            r->at += escaped ? 1 : 0;
            if (!(escaped ? pattern_escape(r, c, inverted, &high) : pattern_code(r, &high)))
                return 0;
        }
        if (high < low || high == UINT32_MAX)
            return pattern_refuse(r, r->at, "a range whose end is before its beginning");
        if (!codes_add(c, low, high))
            return 0;
    }
    if (r->at == r->n)
        return pattern_refuse(r, begin, "a [ without its ]");
    r->at++;
    return !inverted || codes_invert(c);
}
