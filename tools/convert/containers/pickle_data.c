/* Opcodes of pickles that make data: numbers, texts, containers, the memo. See pickle_impl.h. */
#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/pickle_impl.h"

#include <string.h>

/* ---- marks ----------------------------------------------------------------------------------- */

void pickle_op_mark(struct pickle_machine *m, int arg)
{
    (void)arg;
    if (arr_len(m->marks) >= PICKLE_MAX_MARKS)
        pickle_bad(m, "too many marks");
    pickle_put(m, &m->marks, (uint32_t)arr_len(m->stack));
}

/* The height of the stack at the last mark. */
static size_t pop_mark(struct pickle_machine *m)
{
    if (!arr_len(m->marks))
        pickle_bad(m, "there is no mark");
    size_t from = m->marks[arr_len(m->marks) - 1];
    arr_set_len(m->marks, arr_len(m->marks) - 1);
    return from;
}

/* ---- plain values ---------------------------------------------------------------------------- */

/* arg: the kind; as.integer of a bool in bit 8 */
struct pickle_node pickle_read_constant(struct cursor *in, int arg)
{
    (void)in;
    return (struct pickle_node){.kind = (enum pickle_kind)(arg & 255), .as.integer = arg >> 8};
}

/* An integer of arg bytes; arg below 0: a signed one of 4 bytes. */
struct pickle_node pickle_read_int(struct cursor *in, int arg)
{
    int64_t v = arg < 0 ? cursor_i32(in) : (int64_t)cursor_uint(in, (unsigned)arg);
    return (struct pickle_node){.kind = PICKLE_INT, .as.integer = v};
}

/* Two's complement of any length, little-endian. */
struct pickle_node pickle_read_long(struct cursor *in, int arg)
{
    uint32_t n = (uint32_t)cursor_uint(in, (unsigned)arg);
    const uint8_t *p = cursor_take(in, n);
    uint64_t v = 0;
    struct pickle_node node = {.kind = PICKLE_LONG, .n = n, .as.text = (const char *)p};
    for (uint32_t i = 0; p && n <= 8 && i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    if (p && n > 0 && n < 8 && p[n - 1] & 0x80)
        v |= ~(uint64_t)0 << (8 * n);
    if (n <= 8) {
        node = (struct pickle_node){.kind = PICKLE_INT};
        memcpy(&node.as.integer, &v, sizeof v);
    }
    return node;
}

/* Big-endian, the only such number in the format. */
struct pickle_node pickle_read_real(struct cursor *in, int arg)
{
    const uint8_t *p = cursor_take(in, 8);
    uint64_t bits = 0;
    struct pickle_node node = {.kind = PICKLE_REAL};
    (void)arg;
    for (int i = 0; p && i < 8; i++)
        bits = bits << 8 | p[i];
    memcpy(&node.as.real, &bits, sizeof bits);
    return node;
}

/* arg: the kind, and the bytes of the length in bits 8 up. What follows a text of 4 GB is too far away. */
struct pickle_node pickle_read_text(struct cursor *in, int arg)
{
    uint64_t n = cursor_uint(in, (unsigned)arg >> 8);
    const uint8_t *p = cursor_take(in, n);
    return (struct pickle_node){
        .kind = (enum pickle_kind)(arg & 255), .n = (uint32_t)n, .as.text = (const char *)p};
}

/* ---- containers ------------------------------------------------------------------------------ */

void pickle_op_empty(struct pickle_machine *m, int arg)
{
    pickle_push(m, pickle_new_container(m, (enum pickle_kind)arg));
}

/* arg: how many, or 0 for all above the mark */
void pickle_op_tuple(struct pickle_machine *m, int arg)
{
    size_t from = arg ? arr_len(m->stack) - (size_t)arg : pop_mark(m);
    size_t n = arr_len(m->stack) - from;
    pickle_id id = pickle_new_tuple(m, n ? m->stack + from : NULL, n);
    if (n)
        arr_set_len(m->stack, from);
    pickle_push(m, id);
}

/* The container just below stack[from], of the kind that the opcode fills. */
static void pickle_data_fill(struct pickle_machine *m, int kind, size_t from)
{
    if (arr_len(m->stack) < from || from == 0)
        pickle_bad(m, "the stack is empty");
    pickle_id id = m->stack[from - 1];
    if ((int)pickle_kind_of(m, id) != kind)
        pickle_bad(m, kind == PICKLE_DICT ? "items for what is not a dict"
                                          : "items for what is not a list");
    if (kind == PICKLE_DICT && (arr_len(m->stack) - from) % 2)
        pickle_bad(m, "a key without a value");
    pickle_append(m, id, m->stack + from, arr_len(m->stack) - from);
    arr_set_len(m->stack, from);
}

/* One item, or one key and value, on the stack. */
void pickle_op_fill_one(struct pickle_machine *m, int kind)
{
    size_t n = kind == PICKLE_DICT ? 2 : 1;
    pickle_need(m, n + 1);
    pickle_data_fill(m, kind, arr_len(m->stack) - n);
}

void pickle_op_fill(struct pickle_machine *m, int kind)
{
    size_t from = pop_mark(m);
    if (arr_len(m->marks) && from <= m->marks[arr_len(m->marks) - 1])
        pickle_bad(m, "the stack is empty");
    pickle_data_fill(m, kind, from);
}

/* ---- memo ------------------------------------------------------------------------------------ */

/* arg: bytes of the index; 0: the next one. Every put follows a value of its own, so an index
 * cannot exceed the number of values. */
void pickle_op_put(struct pickle_machine *m, int arg)
{
    uint64_t i = arg ? cursor_uint(&m->in, (unsigned)arg) : arr_len(m->memo);
    pickle_need(m, 1);
    if (i > m->n_pushed)
        pickle_bad(m, "a memo index without order");
    while (arr_len(m->memo) <= i)
        pickle_put(m, &m->memo, 0);
    m->memo[i] = m->stack[arr_len(m->stack) - 1];
}

void pickle_op_get(struct pickle_machine *m, int arg)
{
    uint64_t i = cursor_uint(&m->in, (unsigned)arg);
    if (i >= arr_len(m->memo) || !m->memo[i])
        pickle_bad(m, "a memo index that was not stored");
    pickle_push(m, m->memo[i]);
}
