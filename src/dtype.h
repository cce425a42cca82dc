/* Floor 1. Element types of tensors: one row each. */
#ifndef MGPT_DTYPE_H
#define MGPT_DTYPE_H

#include <stddef.h>
#include <stdint.h>

/* Values of GGUF's type field (ggml). Others are refused by name where the name is known. */
enum { DTYPE_F32 = 0, DTYPE_F16 = 1, DTYPE_BF16 = 30 };

struct dtype {
    uint32_t id;
    const char *name;
    uint32_t block; /* values in a block; a row is a whole number of blocks */
    uint32_t block_bytes;
    /* n values (a multiple of block) between the file's bytes, which may be unaligned, and float32.
     * from_float rounds to nearest even. */
    void (*to_float)(const void *src, float *dst, size_t n);
    void (*from_float)(const float *src, void *dst, size_t n);
};

/* One value: IEEE half and bfloat16, rounded to nearest even. */
float f16_to_f32(uint16_t h);
uint16_t f16_from_f32(float f);
uint16_t bf16_from_f32(float f);

/* The row of a type id or name, NULL when it cannot be read. */
const struct dtype *dtype_find(uint32_t id);
const struct dtype *dtype_named(const char *name); /* any case */

/* Name of any ggml type id, readable by us or not; "unknown". */
const char *dtype_name(uint32_t id);

#endif
