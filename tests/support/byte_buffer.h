/* Tests: bytes that grow, with the little-endian numbers and texts of GGUF. */
#ifndef TESTS_BYTE_BUFFER_H
#define TESTS_BYTE_BUFFER_H

#include "support/unit.h"

struct byte_buffer {
    uint8_t *p; /* malloc'ed */
    size_t n, cap;
};

static inline void buffer_put(struct byte_buffer *b, const void *bytes, size_t n)
{
    if (!b->p || b->n + n > b->cap) {
        b->cap = 2 * (b->n + n) + 8;
        b->p = realloc(b->p, b->cap);
        assert_non_null(b->p);
    }
    if (n)
        memcpy(b->p + b->n, bytes, n);
    b->n += n;
}

static inline void buffer_uint(struct byte_buffer *b, uint64_t v, unsigned n_bytes)
{
    uint8_t bytes[8];
    for (unsigned i = 0; i < n_bytes; i++)
        bytes[i] = (uint8_t)(v >> (8 * i));
    buffer_put(b, bytes, n_bytes);
}

static inline void buffer_text(struct byte_buffer *b, const char *p, size_t n)
{
    buffer_uint(b, n, 8);
    buffer_put(b, p, n);
}

#endif
