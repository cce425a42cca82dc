/* MessagePack. See msgpack.h. */
#include "convert/containers/msgpack.h"

/* Most significant byte first. */
static uint64_t number(struct cursor *c, unsigned n_bytes)
{
    const uint8_t *p = cursor_take(c, n_bytes);
    uint64_t v = 0;
    for (unsigned i = 0; p && i < n_bytes; i++)
        v = v << 8 | p[i];
    return v;
}

static struct msgpack_value head(enum msgpack_kind kind, uint64_t n)
{
    return (struct msgpack_value){.kind = kind, .n = n};
}

static struct msgpack_value with_bytes(struct cursor *c, enum msgpack_kind kind, uint64_t n)
{
    struct msgpack_value v = head(kind, n);
    if (kind == MSGPACK_EXTENSION)
        v.type = cursor_u8(c);
    v.data = cursor_take(c, n);
    return v;
}

static struct msgpack_value other(struct cursor *c, unsigned n_bytes)
{
    cursor_take(c, n_bytes);
    return head(MSGPACK_OTHER, 0);
}

/* c0 to df. */
static struct msgpack_value long_form(struct cursor *c, uint8_t first)
{
    if (first == 0xc0 || first == 0xc2 || first == 0xc3)
        return head(MSGPACK_OTHER, 0);
    if (first >= 0xc4 && first <= 0xc6)
        return with_bytes(c, MSGPACK_BYTES, number(c, 1U << (first - 0xc4)));
    if (first >= 0xc7 && first <= 0xc9)
        return with_bytes(c, MSGPACK_EXTENSION, number(c, 1U << (first - 0xc7)));
    if (first == 0xca || first == 0xcb)
        return other(c, first == 0xca ? 4 : 8);
    if (first >= 0xcc && first <= 0xcf)
        return head(MSGPACK_UINT, number(c, 1U << (first - 0xcc)));
    if (first >= 0xd0 && first <= 0xd3)
        return other(c, 1U << (first - 0xd0));
    if (first >= 0xd4 && first <= 0xd8)
        return with_bytes(c, MSGPACK_EXTENSION, 1U << (first - 0xd4));
    if (first >= 0xd9 && first <= 0xdb)
        return with_bytes(c, MSGPACK_TEXT, number(c, 1U << (first - 0xd9)));
    if (first == 0xdc || first == 0xdd)
        return head(MSGPACK_ARRAY, number(c, first == 0xdc ? 2 : 4));
    if (first == 0xde || first == 0xdf)
        return head(MSGPACK_MAP, number(c, first == 0xde ? 2 : 4));
    return head(MSGPACK_BAD, 0);
}

struct msgpack_value msgpack_next(struct cursor *c)
{
    uint8_t first = cursor_u8(c);
    struct msgpack_value v;
    if (first < 0x80)
        v = head(MSGPACK_UINT, first);
    else if (first < 0x90)
        v = head(MSGPACK_MAP, first & 15);
    else if (first < 0xa0)
        v = head(MSGPACK_ARRAY, first & 15);
    else if (first < 0xc0)
        v = with_bytes(c, MSGPACK_TEXT, first & 31);
    else if (first < 0xe0)
        v = long_form(c, first);
    else
        v = head(MSGPACK_OTHER, 0);
    return c->failed ? head(MSGPACK_BAD, 0) : v;
}
