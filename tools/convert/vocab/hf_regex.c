/* Patterns of tokenizer.json, which Oniguruma reads in Ruby's syntax, in PCRE2's. See hf_steps.h.
 *
 * The languages are close: both search the leftmost match and try alternatives in order. Escapes
 * that mean something else are rewritten (\s \w \d \h \v, ^ and $ of lines), and the few constructs
 * without an exact counterpart are refused: back references, (?m), class intersections, POSIX
 * classes, case folding of several characters.
 */
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "convert/vocab/hf_steps.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* A pattern being translated. */
struct regex_reader {
    const char *p;     /* what is left */
    char **out;        /* stb_ds array */
    const char *what;  /* what is refused */
    int failed;        /* out of memory */
    unsigned depth;    /* of parentheses */
    uint64_t caseless; /* bit of each depth: inside (?i */
};

int hf_regex_put(char **out, const char *text)
{
    size_t at = arr_len(*out), n = strlen(text);
    at -= at > 0; /* the NUL */
    if (!arr_reserve(*out, at + n + 1))
        return 0;
    memcpy(*out + at, text, n + 1);
    arr_set_len(*out, at + n + 1);
    return 1;
}

static void emit(struct regex_reader *r, const char *text)
{
    r->failed |= !hf_regex_put(r->out, text);
}

static void emit_n(struct regex_reader *r, const char *p, size_t n)
{
    char text[64];
    for (size_t i = 0; i < n; i += sizeof text - 1) {
        size_t part = n - i < sizeof text - 1 ? n - i : sizeof text - 1;
        memcpy(text, p + i, part);
        text[part] = 0;
        emit(r, text);
    }
}

static void refuse_regex(struct regex_reader *r, const char *what)
{
    if (!r->what)
        r->what = what;
}

static int is_caseless(const struct regex_reader *r)
{
    return (r->caseless >> r->depth & 1) != 0;
}

/* ---- escapes --------------------------------------------------------------------------------- */

/* Oniguruma's \w has six characters of Latin-1 more outside [...]: superscripts and fractions. */
#define WORD_IN_CLASS                                                                              \
    HF_WORD "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"                        \
            "\\x{1f170}-\\x{1f189}"
#define WORD WORD_IN_CLASS "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

/* What an escape of a class matches, as it is written inside [...]; NULL: another escape. */
static const char *class_members(char c, int in_class)
{
    switch (c) {
    case 's':
        return HF_WHITE;
    case 'w':
        return in_class ? WORD_IN_CLASS : WORD;
    case 'd':
        return "\\p{Nd}";
    case 'h':
        return "0-9A-Fa-f";
    default:
        return NULL;
    }
}

/* A number of hexadecimal digits as \x{...}; 0 if there is none. */
static void read_hex(struct regex_reader *r, size_t most, int braces)
{
    char hex[9] = "", text[16];
    size_t n = 0;
    r->p += braces;
    while (n < most && isxdigit((unsigned char)*r->p))
        hex[n++] = *r->p++;
    hex[n] = 0;
    if (n == 0 || (braces && *r->p != '}') || (!braces && most == 4 && n != 4)) {
        refuse_regex(r, "a \\x or \\u without its digits");
        return;
    }
    r->p += braces;
    snprintf(text, sizeof text, "\\x{%s}", hex);
    emit(r, text);
}

/* \p{NAME}, at the p. Names are checked: a script is not a script extension. A negated one is written
 * as a class: PCRE2 10.42 makes a repetition of \P{M} before \P{N} possessive. */
static void read_property(struct regex_reader *r, int in_class)
{
    static const char categories[] =
        " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C "
        "Cc Cf Co ";
    static const char scripts[] =
        " Han Hiragana Katakana Hangul Latin Greek Cyrillic Arabic Hebrew Thai Lao Devanagari "
        "Bengali Tamil Telugu Kannada Malayalam Gujarati Gurmukhi Sinhala Armenian Georgian "
        "Ethiopic Khmer Myanmar Tibetan Mongolian Common ";
    char name[32], word[36], text[64];
    int negated = *r->p == 'P';
    size_t n = 0;
    const char *p = r->p + 1;
    if (*p++ != '{') {
        refuse_regex(r, "\\p without a name in braces");
        return;
    }
    negated ^= *p == '^';
    p += *p == '^';
    while (n < sizeof name - 1 && isalpha((unsigned char)*p))
        name[n++] = *p++;
    name[n] = 0;
    snprintf(word, sizeof word, " %s ", name);
    int is_script = strstr(scripts, word) != NULL;
    if (*p != '}' || n == 0 || (!is_script && !strstr(categories, word)) || is_caseless(r)) {
        refuse_regex(r, "this \\p{...}");
        return;
    }
    const char *form = !negated ? "\\p{%s%s}" : in_class ? "\\P{%s%s}" : "[^\\p{%s%s}]";
    snprintf(text, sizeof text, form, is_script ? "sc:" : "", name);
    emit(r, text);
    r->p = p + 1;
}

