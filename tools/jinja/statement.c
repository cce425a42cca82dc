/* Statements. See run.h. */
#include "jinja/run.h"

#include <string.h>

/* ---- tags ------------------------------------------------------------------------------------ */

void jinja_end_tag(struct jinja_run *r)
{
    if (jinja_now(r)->type != T_TAG_END)
        jinja_unexpected(r);
    else
        r->at++;
}

static int at_tag(const struct jinja_run *r, const char *word)
{
    const struct jinja_token *t = jinja_now(r);
    return t->type == T_TAG && t[1].type == T_NAME && jinja_is(jinja_string(t[1].s, t[1].n), word);
}

/* {% word %}, which ends a part. */
void jinja_take_end(struct jinja_run *r, const char *word)
{
    if (!at_tag(r, word)) {
        jinja_fail(r, "a part without {%% %s %%}", word);
        return;
    }
    r->at += 2;
    jinja_end_tag(r);
}

void jinja_go_to(struct jinja_run *r, size_t at)
{
    if (r->status == MGPT_OK)
        r->at = at;
}

/* ---- if -------------------------------------------------------------------------------------- */

/* Walks a part that counts if `live`. */
static void walk(struct jinja_run *r, int live)
{
    const int outer = r->live;
    r->live = outer && live;
    jinja_statements(r);
    if (!r->leave) /* break and continue end what is live up to the loop's end */
        r->live = outer;
}

static void do_if(struct jinja_run *r)
{
    int decided = 0;
    int truth = jinja_truth(jinja_tuple(r, 0));
    jinja_end_tag(r);
    walk(r, truth);
    decided = truth;
    while (at_tag(r, "elif")) {
        const int live = r->live;
        r->at += 2;
        r->live = live && !decided;
        truth = jinja_truth(jinja_tuple(r, 0)) && !decided;
        r->live = live;
        jinja_end_tag(r);
        walk(r, truth);
        decided |= truth;
    }
    if (at_tag(r, "else")) {
        jinja_take_end(r, "else");
        walk(r, !decided);
    }
    jinja_take_end(r, "endif");
}

/* ---- for ------------------------------------------------------------------------------------- */

enum { TARGETS_MOST = 8 };

struct targets {
    struct jinja_value names[TARGETS_MOST];
    size_t n;
};

static void read_targets(struct jinja_run *r, struct targets *to)
{
    int closing = jinja_take_op(r, '(');
    to->n = 0;
    do {
        if (to->n == TARGETS_MOST)
            jinja_unexpected(r);
        else
            to->names[to->n++] = jinja_expect_name(r);
    } while (r->status == MGPT_OK && jinja_take_op(r, ','));
    if (closing)
        jinja_expect_op(r, ')');
}

static void set_targets(struct jinja_run *r, const struct targets *to, struct jinja_value v)
{
    if (to->n == 1) {
        jinja_set_variable(r, to->names[0], v);
        return;
    }
    struct jinja_value parts = jinja_iterate(r, v);
    if (parts.n != to->n)
        jinja_fail(r, "%zu values for %zu names", parts.n, to->n);
    for (size_t i = 0; i < to->n && r->status == MGPT_OK; i++)
        jinja_set_variable(r, to->names[i], parts.items[i]);
}

/* The items for which the expression at token `at` is true. */
static struct jinja_value select_items(struct jinja_run *r, const struct targets *to,
                                       struct jinja_value all, size_t at)
{
    struct jinja_frame *outer = r->frame;
    struct jinja_value *kept = jinja_take(r, all.n, sizeof *kept);
    size_t n = 0;
    for (size_t i = 0; kept && i < all.n && r->status == MGPT_OK; i++) {
        jinja_open_frame(r, outer);
        set_targets(r, to, all.items[i]);
        jinja_go_to(r, at);
        if (jinja_truth(jinja_expression(r)))
            kept[n++] = all.items[i];
    }
    r->frame = outer;
    return jinja_list(kept, n);
}

