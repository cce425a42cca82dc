/* The layout of packed integer panels and of quantised activations. Included only by kernels and
 * packing.
 *
 * A panel (16 rows) is a stream of 64-byte lines in the order in which matmul reads them: for each
 * group of columns the lines with its scales (the head), then those of its blocks of 32.
 *
 * The low bits of a weight are 8, 4 or 2, the others its high bits (0, 1 or 2):
 *
 *   8 bits   8 lines; byte 4r + t of line j is the weight of row r, column 4j + t
 *   4        4 lines; the halves of a byte, low first, are the bytes of lines 2i and 2i + 1 above
 *   2        2 lines; the quarters of a byte are the bytes of lines 4i to 4i + 3
 *
 * and then, in the same way, 1 or 2 lines of high bits: the eighths or quarters of their bytes.
 *
 * Weights are stored unsigned, as weight + `offset`, or as a number in a table of weights. Heads:
 *
 *   Q8_0 Q4_0 Q5_0 IQ4_NL   one line for 64 columns: 16 halves d of the first block, 16 of the second
 *   MXFP4                   the same in bfloat16, which holds all powers of two
 *   Q4_1 Q5_1               one line for 32 columns: 16 halves d, 16 halves m
 *   K types                 for 256 columns: 16 halves d, 16 times -dmin or padding; 16 signed bytes
 *                           of scales for each sub-block; if it has minima, 16 bytes for each
 *
 * The size is that of the file, except: scales of K types are unpacked to bytes (at most 2.9 % more,
 * Q2_K 19, Q3_K 6, TQ2_0 16, TQ1_0 41, MXFP4 6 %), and an odd number of blocks leaves half a line
 * unused.
 */
#ifndef MGPT_KERNELS_INT_LAYOUT_H
#define MGPT_KERNELS_INT_LAYOUT_H

#include "base/float_bits.h"
#include "kernels/kernels.h"

#include <string.h>

/* For a function that is compiled for each type, with the type as a constant. */
#if defined(ISA_SMALL)
#define ALWAYS_INLINE static /* one copy serves all types */
#else
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

enum {
    BLOCK = 32,     /* columns that share a scale of the activations */
    LINE = 64,      /* bytes of a cache line */
    BLOCK_WORDS = 8 /* groups of 4 columns in a block; lines of a block at 8 bits */
};

struct layout {
    uint8_t low, high; /* bits of a stored value */
    uint8_t bits;      /* of an unpacked one: 8 if it comes from the table */
    uint8_t offset;    /* unpacked value = weight + offset */
    uint8_t has_min;
    uint8_t sub_blocks;   /* scales per block: 1 or 2 */
    uint8_t k;            /* K type: scales are bytes times the d of the group */
    uint8_t is_bf16;      /* d is a bfloat16, not a half */
    uint8_t group_blocks; /* blocks per head */
    uint8_t head_lines;
    uint8_t block_lines;
    uint8_t d_at;        /* byte of d in the file's block; dmin follows it */
    const int8_t *table; /* 16 weights, or NULL */
};

/* The largest power of two up to `bits`. */
#define LOW_BITS(bits) ((bits)&8 ? 8 : (bits)&4 ? 4 : 2)

#define LAYOUT(NAME, ID, ACCESS, VALUES, BYTES, FILE_TYPE, INSTEAD, BITS, OFFSET, MINIMUM, SUBS,   \
               D_AT, TABLE)                                                                        \
    [WEIGHT_##NAME] = {.low = LOW_BITS(BITS),                                                      \
                       .high = BITS & (LOW_BITS(BITS) - 1),                                        \
                       .bits = OFFSET == 128 ? 8 : BITS,                                           \
                       .offset = OFFSET,                                                           \
                       .has_min = MINIMUM,                                                         \
                       .sub_blocks = SUBS,                                                         \
                       .k = VALUES == 256,                                                         \
                       .is_bf16 = WEIGHT_##NAME == WEIGHT_MXFP4,                                   \
                       .group_blocks = VALUES == 256 ? 8 : 2 - MINIMUM,                            \
                       .head_lines = VALUES == 256 ? 1 + 2 * SUBS * (1 + MINIMUM) : 1,             \
                       .block_lines = BITS,                                                        \
                       .d_at = D_AT,                                                               \
                       .table = TABLE},
static const struct layout layouts[WEIGHT_N_TYPES] = {INT_TYPES(LAYOUT)};

