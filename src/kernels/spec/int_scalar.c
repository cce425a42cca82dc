/* The specification of integer types: matmul and quantize in plain C for any machine. Other ISA
 * levels give the same bits, except for the payload of a NaN. Loops over lanes have constant counts
 * and no dependence between lanes, so compilers vectorise them.
 */
#include "kernels/spec/quantize_tmpl.h"

#include <math.h>
#include <string.h>

enum { GROUP_TOKENS = 16 }; /* tokens that share one unpacked block */

/* ---- weights --------------------------------------------------------------------------------- */

/* One unpacked block of a panel: [column][row], with scales and minima per row. */
struct int_block {
    int16_t w[BLOCK][PANEL];
    float scale[2][PANEL], min[2][PANEL]; /* of the first and second half of the columns */
};

ALWAYS_INLINE void get_weights(struct int_block *b, const uint8_t *lines, const struct layout *l)
{
    for (size_t j = 0; j < BLOCK_WORDS; j++)
        for (size_t i = 0; i < LINE; i++)
            b->w[4 * j + i % 4][i / 4] = (int16_t)int_weight(lines, j, i, l);
}

ALWAYS_INLINE void get_scales(struct int_block *to, const uint8_t *head, size_t b,
                              const struct layout *l)
{
    for (size_t r = 0; r < PANEL; r++)
        for (size_t s = 0; s < l->sub_blocks; s++) {
            to->scale[s][r] = int_scale(head, r, b, s, l);
            to->min[s][r] = int_min(head, r, b, s, l);
        }
}

/* ---- matmul ---------------------------------------------------------------------------------- */

/* y += the contribution of one block to 16 rows of one token. */
ALWAYS_INLINE void add_block(float y[PANEL], const struct int_block *b, const struct x_block *x,
                             const struct layout *l)
{
    const size_t columns = BLOCK / l->sub_blocks;
    for (size_t s = 0; s < l->sub_blocks; s++) {
        int32_t sum[PANEL] = {0};
        for (size_t k = s * columns; k < (s + 1) * columns; k++)
            for (size_t r = 0; r < PANEL; r++)
                sum[r] += (int32_t)b->w[k][r] * x->q[k];
        for (size_t r = 0; r < PANEL; r++)
            y[r] = fmaf(b->scale[s][r] * x->scale, (float)sum[r], y[r]);
        for (size_t r = 0; l->has_min && r < PANEL; r++)
            y[r] = fmaf(b->min[s][r], x_sum(x, s, l), y[r]);
    }
}

/* A panel times n <= GROUP_TOKENS tokens from i on. */
ALWAYS_INLINE void matmul_group(float y[GROUP_TOKENS][PANEL], const struct matmul m,
                                const uint8_t *panel, size_t i, size_t n, const struct layout *l)
{
    memset(y, 0, n * sizeof *y);
    for (size_t b = 0; b < m.n_in / BLOCK; b++) {
        struct int_block block;
        get_weights(&block, panel + lines_at(l, b), l);
        get_scales(&block, panel + head_at(l, b), b % l->group_blocks, l);
        for (size_t j = 0; j < n; j++)
            add_block(y[j], &block, (const struct x_block *)matmul_x(&m, i + j) + b, l);
    }
}

ALWAYS_INLINE void int_matmul(const struct matmul m, const struct layout *l)
{
    for (size_t p = m.p0; p < m.p1; p++) {
        const uint8_t *panel = (const uint8_t *)m.w + p * quant_panel_bytes(l, m.n_in);
        size_t rows = rows_of_panels(m.n_out, p, 1);
        for (size_t i = 0; i < m.n; i += GROUP_TOKENS) {
            float out[GROUP_TOKENS][PANEL];
            size_t group = m.n - i < GROUP_TOKENS ? m.n - i : GROUP_TOKENS;
            matmul_group(out, m, panel, i, group, l);
            for (size_t j = 0; j < group; j++)
                memcpy(m.y + (i + j) * m.ldy + p * PANEL, out[j], rows * sizeof *m.y);
        }
    }
}

#define DEFINE_MATMUL(NAME, ...)                                                                   \
    static void matmul_##NAME(const struct matmul *m)                                              \
    {                                                                                              \
        int_matmul(*m, &layouts[WEIGHT_##NAME]);                                                   \
    }

INT_TYPES(DEFINE_MATMUL)

void kernels_quant_init_scalar(struct kernels *k)
{
    INT_TYPES(SET_MATMUL)
    k->quantize = quantize_blocks;
    kernels_pack_init(k);
}