/* Returns how many times the body ran to its end: break and continue do not count, as in Jinja. */
static size_t run_loop(struct jinja_run *r, const struct targets *to, struct jinja_value all,
                       size_t body)
{
    size_t n_whole = 0;
    struct jinja_frame *outer = r->frame;
    struct jinja_loop loop = {all.items, all.n, 0};
    struct jinja_loop *own = jinja_take(r, 1, sizeof *own);
    struct jinja_value value = {.kind = J_LOOP, .loop = own};
    if (!own)
        return 0;
    *own = loop;
    for (; own->index < all.n && r->status == MGPT_OK; own->index++) {
        jinja_open_frame(r, outer);
        set_targets(r, to, all.items[own->index]);
        jinja_set_variable(r, jinja_ascii(r, "loop"), value);
        jinja_go_to(r, body);
        jinja_statements(r);
        enum jinja_leaving leave = r->leave;
        if (leave != STAY)
            r->live = 1;
        r->leave = STAY;
        n_whole += leave == STAY;
        if (leave == BREAK)
            break;
    }
    r->frame = outer;
    return n_whole;
}

static void do_for(struct jinja_run *r)
{
    struct targets to;
    read_targets(r, &to);
    if (!jinja_take_word(r, "in"))
        jinja_unexpected(r);
    struct jinja_value all = jinja_tuple(r, 0);
    const int live = r->live;
    if (live)
        all = jinja_iterate(r, all);
    if (jinja_take_word(r, "if")) {
        size_t at = r->at;
        if (live)
            all = select_items(r, &to, all, at);
        jinja_go_to(r, at);
        r->live = 0;
        jinja_expression(r);
        r->live = live;
    }
    jinja_end_tag(r);
    size_t body = r->at, n_whole = live && all.n > 0 ? run_loop(r, &to, all, body) : 0;
    jinja_go_to(r, body); /* walk to the end */
    walk(r, 0);
    if (at_tag(r, "else")) {
        jinja_take_end(r, "else");
        struct jinja_frame *outer = r->frame;
        jinja_open_frame(r, outer);
        walk(r, n_whole == 0);
        r->frame = outer;
    }
    jinja_take_end(r, "endfor");
}

/* ---- set, filter, generation ----------------------------------------------------------------- */

/* What a part writes, as a value. */
static struct jinja_value capture(struct jinja_run *r)
{
    struct jinja_buffer text = {0}, *out = r->out;
    struct jinja_frame *outer = r->frame;
    jinja_open_frame(r, outer);
    r->out = &text;
    jinja_statements(r);
    r->out = out;
    r->frame = outer;
    return jinja_string(text.s, text.n);
}

static void set_member(struct jinja_run *r, struct jinja_value name, struct jinja_value member,
                       struct jinja_value v)
{
    struct jinja_value space = jinja_variable(r, name);
    if (space.kind != J_NAMESPACE)
        jinja_fail(r, "'%s' is not a namespace", jinja_show(name.s, name.n).text);
    else
        jinja_set_pair(r, space.dict, member, v);
}

static void do_set(struct jinja_run *r)
{
    struct targets to = {.n = 1};
    struct jinja_value member = jinja_none(), v;
    const struct jinja_token *t = jinja_now(r);
    if (t->type == T_NAME && t[1].type == T_OP && t[1].i == '.') {
        to.names[0] = jinja_expect_name(r);
        r->at++;
        member = jinja_expect_name(r);
    } else
        read_targets(r, &to);
    if (jinja_take_op(r, '=')) {
        v = jinja_tuple(r, 1);
        jinja_end_tag(r);
    } else {
        size_t filters = r->at, after;
        const int live = r->live;
        r->live = 0;
        jinja_filters(r, jinja_none(), 0);
        r->live = live;
        jinja_end_tag(r);
        v = capture(r);
        after = r->at;
        jinja_go_to(r, filters);
        v = jinja_filters(r, v, 0);
        jinja_go_to(r, after);
        jinja_take_end(r, "endset");
    }
    if (!r->live || r->status != MGPT_OK)
        return;
    if (member.kind != J_NONE)
        set_member(r, to.names[0], member, v);
    else
        set_targets(r, &to, v);
}

static void do_filter(struct jinja_run *r)
{
    size_t filters = r->at, after;
    const int live = r->live;
    r->live = 0;
    jinja_filters(r, jinja_none(), 1);
    r->live = live;
    jinja_end_tag(r);
    struct jinja_value v = capture(r);
    after = r->at;
    jinja_go_to(r, filters);
    v = jinja_filters(r, v, 1);
    jinja_go_to(r, after);
    jinja_take_end(r, "endfilter");
    if (r->live && r->status == MGPT_OK) {
        v = jinja_str(r, v);
        jinja_put(r, r->out, v.s, v.n);
    }
}

