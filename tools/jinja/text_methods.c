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

/* An argument that counts: true is 1, as in Python. */
static int64_t argument_count(struct jinja_run *r, struct jinja_value v)
{
    if (v.kind != J_INT && v.kind != J_BOOL)
        jinja_fail(r, "%s is a count", jinja_kind_name(v));
    return v.i;
}

/* v: old, new, and how many (-1: all). */
struct jinja_value jinja_replace(struct jinja_run *r, struct jinja_value s,
                                 const struct jinja_value *v, size_t n_v)
{
    struct jinja_buffer out = {0};
    int64_t most = n_v > 2 ? argument_count(r, v[2]) : -1;
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
    int64_t most = a->n > 1 ? argument_count(r, a->v[1]) : -1;
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

/* between.join(list): of texts alone. */
static struct jinja_value join_texts(struct jinja_run *r, struct jinja_value between,
                                     struct jinja_value list)
{
    for (size_t i = 0; i < list.n; i++)
        if (!jinja_is_text(list.items[i]))
            jinja_fail(r, "text is joined with %s", jinja_kind_name(list.items[i]));
    return jinja_join(r, between, list);
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
    size_t most; /* arguments */
} text_methods[] = {{"strip", M_STRIP, 1},
                    {"lstrip", M_LSTRIP, 1},
                    {"rstrip", M_RSTRIP, 1},
                    {"split", M_SPLIT, 2},
                    {"startswith", M_STARTSWITH, 1},
                    {"endswith", M_ENDSWITH, 1},
                    {"replace", M_REPLACE, 3},
                    {"upper", M_UPPER, 0},
                    {"lower", M_LOWER, 0},
                    {"capitalize", M_CAPITALIZE, 0},
                    {"title", M_TITLE, 0},
                    {"join", M_JOIN, 1},
                    {"find", M_FIND, 1},
                    {"format", M_FORMAT, JINJA_ARGS_MOST},
                    /* Python has these as well */
                    {"encode", M_OTHER, 0},
                    {"count", M_OTHER, 0},
                    {"index", M_OTHER, 0},
                    {"rsplit", M_OTHER, 0},
                    {"splitlines", M_OTHER, 0},
                    {"partition", M_OTHER, 0},
                    {"rpartition", M_OTHER, 0},
                    {"isdigit", M_OTHER, 0},
                    {"isalpha", M_OTHER, 0},
                    {"isspace", M_OTHER, 0},
                    {"isupper", M_OTHER, 0},
                    {"islower", M_OTHER, 0},
                    {"isalnum", M_OTHER, 0},
                    {"isnumeric", M_OTHER, 0},
                    {"isdecimal", M_OTHER, 0},
                    {"istitle", M_OTHER, 0},
                    {"isidentifier", M_OTHER, 0},
                    {"isprintable", M_OTHER, 0},
                    {"isascii", M_OTHER, 0},
                    {"casefold", M_OTHER, 0},
                    {"swapcase", M_OTHER, 0},
                    {"zfill", M_OTHER, 0},
                    {"center", M_OTHER, 0},
                    {"ljust", M_OTHER, 0},
                    {"rjust", M_OTHER, 0},
                    {"rfind", M_OTHER, 0},
                    {"rindex", M_OTHER, 0},
                    {"removeprefix", M_OTHER, 0},
                    {"removesuffix", M_OTHER, 0},
                    {"expandtabs", M_OTHER, 0},
                    {"translate", M_OTHER, 0},
                    {"maketrans", M_OTHER, 0},
                    {"format_map", M_OTHER, 0}};

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
    int row = JINJA_ROW(name, text_methods);
    enum text_method which = row < 0 ? M_OTHER : text_methods[row].which;
    if (a->n_plain < a->n || (which != M_OTHER && a->n > text_methods[row].most))
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
        if (first)
            return join_texts(r, s, jinja_iterate(r, *first));
        break;
    case M_FIND:
        if (first && jinja_is_text(*first)) {
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
