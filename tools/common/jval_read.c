/* JSON texts to values. See jval.h and jval_impl.h.
 *
 * The text is read twice by the same functions: first as it is, to check it and to count the words,
 * then as the copy, to decode strings in place and to write the words. In the copy "[ ]" becomes
 * "[]", and a string with a NUL gets a mark and its length, for which the 6 bytes of \u0000 are room.
 */
#include "base/utf8.h"
#include "common/jval_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 2048 }; /* as jansson */

/* The most bytes of words: of a text of any length, and for each of its bytes. */
enum { WORD_BYTES = 32 << 20, WORD_BYTES_PER_BYTE = 2 };

struct jval_reader {
    char *text; /* as it is: not written to, `words` is NULL */
    size_t n, at;
    int flags, depth;
    uint32_t *words;
    size_t n_words;
    struct jval_error *e;
};

/* ---- errors ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static int jval_fail(struct jval_reader *r, size_t at,
                                                           const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->e->text, sizeof r->e->text, format, args);
    va_end(args);
    r->e->offset = at;
    return -1;
}

/* "expected WHAT, found 'x'" */
static int jval_expected(struct jval_reader *r, const char *what)
{
    unsigned c = r->at < r->n ? (unsigned char)r->text[r->at] : 0;
    if (r->at == r->n)
        return jval_fail(r, r->at, "expected %s, found the end of the text", what);
    if (c > 0x20 && c < 0x7f)
        return jval_fail(r, r->at, "expected %s, found '%c'", what, c);
    return jval_fail(r, r->at, "expected %s, found the byte 0x%02x", what, c);
}

/* ---- strings and numbers --------------------------------------------------------------------- */

static void put_word(struct jval_reader *r, size_t at)
{
    if (r->words)
        r->words[r->n_words] = (uint32_t)((const char *)(r->words + r->n_words) - (r->text + at));
    r->n_words++;
}

static void jval_skip_spaces(struct jval_reader *r)
{
    while (r->at < r->n && r->text[r->at] && strchr(" \t\r\n", r->text[r->at]))
        r->at++;
}

/* Four hexadecimal digits at p, or -1. */
static int hex4(const char *p, size_t n)
{
    int v = 0;
    for (size_t i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdefABCDEF",
                   *d = i < n && p[i] ? strchr(digits, p[i]) : NULL;
        if (!d)
            return -1;
        v = 16 * v + (int)(d - digits < 16 ? d - digits : d - digits - 6);
    }
    return v;
}

/* What follows a backslash at p: its length, 0: no escape. *code: U+D800 for half a surrogate. */
static size_t escape_at(const char *p, size_t n, uint32_t *code)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *is_short = n && *p ? strchr(from, *p) : NULL;
    int high = n && *p == 'u' ? hex4(p + 1, n - 1) : -1, low = -1;
    if (is_short)
        *code = (unsigned char)to[is_short - from];
    if (is_short || high < 0)
        return is_short != NULL;
    *code = (uint32_t)high;
    if (high < 0xD800 || high > 0xDFFF)
        return 5;
    if (high < 0xDC00 && n > 6 && p[5] == '\\' && p[6] == 'u')
        low = hex4(p + 7, n - 7);
    int is_pair = low >= 0xDC00 && low <= 0xDFFF;
    *code =
        is_pair ? 0x10000 + (((uint32_t)high - 0xD800) << 10) + ((uint32_t)low - 0xDC00) : 0xD800;
    return is_pair ? 11 : 5;
}

/* One character of a string at i: its length in the text, -1 with an error. */
static int character_at(struct jval_reader *r, size_t i, uint32_t *code)
{
    unsigned char c = (unsigned char)r->text[i];
    if (c < 0x20)
        return jval_fail(r, i, "control character 0x%02x in a string", c);
    if (c != '\\') {
        int n = (int)utf8_next(r->text + i, r->n - i, code);
        return *code == UTF8_BAD ? jval_fail(r, i, "a string is not UTF-8: byte 0x%02x", c) : n;
    }
    size_t n = escape_at(r->text + i + 1, r->n - i - 1, code);
    if (n == 0)
        return jval_fail(r, i, "no escape of JSON");
    if (*code == 0xD800)
        return jval_fail(r, i, "half of a pair of surrogates: %.6s", r->text + i);
    return (int)(1 + n);
}

static int check_nul(struct jval_reader *r, size_t i, int is_key)
{
    if (is_key)
        return jval_fail(r, i, "\\u0000 in a key");
    return r->flags & JVAL_ALLOW_NUL ? 0 : jval_fail(r, i, "\\u0000 in a string");
}

/* Ends the string whose decoded bytes are [begin, end) of the copy. */
static void end_string(struct jval_reader *r, size_t begin, size_t end, int has_nul)
{
    uint32_t n = (uint32_t)(end - begin);
    if (has_nul) {
        r->text[begin - 1] = JVAL_NUL_MARK;
        memmove(r->text + begin + sizeof n, r->text + begin, n);
        memcpy(r->text + begin, &n, sizeof n);
        end += sizeof n;
    }
    r->text[end] = 0;
}

