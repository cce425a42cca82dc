/* Values of a running template. Those that it makes are in the run's arena until the run ends.
 *
 * A string is an array of characters: a code point, 0x110000 + byte for a byte that is not UTF-8,
 * and JINJA_TYPED set where the character is of a message.
 */
#ifndef MGPT_JINJA_VALUES_H
#define MGPT_JINJA_VALUES_H

#include "jinja/jinja.h"

#define JINJA_TYPED 0x80000000u
#define JINJA_CODE(c) ((c) & ~JINJA_TYPED)
#define JINJA_BAD_BYTE 0x110000u

enum jinja_kind {
    J_UNDEFINED, /* s, n: the name that was looked for */
    J_NONE,
    J_BOOL,
    J_INT,
    J_STRING,
    J_SAFE, /* a string marked by the filter "safe": it can be printed */
    J_LIST,
    J_STREAM, /* a generator: items that are taken once, always true, without a length */
    J_DICT,
    J_NAMESPACE, /* as a dict; the only value that can be changed */
    J_LOOP,
    J_MACRO,
    J_FUNCTION /* i: which (builtins.c) */
};

struct jinja_value {
    enum jinja_kind kind;
    int64_t i;
    size_t n; /* characters, items */
    union {
        const uint32_t *s;
        const struct jinja_value *items;
        struct jinja_dict *dict;
        struct jinja_loop *loop;
        const struct jinja_macro *macro;
    };
};

struct jinja_pair {
    struct jinja_value key, value;
};

struct jinja_dict {
    struct jinja_pair *pairs;
    size_t n, cap;
};

struct jinja_loop {
    const struct jinja_value *items;
    size_t n, index;
};

/* Characters that grow. */
struct jinja_buffer {
    uint32_t *s;
    size_t n, cap;
};

/* The arguments of a call: n_plain by place, then those with names. */
enum { JINJA_ARGS_MOST = 24 };
struct jinja_args {
    struct jinja_value v[JINJA_ARGS_MOST], names[JINJA_ARGS_MOST];
    size_t n, n_plain;
};

struct jinja_run;

/* ---- the run's arena and its failure (values.c) ---------------------------------------------- */

/* n * each bytes, zeroed; NULL after a failure, which is then the run's. */
void *jinja_take(struct jinja_run *r, size_t n, size_t each);

/* The first failure of a run counts; it ends all loops, as the tokens end with it. */
__attribute__((format(printf, 2, 3))) void jinja_fail(struct jinja_run *r, const char *fmt, ...);

void jinja_free_blocks(struct jinja_run *r);

/* Counts work; a run that does too much fails. Returns 1 to go on. */
int jinja_steps(struct jinja_run *r, size_t n);

/* ---- making ---------------------------------------------------------------------------------- */

struct jinja_value jinja_undefined(const uint32_t *name, size_t n);
struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(int truth);
struct jinja_value jinja_int(int64_t i);
struct jinja_value jinja_string(const uint32_t *s, size_t n);
struct jinja_value jinja_list(const struct jinja_value *items, size_t n);
struct jinja_value jinja_utf8(struct jinja_run *r, const char *text, size_t n, uint32_t mark);
struct jinja_value jinja_ascii(struct jinja_run *r, const char *text); /* of the template */
void jinja_set_pair(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key,
                    struct jinja_value value);
void jinja_put(struct jinja_run *r, struct jinja_buffer *b, const uint32_t *s, size_t n);
void jinja_put_ascii(struct jinja_run *r, struct jinja_buffer *b, const char *text);

/* ---- asking ---------------------------------------------------------------------------------- */

/* "a number", "None": for messages. */
const char *jinja_kind_name(struct jinja_value v);
int jinja_is_text(struct jinja_value v); /* J_STRING or J_SAFE */
int jinja_is(struct jinja_value v, const char *ascii);

/* The index of the row of a table that begins with this name; -1: none. */
int jinja_row_of(struct jinja_value name, const void *rows, size_t n, size_t size);
#define JINJA_ROW(name, rows)                                                                      \
    jinja_row_of(name, rows, sizeof(rows) / sizeof *(rows), sizeof *(rows))

int jinja_same_text(const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b);
int jinja_space(uint32_t c); /* Python's str.isspace */
int jinja_truth(struct jinja_value v);
int jinja_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b);
int jinja_contains(struct jinja_run *r, struct jinja_value all, struct jinja_value part);
const struct jinja_value *jinja_look_up(const struct jinja_dict *d, struct jinja_value key);

/* Where part begins in s at or after `from`; SIZE_MAX: nowhere. */
size_t jinja_find(struct jinja_run *r, struct jinja_value s, struct jinja_value part, size_t from);

/* Python's str(). */
struct jinja_value jinja_str(struct jinja_run *r, struct jinja_value v);

/* The items that a loop over the value gives: a list. */
struct jinja_value jinja_iterate(struct jinja_run *r, struct jinja_value v);

/* A name in a message: at most 60 characters, ASCII only. */
struct jinja_shown {
    char text[64];
};
struct jinja_shown jinja_show(const uint32_t *s, size_t n);

/* ---- JSON (json.c) --------------------------------------------------------------------------- */

/* json.dumps as transformers' filter calls it; indent -1: one line. */
struct jinja_value jinja_to_json(struct jinja_run *r, struct jinja_value v, int64_t indent,
                                 int ascii);

/* ---- filters.c, builtins.c, text_methods.c -------------------------------------------------------------- */

struct jinja_value jinja_filter(struct jinja_run *r, struct jinja_value v, struct jinja_value name,
                                const struct jinja_args *args);
int jinja_test(struct jinja_run *r, struct jinja_value v, struct jinja_value name,
               const struct jinja_args *args);
struct jinja_value jinja_method(struct jinja_run *r, struct jinja_value self,
                                struct jinja_value name, const struct jinja_args *args);
int jinja_is_method(struct jinja_value self, struct jinja_value name);
struct jinja_value jinja_function(struct jinja_run *r, int64_t which,
                                  const struct jinja_args *args);
int64_t jinja_function_of(struct jinja_value name); /* -1: no function */

/* Which method of strings has this name; -1: none. */
int jinja_text_method_of(struct jinja_value name);
struct jinja_value jinja_text_method(struct jinja_run *r, struct jinja_value s,
                                     struct jinja_value name, const struct jinja_args *args);

/* The keys (1), values (2) or both (3) of a dict, as a list. */
struct jinja_value jinja_items(struct jinja_run *r, struct jinja_value dict, int which);

/* sides: 1 left, 2 right; set NULL: white space. */
struct jinja_value jinja_strip(struct jinja_run *r, struct jinja_value s,
                               const struct jinja_value *set, int sides);
struct jinja_value jinja_replace(struct jinja_run *r, struct jinja_value s,
                                 const struct jinja_value *v, size_t n_v);
struct jinja_value jinja_join(struct jinja_run *r, struct jinja_value between,
                              struct jinja_value list);

/* obj.name and obj[key], without methods. */
struct jinja_value jinja_attribute(struct jinja_run *r, struct jinja_value v,
                                   struct jinja_value key);

#endif
