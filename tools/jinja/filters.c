/* Filters. Each takes its arguments by place or by Jinja's names for them. See values.h. */
#include "jinja/run.h"

#include <string.h>

enum { PARAMETERS_MOST = 4 };

/* NULL where an argument is not given. */
typedef struct jinja_value filter_fn(struct jinja_run *r, struct jinja_value v,
                                     const struct jinja_value *const *a);

static struct jinja_value text_of(struct jinja_run *r, struct jinja_value v)
{
    struct jinja_value s = jinja_str(r, v);
    if (s.kind == J_SAFE)
        jinja_fail(r, "text marked as safe is changed, which mgpt does not do");
    return s;
}

/* A filter that is a method of text, without arguments. */
static struct jinja_value by_method(struct jinja_run *r, struct jinja_value v, const char *name)
{
    const struct jinja_args none = {.n = 0};
    return jinja_text_method(r, text_of(r, v), jinja_ascii(r, name), &none);
}

static struct jinja_value f_trim(struct jinja_run *r, struct jinja_value v,
                                 const struct jinja_value *const *a)
{
    return jinja_strip(r, text_of(r, v), a[0], 3);
}

static struct jinja_value f_length(struct jinja_run *r, struct jinja_value v,
                                   const struct jinja_value *const *a)
{
    (void)a;
    if (v.kind == J_DICT)
        return jinja_int((int64_t)v.dict->n);
    if (v.kind != J_LIST && !jinja_is_text(v) && v.kind != J_UNDEFINED)
        jinja_fail(r, "the length of %s", jinja_kind_name(v));
    return jinja_int(v.kind == J_UNDEFINED ? 0 : (int64_t)v.n);
}

static struct jinja_value f_default(struct jinja_run *r, struct jinja_value v,
                                    const struct jinja_value *const *a)
{
    (void)r;
    if (v.kind != J_UNDEFINED && !(a[1] && jinja_truth(*a[1]) && !jinja_truth(v)))
        return v;
    return a[0] ? *a[0] : jinja_string(NULL, 0);
}

static struct jinja_value f_replace(struct jinja_run *r, struct jinja_value v,
                                    const struct jinja_value *const *a)
{
    if (!a[0] || !a[1]) {
        jinja_fail(r, "replace without two texts");
        return v;
    }
    const struct jinja_value given[3] = {text_of(r, *a[0]), text_of(r, *a[1]),
                                         a[2] ? *a[2] : jinja_none()};
    return jinja_replace(r, text_of(r, v), given, given[2].kind == J_NONE ? 2 : 3);
}

static struct jinja_value f_upper(struct jinja_run *r, struct jinja_value v,
                                  const struct jinja_value *const *a)
{
    (void)a;
    return by_method(r, v, "upper");
}

static struct jinja_value f_lower(struct jinja_run *r, struct jinja_value v,
                                  const struct jinja_value *const *a)
{
    (void)a;
    return by_method(r, v, "lower");
}

static struct jinja_value f_capitalize(struct jinja_run *r, struct jinja_value v,
                                       const struct jinja_value *const *a)
{
    (void)a;
    return by_method(r, v, "capitalize");
}

static struct jinja_value f_string(struct jinja_run *r, struct jinja_value v,
                                   const struct jinja_value *const *a)
{
    (void)a;
    return jinja_str(r, v);
}

static struct jinja_value f_safe(struct jinja_run *r, struct jinja_value v,
                                 const struct jinja_value *const *a)
{
    (void)a;
    v = jinja_str(r, v);
    v.kind = J_SAFE;
    return v;
}

static struct jinja_value f_int(struct jinja_run *r, struct jinja_value v,
                                const struct jinja_value *const *a)
{
    (void)a;
    if (v.kind == J_INT || v.kind == J_BOOL)
        return jinja_int(v.i);
    int64_t number = 0;
    if (!jinja_is_text(v) || v.n == 0 || v.n > 15)
        jinja_fail(r, "%s is made a number, which mgpt does not do", jinja_kind_name(v));
    for (size_t i = 0; i < v.n && r->status == MGPT_OK; i++) {
        uint32_t digit = JINJA_CODE(v.s[i]) - '0';
        if (digit > 9)
            jinja_fail(r, "text is made a number, which mgpt does not do");
        number = number * 10 + digit;
    }
    return jinja_int(number);
}

static struct jinja_value f_list(struct jinja_run *r, struct jinja_value v,
                                 const struct jinja_value *const *a)
{
    (void)a;
    return jinja_iterate(r, v);
}

static struct jinja_value f_join(struct jinja_run *r, struct jinja_value v,
                                 const struct jinja_value *const *a)
{
    struct jinja_value between = a[0] ? text_of(r, *a[0]) : jinja_string(NULL, 0);
    if (a[1])
        jinja_fail(r, "join by an attribute, which mgpt does not do");
    return jinja_join(r, between, jinja_iterate(r, v));
}

