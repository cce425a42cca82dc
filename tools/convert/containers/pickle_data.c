/* Opcodes of pickles that make data: numbers, texts, containers, the memo. See pickle_impl.h. */
#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/pickle_impl.h"

#include <string.h>

/* Moves the values from stack[from] on into the container. */
static int append_above(struct pickle_machine *m, pickle_id container, size_t from)
{
    int status = MGPT_OK;
    for (size_t i = from; status == MGPT_OK && i < arr_len(m->stack); i++)
        status = pickle_append(m, container, m->stack[i]);
    if (m->stack) /* NULL: nothing was ever pushed */
        arr_set_len(m->stack, from);
    return status;
}

/* ---- marks ----------------------------------------------------------------------------------- */

int pickle_op_mark(struct pickle_machine *m, int arg)
{
    (void)arg;
    if (arr_len(m->marks) >= PICKLE_MAX_MARKS)
        return pickle_bad(m, "too many marks");
    uint32_t h = (uint32_t)arr_len(m->stack);
    if (!arr_push(m->marks, h))
        return err_memory(m->err, "the marks of a pickle", sizeof h);
    return MGPT_OK;
}

static int pop_mark(struct pickle_machine *m, size_t *from)
{
    if (!arr_len(m->marks))
        return pickle_bad(m, "there is no mark");
    *from = m->marks[arr_len(m->marks) - 1];
    arr_set_len(m->marks, arr_len(m->marks) - 1);
    return MGPT_OK;
}

/* ---- plain values ---------------------------------------------------------------------------- */

/* arg: the kind; as.integer of a bool in bit 8 */
int pickle_op_constant(struct pickle_machine *m, int arg)
{
    return pickle_push_new(m, (struct pickle_node){.kind = (uint8_t)arg, .as.integer = arg >> 8});
}

/* Pushes an integer of arg bytes; arg below 0: a signed one of 4 bytes. */
int pickle_op_int(struct pickle_machine *m, int arg)
{
    int64_t v = arg < 0 ? cursor_i32(&m->in) : (int64_t)cursor_uint(&m->in, (unsigned)arg);
    return pickle_push_new(m, (struct pickle_node){.kind = PICKLE_INT, .as.integer = v});
}