/* {% generation %}: a scope that transformers marks for training. */
static void do_generation(struct jinja_run *r)
{
    struct jinja_frame *outer = r->frame;
    jinja_end_tag(r);
    jinja_open_frame(r, outer);
    jinja_statements(r);
    r->frame = outer;
    jinja_take_end(r, "endgeneration");
}

static void do_with(struct jinja_run *r)
{
    struct jinja_frame *outer = r->frame;
    struct jinja_value names[TARGETS_MOST], values[TARGETS_MOST];
    size_t n = 0;
    while (jinja_now(r)->type == T_NAME && n < TARGETS_MOST) {
        names[n] = jinja_expect_name(r);
        jinja_expect_op(r, '=');
        values[n++] = jinja_expression(r);
        if (!jinja_take_op(r, ','))
            break;
    }
    jinja_end_tag(r);
    jinja_open_frame(r, outer);
    for (size_t i = 0; i < n && r->live; i++)
        jinja_set_variable(r, names[i], values[i]);
    jinja_statements(r);
    r->frame = outer;
    jinja_take_end(r, "endwith");
}

/* {% call m() %}...{% endcall %} */
static void do_call(struct jinja_run *r)
{
    const int live = r->live;
    if (live)
        jinja_fail(r, "the tag 'call', which mgpt does not run");
    r->live = 0;
    if (jinja_take_op(r, '('))
        while (r->status == MGPT_OK && !jinja_take_op(r, ')'))
            r->at++;
    jinja_expression(r);
    jinja_end_tag(r);
    jinja_statements(r);
    jinja_take_end(r, "endcall");
    r->live = live;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void do_leave(struct jinja_run *r, int is_break)
{
    jinja_end_tag(r);
    if (r->live) {
        r->leave = is_break ? BREAK : CONTINUE;
        r->live = 0;
    }
}

static void do_break(struct jinja_run *r)
{
    do_leave(r, 1);
}

static void do_continue(struct jinja_run *r)
{
    do_leave(r, 0);
}

static const struct {
    const char *word;
    void (*run)(struct jinja_run *r);
} tags[] = {{"if", do_if},         {"for", do_for},
            {"set", do_set},       {"macro", jinja_do_macro},
            {"filter", do_filter}, {"generation", do_generation},
            {"with", do_with},     {"call", do_call},
            {"break", do_break},   {"continue", do_continue}};

/* The words that end a part, or begin the next one. */
static int is_end_word(struct jinja_value word)
{
    static const char *const words[] = {"elif",    "else",         "endif",   "endfor",
                                        "endset",  "endfilter",    "endwith", "endmacro",
                                        "endcall", "endgeneration"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (jinja_is(word, words[i]))
            return 1;
    return 0;
}

/* Runs one tag; 0 when it ends this part. */
static int run_tag(struct jinja_run *r)
{
    const struct jinja_token *t = jinja_now(r) + 1;
    struct jinja_value word = jinja_string(t->s, t->type == T_NAME ? t->n : 0);
    if (is_end_word(word))
        return 0;
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (jinja_is(word, tags[i].word)) {
            r->at += 2;
            tags[i].run(r);
            return 1;
        }
    jinja_fail(r, "the tag '%s', which mgpt does not know", jinja_show(word.s, word.n).text);
    return 0;
}

static void print_value(struct jinja_run *r)
{
    r->at++;
    struct jinja_value v = jinja_tuple(r, 1);
    if (jinja_now(r)->type != T_PRINT_END)
        jinja_unexpected(r);
    else
        r->at++;
    if (r->live && r->status == MGPT_OK) {
        v = jinja_str(r, v);
        jinja_put(r, r->out, v.s, v.n);
    }
}

/* Up to a tag that ends the part, or to the end. */
void jinja_statements(struct jinja_run *r)
{
    int more = jinja_enter(r);
    while (more && jinja_steps(r, 1)) {
        const struct jinja_token *t = jinja_now(r);
        if (t->type == T_TEXT) {
            if (r->live)
                jinja_put(r, r->out, t->s, t->n);
            r->at++;
        } else if (t->type == T_PRINT)
            print_value(r);
        else
            more = t->type == T_TAG && run_tag(r);
    }
    jinja_leave(r);
}
