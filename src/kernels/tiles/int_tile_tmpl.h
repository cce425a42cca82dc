/* matmul for integer types by hand, in the vectors that the including ISA level defines.
 *
 * It adds the same products in the same order as int_scalar.c. A lane is a row of the output. Up to TILE_TOKENS
 * tokens read the packed lines directly. For more, some columns of TILE_PANELS panels are unpacked
 * to L1 (struct tile_cache) and multiplied by tiles of TILE_TOKENS tokens. The integer sums of a
 * tile are in registers, and its results too if Y_IN_REGISTERS is 1.
 *
 * The products are not the limit. Each sum takes a vpdpbusd (or the like) per 4 columns, and then 3
 * float operations per sub-block, 4 with a minimum. They are issued to the same two units on Intel:
 * at most 73 % of the products per cycle, 67 % with a minimum, 57 % of Q6_K.
 *
 * The including file, isa/int_NAME.c, defines the macros of int_weights_tmpl.h, TILE_PANELS,
 * TILE_TOKENS, Y_IN_REGISTERS, STEP(bits) and ivec_dot (ivec.h), and includes a quantize_blocks.
 */
#include "kernels/tiles/int_weights_tmpl.h"

#include <string.h>

enum {
    VECTORS = PANEL / LANES, /* per line, per panel of results */
    VECTOR_BYTES = LINE / VECTORS,
    TILE_VECTORS = TILE_PANELS * VECTORS,
    CACHE_BLOCKS = 16, /* blocks of columns unpacked at a time */
    GROUP_TOKENS = 192 /* most tokens that share them: their activations are read from L2 */
};

#ifndef SUMS_BEGIN_AND_END /* a sum is of int32 all the time; otherwise: ivec_pairs.h */
VEC_INLINE ivec ivec_begin(ivec first, int bits)
{
    (void)bits;
    return first;
}

VEC_INLINE ivec ivec_end(ivec sum, ivec first, int bits)
{
    (void)first;
    (void)bits;
    return sum;
}
#endif

/* Initial value of the sums of a sub-block: -(offset of the weights) * sum of x. */
VEC_INLINE ivec first_sum(const struct x_block *x, size_t s, const struct layout *l)
{
    if (l->offset == 0 || (l->bits == 8 && SIGNED_8))
        return ivec_of(0);
    /* The sum that is stored for this offset, or for the next larger one. */
    int log = __builtin_ctz(l->offset);
    int has = l->sub_blocks == 2 ? 5 : log <= 3 ? 3 : log == 4 ? 4 : 7;
    return ivec_of(x->minus[(size_t)(has - 3) + s] >> (has - log)); /* exact: of multiples */
}

/* Rows of quantised activations, from one block on. Row i begins at `at` + i * stride bytes. */
struct x_rows {
    const char *at;
    size_t stride;
};

VEC_INLINE const struct x_block *x_row(const struct x_rows x, size_t i)
{
    return (const struct x_block *)(const void *)(x.at + i * x.stride);
}

VEC_INLINE struct x_rows x_from(const struct x_rows x, size_t b)
{
    return (struct x_rows){x.at + b * sizeof(struct x_block), x.stride};
}

#include "kernels/tiles/int_stream_tmpl.h"

/* ---- many tokens ----------------------------------------------------------------------------- */

/* Some unpacked blocks of the panels of a tile, and the results of a tile with missing panels. */
struct tile_cache {
    struct w_block w[CACHE_BLOCKS][TILE_PANELS];
    const uint8_t *lines[CACHE_BLOCKS]; /* bytes of a block of the first panel: in w, or packed */
    size_t stride;                      /* bytes from a panel to the next */
    float edge[TILE_TOKENS][TILE_PANELS * PANEL];
};
_Static_assert(sizeof(struct tile_cache) <= WORK_WEIGHTS, "kernels_work_bytes");

/* Tokens times the unpacked blocks: row i of y is at y + i * ldy. `first`: y is written, else added
 * to. Meanwhile the lines of the panels to unpack next are prefetched, [next, end) of the first: the
 * tiles share them equally. */
