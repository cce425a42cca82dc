/* Packing of integer types: from the blocks of the file (dtype_quant.c, dtype_kquant.c) to the
 * panels of int_layout.h; and the sizes of packed weights and activations.
 *
 * Every value becomes an unsigned byte, then the bytes of a block become lines. Four bytes are
 * handled at a time, with shifts and masks that do not cross bytes, so the byte order does not
 * matter. There is no float arithmetic, so packing cannot fail on any bytes of a file.
 */
#include "kernels/pack/float_compressed.h"
#include "kernels/pack/int_layout.h"

#include <math.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* ---- sizes ----------------------------------------------------------------------------------- */

#define BYTES_OF(NAME, ...) [WEIGHT_##NAME] = NAME##_BYTES,
static const uint8_t file_block[] = {FLOAT_TYPES(BYTES_OF) INT_TYPES(BYTES_OF)}; /* bytes */

size_t kernels_panel_bytes(enum weight_type type, size_t n_in)
{
    if (weight_is_integer(type))
        return quant_panel_bytes(&layouts[type], n_in);
    if (type == WEIGHT_BF16_COMPRESSED)
        return compressed_panel_bytes(n_in);
    return n_in * PANEL * file_block[type];
}

int kernels_compressible(size_t n_in, size_t n_out)
{
    return n_in % GROUP == 0 && n_in >= SPAN && n_in < 1 << 20 && n_out > NARROW;
}

size_t kernels_x_bytes(enum weight_type type, size_t n_in)
{
    return weight_is_integer(type) ? quant_x_bytes(n_in) : n_in * sizeof(float);
}

/* ---- values of a block ----------------------------------------------------------------------- */

enum { NIBBLES = 0x0F0F0F0F }; /* the low nibble of each byte of a word */

/* The unsigned values of a block, four to a word. */
struct values {
    uint32_t v[BLOCK_WORDS];
};

