/* The pickle machine. See pickle.h.
 *
 * One table has a row for each opcode. Opcodes without a function are refused by name. The stack
 * holds ids of nodes. Items of containers are linked cells, so that appending takes constant time
 * and no container has memory of its own. Each opcode makes a bounded number of nodes, and each
 * node costs at least one byte of input, so memory is bounded by the input as well as by
 * PICKLE_MAX_NODES.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/pickle_impl.h"

#include <string.h>

/* ---- errors ---------------------------------------------------------------------------------- */

void pickle_leave(struct pickle_machine *m, int status)
{
    if (m->in.failed) /* what follows is of zeros */
        status = err_set(m->err, MGPT_EFILE, m->in.where,
                         "pickle: the data ends at byte %zu, inside it", m->in.size);
    m->status = status;
    longjmp(m->out, 1);
}

void pickle_bad(struct pickle_machine *m, const char *what)
{
    pickle_leave(m, err_set(m->err, MGPT_EFILE, m->at, "pickle: %s (byte %zu)", what, m->at));
}

void pickle_must(struct pickle_machine *m, int ok, const char *what, size_t n)
{
    if (!ok)
        pickle_leave(m, err_memory(m->err, what, n));
}

static void check_truncated(struct pickle_machine *m)
{
    if (m->in.failed)
        pickle_leave(m, MGPT_EFILE);
}

/* ---- nodes, stack ---------------------------------------------------------------------------- */

pickle_id pickle_new(struct pickle_machine *m, struct pickle_node value)
{
    size_t n = arr_len(m->p->nodes);
    if (n > PICKLE_MAX_NODES)
        pickle_leave(
            m, err_set(m->err, MGPT_EFILE, m->at, "pickle: more than %d values", PICKLE_MAX_NODES));
    if (n > PICKLE_SOME_NODES && n - PICKLE_SOME_NODES > m->in.size / PICKLE_BYTES_A_NODE)
        pickle_leave(m, err_set(m->err, MGPT_EFILE, m->at,
                                "pickle: %zu values are too many for %zu bytes", n, m->in.size));
    value.at = (uint32_t)m->at;
    pickle_must(m, arr_push(m->p->nodes, value), "the values of a pickle", n * sizeof value);
    return (pickle_id)n;
}

void pickle_push(struct pickle_machine *m, pickle_id id)
{
    pickle_must(m, arr_push(m->stack, id), "the stack of a pickle", sizeof id);
}

void pickle_push_new(struct pickle_machine *m, struct pickle_node value)
{
    pickle_push(m, pickle_new(m, value));
}

/* The number of values above the last mark: only those may be popped. */
static size_t height(const struct pickle_machine *m)
{
    size_t n = arr_len(m->marks);
    return arr_len(m->stack) - (n ? m->marks[n - 1] : 0);
}

pickle_id pickle_pop(struct pickle_machine *m)
{
    pickle_id id = m->stack[arr_len(m->stack) - 1];
    arr_set_len(m->stack, arr_len(m->stack) - 1);
    return id;
}

void pickle_need(struct pickle_machine *m, size_t n)
{
    if (height(m) < n)
        pickle_bad(m, "the stack is empty");
}

/* Appends to a list, tuple or dict; the cell is new, so no container shares it. */
void pickle_append(struct pickle_machine *m, pickle_id container, pickle_id item)
{
    size_t n = arr_len(m->p->cells);
    struct pickle_cell cell = {item, 0};
    if (n > 2 * (size_t)PICKLE_MAX_NODES)
        pickle_leave(m, err_set(m->err, MGPT_EFILE, m->at, "pickle: too many items in containers"));
    pickle_must(m, arr_push(m->p->cells, cell), "the items of a pickle", n * sizeof cell);
    struct pickle_node *c = pickle_node_of(m, container);
    if (c->n)
        m->p->cells[c->as.items.last].next = (uint32_t)n;
    else
        c->as.items.first = (uint32_t)n;
    c->as.items.last = (uint32_t)n;
    c->n++;
}

/* ---- framing --------------------------------------------------------------------------------- */

static void op_protocol(struct pickle_machine *m, int arg)
{
    uint8_t version = cursor_u8(&m->in);
    (void)arg;
    if (!m->in.failed && (version < 2 || version > 5))
        pickle_leave(m, err_set(m->err, MGPT_EFILE, m->at,
                                "pickle: protocol %u, expected 2 to 5 (byte %zu)", version, m->at));
}

