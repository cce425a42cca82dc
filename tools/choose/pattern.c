/* Parses regular expressions. See pattern.h. */
#include "choose/pattern.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

enum {
    MOST_RANGES = 128,
    MOST_DEPTH = 200,
    MOST_CODE = 0x10FFFF,
    NO_LIMIT = -1,
    MOST_TIMES = 10000
};

/* A part of the automaton: `end` is a fork without a way out yet. */
struct pattern_part {
    int32_t start, end;
};

struct pattern_reader {
    struct pattern *p;
    const char *text;
    size_t n, at;
    int depth;
    mgpt_error *err;
};

static int pattern_refuse(struct pattern_reader *r, size_t at, const char *what)
{
    if (r->err && r->err->status == MGPT_OK)
        err_set(r->err, MGPT_EARG, at, "%s at byte %zu of the expression", what, at);
    return 0;
}

/* A new state, or -1. */
static int32_t new_state(struct pattern_reader *r, int low, int high, int32_t a, int32_t b)
{
    struct pattern_state s = {(int16_t)low, (int16_t)high, a, b};
    if (arr_len(r->p->states) >= PATTERN_STATES) {
        pattern_refuse(r, r->at, "a repetition that is too large");
        return -1;
    }
    if (!arr_push(r->p->states, s)) {
        if (r->err->status == MGPT_OK)
            err_memory(r->err, "the expression", arr_len(r->p->states) * sizeof s);
        return -1;
    }
    return (int32_t)arr_len(r->p->states) - 1;
}

static int32_t new_fork(struct pattern_reader *r, int32_t a, int32_t b)
{
    return new_state(r, PATTERN_FORK, 0, a, b);
}

static int empty_part(struct pattern_reader *r, struct pattern_part *out)
{
    out->start = out->end = new_fork(r, -1, -1);
    return out->start >= 0;
}

static void connect(struct pattern_reader *r, int32_t end, int32_t to)
{
    r->p->states[end].a = to;
}

/* ---- characters ---- */

