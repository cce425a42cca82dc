/* Packing of integer types: from the blocks of the file (dtype_quant.c, dtype_kquant.c) to the
 * panels of int_layout.h; and the sizes of packed weights and activations.
 *
 * Every value becomes an unsigned byte, then the bytes of a block become lines. Sixteen bytes are
 * handled at a time, with shifts and masks that do not cross bytes, so the byte order does not
 * matter. There is no float arithmetic, so packing cannot fail on any bytes of a file.
 */
#include "kernels/pack/float_compressed.h"
#include "kernels/pack/int_layout.h"
#include "kernels/pack/transpose.h"

#include <math.h>
#include <string.h>

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

/* The unsigned values of a block, 16 bytes each. */
struct values {
    words_4 v[2];
};

static inline words_4 load_words(const uint8_t *p)
{
    words_4 words;
    memcpy(&words, p, sizeof words);
    return words;
}

static inline void get_bytes(struct values *q, const uint8_t *src)
{
    for (size_t i = 0; i < 2; i++)
        q->v[i] = load_words(src + 16 * i) ^ 0x80808080;
}

static inline void unpack_nibbles(struct values *q, const uint8_t *src)
{
    q->v[0] = load_words(src) & NIBBLES;
    q->v[1] = load_words(src) >> 4 & NIBBLES;
}

/* The fifth bits of four values, from the low half of a byte. */
static inline uint32_t spread_bits(unsigned bits)
{
    static const uint8_t spread[16][4] = {
        {0, 0, 0, 0},   {16, 0, 0, 0},   {0, 16, 0, 0},   {16, 16, 0, 0},
        {0, 0, 16, 0},  {16, 0, 16, 0},  {0, 16, 16, 0},  {16, 16, 16, 0},
        {0, 0, 0, 16},  {16, 0, 0, 16},  {0, 16, 0, 16},  {16, 16, 0, 16},
        {0, 0, 16, 16}, {16, 0, 16, 16}, {0, 16, 16, 16}, {16, 16, 16, 16}};
    uint32_t word;
    memcpy(&word, spread[bits & 15], sizeof word);
    return word;
}

static inline void unpack_fives(struct values *q, const uint8_t *high, const uint8_t *low)
{
    unpack_nibbles(q, low);
    for (size_t i = 0; i < 2; i++)
        q->v[i] |= (words_4){spread_bits(high[2 * i]), spread_bits(high[2 * i] >> 4),
                             spread_bits(high[2 * i + 1]), spread_bits(high[2 * i + 1] >> 4)};
}

/* Block b (of 8) of a super-block of Q4_K or Q5_K. q4: its nibbles. */
static inline void get_k(struct values *q, const uint8_t *q4, size_t b)
{
    for (size_t i = 0; i < 2; i++)
        q->v[i] = load_words(q4 + BLOCK * (b / 2) + 16 * i) >> b % 2 * 4 & NIBBLES;
}

/* Adds the highest bit of each value, bit b of a byte of q1, as bit `place`. */
static inline void add_high_bit(struct values *q, const uint8_t *q1, size_t b, unsigned place)
{
    for (size_t i = 0; i < 2; i++)
        q->v[i] |= (load_words(q1 + 16 * i) >> b & 0x01010101) << place;
}

static inline void get_6_k(struct values *q, const uint8_t *super, size_t b)
{
    const uint8_t *low = super + 64 * (b / 4) + BLOCK * (b % 2);
    const uint8_t *high = super + 128 + BLOCK * (b / 4);
    unsigned shift = b % 4 < 2 ? 0 : 4, high_shift = 2 * (unsigned)(b % 4);
    for (size_t i = 0; i < 2; i++)
        q->v[i] = (load_words(low + 16 * i) >> shift & NIBBLES) |
                  (load_words(high + 16 * i) >> high_shift & 0x03030303) << 4;
}

/* Block b of a super-block of Q2_K, Q3_K or TQ2_0. q2: two bits of each value. */
static inline void get_twos(struct values *q, const uint8_t *q2, size_t b)
{
    for (size_t i = 0; i < 2; i++)
        q->v[i] = load_words(q2 + BLOCK * (b / 4) + 16 * i) >> b % 4 * 2 & 0x03030303;
}

