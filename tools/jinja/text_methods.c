/* Methods of strings, which filters use too. See values.h. */
#include "jinja/run.h"

#include <string.h>

/* ---- strip, replace, join -------------------------------------------------------------------- */

static int is_stripped(uint32_t c, const struct jinja_value *set)
{
    if (!set)
        return jinja_space(c);
    for (size_t i = 0; i < set->n; i++)
        if (JINJA_CODE(set->s[i]) == JINJA_CODE(c))
            return 1;
    return 0;
}

/* sides: 1 left, 2 right; set NULL: white space. */
struct jinja_value jinja_strip(struct jinja_run *r, struct jinja_value s,
                               const struct jinja_value *set, int sides)
{
    if (set && set->kind == J_NONE)
        set = NULL;
    if (set && !jinja_is_text(*set))
        jinja_fail(r, "text is stripped by %s", jinja_kind_name(*set));
    if (!jinja_steps(r, s.n * (set ? set->n : 1)))
        return s;
    while (sides & 1 && s.n > 0 && is_stripped(s.s[0], set)) {
        s.s++;
        s.n--;
    }
    while (sides & 2 && s.n > 0 && is_stripped(s.s[s.n - 1], set))
        s.n--;
    return s;
}

/* v: old, new, and how many (-1: all). */
struct jinja_value jinja_replace(struct jinja_run *r, struct jinja_value s,
                                 const struct jinja_value *v, size_t n_v)
{
    struct jinja_buffer out = {0};
    int64_t most = n_v > 2 && v[2].kind == J_INT ? v[2].i : -1;
    size_t from = 0, at;
    if (n_v < 2 || !jinja_is_text(v[0]) || !jinja_is_text(v[1]) || v[0].n == 0) {
        jinja_fail(r, "a replacement that mgpt does not do");
        return s;
    }
    while (most != 0 && (at = jinja_find(r, s, v[0], from)) != SIZE_MAX) {
        jinja_put(r, &out, s.s + from, at - from);
        jinja_put(r, &out, v[1].s, v[1].n);
        from = at + v[0].n;
        most--;
    }
    jinja_put(r, &out, s.s + from, s.n - from);
    return jinja_string(out.s, out.n);
}

struct jinja_value jinja_join(struct jinja_run *r, struct jinja_value between,
                              struct jinja_value list)
{
    struct jinja_buffer out = {0};
    for (size_t i = 0; i < list.n && r->status == MGPT_OK; i++) {
        struct jinja_value s = jinja_str(r, list.items[i]);
        if (s.kind == J_SAFE)
            jinja_fail(r, "text marked as safe is joined, which mgpt does not do");
        if (i > 0)
            jinja_put(r, &out, between.s, between.n);
        jinja_put(r, &out, s.s, s.n);
    }
    return jinja_string(out.s, out.n);
}

/* ---- format ---------------------------------------------------------------------------------- */

/* s.format(v[0], ...): each {} becomes the next value; {{ and }} are braces. Other fields are refused. */
static struct jinja_value format(struct jinja_run *r, struct jinja_value s,
                                 const struct jinja_args *a)
{
    struct jinja_buffer out = {0};
    size_t next = 0;
    for (size_t i = 0; i < s.n && r->status == MGPT_OK; i++) {
        uint32_t c = JINJA_CODE(s.s[i]), after = i + 1 < s.n ? JINJA_CODE(s.s[i + 1]) : 0;
        struct jinja_value piece = jinja_string(s.s + i, 1);
        if ((c == '{' || c == '}') && after == c)
            i++;
        else if (c == '{' && after == '}' && next < a->n) {
            piece = jinja_str(r, a->v[next++]);
            i++;
        } else if (c == '{' || c == '}')
            jinja_fail(r, "a field of format() that is not {}, or has no value");
        if (piece.kind == J_SAFE || s.kind == J_SAFE)
            jinja_fail(r, "text marked as safe in format(), which mgpt does not do");
        jinja_put(r, &out, piece.s, piece.n);
    }
    return jinja_string(out.s, out.n);
}

/* ---- split ----------------------------------------------------------------------------------- */

