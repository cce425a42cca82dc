/* Classes of characters in Ruby's syntax, in PCRE2's. See hf_steps.h.
 *
 * PCRE2 has neither classes in classes nor intersections. A class of plain members stays one,
 * [a[bc]] is [abc], and other ones become groups that match one character as well:
 *     [a[^b]]     (?:[a]|[^b])
 *     [A&&B]      (?:(?=A)B)
 *     [^A&&B]     (?:(?!(?:(?=A)B))[\x{0}-\x{10ffff}])
 */
#include "base/mem.h"
#include "convert/vocab/hf_regex_impl.h"
#include "convert/vocab/hf_steps.h"

#include <ctype.h>
#include <string.h>

enum { CLASS_DEPTH = 8 };

#define ANY "[\\x{0}-\\x{10ffff}]"

/* A part of a class between two &&: texts, stb_ds arrays. */
struct class_part {
    char *members; /* as in [...] */
    char *others;  /* alternatives of one character, each after a | */
};

/* With what became a letter, or a small one, after Unicode 14 (PCRE2 10.42). */
#define ALPHABETIC                                                                                 \
    "\\p{Alphabetic}\\x{363}-\\x{36f}\\x{c04}\\x{f82}\\x{f83}\\x{1dd3}-\\x{1de6}"                  \
    "\\x{11080}\\x{11081}"
#define LOWERCASE "\\p{Lowercase}\\x{10fc}\\x{a7f2}-\\x{a7f4}\\x{ab69}"

static const struct {
    const char *name, *members;
} posix[] = {
    {"alnum", ALPHABETIC "\\p{Nd}"},
    {"alpha", ALPHABETIC},
    {"ascii", "\\x{0}-\\x{7f}"},
    {"blank", "\\x09\\p{Zs}"},
    {"cntrl", "\\p{Cc}"},
    {"digit", "\\p{Nd}"},
    {"lower", LOWERCASE},
    {"punct", "\\p{P}\\p{S}"},
    {"space", HF_WHITE},
    {"upper", "\\p{Uppercase}"},
    {"xdigit", "0-9A-Fa-f"},
};

static void put(struct regex_reader *r, char **to, const char *text)
{
    char **out = r->out;
    r->out = to;
    regex_emit(r, text);
    r->out = out;
}

static void put_other(struct regex_reader *r, struct class_part *part, const char *members)
{
    put(r, &part->others, "|[^");
    put(r, &part->others, members);
    put(r, &part->others, "]");
}

/* After a backslash. */
static void read_member_escape(struct regex_reader *r, struct class_part *part)
{
    char c = *r->p, low = (char)tolower((unsigned char)c), **out = r->out;
    const char *members = regex_class_members(low, 1);
    if (regex_is_caseless(r) && (c == 'w' || c == 'S' || c == 'D')) /* holds "ff", as U+FB00 */
        regex_refuse(r, "(?i with letters that may be one character");
    r->out = &part->members;
    if (members && c == low)
        regex_emit(r, members);
    else if (c == 'S') /* PCRE2's white space has one character more */
        regex_emit(r, "\\S\\x{180e}");
    else if (c == 'D')
        regex_emit(r, "\\P{Nd}");
    else if (members && regex_is_caseless(r))
        regex_refuse(r, "(?i with \\W or \\H in a class");
    else if (members)
        put_other(r, part, members);
    else if (!regex_char_escape(r, 1))
        regex_refuse(r, "an escape that is not known");
    r->out = out;
    r->p += members != NULL;
}

/* [:NAME:] or [:^NAME:], at the second character. */
static void read_posix(struct regex_reader *r, struct class_part *part)
{
    const char *name = r->p + 1 + (r->p[1] == '^'), *members = NULL;
    size_t n = 0;
    while (isalpha((unsigned char)name[n]))
        n++;
    for (size_t i = 0; i < sizeof posix / sizeof *posix; i++)
        if (strlen(posix[i].name) == n && memcmp(posix[i].name, name, n) == 0)
            members = posix[i].members;
    if (n == 4 && memcmp(name, "word", 4) == 0)
        members = regex_class_members('w', 1);
    if (!members || name[n] != ':' || name[n + 1] != ']' || regex_is_caseless(r)) {
        regex_refuse(r, "this [:...:]");
        return;
    }
    if (r->p[1] == '^')
        put_other(r, part, members);
    else
        put(r, &part->members, members);
    r->p = name + n + 2;
}