struct tile {
    float *y;
    size_t ldy;
    struct x_rows x;
    const struct tile_cache *c;
    size_t blocks;
    int first;
    uintptr_t next, end; /* may be past the end of the weights */
    size_t part;         /* bytes of a panel to prefetch in a block */
    size_t panel_bytes;
};

typedef vec tile_sums[TILE_TOKENS][TILE_VECTORS];

/* y += the sums of a sub-block of n (constant) tokens, scaled. */
VEC_INLINE void add_sums(tile_sums y, ivec sum[TILE_TOKENS][TILE_VECTORS],
                         const struct x_block *const xs[TILE_TOKENS], const struct w_block *w,
                         size_t s, size_t n, const struct layout *l)
{
    for (size_t i = 0; i < n; i++)
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            const struct w_block *panel = w + v / VECTORS;
            size_t r = v % VECTORS * LANES;
            vec by = vec_mul(vec_load(panel->scale[s] + r), vec_of(xs[i]->scale));
            y[i][v] = vec_fma(by, vec_of_ivec(sum[i][v]), y[i][v]);
            if (l->has_min)
                y[i][v] = vec_fma(vec_load(panel->min[s] + r), vec_of(x_sum(xs[i], s, l)), y[i][v]);
        }
}

/* y += the contribution of a sub-block for n (constant) tokens; integer sums are in registers. */
VEC_INLINE void tile_sub(tile_sums y, const struct tile t, size_t b, size_t s, size_t n,
                         const struct layout *l)
{
    const size_t words = BLOCK_WORDS / l->sub_blocks;
    const struct w_block *panels = t.c->w[b];
    const uint8_t *lines = t.c->lines[b];
    const size_t stride = t.c->stride;
    const struct x_block *xs[TILE_TOKENS];
    ivec sum[TILE_TOKENS][TILE_VECTORS];
    for (size_t i = 0; i < n; i++) {
        xs[i] = x_row(t.x, i) + b;
        for (size_t v = 0; v < TILE_VECTORS; v++)
            sum[i][v] = ivec_begin(first_sum(xs[i], s, l), l->bits);
    }
#pragma GCC unroll 8
    for (size_t j = s * words; j < (s + 1) * words; j += STEP(l->bits)) {
        ivec w[TILE_VECTORS][STEP(4)]; /* at most */
        for (size_t v = 0; v < TILE_VECTORS; v++)
            for (size_t u = 0; u < STEP(l->bits); u++) {
                w[v][u] = ivec_load(lines + v / VECTORS * stride + (j + u) * LINE +
                                    v % VECTORS * VECTOR_BYTES);
                ivec_keep(&w[v][u]);
            }
        for (size_t i = 0; i < n; i++) {
            ivec a[STEP(4)];
            for (size_t u = 0; u < STEP(l->bits); u++) {
                a[u] = ivec_of_four(xs[i]->q + 4 * (j + u));
                ivec_keep(&a[u]);
            }
            for (size_t v = 0; v < TILE_VECTORS; v++)
                sum[i][v] = ivec_dot(sum[i][v], w[v], a, l->bits);
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t v = 0; v < TILE_VECTORS; v++)
            sum[i][v] = ivec_end(sum[i][v], first_sum(xs[i], s, l), l->bits);
    add_sums(y, sum, xs, panels, s, n, l);
}

VEC_INLINE void int_tile(const struct tile t, size_t n, const struct layout *l)
{
    tile_sums y;
    for (size_t i = 0; i < n; i++)
        for (size_t v = 0; v < TILE_VECTORS; v++)
            y[i][v] = t.first ? vec_of(0) : vec_load(t.y + i * t.ldy + v * LANES);
    for (size_t b = 0; b < t.blocks; b++) {
        uintptr_t next = t.next + b * t.part;
        for (uintptr_t at = next; at < next + t.part && at < t.end; at += LINE)
            for (size_t p = 0; p < TILE_PANELS; p++)
                __builtin_prefetch((const void *)(at + p * t.panel_bytes), 0, 2);
#pragma GCC unroll 2
        for (size_t s = 0; s < l->sub_blocks; s++) {
            if (!Y_IN_REGISTERS) /* or gcc keeps them there and spills the sums */
                __asm__ volatile("" : : "r"(y) : "memory");
            tile_sub(y, t, b, s, n, l);
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t v = 0; v < TILE_VECTORS; v++)
            vec_store(t.y + i * t.ldy + v * LANES, y[i][v]);
}

VEC_INLINE void next_tile(struct tile *t, size_t n)
{
    t->y += n * t->ldy;
    t->x.at += n * t->x.stride;
    t->next += t->blocks * t->part;
}

/* Tiles of TILE_TOKENS, then of 4, 2 and 1. A tile of two tokens takes nearly as long as one of four,
 * so eight are 4 + 4. Compilers merge the functions of types whose code is the same (Q4_1, Q5_1, Q4_K, Q5_K). */
#define DEFINE_TILE(NAME, ...)                                                                     \
    static NOINLINE void tile_##NAME(struct tile t, size_t n)                                      \
    {                                                                                              \
        const struct layout *l = &layouts[WEIGHT_##NAME];                                          \
        for (; n >= TILE_TOKENS && n != 8; n -= TILE_TOKENS, next_tile(&t, TILE_TOKENS))           \
            int_tile(t, TILE_TOKENS, l);                                                           \
        for (; n >= 4; n -= 4, next_tile(&t, 4))                                                   \
            int_tile(t, 4, l);                                                                     \
        for (; n >= 2; n -= 2, next_tile(&t, 2))                                                   \
            int_tile(t, 2, l);                                                                     \
        if (n == 1)                                                                                \
            int_tile(t, 1, l);                                                                     \
    }

INT_TYPES(DEFINE_TILE)

typedef void tile_fn(struct tile t, size_t n);

/* n tokens, the first `rows` rows of the tile's panels. */
VEC_INLINE void run_tiles(struct tile t, struct tile_cache *c, size_t n, size_t rows,
                          tile_fn *tiles)
{
    if (rows == TILE_PANELS * PANEL) {
        tiles(t, n);
        return;
    }
    struct tile edge = t;
    edge.y = c->edge[0];
    edge.ldy = TILE_PANELS * PANEL;
    for (size_t i = 0; i < n; i += TILE_TOKENS) {
        size_t some = n - i < TILE_TOKENS ? n - i : TILE_TOKENS;
        for (size_t j = 0; j < some && !t.first; j++)
            memcpy(c->edge[j], t.y + (i + j) * t.ldy, rows * sizeof *t.y);
        edge.x.at = t.x.at + i * t.x.stride;
        tiles(edge, some);
        for (size_t j = 0; j < some; j++)
            memcpy(t.y + (i + j) * t.ldy, c->edge[j], rows * sizeof *t.y);
    }
}

VEC_INLINE void fill_cache(struct tile_cache *c, const uint8_t *panel, size_t p, size_t b,
                           size_t blocks, int keep, const struct layout *l)
{
    for (size_t i = 0; i < blocks; i++) {
        if (!keep)
            unpack_bytes(&c->w[i][p], panel + lines_at(l, b + i), 0, l);
        unpack_scales(&c->w[i][p], panel + head_at(l, b + i), (b + i) % l->group_blocks, l);
    }
}

/* The number of calls of int_tile for n tokens (DEFINE_TILE). */
VEC_INLINE size_t tiles_of(size_t n)
{
    return n / TILE_TOKENS + (size_t)__builtin_popcount((unsigned)(n % TILE_TOKENS));
}

/* Blocks of columns [b, b + blocks) of all panels times m.n <= GROUP_TOKENS tokens. */
VEC_INLINE void matmul_columns(const struct matmul m, size_t b, size_t blocks, tile_fn *tiles,
                               const struct layout *l)
{
    struct tile_cache *c = m.work;
    size_t bytes = quant_panel_bytes(l, m.n_in), begin = head_at(l, b),
           end = lines_at(l, b + blocks - 1) + l->block_lines * LINE;
    for (size_t p = m.p0; p < m.p1; p += TILE_PANELS) {
        const uint8_t *panel = (const uint8_t *)m.w + p * bytes;
        size_t panels = m.p1 - p < TILE_PANELS ? m.p1 - p : TILE_PANELS;
        uintptr_t next = (uintptr_t)panel + TILE_PANELS * bytes;
        struct tile t = {.y = m.y + p * PANEL,
                         .ldy = m.ldy,
                         .x = x_from((struct x_rows){m.x, m.x_stride}, b),
                         .c = c,
                         .blocks = blocks,
                         .first = b == 0,
                         .next = next + begin,
                         .end = p + TILE_PANELS < m.p1 ? next + end : 0,
                         .part = (end - begin) / (blocks * tiles_of(m.n)) / LINE * LINE + LINE,
                         .panel_bytes = bytes};
        int keep = l->low == 8 && !SIGNED_8 && panels == TILE_PANELS; /* bytes are read in place */
        c->stride = keep ? bytes : sizeof c->w[0][0];
        for (size_t i = 0; i < blocks; i++)
            c->lines[i] = keep ? panel + lines_at(l, b + i) : (const uint8_t *)c->w[i][0].q;
        for (size_t i = 0; i < panels; i++)
            fill_cache(c, panel + i * bytes, i, b, blocks, keep, l);
        run_tiles(t, c, m.n, rows_of_panels(m.n_out, p, panels), tiles);
    }
}

VEC_INLINE void matmul_many(const struct matmul m, tile_fn *tiles, const struct layout *l)
{
    size_t groups = (m.n + GROUP_TOKENS - 1) / GROUP_TOKENS, unit = groups * TILE_TOKENS;
    size_t most = (m.n + unit - 1) / unit * TILE_TOKENS; /* nearly equal groups of whole tiles */
    size_t blocks = m.n_in / BLOCK;
    if ((m.p1 - m.p0) % TILE_PANELS) /* tiles compute all their panels: zero the missing ones */
        memset(m.work, 0, sizeof(struct tile_cache));
    for (size_t i = 0; i < m.n; i += most) {
        struct matmul group = m;
        group.x = matmul_x(&m, i);
        group.y = m.y + i * m.ldy;
        group.n = m.n - i < most ? m.n - i : most;
        for (size_t b = 0; b < blocks; b += CACHE_BLOCKS)
            matmul_columns(group, b, blocks - b < CACHE_BLOCKS ? blocks - b : CACHE_BLOCKS, tiles,
                           l);
    }
}

/* Functions of their own: in one, gcc has too few registers for the loops of one token. */
#define DEFINE_MATMUL(NAME, ...)                                                                   \
    static NOINLINE void stream_##NAME(const struct matmul *m)                                     \
    {                                                                                              \
        stream_one(*m, &layouts[WEIGHT_##NAME]);                                                   \
    }                                                                                              \
    static NOINLINE void load_##NAME(const struct matmul *m)                                       \
    {                                                                                              \
        load_one(*m, &layouts[WEIGHT_##NAME]);                                                     \
    }                                                                                              \
    static NOINLINE void few_##NAME(const struct matmul *m)                                        \
    {                                                                                              \
        UNROLLED(n, TILE_TOKENS + 1)                                                               \
            for (size_t p = m->p0; n > 1 && n == m->n && p < m->p1; p++)                           \
                stream_panels(*m, n, p, 1, &layouts[WEIGHT_##NAME]);                               \
    }                                                                                              \
    static NOINLINE void many_##NAME(const struct matmul *m)                                       \
    {                                                                                              \
        matmul_many(*m, tile_##NAME, &layouts[WEIGHT_##NAME]);                                     \
    }                                                                                              \
    static void matmul_##NAME(const struct matmul *m)                                              \
    {                                                                                              \
        if (m->n == 1 && reads_apart(m->streaming))                                                \
            load_##NAME(m);                                                                        \
        else if (m->n == 1)                                                                        \
            stream_##NAME(m);                                                                      \
        else if (m->n <= TILE_TOKENS)                                                              \
            few_##NAME(m);                                                                         \
        else                                                                                       \
            many_##NAME(m);                                                                        \
    }

INT_TYPES(DEFINE_MATMUL)

void ISA_NAME(kernels_quant_init_)(struct kernels *k)
{
    INT_TYPES(SET_MATMUL)
    k->quantize = quantize_blocks;
}
