/* Values of quantised matrices. See hf_quant.h.
 *
 * A block of 32 columns is a block of GGUF where its columns have one group, and its scale (and bias) is
 * a half-precision number. q - z of 4 bits is in -15..15, or -16..14 where z counts from 1: Q5_0 holds
 * all of it, Q4_0 that of symmetric models (z = 8).
 */
#include "convert/families/hf_quant.h"

#include <string.h>

enum { COLUMNS = 32 }; /* of a block */

/* Number i of a run of words, which are `step` words apart. */
static unsigned packed_number(const uint8_t *words, uint64_t step, uint64_t i, unsigned bits)
{
    uint64_t bit = i * bits, at = bit / 32 * step;
    unsigned shift = bit % 32;
    uint32_t v = hf_packed_word(words, at) >> shift;
    if (shift + bits > 32)
        v |= hf_packed_word(words, at + step) << (32 - shift);
    return v & ((1u << bits) - 1);
}

/* Column `row` of words of 8 columns, in AWQ's order. */
static unsigned awq_number(const uint8_t *words, uint64_t row)
{
    static const uint8_t nibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return hf_packed_word(words, row / 8) >> 4 * nibble[row % 8] & 15;
}

static unsigned number_at(const struct hf_packed *m, uint64_t row, uint64_t column)
{
    if (m->scheme == HF_GPTQ)
        return packed_number(m->q + 4 * row, m->n_out, column, m->bits);
    if (m->scheme == HF_AWQ)
        return awq_number(m->q + column * (m->n_out / 2), row);
    return packed_number(m->q + row * (m->n_in * m->bits / 8), 1, column, m->bits);
}

/* GPTQ and AWQ. */
static int zero_at(const struct hf_packed *m, uint64_t row, uint64_t group)
{
    if (m->scheme == HF_AWQ)
        return (int)awq_number(m->zeros + group * (m->n_out / 2), row);
    const uint8_t *words = m->zeros + group * (m->n_out * m->bits / 8);
    return (int)(packed_number(words, 1, row, m->bits) + m->plus);
}

/* A scale, or a bias of MLX, of a group of a row. */
static float real_at(const struct hf_packed *m, const uint8_t *reals, uint64_t row, uint64_t group)
{
    float v;
    uint64_t i = m->scheme == HF_MLX ? row * m->n_groups + group : group * m->n_out + row;
    const struct dtype *type = state_dtype(m->scale_type);
    type->to_float(reals + i * type->block_bytes, &v, 1);
    return v;
}

static uint64_t group_of(const struct hf_packed *m, uint64_t column)
{
    return m->g_idx ? hf_packed_word(m->g_idx, column) : column / m->group;
}

/* The numbers of a row's group. */
struct group_numbers {
    float scale, bias;
    int zero;
};

static struct group_numbers numbers_of(const struct hf_packed *m, uint64_t row, uint64_t group)
{
    struct group_numbers n = {.scale = real_at(m, m->scales, row, group)};
    if (m->scheme == HF_MLX)
        n.bias = real_at(m, m->zeros, row, group);
    else
        n.zero = zero_at(m, row, group);
    return n;
}

static void packed_values(const struct state_packed *base, uint64_t row, uint64_t first, size_t n,
                          float *out)
{
    const struct hf_packed *m = (const struct hf_packed *)base;
    struct group_numbers at = {0};
    uint64_t group = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        uint64_t own = group_of(m, first + i);
        if (own != group)
            at = numbers_of(m, row, group = own);
        unsigned q = number_at(m, row, first + i);
        if (m->scheme == HF_MLX)
            out[i] = at.scale * (float)q + at.bias;
        else
            out[i] = at.scale * (float)((int)q - at.zero);
    }
}

/* ---- blocks of GGUF -------------------------------------------------------------------------- */

static uint8_t *packed_put_half(uint8_t *to, float v)
{
    uint16_t half = f16_from_f32(v);
    to[0] = (uint8_t)half;
    to[1] = (uint8_t)(half >> 8);
    return to + 2;
}