static int is_end_of_part(const char *p)
{
    return *p == ']' || *p == 0 || (p[0] == '&' && p[1] == '&');
}

static void read_plain_member(struct regex_reader *r, struct class_part *part, int is_first)
{
    char text[3] = {*r->p++, 0, 0};
    if ((unsigned char)text[0] >= 0x80 && regex_is_caseless(r))
        regex_refuse(r, "(?i with characters beyond ASCII");
    if (text[0] == '-' && *r->p == '[')
        regex_refuse(r, "a - before a class inside a class");
    if (text[0] == '^' || (text[0] == '-' && (is_first || is_end_of_part(r->p)))) {
        text[1] = text[0];
        text[0] = '\\';
    }
    put(r, &part->members, text);
}

static int read_set(struct regex_reader *r, char **to, unsigned depth);

/* Up to ] or &&. */
static void read_class_part(struct regex_reader *r, struct class_part *part, unsigned depth)
{
    for (int is_first = 1; !is_end_of_part(r->p) && !r->what && !r->failed; is_first = 0) {
        if (*r->p == '\\') {
            r->p++;
            read_member_escape(r, part);
        } else if (*r->p == '[' && r->p[1] == ':') {
            r->p++;
            read_posix(r, part);
        } else if (*r->p == '[') {
            char *inner = NULL;
            r->p++;
            if (read_set(r, &inner, depth + 1)) {
                put(r, &part->members, inner ? inner : "");
            } else {
                put(r, &part->others, "|");
                put(r, &part->others, inner ? inner : "");
            }
            arr_free(inner);
        } else {
            read_plain_member(r, part, is_first);
        }
    }
    if (!part->members && !part->others)
        regex_refuse(r, "an empty class");
}

/* The part as a pattern of one character. */
static void put_class_part(struct regex_reader *r, char **to, const struct class_part *part)
{
    put(r, to, "(?:");
    if (part->members) {
        put(r, to, "[");
        put(r, to, part->members);
        put(r, to, "]");
    }
    if (part->others) /* without its | where it is the first */
        put(r, to, part->others + !part->members);
    put(r, to, ")");
}

/* A class after its [, and its ]. 1: its members, to be written inside [...]; else a pattern that
 * matches one character. */
static int read_set(struct regex_reader *r, char **to, unsigned depth)
{
    struct class_part part = {NULL, NULL};
    char *all = NULL;
    int negated = *r->p == '^', is_flat;
    r->p += negated;
    if (*r->p == ']')
        regex_refuse(r, "a ] at the start of a class");
    if (depth == CLASS_DEPTH || (depth > 0 && regex_is_caseless(r)))
        regex_refuse(r, depth == CLASS_DEPTH ? "too many classes inside classes"
                                             : "(?i with a class inside a class");
    read_class_part(r, &part, depth);
    for (; r->p[0] == '&' && r->p[1] == '&' && !r->what && !r->failed;
         read_class_part(r, &part, depth)) {
        put(r, &all, "(?=");
        put_class_part(r, &all, &part);
        put(r, &all, ")");
        arr_free(part.members);
        arr_free(part.others);
        part = (struct class_part){NULL, NULL};
        r->p += 2;
        if (regex_is_caseless(r))
            regex_refuse(r, "(?i with && in a class");
    }
    is_flat = !negated && !all && !part.others;
    if (is_flat) {
        put(r, to, part.members ? part.members : "");
    } else if (negated && !all && !part.others) {
        put(r, to, "[^");
        put(r, to, part.members ? part.members : "");
        put(r, to, "]");
    } else {
        put_class_part(r, &all, &part);
        put(r, to, negated ? "(?:(?!" : "(?:");
        put(r, to, all ? all : "");
        put(r, to, negated ? ")" ANY ")" : ")");
    }
    arr_free(part.members);
    arr_free(part.others);
    arr_free(all);
    if (!*r->p)
        regex_refuse(r, "a [ without ]");
    else
        r->p++;
    return is_flat;
}

void regex_read_class(struct regex_reader *r)
{
    char *text = NULL;
    int is_flat = read_set(r, &text, 0);
    regex_emit(r, is_flat ? "[" : "");
    regex_emit(r, text ? text : "");
    regex_emit(r, is_flat ? "]" : "");
    arr_free(text);
}