struct pieces {
    struct jinja_value *items;
    size_t n, cap;
};

static void add_piece(struct jinja_run *r, struct pieces *p, struct jinja_value piece)
{
    if (p->n == p->cap) {
        struct jinja_value *grown = jinja_take(r, p->cap = 2 * p->cap + 8, sizeof *grown);
        if (!grown)
            return;
        if (p->n > 0)
            memcpy(grown, p->items, p->n * sizeof *grown);
        p->items = grown;
    }
    p->items[p->n++] = piece;
}

static void split_at_spaces(struct jinja_run *r, struct pieces *p, struct jinja_value s)
{
    for (size_t i = 0; jinja_steps(r, 1);) {
        while (i < s.n && jinja_space(s.s[i]))
            i++;
        size_t from = i;
        while (i < s.n && !jinja_space(s.s[i]))
            i++;
        if (i == from)
            return;
        add_piece(r, p, jinja_string(s.s + from, i - from));
    }
}

/* s.split(by, most) */
static struct jinja_value split(struct jinja_run *r, struct jinja_value s,
                                const struct jinja_args *a)
{
    struct pieces p = {0};
    int64_t most = a->n > 1 && a->v[1].kind == J_INT ? a->v[1].i : -1;
    size_t from = 0, at;
    if (a->n == 0 || (a->v[0].kind == J_NONE && a->n == 1)) {
        split_at_spaces(r, &p, s);
        return jinja_list(p.items, p.n);
    }
    if (!jinja_is_text(a->v[0]) || a->v[0].n == 0) {
        jinja_fail(r, "text is split by %s", jinja_kind_name(a->v[0]));
        return jinja_none();
    }
    while (most-- != 0 && (at = jinja_find(r, s, a->v[0], from)) != SIZE_MAX) {
        add_piece(r, &p, jinja_string(s.s + from, at - from));
        from = at + a->v[0].n;
    }
    add_piece(r, &p, jinja_string(s.s + from, s.n - from));
    return jinja_list(p.items, p.n);
}

/* ---- case ------------------------------------------------------------------------------------ */

/* how: 'u' upper, 'l' lower, 'c' capitalize, 't' title. */
static struct jinja_value change_case(struct jinja_run *r, struct jinja_value s, int how)
{
    struct jinja_buffer out = {0};
    int is_start = 1;
    for (size_t i = 0; i < s.n && r->status == MGPT_OK; i++) {
        uint32_t c = JINJA_CODE(s.s[i]), low = c | 0x20;
        int is_letter = c < 128 && low >= 'a' && low <= 'z';
        int upper = how == 'u' || (how != 'l' && is_start);
        if (c > 127)
            jinja_fail(r, "upper and lower case of letters that are not ASCII");
        if (is_letter)
            c = upper ? low - 32 : low;
        is_start = how == 't' && !is_letter;
        c |= s.s[i] & JINJA_TYPED;
        jinja_put(r, &out, &c, 1);
    }
    return jinja_string(out.s, out.n);
}

/* ---- the table ------------------------------------------------------------------------------- */

static int affix(struct jinja_run *r, struct jinja_value s, const struct jinja_args *a, int at_end)
{
    struct jinja_value one = a->n > 0 ? a->v[0] : jinja_none(), *all = &one;
    size_t n = 1;
    if (one.kind == J_LIST) {
        all = (struct jinja_value *)(uintptr_t)one.items;
        n = one.n;
    }
    for (size_t i = 0; i < n; i++) {
        if (!jinja_is_text(all[i]))
            jinja_fail(r, "text is looked for, found %s", jinja_kind_name(all[i]));
        else if (all[i].n <= s.n &&
                 jinja_same_text(s.s + (at_end ? s.n - all[i].n : 0), all[i].n, all[i].s, all[i].n))
            return 1;
    }
    return 0;
}

enum text_method {
    M_STRIP,
    M_LSTRIP,
    M_RSTRIP,
    M_SPLIT,
    M_STARTSWITH,
    M_ENDSWITH,
    M_REPLACE,
    M_UPPER,
    M_LOWER,
    M_CAPITALIZE,
    M_TITLE,
    M_JOIN,
    M_FIND,
    M_FORMAT,
    M_OTHER
};

