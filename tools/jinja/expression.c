/* Expressions, by Jinja's precedence: if-else, or, and, not, comparisons, + -, ~, * / %, unary,
 * calls and subscripts, filters and tests. See run.h.
 */
#include "base/error.h"
#include "jinja/run.h"

#include <stdlib.h>
#include <string.h>

/* ---- tokens ---------------------------------------------------------------------------------- */

int jinja_at_op(const struct jinja_run *r, int op)
{
    return jinja_now(r)->type == T_OP && jinja_now(r)->i == op;
}

int jinja_at_word(const struct jinja_run *r, const char *word)
{
    const struct jinja_token *t = jinja_now(r);
    return t->type == T_NAME && jinja_is(jinja_string(t->s, t->n), word);
}

int jinja_take_op(struct jinja_run *r, int op)
{
    int is = jinja_at_op(r, op);
    r->at += (size_t)is;
    return is;
}

int jinja_take_word(struct jinja_run *r, const char *word)
{
    int is = jinja_at_word(r, word);
    r->at += (size_t)is;
    return is;
}

void jinja_unexpected(struct jinja_run *r)
{
    const struct jinja_token *t = jinja_now(r);
    char op[3] = {(char)(t->i > 255 ? t->i >> 8 : t->i), (char)(t->i > 255 ? t->i & 255 : 0), 0};
    if (t->type == T_OP)
        jinja_fail(r, "'%s' does not belong there", op);
    else if (t->type == T_NAME)
        jinja_fail(r, "'%s' does not belong there", jinja_show(t->s, t->n).text);
    else
        jinja_fail(r, "a tag ends too early, or has too much in it");
}

void jinja_expect_op(struct jinja_run *r, int op)
{
    if (!jinja_take_op(r, op))
        jinja_unexpected(r);
}