static int jval_read_string(struct jval_reader *r, int is_key)
{
    size_t begin = r->at + 1, to = begin;
    int has_nul = 0;
    put_word(r, r->at);
    for (r->at++; r->at < r->n && r->text[r->at] != '"';) {
        uint32_t code;
        int n = character_at(r, r->at, &code);
        if (n < 0 || (code == 0 && check_nul(r, r->at, is_key) < 0))
            return -1;
        has_nul |= code == 0;
        r->at += (size_t)n;
        if (r->words)
            to += utf8_put(code, r->text + to);
    }
    if (r->at == r->n)
        return jval_fail(r, begin - 1, "a string does not end");
    if (r->words)
        end_string(r, begin, to, has_nul);
    r->at++;
    return 0;
}

static size_t skip_digits(struct jval_reader *r)
{
    size_t begin = r->at;
    while (r->at < r->n && r->text[r->at] >= '0' && r->text[r->at] <= '9')
        r->at++;
    return r->at - begin;
}

static int is_next(const struct jval_reader *r, const char *among)
{
    return r->at < r->n && r->text[r->at] && strchr(among, r->text[r->at]) != NULL;
}

static int jval_read_number(struct jval_reader *r)
{
    size_t begin = r->at;
    put_word(r, begin);
    r->at += r->text[begin] == '-';
    if (is_next(r, "0"))
        r->at++;
    else if (skip_digits(r) == 0)
        return jval_expected(r, "a digit");
    if (is_next(r, ".")) {
        r->at++;
        if (skip_digits(r) == 0)
            return jval_expected(r, "a digit");
    }
    if (is_next(r, "eE")) {
        r->at++;
        r->at += (size_t)is_next(r, "+-");
        if (skip_digits(r) == 0)
            return jval_expected(r, "a digit");
    }
    if (is_next(r, "0123456789"))
        return jval_fail(r, begin, "a number begins with 0");
    if (r->words && isinf(strtod(r->text + begin, NULL)))
        return jval_fail(r, begin, "a number is too large");
    return 0;
}

static int jval_read_word(struct jval_reader *r)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if (r->n - r->at < n || memcmp(r->text + r->at, words[i], n) != 0)
            continue;
        put_word(r, r->at);
        r->at += n;
        return 0;
    }
    return jval_expected(r, "a value");
}

/* ---- containers ------------------------------------------------------------------------------ */

static int jval_read_value(struct jval_reader *r);

static int same_key(struct jval_reader *r, const struct jval *key)
{
    const char *name = jval_text(key);
    size_t n = strlen(name) < 60 ? strlen(name) : 60;
    return jval_fail(r, (size_t)(jval_source(key) - r->text), "duplicate object key '%.*s'",
                     (int)(n - utf8_incomplete(name, n)), name);
}

/* The keys of an object of few members are unique. */
static int check_small(struct jval_reader *r, const struct jval *object)
{
    for (struct jval_iter i = jval_begin(object); jval_next(&i);)
        for (struct jval_iter k = i; jval_next(&k);)
            if (strcmp(i.key, k.key) == 0)
                return same_key(r, k.value - 1);
    return 0;
}

/* Fills the hash table after the n members of an object. */
static int hash_keys(struct jval_reader *r, const struct jval *object, uint32_t *slots, size_t n)
{
    size_t probes;
    memset(slots, 0, n * sizeof *slots);
    for (struct jval_iter i = jval_begin(object); jval_next(&i);) {
        const struct jval *key = i.value - 1;
        size_t at = jval_find_slot(object, slots, n, i.key, &probes);
        if (slots[at] && probes < JVAL_MAX_PROBES)
            return same_key(r, key);
        if (slots[at])
            return jval_fail(r, (size_t)(jval_source(key) - r->text),
                             "keys that were chosen to be slow to look up");
        slots[at] = (uint32_t)(key - object);
    }
    return 0;
}

static void index_elements(const struct jval *array, uint32_t *begins, size_t n)
{
    const struct jval *element = array + JVAL_HEAD;
    for (size_t i = 0; i < n; i++) {
        begins[i] = (uint32_t)(element - array);
        element += jval_words(element);
    }
}

/* Ends the container whose words begin at `first`. */
static int end_container(struct jval_reader *r, size_t first, int is_object, size_t n)
{
    size_t members = r->n_words, more = is_object ? jval_slots(n) : n;
    if (!is_object && members - first - JVAL_HEAD == n)
        more = 0;
    r->n_words += more;
    if (!r->words)
        return 0;
    const struct jval *v = (const struct jval *)(r->words + first);
    r->words[first + 1] = (uint32_t)(r->n_words - first);
    r->words[first + 2] = (uint32_t)n;
    if (is_object)
        return more ? hash_keys(r, v, r->words + members, more) : check_small(r, v);
    if (more)
        index_elements(v, r->words + members, n);
    return 0;
}

