/* The pickle machine. See pickle.h.
 *
 * One table has a row for each opcode. Opcodes without a function are refused by name. The stack and
 * the memo hold ids of nodes. Each opcode takes at least one byte of input, and all memory together is
 * bounded by the input.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/pickle_impl.h"

#include <stdlib.h>
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

static void check_truncated(struct pickle_machine *m)
{
    if (m->in.failed)
        pickle_leave(m, MGPT_EFILE);
}

/* ---- memory, stack --------------------------------------------------------------------------- */

/* More than this no file needs: a value of 1 byte takes a word where it is used. */
static void check_memory(struct pickle_machine *m)
{
    uint64_t most = PICKLE_SOME_BYTES + (uint64_t)PICKLE_TIMES * m->in.size;
    uint64_t n = (uint64_t)arr_len(m->p->words) + arr_len(m->stack) + arr_len(m->memo);
    if (n >= PICKLE_MAX_WORDS || n * sizeof(uint32_t) >= most)
        pickle_leave(
            m, err_set(m->err, MGPT_EFILE, m->at,
                       "pickle: its values take more than %llu bytes of memory, the most for %zu "
                       "bytes (byte %zu)",
                       (unsigned long long)most, m->in.size, m->at));
}

void pickle_put(struct pickle_machine *m, uint32_t **words, uint32_t word)
{
    check_memory(m);
    if (!arr_push(*words, word))
        pickle_leave(m, err_memory(m->err, "a pickle", arr_len(*words) * sizeof word));
}

