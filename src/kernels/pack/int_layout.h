/* The layout of packed integer panels and of quantised activations. Included only by kernels and
 * packing.
 *
 * A panel (16 rows) is a stream of 64-byte lines in the order in which matmul reads them: for each
 * group of columns the lines with its scales (the head), then those of its blocks of 32.
 *
 *   8 bits   8 lines; byte 4r + t of line j is the weight of row r, column 4j + t
 *   4 bits   4 lines; their low halves are the bytes of lines 0, 2, 4, 6 above, the high halves
 *            1, 3, 5, 7
 *   5 bits   the same and a fifth line: bit j of its byte i is the top bit of byte i of line j
 *   6 bits   the same and two more lines: bits 2j and 2j + 1 of a byte of the first are the top
 *            two bits in line j < 4; of the second, in line j + 4
 *
 * Weights are stored unsigned, as weight + `offset`. Heads:
 *
 *   Q8_0 Q4_0 Q5_0   one line for 64 columns: 16 halves d of the first block, 16 of the second
 *   Q4_1 Q5_1        one line for 32 columns: 16 halves d, 16 halves m
 *   Q4_K Q5_K        five lines for 256 columns: 16 d, 16 times -dmin; 8 x 16 bytes of scales;
 *                    8 x 16 of minima
 *   Q6_K             five lines for 256 columns: 16 d, padding; 16 x 16 signed bytes of scales
 *
 * The size is that of the file, except: scales of K types are unpacked to bytes (at most 2.8 %
 * more), and an odd number of blocks leaves half a line unused.
 */
#ifndef MGPT_KERNELS_QUANT_H
#define MGPT_KERNELS_QUANT_H

#include "base/float_bits.h"
#include "kernels/kernels.h"

#include <string.h>

enum {
    BLOCK = 32,     /* columns that share a scale of the activations */
    LINE = 64,      /* bytes of a cache line */
    BLOCK_WORDS = 8 /* groups of 4 columns in a block; lines of a block at 8 bits */
};

struct layout {
    uint8_t bits;
    uint8_t offset; /* stored value = weight + offset */
    uint8_t has_min;
    uint8_t sub_blocks;   /* scales per block: 1 or 2 */
    uint8_t k;            /* K type: scales are bytes times the d of the group */
    uint8_t group_blocks; /* blocks per head */
    uint8_t head_lines;
    uint8_t block_lines;
};

#define LAYOUT(NAME, ID, ACCESS, VALUES, BYTES, FILE_TYPE, INSTEAD, BITS, OFFSET, MINIMUM, SUBS)   \
    [WEIGHT_##NAME] = {.bits = BITS,                                                               \
                       .offset = OFFSET,                                                           \
                       .has_min = MINIMUM,                                                         \
                       .sub_blocks = SUBS,                                                         \
                       .k = VALUES == 256,                                                         \
                       .group_blocks = VALUES == 256 ? 8 : 2 - MINIMUM,                            \
                       .head_lines = VALUES == 256 ? 5 : 1,                                        \
                       .block_lines = BITS},
static const struct layout layouts[WEIGHT_N_TYPES] = {INT_TYPES(LAYOUT)};

/* A block of the file: values; d; dmin if it has minima; K types: scales, 6 bits for each scale and
 * minimum or a byte. */