static int jval_read_key(struct jval_reader *r)
{
    if (!is_next(r, "\""))
        return jval_expected(r, "a key in quotes");
    if (jval_read_string(r, 1) < 0)
        return -1;
    jval_skip_spaces(r);
    if (!is_next(r, ":"))
        return jval_expected(r, "':'");
    r->at++;
    return 0;
}

/* The elements or members up to the bracket, whose number is *n. */
static int jval_read_members(struct jval_reader *r, int is_object, size_t *n)
{
    const char close[] = {is_object ? '}' : ']', 0};
    for (;;) {
        jval_skip_spaces(r);
        if ((is_object && jval_read_key(r) < 0) || jval_read_value(r) < 0)
            return -1;
        ++*n;
        jval_skip_spaces(r);
        if (is_next(r, close))
            break;
        if (!is_next(r, ","))
            return jval_expected(r, is_object ? "',' or '}'" : "',' or ']'");
        r->at++;
    }
    r->at++;
    return 0;
}

static int jval_read_container(struct jval_reader *r)
{
    size_t begin = r->at, first = r->n_words, n = 0;
    int is_object = r->text[begin] == '{';
    put_word(r, begin);
    r->at++;
    jval_skip_spaces(r);
    if (is_next(r, is_object ? "}" : "]")) {
        if (r->words)
            r->text[begin + 1] = r->text[r->at];
        r->at++;
        return 0;
    }
    r->n_words += JVAL_HEAD - 1;
    if (++r->depth > MAX_DEPTH)
        return jval_fail(r, begin, "more than %d brackets in one another", MAX_DEPTH);
    if (jval_read_members(r, is_object, &n) < 0)
        return -1;
    r->depth--;
    return end_container(r, first, is_object, n);
}

static int jval_read_value(struct jval_reader *r)
{
    jval_skip_spaces(r);
    if (is_next(r, "{["))
        return jval_read_container(r);
    if (is_next(r, "\""))
        return jval_read_string(r, 0);
    return is_next(r, "-0123456789") ? jval_read_number(r) : jval_read_word(r);
}

/* ---- the text -------------------------------------------------------------------------------- */

static int jval_read_root(struct jval_reader *r)
{
    jval_skip_spaces(r);
    if (!is_next(r, "{["))
        return jval_expected(r, "'{' or '['");
    if (jval_read_value(r) < 0)
        return -1;
    size_t end = r->at;
    jval_skip_spaces(r);
    if (!(r->flags & JVAL_FIRST) && r->at < r->n)
        return jval_expected(r, "the end of the text");
    r->at = end;
    return 0;
}

static const struct jval *no_values(struct jval_error *e, const char *text)
{
    e->line = e->column = 1;
    for (size_t i = 0; i < e->offset; i++) {
        e->line += text[i] == '\n';
        e->column = text[i] == '\n' ? 1 : e->column + 1;
    }
    return NULL;
}

/* Room for a copy of n bytes from where the value begins and for the words; r goes over the copy. */
static int jval_copy(struct jval_reader *r, const char *text, size_t n)
{
    size_t words = (n + sizeof(uint32_t)) / sizeof(uint32_t) * sizeof(uint32_t);
    char *copy = malloc(words + r->n_words * sizeof(uint32_t));
    r->e->is_memory = !copy;
    if (!copy)
        return jval_fail(r, 0, "out of memory");
    memcpy(copy, text, n);
    copy[n] = 0;
    *r = (struct jval_reader){.text = copy, .n = n, .flags = r->flags, .e = r->e};
    r->words = (uint32_t *)(void *)(copy + words);
    return 0;
}

const struct jval *jval_read(const void *text, size_t n, int flags, size_t *end,
                             struct jval_error *e)
{
    struct jval_reader r = {.text = (char *)(uintptr_t)text, .n = n, .flags = flags, .e = e};
    size_t begin = 0;
    *e = (struct jval_error){0};
    jval_skip_spaces(&r);
    begin = r.at;
    if (jval_read_root(&r) < 0)
        return no_values(e, text);
    size_t most = WORD_BYTES / sizeof(uint32_t) + WORD_BYTES_PER_BYTE * (r.at / sizeof(uint32_t));
    if (end)
        *end = r.at;
    if (r.n_words > most || r.at + r.n_words * sizeof(uint32_t) > UINT32_MAX - sizeof(uint64_t)) {
        jval_fail(&r, r.at, "too many values for a text of this size");
        return no_values(e, text);
    }
    if (jval_copy(&r, (const char *)text + begin, r.at - begin) < 0)
        return no_values(e, text);
    const struct jval *root = (const struct jval *)r.words;
    if (jval_read_root(&r) == 0)
        return root;
    e->offset += begin;
    free(r.text);
    return no_values(e, text);
}

void jval_free(const struct jval *root)
{
    if (root)
        free((void *)(uintptr_t)jval_source(root));
}
