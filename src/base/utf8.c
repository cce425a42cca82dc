/* UTF-8, one character at a time. See utf8.h.
 *
 * Well-formed is table 3-7 of the Unicode standard. The first byte gives the length of the
 * character and the range of its second byte, which excludes overlong forms, surrogates and
 * everything beyond U+10FFFF. Further bytes are 80..BF.
 */
#include "base/utf8.h"

/* Length of the character that begins with this byte (0: no character does) and the range of its
 * second byte. */
static size_t shape(uint8_t first, uint8_t *low, uint8_t *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    if (first < 0xE0)
        return 2;
    if (first == 0xE0)
        *low = 0xA0;
    if (first == 0xED)
        *high = 0x9F;
    if (first == 0xF0)
        *low = 0x90;
    if (first == 0xF4)
        *high = 0x8F;
    return first < 0xF0 ? 3 : 4;
}

/* Number of bytes at p (n >= 1 left) that can begin one character; *length is its full length. */
static size_t fitting(const char *p, size_t n, size_t *length)
{
    uint8_t low, high;
    *length = shape((uint8_t)p[0], &low, &high);
    size_t most = n < *length ? n : *length;
    for (size_t i = 1; i < most; i++) {
        uint8_t byte = (uint8_t)p[i];
        if (byte < low || byte > high)
            return i;
        low = 0x80;
        high = 0xBF;
    }
    return most;
}

size_t utf8_next(const char *p, size_t n, uint32_t *code)
{
    size_t length;
    if (fitting(p, n, &length) < length || length == 0) {
        *code = UTF8_BAD;
        return 1;
    }
    const uint8_t *b = (const uint8_t *)p;
    *code = length == 1 ? b[0] : b[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++)
        *code = *code << 6 | (b[i] & 0x3Fu);
    return length;
}

size_t utf8_well_formed(const char *p, size_t n)
{
    uint32_t code;
    for (size_t i = 0, length; i < n; i += length) {
        length = utf8_next(p + i, n - i, &code);
        if (code == UTF8_BAD)
            return i;
    }
    return n;
}

size_t utf8_incomplete(const char *p, size_t n)
{
    for (size_t tail = 1; tail <= 3 && tail <= n; tail++) {
        size_t length;
        if (fitting(p + n - tail, tail, &length) == tail && length > tail)
            return tail;
    }
    return 0;
}

size_t utf8_put(uint32_t code, char *out)
{
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        code = 0xFFFD;
    size_t length = 4;
    if (code < 0x80)
        length = 1;
    else if (code < 0x800)
        length = 2;
    else if (code < 0x10000)
        length = 3;
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(length == 1 ? code : (0xF00u >> length & 0xF0u) | code);
    return length;
}

struct code_range {
    uint32_t first, last;
};

static int is_among(uint32_t code, const struct code_range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return 1;
    return 0;
}

int utf8_dangerous(uint32_t code)
{
    static const struct code_range ranges[] = {
        {0x00, 0x1F},     {0x7F, 0x9F},     {0x61C, 0x61C},   {0x200E, 0x200F},
        {0x2028, 0x202E}, {0x2066, 0x2069}, {0xFFF9, 0xFFFB}, {UTF8_BAD, UTF8_BAD},
    };
    return is_among(code, ranges, sizeof ranges / sizeof *ranges);
}

/* Shown nothing, but part of how some scripts and emoji are written: soft hyphen, joiners, fillers,
 * vowels, variation selectors. */
static const struct code_range joining[] = {
    {0xAD, 0xAD},     {0x34F, 0x34F},   {0x115F, 0x1160}, {0x17B4, 0x17B5}, {0x180B, 0x180F},
    {0x200C, 0x200D}, {0x3164, 0x3164}, {0xFE00, 0xFE0F}, {0xFFA0, 0xFFA0},
};

int utf8_hidden(uint32_t code)
{
    static const struct code_range ranges[] = {
        {0x200B, 0x200B},   {0x2060, 0x2065},   {0x206A, 0x206F},
        {0xFDD0, 0xFDEF},   {0xFEFF, 0xFEFF},   {0xFFF0, 0xFFF8},
        {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
    };
    int is_noncharacter = code != UTF8_BAD && (code & 0xFFFE) == 0xFFFE;
    return is_noncharacter || is_among(code, ranges, sizeof ranges / sizeof *ranges);
}

int utf8_invisible(uint32_t code)
{
    return utf8_hidden(code) || is_among(code, joining, sizeof joining / sizeof *joining);
}
