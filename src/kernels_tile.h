/* Floor 1. linear by hand, for rungs whose vectors the including file describes.
 *
 * The same sums in the same order as kernels_tmpl.h (four chains per row, folded as (c0 + c1) +
 * (c2 + c3)); what differs is what stays in registers: a tile of TILE_VECTORS vectors of rows by
 * TILE_TOKENS tokens by four chains. A weight that has been loaded meets all tokens of the tile, an
 * activation all rows. For prompts the columns are cut into blocks, so that a block of weights stays in
 * L1 while all tokens of a group pass over it; their unfinished chains wait in `chains`.
 *
 * The including file defines the type VEC of LANES floats and V_ZERO, V_BROADCAST, V_FMA(w, x, sum),
 * V_ADD, V_LOAD (of floats), V_STORE, V_LOAD_f32 / _f16 / _bf16 (of weights), and V_KEEP, which keeps a
 * compiler from loading a weight again for every token of the tile.
 */
#include "kernels.h"

#include <string.h>

enum {
    GROUP_TOKENS = 48, /* tokens whose chains wait at a time */
    BLOCK_COLUMNS = 64 /* of a block; a multiple of 4 */
};

/* Unfinished chains of a tile's tokens. */
struct tile {
    float c[4][TILE_VECTORS][LANES];
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Adds `columns` columns (the first is number 0 modulo 4) to the chains of n tokens, n a constant. The
 * weights of vector v begin at w[v]; consecutive columns are PANEL elements apart. */
#define DEFINE_TILE(TYPE, ELEMENT)                                                                 \
    ALWAYS_INLINE void tile_run_##TYPE(struct tile *t, const ELEMENT *const w[TILE_VECTORS],       \
                                       const float *x, size_t ldx, size_t columns, size_t n,       \
                                       int first)                                                  \
    {                                                                                              \
        VEC c[4][TILE_TOKENS][TILE_VECTORS];                                                       \
        for (size_t j = 0; j < 4; j++)                                                             \
            for (size_t i = 0; i < n; i++)                                                         \
                for (size_t v = 0; v < TILE_VECTORS; v++)                                          \
                    c[j][i][v] = first ? V_ZERO() : V_LOAD(t[i].c[j][v]);                          \
        size_t k = 0;                                                                              \
        for (; k + 4 <= columns; k += 4)                                                           \
            for (size_t j = 0; j < 4; j++) {                                                       \
                VEC a[TILE_VECTORS];                                                               \
                for (size_t v = 0; v < TILE_VECTORS; v++) {                                        \
                    a[v] = V_LOAD_##TYPE(w[v] + (k + j) * PANEL);                                  \
                    V_KEEP(a[v]);                                                                  \
                }                                                                                  \
                for (size_t i = 0; i < n; i++)                                                     \
                    for (size_t v = 0; v < TILE_VECTORS; v++)                                      \
                        c[j][i][v] = V_FMA(a[v], V_BROADCAST(x[i * ldx + k + j]), c[j][i][v]);     \
            }                                                                                      \
        for (size_t j = 0; j < 3; j++) /* chain j takes the j-th of the columns left over */       \
            for (size_t i = 0; i < n && k + j < columns; i++)                                      \
                for (size_t v = 0; v < TILE_VECTORS; v++)                                          \
                    c[j][i][v] = V_FMA(V_LOAD_##TYPE(w[v] + (k + j) * PANEL),                      \
                                       V_BROADCAST(x[i * ldx + k + j]), c[j][i][v]);               \
        for (size_t j = 0; j < 4; j++)                                                             \
            for (size_t i = 0; i < n; i++)                                                         \
                for (size_t v = 0; v < TILE_VECTORS; v++)                                          \
                    V_STORE(t[i].c[j][v], c[j][i][v]);                                             \
    }                                                                                              \
                                                                                                   \
    static void tile_some_##TYPE(struct tile *t, const ELEMENT *const w[TILE_VECTORS],             \
                                 const float *x, size_t ldx, size_t columns, size_t n, int first)  \
    {                                                                                              \
        if (n == 1)                                                                                \
            tile_run_##TYPE(t, w, x, ldx, columns, 1, first);                                      \
        else if (n == 2)                                                                           \
            tile_run_##TYPE(t, w, x, ldx, columns, 2, first);                                      \
        else                                                                                       \
            tile_run_##TYPE(t, w, x, ldx, columns, 3, first);                                      \
    }                                                                                              \
                                                                                                   \
    /* All columns of TILE_VECTORS vectors of rows for one group of tokens. */                     \
    static void tile_group_##TYPE(struct tile *t, const ELEMENT *const w[TILE_VECTORS],            \
                                  const float *x, size_t ldx, size_t n_in, size_t n)               \
    {                                                                                              \
        size_t block = n > TILE_TOKENS ? BLOCK_COLUMNS : n_in;                                     \
        for (size_t k = 0; k < n_in; k += block) {                                                 \
            const ELEMENT *at[TILE_VECTORS];                                                       \
            for (size_t v = 0; v < TILE_VECTORS; v++)                                              \
                at[v] = w[v] + k * PANEL;                                                          \
            size_t columns = n_in - k < block ? n_in - k : block;                                  \
            for (size_t i = 0; i < n; i += TILE_TOKENS)                                            \
                tile_some_##TYPE(t + i, at, x + i * ldx + k, ldx, columns,                         \
                                 n - i < TILE_TOKENS ? n - i : TILE_TOKENS, k == 0);               \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void tile_linear_##TYPE(float *y, size_t ldy, const void *weights, const float *x,      \
                                   size_t ldx, size_t n, size_t n_in, size_t n_out, size_t p0,     \
                                   size_t p1)                                                      \
    {                                                                                              \
        struct tile t[GROUP_TOKENS];                                                               \
        size_t rows = p1 * PANEL < n_out ? p1 * PANEL : n_out;                                     \
        for (size_t r = p0 * PANEL; r < rows; r += TILE_VECTORS * LANES) {                         \
            const ELEMENT *w[TILE_VECTORS];                                                        \
            for (size_t v = 0; v < TILE_VECTORS; v++) {                                            \
                size_t row =                                                                       \
                    r + v * LANES < rows ? r + v * LANES : r; /* none left: any will do */         \
                w[v] = (const ELEMENT *)weights + row / PANEL * PANEL * n_in + row % PANEL;        \
            }                                                                                      \
            for (size_t i = 0; i < n; i += GROUP_TOKENS) {                                         \
                size_t group = n - i < GROUP_TOKENS ? n - i : GROUP_TOKENS;                        \
                tile_group_##TYPE(t, w, x + i * ldx, ldx, n_in, group);                            \
                for (size_t j = 0; j < group; j++)                                                 \
                    tile_fold(y + (i + j) * ldy + r, &t[j], rows - r);                             \
            }                                                                                      \
        }                                                                                          \
    }

