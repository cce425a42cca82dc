/* Protobuf. See protobuf.h. */
#include "convert/containers/protobuf.h"

uint64_t proto_varint(struct cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = cursor_u8(c);
        v |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return v;
    }
    c->failed = 1;
    return 0;
}

int proto_next(struct cursor *c, struct proto_field *f)
{
    if (cursor_left(c) == 0)
        return 0;
    uint64_t tag = proto_varint(c);
    *f = (struct proto_field){.number = (uint32_t)(tag >> 3), .wire = (uint32_t)(tag & 7)};
    if (f->wire == PROTO_VARINT)
        f->value = proto_varint(c);
    else if (f->wire == PROTO_FIXED32)
        f->value = cursor_u32(c);
    else if (f->wire == PROTO_FIXED64)
        f->value = cursor_u64(c);
    else if (f->wire == PROTO_BYTES)
        f->value = proto_varint(c);
    else
        c->failed = 1;
    if (f->wire == PROTO_BYTES && !c->failed && f->value <= cursor_left(c)) {
        f->bytes.size = (size_t)f->value;
        f->bytes.data = cursor_take(c, f->bytes.size);
    } else if (f->wire == PROTO_BYTES) {
        c->failed = 1;
    }
    return c->failed || tag >> 35 || f->number == 0 ? -1 : 1;
}

int proto_take(struct cursor *c, const struct proto_wanted *wanted, size_t n)
{
    struct proto_field f;
    int got;
    while ((got = proto_next(c, &f)) == 1)
        for (size_t i = 0; i < n; i++) {
            if (f.number != wanted[i].number || f.wire != wanted[i].wire)
                continue;
            if (wanted[i].bytes)
                *wanted[i].bytes = f.bytes;
            else
                *wanted[i].value = f.value;
        }
    return got;
}
