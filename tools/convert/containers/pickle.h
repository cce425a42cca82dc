/* Python pickles as data: a restricted interpreter that builds a tree and runs nothing.
 *
 * A pickle is a program for a stack machine. The interpreter knows the opcodes that checkpoints of
 * protocol 2 to 5 contain, and a fixed list of globals (pickle_globals.c) that it never imports: a
 * global is two texts, a call is a node with the callee's name and the arguments. Any other opcode
 * or global is an error that names it. There is no recursion. Time and memory are linear in the
 * bytes read.
 *
 * Numbers and texts have no memory of their own: their id is their place in the input, which must
 * outlive the tree. Containers and calls are words of 32 bits (pickle_words.h). All of it has at most
 * PICKLE_TIMES the bytes of the input and PICKLE_SOME_BYTES. The result is a graph: nodes may be
 * shared, and hostile files may contain cycles, so readers of the tree descend to fixed depths only.
 */
#ifndef MGPT_CONVERT_PICKLE_H
#define MGPT_CONVERT_PICKLE_H

#include "convert/core/state.h"

enum {
    PICKLE_SOME_BYTES = 8 << 20, /* of memory, for pickles of any size */
    PICKLE_TIMES = 3,            /* and for each byte of a pickle: a value takes 1 to 10 */
    PICKLE_MAX_WORDS = 1 << 27,  /* 512 MB */
    PICKLE_MAX_MARKS = 10000     /* nesting of containers that are being filled */
};

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,  /* an integer that fits 64 bits */
    PICKLE_LONG, /* a longer integer; .text holds its bytes */
    PICKLE_REAL,
    PICKLE_TEXT, /* str, UTF-8 (not checked); Python 2's str, any bytes */
    PICKLE_BYTES,
    PICKLE_TUPLE,
    PICKLE_LIST,      /* and sets */
    PICKLE_DICT,      /* items are key, value, key, value, ... */
    PICKLE_GLOBAL,    /* the name of a Python object: two texts */
    PICKLE_CALL,      /* callee(args...), with the state that was set on it */
    PICKLE_OBJECT,    /* an instance of a class, with its state */
    PICKLE_PERSISTENT /* a reference into the container: one item, its id */
};

typedef uint32_t pickle_id; /* of a node; 0 is none */

/* A node as it is looked at. */
struct pickle_node {
    enum pickle_kind kind;
    int use;         /* of globals, inside */
    uint32_t n;      /* bytes of a text; items of a container */
    uint32_t at;     /* byte where it was made, for messages; 0 for containers and objects */
    pickle_id state; /* of calls and objects; 0: none */
    union {
        int64_t integer; /* and bool */
        double real;
        const char *text; /* and bytes: in the input, or decoded from it */
        struct {
            pickle_id callee, args; /* a global; of calls, a tuple */
        } call;
        struct {
            struct gguf_str module, name;
        } global;
    } as;
};

struct pickle {
    struct span bytes; /* the input */
    uint32_t *words;   /* stb_ds array: see pickle_words.h */
    pickle_id root;
    pickle_id persistent; /* the last reference into the container: see pickle_reference_before */
    size_t size;          /* bytes up to and with STOP: another pickle, or data, may follow */
};

/* Interprets the pickle at the start of the bytes. On failure nothing is left to free.
 * Errors: MGPT_EFILE "pickle: global os.system is not allowed (byte 12)", ...; MGPT_ENOMEM. */
int pickle_read(struct pickle *p, struct span bytes, mgpt_error *err);

/* Interprets the pickle at byte `start`; p->size and the bytes in messages count from the start of the
 * span. */
int pickle_read_at(struct pickle *p, struct span bytes, size_t start, mgpt_error *err);
void pickle_free(struct pickle *p);

/* Whether the bytes begin like a pickle of protocol 2 to 5. */
int pickle_sniff(struct span bytes);

/* ---- walking --------------------------------------------------------------------------------- */

/* The node of an id; id 0 gives a None. */
struct pickle_node pickle_at(const struct pickle *p, pickle_id id);

/* for (struct pickle_iter i = pickle_items(p, id); pickle_next(&i);) ... i.value
 * Items of a list, a tuple, or the pairs of a dict (i.key is set). Other kinds have none. */
struct pickle_iter {
    const struct pickle *p;
    uint32_t left, at;   /* items of this run, and where the next one is */
    int is_range, pairs; /* the items follow each other in the input, at byte `at` */
    uint32_t run, last;  /* runs of the container; 0: it has none */
    pickle_id key, value;
};
struct pickle_iter pickle_items(const struct pickle *p, pickle_id id);
int pickle_next(struct pickle_iter *i);

/* The reference into the container that was made before this one; 0: it is the first. */
pickle_id pickle_reference_before(const struct pickle *p, pickle_id persistent);

/* The i-th item of a tuple or list, 0 when there is none. O(i). */
pickle_id pickle_item(const struct pickle *p, pickle_id id, size_t i);

/* The value of a text key in a dict, or of an attribute of an object (its state is a dict, or a
 * tuple of a dict or None and a dict of slots); 0 when there is none. O(items). */
pickle_id pickle_get(const struct pickle *p, pickle_id id, const char *key);

/* Whether the node is this text; the global of this name; a call of that global. module NULL:
 * any. */
int pickle_is_text(const struct pickle *p, pickle_id id, const char *text);
int pickle_is_global(const struct pickle *p, pickle_id id, const char *module, const char *name);
int pickle_is_call(const struct pickle *p, pickle_id id, const char *module, const char *name);

/* Whether torch.NAME is an element type or the class of a storage, and of which type. */
int pickle_torch_value(struct gguf_str name, enum state_type *type);

/* The i-th argument of a call, 0 when there is none. */
pickle_id pickle_arg(const struct pickle *p, pickle_id id, size_t i);

/* Ints, bools, reals, numpy scalars of these types: 1, or 0 for any other node. */
int pickle_int(const struct pickle *p, pickle_id id, int64_t *v);
int pickle_real(const struct pickle *p, pickle_id id, double *v);

/* A tuple or torch.Size of at most STATE_MAX_DIMS numbers, 0 or more: 1, or 0 for anything else. */
int pickle_sizes(const struct pickle *p, pickle_id tuple, uint64_t v[STATE_MAX_DIMS], uint32_t *n);

/* "a dict": for messages. */
const char *pickle_kind_text(enum pickle_kind kind);
const char *pickle_kind_name(const struct pickle *p, pickle_id id);

/* ---- numpy (pickle_numpy.c) ------------------------------------------------------------------ */

/* Describes an ndarray; the name is not set. Returns 1, 0 when the node is not an ndarray, negative
 * with *err. Bytes point into the input; in protocol 2 of Python 3 they are text, which is decoded
 * into c's memory. */
int pickle_ndarray(const struct pickle *p, pickle_id id, struct checkpoint *c,
                   struct state_tensor *t, mgpt_error *err);

/* "<f4", "i8", "|b1", as in .npy headers: 1, or 0 for other types and big-endian ones. */
int pickle_dtype(const char *text, size_t n, enum state_type *type);

#endif
