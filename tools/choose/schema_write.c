/* Parts of the expressions of JSON schemas: values as they are written, strings with a pattern or a format, ranges of whole
 * numbers. See schema_impl.h. */
#include "choose/pattern.h"
#include "choose/schema_impl.h"
#include "choose/shortest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_VALUE_DEPTH = 32, WHOLE_DIGITS = 15 };

/* ---- values ---- */

/* Bytes that stand for themselves. */
static int schema_plain(struct schema *s, const char *text, size_t n)
{
    int ok = 1;
    for (size_t i = 0; ok && i < n; i++) {
        char c = text[i];
        int is_letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        ok = (is_letter || (unsigned char)c >= 0x80 || schema_put(s, "\\")) &&
             schema_put_n(s, &c, 1);
    }
    return ok;
}

int schema_put_literal(struct schema *s, const char *text, size_t n)
{
    static const char codes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    int ok = schema_put(s, "\"");
    for (size_t i = 0; ok && i < n; i++) {
        const char *at = text[i] ? strchr(codes, text[i]) : NULL;
        char escape[8];
        if (at)
            snprintf(escape, sizeof escape, "\\%c", letters[at - codes]);
        else if ((unsigned char)text[i] < ' ')
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)text[i]);
        else
            snprintf(escape, sizeof escape, "%c", text[i]);
        ok = schema_plain(s, escape, strlen(escape));
    }
    return ok && schema_put(s, "\"");
}

static int schema_value_number(struct schema *s, const struct jval *v)
{
    char text[40];
    if (jval_is(v, JVAL_INTEGER)) {
        snprintf(text, sizeof text, "%lld", (long long)jval_whole(v));
        return schema_plain(s, text, strlen(text));
    }
    const char *digits;
    size_t n_digits = jval_long_whole(v, &digits);
    if (n_digits > 0) /* a double would be another number */
        return schema_plain(s, digits, n_digits);
    shortest_number(text, sizeof text, jval_number(v), 15, 0);
    return schema_plain(s, text, strlen(text));
}

static int schema_value_at(struct schema *s, const struct jval *v, int depth)
{
    static const char *const words[] = {[JVAL_TRUE] = "true", [JVAL_FALSE] = "false"};
    int ok = 1;
    if (depth == MOST_VALUE_DEPTH)
        return schema_refuse(s, "a value is nested more than %d deep", MOST_VALUE_DEPTH);
    if (jval_is(v, JVAL_STRING))
        return schema_put_literal(s, jval_text(v), jval_text_size(v));
    if (jval_is_numeric(v))
        return schema_value_number(s, v);
    if (!jval_is(v, JVAL_OBJECT) && !jval_is(v, JVAL_ARRAY))
        return schema_put(s, jval_is_flag(v) ? words[jval_type(v)] : "null");
    ok = schema_put(s, jval_is(v, JVAL_OBJECT) ? "\\{" : "\\[");
    for (size_t i = 0; ok && jval_is(v, JVAL_ARRAY) && i < jval_size(v); i++)
        ok = schema_put(s, i > 0 ? SCHEMA_COMMA : "") &&
             schema_value_at(s, jval_at(v, i), depth + 1);
    size_t n = 0;
    for (struct jval_iter i = jval_begin(v); ok && jval_is(v, JVAL_OBJECT) && jval_next(&i);)
        ok = schema_put(s, n++ > 0 ? SCHEMA_COMMA : "") &&
             schema_put_literal(s, i.key, strlen(i.key)) && schema_put(s, ": ?") &&
             schema_value_at(s, i.value, depth + 1);
    return ok && schema_put(s, jval_is(v, JVAL_OBJECT) ? "\\}" : "\\]");
}

int schema_put_value(struct schema *s, const struct jval *v)
{
    return schema_value_at(s, v, 0);
}

/* ---- strings ---- */

/* 1 if a | is in no group. *ends: the $ at the end is no character. */
static int has_choice(const char *text, size_t n, int *ends)
{
    int depth = 0, in_class = 0, found = 0;
    *ends = 0;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '\\') {
            i++;
            continue;
        }
        *ends = i + 1 == n && c == '$' && !in_class;
        in_class = in_class ? c != ']' : c == '[';
        depth += in_class ? 0 : (c == '(') - (c == ')');
        found |= c == '|' && !in_class && depth == 0;
    }
    return found;
}

int schema_put_search(struct schema *s, const struct jval *pattern)
{
    const char *text = jval_text(pattern);
    size_t n = text ? jval_text_size(pattern) : 0;
    struct pattern parsed;
    mgpt_error err = {.status = MGPT_OK};
    int begins = n > 0 && *text == '^', ends;
    if (!text)
        return schema_refuse(s, "pattern: expected a string");
    if (has_choice(text, n, &ends) && (begins || ends))
        return schema_refuse(s, "pattern: ^ and $ with a | outside of groups are not supported");
    if (pattern_parse(&parsed, text + begins, n - (size_t)(begins + ends), &err) < 0)
        return schema_refuse(s, "pattern: %s", err.text);
    pattern_free(&parsed);
    return schema_put(s, "\"(?j:") && schema_put(s, begins ? "(?:" : SCHEMA_ANY "*(?:") &&
           schema_put_n(s, text + begins, n - (size_t)(begins + ends)) &&
           schema_put(s, ends ? "))\"" : ")" SCHEMA_ANY "*)\"");
}

