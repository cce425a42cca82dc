/* What the files pickle*.c share. */
#ifndef MGPT_CONVERT_PICKLE_IMPL_H
#define MGPT_CONVERT_PICKLE_IMPL_H

#include "base/cursor.h"
#include "convert/containers/pickle.h"

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
    int stopped;
    mgpt_error *err;
    jmp_buf out; /* where an opcode leaves to, with *err and its status */
    int status;
};

static inline struct pickle_node *pickle_node_of(const struct pickle_machine *m, pickle_id id)
{
    return &m->p->nodes[id];
}

/* Leaves the machine; pickle_bad: with "pickle: WHAT (byte N)"; pickle_must: if there was no memory. */
_Noreturn void pickle_leave(struct pickle_machine *m, int status);
_Noreturn void pickle_bad(struct pickle_machine *m, const char *what);
void pickle_must(struct pickle_machine *m, int ok, const char *what, size_t n);

pickle_id pickle_new(struct pickle_machine *m, struct pickle_node value);
void pickle_push(struct pickle_machine *m, pickle_id id);
void pickle_push_new(struct pickle_machine *m, struct pickle_node value);

/* At least n values must be above the last mark: only those may be popped. */
void pickle_need(struct pickle_machine *m, size_t n);
pickle_id pickle_pop(struct pickle_machine *m);

/* Appends to a list, tuple or dict. */
void pickle_append(struct pickle_machine *m, pickle_id container, pickle_id item);

/* ---- opcodes: arg is that of the table ------------------------------------------------------- */

/* pickle_data.c */
void pickle_op_mark(struct pickle_machine *m, int arg);
void pickle_op_constant(struct pickle_machine *m, int arg); /* kind, value in bit 8 */
void pickle_op_int(struct pickle_machine *m, int arg);      /* bytes; negative: signed */
void pickle_op_long(struct pickle_machine *m, int arg);     /* bytes of the length */
void pickle_op_real(struct pickle_machine *m, int arg);
void pickle_op_text(struct pickle_machine *m, int arg);  /* kind, bytes of the length in bit 8 up */
void pickle_op_empty(struct pickle_machine *m, int arg); /* kind */
void pickle_op_tuple(struct pickle_machine *m, int arg); /* how many; 0: all above the mark */
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

#endif
