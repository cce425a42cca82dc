/* The table of element types (ggml's). All enums, names, sizes, layouts and function tables come
 * from these rows.
 *
 * A new type is one row and a decoder: ROW_DECODER in dtype_quant.c, dtype_kquant.c or dtype_grid.c. A
 * type with RW also needs ROW_ENCODER, with RWW WEIGHTED_ENCODER. A row of INT_TYPES, whose packed weights are multiplied as integers,
 * needs more if its block is laid out as no other: get_block and k_scale in pack_int.c.
 *
 * Columns:
 *   name        as files and options write it
 *   id          value of GGUF's type field
 *   access      RW; R: it has no encoder; RWW: it has one whose values can have weights
 *   block       values in a block; a row is a whole number of blocks
 *   bytes       of a block
 *   file_type   value of general.file_type in files that are mostly of this type
 *   instead     the type that llama.cpp's converters give to rows that are not whole blocks
 */
#ifndef MGPT_TYPES_H
#define MGPT_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* clang-format off */

/* Multiplied as they are, by float activations. A further column:
 *   bits        of a weight */
#define FLOAT_TYPES(X) \
    X(F32,   0, RW, 1, 4,  0, F32,  32) \
    X(F16,   1, RW, 1, 2,  1, F16,  16) \
    X(BF16, 30, RW, 1, 2, 32, BF16, 16)

/* Multiplied as they are, by int8 activations. Further columns:
 *   bits        of a weight: 2, 3, 4, 5, 6 or 8
 *   offset      the packed value is weight + offset
 *   minimum     1: a sub-block has a minimum, too
 *   sub-blocks  scales for each 32 values: 1 or 2
 *   d at        byte of d in the file's block
 *   table       the weights that the 4 bits choose from, or NULL */
#define INT_TYPES(X) \
    X(Q8_0,    8, RW,   32,  34,  7, F16,  8, 128, 0, 1,   0, NULL) \
    X(Q4_0,    2, RWW,  32,  18,  2, F16,  4,   8, 0, 1,   0, NULL) \
    X(Q4_1,    3, RWW,  32,  20,  3, F16,  4,   0, 1, 1,   0, NULL) \
    X(Q5_0,    6, RWW,  32,  22,  8, F16,  5,  16, 0, 1,   0, NULL) \
    X(Q5_1,    7, RWW,  32,  24,  9, F16,  5,   0, 1, 1,   0, NULL) \
    X(Q4_K,   12, RWW, 256, 144, 14, Q5_0, 4,   0, 1, 1,   0, NULL) \
    X(Q5_K,   13, RWW, 256, 176, 16, Q5_1, 5,   0, 1, 1,   0, NULL) \
    X(Q6_K,   14, RWW, 256, 210, 18, Q8_0, 6,  32, 0, 2, 208, NULL) \
    X(Q2_K,   10, RWW, 256,  84, 10, Q4_0, 2,   0, 1, 2,  80, NULL) \
    X(Q3_K,   11, RWW, 256, 110, 12, Q4_0, 3,   4, 0, 2, 108, NULL) \
    X(IQ4_NL, 20, R,    32,  18, 25, F16,  4, 128, 0, 1,   0, iq4_values) \
    X(IQ4_XS, 23, R,   256, 136, 30, F16,  4, 128, 0, 1,   0, iq4_values) \
    X(MXFP4,  39, R,    32,  17, 38, F16,  4, 128, 0, 1,   0, mxfp4_values) \
    X(TQ1_0,  34, R,   256,  54, 36, F16,  2,   1, 0, 1,  52, NULL) \
    X(TQ2_0,  35, R,   256,  66, 37, F16,  2,   1, 0, 1,  64, NULL)

/* Unpacked when a model is opened, to the smallest float type that holds all values of a matrix
 * (model/pack.c): BF16 for NVFP4, F16 for Q1_0 and Q2_0, F32 for the others. A module for web pages
 * reads no types with grids (MGPT_NO_GRIDS), whose tables it would have to carry. */
#ifdef MGPT_NO_GRIDS
#define GRID_TYPES(X)
#define UNREADABLE_GRIDS(X) \
    X(IQ2_XXS, 16) X(IQ2_XS, 17) X(IQ3_XXS, 18) X(IQ1_S, 19) X(IQ3_S, 21) X(IQ2_S, 22) X(IQ1_M, 29)
