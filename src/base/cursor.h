/* Bounds-checked reader: all parsers of untrusted files in src read their bytes through it.
 *
 * A read past the end consumes nothing, returns zero and sets `failed` and `where`; every later
 * read fails too. A parser may read a whole record and check once. Integers are little-endian.
 */
#ifndef MGPT_CURSOR_H
#define MGPT_CURSOR_H

#include "base/float_bits.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
    const uint8_t *data;
    size_t size, pos;
    int failed;
    size_t where; /* position of the read that failed */
};

static inline struct cursor cursor_over(const void *data, size_t size)
{
    return (struct cursor){(const uint8_t *)data, size, 0, 0, 0};
}

static inline size_t cursor_left(const struct cursor *c)
{
    return c->failed ? 0 : c->size - c->pos;
}

/* The next n bytes, or NULL. */
static inline const uint8_t *cursor_take(struct cursor *c, uint64_t n)
{
    if (c->failed || n > c->size - c->pos) {
        if (!c->failed)
            c->where = c->pos;
        c->failed = 1;
        return NULL;
    }
    const uint8_t *p = c->data + c->pos;
    c->pos += (size_t)n;
    return p;
}

static inline uint64_t cursor_uint(struct cursor *c, unsigned n_bytes)
{
    const uint8_t *p = cursor_take(c, n_bytes);
    uint64_t v = 0;
    for (unsigned i = 0; p && i < n_bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static inline uint8_t cursor_u8(struct cursor *c)
{
    return (uint8_t)cursor_uint(c, 1);
}

static inline uint16_t cursor_u16(struct cursor *c)
{
    return (uint16_t)cursor_uint(c, 2);
}

static inline uint32_t cursor_u32(struct cursor *c)
{
    return (uint32_t)cursor_uint(c, 4);
}

static inline uint64_t cursor_u64(struct cursor *c)
{
    return cursor_uint(c, 8);
}

static inline int32_t cursor_i32(struct cursor *c)
{
    uint32_t bits = cursor_u32(c);
    int32_t v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline float cursor_f32(struct cursor *c)
{
    return f32_from_bits(cursor_u32(c));
}

static inline double cursor_f64(struct cursor *c)
{
    return d_from_bits(cursor_u64(c));
}

#endif