#define CHECK_BYTES(NAME, ID, ACCESS, VALUES, BYTES, FILE_TYPE, INSTEAD, BITS, OFFSET, MINIMUM,    \
                    SUBS)                                                                          \
    _Static_assert(BYTES == VALUES * BITS / 8 + 2 + 2 * MINIMUM +                                  \
                                (VALUES == 256) * (MINIMUM ? 12 : 8 * SUBS),                       \
                   #NAME " has another size");
INT_TYPES(CHECK_BYTES)

/* Byte offset of a group of columns in a panel; also the size of `group` groups. */
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

/* Byte offsets of the scales (head) and of the lines of block b in a panel. */
static inline size_t head_at(const struct layout *l, size_t b)
{
    return group_at(l, b / l->group_blocks);
}

static inline size_t lines_at(const struct layout *l, size_t b)
{
    return head_at(l, b) + LINE * (l->head_lines + b % l->group_blocks * l->block_lines);
}

/* f16 to float, as widen_f16 in float_tmpl.h. */
static inline float half(const uint8_t *p)
{
    uint32_t h = (uint32_t)p[0] | (uint32_t)p[1] << 8, magnitude = (h & 0x7FFF) << 13;
    uint32_t bits = magnitude + 0x38000000u;
    if (magnitude < 0x00800000)
        bits = f32_bits(f32_from_bits(magnitude + 0x38800000u) - 0x1p-14f);
    if (magnitude >= 0x0F800000)
        bits += 0x38000000u;
    return f32_from_bits(bits | (h & 0x8000) << 16);
}

/* Q8_0 in the KV cache (kv_q8.c), heads of d elements: their number with the padding; in a panel,
 * the index (in halves) of the scale of block b of a token, and the byte offset of element j of a
 * value. The elements of one head, VALUE_COLUMNS or half of that, are consecutive. */
enum { VALUE_COLUMNS = 2 * BLOCK };

static inline size_t kv_padded(size_t d)
{
    return (d + BLOCK - 1) / BLOCK * BLOCK;
}

static inline size_t kv_scale_at(size_t b, size_t lane)
{
    return head_at(&layouts[WEIGHT_Q8_0], b) / sizeof(uint16_t) + b % 2 * PANEL + lane;
}

/* Elements per token after the head of column j. */
static inline size_t kv_value_columns(size_t j, size_t d)
{
    return kv_padded(d) - j / VALUE_COLUMNS * VALUE_COLUMNS < VALUE_COLUMNS ? BLOCK : VALUE_COLUMNS;
}

static inline size_t kv_value_at(size_t j, size_t lane, size_t d)
{
    return head_at(&layouts[WEIGHT_Q8_0], j / BLOCK) + LINE + lane * kv_value_columns(j, d) +
           j % VALUE_COLUMNS;
}

void kernels_scores_q8_0(const struct scores *s);

/* 32 activations, x ~ scale * q, with the sums that a tile needs.
 *
 * With m the largest |x|, scale = m / 127 and q = x * (127 / m), rounded to the nearest integer,
 * ties to even. A block with m < QUANT_TINY is all zeros. A block with an infinity or a NaN has
 * q = 0 and scale = m / 127: scale times a sum of zeros makes every result of the row NaN. */
struct x_block {
    int8_t q[BLOCK];
    float scale;
    float sum; /* scale * (float)(sum of q) */
    /* Sums of q times minus the offsets of weights (struct layout): 8, 16, 32 (of the first, the
     * last 16), 128. */
    int32_t minus[6];
};

/* first, last: sums of q[0..15] and q[16..31]. */
static inline void set_minus(struct x_block *b, int32_t first, int32_t last)
{
    int32_t all = first + last;
    const int32_t minus[6] = {-8 * all, -16 * all, -32 * first, -32 * last, -128 * all};
    memcpy(b->minus, minus, sizeof minus);
}

#define QUANT_TINY 0x1p-120f /* 127 / m is finite for m >= this */

static inline size_t quant_x_bytes(size_t n_in)
{
    return (n_in / BLOCK * sizeof(struct x_block) + LINE - 1) / LINE * LINE;
}

/* Set matmul and quantize of the integer types; scalar also sets pack. Called by kernels_init only:
 * first scalar, then the chosen ISA level. */
void kernels_quant_init_scalar(struct kernels *k);
void kernels_quant_init_avx2(struct kernels *k);
void kernels_quant_init_avx512(struct kernels *k);
void kernels_quant_init_avx512vnni(struct kernels *k);
void kernels_quant_init_amx(struct kernels *k);
void kernels_quant_init_neon(struct kernels *k);
void kernels_quant_init_neon_dot(struct kernels *k);

/* Indexed by enum weight_type. amx uses it for few tokens. */
extern matmul_fn *const int_matmul_avx512vnni[WEIGHT_N_TYPES];

void kernels_pack_init(struct kernels *k);

/* INT_TYPES(SET_MATMUL) sets k->matmul of all integer types. */
#define SET_MATMUL(NAME, ...) k->matmul[WEIGHT_##NAME] = matmul_##NAME;

#endif
