/* Patterns of tokenizer.json, which Oniguruma reads in Ruby's syntax, in PCRE2's. See hf_steps.h.
 *
 * The languages are close: both search the leftmost match and try alternatives in order. Escapes
 * that mean something else are rewritten (\s \w \d \h \v, ^ and $ of lines), classes in classes and
 * intersections become look-aheads (hf_regex_class.c), and the few constructs without an exact
 * counterpart are refused: (?m), references to groups that are not closed, case folding of several
 * characters.
 */
#include "base/mem.h"
#include "base/utf8.h"
#include "convert/vocab/hf_regex_impl.h"
#include "convert/vocab/hf_steps.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

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

void regex_emit(struct regex_reader *r, const char *text)
{
    r->failed |= !hf_regex_put(r->out, text);
}

void regex_emit_n(struct regex_reader *r, const char *p, size_t n)
{
    char text[64];
    for (size_t i = 0; i < n; i += sizeof text - 1) {
        size_t part = n - i < sizeof text - 1 ? n - i : sizeof text - 1;
        memcpy(text, p + i, part);
        text[part] = 0;
        regex_emit(r, text);
    }
}

void regex_refuse(struct regex_reader *r, const char *what)
{
    if (!r->what)
        r->what = what;
}

int regex_is_caseless(const struct regex_reader *r)
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
const char *regex_class_members(char c, int in_class)
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

/* Writes a number of hexadecimal digits as \x{...}. Refuses the pattern if there are none. */
static void read_hex(struct regex_reader *r, size_t most, int braces)
{
    char hex[9] = "", text[16];
    size_t n = 0;
    r->p += braces;
    while (n < most && isxdigit((unsigned char)*r->p))
        hex[n++] = *r->p++;
    hex[n] = 0;
    if (n == 0 || (braces && *r->p != '}') || (!braces && most == 4 && n != 4)) {
        regex_refuse(r, "a \\x or \\u without its digits");
        return;
    }
    r->p += braces;
    snprintf(text, sizeof text, "\\x{%s}", hex);
    regex_emit(r, text);
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
        regex_refuse(r, "\\p without a name in braces");
        return;
    }
    negated ^= *p == '^';
    p += *p == '^';
    while (n < sizeof name - 1 && isalpha((unsigned char)*p))
        name[n++] = *p++;
    name[n] = 0;
    snprintf(word, sizeof word, " %s ", name);
    int is_script = strstr(scripts, word) != NULL;
    if (*p != '}' || n == 0 || (!is_script && !strstr(categories, word)) || regex_is_caseless(r)) {
        regex_refuse(r, "this \\p{...}");
        return;
    }
    const char *form = !negated ? "\\p{%s%s}" : in_class ? "\\P{%s%s}" : "[^\\p{%s%s}]";
    snprintf(text, sizeof text, form, is_script ? "sc:" : "", name);
    regex_emit(r, text);
    r->p = p + 1;
}

/* Escapes of one character, in a class or not; 0 if it is another escape. */
int regex_char_escape(struct regex_reader *r, int in_class)
{
    char c = *r->p, text[3] = {'\\', c, 0};
    if (c == 'n' || c == 'r' || c == 't' || c == 'f' || c == 'a' || c == 'e') {
        regex_emit(r, text);
    } else if (c == 'v') {
        regex_emit(r, "\\x{b}");
    } else if (c == 'x' || c == 'u') {
        r->p++;
        read_hex(r, c == 'u' ? 4 : *r->p == '{' ? 8 : 2, c == 'x' && *r->p == '{');
        return 1;
    } else if (c == 'p' || c == 'P') {
        read_property(r, in_class);
        return 1;
    } else if (c > 0 && !isalnum((unsigned char)c)) {
        regex_emit(r, text);
    } else {
        return 0;
    }
    r->p++;
    return 1;
}

static void emit_class(struct regex_reader *r, const char *members, int negated)
{
    regex_emit(r, negated ? "[^" : "[");
    regex_emit(r, members);
    regex_emit(r, "]");
}

/* \N: what group N matched. With named groups, plain ones do not capture in Ruby's syntax. */
static void read_reference(struct regex_reader *r)
{
    unsigned group = (unsigned)(*r->p - '0');
    char text[8];
    if (isdigit((unsigned char)r->p[1]) || !(r->closed >> group & 1) || r->named ||
        regex_is_caseless(r)) {
        regex_refuse(r, "a back reference to a group that is not closed, is named or is in (?i");
        return;
    }
    snprintf(text, sizeof text, "\\g{%u}", group);
    regex_emit(r, text);
    r->p++;
}

/* The length of a name that > ends, 0: none. */
static size_t name_length(const char *p)
{
    size_t n = 0;
    while (n < 30 && (isalpha((unsigned char)p[n]) || p[n] == '_'))
        n++;
    return p[n] == '>' ? n : 0;
}

/* k<NAME>: PCRE2 refuses it where there is no such group before. */
static void read_named_reference(struct regex_reader *r)
{
    size_t n = name_length(r->p + 2);
    if (n == 0 || r->closed == 0 || regex_is_caseless(r)) {
        regex_refuse(r, "a back reference to a group that is not closed, or is in (?i");
        return;
    }
    regex_emit(r, "\\");
    regex_emit_n(r, r->p, n + 3);
    r->p += n + 3;
}