void pickle_push(struct pickle_machine *m, pickle_id id)
{
    pickle_put(m, &m->stack, id);
    m->n_pushed++;
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
    size_t n_needed;                                         /* values above the last mark */
    struct pickle_node (*value)(struct cursor *in, int arg); /* of a plain value */
} ops[256] = {
    [0x80] = {"PROTO", op_protocol, 0, 0, NULL},
    [0x95] = {"FRAME", op_frame, 0, 0, NULL},
    ['.'] = {"STOP", op_stop, 0, 0, NULL},
    ['('] = {"MARK", pickle_op_mark, 0, 0, NULL},
    ['N'] = {"NONE", pickle_op_value, PICKLE_NONE, 0, pickle_read_constant},
    [0x88] = {"NEWTRUE", pickle_op_value, PICKLE_BOOL | 1 << 8, 0, pickle_read_constant},
    [0x89] = {"NEWFALSE", pickle_op_value, PICKLE_BOOL, 0, pickle_read_constant},
    ['K'] = {"BININT1", pickle_op_value, 1, 0, pickle_read_int},
    ['M'] = {"BININT2", pickle_op_value, 2, 0, pickle_read_int},
    ['J'] = {"BININT", pickle_op_value, -4, 0, pickle_read_int},
    [0x8a] = {"LONG1", pickle_op_value, 1, 0, pickle_read_long},
    ['G'] = {"BINFLOAT", pickle_op_value, 0, 0, pickle_read_real},
    ['X'] = {"BINUNICODE", pickle_op_value, TEXT_OF(PICKLE_TEXT, 4), 0, pickle_read_text},
    [0x8c] = {"SHORT_BINUNICODE", pickle_op_value, TEXT_OF(PICKLE_TEXT, 1), 0, pickle_read_text},
    [0x8d] = {"BINUNICODE8", pickle_op_value, TEXT_OF(PICKLE_TEXT, 8), 0, pickle_read_text},
    ['U'] = {"SHORT_BINSTRING", pickle_op_value, TEXT_OF(PICKLE_TEXT, 1), 0, pickle_read_text},
    ['T'] = {"BINSTRING", pickle_op_value, TEXT_OF(PICKLE_TEXT, 4), 0, pickle_read_text},
    ['C'] = {"SHORT_BINBYTES", pickle_op_value, TEXT_OF(PICKLE_BYTES, 1), 0, pickle_read_text},
    ['B'] = {"BINBYTES", pickle_op_value, TEXT_OF(PICKLE_BYTES, 4), 0, pickle_read_text},
    [0x8e] = {"BINBYTES8", pickle_op_value, TEXT_OF(PICKLE_BYTES, 8), 0, pickle_read_text},
    [0x96] = {"BYTEARRAY8", pickle_op_value, TEXT_OF(PICKLE_BYTES, 8), 0, pickle_read_text},
    [')'] = {"EMPTY_TUPLE", pickle_op_value, PICKLE_TUPLE, 0, pickle_read_constant},
    ['t'] = {"TUPLE", pickle_op_tuple, 0, 0, NULL},
    [0x85] = {"TUPLE1", pickle_op_tuple, 1, 1, NULL},
    [0x86] = {"TUPLE2", pickle_op_tuple, 2, 2, NULL},
    [0x87] = {"TUPLE3", pickle_op_tuple, 3, 3, NULL},
    [']'] = {"EMPTY_LIST", pickle_op_empty, PICKLE_LIST, 0, NULL},
    ['a'] = {"APPEND", pickle_op_fill_one, PICKLE_LIST, 0, NULL},
    ['e'] = {"APPENDS", pickle_op_fill, PICKLE_LIST, 0, NULL},
    [0x8f] = {"EMPTY_SET", pickle_op_empty, PICKLE_LIST, 0, NULL},
    [0x90] = {"ADDITEMS", pickle_op_fill, PICKLE_LIST, 0, NULL},
    ['}'] = {"EMPTY_DICT", pickle_op_empty, PICKLE_DICT, 0, NULL},
    ['s'] = {"SETITEM", pickle_op_fill_one, PICKLE_DICT, 0, NULL},
    ['u'] = {"SETITEMS", pickle_op_fill, PICKLE_DICT, 0, NULL},
    ['q'] = {"BINPUT", pickle_op_put, 1, 0, NULL},
    ['r'] = {"LONG_BINPUT", pickle_op_put, 4, 0, NULL},
    [0x94] = {"MEMOIZE", pickle_op_put, 0, 0, NULL},
    ['h'] = {"BINGET", pickle_op_get, 1, 0, NULL},
    ['j'] = {"LONG_BINGET", pickle_op_get, 4, 0, NULL},
    ['c'] = {"GLOBAL", pickle_op_global, 0, 0, NULL},
    ['i'] = {"INST", pickle_op_inst, 0, 0, NULL},
    [0x93] = {"STACK_GLOBAL", pickle_op_stack_global, 0, 2, NULL},
    ['R'] = {"REDUCE", pickle_op_reduce, 0, 2, NULL},
    [0x81] = {"NEWOBJ", pickle_op_new_object, 0, 2, NULL},
    ['b'] = {"BUILD", pickle_op_build, 0, 2, NULL},
    ['Q'] = {"BINPERSID", pickle_op_persistent, 0, 1, NULL},
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
    if (m->at >= PICKLE_FIRST - 1)
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

/* ---- plain values ---------------------------------------------------------------------------- */

struct pickle_node pickle_value(struct cursor *in)
{
    size_t at = in->pos;
    uint8_t op = cursor_u8(in);
    struct pickle_node node = {.kind = PICKLE_NONE};
    if (!in->failed && ops[op].value)
        node = ops[op].value(in, ops[op].arg);
    if (in->failed)
        node = (struct pickle_node){.kind = PICKLE_NONE};
    node.at = (uint32_t)at;
    return node;
}

/* What it says was read once: the input has it, and its id fits. */
void pickle_op_value(struct pickle_machine *m, int arg)
{
    (void)arg;
    m->in.pos = m->at;
    pickle_value(&m->in);
    check_truncated(m);
    pickle_push(m, (pickle_id)m->at + 1);
}

/* Moves after a value. Most of them have a size that the opcode says. */
static void skip_value(struct cursor *in)
{
    uint8_t op = cursor_u8(in);
    if (ops[op].value == pickle_read_int)
        cursor_take(in, (uint64_t)abs(ops[op].arg));
    else if (ops[op].value == pickle_read_real)
        cursor_take(in, 8);
    else if (ops[op].value)
        ops[op].value(in, ops[op].arg);
}

/* Moves to the next opcode that is none of the memo and no frame. */
static uint8_t skip_memo(struct cursor *in)
{
    for (;;) {
        size_t at = in->pos;
        uint8_t op = cursor_u8(in);
        if (in->failed || (ops[op].run != pickle_op_put && ops[op].run != op_frame)) {
            in->pos = at;
            return in->failed ? 0 : op;
        }
        cursor_take(in, ops[op].run == op_frame ? 8 : (uint64_t)ops[op].arg);
    }
}

pickle_id pickle_after(const struct pickle *p, pickle_id id)
{
    struct cursor in = cursor_over(p->bytes.data, p->bytes.size);
    if (id == 0 || id > p->bytes.size)
        return 0;
    in.pos = id - 1;
    skip_value(&in);
    return ops[skip_memo(&in)].value ? (pickle_id)in.pos + 1 : 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* MGPT_OK, or the status that an opcode left with. */
static int run(struct pickle_machine *m)
{
    if (setjmp(m->out))
        return m->status;
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
    *p = (struct pickle){.bytes = bytes};
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
    arr_free(p->words);
    *p = (struct pickle){0};
}
