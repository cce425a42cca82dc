/* GGUF files made byte by byte, independent of src/gguf/gguf_write.c, for the tests of the reader.
 *
 * Nothing is checked: most of these files are wrong on purpose. Every integer that goes in is noted
 * as a field, so that test_mutate.c can replace each of them.
 */
#ifndef GGUF_BYTES_H
#define GGUF_BYTES_H

#include "gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

struct gguf_image {
    uint8_t p[4096];
    size_t n;
    struct {
        size_t at;
        unsigned width;
    } fields[256];
    size_t n_fields;
};

static inline void put_raw(struct gguf_image *b, const void *p, size_t n)
{
    if (n > sizeof b->p - b->n)
        abort();
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

static inline void put_uint(struct gguf_image *b, uint64_t v, unsigned width)
{
    if (b->n_fields == sizeof b->fields / sizeof *b->fields)
        abort();
    b->fields[b->n_fields].at = b->n;
    b->fields[b->n_fields++].width = width;
    for (unsigned i = 0; i < width; i++)
        put_raw(b, &(uint8_t){(uint8_t)(v >> (8 * i))}, 1);
}

static inline void put_text(struct gguf_image *b, const char *text)
{
    put_uint(b, strlen(text), 8);
    put_raw(b, text, strlen(text));
}

/* Forgets what b held. */
static inline void put_header(struct gguf_image *b, uint64_t n_tensors, uint64_t n_kv)
{
    memset(b, 0, sizeof *b);
    put_raw(b, "GGUF", 4);
    put_uint(b, 3, 4);
    put_uint(b, n_tensors, 8);
    put_uint(b, n_kv, 8);
}

static inline void put_key(struct gguf_image *b, const char *key, uint32_t type)
{
    put_text(b, key);
    put_uint(b, type, 4);
}

static inline void put_array(struct gguf_image *b, const char *key, uint32_t element, uint64_t n)
{
    put_key(b, key, GGUF_ARRAY);
    put_uint(b, element, 4);
    put_uint(b, n, 8);
}

static inline void put_kv_u32(struct gguf_image *b, const char *key, uint32_t v)
{
    put_key(b, key, GGUF_U32);
    put_uint(b, v, 4);
}

static inline void put_info(struct gguf_image *b, const char *name, uint32_t n_dims,
                            const uint64_t *dims, uint32_t type, uint64_t offset)
{
    put_text(b, name);
    put_uint(b, n_dims, 4);
    for (uint32_t d = 0; d < n_dims; d++)
        put_uint(b, dims[d], 8);
    put_uint(b, type, 4);
    put_uint(b, offset, 8);
}

/* Bytes of value `fill` up to a multiple of `to`. */
static inline void put_padding(struct gguf_image *b, size_t to, uint8_t fill)
{
    while (b->n % to)
        put_raw(b, &fill, 1);
}

static inline unsigned width_of(enum gguf_type type)
{
    static const unsigned widths[GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return widths[type];
}

/* Every value type, as scalar ("scalar.N") and as array of 3 ("array.N"), an empty array, and three
 * tensors: f32 [3, 2] holding 0..5, f16 [5] and bf16 [4, 1, 2] holding the bytes 0, 1, 2, ... */
static inline void put_everything(struct gguf_image *b)
{
    char key[] = "scalar.X", array[] = "array.X";
    put_header(b, 3, 2 * (GGUF_N_TYPES - 1) + 2);
    for (uint32_t t = 0; t < GGUF_N_TYPES; t++) {
        if (t == GGUF_ARRAY)
            continue;
        key[7] = array[6] = (char)('A' + t);
        put_key(b, key, t);
        if (t == GGUF_STRING)
            put_text(b, "one");
        else
            put_uint(b, 1, width_of((enum gguf_type)t));
        put_array(b, array, t, 3);
        for (unsigned i = 0; i < 3; i++)
            if (t == GGUF_STRING)
                put_text(b, i == 0 ? "" : i == 1 ? "b" : "ccc");
            else
                put_uint(b, i == 1, width_of((enum gguf_type)t));
    }
    put_array(b, "array.empty", GGUF_STRING, 0);
    put_kv_u32(b, "general.alignment", 16);
    put_info(b, "matrix", 2, (const uint64_t[]){3, 2}, 0, 0);
    put_info(b, "half", 1, (const uint64_t[]){5}, 1, 32);
    put_info(b, "brain", 3, (const uint64_t[]){4, 1, 2}, 30, 48);
    put_padding(b, 16, 0);
    for (unsigned i = 0; i < 6; i++) {
        float v = (float)i;
        put_raw(b, &v, 4);
    }
    put_padding(b, 16, 0);
    for (unsigned i = 0; i < 10; i++)
        put_raw(b, &(uint8_t){(uint8_t)i}, 1);
    put_padding(b, 16, 0);
    for (unsigned i = 0; i < 16; i++)
        put_raw(b, &(uint8_t){(uint8_t)i}, 1);
}

#endif