static inline void get_threes(struct values *q, const uint8_t *super, size_t b)
{
    uint8_t values[BLOCK];
    for (size_t i = 0; i < BLOCK; i++)
        values[i] = (uint8_t)tq1_value(super, BLOCK * b + i);
    memcpy(q, values, sizeof *q);
}

/* Block b of the group that starts at src. */
ALWAYS_INLINE void get_block(struct values *q, const uint8_t *src, size_t b, enum weight_type type)
{
    const struct layout *l = &layouts[type];
    const uint8_t *values = src + (size_t)file_block[type] * b + 2 + 2 * l->has_min;
    switch (type) {
    case WEIGHT_Q4_K:
        get_k(q, src + 16, b);
        break;
    case WEIGHT_Q5_K:
        get_k(q, src + 48, b);
        add_high_bit(q, src + 16, b, 4);
        break;
    case WEIGHT_Q6_K:
        get_6_k(q, src, b);
        break;
    case WEIGHT_Q2_K:
        get_twos(q, src + 16, b);
        break;
    case WEIGHT_Q3_K:
        get_twos(q, src + 32, b);
        add_high_bit(q, src, b, 2);
        break;
    case WEIGHT_TQ2_0:
        get_twos(q, src, b);
        break;
    case WEIGHT_TQ1_0:
        get_threes(q, src, b);
        break;
    case WEIGHT_IQ4_XS:
        unpack_nibbles(q, src + 8 + 16 * b);
        break;
    case WEIGHT_MXFP4:
        unpack_nibbles(q, values - 1);
        break;
    case WEIGHT_Q8_0:
        get_bytes(q, values);
        break;
    case WEIGHT_Q5_0:
    case WEIGHT_Q5_1:
        unpack_fives(q, values, values + 4);
        break;
    default:
        unpack_nibbles(q, values);
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The lowest `bits` of each byte. */
static inline words_4 low_bits(words_4 word, unsigned bits)
{
    return word & ((1u << bits) - 1) * 0x01010101;
}

/* Writes the 32 values of each of four rows: 16 bytes of each line. */
ALWAYS_INLINE void pack_block(uint8_t *lines, const struct values q[4], const struct layout *l)
{
    words_4 v[BLOCK_WORDS], line[BLOCK_WORDS + 1] = {{0}};
    for (size_t r = 0; r < 4; r++) {
        v[r] = q[r].v[0];
        v[4 + r] = q[r].v[1];
    }
    transpose_words(v);
    transpose_words(v + 4);
    for (size_t j = 0; j < BLOCK_WORDS; j++) {
        line[j * l->low / 8] |= low_bits(v[j], l->low) << j * l->low % 8;
        line[l->low + j * l->high / 8] |= low_bits(v[j] >> l->low % 8, l->high) << j * l->high % 8;
    }
    for (size_t i = 0; i < l->block_lines; i++)
        memcpy(lines + i * LINE, line + i, sizeof *line);
}

/* ---- heads ----------------------------------------------------------------------------------- */

/* Scale of sub-block s of a super-block; decoders are in dtype_kquant.c. */
ALWAYS_INLINE int k_scale(const uint8_t *src, size_t s, enum weight_type type)
{
    const uint8_t *six = src + (type == WEIGHT_Q3_K ? 96 : 4);
    switch (type) {
    case WEIGHT_Q4_K:
    case WEIGHT_Q5_K:
        return s < 4 ? six[s] & 63 : (six[s + 4] & 15) | six[s - 4] >> 6 << 4;
    case WEIGHT_Q6_K:
        return src[192 + s];
    case WEIGHT_Q2_K:
        return src[s] & 15;
    case WEIGHT_Q3_K:
        return ((s < 8 ? six[s] & 15 : six[s - 8] >> 4) | (six[8 + s % 4] >> s / 4 * 2 & 3) << 4) -
               32;
    case WEIGHT_IQ4_XS:
        return ((src[4 + s / 2] >> s % 2 * 4 & 15) | (src[2 + s / 4] >> s % 4 * 2 & 3) << 4) - 32;
    default:
        return 1;
    }
}

ALWAYS_INLINE int k_min(const uint8_t *src, size_t s, enum weight_type type)
{
    const uint8_t *six = src + 4;
    if (type == WEIGHT_Q2_K)
        return src[s] >> 4;
    return s < 4 ? six[s + 4] & 63 : six[s + 4] >> 4 | six[s] >> 6 << 4;
}

ALWAYS_INLINE void pack_k_head(uint8_t *first, uint8_t *scales, const uint8_t *src,
                               enum weight_type type)
{
    const struct layout *l = &layouts[type];
    const uint8_t *d = src + l->d_at;
    uint8_t *second = first + LINE / 2;
    memcpy(first, d, 2);
    if (l->has_min) {
        second[0] = d[2];
        second[1] = d[3] ^ 128; /* minus dmin */
    }
    for (size_t s = 0; s < (size_t)8 * l->sub_blocks; s++) {
        scales[k_scale_at(l, 0, s)] = (uint8_t)k_scale(src, s, type);
        if (l->has_min)
            scales[k_min_at(l, 0, s)] = (uint8_t)k_min(src, s, type);
    }
}

/* d of a block. A block of MXFP4 has a byte e that means 2^(e - 128): it is packed as a bfloat16. */
ALWAYS_INLINE void pack_d(uint8_t *to, const uint8_t *src, enum weight_type type)
{
    unsigned e = src[0], power = e < 2 ? 0x20u << e : (e - 1) << 7;
    to[0] = type == WEIGHT_MXFP4 ? (uint8_t)power : src[0];
    to[1] = type == WEIGHT_MXFP4 ? (uint8_t)(power >> 8) : src[1];
}

/* Writes the scales of row r of a group of `blocks` blocks. src: the group in the file. */
ALWAYS_INLINE void pack_head(uint8_t *head, size_t r, const uint8_t *src, size_t blocks,
                             enum weight_type type)
{
    uint8_t *first = head + 2 * r, *second = first + LINE / 2;
    if (layouts[type].k) {
        pack_k_head(first, head + LINE + r, src, type);
        return;
    }
    pack_d(first, src, type);
    if (layouts[type].has_min)
        memcpy(second, src + 2, 2);
    else if (blocks == 2)
        pack_d(second, src + file_block[type], type);
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
        const uint8_t *group = src + file_bytes(type, b0);
        if (rows < PANEL || n < l->group_blocks)
            memset(head, 0, (size_t)LINE * l->head_lines);
        if (l->k && !l->has_min)
            memset(head + LINE / 2, 0, LINE / 2);
        for (size_t r = 0; r < rows; r++)
            pack_head(head, r, group + r * row_bytes, n, type);
        for (size_t r = 0; r < PANEL; r += 4)
            for (size_t b = 0; b < n; b++) {
                struct values q[4];
                for (size_t i = 0; i < 4; i++)
                    if (r + i < rows)
                        get_block(&q[i], group + (r + i) * row_bytes, b, type);
                    else
                        memset(&q[i], 0, sizeof q[i]);
                pack_block(head + LINE * (l->head_lines + b * l->block_lines) + 4 * r, q, l);
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

/* The dtypes' decoders give the same bits: dtype_quant.c, dtype_kquant.c. */
void kernels_unpack_int_row(const struct layout *l, const uint8_t *panel, size_t n_in, size_t r,
                            float *to)
{
    const size_t columns = BLOCK / l->sub_blocks;
    for (size_t k = 0; k < n_in; k += columns) {
        size_t b = k / BLOCK, first = k % BLOCK;
        const uint8_t *head = panel + head_at(l, b), *lines = panel + lines_at(l, b);
        float scale = int_scale(head, r, b % l->group_blocks, first / columns, l);
        float min = int_min(head, r, b % l->group_blocks, first / columns, l);
        for (size_t i = 0; i < columns; i++) {
            float w = (float)int_weight(lines, (first + i) / 4, 4 * r + i % 4, l) * scale;
            to[k + i] = l->has_min ? w + min : w;
        }
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