/* After a backslash outside [...]. */
static void read_escape(struct regex_reader *r)
{
    char c = *r->p, low = (char)tolower((unsigned char)c);
    const char *members = regex_class_members(low, 0);
    if (members) {
        emit_class(r, members, c != low);
        r->p++;
    } else if (c == 'A' || c == 'z' || c == 'Z') {
        const char text[3] = {'\\', c, 0};
        regex_emit(r, text);
        r->p++;
    } else if (c == 'b' || c == 'B') {
        regex_emit(r, c == 'b' ? "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))"
                               : "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))");
        r->p++;
    } else if (c >= '1' && c <= '9') {
        read_reference(r);
    } else if (c == 'k' && r->p[1] == '<') {
        read_named_reference(r);
    } else if (!regex_char_escape(r, 0)) {
        regex_refuse(r, "an escape that is not known");
    }
}

/* ---- groups and repetitions ------------------------------------------------------------------ */

/* After the (. */
static void read_group(struct regex_reader *r)
{
    static const char *const kinds[] = {"?:", "?=", "?!", "?<=", "?<!", "?>", "?i:"};
    size_t kind = 0;
    unsigned caseless = (unsigned)regex_is_caseless(r);
    while (kind < 7 && strncmp(r->p, kinds[kind], strlen(kinds[kind])) != 0)
        kind++;
    size_t name = strncmp(r->p, "?<", 2) == 0 ? name_length(r->p + 2) : 0;
    if ((*r->p == '?' && kind == 7 && !name) || *r->p == '*' || r->depth >= 40) {
        regex_refuse(r, "this kind of group");
        return;
    }
    regex_emit(r, "(");
    if (kind < 7) {
        regex_emit(r, kinds[kind]);
        r->p += strlen(kinds[kind]);
    } else if (name) {
        r->named = 1;
        regex_emit_n(r, r->p, name + 3);
        r->p += name + 3;
    }
    r->depth++;
    r->group[r->depth] = kind < 7 ? 0 : ++r->n_groups;
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
        regex_refuse(r, "{...} of more than 37 characters");
    r->p = end + 1;
    if (*r->p == '+' || *r->p == '*')
        regex_refuse(r, "{...}+, which repeats a repetition");
    regex_emit(r, text);
    return 1;
}

/* Sequences that fold to one character, as in "ss" and U+00DF. */
static void check_folding(struct regex_reader *r)
{
    static const char *const folded[] = {"ss", "ff", "fi", "fl", "st"};
    char two[3] = {(char)tolower((unsigned char)r->p[0]), 0, 0};
    if (!regex_is_caseless(r) || !two[0])
        return;
    two[1] = (char)tolower((unsigned char)r->p[1]);
    if ((unsigned char)two[0] >= 0x80)
        regex_refuse(r, "(?i with characters beyond ASCII");
    for (size_t i = 0; i < sizeof folded / sizeof *folded; i++)
        if (strcmp(two, folded[i]) == 0)
            regex_refuse(r, "(?i with letters that may be one character");
}

static void read_item(struct regex_reader *r)
{
    char c = *r->p;
    if (c == '{') {
        if (!read_counts(r)) {
            regex_emit(r, "\\{");
            r->p++;
        }
        return;
    }
    check_folding(r);
    r->p++;
    if (c == '\\')
        read_escape(r);
    else if (c == '[')
        regex_read_class(r);
    else if (c == '(')
        read_group(r);
    else if (c == '.')
        regex_emit(r, "[^\\n]");
    else if (c == '^' || c == '$')
        regex_emit(r, c == '^' ? "(?m:^)" : "(?m:$)");
    else
        regex_emit_n(r, &c, 1);
    if (c == ')' && r->depth > 0) {
        unsigned group = r->group[r->depth--];
        r->closed |= group && group < 32 ? UINT32_C(1) << group : 0;
    }
}

char *hf_regex_keep(struct checkpoint *c, char *out, int ok)
{
    char *copy = ok ? ckpt_text(c, out, arr_len(out) - 1) : NULL;
    arr_free(out);
    ckpt_pushed(c, copy != NULL, 0);
    return copy;
}

char *hf_regex_translate(struct checkpoint *c, const char *pattern, const char **what)
{
    char *out = NULL;
    struct regex_reader r = {.p = pattern, .out = &out};
    regex_emit(&r, "");
    if (strncmp(r.p, "(?i)", 4) == 0) { /* elsewhere it would end with its alternative */
        r.p += 4;
        r.caseless = 1;
        regex_emit(&r, "(?i)");
    }
    while (*r.p && !r.what && !r.failed)
        read_item(&r);
    *what = r.what;
    return hf_regex_keep(c, out, !r.failed);
}

char *hf_regex_quote(struct checkpoint *c, const char *text)
{
    char *out = NULL;
    int ok = hf_regex_put(&out, "");
    for (const char *p = text; *p && ok; p++) {
        const char quoted[3] = {'\\', *p, 0};
        ok = hf_regex_put(&out, strchr("\\^$.[|()?*+{]}-#", *p) ? quoted : quoted + 1);
    }
    return hf_regex_keep(c, out, ok);
}