static inline uint32_t word_at(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static inline void get_bytes(struct values *q, const uint8_t *src)
{
    for (size_t j = 0; j < BLOCK_WORDS; j++)
        q->v[j] = word_at(src + 4 * j) ^ 0x80808080;
}

static inline void unpack_nibbles(struct values *q, const uint8_t *src)
{
    for (size_t j = 0; j < BLOCK_WORDS / 2; j++) {
        q->v[j] = word_at(src + 4 * j) & NIBBLES;
        q->v[j + BLOCK_WORDS / 2] = word_at(src + 4 * j) >> 4 & NIBBLES;
    }
}

static inline void unpack_fives(struct values *q, const uint8_t *high, const uint8_t *low)
{
    static const uint8_t spread[16][4] = {
        {0, 0, 0, 0},   {16, 0, 0, 0},   {0, 16, 0, 0},   {16, 16, 0, 0},
        {0, 0, 16, 0},  {16, 0, 16, 0},  {0, 16, 16, 0},  {16, 16, 16, 0},
        {0, 0, 0, 16},  {16, 0, 0, 16},  {0, 16, 0, 16},  {16, 16, 0, 16},
        {0, 0, 16, 16}, {16, 0, 16, 16}, {0, 16, 16, 16}, {16, 16, 16, 16}};
    unpack_nibbles(q, low);
    for (size_t j = 0; j < BLOCK_WORDS; j++)
        q->v[j] |= word_at(spread[high[j / 2] >> j % 2 * 4 & 15]);
}

/* Block b (of 8) of a super-block of Q4_K or Q5_K. q4: its nibbles; q1: its fifth bits, or NULL. */
static inline void get_k(struct values *q, const uint8_t *q4, const uint8_t *q1, size_t b)
{
    for (size_t j = 0; j < BLOCK_WORDS; j++)
        q->v[j] = word_at(q4 + BLOCK * (b / 2) + 4 * j) >> b % 2 * 4 & NIBBLES;
    for (size_t j = 0; q1 && j < BLOCK_WORDS; j++)
        q->v[j] |= (word_at(q1 + 4 * j) >> b & 0x01010101) << 4;
}

static inline void get_6_k(struct values *q, const uint8_t *super, size_t b)
{
    const uint8_t *low = super + 64 * (b / 4) + BLOCK * (b % 2);
    const uint8_t *high = super + 128 + BLOCK * (b / 4);
    unsigned shift = b % 4 < 2 ? 0 : 4, high_shift = 2 * (unsigned)(b % 4);
    for (size_t j = 0; j < BLOCK_WORDS; j++)
        q->v[j] = (word_at(low + 4 * j) >> shift & NIBBLES) |
                  (word_at(high + 4 * j) >> high_shift & 0x03030303) << 4;
}

/* Block b of the group that starts at src; `bytes` of the file's blocks. */
ALWAYS_INLINE void get_block(struct values *q, const uint8_t *src, size_t b, size_t bytes,
                             const struct layout *l)
{
    const uint8_t *values = src + bytes * b + 2 + 2 * l->has_min;
    if (l->k && l->has_min)
        get_k(q, src + (l->bits == 5 ? 48 : 16), l->bits == 5 ? src + 16 : NULL, b);
    else if (l->k)
        get_6_k(q, src, b);
    else if (l->bits == 8)
        get_bytes(q, values);
    else if (l->bits == 5)
        unpack_fives(q, values, values + 4);
    else
        unpack_nibbles(q, values);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Writes the 32 values of one row: four bytes of each line. */
ALWAYS_INLINE void pack_block(uint8_t *lines, const struct values *q, const struct layout *l)
{
    const uint32_t *v = q->v;
    uint32_t high[2] = {0};
    for (size_t j = 0; j < BLOCK_WORDS; j += l->bits == 8 ? 1 : 2) {
        uint32_t line = v[j];
        if (l->bits != 8)
            line = (v[j] & NIBBLES) | (v[j + 1] & NIBBLES) << 4;
        memcpy(lines + (l->bits == 8 ? j : j / 2) * LINE, &line, sizeof line);
    }
    for (size_t j = 0; j < BLOCK_WORDS; j++) {
        if (l->bits == 5)
            high[0] |= (v[j] >> 4 & 0x01010101) << j;
        if (l->bits == 6)
            high[j / 4] |= (v[j] >> 4 & 0x03030303) << 2 * (j % 4);
    }
    for (size_t h = 0; l->bits != 8 && 4 + h < l->block_lines; h++)
        memcpy(lines + (4 + h) * LINE, high + h, sizeof *high);
}

/* Scales and minima of 8 sub-blocks; see get_scale_min in dtype_kquant.c. */
static void pack_k_scales(uint8_t *bytes, const uint8_t *p)
{
    for (size_t s = 0; s < 4; s++) {
        bytes[s * PANEL] = p[s] & 63;
        bytes[(s + 8) * PANEL] = p[s + 4] & 63;
        bytes[(s + 4) * PANEL] = (uint8_t)((p[s + 8] & 15) | p[s] >> 6 << 4);
        bytes[(s + 12) * PANEL] = (uint8_t)(p[s + 8] >> 4 | p[s + 4] >> 6 << 4);
    }
}

/* Writes the scales of row r of a group of `blocks` blocks. src: the group in the file, whose blocks
 * have `bytes` bytes. */
ALWAYS_INLINE void pack_head(uint8_t *head, size_t r, const uint8_t *src, size_t blocks,
                             size_t bytes, const struct layout *l)
{
    uint8_t *first = head + 2 * r, *second = first + LINE / 2, *scales = head + LINE + r;
    memcpy(first, l->sub_blocks == 2 ? src + 208 : src, 2);
    if (l->k && l->has_min) {
        second[0] = src[2];
        second[1] = src[3] ^ 128; /* minus dmin */
        pack_k_scales(scales, src + 4);
    } else if (l->k) {
        for (size_t s = 0; s < 16; s++)
            scales[s * PANEL] = src[192 + s];
    } else if (l->has_min) {
        memcpy(second, src + 2, 2);
    } else if (blocks == 2) {
        memcpy(second, src + bytes, 2);
    }
}

/* ---- screens ---- */

struct screen_x kernels_screen_x(const float *x, const void *qx, size_t n_in)
{
    const struct x_block *blocks = qx;
    const double slack = (double)(n_in + 64) * 0x1p-23, up = 1 + 0x1p-20;
    double exact = 0, rounded = 0, left = 0;
    for (size_t i = 0; i < n_in; i++) {
        const struct x_block *b = &blocks[i / BLOCK];
        double v = (double)x[i], z = (double)b->scale * b->q[i % BLOCK];
        exact += v * v;
        rounded += z * z;
        left += (v - z) * (v - z);
    }
    exact = sqrt(exact);
    rounded = sqrt(rounded);
    return (struct screen_x){
        .rest_by = (float)(rounded * (1 + slack) * up),
        .norm_by = (float)((sqrt(left) + 2 * slack * (exact + rounded)) * up),
        .norm = (float)(exact * up),
    };
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* Bytes in the file of `blocks` blocks of 32 columns. */
ALWAYS_INLINE size_t file_bytes(enum weight_type type, size_t blocks)
{
    return layouts[type].k ? blocks / 8 * file_block[type] : blocks * file_block[type];
}

ALWAYS_INLINE void pack_int_panel(uint8_t *panel, const uint8_t *src, size_t n_in, size_t rows,
                                  enum weight_type type)
{
    const struct layout *l = &layouts[type];
    size_t blocks = n_in / BLOCK, row_bytes = file_bytes(type, blocks);
    for (size_t b0 = 0; b0 < blocks; b0 += l->group_blocks) {
        size_t n = blocks - b0 < l->group_blocks ? blocks - b0 : l->group_blocks;
        uint8_t *head = panel + head_at(l, b0);
        if (rows < PANEL || n < l->group_blocks)
            memset(head, 0, LINE * (l->head_lines + n * l->block_lines));
        if (l->sub_blocks == 2)
            memset(head + LINE / 2, 0, LINE / 2);
        for (size_t r = 0; r < rows; r++) {
            const uint8_t *group = src + r * row_bytes + file_bytes(type, b0);
            pack_head(head, r, group, n, file_block[type], l);
            for (size_t b = 0; b < n; b++) {
                struct values q;
                get_block(&q, group, b, file_block[type], l);
                pack_block(head + LINE * (l->head_lines + b * l->block_lines) + 4 * r, &q, l);
            }
        }
    }
}

ALWAYS_INLINE void pack_ints(void *dst, const void *src, size_t n_in, size_t n_out, size_t p0,
                             size_t p1, enum weight_type type)
{
    size_t row_bytes = file_bytes(type, n_in / BLOCK);
    for (size_t p = p0; p < p1; p++) {
        size_t rows = n_out - p * PANEL < PANEL ? n_out - p * PANEL : PANEL;
        pack_int_panel((uint8_t *)dst + p * quant_panel_bytes(&layouts[type], n_in),
                       (const uint8_t *)src + p * PANEL * row_bytes, n_in, rows, type);
    }
}

#define DEFINE_PACK(NAME, ...)                                                                     \
    static void pack_##NAME(void *dst, const void *src, size_t n_in, size_t n_out, size_t p0,      \
                            size_t p1)                                                             \
    {                                                                                              \
        pack_ints(dst, src, n_in, n_out, p0, p1, WEIGHT_##NAME);                                   \
    }
INT_TYPES(DEFINE_PACK)

#define SET_PACK(NAME, ...) k->pack[WEIGHT_##NAME] = pack_##NAME;

void kernels_pack_init(struct kernels *k)
{
    INT_TYPES(SET_PACK)
}