/* February has 28 days, a minute 60 seconds, an address no leading zeros. */
#define DATE_TEXT                                                                                  \
    "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|" \
    "30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define TIME_TEXT                                                                                  \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):["  \
    "0-"                                                                                           \
    "5][0-9])"
#define HEX_TEXT(n) "[0-9a-f]{" n "}"
#define BYTE_TEXT "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

int schema_put_format(struct schema *s, const struct jval *format)
{
    static const struct {
        const char *name, *text;
    } rows[] = {{"date", DATE_TEXT},
                {"time", TIME_TEXT},
                {"date-time", DATE_TEXT "T" TIME_TEXT},
                {"uuid", HEX_TEXT("8") "(?:-" HEX_TEXT("4") "){3}-" HEX_TEXT("12")},
                {"ipv4", BYTE_TEXT "(?:\\." BYTE_TEXT "){3}"}};
    const char *name = jval_text(format);
    for (size_t i = 0; name && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return schema_put(s, "\"") && schema_put(s, rows[i].text) && schema_put(s, "\"");
    return schema_refuse(s, "format: expected date, time, date-time, uuid or ipv4, found '%.40s'",
                         name ? name : "");
}

/* ---- ranges ---- */

static int schema_any_digits(struct schema *s, int n)
{
    char text[24];
    snprintf(text, sizeof text, "[0-9]{%d}", n);
    return n <= 0 || schema_put(s, text);
}

static int schema_digit(struct schema *s, char low, char high)
{
    char text[8];
    snprintf(text, sizeof text, "[%c-%c]", low, high);
    return schema_put(s, text);
}

/* The numbers of n digits from low to high. */
static int schema_digits(struct schema *s, const char *low, const char *high, int n)
{
    static const char zeros[] = "000000000000000", nines[] = "999999999999999";
    size_t rest = n > 0 ? (size_t)n - 1 : 0;
    if (n == 0)
        return 1;
    if (*low == *high)
        return schema_digit(s, *low, *low) && schema_digits(s, low + 1, high + 1, n - 1);
    int whole_low = memcmp(low + 1, zeros, rest) == 0,
        whole_high = memcmp(high + 1, nines, rest) == 0;
    char from = (char)(*low + !whole_low), to = (char)(*high - !whole_high);
    int ok = schema_put(s, "(?:");
    if (ok && from <= to)
        ok = schema_digit(s, from, to) && schema_any_digits(s, n - 1) &&
             schema_put(s, whole_low && whole_high ? "" : "|");
    if (ok && !whole_low)
        ok = schema_digit(s, *low, *low) && schema_digits(s, low + 1, nines, n - 1) &&
             schema_put(s, whole_high ? "" : "|");
    if (ok && !whole_high)
        ok = schema_digit(s, *high, *high) && schema_digits(s, zeros, high + 1, n - 1);
    return ok && schema_put(s, ")");
}

/* The numbers from low to high, which are not negative. */
static int schema_magnitudes(struct schema *s, long long low, long long high)
{
    char from[24], to[24];
    int ok = schema_put(s, "(?:"), n = 0;
    long long first = 0, last = 9;
    for (int digits = 1; ok && digits <= WHOLE_DIGITS; digits++) {
        if (low <= last && high >= first) {
            snprintf(from, sizeof from, "%lld", low > first ? low : first);
            snprintf(to, sizeof to, "%lld", high < last ? high : last);
            ok = schema_put(s, n++ > 0 ? "|" : "") && schema_digits(s, from, to, digits);
        }
        first = last + 1;
        last = last * 10 + 9;
    }
    return ok && schema_put(s, ")");
}

/* Narrows a bound by a keyword. 0: refused. */
static int read_bound(struct schema *s, const struct jval *v, const char *key, int is_least,
                      double *bound)
{
    const struct jval *value = jval_get(v, key);
    int exclusive = key[0] == 'e';
    if (!value)
        return 1;
    if (!jval_is_numeric(value))
        return schema_refuse(s, "%s: expected a number", key);
    double x = is_least ? ceil(jval_number(value)) : floor(jval_number(value));
    if (exclusive && x == jval_number(value))
        x += is_least ? 1 : -1;
    *bound = is_least ? fmax(*bound, x) : fmin(*bound, x);
    return 1;
}

int schema_put_range(struct schema *s, const struct jval *v)
{
    const double most = 999999999999999; /* WHOLE_DIGITS */
    double low = -most, high = most;
    if (!read_bound(s, v, "minimum", 1, &low) || !read_bound(s, v, "exclusiveMinimum", 1, &low) ||
        !read_bound(s, v, "maximum", 0, &high) || !read_bound(s, v, "exclusiveMaximum", 0, &high))
        return 0;
    if (low > high)
        return schema_refuse(s,
                             "no whole number of at most %d digits is between minimum and "
                             "maximum",
                             WHOLE_DIGITS);
    int is_negative = low < 0, ok = 1;
    if (is_negative)
        ok = schema_put(s, "-") &&
             schema_magnitudes(s, high < 0 ? (long long)-high : 1, (long long)-low) &&
             schema_put(s, high >= 0 ? "|" : "");
    return ok && (high < 0 || schema_magnitudes(s, low > 0 ? (long long)low : 0, (long long)high));
}
