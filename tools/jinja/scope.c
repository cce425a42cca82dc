/* Variables and macros. See run.h. */
#include "jinja/run.h"

#include <string.h>

enum { DEPTH_MOST = 150 };

int jinja_enter(struct jinja_run *r)
{
    if (r->depth++ >= DEPTH_MOST)
        jinja_fail(r, "the template is nested too deep");
    return r->status == MGPT_OK;
}

void jinja_leave(struct jinja_run *r)
{
    r->depth--;
}

/* ---- variables ------------------------------------------------------------------------------- */

static struct jinja_value *frame_find(struct jinja_frame *f, struct jinja_value name)
{
    for (size_t i = 0; i < f->n; i++)
        if (jinja_same_text(f->vars[i].name.s, f->vars[i].name.n, name.s, name.n))
            return &f->vars[i].value;
    return NULL;
}

struct jinja_value jinja_variable(struct jinja_run *r, struct jinja_value name)
{
    for (struct jinja_frame *f = r->frame; f; f = f->up) {
        struct jinja_value *found = frame_find(f, name);
        if (found)
            return *found;
        if (!jinja_steps(r, f->n))
            break;
    }
    struct jinja_value function = {.kind = J_FUNCTION, .i = jinja_function_of(name)};
    return function.i >= 0 ? function : jinja_undefined(name.s, name.n);
}

void jinja_set_variable(struct jinja_run *r, struct jinja_value name, struct jinja_value v)
{
    struct jinja_frame *f = r->frame;
    struct jinja_value *old = frame_find(f, name);
    if (v.kind == J_STREAM)
        jinja_fail(r, "a generator is kept in a variable, which mgpt does not do");
    if (old)
        *old = v;
    if (old || !jinja_steps(r, f->n + 1))
        return;
    if (f->n == f->cap) {
        size_t cap = 2 * f->cap + 8;
        struct jinja_var *grown = jinja_take(r, cap, sizeof *grown);
        if (!grown)
            return;
        if (f->n > 0)
            memcpy(grown, f->vars, f->n * sizeof *grown);
        f->vars = grown;
        f->cap = cap;
    }
    f->vars[f->n++] = (struct jinja_var){name, v};
}

/* A scope inside `up`; variables that are set in it end with it. */
void jinja_open_frame(struct jinja_run *r, struct jinja_frame *up)
{
    struct jinja_frame *f = jinja_take(r, 1, sizeof *f);
    if (f) {
        f->up = up;
        r->frame = f;
    }
}

/* ---- macros ---------------------------------------------------------------------------------- */

void jinja_do_macro(struct jinja_run *r)
{
    struct jinja_value name = jinja_expect_name(r);
    struct jinja_macro *m = jinja_take(r, 1, sizeof *m);
    const int live = r->live;
    size_t at = r->at;
    r->live = 0;
    jinja_expect_op(r, '(');
    while (r->status == MGPT_OK && !jinja_at_op(r, ')')) {
        jinja_expect_name(r);
        if (jinja_take_op(r, '='))
            jinja_expression(r);
        if (!jinja_take_op(r, ','))
            break;
    }
    jinja_expect_op(r, ')');
    jinja_end_tag(r);
    jinja_statements(r);
    jinja_take_end(r, "endmacro");
    r->live = live;
    if (!live || !m || r->status != MGPT_OK)
        return;
    *m = (struct jinja_macro){name, at, r->frame};
    jinja_set_variable(r, name, (struct jinja_value){.kind = J_MACRO, .macro = m});
}

/* The argument of this name, or the i-th one; NULL: none. */
static const struct jinja_value *argument(const struct jinja_args *args, struct jinja_value name,
                                          size_t i, size_t *n_used)
{
    if (i < args->n_plain)
        return &args->v[i];
    for (size_t k = args->n_plain; k < args->n; k++)
        if (jinja_same_text(args->names[k].s, args->names[k].n, name.s, name.n)) {
            ++*n_used;
            return &args->v[k];
        }
    return NULL;
}

static void bind_arguments(struct jinja_run *r, const struct jinja_macro *m,
                           const struct jinja_args *args)
{
    size_t n = 0, n_used = 0;
    jinja_expect_op(r, '(');
    while (r->status == MGPT_OK && !jinja_at_op(r, ')')) {
        struct jinja_value name = jinja_expect_name(r), v = jinja_undefined(name.s, name.n);
        const struct jinja_value *given = argument(args, name, n++, &n_used);
        if (jinja_take_op(r, '=')) {
            r->live = !given;
            v = jinja_expression(r);
            r->live = 1;
        }
        jinja_set_variable(r, name, given ? *given : v);
        if (!jinja_take_op(r, ','))
            break;
    }
    jinja_expect_op(r, ')');
    if (args->n_plain > n || n_used != args->n - args->n_plain)
        jinja_fail(r, "the macro '%s' has no such argument", jinja_show(m->name.s, m->name.n).text);
}

struct jinja_value jinja_call_macro(struct jinja_run *r, const struct jinja_macro *m,
                                    const struct jinja_args *args)
{
    struct jinja_frame *outer = r->frame;
    struct jinja_buffer text = {0}, *out = r->out;
    const size_t back = r->at;
    if (!jinja_enter(r))
        return jinja_none();
    jinja_open_frame(r, m->frame);
    r->out = &text;
    jinja_go_to(r, m->at);
    bind_arguments(r, m, args);
    jinja_end_tag(r);
    jinja_statements(r);
    r->out = out;
    r->frame = outer;
    jinja_leave(r);
    jinja_go_to(r, back);
    return jinja_string(text.s, text.n);
}
