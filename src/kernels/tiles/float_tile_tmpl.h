/* matmul for float types by hand, in the vectors of the including ISA level (simd/vec.h).
 *
 * It adds the same products in the same order as float_tmpl.h: wide matrices here, narrow ones in
 * float_small_tmpl.h. Three variants for wide matrices:
 *   one token    several panels at a time, to hide the latency of a chain;
 *   few tokens   a tile: TILE_PANELS panels by TILE_TOKENS tokens, whose sums stay in registers. A
 *                loaded weight is used for all tokens of the tile, an activation for all rows;
 *   a prompt     the same tile over blocks of columns: the weights of a block stay in cache for all
 *                tokens of a group. Unfinished sums are kept in y, one chain per element.
 *
 * A tile fills three quarters of the registers with sums: of AVX2 one panel (two vectors) by six
 * tokens, 12 of 16; of AVX-512 two panels by twelve tokens, of NEON one panel (four vectors) by six
 * tokens, 24 of 32.
 */
#include "kernels/pack/float_compressed.h"
#include "kernels/simd/vec.h"

#include <string.h>

enum {
    VECTORS = PANEL / LANES,        /* per column of a panel */
    CHAINS_FIT = REGISTERS * 3 / 4, /* vectors of sums in registers, with the operands */
    TILE_PANELS = VECTORS == 1 ? 2 : 1,
    TILE_TOKENS = CHAINS_FIT / (TILE_PANELS * VECTORS),
    TILE_ROWS = TILE_PANELS * PANEL,
    STREAM_PANELS = 6, /* adjacent panels of one token at a time */
    /* Most columns of a block. As floats a panel is 16 KiB, half of a 32 KiB L1 (a tile of AVX2 has
     * one panel); two are 32 KiB of the 48 KiB of Intel since 2019 (a tile of AVX-512 has two). */
    COLUMNS = 256,
    /* Stride of the copied tokens. With a power of two they would share few sets of L1. */
    X_ROW = COLUMNS + PANEL,
    /* Tokens per block: 204 KiB of x, which stay in an L2 of 1 MiB or more. A weight is loaded and
     * converted to float once for all of them. */
    GROUP_TOKENS = 192,
    SET_PANELS = 64, /* panels that share a copy of x; their sums are 768 KiB, in L2 or L3 */
    AHEAD = 1024,    /* prefetch distance in bytes for one token or a single tile */
    FAR = 192 << 10, /* bytes of a matrix from which its model is assumed not to stay in L2 */
    WIDE_FLOATS = TILE_PANELS * COLUMNS * PANEL /* floats of a block of weights */
};

_Static_assert((size_t)GROUP_TOKENS <= WORK_TOKENS && X_ROW * sizeof(float) <= WORK_ROW &&
                   WIDE_FLOATS * sizeof(float) <= WORK_WEIGHTS,
               "kernels_work_bytes");

/* n items in nearly equal parts: `each` items per part, one more in parts i < more. */
struct equal_parts {
    size_t each, more;
};

VEC_INLINE struct equal_parts parts_of(size_t n, size_t n_parts)
{
    return (struct equal_parts){n / n_parts, n % n_parts};
}

VEC_INLINE size_t weight_bytes(enum weight_type type)
{
    return type == WEIGHT_F32 ? 4 : 2;
}

/* Vector v of column k of a panel. */
VEC_INLINE vec weights_at(enum weight_type type, const char *panel, size_t k, size_t v)
{
    const char *at = panel + (k * PANEL + v * LANES) * weight_bytes(type);
    if (type == WEIGHT_F32)
        return vec_load((const float *)(const void *)at);
    if (type == WEIGHT_F16)
        return vec_load_f16((const uint16_t *)(const void *)at);
    return vec_load_bf16((const uint16_t *)(const void *)at);
}

/* Bytes of a column of a panel, and of a panel. */
VEC_INLINE size_t column_bytes(enum weight_type type)
{
    return type == WEIGHT_BF16_COMPRESSED ? GROUP_BYTES / GROUP : PANEL * weight_bytes(type);
}