/* A frame gives the number of bytes to buffer: nothing to do. */
static void op_frame(struct pickle_machine *m, int arg)
{
    (void)arg;
    cursor_u64(&m->in);
}

static void op_stop(struct pickle_machine *m, int arg)
{
    (void)arg;
    if (arr_len(m->stack) != 1 || arr_len(m->marks))
        pickle_bad(m, "it does not end with exactly one value");
    m->p->root = m->stack[0];
    m->stopped = 1;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define TEXT_OF(kind, n_bytes) ((kind) | (n_bytes) << 8)

static const struct {
    const char *name;
    void (*run)(struct pickle_machine *m, int arg); /* NULL: known, refused */
    int arg;
    size_t n_needed; /* values above the last mark */
} ops[256] = {
    [0x80] = {"PROTO", op_protocol, 0, 0},
    [0x95] = {"FRAME", op_frame, 0, 0},
    ['.'] = {"STOP", op_stop, 0, 0},
    ['('] = {"MARK", pickle_op_mark, 0, 0},
    ['N'] = {"NONE", pickle_op_constant, PICKLE_NONE, 0},
    [0x88] = {"NEWTRUE", pickle_op_constant, PICKLE_BOOL | 1 << 8, 0},
    [0x89] = {"NEWFALSE", pickle_op_constant, PICKLE_BOOL, 0},
    ['K'] = {"BININT1", pickle_op_int, 1, 0},
    ['M'] = {"BININT2", pickle_op_int, 2, 0},
    ['J'] = {"BININT", pickle_op_int, -4, 0},
    [0x8a] = {"LONG1", pickle_op_long, 1, 0},
    ['G'] = {"BINFLOAT", pickle_op_real, 0, 0},
    ['X'] = {"BINUNICODE", pickle_op_text, TEXT_OF(PICKLE_TEXT, 4), 0},
    [0x8c] = {"SHORT_BINUNICODE", pickle_op_text, TEXT_OF(PICKLE_TEXT, 1), 0},
    [0x8d] = {"BINUNICODE8", pickle_op_text, TEXT_OF(PICKLE_TEXT, 8), 0},
    ['U'] = {"SHORT_BINSTRING", pickle_op_text, TEXT_OF(PICKLE_TEXT, 1), 0},
    ['T'] = {"BINSTRING", pickle_op_text, TEXT_OF(PICKLE_TEXT, 4), 0},
    ['C'] = {"SHORT_BINBYTES", pickle_op_text, TEXT_OF(PICKLE_BYTES, 1), 0},
    ['B'] = {"BINBYTES", pickle_op_text, TEXT_OF(PICKLE_BYTES, 4), 0},
    [0x8e] = {"BINBYTES8", pickle_op_text, TEXT_OF(PICKLE_BYTES, 8), 0},
    [0x96] = {"BYTEARRAY8", pickle_op_text, TEXT_OF(PICKLE_BYTES, 8), 0},
    [')'] = {"EMPTY_TUPLE", pickle_op_empty, PICKLE_TUPLE, 0},
    ['t'] = {"TUPLE", pickle_op_tuple, 0, 0},
    [0x85] = {"TUPLE1", pickle_op_tuple, 1, 1},
    [0x86] = {"TUPLE2", pickle_op_tuple, 2, 2},
    [0x87] = {"TUPLE3", pickle_op_tuple, 3, 3},
    [']'] = {"EMPTY_LIST", pickle_op_empty, PICKLE_LIST, 0},
    ['a'] = {"APPEND", pickle_op_fill_one, PICKLE_LIST, 0},
    ['e'] = {"APPENDS", pickle_op_fill, PICKLE_LIST, 0},
    [0x8f] = {"EMPTY_SET", pickle_op_empty, PICKLE_LIST, 0},
    [0x90] = {"ADDITEMS", pickle_op_fill, PICKLE_LIST, 0},
    ['}'] = {"EMPTY_DICT", pickle_op_empty, PICKLE_DICT, 0},
    ['s'] = {"SETITEM", pickle_op_fill_one, PICKLE_DICT, 0},
    ['u'] = {"SETITEMS", pickle_op_fill, PICKLE_DICT, 0},
    ['q'] = {"BINPUT", pickle_op_put, 1, 0},
    ['r'] = {"LONG_BINPUT", pickle_op_put, 4, 0},
    [0x94] = {"MEMOIZE", pickle_op_put, 0, 0},
    ['h'] = {"BINGET", pickle_op_get, 1, 0},
    ['j'] = {"LONG_BINGET", pickle_op_get, 4, 0},
    ['c'] = {"GLOBAL", pickle_op_global, 0, 0},
    ['i'] = {"INST", pickle_op_inst, 0, 0},
    [0x93] = {"STACK_GLOBAL", pickle_op_stack_global, 0, 2},
    ['R'] = {"REDUCE", pickle_op_reduce, 0, 2},
    [0x81] = {"NEWOBJ", pickle_op_new_object, 0, 2},
    ['b'] = {"BUILD", pickle_op_build, 0, 2},
    ['Q'] = {"BINPERSID", pickle_op_persistent, 0, 1},
    /* the rest of Python's, for messages */
    ['0'] = {.name = "POP"},
    ['1'] = {.name = "POP_MARK"},
    ['2'] = {.name = "DUP"},
    ['F'] = {.name = "FLOAT"},
    ['I'] = {.name = "INT"},
    ['L'] = {.name = "LONG"},
    ['S'] = {.name = "STRING"},
    ['V'] = {.name = "UNICODE"},
    ['P'] = {.name = "PERSID"},
    ['d'] = {.name = "DICT"},
    ['l'] = {.name = "LIST"},
    ['o'] = {.name = "OBJ"},
    ['g'] = {.name = "GET"},
    ['p'] = {.name = "PUT"},
    [0x82] = {.name = "EXT1"},
    [0x83] = {.name = "EXT2"},
    [0x84] = {.name = "EXT4"},
    [0x8b] = {.name = "LONG4"},
    [0x91] = {.name = "FROZENSET"},
    [0x92] = {.name = "NEWOBJ_EX"},
    [0x97] = {.name = "NEXT_BUFFER"},
    [0x98] = {.name = "READONLY_BUFFER"},
};

static void pickle_step(struct pickle_machine *m)
{
    m->at = m->in.pos;
    if (m->at >= UINT32_MAX)
        pickle_bad(m, "it is longer than 4 GB");
    uint8_t op = cursor_u8(&m->in);
    check_truncated(m);
    if (!ops[op].run)
        pickle_leave(m, err_set(m->err, MGPT_EFILE, m->at,
                                "pickle: opcode %s (0x%x) is not supported (byte %zu)",
                                ops[op].name ? ops[op].name : "?", op, m->at));
    pickle_need(m, ops[op].n_needed);
    ops[op].run(m, ops[op].arg);
    check_truncated(m);
}

int pickle_sniff(struct span bytes)
{
    return bytes.size >= 3 && bytes.data[0] == 0x80 && bytes.data[1] >= 2 && bytes.data[1] <= 5 &&
           ops[bytes.data[2]].run;
}

/* MGPT_OK, or the status that an opcode left with. */
static int run(struct pickle_machine *m)
{
    const struct pickle_node none = {.kind = PICKLE_NONE};
    const struct pickle_cell end = {0, 0};
    if (setjmp(m->out))
        return m->status;
    pickle_must(m, arr_push(m->p->nodes, none) && arr_push(m->p->cells, end), "a pickle",
                sizeof none);
    while (!m->stopped)
        pickle_step(m);
    return MGPT_OK;
}

int pickle_read(struct pickle *p, struct span bytes, mgpt_error *err)
{
    return pickle_read_at(p, bytes, 0, err);
}

int pickle_read_at(struct pickle *p, struct span bytes, size_t start, mgpt_error *err)
{
    struct pickle_machine m = {.p = p, .in = cursor_over(bytes.data, bytes.size), .err = err};
    m.in.pos = start < bytes.size ? start : bytes.size;
    *p = (struct pickle){0};
    int status = run(&m);
    p->size = m.in.pos;
    arr_free(m.stack);
    arr_free(m.memo);
    arr_free(m.marks);
    if (status < 0)
        pickle_free(p);
    return status;
}

void pickle_free(struct pickle *p)
{
    arr_free(p->nodes);
    arr_free(p->cells);
    *p = (struct pickle){0};
}
