/* Operators, by precedence: if-else, or, and, not, comparisons, + -, ~, * / %. See run.h. */
#include "jinja/run.h"

#include <string.h>

static struct jinja_value number_of(struct jinja_run *r, int op, int64_t a, int64_t b)
{
    int64_t c = 0;
    int bad = 0;
    if (op == '+')
        bad = __builtin_add_overflow(a, b, &c);
    else if (op == '-')
        bad = __builtin_sub_overflow(a, b, &c);
    else if (op == '*')
        bad = __builtin_mul_overflow(a, b, &c);
    else if (b <= 0 || a < 0) /* where C and Python differ */
        bad = 1;
    else
        c = op == '%' ? a % b : a / b;
    if (bad)
        jinja_fail(r, "a number that mgpt does not compute");
    return jinja_int(c);
}

static struct jinja_value joined(struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    struct jinja_buffer both = {0};
    if (a.kind == J_SAFE || b.kind == J_SAFE)
        jinja_fail(r, "text marked as safe is joined, which mgpt does not do");
    if (b.n == 0 || a.n == 0)
        return b.n == 0 ? a : b;
    jinja_put(r, &both, a.s, a.n);
    jinja_put(r, &both, b.s, b.n);
    return jinja_string(both.s, both.n);
}

static struct jinja_value joined_lists(struct jinja_run *r, struct jinja_value a,
                                       struct jinja_value b)
{
    struct jinja_value *items = jinja_take(r, a.n + b.n, sizeof *items);
    if (!items || !jinja_steps(r, a.n + b.n))
        return a;
    if (a.n > 0)
        memcpy(items, a.items, a.n * sizeof *items);
    if (b.n > 0)
        memcpy(items + a.n, b.items, b.n * sizeof *items);
    return jinja_list(items, a.n + b.n);
}

static struct jinja_value operate(struct jinja_run *r, int op, struct jinja_value a,
                                  struct jinja_value b)
{
    int numbers = (a.kind == J_INT || a.kind == J_BOOL) && (b.kind == J_INT || b.kind == J_BOOL);
    if (!r->live || r->status != MGPT_OK)
        return jinja_none();
    if (op == '~')
        return joined(r, jinja_str(r, a), jinja_str(r, b));
    if (op == '+' && jinja_is_text(a) && jinja_is_text(b))
        return joined(r, a, b);
    if (op == '+' && a.kind == J_LIST && b.kind == J_LIST)
        return joined_lists(r, a, b);
    if (numbers && strchr("+-*%", op & 127) && op < 256)
        return number_of(r, op, a.i, b.i);
    if (numbers && op == JINJA_OP2('/', '/'))
        return number_of(r, '/', a.i, b.i);
    const struct jinja_value *u = a.kind == J_UNDEFINED ? &a : b.kind == J_UNDEFINED ? &b : NULL;
    if (u && u->n)
        jinja_fail(r, "'%s' is undefined", jinja_show(u->s, u->n).text);
    else
        jinja_fail(r, "an operator between %s and %s", jinja_kind_name(a), jinja_kind_name(b));
    return jinja_none();
}

static struct jinja_value product(struct jinja_run *r)
{
    struct jinja_value v = jinja_unary(r, 1);
    for (;;) {
        const struct jinja_token *t = jinja_now(r);
        int op = t->type == T_OP ? (int)t->i : 0;
        if (op == JINJA_OP2('*', '*'))
            jinja_unexpected(r);
        if (op != '*' && op != '/' && op != '%' && op != JINJA_OP2('/', '/'))
            return v;
        r->at++;
        v = operate(r, op, v, jinja_unary(r, 1));
    }
}

static struct jinja_value concatenation(struct jinja_run *r)
{
    struct jinja_value v = product(r);
    while (jinja_take_op(r, '~'))
        v = operate(r, '~', v, product(r));
    return v;
}

static struct jinja_value sum(struct jinja_run *r)
{
    struct jinja_value v = concatenation(r);
    for (;;) {
        int op = jinja_at_op(r, '+') ? '+' : jinja_at_op(r, '-') ? '-' : 0;
        if (!op)
            return v;
        r->at++;
        v = operate(r, op, v, concatenation(r));
    }
}

