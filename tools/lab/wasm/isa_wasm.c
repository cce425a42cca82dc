/* ISA level "wasm": the vectors of a page (vec_wasm.h). Its matmul has the sums of
 * float_tile_tmpl.h in fewer lines, since the size of a page counts. The command line has -DISA=wasm.
 */
#include "kernels/simd/lanes.h"
#include "kernels/spec/float_tmpl.h"

enum {
    VECTORS = PANEL / LANES,
    CHAINS_FIT = 8,
    TOKENS = CHAINS_FIT / VECTORS, /* of a tile of one panel */
    HALF = VECTORS / 2             /* vectors of a tile with four chains for each row */
};

#pragma clang diagnostic ignored "-Wunused-function" /* a page's cache is F32 */
#include "kernels/tiles/attend_tile_tmpl.h"

/* A panel times `tokens` (constant) tokens, one chain for each sum. */
static inline void wide_panel(float y[TOKENS][PANEL], const float *w, const float *const x[TOKENS],
                              size_t n_in, size_t tokens)
{
    vec c[TOKENS][VECTORS] = {{{0}}};
    for (size_t k = 0; k < n_in; k++)
        for (size_t v = 0; v < VECTORS; v++) {
            vec weights = vec_load(w + k * PANEL + v * LANES);
            for (size_t i = 0; i < tokens; i++)
                c[i][v] = vec_fma(weights, vec_of(x[i][k]), c[i][v]);
        }
    memcpy(y, c, sizeof c);
}

/* Column k of a half panel, for one chain. */
static inline void narrow_column(vec c[HALF], const float *w, const float *x, size_t k, size_t from)
{
    for (size_t v = 0; v < HALF; v++)
        c[v] = vec_fma(vec_load(w + k * PANEL + (from + v) * LANES), vec_of(x[k]), c[v]);
}

/* A panel times one token, four chains for each sum. */
static inline void narrow_panel(float y[PANEL], const float *w, const float *x, size_t n_in)
{
    for (size_t from = 0; from < VECTORS; from += HALF) {
        vec c[4][HALF] = {{{0}}};
        size_t k = 0;
        for (; k + 4 <= n_in; k += 4)
            for (size_t i = 0; i < 4; i++)
                narrow_column(c[i], w, x, k + i, from);
        for (size_t i = 0; i < 3; i++)
            if (k + i < n_in)
                narrow_column(c[i], w, x, k + i, from);
        for (size_t v = 0; v < HALF; v++)
            vec_store(y + (from + v) * LANES, (c[0][v] + c[1][v]) + (c[2][v] + c[3][v]));
    }
}

static void wasm_matmul(const struct matmul *m)
{
    float y[TOKENS][PANEL];
    const float *x[TOKENS];
    for (size_t p = m->p0; p < m->p1; p++) {
        const float *w = (const float *)m->w + p * m->n_in * PANEL;
        size_t rows = rows_of_panels(m->n_out, p, 1), tokens;
        for (size_t first = 0; first < m->n; first += tokens) {
            tokens = m->n - first < TOKENS || m->n_out <= NARROW ? 1 : TOKENS;
            for (size_t i = 0; i < tokens; i++)
                x[i] = matmul_x(m, first + i);
            if (m->n_out <= NARROW)
                narrow_panel(y[0], w, x[0], m->n_in);
            else if (tokens == 1)
                wide_panel(y, w, x, m->n_in, 1);
            else
                wide_panel(y, w, x, m->n_in, TOKENS);
            for (size_t i = 0; i < tokens; i++)
                memcpy(m->y + (first + i) * m->ldy + p * PANEL, y[i], rows * sizeof(float));
        }
    }
}

void kernels_init_wasm(struct kernels *k)
{
    spec_init(k);
    k->matmul[WEIGHT_F32] = wasm_matmul; /* pack.c packs no other float type */
    k->scores[KV_F32] = tile_scores_f32;
    k->mix[KV_F32] = tile_mix_f32;
    k->softmax = tile_softmax;
}
