/* MessagePack, value by value, through a checked cursor. Nothing is copied: texts and bytes point into
 * the input.
 *
 *     first byte   00-7f, e0-ff integer   80-8f map   90-9f array   a0-bf text   c0 nil   c2 c3 bool
 *     c4-c6 bytes   c7-c9, d4-d8 extension   ca cb float   cc-d3 integer   d9-db text   dc dd array
 *     de df map; sizes and integers after it have the most significant byte first
 */
#ifndef MGPT_CONVERT_MSGPACK_H
#define MGPT_CONVERT_MSGPACK_H

#include "base/cursor.h"

enum msgpack_kind {
    MSGPACK_BAD, /* the input ends, or c1, which the format does not use */
    MSGPACK_MAP,
    MSGPACK_ARRAY,
    MSGPACK_TEXT,
    MSGPACK_BYTES,
    MSGPACK_EXTENSION,
    MSGPACK_UINT, /* 0 or more */
    MSGPACK_OTHER /* nil, bool, float, an integer below 0 */
};

struct msgpack_value {
    enum msgpack_kind kind;
    uint64_t n;          /* entries (of a map: pairs), bytes, or the integer */
    uint8_t type;        /* of an extension */
    const uint8_t *data; /* of texts, bytes and extensions */
};

/* The next value; of a map or an array only its head, so that the entries are the next values. */
struct msgpack_value msgpack_next(struct cursor *c);

#endif