static struct jinja_value f_first(struct jinja_run *r, struct jinja_value v,
                                  const struct jinja_value *const *a)
{
    (void)a;
    v = jinja_iterate(r, v);
    return v.n > 0 ? v.items[0] : jinja_undefined(NULL, 0);
}

static struct jinja_value f_last(struct jinja_run *r, struct jinja_value v,
                                 const struct jinja_value *const *a)
{
    (void)a;
    if (v.kind == J_STREAM)
        jinja_fail(r, "the last item of a generator");
    v = jinja_iterate(r, v);
    return v.n > 0 ? v.items[v.n - 1] : jinja_undefined(NULL, 0);
}

static struct jinja_value f_tojson(struct jinja_run *r, struct jinja_value v,
                                   const struct jinja_value *const *a)
{
    int has_indent = a[1] && a[1]->kind != J_NONE;
    if ((a[2] && a[2]->kind != J_NONE) || (a[3] && jinja_truth(*a[3])) ||
        (has_indent && (a[1]->kind != J_INT || a[1]->i < 0 || a[1]->i > 64)))
        jinja_fail(r, "tojson with options that mgpt does not know");
    return jinja_to_json(r, v, has_indent ? a[1]->i : -1, a[0] && jinja_truth(*a[0]));
}

static struct jinja_value f_items(struct jinja_run *r, struct jinja_value v,
                                  const struct jinja_value *const *a)
{
    (void)a;
    if (v.kind != J_DICT && v.kind != J_UNDEFINED)
        jinja_fail(r, "the items of %s", jinja_kind_name(v));
    v = v.kind == J_DICT ? jinja_items(r, v, 3) : jinja_list(NULL, 0);
    v.kind = J_STREAM;
    return v;
}

/* Is the key a after b? As lower-case text. */
static int is_after(struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    if (a.kind == J_INT && b.kind == J_INT)
        return a.i > b.i;
    a = by_method(r, a, "lower");
    b = by_method(r, b, "lower");
    size_t i = 0;
    while (i < a.n && i < b.n && JINJA_CODE(a.s[i]) == JINJA_CODE(b.s[i]))
        i++;
    return i < a.n && (i == b.n || JINJA_CODE(a.s[i]) > JINJA_CODE(b.s[i]));
}

static struct jinja_value f_dictsort(struct jinja_run *r, struct jinja_value v,
                                     const struct jinja_value *const *a)
{
    (void)a;
    if (v.kind != J_DICT) {
        jinja_fail(r, "%s is sorted, which mgpt does not do", jinja_kind_name(v));
        return v;
    }
    v = jinja_items(r, v, 3);
    struct jinja_value *items = (struct jinja_value *)(uintptr_t)v.items;
    for (size_t i = 1; i < v.n; i++)
        for (size_t k = i; k > 0 && jinja_steps(r, 1); k--) {
            struct jinja_value low = items[k - 1];
            if (low.items[0].kind != items[k].items[0].kind)
                jinja_fail(r, "keys of two kinds are sorted");
            else if (!is_after(r, low.items[0], items[k].items[0]))
                break;
            items[k - 1] = items[k];
            items[k] = low;
        }
    return v;
}

static struct jinja_value f_reverse(struct jinja_run *r, struct jinja_value v,
                                    const struct jinja_value *const *a)
{
    (void)a;
    struct jinja_value *items = v.kind == J_LIST ? jinja_take(r, v.n, sizeof *items) : NULL;
    if (v.kind != J_LIST)
        jinja_fail(r, "%s is reversed, which mgpt does not do", jinja_kind_name(v));
    for (size_t i = 0; items && i < v.n; i++)
        items[i] = v.items[v.n - 1 - i];
    v = jinja_list(items, items ? v.n : 0);
    v.kind = J_STREAM;
    return v;
}

static const struct {
    const char *name, *parameters;
    filter_fn *run;
} filters[] = {
    {"trim", "chars", f_trim},
    {"length", "", f_length},
    {"count", "", f_length},
    {"default", "default_value boolean", f_default},
    {"d", "default_value boolean", f_default},
    {"replace", "old new count", f_replace},
    {"upper", "", f_upper},
    {"lower", "", f_lower},
    {"capitalize", "", f_capitalize},
    {"string", "", f_string},
    {"safe", "", f_safe},
    {"int", "", f_int},
    {"list", "", f_list},
    {"join", "d attribute", f_join},
    {"first", "", f_first},
    {"last", "", f_last},
    {"tojson", "ensure_ascii indent separators sort_keys", f_tojson},
    {"items", "", f_items},
    {"dictsort", "", f_dictsort},
    {"reverse", "", f_reverse},
};