#else
#define GRID_TYPES(X) \
    X(IQ2_XXS, 16, R, 256,  66, 19, F16) \
    X(IQ2_XS,  17, R, 256,  74, 20, F16) \
    X(IQ2_S,   22, R, 256,  82, 28, F16) \
    X(IQ3_XXS, 18, R, 256,  98, 23, F16) \
    X(IQ3_S,   21, R, 256, 110, 26, F16) \
    X(IQ1_S,   19, R, 256,  50, 24, F16) \
    X(IQ1_M,   29, R, 256,  56, 31, F16)
#define UNREADABLE_GRIDS(X)
#endif
#define UNPACKED_TYPES(X) GRID_TYPES(X) \
    X(NVFP4,   40, R,  64,  36, 39, F16) \
    X(Q1_0,    41, R, 128,  18, 40, F16) \
    X(Q2_0,    42, R,  64,  18, 41, F16)

/* Refused by name: name, id. The numbers had types that no longer exist. */
#define UNREADABLE_TYPES(X) UNREADABLE_GRIDS(X) \
    X(4, 4) X(5, 5) X(Q8_1, 9) X(Q8_K, 15) X(I8, 24) X(I16, 25) X(I32, 26) X(I64, 27) X(F64, 28) \
    X(31, 31) X(32, 32) X(33, 33) X(36, 36) X(37, 37) X(38, 38)

/* clang-format on */

#define READABLE_TYPES(X) FLOAT_TYPES(X) INT_TYPES(X) UNPACKED_TYPES(X)

/* DTYPE_F32, F32_BLOCK, F32_BYTES and so on: the columns id, block and bytes. */
#define TYPE_CONSTANTS(NAME, ID, ACCESS, BLOCK, BYTES, ...)                                        \
    DTYPE_##NAME = ID, NAME##_BLOCK = BLOCK, NAME##_BYTES = BYTES,
enum { READABLE_TYPES(TYPE_CONSTANTS) DTYPE_N_IDS = 256 /* more than any id */ };
#undef TYPE_CONSTANTS

/* WEIGHT_F32 and so on: the types that matmul multiplies. They index the tables of kernels. */
#define WEIGHT_TYPE(NAME, ...) WEIGHT_##NAME,
enum weight_type {
    FLOAT_TYPES(WEIGHT_TYPE) WEIGHT_N_FLOATS,
    WEIGHT_LAST_FLOAT = WEIGHT_N_FLOATS - 1,
    INT_TYPES(WEIGHT_TYPE) WEIGHT_N_TYPES,
    /* BF16 in fewer bits, in memory only (kernels/pack/float_compressed.h) */
    WEIGHT_BF16_COMPRESSED = WEIGHT_N_TYPES,
    WEIGHT_N_PACKED
};
#undef WEIGHT_TYPE

/* 1: activations come from `quantize` (kernels.h). */
static inline int weight_is_integer(enum weight_type type)
{
    return type >= WEIGHT_N_FLOATS && type < WEIGHT_N_TYPES;
}

/* The weights that four bits choose from; of MXFP4 (1 sign, 2 exponent, 1 fraction bit) twice the
 * value. */
static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Value i of a block of TQ1_0: 0, 1 or 2, which mean -d, 0 and d. A byte has five values, the first
 * in the highest digit. Neighbouring values are in neighbouring bytes: the values of one byte are 32
 * apart in the first 32 bytes and 16 apart in the next 16; the last 4 bytes have four values each, 4
 * apart. A byte is its number in base 3 times 256 / 243: multiplied by 3, it carries its next digit
 * to bit 8. */
static inline int tq1_value(const uint8_t *block, size_t i)
{
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    const uint8_t *bytes = block + (i < 160 ? 0 : i < 240 ? 32 : 48);
    size_t apart = i < 160 ? 32 : i < 240 ? 16 : 4, k = i < 160 ? i : i < 240 ? i - 160 : i - 240;
    return (uint8_t)(bytes[k % apart] * powers[k / apart]) * 3 >> 8;
}

#endif
