/* Element types of tensors: the rows of types.h that can be read.
 *
 * A type is a block of values in a number of bytes, with functions to and from float32. Decoding
 * (dequantizing) matches ggml bit for bit. Types that exist in memory only, and integers, have a name but no row.
 *
 * Words of this folder:
 *   block         the fewest values of a type that can stand alone: 32 of Q8_0, 256 of Q4_K, 1 of F16
 *   scale, min    a value is scale * number - min; most types have no min
 *   super-block   a block of 256 whose parts of 16 or 32 have scales of their own, which are numbers too
 *   grid          a table of groups of values: types below 4 bits store the number of a group
 *   search        trying scales for the least squared error (dtype_ksearch.c)
 */
#ifndef MGPT_DTYPE_H
#define MGPT_DTYPE_H

#include "dtype/types.h"

#include <stddef.h>

struct dtype {
    uint32_t id;
    const char *name;
    uint32_t block; /* values in a block; a row is a whole number of blocks */
    uint32_t block_bytes;
    enum weight_type weight;     /* what matmul takes: WEIGHT_F32 for UNPACKED_TYPES */
    uint32_t file_type, instead; /* types.h; instead: an id */
    /* Converts n values (a multiple of block) between the file's bytes, which may be unaligned,
     * and float32. Any bytes decode. from_float rounds F16 and BF16 to nearest even, gives the
     * bytes of ggml's reference encoder for Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1, takes any floats,
     * and is NULL for types that are read only. */
    void (*to_float)(const void *src, float *dst, size_t n);
    void (*from_float)(const float *src, void *dst, size_t n);
    /* As from_float, but the squared error of each value is multiplied by its weight, which is finite
     * and not negative. NULL: weights would change nothing. */
    void (*from_float_weighted)(const float *src, const float *weight, void *dst, size_t n);
};

/* One value: IEEE half and bfloat16, rounded to nearest even. */
float f16_to_f32(uint16_t h);
uint16_t f16_from_f32(float f);
uint16_t bf16_from_f32(float f);

/* The row of a type id or name, NULL for a type that cannot be read. */
const struct dtype *dtype_find(uint32_t id);
const struct dtype *dtype_named(const char *name); /* any case */

/* The type that matmul takes as it is. */
const struct dtype *dtype_of_weight(enum weight_type type);

/* Name of any ggml type id, also of types that cannot be read; "unknown" otherwise. */
const char *dtype_name(uint32_t id);

#endif
