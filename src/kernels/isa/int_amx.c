/* ISA level "amx", integer types: AMX tiles (Intel servers since Sapphire Rapids, 2023) for many
 * tokens. Few tokens use avx512vnni.
 *
 * tdpbssd multiplies [16 tokens][columns of a sub-block] by [columns][16 rows]; the int32 sums are
 * exact. The sums go through L1 to vectors, where scales are applied in the order that kernels.h
 * states, so the bits are those of every ISA level. A lane is a row; the unfinished results of 16
 * tokens are 16 registers.
 *
 * The scaling bounds the speed, not the products: a sub-block of 32 takes 16 cycles to multiply, 16
 * to store and 12 to load, and next to tile instructions the 48 float operations on the sums have
 * one 512-bit unit, not two. Sums in bf16, exact too and without conversion, were not faster.
 *
 * Per SOME_BLOCKS blocks of columns, activations are copied to tiles once per call, and the weights
 * of one panel are unpacked to signed bytes in L1 and used by all tiles of a group of tokens. Both
 * are in the caller's scratch, 263 KiB.
 *
 * Tiles are written in assembly: the intrinsics of gcc 12 do not declare the memory they touch.
 */
#define ISA avx512
#define SIGNED_8 0
#include "kernels/isa/quantize_avx512.h"
#include "kernels/tiles/int_weights_tmpl.h"

enum {
    TILE = 16,        /* tokens of a tile */
    GROUP_TILES = 12, /* tiles that share unpacked weights */
    SOME_BLOCKS = 32  /* blocks of columns at a time */
};

/* One block of columns of a tile of tokens. */
struct x_tile {
    _Alignas(LINE) int8_t q[TILE][BLOCK];
    float scale[TILE], sum[2][TILE];
};

/* The scratch of a call. */
struct amx_scratch {
    struct w_block w[SOME_BLOCKS];
    _Alignas(LINE) float edge[TILE][PANEL]; /* results of a partial tile */
    struct x_tile x[][SOME_BLOCKS];         /* [tiles of a group] */
};
_Static_assert(GROUP_TILES *TILE <= WORK_TOKENS && sizeof(struct amx_scratch) <= WORK_WEIGHTS &&
                   sizeof(struct x_tile) * SOME_BLOCKS <= TILE * WORK_ROW,
               "kernels_work_bytes");

/* ---- tiles ----------------------------------------------------------------------------------- */

