/* Protobuf messages, field by field, through a checked cursor. Nothing is copied: bytes point into the input.
 *
 *     field   varint of number * 8 + wire type, then the value:
 *             0 varint   1 eight bytes   2 varint n and n bytes (texts, messages)   5 four bytes
 */
#ifndef MGPT_CONVERT_PROTOBUF_H
#define MGPT_CONVERT_PROTOBUF_H

#include "base/cursor.h"
#include "convert/core/checkpoint.h"

enum { PROTO_VARINT, PROTO_FIXED64, PROTO_BYTES, PROTO_FIXED32 = 5 };

/* One field of a message. */
struct proto_field {
    uint32_t number, wire;
    uint64_t value; /* of numbers */
    struct span bytes;
};

/* Seven bits a byte, least first; the last byte is below 0x80. 0 with c->failed when it ends too
 * late. */
uint64_t proto_varint(struct cursor *c);

/* The next field: 1, 0 at the end, -1 when the bytes are not a message. */
int proto_next(struct cursor *c, struct proto_field *f);

/* A field of a message that is read: where its value, or its bytes, go. */
struct proto_wanted {
    uint32_t number, wire;
    uint64_t *value;
    struct span *bytes;
};

/* Takes the wanted fields of a message; of a repeated field the last one. Returns 0, or -1 if the bytes are
 * not a message. */
int proto_take(struct cursor *c, const struct proto_wanted *wanted, size_t n);

#endif