struct jinja_value jinja_expect_name(struct jinja_run *r)
{
    const struct jinja_token *t = jinja_now(r);
    if (t->type != T_NAME)
        jinja_unexpected(r);
    else
        r->at++;
    return jinja_string(t->s, t->n);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void read_arg(struct jinja_run *r, struct jinja_args *args)
{
    const struct jinja_token *t = jinja_now(r);
    struct jinja_value name = jinja_none();
    int is_spread = jinja_take_op(r, '*') || jinja_take_op(r, JINJA_OP2('*', '*'));
    if (is_spread && r->live)
        jinja_fail(r, "a call with *, which mgpt does not do");
    if (t->type == T_NAME && t[1].type == T_OP && t[1].i == '=') {
        name = jinja_expect_name(r);
        r->at++;
    }
    struct jinja_value v = jinja_expression(r);
    if (args->n == JINJA_ARGS_MOST)
        jinja_fail(r, "a call with more than %d arguments", JINJA_ARGS_MOST);
    else {
        args->names[args->n] = name;
        args->v[args->n++] = v;
        args->n_plain += name.kind == J_NONE;
    }
    if (name.kind == J_NONE && args->n_plain < args->n)
        jinja_unexpected(r);
}

void jinja_read_args(struct jinja_run *r, struct jinja_args *args)
{
    args->n = args->n_plain = 0;
    jinja_expect_op(r, '(');
    while (r->status == MGPT_OK && !jinja_at_op(r, ')')) {
        read_arg(r, args);
        if (!jinja_take_op(r, ','))
            break;
    }
    jinja_expect_op(r, ')');
}

static struct jinja_value call(struct jinja_run *r, struct jinja_value v)
{
    struct jinja_args args;
    jinja_read_args(r, &args);
    if (!r->live)
        return jinja_none();
    if (v.kind == J_MACRO)
        return jinja_call_macro(r, v.macro, &args);
    if (v.kind == J_FUNCTION)
        return jinja_function(r, v.i, &args);
    if (v.kind == J_UNDEFINED)
        jinja_fail(r, "'%s' is called, which mgpt does not know", jinja_show(v.s, v.n).text);
    else
        jinja_fail(r, "%s is called", jinja_kind_name(v));
    return jinja_none();
}

/* ---- subscripts ------------------------------------------------------------------------------ */

static struct jinja_value item_at(struct jinja_value v, int64_t i)
{
    int64_t n = (int64_t)v.n;
    i = i < 0 ? i + n : i;
    if (i < 0 || i >= n)
        return jinja_undefined(NULL, 0);
    return v.kind == J_LIST ? v.items[i] : jinja_string(v.s + i, 1);
}

static struct jinja_value item_of(struct jinja_run *r, struct jinja_value v, struct jinja_value key)
{
    if ((key.kind == J_INT || key.kind == J_BOOL) && (v.kind == J_LIST || jinja_is_text(v)))
        return item_at(v, key.i);
    return jinja_attribute(r, v, key);
}

/* Python's slice: [from:to:step] of n items, as indices that are in range. */
static struct jinja_value slice_of(struct jinja_run *r, struct jinja_value v,
                                   const struct jinja_value bound[3])
{
    const int64_t n = (int64_t)v.n, step = bound[2].kind == J_INT ? bound[2].i : 1;
    int64_t at[2];
    if ((v.kind != J_LIST && !jinja_is_text(v)) || step == 0) {
        jinja_fail(r, "a slice of %s", jinja_kind_name(v));
        return jinja_none();
    }
    for (int k = 0; k < 3; k++)
        if (bound[k].kind != J_INT && bound[k].kind != J_NONE)
            jinja_fail(r, "a slice by %s", jinja_kind_name(bound[k]));
    for (int k = 0; k < 2; k++) {
        int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
        int64_t i = bound[k].i < 0 ? bound[k].i + n : bound[k].i;
        if (bound[k].kind == J_NONE)
            i = (k == 0) == (step > 0) ? low : high;
        at[k] = i < low ? low : i > high ? high : i;
    }
    size_t count = 0, each = v.kind == J_LIST ? sizeof *v.items : sizeof *v.s;
    char *items = jinja_take(r, v.n, each);
    for (int64_t i = at[0]; items && (step > 0 ? i < at[1] : i > at[1]); i += step) {
        memcpy(items + count++ * each, (const char *)v.s + (size_t)i * each, each);
        if (step > n || step < -n)
            break;
    }
    v.s = (const void *)items;
    v.kind = v.kind == J_LIST ? J_LIST : J_STRING;
    v.n = count;
    return v;
}

static struct jinja_value subscript(struct jinja_run *r, struct jinja_value v)
{
    struct jinja_value bound[3] = {jinja_none(), jinja_none(), jinja_none()};
    int n_colons = 0, is_read = 0;
    while (r->status == MGPT_OK && !jinja_at_op(r, ']')) {
        if (jinja_take_op(r, ':')) {
            is_read = 0;
            if (++n_colons > 2)
                jinja_unexpected(r);
        } else if (is_read)
            jinja_unexpected(r);
        else {
            bound[n_colons] = jinja_expression(r);
            is_read = 1;
        }
    }
    jinja_expect_op(r, ']');
    if (!r->live)
        return jinja_none();
    return n_colons ? slice_of(r, v, bound) : item_of(r, v, bound[0]);
}

/* .name, or .name(...) of a method */
static struct jinja_value dotted(struct jinja_run *r, struct jinja_value v)
{
    struct jinja_args args;
    const struct jinja_token *t = jinja_now(r);
    if (t->type == T_INT) {
        r->at++;
        return r->live ? item_of(r, v, jinja_int(t->i)) : jinja_none();
    }
    struct jinja_value name = jinja_expect_name(r);
    int is_method = r->live && jinja_is_method(v, name);
    if (is_method && !jinja_at_op(r, '('))
        jinja_fail(r, "the method '%s' is not called", jinja_show(name.s, name.n).text);
    if (is_method) {
        jinja_read_args(r, &args);
        return r->status == MGPT_OK ? jinja_method(r, v, name, &args) : jinja_none();
    }
    struct jinja_value found = r->live ? jinja_attribute(r, v, name) : jinja_none();
    if (found.kind == J_UNDEFINED)
        found = jinja_undefined(name.s, name.n);
    return found;
}

static struct jinja_value postfix(struct jinja_run *r, struct jinja_value v)
{
    for (;;) {
        if (jinja_take_op(r, '.'))
            v = dotted(r, v);
        else if (jinja_take_op(r, '['))
            v = subscript(r, v);
        else if (jinja_at_op(r, '('))
            v = call(r, v);
        else
            return v;
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static struct jinja_value read_dict(struct jinja_run *r)
{
    struct jinja_value v = {.kind = J_DICT, .dict = jinja_take(r, 1, sizeof *v.dict)};
    while (r->status == MGPT_OK && !jinja_at_op(r, '}')) {
        struct jinja_value key = jinja_expression(r);
        jinja_expect_op(r, ':');
        struct jinja_value item = jinja_expression(r);
        if (r->live && r->status == MGPT_OK)
            jinja_set_pair(r, v.dict, key, item);
        if (!jinja_take_op(r, ','))
            break;
    }
    jinja_expect_op(r, '}');
    return v;
}

/* a, b, c] or ): the items after the first, which is given unless it is NULL. */
static struct jinja_value read_items(struct jinja_run *r, const struct jinja_value *first, int end)
{
    struct jinja_value *items = jinja_take(r, 4, sizeof *items);
    size_t n = 0, cap = 4;
    if (first && items)
        items[n++] = *first;
    while (items && r->status == MGPT_OK &&
           !(end ? jinja_at_op(r, end)
                 : jinja_now(r)->type != T_NAME && jinja_now(r)->type != T_STRING &&
                       jinja_now(r)->type != T_INT)) {
        if (n == cap) {
            struct jinja_value *grown = jinja_take(r, cap *= 2, sizeof *items);
            if (!grown)
                break;
            memcpy(grown, items, n * sizeof *items);
            items = grown;
        }
        items[n++] = jinja_expression(r);
        if (!jinja_take_op(r, ','))
            break;
    }
    return jinja_list(items, n);
}

struct jinja_value jinja_tuple(struct jinja_run *r, int with_condition)
{
    struct jinja_value v = with_condition ? jinja_expression(r) : jinja_or(r);
    return jinja_take_op(r, ',') ? read_items(r, &v, 0) : v;
}

static struct jinja_value read_brackets(struct jinja_run *r)
{
    struct jinja_value v;
    if (jinja_take_op(r, '[')) {
        v = read_items(r, NULL, ']');
        jinja_expect_op(r, ']');
        return v;
    }
    if (jinja_take_op(r, '{'))
        return read_dict(r);
    jinja_expect_op(r, '(');
    if (jinja_at_op(r, ')'))
        v = jinja_list(NULL, 0);
    else {
        v = jinja_expression(r);
        if (jinja_take_op(r, ','))
            v = read_items(r, &v, ')');
    }
    jinja_expect_op(r, ')');
    return v;
}

static struct jinja_value read_strings(struct jinja_run *r)
{
    struct jinja_buffer all = {0};
    const struct jinja_token *t = jinja_now(r);
    if (t[1].type != T_STRING) {
        r->at++;
        return jinja_string(t->s, t->n);
    }
    for (; jinja_now(r)->type == T_STRING; r->at++)
        jinja_put(r, &all, jinja_now(r)->s, jinja_now(r)->n);
    return jinja_string(all.s, all.n);
}

static struct jinja_value read_name(struct jinja_run *r)
{
    struct jinja_value name = jinja_expect_name(r);
    if (jinja_is(name, "true") || jinja_is(name, "True"))
        return jinja_bool(1);
    if (jinja_is(name, "false") || jinja_is(name, "False"))
        return jinja_bool(0);
    if (jinja_is(name, "none") || jinja_is(name, "None"))
        return jinja_none();
    return r->live ? jinja_variable(r, name) : jinja_none();
}

static struct jinja_value primary(struct jinja_run *r)
{
    const struct jinja_token *t = jinja_now(r);
    if (!jinja_steps(r, 1))
        return jinja_none();
    switch (t->type) {
    case T_NAME:
        return read_name(r);
    case T_STRING:
        return read_strings(r);
    case T_INT:
        r->at++;
        return jinja_int(t->i);
    case T_REAL:
        r->at++;
        if (r->live)
            jinja_fail(r, "a real number, which mgpt does not compute with");
        return jinja_none();
    default:
        return read_brackets(r);
    }
}

static struct jinja_value read_test(struct jinja_run *r, struct jinja_value v)
{
    struct jinja_args args = {.n = 0};
    int is_not = jinja_take_word(r, "not");
    struct jinja_value name = jinja_expect_name(r);
    const struct jinja_token *t = jinja_now(r);
    int has_value = t->type == T_STRING || t->type == T_INT || t->type == T_REAL ||
                    jinja_at_op(r, '[') || jinja_at_op(r, '{') ||
                    (t->type == T_NAME && !jinja_at_word(r, "else") && !jinja_at_word(r, "or") &&
                     !jinja_at_word(r, "and"));
    if (jinja_at_word(r, "is"))
        jinja_unexpected(r);
    if (jinja_at_op(r, '('))
        jinja_read_args(r, &args);
    else if (has_value) {
        args.v[0] = postfix(r, primary(r));
        args.names[0] = jinja_none();
        args.n = args.n_plain = 1;
    }
    if (!r->live || r->status != MGPT_OK)
        return jinja_none();
    return jinja_bool(jinja_test(r, v, name, &args) != is_not);
}

struct jinja_value jinja_filters(struct jinja_run *r, struct jinja_value v, int inline_first)
{
    struct jinja_args args;
    while (inline_first || jinja_take_op(r, '|')) {
        inline_first = 0;
        struct jinja_value name = jinja_expect_name(r);
        args.n = args.n_plain = 0;
        if (jinja_at_op(r, '('))
            jinja_read_args(r, &args);
        v = r->live && r->status == MGPT_OK ? jinja_filter(r, v, name, &args) : jinja_none();
    }
    return v;
}

struct jinja_value jinja_unary(struct jinja_run *r, int with_filters)
{
    struct jinja_value v;
    int sign = jinja_take_op(r, '-') ? -1 : jinja_take_op(r, '+') ? 1 : 0;
    if (!jinja_enter(r))
        return jinja_none();
    v = sign ? jinja_unary(r, 0) : primary(r);
    if (sign && r->live && v.kind != J_INT)
        jinja_fail(r, "a sign before %s", jinja_kind_name(v));
    v.i = sign < 0 ? -v.i : v.i;
    v = postfix(r, v);
    while (with_filters && r->status == MGPT_OK) {
        if (jinja_at_op(r, '|'))
            v = jinja_filters(r, v, 0);
        else if (jinja_take_word(r, "is"))
            v = read_test(r, v);
        else if (jinja_at_op(r, '('))
            v = call(r, v);
        else
            break;
    }
    jinja_leave(r);
    return v;
}