/* Two's complement of any length, little-endian. */
int pickle_op_long(struct pickle_machine *m, int arg)
{
    uint32_t n = (uint32_t)cursor_uint(&m->in, (unsigned)arg);
    const uint8_t *p = cursor_take(&m->in, n);
    uint64_t v = 0;
    if (!p)
        return MGPT_OK; /* the loop reports it */
    if (n > 8)
        return pickle_push_new(
            m, (struct pickle_node){.kind = PICKLE_LONG, .n = n, .as.text = (const char *)p});
    for (uint32_t i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    if (n > 0 && n < 8 && p[n - 1] & 0x80)
        v |= ~(uint64_t)0 << (8 * n);
    int64_t value;
    memcpy(&value, &v, sizeof value);
    return pickle_push_new(m, (struct pickle_node){.kind = PICKLE_INT, .as.integer = value});
}

/* Big-endian, the only such number in the format. */
int pickle_op_real(struct pickle_machine *m, int arg)
{
    const uint8_t *p = cursor_take(&m->in, 8);
    uint64_t bits = 0;
    double v;
    (void)arg;
    for (int i = 0; p && i < 8; i++)
        bits = bits << 8 | p[i];
    memcpy(&v, &bits, sizeof v);
    return pickle_push_new(m, (struct pickle_node){.kind = PICKLE_REAL, .as.real = v});
}

static int push_text(struct pickle_machine *m, int kind, uint64_t n)
{
    const uint8_t *p = cursor_take(&m->in, n);
    if (p && n > UINT32_MAX)
        return pickle_bad(m, "a text of more than 4 GB");
    return pickle_push_new(m, (struct pickle_node){.kind = (uint8_t)kind,
                                                   .n = p ? (uint32_t)n : 0,
                                                   .as.text = (const char *)p});
}

/* arg: the kind, and the bytes of the length in bits 8 up */
int pickle_op_text(struct pickle_machine *m, int arg)
{
    uint64_t n = cursor_uint(&m->in, (unsigned)arg >> 8);
    return push_text(m, arg & 0xFF, n);
}

/* ---- containers ------------------------------------------------------------------------------ */

int pickle_op_empty(struct pickle_machine *m, int arg)
{
    return pickle_push_new(m, (struct pickle_node){.kind = (uint8_t)arg});
}

/* arg: how many, or 0 for all above the mark */
int pickle_op_tuple(struct pickle_machine *m, int arg)
{
    size_t from = 0;
    pickle_id id;
    int status = arg ? MGPT_OK : pop_mark(m, &from);
    if (status == MGPT_OK)
        status = pickle_new(m, (struct pickle_node){.kind = PICKLE_TUPLE}, &id);
    if (status < 0)
        return status;
    if (arg)
        from = arr_len(m->stack) - (size_t)arg;
    status = append_above(m, id, from);
    return status == MGPT_OK ? pickle_push(m, id) : status;
}

/* The container just below stack[from], of the kind that the opcode fills. */
static int pickle_data_fill(struct pickle_machine *m, int kind, size_t from)
{
    if (arr_len(m->stack) < from || from == 0)
        return pickle_bad(m, "the stack is empty");
    pickle_id id = m->stack[from - 1];
    if (pickle_node_of(m, id)->kind != kind)
        return pickle_bad(m, kind == PICKLE_DICT ? "items for what is not a dict"
                                                 : "items for what is not a list");
    if (kind == PICKLE_DICT && (arr_len(m->stack) - from) % 2)
        return pickle_bad(m, "a key without a value");
    return append_above(m, id, from);
}

/* One item, or one key and value, on the stack. */
int pickle_op_fill_one(struct pickle_machine *m, int kind)
{
    size_t n = kind == PICKLE_DICT ? 2 : 1;
    int status = pickle_need(m, n + 1);
    return status == MGPT_OK ? pickle_data_fill(m, kind, arr_len(m->stack) - n) : status;
}

int pickle_op_fill(struct pickle_machine *m, int kind)
{
    size_t from = 0;
    int status = pop_mark(m, &from);
    if (status == MGPT_OK && arr_len(m->marks) && from <= m->marks[arr_len(m->marks) - 1])
        return pickle_bad(m, "the stack is empty");
    return status == MGPT_OK ? pickle_data_fill(m, kind, from) : status;
}

/* ---- memo ------------------------------------------------------------------------------------ */

/* arg: bytes of the index; 0: the next one. Every put follows a value of its own, so an index
 * cannot exceed the number of values. */
int pickle_op_put(struct pickle_machine *m, int arg)
{
    uint64_t i = arg ? cursor_uint(&m->in, (unsigned)arg) : arr_len(m->memo);
    if (pickle_need(m, 1) < 0)
        return MGPT_EFILE;
    if (i > arr_len(m->p->nodes))
        return pickle_bad(m, "a memo index without order");
    if (!arr_reserve(m->memo, (size_t)i + 1))
        return err_memory(m->err, "the memo of a pickle", (size_t)i);
    while (arr_len(m->memo) <= i)
        arr_put(m->memo, 0);
    m->memo[i] = m->stack[arr_len(m->stack) - 1];
    return MGPT_OK;
}

int pickle_op_get(struct pickle_machine *m, int arg)
{
    uint64_t i = cursor_uint(&m->in, (unsigned)arg);
    if (m->in.failed)
        return MGPT_OK; /* the loop reports it */
    if (i >= arr_len(m->memo) || !m->memo[i])
        return pickle_bad(m, "a memo index that was not stored");
    return pickle_push(m, m->memo[i]);
}