/* Adds the bytes of the characters low .. high, all of which have as many, before `end` to *start. */
static int add_bytes(struct pattern_reader *r, uint32_t low, uint32_t high, int32_t end,
                     int32_t *start)
{
    char a[4], b[4];
    size_t n = utf8_put(low, a);
    utf8_put(high, b);
    int32_t next = end;
    for (size_t i = n; i > 0 && next >= 0; i--)
        next = new_state(r, (unsigned char)a[i - 1], (unsigned char)b[i - 1], next, -1);
    if (next < 0)
        return 0;
    *start = *start < 0 ? next : new_fork(r, *start, next);
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

static int codes_part(struct pattern_reader *r, const struct code_ranges *c,
                      struct pattern_part *out)
{
    int32_t start = -1;
    out->end = new_fork(r, -1, -1);
    int ok = out->end >= 0;
    for (size_t i = 0; ok && i < c->n; i++)
        ok = add_range(r, c->low[i], c->high[i], out->end, &start);
    out->start = start;
    return ok && (start >= 0 || pattern_refuse(r, r->at, "a class without characters"));
}

/* \d, \w, \s and their opposites: 1 when the letter names a class. -1: refused. */
static int class_of(char letter, struct code_ranges *c)
{
    static const char digits[] = "09", words[] = "09AZaz__", spaces[] = "\t\r  ";
    const char *pairs = NULL;
    struct code_ranges own = {.n = 0};
    if (letter == 'd' || letter == 'D')
        pairs = digits;
    else if (letter == 'w' || letter == 'W')
        pairs = words;
    else if (letter == 's' || letter == 'S')
        pairs = spaces;
    if (!pairs)
        return 0;
    for (; *pairs; pairs += 2)
        codes_add(&own, (unsigned char)pairs[0], (unsigned char)pairs[1]);
    if (letter < 'a' && !codes_invert(&own))
        return -1;
    for (size_t i = 0; i < own.n; i++)
        if (!codes_add(c, own.low[i], own.high[i]))
            return -1;
    return 1;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdefABCDEF", *at = c ? strchr(digits, c) : NULL;
    return !at ? -1 : at - digits < 16 ? (int)(at - digits) : (int)(at - digits) - 6;
}

/* \xHH, \x{H}, \u{H}: at the letter. */
static int read_hex(struct pattern_reader *r, uint32_t *code)
{
    size_t at = r->at++, most = 2;
    int braces = r->at < r->n && r->text[r->at] == '{';
    r->at += braces ? 1 : 0;
    most = braces ? 6 : 2;
    *code = 0;
    size_t digits = 0;
    for (; digits < most && r->at < r->n && hex_digit(r->text[r->at]) >= 0; digits++)
        *code = *code * 16 + (uint32_t)hex_digit(r->text[r->at++]);
    int closed = !braces || (r->at < r->n && r->text[r->at++] == '}');
    if (digits == 0 || (!braces && digits != 2) || !closed || *code > MOST_CODE ||
        (*code >= 0xD800 && *code <= 0xDFFF))
        return pattern_refuse(r, at, "expected \\xHH or \\u{HHHH}");
    return 1;
}

/* What is after a backslash: a class, added to c (*code is then UINT32_MAX), or a character. */
static int read_escape_code(struct pattern_reader *r, struct code_ranges *c, uint32_t *code)
{
    static const char names[] = "ntrfv0", to[] = "\n\t\r\f\v\0";
    size_t at = r->at;
    char letter = r->at < r->n ? r->text[r->at] : 0;
    const char *name = letter ? strchr(names, letter) : NULL;
    int is_class = class_of(letter, c);
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

static int read_code(struct pattern_reader *r, uint32_t *code)
{
    size_t n = utf8_next(r->text + r->at, r->n - r->at, code);
    if (n == 0 || *code == UTF8_BAD)
        return pattern_refuse(r, r->at, "a byte that is not UTF-8");
    r->at += n;
    return 1;
}

/* [...], after the bracket. */
static int read_class(struct pattern_reader *r, struct code_ranges *c)
{
    size_t begin = r->at - 1;
    int inverted = r->at < r->n && r->text[r->at] == '^';
    r->at += inverted ? 1 : 0;
    for (int first = 1; r->at < r->n && (first || r->text[r->at] != ']'); first = 0) {
        uint32_t low, high;
        int escaped = r->text[r->at] == '\\';
        r->at += escaped ? 1 : 0;
        if (!(escaped ? read_escape_code(r, c, &low) : read_code(r, &low)))
            return 0;
        if (low == UINT32_MAX)
            continue;
        high = low;
        if (r->at + 1 < r->n && r->text[r->at] == '-' && r->text[r->at + 1] != ']') {
            r->at++;
            escaped = r->text[r->at] == '\\';
            r->at += escaped ? 1 : 0;
            if (!(escaped ? read_escape_code(r, c, &high) : read_code(r, &high)))
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

/* ---- structure ---- */

static int read_choice(struct pattern_reader *r, struct pattern_part *out);

static int pattern_group(struct pattern_reader *r, struct pattern_part *out)
{
    size_t begin = r->at - 1;
    if (r->at + 1 < r->n && r->text[r->at] == '?') {
        if (r->text[r->at + 1] != ':')
            return pattern_refuse(r, begin, "a group (? that is not (?: is not supported,");
        r->at += 2;
    }
    if (++r->depth > MOST_DEPTH)
        return pattern_refuse(r, begin, "groups that are too deep");
    if (!read_choice(r, out))
        return 0;
    r->depth--;
    if (r->at == r->n || r->text[r->at] != ')')
        return pattern_refuse(r, begin, "a ( without its )");
    r->at++;
    return 1;
}

static int read_atom(struct pattern_reader *r, struct pattern_part *out)
{
    struct code_ranges c = {.n = 0};
    uint32_t code;
    char letter = r->text[r->at];
    if (strchr("*+?{", letter) && letter)
        return pattern_refuse(r, r->at, "a repetition of nothing");
    if (letter == '^' || letter == '$')
        return pattern_refuse(r, r->at, "^ or $ inside, which is not supported,");
    if (letter == '(') {
        r->at++;
        return pattern_group(r, out);
    }
    if (letter == '[' || letter == '.' || letter == '\\')
        r->at++;
    if (letter == '[') {
        if (!read_class(r, &c))
            return 0;
    } else if (letter == '.') {
        codes_add(&c, 0, '\n' - 1);
        codes_add(&c, '\n' + 1, MOST_CODE);
    } else if (!(letter == '\\' ? read_escape_code(r, &c, &code) : read_code(r, &code)) ||
               (code != UINT32_MAX && !codes_add(&c, code, code))) {
        return 0;
    }
    return codes_part(r, &c, out);
}

static int read_count(struct pattern_reader *r, int *count)
{
    int n = 0;
    *count = 0;
    for (; r->at < r->n && r->text[r->at] >= '0' && r->text[r->at] <= '9' && *count <= MOST_TIMES;
         n++)
        *count = *count * 10 + r->text[r->at++] - '0';
    return n > 0 && *count <= MOST_TIMES;
}

/* *, +, ?, {m}, {m,}, {m,n} and a ? after them, which changes what matches first, not what matches. */
static int read_times(struct pattern_reader *r, int *least, int *most)
{
    size_t begin = r->at;
    char letter = r->at < r->n ? r->text[r->at] : 0;
    *least = *most = 1;
    if (letter != '*' && letter != '+' && letter != '?' && letter != '{')
        return 1;
    r->at++;
    *least = letter == '+';
    *most = letter == '?' ? 1 : NO_LIMIT;
    if (letter == '{') {
        if (!read_count(r, least))
            return pattern_refuse(r, begin, "expected {m}, {m,} or {m,n} of at most 10000");
        *most = *least;
        if (r->at < r->n && r->text[r->at] == ',') {
            r->at++;
            *most = NO_LIMIT;
            if (r->at < r->n && r->text[r->at] != '}' && !read_count(r, most))
                return pattern_refuse(r, begin, "expected {m}, {m,} or {m,n} of at most 10000");
        }
        if (r->at == r->n || r->text[r->at++] != '}' || (*most >= 0 && *most < *least))
            return pattern_refuse(r, begin, "expected {m}, {m,} or {m,n} of at most 10000");
    }
    if (r->at < r->n && r->text[r->at] == '+')
        return pattern_refuse(r, begin, "a possessive repetition is not supported,");
    r->at += r->at < r->n && r->text[r->at] == '?' ? 1 : 0;
    return 1;
}

/* An atom and its repetition: it is read again for each time. */
static int read_repeated(struct pattern_reader *r, struct pattern_part *out)
{
    size_t begin = r->at, end;
    struct pattern_part one;
    int least, most;
    if (!read_atom(r, &one) || !read_times(r, &least, &most) || !empty_part(r, out))
        return 0;
    end = r->at;
    int32_t after = new_fork(r, -1, -1);
    int times = most == NO_LIMIT ? (least > 0 ? least : 1) : most;
    for (int i = 0; i < times && after >= 0; i++) {
        r->at = begin;
        if (i > 0 && !read_atom(r, &one))
            return 0;
        int32_t fork = i >= least ? new_fork(r, one.start, after) : one.start;
        if (fork < 0)
            return 0;
        connect(r, out->end, fork);
        out->end = one.end;
        if (most == NO_LIMIT && i + 1 == times) { /* again, or on */
            int32_t again = new_fork(r, one.start, after);
            if (again < 0)
                return 0;
            connect(r, one.end, again);
        }
    }
    r->at = end;
    if (after < 0)
        return 0;
    if (most != NO_LIMIT || times == 0)
        connect(r, out->end, after);
    out->end = after;
    return 1;
}

static int read_sequence(struct pattern_reader *r, struct pattern_part *out)
{
    struct pattern_part next;
    if (!empty_part(r, out))
        return 0;
    while (r->at < r->n && r->text[r->at] != '|' && r->text[r->at] != ')') {
        if (r->depth == 0 && r->at + 1 == r->n && r->text[r->at] == '$') {
            r->at++;
            break;
        }
        if (!read_repeated(r, &next))
            return 0;
        connect(r, out->end, next.start);
        out->end = next.end;
    }
    return 1;
}

static int read_choice(struct pattern_reader *r, struct pattern_part *out)
{
    struct pattern_part next;
    if (!read_sequence(r, out))
        return 0;
    while (r->at < r->n && r->text[r->at] == '|') {
        r->at++;
        if (!read_sequence(r, &next))
            return 0;
        int32_t start = new_fork(r, out->start, next.start), end = new_fork(r, -1, -1);
        if (start < 0 || end < 0)
            return 0;
        connect(r, out->end, end);
        connect(r, next.end, end);
        *out = (struct pattern_part){start, end};
    }
    return 1;
}

int pattern_parse(struct pattern *p, const char *text, size_t n, mgpt_error *err)
{
    mgpt_error own = {.status = MGPT_OK};
    struct pattern_reader r = {.p = p, .text = text, .n = n, .err = &own};
    struct pattern_part all;
    *p = (struct pattern){.start = -1};
    r.at = n > 0 && text[0] == '^' ? 1 : 0;
    int ok = read_choice(&r, &all);
    if (ok && r.at < n)
        ok = pattern_refuse(&r, r.at, "a ) without its (");
    int32_t end = ok ? new_state(&r, PATTERN_END, 0, -1, -1) : -1;
    if (end < 0) {
        pattern_free(p);
        if (own.status == MGPT_OK)
            pattern_refuse(&r, r.at, "a class of too many ranges");
        if (err)
            *err = own;
        return own.status;
    }
    connect(&r, all.end, end);
    p->start = all.start;
    return MGPT_OK;
}

void pattern_free(struct pattern *p)
{
    arr_free(p->states);
    p->states = NULL;
}
