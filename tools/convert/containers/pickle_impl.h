/* What the files pickle*.c share. */
#ifndef MGPT_CONVERT_PICKLE_IMPL_H
#define MGPT_CONVERT_PICKLE_IMPL_H

#include "convert/containers/pickle_words.h"

#include <setjmp.h>

/* ---- globals (pickle_globals.c) -------------------------------------------------------------- */

enum pickle_use {
    USE_NONE,  /* refused */
    USE_VALUE, /* may be a value */
    USE_CALL,  /* may be called: the call is kept as data */
    USE_DICT,  /* a call makes a dict */
    USE_LIST,  /* a call makes a list out of a list */
    USE_NEW    /* a class whose instances are data */
};

enum pickle_use pickle_use_of(struct gguf_str module, struct gguf_str name);

/* ---- the machine (pickle.c) ------------------------------------------------------------------ */

struct pickle_machine {
    struct pickle *p;
    struct cursor in;
    pickle_id *stack, *memo; /* stb_ds arrays */
    uint32_t *marks;         /* heights of the stack */
    size_t at;               /* offset of the opcode that is running */
    size_t n_pushed;         /* values so far */
    size_t n_encoded;        /* bytes of the texts that are to be decoded */
    int stopped;
    mgpt_error *err;
    jmp_buf out; /* where an opcode leaves to, with *err and its status */
    int status;
};

static inline enum pickle_kind pickle_kind_of(const struct pickle_machine *m, pickle_id id)
{
    return pickle_at(m->p, id).kind;
}

/* Leaves the machine; pickle_bad: with "pickle: WHAT (byte N)". */
_Noreturn void pickle_leave(struct pickle_machine *m, int status);
_Noreturn void pickle_bad(struct pickle_machine *m, const char *what);

/* Appends a word to m->p->words, m->stack, m->memo or m->marks, or leaves the machine. */
void pickle_put(struct pickle_machine *m, uint32_t **words, uint32_t word);

void pickle_push(struct pickle_machine *m, pickle_id id);

/* At least n values must be above the last mark: only those may be popped. */
void pickle_need(struct pickle_machine *m, size_t n);
pickle_id pickle_pop(struct pickle_machine *m);

/* ---- what is made (pickle_words.c) ----------------------------------------------------------- */

/* A node of these n words after the head. `number`: see pickle_words.h. */
pickle_id pickle_new(struct pickle_machine *m, enum pickle_kind kind, size_t number,
                     const uint32_t *words, size_t n);

pickle_id pickle_new_container(struct pickle_machine *m, enum pickle_kind kind); /* list, dict */
pickle_id pickle_new_tuple(struct pickle_machine *m, const pickle_id *items, size_t n);

/* Appends to a list or dict. */
void pickle_append(struct pickle_machine *m, pickle_id container, const pickle_id *items, size_t n);

/* ---- opcodes: arg is that of the table ------------------------------------------------------- */

/* pickle_data.c */
void pickle_op_mark(struct pickle_machine *m, int arg);
void pickle_op_value(struct pickle_machine *m, int arg);    /* that of the value */
void pickle_op_empty(struct pickle_machine *m, int arg);    /* kind */
void pickle_op_tuple(struct pickle_machine *m, int arg);    /* how many; 0: all above the mark */
void pickle_op_fill_one(struct pickle_machine *m, int arg); /* kind */
void pickle_op_fill(struct pickle_machine *m, int arg);     /* kind */
void pickle_op_put(struct pickle_machine *m, int arg); /* bytes of the index; 0: the next one */
void pickle_op_get(struct pickle_machine *m, int arg); /* bytes of the index */

/* pickle_call.c */
void pickle_op_global(struct pickle_machine *m, int arg);
void pickle_op_inst(struct pickle_machine *m, int arg);
void pickle_op_stack_global(struct pickle_machine *m, int arg);
void pickle_op_reduce(struct pickle_machine *m, int arg);
void pickle_op_new_object(struct pickle_machine *m, int arg);
void pickle_op_build(struct pickle_machine *m, int arg);
void pickle_op_persistent(struct pickle_machine *m, int arg);

/* ---- values: what follows their opcode ------------------------------------------------------- */

struct pickle_node pickle_read_constant(struct cursor *in, int arg); /* kind, value in bit 8 */
struct pickle_node pickle_read_int(struct cursor *in, int arg);      /* bytes; negative: signed */
struct pickle_node pickle_read_long(struct cursor *in, int arg);     /* bytes of the length */
struct pickle_node pickle_read_real(struct cursor *in, int arg);
struct pickle_node pickle_read_text(struct cursor *in,
                                    int arg); /* kind, bytes of the length in bit 8 up */

#endif