static int compare_order(struct jinja_run *r, int op, struct jinja_value a, struct jinja_value b)
{
    int c = (a.i > b.i) - (a.i < b.i);
    if (!((a.kind == J_INT || a.kind == J_BOOL) && (b.kind == J_INT || b.kind == J_BOOL)))
        jinja_fail(r, "an order of %s and %s", jinja_kind_name(a), jinja_kind_name(b));
    return op == '<' ? c < 0 : op == '>' ? c > 0 : op == JINJA_OP2('<', '=') ? c <= 0 : c >= 0;
}

/* The comparison that is next: an operator, 'i' for in, 'n' for not in; 0: none. It is taken. */
static int take_comparison(struct jinja_run *r)
{
    static const int ops[] = {JINJA_OP2('=', '='), JINJA_OP2('!', '='), '<', '>',
                              JINJA_OP2('<', '='), JINJA_OP2('>', '=')};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (jinja_take_op(r, ops[i]))
            return ops[i];
    if (jinja_take_word(r, "in"))
        return 'i';
    if (!jinja_at_word(r, "not"))
        return 0;
    r->at++;
    if (jinja_take_word(r, "in"))
        return 'n';
    r->at--;
    return 0;
}

static int compared(struct jinja_run *r, int op, struct jinja_value a, struct jinja_value b)
{
    if (op == JINJA_OP2('=', '=') || op == JINJA_OP2('!', '='))
        return jinja_equal(r, a, b) == (op == JINJA_OP2('=', '='));
    if (op == 'i' || op == 'n')
        return jinja_contains(r, b, a) == (op == 'i');
    return compare_order(r, op, a, b);
}

static struct jinja_value comparison(struct jinja_run *r)
{
    struct jinja_value a = sum(r);
    int is_one = 0, truth = 1, op;
    while ((op = take_comparison(r))) {
        struct jinja_value b = sum(r);
        if (r->live && truth && r->status == MGPT_OK)
            truth = compared(r, op, a, b);
        a = b;
        is_one = 1;
    }
    return is_one ? jinja_bool(truth) : a;
}

static struct jinja_value negation(struct jinja_run *r)
{
    int n = 0;
    while (jinja_take_word(r, "not"))
        n++;
    struct jinja_value v = comparison(r);
    return n && r->live ? jinja_bool(jinja_truth(v) == (n % 2 == 0)) : v;
}

/* Parts joined by `word`. A part whose truth is `decides` is the value, and the parts after it are only read. */
static struct jinja_value junction(struct jinja_run *r, const char *word, int decides,
                                   struct jinja_value (*part)(struct jinja_run *r))
{
    struct jinja_value v = part(r);
    const int live = r->live;
    while (jinja_take_word(r, word)) {
        r->live = r->live && jinja_truth(v) != decides;
        struct jinja_value right = part(r);
        v = r->live ? right : v;
    }
    r->live = live;
    return v;
}

static struct jinja_value conjunction(struct jinja_run *r)
{
    return junction(r, "and", 0, negation);
}

struct jinja_value jinja_or(struct jinja_run *r)
{
    return junction(r, "or", 1, conjunction);
}

/* "a if condition else b": `from` is the token of a, and "if" is at if_at. */
static struct jinja_value conditional(struct jinja_run *r, size_t from, size_t if_at)
{
    const int live = r->live;
    struct jinja_value v = jinja_undefined(NULL, 0), other = v;
    jinja_go_to(r, if_at + 1);
    int truth = jinja_truth(jinja_or(r));
    size_t after = r->at;
    if (live && truth) {
        jinja_go_to(r, from);
        v = jinja_or(r);
        jinja_go_to(r, after);
    }
    if (jinja_take_word(r, "else")) {
        r->live = live && !truth;
        other = jinja_expression(r);
        r->live = live;
    }
    if (jinja_at_word(r, "if"))
        jinja_unexpected(r);
    return truth ? v : other;
}

struct jinja_value jinja_expression(struct jinja_run *r)
{
    const size_t from = r->at;
    struct jinja_value v;
    if (!jinja_enter(r))
        return jinja_none();
    if (!r->is_first_walk && r->t->tokens[from].if_at)
        v = conditional(r, from, r->t->tokens[from].if_at);
    else {
        v = jinja_or(r);
        if (r->is_first_walk && jinja_at_word(r, "if")) {
            r->t->tokens[from].if_at = r->at;
            v = conditional(r, from, r->at);
        }
    }
    jinja_leave(r);
    return v;
}