struct tile_config {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Tile registers: 0 and 3 are sums, 1 and 4 activations, 2 and 5 weights. */
static void tiles_begin(const struct layout *l)
{
    uint8_t words = (uint8_t)(BLOCK_WORDS / l->sub_blocks);
    struct tile_config c = {.palette = 1};
    for (size_t i = 0; i < 6; i++) {
        c.rows[i] = i % 3 == 2 ? words : TILE;
        c.row_bytes[i] = (uint16_t)(i % 3 == 1 ? 4 * words : LINE);
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(c));
}

/* Tiles in use are saved at every context switch and occupy a float unit. */
static void tiles_end(void)
{
    __asm__ volatile("tilerelease" ::);
}

#define T_MULTIPLY(SUMS, X, W, x, w)                                                               \
    __asm__ volatile("tilezero %%tmm" #SUMS "\n\t"                                                 \
                     "tileloadd (%0,%2,1), %%tmm" #X "\n\t"                                        \
                     "tileloadd (%1,%3,1), %%tmm" #W "\n\t"                                        \
                     "tdpbssd %%tmm" #W ", %%tmm" #X ", %%tmm" #SUMS ::"r"(x),                     \
                     "r"(w), "r"((size_t)BLOCK), "r"((size_t)LINE)                                 \
                     : "memory")

#define T_STORE(SUMS, to)                                                                          \
    __asm__ volatile("tilestored %%tmm" #SUMS ", (%0,%1,1)"                                        \
                     :                                                                             \
                     : "r"(to), "r"((size_t)LINE)                                                  \
                     : "memory")

/* Multiplies sub-block i, counted from the start of x and w. `odd` selects the tile registers. */
VEC_INLINE void amx_multiply(const struct x_tile *x, const struct w_block *w, size_t i, size_t odd,
                             const struct layout *l)
{
    size_t b = i / l->sub_blocks, s = i % l->sub_blocks;
    const int8_t *q = x[b].q[0] + s * BLOCK / 2;
    const uint8_t *lines = w[b].q[s * BLOCK_WORDS / 2];
    if (odd)
        T_MULTIPLY(3, 4, 5, q, lines);
    else
        T_MULTIPLY(0, 1, 2, q, lines);
}

/* y += the sums of sub-block i, scaled. */
VEC_INLINE void add_scaled(vec y[TILE], int32_t sums[TILE][PANEL], const struct x_tile *x,
                           const struct w_block *w, size_t i, const struct layout *l)
{
    size_t b = i / l->sub_blocks, s = i % l->sub_blocks;
    vec scale = vec_load(w[b].scale[s]), min = l->has_min ? vec_load(w[b].min[s]) : vec_of(0);
    UNROLLED(t, TILE) {
        vec by = vec_mul(scale, vec_of(x[b].scale[t]));
        y[t] = vec_fma(by, vec_of_ivec(ivec_load(sums[t])), y[t]);
        if (l->has_min)
            y[t] = vec_fma(min, vec_of(x[b].sum[s][t]), y[t]);
    }
}

/* y += the contribution of `blocks` blocks to a tile of results; `first`: y = it. Pipelined: while
 * sub-block i is scaled, the sums of i + 1 are stored and those of i + 2 are multiplied. */
VEC_INLINE void amx_tile(float *y, size_t ldy, const struct x_tile *x, const struct w_block *w,
                         size_t blocks, int first, const struct layout *l)
{
    _Alignas(LINE) int32_t sums[2][TILE][PANEL];
    vec c[TILE];
    size_t n = blocks * l->sub_blocks;
    UNROLLED(t, TILE)
        c[t] = first ? vec_of(0) : vec_load(y + t * ldy);
    amx_multiply(x, w, 0, 0, l);
    T_STORE(0, sums[0]);
    if (n > 1)
        amx_multiply(x, w, 1, 1, l);
    for (size_t i = 0; i < n; i += 2) {
        if (i + 1 < n)
            T_STORE(3, sums[1]);
        if (i + 2 < n)
            amx_multiply(x, w, i + 2, 0, l);
        add_scaled(c, sums[0], x, w, i, l);
        if (i + 2 < n)
            T_STORE(0, sums[0]);
        if (i + 3 < n)
            amx_multiply(x, w, i + 3, 1, l);
        if (i + 1 < n)
            add_scaled(c, sums[1], x, w, i + 1, l);
    }
    UNROLLED(t, TILE)
        vec_store(y + t * ldy, c[t]);
}

typedef void tile_fn(float *y, size_t ldy, const struct x_tile *x, const struct w_block *w,
                     size_t blocks, int first);

/* Compilers merge the functions of types whose code is the same. */
#define DEFINE_TILE(NAME, ...)                                                                     \
    static void tile_##NAME(float *y, size_t ldy, const struct x_tile *x, const struct w_block *w, \
                            size_t blocks, int first)                                              \
    {                                                                                              \
        amx_tile(y, ldy, x, w, blocks, first, &layouts[WEIGHT_##NAME]);                            \
    }

INT_TYPES(DEFINE_TILE)

/* ---- operands of tiles -------------------------------------------------------------------- */

/* Tokens [t, t + n) of a product times panel p, over some blocks of columns. Meanwhile the lines to
 * unpack next are prefetched: next_bytes at next, which may be NULL. */
struct amx_group {
    const struct matmul *m;
    tile_fn *tile;
    size_t t, n, p, blocks;
    int first;
    const uint8_t *next;
    size_t next_bytes;
};

/* Copies blocks [b, b + blocks) of the group's tokens. Missing tokens of a tile become zeros. */
static void copy_x(struct x_tile (*to)[SOME_BLOCKS], const struct amx_group *g, size_t b,
                   size_t blocks, const struct layout *l)
{
    static const struct x_block none;
    for (size_t i = 0; i < (g->n + TILE - 1) / TILE * TILE; i++) {
        const struct x_block *from = NULL;
        if (i < g->n)
            from = (const struct x_block *)matmul_x(g->m, g->t + i) + b;
        for (size_t j = 0; j < blocks; j++) {
            const struct x_block *x = from ? from + j : &none;
            struct x_tile *tile = &to[i / TILE][j];
            memcpy(tile->q[i % TILE], x->q, BLOCK);
            tile->scale[i % TILE] = x->scale;
            for (size_t s = 0; s < l->sub_blocks; s++)
                tile->sum[s][i % TILE] = x_sum(x, s, l);
        }
    }
}

/* ---- one call -------------------------------------------------------------------------------- */

static size_t amx_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Prefetches tile i's share of the next lines. */
static void prefetch(const struct amx_group *g, size_t i)
{
    size_t n_tiles = (g->n + TILE - 1) / TILE, each = (g->next_bytes / LINE / n_tiles + 1) * LINE;
    size_t end = amx_min((i + 1) * each, g->next_bytes);
    for (size_t at = i * each; g->next && at < end; at += LINE)
        _mm_prefetch((const char *)g->next + at, _MM_HINT_T1);
}

/* Computes tile i of the tokens. Partial tiles go through a buffer. */
static void amx_tile_run(const struct amx_group *g, size_t i)
{
    const struct matmul *m = g->m;
    struct amx_scratch *k = m->work;
    size_t tokens = amx_min(g->n - i * TILE, TILE), rows = rows_of_panels(m->n_out, g->p, 1);
    float *y = m->y + (g->t + i * TILE) * m->ldy + g->p * PANEL;
    if (tokens == TILE && rows == PANEL) {
        g->tile(y, m->ldy, k->x[i], k->w, g->blocks, g->first);
        return;
    }
    for (size_t t = 0; !g->first && t < tokens; t++)
        memcpy(k->edge[t], y + t * m->ldy, rows * sizeof *y);
    g->tile(k->edge[0], PANEL, k->x[i], k->w, g->blocks, g->first);
    for (size_t t = 0; t < tokens; t++)
        memcpy(y + t * m->ldy, k->edge[t], rows * sizeof *y);
}

VEC_INLINE void amx_group_run(struct amx_group g, const struct layout *l)
{
    const struct matmul *m = g.m;
    struct amx_scratch *k = m->work;
    size_t all = m->n_in / BLOCK, panel_bytes = quant_panel_bytes(l, m->n_in);
    for (size_t b = 0; b < all; b += SOME_BLOCKS) {
        g.blocks = amx_min(all - b, SOME_BLOCKS);
        g.first = b == 0;
        g.next_bytes = lines_at(l, b + g.blocks - 1) + l->block_lines * LINE - head_at(l, b);
        copy_x(k->x, &g, b, g.blocks, l);
        for (g.p = m->p0; g.p < m->p1; g.p++) {
            const uint8_t *panel = (const uint8_t *)m->w + g.p * panel_bytes;
            for (size_t i = 0; i < g.blocks; i++) {
                unpack_bytes(k->w + i, panel + lines_at(l, b + i), l->offset, l);
                unpack_scales(k->w + i, panel + head_at(l, b + i), (b + i) % l->group_blocks, l);
            }
            g.next = g.p + 1 < m->p1 ? panel + panel_bytes + head_at(l, b) : NULL;
            for (size_t i = 0; i * TILE < g.n; i++) {
                prefetch(&g, i);
                amx_tile_run(&g, i);
            }
        }
    }
}

VEC_INLINE void matmul_tiles(const struct matmul *m, tile_fn *tile, const struct layout *l)
{
    struct amx_scratch *k = m->work;
    memset(k->edge, 0, sizeof k->edge);
    tiles_begin(l);
    for (size_t t = 0; t < m->n; t += GROUP_TILES * TILE) {
        size_t n = amx_min(m->n - t, GROUP_TILES * TILE);
        amx_group_run((struct amx_group){.m = m, .tile = tile, .t = t, .n = n}, l);
    }
    tiles_end();
}

/* Whether n tokens are faster in tiles (measured). Padding tokens of the last tile cost as much as
 * others; unpacking a panel costs almost as much as a tile. */
static int are_worth_tiles(size_t n)
{
    return 4 * n >= 3 * ((n + TILE - 1) / TILE * TILE) + 20;
}

#define DEFINE_MATMUL(NAME, ...)                                                                   \
    static NOINLINE void tiles_##NAME(const struct matmul *m)                                      \
    {                                                                                              \
        matmul_tiles(m, tile_##NAME, &layouts[WEIGHT_##NAME]);                                     \
    }                                                                                              \
    static void matmul_##NAME(const struct matmul *m)                                              \
    {                                                                                              \
        if (are_worth_tiles(m->n))                                                                 \
            tiles_##NAME(m);                                                                       \
        else                                                                                       \
            int_matmul_avx512vnni[WEIGHT_##NAME](m);                                               \
    }
INT_TYPES(DEFINE_MATMUL)

void kernels_quant_init_amx(struct kernels *k)
{
    INT_TYPES(SET_MATMUL)
    k->quantize = quantize_blocks;
}