VEC_INLINE size_t float_panel_bytes(enum weight_type type, size_t n_in)
{
    return type == WEIGHT_BF16_COMPRESSED ? compressed_panel_bytes(n_in)
                                          : n_in * column_bytes(type);
}

/* Column k of panel p; of BF16_COMPRESSED: its group. */
VEC_INLINE const char *weights_of(enum weight_type type, const struct matmul *m, size_t p, size_t k)
{
    size_t at = type == WEIGHT_BF16_COMPRESSED ? compressed_group_at(k) : k * column_bytes(type);
    return (const char *)m->w + p * float_panel_bytes(type, m->n_in) + at;
}

#include "kernels/tiles/float_compressed_tmpl.h"
#include "kernels/tiles/float_small_tmpl.h"
#include "kernels/tiles/float_stream_tmpl.h"

/* ---- tiles ----------------------------------------------------------------------------------- */

/* What a tile prefetches: two lines per column, `gap` bytes apart. Addresses may be past the end of
 * an array, where C has no pointers, so they are numbers. */
struct ahead {
    uintptr_t at;
    size_t gap, step;
};

/* A tile: `tokens` tokens by `rows` rows over a block of columns. Column k of panel p is at
 * w + p * panel_bytes + k * PANEL elements, column k of token i is x[i * X_ROW + k]. `first`: sums
 * start at 0, not at y. */
struct tile_work {
    float *y;
    size_t ldy;
    const char *w;
    size_t panel_bytes, columns;
    const float *x;
    size_t tokens, rows;
    int first;
    struct ahead ahead;
};

/* Prefetches the sums of the next tile. Its stores would miss and fill the store buffer. */
VEC_INLINE void prefetch_next(const float *y, size_t ldy, size_t tokens, size_t panels)
{
    uintptr_t next = (uintptr_t)y + tokens * ldy * sizeof *y;
    UNROLLED(i, tokens) {
        uintptr_t row = next + i * ldy * sizeof *y;
        __builtin_prefetch((const void *)row);
        __builtin_prefetch((const void *)(row + (panels * PANEL - 1) * sizeof *y));
    }
}

/* type, tokens and panels are constants. */
VEC_INLINE void tile_run(enum weight_type type, const struct tile_work *t, float *y, size_t ldy,
                         size_t tokens, size_t panels)
{
    vec c[TILE_TOKENS][TILE_PANELS * VECTORS], a[TILE_PANELS * VECTORS];
    const char *w = t->w;
    const float *x = t->x;
    uintptr_t ahead = t->ahead.at;
    size_t panel_bytes = t->panel_bytes, columns = t->columns, gap = t->ahead.gap,
           step = t->ahead.step;
    if (t->first)
        UNROLLED(i, tokens)
            UNROLLED(v, panels * VECTORS)
                c[i][v] = vec_of(0);
    else
        UNROLLED(i, tokens)
            UNROLLED(v, panels * VECTORS)
                c[i][v] = vec_load(y + i * ldy + v * LANES);
    prefetch_next(y, ldy, tokens, panels);
    UNROLL_TWICE for (size_t k = 0; k < columns; k++)
    {
        vec_prefetch(ahead);
        vec_prefetch(ahead + gap);
        ahead += step;
        UNROLLED(v, panels * VECTORS) {
            a[v] = weights_at(type, w + v / VECTORS * panel_bytes, k, v % VECTORS);
            vec_keep(&a[v]);
        }
        UNROLLED(i, tokens) {
            vec b = vec_of(x[i * X_ROW + k]);
            vec_keep(&b);
            UNROLLED(v, panels * VECTORS)
                c[i][v] = vec_fma(a[v], b, c[i][v]);
        }
    }
    UNROLLED(i, tokens)
        UNROLLED(v, panels * VECTORS)
            vec_store(y + i * ldy + v * LANES, c[i][v]);
}