/* The offsets and scales for which the sums of activations (x_block.minus) and the layout have room. */
#define CHECK_LAYOUT(NAME, ID, ACCESS, VALUES, BYTES, FILE_TYPE, INSTEAD, BITS, OFFSET, MINIMUM,   \
                     SUBS, ...)                                                                    \
    _Static_assert(SUBS == 1 || SUBS == 2, #NAME ": scales per block");                            \
    _Static_assert((OFFSET & (OFFSET - 1)) == 0, #NAME ": the offset is a power of two, or 0");    \
    _Static_assert(OFFSET <= (SUBS == 2 ? 32 : 128),                                               \
                   #NAME ": x_block.minus has no sum for this offset");                            \
    _Static_assert((VALUES == 256 || VALUES == BLOCK) && !(VALUES == BLOCK && SUBS == 2),          \
                   #NAME ": only K types have two scales per block");                              \
    _Static_assert(OFFSET == 128 || OFFSET < 1 << BITS, #NAME ": the offset is a stored value");
INT_TYPES(CHECK_LAYOUT)
#undef CHECK_LAYOUT

/* Where sub-block s of block b of a group has its scale in the bytes of a K type's head (16 each),
 * and after all scales its minimum. */
static inline size_t k_scale_at(const struct layout *l, size_t b, size_t s)
{
    return (b * l->sub_blocks + s) * PANEL;
}

static inline size_t k_min_at(const struct layout *l, size_t b, size_t s)
{
    return k_scale_at(l, l->group_blocks + b, s);
}

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

/* Byte i of line j of a block at 8 bits, as a weight. */
static inline int int_weight(const uint8_t *lines, size_t j, size_t i, const struct layout *l)
{
    const uint8_t *low = lines + j * l->low / 8 * LINE;
    const uint8_t *high = lines + (l->low + j * l->high / 8) * LINE;
    int v = low[i] >> j * l->low % 8 & ((1 << l->low) - 1);
    if (l->high)
        v |= (high[i] >> j * l->high % 8 & ((1 << l->high) - 1)) << l->low;
    return l->table ? l->table[v] : v - l->offset;
}

/* The scale and the minimum (0: the type has none) of row r in sub-block s of block b of a group. A
 * half times a byte is exact in float. */
static inline float int_scale(const uint8_t *head, size_t r, size_t b, size_t s,
                              const struct layout *l)
{
    const uint8_t *d = head + 2 * r + (l->k || l->has_min || b == 0 ? 0 : LINE / 2);
    if (l->is_bf16)
        return f32_from_bits((uint32_t)d[0] << 16 | (uint32_t)d[1] << 24);
    return l->k ? half(d) * (float)(int8_t)head[LINE + k_scale_at(l, b, s) + r] : half(d);
}

static inline float int_min(const uint8_t *head, size_t r, size_t b, size_t s,
                            const struct layout *l)
{
    float m = l->has_min ? half(head + LINE / 2 + 2 * r) : 0;
    return l->k && l->has_min ? m * (float)head[LINE + k_min_at(l, b, s) + r] : m;
}

/* kernels_unpack_row of an integer type, of one panel. */
void kernels_unpack_int_row(const struct layout *l, const uint8_t *panel, size_t n_in, size_t r,
                            float *to);

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
    /* Separate assignments: gcc builds an array on the stack and reads it back in wider loads, which
     * wait for all earlier stores. Those are slow where another core has read the block. */
    b->minus[0] = -8 * all;
    b->minus[1] = -16 * all;
    b->minus[2] = -32 * first;
    b->minus[3] = -32 * last;
    b->minus[4] = -128 * all;
    b->minus[5] = 0;
}

/* scale * (float)(sum of q) of the columns of sub-block s. */
static inline float x_sum(const struct x_block *x, size_t s, const struct layout *l)
{
    return l->sub_blocks == 1 ? x->sum : x->scale * (float)(x->minus[2 + s] / -32);
}

#define QUANT_TINY 0x1p-120f /* 127 / m is finite for m >= this */

static inline size_t quant_x_bytes(size_t n_in)
{
    return (n_in / BLOCK * sizeof(struct x_block) + LINE - 1) / LINE * LINE;
}

/* Indexed by enum weight_type. amx uses it for few tokens. */
extern matmul_fn *const int_matmul_avx512vnni[WEIGHT_N_TYPES];

void kernels_pack_init(struct kernels *k);

/* INT_TYPES(SET_MATMUL) sets k->matmul of all integer types. */
#define SET_MATMUL(NAME, ...) k->matmul[WEIGHT_##NAME] = matmul_##NAME;

#endif
