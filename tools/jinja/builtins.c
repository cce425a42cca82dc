/* Attributes, methods of dicts and loops, tests and functions. See values.h. */
#include "base/error.h"
#include "base/utf8.h"
#include "jinja/run.h"

#include <string.h>
#include <time.h>

/* ---- attributes ------------------------------------------------------------------------------ */

static struct jinja_value loop_attribute(struct jinja_run *r, const struct jinja_loop *l,
                                         struct jinja_value key)
{
    const int64_t i = (int64_t)l->index, n = (int64_t)l->n;
    const struct {
        const char *name;
        struct jinja_value v;
    } rows[] = {
        {"index", jinja_int(i + 1)},
        {"index0", jinja_int(i)},
        {"revindex", jinja_int(n - i)},
        {"revindex0", jinja_int(n - i - 1)},
        {"first", jinja_bool(i == 0)},
        {"last", jinja_bool(i == n - 1)},
        {"length", jinja_int(n)},
        {"depth", jinja_int(1)},
        {"depth0", jinja_int(0)},
        {"previtem", i > 0 ? l->items[i - 1] : jinja_undefined(key.s, key.n)},
        {"nextitem", i < n - 1 ? l->items[i + 1] : jinja_undefined(key.s, key.n)},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (jinja_is(key, rows[k].name))
            return rows[k].v;
    jinja_fail(r, "'%s' of a loop, which mgpt does not know", jinja_show(key.s, key.n).text);
    return jinja_none();
}

struct jinja_value jinja_attribute(struct jinja_run *r, struct jinja_value v,
                                   struct jinja_value key)
{
    struct jinja_value none =
        jinja_is_text(key) ? jinja_undefined(key.s, key.n) : jinja_undefined(NULL, 0);
    const struct jinja_value *found = NULL;
    if (v.kind == J_UNDEFINED)
        jinja_fail(r, "'%s' is undefined", v.n ? jinja_show(v.s, v.n).text : "an item");
    if (v.kind == J_LOOP)
        return loop_attribute(r, v.loop, key);
    if (v.kind == J_DICT || v.kind == J_NAMESPACE)
        found = jinja_steps(r, v.dict->n) ? jinja_look_up(v.dict, key) : NULL;
    if (!found && jinja_is_text(key) && jinja_is_method(v, key))
        jinja_fail(r, "the method '%s' is not called", jinja_show(key.s, key.n).text);
    return found ? *found : none;
}

/* ---- methods --------------------------------------------------------------------------------- */

static const char *const dict_methods[] = {"get",   "items",   "keys",     "values",
                                           "pop",   "update",  "copy",     "setdefault",
                                           "clear", "popitem", "fromkeys", NULL};
static const char *const list_methods[] = {"append", "extend", "insert", "remove",  "pop",  "clear",
                                           "index",  "count",  "sort",   "reverse", "copy", NULL};
static const char *const loop_methods[] = {"cycle", "changed", NULL};

static int is_in(const char *const *names, struct jinja_value name)
{
    for (; *names; names++)
        if (jinja_is(name, *names))
            return 1;
    return 0;
}

int jinja_is_method(struct jinja_value self, struct jinja_value name)
{
    if (jinja_is_text(self))
        return jinja_text_method_of(name) >= 0;
    if (self.kind == J_DICT)
        return is_in(dict_methods, name);
    return self.kind == J_LIST ? is_in(list_methods, name)
                               : self.kind == J_LOOP && is_in(loop_methods, name);
}

/* The keys (1), values (2) or both (3) of a dict, as a list. */
struct jinja_value jinja_items(struct jinja_run *r, struct jinja_value dict, int which)
{
    const size_t n = dict.dict->n;
    struct jinja_value *items = jinja_take(r, n, sizeof *items);
    for (size_t i = 0; items && i < n && jinja_steps(r, 1); i++) {
        struct jinja_value *both = jinja_take(r, 2, sizeof *both);
        if (!both)
            return jinja_list(NULL, 0);
        both[0] = dict.dict->pairs[i].key;
        both[1] = dict.dict->pairs[i].value;
        items[i] = which == 3 ? jinja_list(both, 2) : both[which - 1];
    }
    return jinja_list(items, items ? n : 0);
}

struct jinja_value jinja_method(struct jinja_run *r, struct jinja_value self,
                                struct jinja_value name, const struct jinja_args *a)
{
    if (jinja_is_text(self))
        return jinja_text_method(r, self, name, a);
    if (self.kind == J_DICT && a->n_plain == a->n && a->n == 0) {
        if (jinja_is(name, "items"))
            return jinja_items(r, self, 3);
        if (jinja_is(name, "keys") || jinja_is(name, "values"))
            return jinja_items(r, self, jinja_is(name, "keys") ? 1 : 2);
    }
    if (self.kind == J_DICT && jinja_is(name, "get") && a->n_plain == a->n &&
        (a->n == 1 || a->n == 2)) {
        const struct jinja_value *found =
            jinja_steps(r, self.dict->n) ? jinja_look_up(self.dict, a->v[0]) : NULL;
        return found ? *found : a->n == 2 ? a->v[1] : jinja_none();
    }
    if (self.kind == J_LOOP && jinja_is(name, "cycle") && a->n > 0 && a->n_plain == a->n)
        return a->v[self.loop->index % a->n];
    jinja_fail(r, "the method '%s' of %s, which mgpt does not run", jinja_show(name.s, name.n).text,
               jinja_kind_name(self));
    return jinja_none();
}

/* ---- tests ----------------------------------------------------------------------------------- */

enum test_kind {
    IS_DEFINED,
    IS_UNDEFINED,
    IS_NONE,
    IS_BOOLEAN,
    IS_TRUE,
    IS_FALSE,
    IS_INTEGER,
    IS_NUMBER,
    IS_FLOAT,
    IS_STRING,
    IS_MAPPING,
    IS_SEQUENCE,
    IS_ITERABLE,
    IS_ODD,
    IS_EVEN,
    IS_EQUAL,
    IS_NE,
    IS_IN
};

static const struct {
    const char *name;
    enum test_kind kind;
    size_t n_args;
} tests[] = {
    {"defined", IS_DEFINED, 0},
    {"undefined", IS_UNDEFINED, 0},
    {"none", IS_NONE, 0},
    {"boolean", IS_BOOLEAN, 0},
    {"true", IS_TRUE, 0},
    {"false", IS_FALSE, 0},
    {"integer", IS_INTEGER, 0},
    {"number", IS_NUMBER, 0},
    {"float", IS_FLOAT, 0},
    {"string", IS_STRING, 0},
    {"mapping", IS_MAPPING, 0},
    {"sequence", IS_SEQUENCE, 0},
    {"iterable", IS_ITERABLE, 0},
    {"odd", IS_ODD, 0},
    {"even", IS_EVEN, 0},
    {"equalto", IS_EQUAL, 1},
    {"eq", IS_EQUAL, 1},
    {"==", IS_EQUAL, 1},
    {"ne", IS_NE, 1},
    {"!=", IS_NE, 1},
    {"in", IS_IN, 1},
};

static int test_parity(struct jinja_run *r, struct jinja_value v, int odd)
{
    if (v.kind != J_INT && v.kind != J_BOOL)
        jinja_fail(r, "%s is tested for being odd or even", jinja_kind_name(v));
    return (v.i & 1) == odd;
}

static int test_one(struct jinja_run *r, struct jinja_value v, enum test_kind kind,
                    const struct jinja_value *arg)
{
    const int is_list = v.kind == J_LIST || v.kind == J_DICT || jinja_is_text(v);
    switch (kind) {
    case IS_DEFINED:
    case IS_UNDEFINED:
        return (v.kind == J_UNDEFINED) == (kind == IS_UNDEFINED);
    case IS_NONE:
        return v.kind == J_NONE;
    case IS_BOOLEAN:
        return v.kind == J_BOOL;
    case IS_TRUE:
    case IS_FALSE:
        return v.kind == J_BOOL && v.i == (kind == IS_TRUE);
    case IS_INTEGER:
        return v.kind == J_INT;
    case IS_NUMBER:
        return v.kind == J_INT || v.kind == J_BOOL;
    case IS_FLOAT:
        return 0;
    case IS_STRING:
        return jinja_is_text(v);
    case IS_MAPPING:
        return v.kind == J_DICT;
    case IS_SEQUENCE: /* an undefined value has a length and items */
        return is_list || v.kind == J_UNDEFINED;
    case IS_ITERABLE:
        return is_list || v.kind == J_UNDEFINED || v.kind == J_STREAM || v.kind == J_LOOP;
    case IS_ODD:
    case IS_EVEN:
        return test_parity(r, v, kind == IS_ODD);
    case IS_EQUAL:
    case IS_NE:
        return jinja_equal(r, v, *arg) == (kind == IS_EQUAL);
    default:
        return jinja_contains(r, *arg, v);
    }
}

int jinja_test(struct jinja_run *r, struct jinja_value v, struct jinja_value name,
               const struct jinja_args *args)
{
    int i = JINJA_ROW(name, tests);
    if (i >= 0 && args->n == tests[i].n_args && args->n_plain == args->n)
        return test_one(r, v, tests[i].kind, args->v);
    jinja_fail(r, "the test '%s', or its arguments, which mgpt does not know",
               jinja_show(name.s, name.n).text);
    return 0;
}

/* ---- functions ------------------------------------------------------------------------------- */

static struct jinja_value make_dict(struct jinja_run *r, const struct jinja_args *a,
                                    enum jinja_kind kind)
{
    struct jinja_value v = {.kind = kind, .dict = jinja_take(r, 1, sizeof *v.dict)};
    if (a->n_plain > 0)
        jinja_fail(r, "namespace or dict of a value");
    for (size_t i = 0; i < a->n && r->status == MGPT_OK; i++)
        jinja_set_pair(r, v.dict, a->names[i], a->v[i]);
    return v.dict ? v : jinja_none();
}

static struct jinja_value do_namespace(struct jinja_run *r, const struct jinja_args *a)
{
    return make_dict(r, a, J_NAMESPACE);
}

static struct jinja_value do_dict(struct jinja_run *r, const struct jinja_args *a)
{
    return make_dict(r, a, J_DICT);
}

enum { RANGE_MOST = 100000 }; /* as Jinja's sandbox */

static struct jinja_value do_range(struct jinja_run *r, const struct jinja_args *a)
{
    int64_t from = a->n > 1 ? a->v[0].i : 0, to = a->n > 0 ? a->v[a->n > 1].i : 0;
    int64_t step = a->n > 2 ? a->v[2].i : 1;
    int bad = a->n == 0 || a->n > 3 || a->n_plain < a->n || step == 0;
    for (size_t i = 0; i < a->n; i++)
        bad |= a->v[i].kind != J_INT || a->v[i].i < -1000000 || a->v[i].i > 1000000;
    if (bad) {
        jinja_fail(r, "a range that mgpt does not make");
        return jinja_none();
    }
    int64_t n = step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step;
    if (n > RANGE_MOST)
        jinja_fail(r, "a range of more than %d numbers", RANGE_MOST);
    struct jinja_value *items = jinja_take(r, n > 0 ? (size_t)n : 0, sizeof *items);
    for (int64_t i = 0; items && i < n && jinja_steps(r, 1); i++)
        items[i] = jinja_int(from + i * step);
    return jinja_list(items, items && n > 0 ? (size_t)n : 0);
}

static struct jinja_value do_raise(struct jinja_run *r, const struct jinja_args *a)
{
    struct jinja_value s = a->n == 1 ? jinja_str(r, a->v[0]) : jinja_string(NULL, 0);
    char text[160] = {0};
    size_t n = 0;
    for (; n < s.n && n < sizeof text - 1; n++)
        text[n] = JINJA_CODE(s.s[n]) < 127 && JINJA_CODE(s.s[n]) > 31 ? (char)s.s[n] : '?';
    jinja_fail(r, "the template says: %s", text);
    return jinja_none();
}

enum { FORMAT_MOST = 63 };

/* 1: the format asks for what C and Python write differently: microseconds and the time zone. */
static int is_other_format(const char *format)
{
    for (const char *at = strchr(format, '%'); at; at = strchr(at, '%')) {
        at += 1 + strspn(at + 1, "-_0123456789^#:EO");
        if (*at && strchr("fzZ", *at))
            return 1;
        at += *at != 0;
    }
    return 0;
}

/* The local time; names of months are English. */
static struct jinja_value do_now(struct jinja_run *r, const struct jinja_args *a)
{
    char format[FORMAT_MOST + 4] = {0}, text[1024] = {0};
    size_t n_format = 0, n = 0;
    time_t now = time(NULL);
    struct tm local;
    struct jinja_value f = a->n == 1 ? a->v[0] : jinja_none();
    int ok = jinja_is_text(f) && localtime_r(&now, &local);
    for (size_t i = 0; ok && i < f.n; i++) {
        uint32_t c = JINJA_CODE(f.s[i]);
        ok = c > 0 && c < JINJA_BAD_BYTE && n_format < FORMAT_MOST;
        if (ok)
            n_format += utf8_put(c, format + n_format);
    }
    format[n_format] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (ok && !is_other_format(format))
        n = strftime(text, sizeof text, format, &local);
#pragma GCC diagnostic pop
    if (n == 0 && (!ok || n_format > 0))
        jinja_fail(r, "strftime_now without a short format that Python writes alike");
    return jinja_utf8(r, text, n, 0);
}

static const struct {
    const char *name;
    struct jinja_value (*run)(struct jinja_run *r, const struct jinja_args *a);
} functions[] = {{"namespace", do_namespace},
                 {"range", do_range},
                 {"raise_exception", do_raise},
                 {"strftime_now", do_now},
                 {"dict", do_dict}};

int64_t jinja_function_of(struct jinja_value name)
{
    return JINJA_ROW(name, functions);
}

struct jinja_value jinja_function(struct jinja_run *r, int64_t which, const struct jinja_args *a)
{
    return functions[which].run(r, a);
}
