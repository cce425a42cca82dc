/* Element types of tensors: one table row each.
 *
 * A type is a block of values in a number of bytes, with functions to and from float32. Decoding
 * matches ggml bit for bit. IQ1 to IQ3 (blocks that need big tables), ternary types and types that
 * exist in memory only have a name but no row.
 */
#ifndef MGPT_DTYPE_H
#define MGPT_DTYPE_H

#include <stddef.h>
#include <stdint.h>

/* Values of GGUF's type field (ggml). Other types are refused, by name if it is known. */
enum {
    DTYPE_F32 = 0,
    DTYPE_F16 = 1,
    DTYPE_Q4_0 = 2,
    DTYPE_Q4_1 = 3,
    DTYPE_Q5_0 = 6,
    DTYPE_Q5_1 = 7,
    DTYPE_Q8_0 = 8,
    DTYPE_Q2_K = 10,
    DTYPE_Q3_K = 11,
    DTYPE_Q4_K = 12,
    DTYPE_Q5_K = 13,
    DTYPE_Q6_K = 14,
    DTYPE_IQ4_NL = 20,
    DTYPE_IQ4_XS = 23,
    DTYPE_BF16 = 30,
    DTYPE_MXFP4 = 39
};

struct dtype {
    uint32_t id;
    const char *name;
    uint32_t block; /* values in a block; a row is a whole number of blocks */
    uint32_t block_bytes;
    /* Converts n values (a multiple of block) between the file's bytes, which may be unaligned,
     * and float32. Any bytes decode. from_float rounds F16 and BF16 to nearest even, gives the
     * bytes of ggml's reference encoder for Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1, takes any floats,
     * and is NULL for types that are read only. */
    void (*to_float)(const void *src, float *dst, size_t n);
    void (*from_float)(const float *src, void *dst, size_t n);
};

/* One value: IEEE half and bfloat16, rounded to nearest even. */
float f16_to_f32(uint16_t h);
uint16_t f16_from_f32(float f);
uint16_t bf16_from_f32(float f);

/* The row of a type id or name, NULL for a type that cannot be read. */
const struct dtype *dtype_find(uint32_t id);
const struct dtype *dtype_named(const char *name); /* any case */

/* Name of any ggml type id, also of types that cannot be read; "unknown" otherwise. */
const char *dtype_name(uint32_t id);

#endif