#define TILE_CASE(N)                                                                               \
    case N:                                                                                        \
        tile_run(type, t, y, ldy, N < TILE_TOKENS ? N : TILE_TOKENS, panels);                      \
        break;

VEC_INLINE void tile_some(enum weight_type type, const struct tile_work *t, float *y, size_t ldy,
                          size_t panels)
{
    switch (t->tokens) {
        TILE_CASE(1)
        TILE_CASE(2)
        TILE_CASE(3)
        TILE_CASE(4)
        TILE_CASE(5)
        TILE_CASE(6)
        TILE_CASE(7)
        TILE_CASE(8)
        TILE_CASE(9)
        TILE_CASE(10)
        TILE_CASE(11)
        TILE_CASE(12)
    default:
        break;
    }
}

/* A partial panel, at the end of a matrix, goes through a buffer. */
VEC_INLINE void float_tile(enum weight_type type, const struct tile_work *t)
{
    float edge[TILE_TOKENS * TILE_ROWS];
    int whole = t->rows % PANEL == 0;
    float *to = whole ? t->y : edge;
    size_t ld = whole ? t->ldy : TILE_ROWS;
    for (size_t i = 0; !whole && !t->first && i < t->tokens; i++)
        memcpy(edge + i * TILE_ROWS, t->y + i * t->ldy, t->rows * sizeof *edge);
    if (t->rows > TILE_ROWS - PANEL)
        tile_some(type, t, to, ld, TILE_PANELS);
    else
        tile_some(type, t, to, ld, 1);
    for (size_t i = 0; !whole && i < t->tokens; i++)
        memcpy(t->y + i * t->ldy, edge + i * TILE_ROWS, t->rows * sizeof *edge);
}

/* The argument is a pointer. Passed by value, the struct would be copied with loads of other sizes
 * than its stores, which wait for all earlier stores, including those of sums to L2 and L3. */
typedef void tile_fn(const struct tile_work *t);

static void tile_f32(const struct tile_work *t)
{
    float_tile(WEIGHT_F32, t);
}

static void tile_f16(const struct tile_work *t)
{
    float_tile(WEIGHT_F16, t);
}

static void tile_bf16(const struct tile_work *t)
{
    float_tile(WEIGHT_BF16, t);
}

struct tile_block;

/* Converts the weights of a block to floats, once for all tiles of a group. */
typedef void widen_block_fn(float *wide, const struct matmul *m, const struct tile_block *b);

/* A product in tiles. */
struct tile_matmul {
    struct matmul m;
    enum weight_type type;
    tile_fn *tile; /* for a single tile, or NULL; several multiply converted floats */
    widen_block_fn *widen;
};

/* A block: columns [k, k + columns) of `panels` panels from p on. */
struct tile_block {
    size_t p, panels, k, columns;
    ptrdiff_t next; /* bytes from here to the next block; 0: none */
};

VEC_INLINE void widen_block(enum weight_type type, float *wide, const struct matmul *m,
                            const struct tile_block *b)
{
    for (size_t p = 0; p < b->panels; p++) {
        const char *panel = weights_of(type, m, b->p + p, b->k);
        float *to = wide + p * COLUMNS * PANEL;
        for (size_t k = 0; k < b->columns; k++)
            UNROLLED(v, VECTORS)
                vec_store(to + k * PANEL + v * LANES, weights_at(type, panel, k, v));
    }
}

static void widen_f16_block(float *wide, const struct matmul *m, const struct tile_block *b)
{
    widen_block(WEIGHT_F16, wide, m, b);
}

static void widen_bf16_block(float *wide, const struct matmul *m, const struct tile_block *b)
{
    widen_block(WEIGHT_BF16, wide, m, b);
}

static void widen_compressed_block(float *wide, const struct matmul *m, const struct tile_block *b)
{
    for (size_t p = 0; p < b->panels; p++)
        compressed_widen(wide + p * COLUMNS * PANEL, compressed_panel(m, b->p + p), m->n_in, b->k,
                         b->columns);
}