static const struct {
    const char *name;
    enum text_method which;
} text_methods[] = {{"strip", M_STRIP},
                    {"lstrip", M_LSTRIP},
                    {"rstrip", M_RSTRIP},
                    {"split", M_SPLIT},
                    {"startswith", M_STARTSWITH},
                    {"endswith", M_ENDSWITH},
                    {"replace", M_REPLACE},
                    {"upper", M_UPPER},
                    {"lower", M_LOWER},
                    {"capitalize", M_CAPITALIZE},
                    {"title", M_TITLE},
                    {"join", M_JOIN},
                    {"find", M_FIND},
                    {"format", M_FORMAT},
                    /* Python has these as well */
                    {"encode", M_OTHER},
                    {"count", M_OTHER},
                    {"index", M_OTHER},
                    {"rsplit", M_OTHER},
                    {"splitlines", M_OTHER},
                    {"partition", M_OTHER},
                    {"rpartition", M_OTHER},
                    {"isdigit", M_OTHER},
                    {"isalpha", M_OTHER},
                    {"isspace", M_OTHER},
                    {"isupper", M_OTHER},
                    {"islower", M_OTHER},
                    {"isalnum", M_OTHER},
                    {"isnumeric", M_OTHER},
                    {"isdecimal", M_OTHER},
                    {"istitle", M_OTHER},
                    {"isidentifier", M_OTHER},
                    {"isprintable", M_OTHER},
                    {"isascii", M_OTHER},
                    {"casefold", M_OTHER},
                    {"swapcase", M_OTHER},
                    {"zfill", M_OTHER},
                    {"center", M_OTHER},
                    {"ljust", M_OTHER},
                    {"rjust", M_OTHER},
                    {"rfind", M_OTHER},
                    {"rindex", M_OTHER},
                    {"removeprefix", M_OTHER},
                    {"removesuffix", M_OTHER},
                    {"expandtabs", M_OTHER},
                    {"translate", M_OTHER},
                    {"maketrans", M_OTHER},
                    {"format_map", M_OTHER}};

int jinja_text_method_of(struct jinja_value name)
{
    int i = JINJA_ROW(name, text_methods);
    return i < 0 ? -1 : (int)text_methods[i].which;
}

struct jinja_value jinja_text_method(struct jinja_run *r, struct jinja_value s,
                                     struct jinja_value name, const struct jinja_args *a)
{
    static const char cases[] = "ulct";
    const struct jinja_value *first = a->n > 0 ? &a->v[0] : NULL;
    int which = jinja_text_method_of(name);
    if (a->n_plain < a->n)
        which = M_OTHER;
    s.kind = s.kind == J_SAFE ? J_SAFE : J_STRING;
    switch (which) {
    case M_STRIP:
        return jinja_strip(r, s, first, 3);
    case M_LSTRIP:
        return jinja_strip(r, s, first, 1);
    case M_RSTRIP:
        return jinja_strip(r, s, first, 2);
    case M_SPLIT:
        return split(r, s, a);
    case M_STARTSWITH:
    case M_ENDSWITH:
        return jinja_bool(affix(r, s, a, which == M_ENDSWITH));
    case M_REPLACE:
        return jinja_replace(r, s, a->v, a->n);
    case M_UPPER:
    case M_LOWER:
    case M_CAPITALIZE:
    case M_TITLE:
        return change_case(r, s, cases[which - M_UPPER]);
    case M_JOIN:
        return jinja_join(r, s, first ? jinja_iterate(r, *first) : jinja_list(NULL, 0));
    case M_FIND:
        if (first && jinja_is_text(*first) && a->n == 1) {
            size_t at = jinja_find(r, s, *first, 0);
            return jinja_int(at == SIZE_MAX ? -1 : (int64_t)at);
        }
        break;
    case M_FORMAT:
        return format(r, s, a);
    default:
        break;
    }
    jinja_fail(r, "the method '%s' of text, or this use of it, which mgpt does not know",
               jinja_show(name.s, name.n).text);
    return jinja_none();
}
