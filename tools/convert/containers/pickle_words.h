/* How the containers, calls and globals of a pickle are stored: as words of 32 bits in one array.
 *
 *     global       [head, byte of the opcode, module, name]     ids of texts; 0: lines after the opcode
 *     call         [head, byte of the opcode, callee, args, state]
 *     object       [head, class, state]
 *     persistent   [head, byte of the opcode, the one before, id]
 *     bytes        [head, size, pointer in two words]           a call of _codecs.encode, decoded
 *     tuple        [head, ITEMS]
 *     list, dict   [head, last run]                             0: it is empty
 *     run          [head, next run, ITEMS]                      after the last one comes the first
 *
 * A head is a kind, a flag, and a number: of items, or the use of a global. ITEMS are ids, or with the
 * flag PICKLE_RANGE one: that of the first of values that follow each other in the input. So
 * a list of a thousand numbers takes six words.
 *
 * An id is 1 + the byte of a plain value's opcode, or PICKLE_FIRST + the index of a head.
 */
#ifndef MGPT_CONVERT_PICKLE_WORDS_H
#define MGPT_CONVERT_PICKLE_WORDS_H

#include "base/cursor.h"
#include "convert/containers/pickle.h"

#define PICKLE_FIRST (UINT32_MAX - (uint32_t)PICKLE_MAX_WORDS)

enum {
    PICKLE_RUN = 15, /* next to enum pickle_kind */
    PICKLE_RANGE = 16,
    PICKLE_NUMBER = 32, /* what the number in a head is multiplied by */
    PICKLE_MAX_ITEMS = PICKLE_MAX_WORDS - 1,
    PICKLE_FEW =
        4 /* up to this number, values take less memory as ids than as a run of their own */
};

static inline int pickle_is_word(pickle_id id)
{
    return id >= PICKLE_FIRST;
}

static inline uint32_t pickle_number(uint32_t head)
{
    return head / PICKLE_NUMBER;
}

/* Returns the words of a node, its head first. The node must not be a plain value. */
static inline uint32_t *pickle_words_of(const struct pickle *p, pickle_id id)
{
    return p->words + (id - PICKLE_FIRST);
}

/* The value whose opcode is next; None, and in->failed, if the data end inside it (pickle.c). */
struct pickle_node pickle_value(struct cursor *in);

/* The id of the value that follows a plain value in the input, with nothing but opcodes of the memo and
 * frames between; 0: none does (pickle.c). */
pickle_id pickle_after(const struct pickle *p, pickle_id id);

/* Makes a call the bytes that it is decoded to; they must outlive the tree. */
void pickle_become_bytes(const struct pickle *p, pickle_id call, const char *bytes, uint32_t n);

/* A text up to the end of the line, without it; p NULL: there is no end in MAX_LINE bytes, or in->failed
 * (pickle_call.c). */
struct gguf_str pickle_line(struct cursor *in);

#endif