/* What tile t of n_tiles prefetches: its share of the next block; a single tile: AHEAD bytes on. */
static struct ahead ahead_of(const struct tile_matmul *a, const struct tile_block *b, const char *w,
                             size_t t, size_t n_tiles)
{
    size_t column = column_bytes(a->type);
    size_t gap = TILE_PANELS > 1 ? float_panel_bytes(a->type, a->m.n_in) : 0;
    if (n_tiles == 1 && a->tile)
        return (struct ahead){(uintptr_t)w + AHEAD, gap, column};
    size_t sharers = n_tiles < 4 ? 2 : 4;
    if (n_tiles == 1)
        sharers = 1;
    if (t >= sharers || b->next == 0)
        return (struct ahead){(uintptr_t)w, 0, 0};
    size_t step = column / sharers;
    w += b->next - (a->tile ? 0 : PLANE);
    return (struct ahead){(uintptr_t)w + t * step * b->columns, gap, step};
}

/* A block for tokens [i, i + n), whose columns are in x. wide: room for its weights as floats. */
static void block_run(const struct tile_matmul *a, const float *x, float *wide, size_t i, size_t n,
                      const struct tile_block *b)
{
    const struct matmul *m = &a->m;
    const char *w = weights_of(a->type, m, b->p, b->k);
    struct tile_work t = {.y = m->y + i * m->ldy + b->p * PANEL,
                          .ldy = m->ldy,
                          .w = w,
                          .panel_bytes = float_panel_bytes(a->type, m->n_in),
                          .columns = b->columns,
                          .x = x,
                          .rows = rows_of_panels(m->n_out, b->p, b->panels),
                          .first = b->k == 0};
    tile_fn *run = a->tile;
    size_t n_tiles = (n + TILE_TOKENS - 1) / TILE_TOKENS;
    if (a->widen && (n_tiles > 1 || !a->tile)) {
        a->widen(wide, m, b);
        t.w = (const char *)wide;
        t.panel_bytes = COLUMNS * PANEL * sizeof *wide;
        run = tile_f32;
    }
    struct equal_parts parts = parts_of(n, n_tiles);
    for (size_t j = 0; j < n_tiles; j++) {
        t.tokens = parts.each + (j < parts.more);
        t.ahead = ahead_of(a, b, w, j, n_tiles);
        run(&t);
        t.y += t.tokens * m->ldy;
        t.x += t.tokens * X_ROW;
    }
}

/* Bytes from a block to the next one of panels [p0, p1); 0 after the last. */
static ptrdiff_t next_block(const struct tile_matmul *a, const struct tile_block *b, size_t p0,
                            size_t p1)
{
    const char *here = weights_of(a->type, &a->m, b->p, b->k);
    if (b->p + TILE_PANELS < p1)
        return weights_of(a->type, &a->m, b->p + TILE_PANELS, b->k) - here;
    if (b->k + b->columns < a->m.n_in)
        return weights_of(a->type, &a->m, p0, b->k + b->columns) - here;
    return 0;
}

/* Panels [p0, p1) for tokens [i, i + n). m.work holds the weights of a block as floats, 16 KiB per
 * panel of a tile, then the copies of the tokens, 204 KiB. Half the tokens would need half of that
 * but load and convert the weights twice as often. */
static void set_run(const struct tile_matmul *a, size_t i, size_t n, size_t p0, size_t p1)
{
    const struct matmul *m = &a->m;
    float *wide = m->work, *x = wide + WIDE_FLOATS;
    size_t n_blocks = (m->n_in + COLUMNS - 1) / COLUMNS;
    size_t most =
        (m->n_in + n_blocks * PANEL - 1) / (n_blocks * PANEL) * PANEL; /* columns of one */
    for (size_t k = 0; k < m->n_in; k += most) {
        struct tile_block b = {.p = p0, .k = k, .columns = m->n_in - k < most ? m->n_in - k : most};
        for (size_t j = 0; j < n; j++)
            memcpy(x + j * X_ROW, (const float *)matmul_x(m, i + j) + k, b.columns * sizeof *x);
        for (; b.p < p1; b.p += TILE_PANELS) {
            b.panels = p1 - b.p < TILE_PANELS ? p1 - b.p : TILE_PANELS;
            b.next = next_block(a, &b, p0, p1);
            block_run(a, x, wide, i, n, &b);
        }
    }
}