/* Escapes of one character, in a class or not; 0 if it is another escape. */
static int read_char_escape(struct regex_reader *r, int in_class)
{
    char c = *r->p, text[3] = {'\\', c, 0};
    if (c == 'n' || c == 'r' || c == 't' || c == 'f' || c == 'a' || c == 'e') {
        emit(r, text);
    } else if (c == 'v') {
        emit(r, "\\x{b}");
    } else if (c == 'x' || c == 'u') {
        r->p++;
        read_hex(r, c == 'u' ? 4 : *r->p == '{' ? 8 : 2, c == 'x' && *r->p == '{');
        return 1;
    } else if (c == 'p' || c == 'P') {
        read_property(r, in_class);
        return 1;
    } else if (c > 0 && !isalnum((unsigned char)c)) {
        emit(r, text);
    } else {
        return 0;
    }
    r->p++;
    return 1;
}

static void emit_class(struct regex_reader *r, const char *members, int negated)
{
    emit(r, negated ? "[^" : "[");
    emit(r, members);
    emit(r, "]");
}

/* After a backslash outside [...]. */
static void read_escape(struct regex_reader *r)
{
    char c = *r->p, low = (char)tolower((unsigned char)c);
    const char *members = class_members(low, 0);
    if (members) {
        emit_class(r, members, c != low);
        r->p++;
    } else if (c == 'A' || c == 'z' || c == 'Z') {
        const char text[3] = {'\\', c, 0};
        emit(r, text);
        r->p++;
    } else if (c == 'b' || c == 'B') {
        emit(r, c == 'b' ? "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))"
                         : "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))");
        r->p++;
    } else if (!read_char_escape(r, 0)) {
        refuse_regex(r, "an escape that is not known");
    }
}

/* ---- classes --------------------------------------------------------------------------------- */

static void read_class_escape(struct regex_reader *r)
{
    char c = *r->p, low = (char)tolower((unsigned char)c);
    const char *members = class_members(low, 1);
    if (is_caseless(r) && (c == 'w' || c == 'S' || c == 'D')) /* holds "ff", as U+FB00 */
        refuse_regex(r, "(?i with letters that may be one character");
    if (members && c == low)
        emit(r, members);
    else if (c == 'S') /* PCRE2's white space has one character more */
        emit(r, "\\S\\x{180e}");
    else if (c == 'D')
        emit(r, "\\P{Nd}");
    else if (members)
        refuse_regex(r, "\\W or \\H in a class");
    else if (!read_char_escape(r, 1))
        refuse_regex(r, "an escape that is not known");
    r->p += members != NULL;
}

/* After the [. */
static void read_class(struct regex_reader *r)
{
    emit(r, "[");
    if (*r->p == '^')
        emit_n(r, r->p++, 1);
    if (*r->p == ']')
        refuse_regex(r, "a ] at the start of a class");
    while (*r->p && *r->p != ']' && !r->what) {
        if (*r->p == '\\') {
            r->p++;
            read_class_escape(r);
        } else if (*r->p == '[' || (r->p[0] == '&' && r->p[1] == '&')) {
            refuse_regex(r, "a class inside a class");
        } else {
            if ((unsigned char)*r->p >= 0x80 && is_caseless(r))
                refuse_regex(r, "(?i with characters beyond ASCII");
            emit_n(r, r->p++, 1);
        }
    }
    if (!*r->p)
        refuse_regex(r, "a [ without ]");
    else
        r->p++;
    emit(r, "]");
}

/* ---- groups and repetitions ------------------------------------------------------------------ */

