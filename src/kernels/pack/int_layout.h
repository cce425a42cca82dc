/* Floor 1. What the integer kernels share: the layout of packed panels and of quantised
 * activations. Kernels and packing include this, nobody else.
 *
 * A panel (16 rows) is a stream of 64-byte lines in the order in which a token's pass reads them:
 * for each group of columns the lines with its scales (the head), then those of its blocks of 32.
 *
 *   8 bits   8 lines; byte 4r + t of line j is the weight of row r, column 4j + t
 *   4 bits   4 lines; their low halves are the bytes of lines 0, 2, 4, 6 above, the high halves
 *            1, 3, 5, 7
 *   5 bits   the same and a fifth line: bit j of its byte i is the top bit of byte i of line j
 *   6 bits   the same and two more lines: bits 2j and 2j + 1 of a byte of the first are the top
 *            two bits in line j < 4; of the second, in line j + 4
 *
 * Weights are stored unsigned: `offset` more than they are. Heads:
 *
 *   Q8_0 Q4_0 Q5_0   one line for 64 columns: 16 halves d of the first block, 16 of the second
 *   Q4_1 Q5_1        one line for 32 columns: 16 halves d, 16 halves m
 *   Q4_K Q5_K        five lines for 256 columns: 16 d, 16 times -dmin; 8 x 16 bytes of scales;
 *                    8 x 16 of minima
 *   Q6_K             five lines for 256 columns: 16 d, nothing; 16 x 16 signed bytes of scales
 *
 * All of it is as many bytes as in the file but for the K types, whose scales are widened to bytes
 * (2.8 % more at most), and half a line where the columns are an odd number of blocks.
 */
#ifndef MGPT_KERNELS_QUANT_H
#define MGPT_KERNELS_QUANT_H

#include "kernels/kernels.h"

enum {
    BLOCK = 32,     /* columns that share a scale of the activations */
    LINE = 64,      /* bytes of a cache line */
    BLOCK_WORDS = 8 /* fours of columns in a block: lines at 8 bits */
};

struct layout {
    uint8_t bits;
    uint8_t offset; /* what is stored is the weight plus this */
    uint8_t has_min;
    uint8_t sub_blocks;   /* with a scale of their own, in a block: 1 or 2 */
    uint8_t k;            /* scales are bytes that multiply the group's halves */
    uint8_t group_blocks; /* blocks behind a head */
    uint8_t head_lines;
    uint8_t block_lines;
};

static const struct layout layouts[WEIGHT_N_TYPES] = {
    [WEIGHT_Q8_0] = {8, 128, 0, 1, 0, 2, 1, 8}, [WEIGHT_Q4_0] = {4, 8, 0, 1, 0, 2, 1, 4},
    [WEIGHT_Q4_1] = {4, 0, 1, 1, 0, 1, 1, 4},   [WEIGHT_Q5_0] = {5, 16, 0, 1, 0, 2, 1, 5},
    [WEIGHT_Q5_1] = {5, 0, 1, 1, 0, 1, 1, 5},   [WEIGHT_Q4_K] = {4, 0, 1, 1, 1, 8, 5, 4},
    [WEIGHT_Q5_K] = {5, 0, 1, 1, 1, 8, 5, 5},   [WEIGHT_Q6_K] = {6, 32, 0, 2, 1, 8, 5, 6},
};

/* Offset of a panel's group of columns, counted in groups; also the bytes of that many groups. */
static inline size_t group_at(const struct layout *l, size_t group)
{
    return group * LINE * (l->head_lines + (size_t)l->group_blocks * l->block_lines);
}

static inline size_t quant_panel_bytes(const struct layout *l, size_t n_in)
{
    size_t blocks = n_in / BLOCK, groups = blocks / l->group_blocks,
           rest = blocks % l->group_blocks;
    return group_at(l, groups) +
           (rest > 0) * (size_t)LINE * (l->head_lines + rest * l->block_lines);
}

/* Where block b's scales and lines are, from the start of a panel. */
static inline size_t head_at(const struct layout *l, size_t b)
{
    return group_at(l, b / l->group_blocks);
}

static inline size_t lines_at(const struct layout *l, size_t b)
{
    return head_at(l, b) + LINE * (l->head_lines + b % l->group_blocks * l->block_lines);
}

/* 32 activations: x is about scale * q. Everything that a tile needs of a block in one place.
 *
 * With m the largest |x|, scale = m / 127 and q = x * (127 / m), rounded to the nearest integer,
 * ties to even. A block with m < QUANT_TINY counts as zeros. One with an infinity or a NaN has
 * q = 0 and that scale: scale times a sum of zeros makes every result of the row NaN. */
struct x_block {
    int8_t q[BLOCK];
    float scale;
    float sum;            /* scale * (float)(sum of q) */
    int32_t minus_128[2]; /* -128 * sum of q; the same of q[0..15] */
};

#define QUANT_TINY 0x1p-120f /* 127 / m is finite from here */

static inline size_t quant_x_bytes(size_t n_in)
{
    return (n_in / BLOCK * sizeof(struct x_block) + LINE - 1) / LINE * LINE;
}

/* Fill in linear and quantize, the scalar rung pack as well; each after the rung below.
 * kernels_init calls them. */
void kernels_quant_init_scalar(struct kernels *k);
void kernels_quant_init_avx2(struct kernels *k);
void kernels_quant_init_avx512(struct kernels *k);
void kernels_quant_init_avx512vnni(struct kernels *k);
void kernels_quant_init_amx(struct kernels *k);

/* avx512vnni's linear, from Q8_0 on: amx leaves few tokens to them. */
extern matmul_fn *const quant_matmul_avx512vnni[];

void kernels_pack_init(struct kernels *k);

#endif
