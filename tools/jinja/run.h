/* A template's tokens, and a run over them.
 *
 * The interpreter walks the tokens and has no tree: a part that does not count (the other branch,
 * the operand after a decided `or`) is walked with `live` = 0, which evaluates nothing. A first
 * walk like that, when the template is read, finds every syntax error.
 */
#ifndef MGPT_JINJA_RUN_H
#define MGPT_JINJA_RUN_H

#include "jinja/values.h"

enum jinja_token_type {
    T_END,
    T_TEXT,      /* s, n: text of the template */
    T_PRINT,     /* {{ */
    T_PRINT_END, /* }} */
    T_TAG,       /* {% */
    T_TAG_END,   /* %} */
    T_NAME,      /* s, n */
    T_STRING,    /* s, n: without quotes and escapes */
    T_INT,       /* i */
    T_REAL,
    T_OP /* i: a character, or two of them as JINJA_OP2 */
};

#define JINJA_OP2(a, b) ((a) << 8 | (b))

struct jinja_token {
    enum jinja_token_type type;
    uint32_t line;
    int64_t i;
    const uint32_t *s;
    size_t n;
    size_t if_at; /* the `if` of the conditional expression that begins here; 0: none begins */
};

struct jinja {
    uint32_t *source; /* stb_ds arrays */
    uint32_t *pool;   /* the strings without escapes; never longer than source */
    struct jinja_token *tokens;
};

struct jinja_var {
    struct jinja_value name, value;
};

struct jinja_frame {
    struct jinja_var *vars;
    size_t n, cap;
    struct jinja_frame *up;
};

struct jinja_macro {
    struct jinja_value name;
    size_t at; /* the token after the name */
    struct jinja_frame *frame;
};

struct jinja_block;

struct jinja_run {
    struct jinja *t; /* the first walk stores if_at; later ones only read */
    size_t at;
    int live, is_first_walk;
    enum jinja_leaving { STAY, BREAK, CONTINUE } leave;
    struct jinja_frame *frame;
    struct jinja_buffer *out;
    unsigned depth;
    uint64_t steps;
    size_t n_taken;
    struct jinja_block *blocks;
    mgpt_error *err;
    int status;
};

/* Fills the tokens (lex.c). Returns a status. */
int jinja_lex(struct jinja *t, const char *text, size_t n, mgpt_error *err);

/* ---- tokens ---- */

static inline const struct jinja_token *jinja_now(const struct jinja_run *r)
{
    return &r->t->tokens[r->at];
}

/* These move past the token only if it is there. */
int jinja_take_op(struct jinja_run *r, int op);
int jinja_take_word(struct jinja_run *r, const char *word);
int jinja_at_op(const struct jinja_run *r, int op);
int jinja_at_word(const struct jinja_run *r, const char *word);
void jinja_expect_op(struct jinja_run *r, int op);
struct jinja_value jinja_expect_name(struct jinja_run *r);
void jinja_unexpected(struct jinja_run *r);

/* To another token, unless the run has failed. */
void jinja_go_to(struct jinja_run *r, size_t at);

/* ---- expressions (operators.c, expression.c) ---- */

struct jinja_value jinja_expression(struct jinja_run *r);
struct jinja_value jinja_or(struct jinja_run *r); /* ... without a condition */
struct jinja_value jinja_tuple(struct jinja_run *r, int with_condition); /* a, b */
struct jinja_value jinja_unary(struct jinja_run *r, int with_filters);
struct jinja_value jinja_filters(struct jinja_run *r, struct jinja_value v, int inline_first);
void jinja_read_args(struct jinja_run *r, struct jinja_args *args);

/* ---- statements (statement.c) ---- */

void jinja_statements(struct jinja_run *r); /* up to a tag that ends the part, or to the end */
void jinja_end_tag(struct jinja_run *r);
void jinja_take_end(struct jinja_run *r, const char *word); /* {% word %}, which ends a part */

/* ---- scopes and macros (scope.c) ---- */

struct jinja_value jinja_variable(struct jinja_run *r, struct jinja_value name);
void jinja_set_variable(struct jinja_run *r, struct jinja_value name, struct jinja_value v);

/* A scope inside `up`; variables that are set in it end with it. */
void jinja_open_frame(struct jinja_run *r, struct jinja_frame *up);
void jinja_do_macro(struct jinja_run *r);
struct jinja_value jinja_call_macro(struct jinja_run *r, const struct jinja_macro *m,
                                    const struct jinja_args *args);

/* Nested calls are bounded: 0 after a failure. */
int jinja_enter(struct jinja_run *r);
void jinja_leave(struct jinja_run *r);

#endif
