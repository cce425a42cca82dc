/* Tools: MessagePack: a value of every first byte, and what is cut short. Expected values are from
 * the format's specification (github.com/msgpack/msgpack, spec.md). */
#include "convert/containers/msgpack.h"
#include "support/unit.h"

struct form {
    const char *bytes;
    size_t size;
    enum msgpack_kind kind;
    uint64_t n;
    int type;         /* of an extension */
    const char *data; /* the n bytes, NULL: none */
};

#define FORM(bytes, ...)                                                                           \
    {                                                                                              \
        bytes, sizeof bytes - 1, __VA_ARGS__                                                       \
    }

static const struct form forms[] = {
    FORM("\x07", MSGPACK_UINT, 7, 0, NULL),
    FORM("\x7f", MSGPACK_UINT, 127, 0, NULL),
    FORM("\x82", MSGPACK_MAP, 2, 0, NULL),
    FORM("\x9f", MSGPACK_ARRAY, 15, 0, NULL),
    FORM("\xa3yes", MSGPACK_TEXT, 3, 0, "yes"),
    FORM("\xc0", MSGPACK_OTHER, 0, 0, NULL),
    FORM("\xc1", MSGPACK_BAD, 0, 0, NULL),
    FORM("\xc2", MSGPACK_OTHER, 0, 0, NULL),
    FORM("\xc3", MSGPACK_OTHER, 0, 0, NULL),
    FORM("\xc4\x02yz", MSGPACK_BYTES, 2, 0, "yz"),
    FORM("\xc5\x00\x01x", MSGPACK_BYTES, 1, 0, "x"),
    FORM("\xc6\x00\x00\x00\x01x", MSGPACK_BYTES, 1, 0, "x"),
    FORM("\xc7\x02\x05yz", MSGPACK_EXTENSION, 2, 5, "yz"),
    FORM("\xc8\x00\x01\x05x", MSGPACK_EXTENSION, 1, 5, "x"),
    FORM("\xc9\x00\x00\x00\x01\x05x", MSGPACK_EXTENSION, 1, 5, "x"),
    FORM("\xca\x00\x00\x00\x01", MSGPACK_OTHER, 0, 0, NULL),
    FORM("\xcb\x00\x00\x00\x00\x00\x00\x00\x01", MSGPACK_OTHER, 0, 0, NULL),
    FORM("\xcc\xff", MSGPACK_UINT, 255, 0, NULL),
    FORM("\xcd\x01\x02", MSGPACK_UINT, 0x102, 0, NULL),
    FORM("\xce\x01\x02\x03\x04", MSGPACK_UINT, 0x1020304, 0, NULL),
    FORM("\xcf\x01\x02\x03\x04\x05\x06\x07\x08", MSGPACK_UINT, 0x102030405060708, 0, NULL),
    FORM("\xd0\xff", MSGPACK_OTHER, 0, 0, NULL),
    FORM("\xd1\xff\xff", MSGPACK_OTHER, 0, 0, NULL),
    FORM("\xd2\xff\xff\xff\xff", MSGPACK_OTHER, 0, 0, NULL),
    FORM("\xd3\xff\xff\xff\xff\xff\xff\xff\xff", MSGPACK_OTHER, 0, 0, NULL),
    FORM("\xd4\x06x", MSGPACK_EXTENSION, 1, 6, "x"),
    FORM("\xd5\x06xy", MSGPACK_EXTENSION, 2, 6, "xy"),
    FORM("\xd6\x06wxyz", MSGPACK_EXTENSION, 4, 6, "wxyz"),
    FORM("\xd7\x06stuvwxyz", MSGPACK_EXTENSION, 8, 6, "stuvwxyz"),
    FORM("\xd8\x06klmnopqrstuvwxyz", MSGPACK_EXTENSION, 16, 6, "klmnopqrstuvwxyz"),
    FORM("\xd9\x02no", MSGPACK_TEXT, 2, 0, "no"),
    FORM("\xda\x00\x02no", MSGPACK_TEXT, 2, 0, "no"),
    FORM("\xdb\x00\x00\x00\x02no", MSGPACK_TEXT, 2, 0, "no"),
    FORM("\xdc\x01\x02", MSGPACK_ARRAY, 0x102, 0, NULL),
    FORM("\xdd\x01\x02\x03\x04", MSGPACK_ARRAY, 0x1020304, 0, NULL),
    FORM("\xde\x01\x02", MSGPACK_MAP, 0x102, 0, NULL),
    FORM("\xdf\x01\x02\x03\x04", MSGPACK_MAP, 0x1020304, 0, NULL),
    FORM("\xe0", MSGPACK_OTHER, 0, 0, NULL),
    FORM("\xff", MSGPACK_OTHER, 0, 0, NULL)};

TEST(every_form)
{
    for (size_t i = 0; i < COUNT(forms); i++) {
        const struct form *f = &forms[i];
        struct cursor c = cursor_over((const uint8_t *)f->bytes, f->size);
        struct msgpack_value v = msgpack_next(&c);
        if (v.kind != f->kind || v.n != f->n || v.type != f->type || c.pos != f->size)
            fail_msg("%02x: kind %d, n %llu, type %d, %zu of %zu bytes", (uint8_t)f->bytes[0],
                     (int)v.kind, (unsigned long long)v.n, v.type, (size_t)c.pos, f->size);
        if (f->data)
            assert_memory_equal(v.data, f->data, f->n);
    }
}

TEST(cut_short)
{
    for (size_t i = 0; i < COUNT(forms); i++)
        for (size_t n = 0; n < forms[i].size; n++) {
            struct cursor c = cursor_over((const uint8_t *)forms[i].bytes, n);
            assert_int_equal(msgpack_next(&c).kind, MSGPACK_BAD);
        }
}