/* ---- map, select, reject --------------------------------------------------------------------- */

static struct jinja_args shifted(const struct jinja_args *a, size_t by)
{
    struct jinja_args rest = {.n = 0};
    for (size_t i = by; i < a->n; i++) {
        rest.v[rest.n] = a->v[i];
        rest.names[rest.n++] = a->names[i];
    }
    rest.n_plain = a->n_plain > by ? a->n_plain - by : 0;
    return rest;
}

/* An attribute "a" of an item; paths "a.b" and numbers are refused. */
static struct jinja_value member_of(struct jinja_run *r, struct jinja_value v,
                                    struct jinja_value key)
{
    for (size_t i = 0; i < key.n && jinja_is_text(key); i++)
        if (JINJA_CODE(key.s[i]) == '.' || (JINJA_CODE(key.s[i]) - '0') < 10)
            jinja_fail(r, "an attribute with dots or digits in a filter");
    if (!jinja_is_text(key))
        jinja_fail(r, "an attribute that is %s", jinja_kind_name(key));
    return jinja_attribute(r, v, key);
}

static struct jinja_value map_item(struct jinja_run *r, struct jinja_value item,
                                   const struct jinja_args *a)
{
    if (a->n == 1 && a->n_plain == 0 && jinja_is(a->names[0], "attribute"))
        return member_of(r, item, a->v[0]);
    if (a->n_plain == 0 || !jinja_is_text(a->v[0])) {
        jinja_fail(r, "map with arguments that mgpt does not know");
        return item;
    }
    struct jinja_args rest = shifted(a, 1);
    return jinja_filter(r, item, a->v[0], &rest);
}

/* select, reject: by a test; selectattr, rejectattr: of an attribute. */
static int is_kept(struct jinja_run *r, struct jinja_value item, const struct jinja_args *a,
                   int by_attribute)
{
    if (by_attribute && a->n_plain == 0) {
        jinja_fail(r, "selectattr without an attribute");
        return 0;
    }
    if (by_attribute)
        item = member_of(r, item, a->v[0]);
    if (a->n_plain <= (size_t)by_attribute)
        return jinja_truth(item);
    struct jinja_args rest = shifted(a, (size_t)by_attribute + 1);
    return jinja_test(r, item, a->v[by_attribute], &rest);
}

static const char *const over_items[] = {"map", "select", "reject", "selectattr", "rejectattr"};

static struct jinja_value filter_items(struct jinja_run *r, struct jinja_value v, size_t which,
                                       const struct jinja_args *a)
{
    struct jinja_value all = jinja_list(NULL, 0), kept = all;
    if (jinja_truth(v)) /* Jinja asks for that first */
        all = jinja_iterate(r, v);
    struct jinja_value *items = jinja_take(r, all.n, sizeof *items);
    int wanted = which % 2 == 1;
    for (size_t i = 0; items && i < all.n && jinja_steps(r, 1); i++) {
        if (which == 0)
            items[kept.n++] = map_item(r, all.items[i], a);
        else if (is_kept(r, all.items[i], a, which > 2) == wanted)
            items[kept.n++] = all.items[i];
    }
    kept.items = items;
    kept.kind = J_STREAM;
    return kept;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Puts the arguments at the places of the parameters' names. */
static void place_arguments(struct jinja_run *r, const char *parameters,
                            const struct jinja_args *args, const struct jinja_value **a)
{
    for (size_t i = 0; i < args->n; i++) {
        size_t at = i, place = 0;
        const char *p = parameters;
        for (; *p; p += strcspn(p, " "), p += *p == ' ', place++) {
            struct jinja_value name = jinja_string(args->names[i].s, args->names[i].n);
            char word[32] = {0};
            memcpy(word, p, strcspn(p, " "));
            if (i < args->n_plain ? place == at : jinja_is(name, word))
                break;
        }
        if (!*p || a[place]) {
            jinja_fail(r, "an argument that the filter does not have");
            return;
        }
        a[place] = &args->v[i];
    }
}

struct jinja_value jinja_filter(struct jinja_run *r, struct jinja_value v, struct jinja_value name,
                                const struct jinja_args *args)
{
    const struct jinja_value *a[PARAMETERS_MOST] = {NULL};
    if (!jinja_enter(r))
        return v;
    struct jinja_value result = v;
    int i = JINJA_ROW(name, over_items);
    if (i >= 0)
        result = filter_items(r, v, (size_t)i, args);
    else {
        i = JINJA_ROW(name, filters);
        if (i < 0)
            jinja_fail(r, "the filter '%s', which mgpt does not know",
                       jinja_show(name.s, name.n).text);
        else
            place_arguments(r, filters[i].parameters, args, a);
        if (r->status == MGPT_OK)
            result = filters[i].run(r, v, a);
    }
    jinja_leave(r);
    return result;
}