static void tiles(const struct tile_matmul *a)
{
    size_t n_groups = (a->m.n + GROUP_TOKENS - 1) / GROUP_TOKENS;
    struct equal_parts parts = parts_of(a->m.n, n_groups);
    for (size_t p = a->m.p0; p < a->m.p1; p += SET_PANELS)
        for (size_t g = 0, i = 0; g < n_groups; g++) {
            size_t n = parts.each + (g < parts.more);
            set_run(a, i, n, p, a->m.p1 - p < SET_PANELS ? a->m.p1 : p + SET_PANELS);
            i += n;
        }
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Each variant is a function that the entry jumps to. In one function a layer of width 16 would
 * also save the registers of the others, which takes as long as the layer. */
#define DEFINE_MATMUL(TYPE, ID, WIDEN)                                                             \
    static NOINLINE void narrow_one_##TYPE(const struct matmul *m)                                 \
    {                                                                                              \
        narrow_one(ID, *m);                                                                        \
    }                                                                                              \
    static NOINLINE void narrow_many_##TYPE(const struct matmul *m)                                \
    {                                                                                              \
        narrow_many(ID, *m);                                                                       \
    }                                                                                              \
    static NOINLINE void stream_##TYPE(const struct matmul *m)                                     \
    {                                                                                              \
        stream(ID, 0, *m);                                                                         \
    }                                                                                              \
    static NOINLINE void stream_far_##TYPE(const struct matmul *m)                                 \
    {                                                                                              \
        stream(ID, 1, *m);                                                                         \
    }                                                                                              \
    static NOINLINE void tiles_##TYPE(const struct matmul *m)                                      \
    {                                                                                              \
        tiles(&(struct tile_matmul){*m, ID, tile_##TYPE, WIDEN});                                  \
    }                                                                                              \
    static void tile_matmul_##TYPE(const struct matmul *m)                                         \
    {                                                                                              \
        matmul_fn *one = stream_##TYPE, *many = tiles_##TYPE;                                      \
        if (m->n_out <= NARROW) {                                                                  \
            one = narrow_one_##TYPE;                                                               \
            many = narrow_many_##TYPE;                                                             \
        } else if ((m->p1 - m->p0) * m->n_in >= FAR / (PANEL * weight_bytes(ID)))                  \
            one = stream_far_##TYPE;                                                               \
        (m->n == 1 ? one : many)(m);                                                               \
    }
DEFINE_MATMUL(f32, WEIGHT_F32, NULL)
DEFINE_MATMUL(f16, WEIGHT_F16, widen_f16_block)
DEFINE_MATMUL(bf16, WEIGHT_BF16, widen_bf16_block)

static void tile_matmul_compressed(const struct matmul *m)
{
    if (m->n == 1)
        stream(WEIGHT_BF16_COMPRESSED, 1, *m);
    else if (m->n <= FEW_TOKENS)
        few_tokens(m);
    else
        tiles(&(struct tile_matmul){*m, WEIGHT_BF16_COMPRESSED, NULL, widen_compressed_block});
}

static inline void float_tile_init(struct kernels *k)
{
    k->matmul[WEIGHT_F32] = tile_matmul_f32;
    k->matmul[WEIGHT_F16] = tile_matmul_f16;
    k->matmul[WEIGHT_BF16] = tile_matmul_bf16;
    k->matmul[WEIGHT_BF16_COMPRESSED] = tile_matmul_compressed;
    k->compresses = 1;
}