/* The layout of numbers of 4 and 5 bits (dtype_quant.c). */
static void packed_put_numbers(uint8_t *to, const uint8_t q[COLUMNS], int fifth_bits)
{
    for (size_t i = 0; fifth_bits && i < COLUMNS; i++)
        to[i / 8] = (uint8_t)((i % 8 ? to[i / 8] : 0) | (q[i] >> 4 & 1) << i % 8);
    to += fifth_bits ? 4 : 0;
    for (size_t i = 0; i < COLUMNS / 2; i++)
        to[i] = (uint8_t)((q[i] & 15) | q[i + COLUMNS / 2] << 4);
}

static void packed_blocks(const struct state_packed *base, uint64_t row, uint64_t first, size_t n,
                          uint8_t *out)
{
    const struct hf_packed *m = (const struct hf_packed *)base;
    const uint32_t id = base->type->id;
    const int plus = id == DTYPE_Q4_0 ? 8 : id == DTYPE_Q5_0 ? 16 : 0;
    for (size_t i = 0; i < n; i += COLUMNS, out += base->type->block_bytes) {
        uint8_t q[COLUMNS];
        struct group_numbers at = numbers_of(m, row, group_of(m, first + i));
        for (size_t k = 0; k < COLUMNS; k++)
            q[k] = (uint8_t)((int)number_at(m, row, first + i + k) - at.zero + plus);
        uint8_t *to = packed_put_half(out, at.scale);
        if (m->scheme == HF_MLX)
            to = packed_put_half(to, at.bias);
        if (id == DTYPE_Q8_0)
            memcpy(to, q, sizeof q);
        else
            packed_put_numbers(to, q, id == DTYPE_Q5_0 || id == DTYPE_Q5_1);
    }
}

/* ---- the type -------------------------------------------------------------------------------- */

static int fits_f16(float v)
{
    float back = f16_to_f32(f16_from_f32(v));
    return memcmp(&back, &v, sizeof v) == 0;
}

/* Whether the columns of every block have one group. */
static int has_whole_blocks(const struct hf_packed *m)
{
    if (m->n_in % COLUMNS)
        return 0;
    for (uint64_t i = 0; i < m->n_in; i++)
        if (group_of(m, i) != group_of(m, i / COLUMNS * COLUMNS))
            return 0;
    return 1;
}

/* The range of q - z. Returns 0 if a scale or bias is not a half-precision number. */
static int measure_range(const struct hf_packed *m, int *lo, int *hi)
{
    *lo = 0;
    *hi = 0;
    for (uint64_t group = 0; group < m->n_groups; group++)
        for (uint64_t row = 0; row < m->n_out; row++) {
            struct group_numbers at = numbers_of(m, row, group);
            int top = (1 << m->bits) - 1 - at.zero;
            if (!fits_f16(at.scale) || !fits_f16(at.bias))
                return 0;
            *lo = -at.zero < *lo ? -at.zero : *lo;
            *hi = top > *hi ? top : *hi;
        }
    return 1;
}

static uint32_t type_of_packed(const struct hf_packed *m)
{
    int lo, hi;
    if (!has_whole_blocks(m) || !measure_range(m, &lo, &hi))
        return DTYPE_F32;
    if (m->scheme == HF_MLX)
        return m->bits <= 4 ? DTYPE_Q4_1 : m->bits == 5 ? DTYPE_Q5_1 : DTYPE_F32;
    if (lo >= -8 && hi <= 7)
        return DTYPE_Q4_0;
    if (lo >= -16 && hi <= 15)
        return DTYPE_Q5_0;
    return lo >= -128 && hi <= 127 ? DTYPE_Q8_0 : DTYPE_F32;
}

void hf_packed_seal(struct hf_packed *m)
{
    m->base.type = dtype_find(type_of_packed(m));
    m->base.values = packed_values;
    m->base.blocks = m->base.type->block > 1 ? packed_blocks : NULL;
}
