/* Screens: an int8 copy of a matrix of floats, packed as Q8_0, with bounds on how far its products
 * are from those of the matrix (kernels.h). Included by float_tmpl.h.
 *
 * The bound. Let w be a row, v its copy, x the input and z its int8 blocks. Then
 *
 *     |w x - v z| <= |w - v| |z| + |w| |x - z|      in exact arithmetic (Cauchy-Schwarz)
 *
 * Each computed sum differs from its exact value by at most n u |w| |x| (fmaf chain of n terms,
 * u = 2^-24; Higham 2002, 3.1), or (n / 32 + 2) u |v| |z| (integer sums are exact; a scale's
 * product, then a chain), plus n subnormal units. `slack`, (n + 64) 2^-23, is more than twice
 * all these factors with those of the norms, which are computed in float, and of the bound itself.
 * It holds if no partial sum overflows: the caller checks |w| |x|. Weights that are not finite, or
 * too large for a scale, give a `rest` that is infinite or NaN.
 */
#include "kernels/pack/int_layout.h"
#include "kernels/simd/vec.h"

/* The rows of a panel are in vectors of the ISA level's length, but not its intrinsics. */
typedef float row_floats __attribute__((vector_size(4 * LANES)));
typedef uint32_t row_words __attribute__((vector_size(4 * LANES)));
#define SCREEN_CHOOSE(mask, a, b)                                                                  \
    ((row_floats)(((row_words)(mask) & (row_words)(a)) | (~(row_words)(mask) & (row_words)(b))))

/* The squares of w - v and of w, summed. */
struct screen_sums {
    row_floats left, whole;
};

/* Columns [4 j, 4 j + 4) of a block as bytes of Q8_0, in units of d = 1 / by. Adds to the sums. */
static inline void screen_columns(uint8_t *line, const float *w, const row_floats *d,
                                  const row_floats *by, struct screen_sums *sums)
{
    const row_floats most = (row_floats){0} + 127.0f, magic = (row_floats){0} + 0x1.8p23f;
    row_words word = {0};
    for (uint32_t t = 0; t < 4; t++) {
        row_floats weight, v, left;
        memcpy(&weight, w + t * PANEL, sizeof weight);
        v = weight * *by;
        v = SCREEN_CHOOSE(v < most, v, most); /* NaN: 127 */
        v = SCREEN_CHOOSE(v > -most, v, -most) + magic;
        word |= (((row_words)v + 128) & 255) << 8 * t; /* to nearest even, and the offset */
        left = weight - *d * (v - magic);              /* the product is exact */
        sums->left += left * left;
        sums->whole += weight * weight;
    }
    memcpy(line, &word, sizeof word);
}

/* Rows [r, r + LANES) of block b of a panel, w[column][row]. */
static void screen_block(uint8_t *panel, size_t b, size_t r, const float *w,
                         struct screen_sums *sums)
{
    const struct layout *l = &layouts[WEIGHT_Q8_0];
    uint16_t scales[LANES];
    float values[LANES];
    row_floats most = {0}, size, d, by;
    for (size_t k = 0; k < BLOCK; k++) {
        memcpy(&size, w + k * PANEL + r, sizeof size);
        size = (row_floats)((row_words)size & 0x7FFFFFFF);
        most = SCREEN_CHOOSE(size > most, size, most);
    }
    most *= 1.0f / 127;
    memcpy(values, &most, sizeof values);
    to_f16(scales, values, LANES);
    widen_f16(values, scales, LANES);
    memcpy(panel + head_at(l, b) + (b % 2 * PANEL + r) * sizeof *scales, scales, sizeof scales);
    memcpy(&d, values, sizeof d);
    by = SCREEN_CHOOSE(d > (row_floats){0}, 1.0f / d, (row_floats){0});
    for (size_t j = 0; j < BLOCK_WORDS; j++)
        screen_columns(panel + lines_at(l, b) + j * LINE + 4 * r, w + 4 * PANEL * j + r, &d, &by,
                       sums);
}

static void screen_panel(const struct int8_screen *s, enum weight_type type, const struct matmul *m,
                         size_t p)
{
    const struct layout *l = &layouts[WEIGHT_Q8_0];
    uint8_t *panel = s->w + p * quant_panel_bytes(l, m->n_in);
    float w[BLOCK * PANEL];
    struct screen_sums sums[PANEL / LANES] = {{{0}, {0}}};
    float left[PANEL], whole[PANEL];
    size_t blocks = m->n_in / BLOCK;
    memset(panel + head_at(l, blocks - 1), 0, LINE);
    for (size_t b = 0; b < blocks; b++) {
        widen_columns(type, w, m, p, b * BLOCK, BLOCK);
        for (size_t v = 0; v < PANEL / LANES; v++)
            screen_block(panel, b, v * LANES, w, &sums[v]);
    }
    float slack = 1.0f + (float)(m->n_in + 64) * 0x1p-23f;
    for (size_t v = 0; v < PANEL / LANES; v++) {
        memcpy(left + v * LANES, &sums[v].left, sizeof sums->left);
        memcpy(whole + v * LANES, &sums[v].whole, sizeof sums->whole);
    }
    for (size_t r = 0; r < PANEL; r++) { /* 1e-18: squares that underflowed */
        s->rest[p * PANEL + r] = sqrtf(left[r]) * slack + 1e-18f;
        s->norm[p * PANEL + r] = sqrtf(whole[r]) * slack + 1e-18f;
    }
}
