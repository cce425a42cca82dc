/* Matrices of HQQ. See hf_coded.h.
 *
 * The values of the matrix, in order, form a grid. Its rows (axis 1) or columns (axis 0) are groups with
 * a scale and a zero: a weight is (q - zero) * scale. W_q packs k rows of the grid into one row of bytes:
 * byte row i has the codes of grid rows i, i + n / k, i + 2 n / k, ..., the first in the highest bits.
 * Codes of 3 bits are packed ten to a word of 32 bits; the last rows of the last code may be padding.
 */
#include "base/mem.h"
#include "convert/families/hf_coded.h"
#include "convert/families/hf_quant.h"

enum { CODES_OF_WORD = 10, BITS_OF_WORD = 3 };

struct hqq_matrix {
    struct state_packed base; /* the first member: base.values gets its address */
    const uint8_t *codes;
    int is_words, by_column;
    unsigned each; /* codes of a byte or word */
    unsigned bits;
    uint64_t n_in, columns, step; /* of the grid; rows of W_q */
    const float *scales, *zeros;
};

static unsigned hqq_code(const struct hqq_matrix *m, uint64_t row, uint64_t column)
{
    uint64_t at = row % m->step * m->columns + column;
    unsigned shift = m->bits * (m->each - 1 - (unsigned)(row / m->step));
    uint32_t word = m->is_words ? hf_packed_word(m->codes, at) : m->codes[at];
    return word >> shift & ((1u << m->bits) - 1);
}

static void hqq_values(const struct state_packed *base, uint64_t row, uint64_t first, size_t n,
                       float *out)
{
    const struct hqq_matrix *m = (const struct hqq_matrix *)base;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = row * m->n_in + first + i, r = at / m->columns, c = at % m->columns;
        uint64_t group = m->by_column ? c : r;
        out[i] = ((float)hqq_code(m, r, c) - m->zeros[group]) * m->scales[group];
    }
}

/* An element of a tensor of whole numbers, little-endian. */
static uint64_t hqq_number(const struct state_tensor *t, size_t i)
{
    size_t n = state_type_bytes(t->type);
    uint64_t v = 0;
    for (size_t k = 0; k < n; k++)
        v |= (uint64_t)t->bytes.data[i * n + k] << 8 * k;
    return v;
}

/* How many codes there are in a byte, or word, of W_q; 0: the sizes do not fit. */
static unsigned hqq_each(const struct state_tensor *t, uint64_t n)
{
    uint64_t stored = t->shape[0] * t->shape[1];
    if (t->type == STATE_I32)
        return n <= stored * CODES_OF_WORD &&
                       n + CODES_OF_WORD * t->shape[1] > stored * CODES_OF_WORD
                   ? CODES_OF_WORD
                   : 0;
    for (unsigned each = 1; each <= 8; each *= 2)
        if (stored * each == n)
            return each;
    return 0;
}

static void put_hqq(struct state *s, struct state_tensor *t, const char *base)
{
    struct hqq_matrix *m = ckpt_new(s->c, 1, sizeof *m);
    const struct state_tensor *shape = hf_part(s, base, "shape", STATE_I64), *scales, *zeros;
    const struct state_tensor *axis = hf_part(s, base, "axis", STATE_I32);
    if ((t->type != STATE_U8 && t->type != STATE_I32) || !hf_is_matrix(s->c, t))
        ckpt_stop_tensor(s->c, t->name,
                         "element type %s and %u dimensions, expected a matrix of U8",
                         state_type_name(t->type), t->n_dims);
    if (!hf_is_vector(shape, 2) || hf_part_size(axis) != 1)
        ckpt_stop_tensor(s->c, shape->name, "expected two sizes, and one number as axis");
    uint64_t n_out = hqq_number(shape, 0);
    m->n_in = hqq_number(shape, 1);
    uint64_t n = n_out <= HF_MAX_SIDE && m->n_in <= HF_MAX_SIDE ? n_out * m->n_in : 0;
    m->each = n ? hqq_each(t, n) : 0;
    m->scales = hf_part_floats(s, base, "scale", &scales);
    m->zeros = hf_part_floats(s, base, "zero", &zeros);
    m->by_column = hqq_number(axis, 0) == 0;
    m->columns = t->shape[1];
    m->step = t->shape[0];
    uint64_t groups = m->by_column || m->each == 0 ? m->columns : n / m->columns;
    if (m->each == 0 || n % m->columns || hf_part_size(scales) != groups ||
        hf_part_size(zeros) != groups)
        ckpt_stop_tensor(s->c, t->name, "its codes, scales and zeros do not fit [%llu, %llu]",
                         (unsigned long long)n_out, (unsigned long long)m->n_in);
    m->is_words = t->type == STATE_I32;
    m->bits = m->is_words ? BITS_OF_WORD : 8 / m->each;
    m->codes = t->bytes.data;
    m->base.type = dtype_find(DTYPE_F32);
    m->base.values = hqq_values;
    hf_put_packed(s->c, t, base, n_out, m->n_in, &m->base);
}

size_t hf_unpack_hqq(struct state *s)
{
    static const char *const facts[] = {".nbits",
                                        ".group_size",
                                        ".packing",
                                        ".unpack_view_dtype",
                                        ".view_as_float",
                                        ".quant_scale",
                                        ".quant_zero",
                                        ".compute_dtype",
                                        ".offload_meta",
                                        ".channel_wise",
                                        ".optimize",
                                        ".encoded_state_dict",
                                        ".round_zero",
                                        ".shape",
                                        ".stores_quant_config"};
    char base[HF_MAX_BASE + 1];
    size_t n = 0;
    for (size_t i = 0; i < arr_len(s->tensors); i++)
        if (hf_ends_with(s->tensors[i].name, ".W_q", base)) {
            put_hqq(s, &s->tensors[i], base);
            n++;
        }
    for (size_t i = 0; n > 0 && i < HF_COUNT(facts); i++)
        state_skip_suffix(s, facts[i]);
    return n;
}