/* y[row] = (c0 + c1) + (c2 + c3) for the first `rows` rows of the tile. */
static inline void tile_fold(float *y, const struct tile *t, size_t rows)
{
    float out[TILE_VECTORS * LANES];
    for (size_t v = 0; v < TILE_VECTORS; v++)
        V_STORE(out + v * LANES, V_ADD(V_ADD(V_LOAD(t->c[0][v]), V_LOAD(t->c[1][v])),
                                       V_ADD(V_LOAD(t->c[2][v]), V_LOAD(t->c[3][v]))));
    size_t n = rows < TILE_VECTORS * LANES ? rows : TILE_VECTORS * LANES;
    memcpy(y, out, n * sizeof *y);
}

DEFINE_TILE(f32, float)
DEFINE_TILE(f16, uint16_t)
DEFINE_TILE(bf16, uint16_t)

/* A single token has no use for a tile: the template's loop over one panel costs less to enter, which is
 * what counts for narrow layers, and wide ones wait for memory either way. */
static void rung_linear_f32(float *y, size_t ldy, const void *w, const float *x, size_t ldx,
                            size_t n, size_t n_in, size_t n_out, size_t p0, size_t p1)
{
    linear_fn *fn = n > 1 ? tile_linear_f32 : linear_f32;
    fn(y, ldy, w, x, ldx, n, n_in, n_out, p0, p1);
}