/* After the (. */
static void read_group(struct regex_reader *r)
{
    static const char *const kinds[] = {"?:", "?=", "?!", "?<=", "?<!", "?>", "?i:"};
    size_t kind = 0;
    unsigned caseless = (unsigned)is_caseless(r);
    while (kind < 7 && strncmp(r->p, kinds[kind], strlen(kinds[kind])) != 0)
        kind++;
    if ((*r->p == '?' && kind == 7) || *r->p == '*' || r->depth >= 40) {
        refuse_regex(r, "this kind of group");
        return;
    }
    emit(r, "(");
    if (kind < 7) {
        emit(r, kinds[kind]);
        r->p += strlen(kinds[kind]);
    }
    r->depth++;
    r->caseless &= ~(UINT64_C(1) << r->depth);
    if (kind == 6 || caseless)
        r->caseless |= UINT64_C(1) << r->depth;
}

/* {n}, {n,}, {,m}, {n,m}: after it, + repeats once more, it is not possessive. 0: a plain brace. */
static int read_counts(struct regex_reader *r)
{
    unsigned from = 0, to = 0;
    int used = 0;
    const char *end = r->p + 1 + strspn(r->p + 1, "0123456789,");
    size_t n = (size_t)(end + 1 - r->p);
    char text[40];
    if (*end != '}' || n == 2)
        return 0;
    if (sscanf(r->p, "{%5u,%5u}%n", &from, &to, &used) == 2 && used)
        snprintf(text, sizeof text, "{%u,%u}", from, to);
    else if (sscanf(r->p, "{,%5u}%n", &to, &used) == 1 && used)
        snprintf(text, sizeof text, "{0,%u}", to);
    else
        snprintf(text, sizeof text, "%.*s", (int)n, r->p);
    if (n >= sizeof text)
        refuse_regex(r, "{...} of more than 37 characters");
    r->p = end + 1;
    if (*r->p == '+' || *r->p == '*')
        refuse_regex(r, "{...}+, which repeats a repetition");
    emit(r, text);
    return 1;
}

/* Sequences that fold to one character, as in "ss" and U+00DF. */
static void check_folding(struct regex_reader *r)
{
    static const char *const folded[] = {"ss", "ff", "fi", "fl", "st"};
    char two[3] = {(char)tolower((unsigned char)r->p[0]), 0, 0};
    if (!is_caseless(r) || !two[0])
        return;
    two[1] = (char)tolower((unsigned char)r->p[1]);
    if ((unsigned char)two[0] >= 0x80)
        refuse_regex(r, "(?i with characters beyond ASCII");
    for (size_t i = 0; i < sizeof folded / sizeof *folded; i++)
        if (strcmp(two, folded[i]) == 0)
            refuse_regex(r, "(?i with letters that may be one character");
}

static void read_item(struct regex_reader *r)
{
    char c = *r->p;
    if (c == '{') {
        if (!read_counts(r)) {
            emit(r, "\\{");
            r->p++;
        }
        return;
    }
    check_folding(r);
    r->p++;
    if (c == '\\')
        read_escape(r);
    else if (c == '[')
        read_class(r);
    else if (c == '(')
        read_group(r);
    else if (c == '.')
        emit(r, "[^\\n]");
    else if (c == '^' || c == '$')
        emit(r, c == '^' ? "(?m:^)" : "(?m:$)");
    else
        emit_n(r, &c, 1);
    if (c == ')' && r->depth > 0)
        r->depth--;
}

int hf_regex_translate(const char *pattern, char **out, const char **what, mgpt_error *err)
{
    struct regex_reader r = {.p = pattern, .out = out};
    emit(&r, "");
    if (strncmp(r.p, "(?i)", 4) == 0) { /* elsewhere it would end with its alternative */
        r.p += 4;
        r.caseless = 1;
        emit(&r, "(?i)");
    }
    while (*r.p && !r.what && !r.failed)
        read_item(&r);
    *what = r.what;
    if (r.failed)
        return err_memory(err, "a pattern", strlen(pattern));
    return r.what ? MGPT_EFILE : MGPT_OK;
}

int hf_regex_quote(const char *text, char **out, mgpt_error *err)
{
    int ok = hf_regex_put(out, "");
    for (const char *p = text; *p && ok; p++) {
        const char quoted[3] = {'\\', *p, 0};
        ok = hf_regex_put(out, strchr("\\^$.[|()?*+{]}-#", *p) ? quoted : quoted + 1);
    }
    return ok ? MGPT_OK : err_memory(err, "a pattern", strlen(text));
}
