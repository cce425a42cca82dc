/* matmul for integer types by hand, in the vectors that the including ISA level defines.
 *
 * The same sums in the same order as int_scalar.c. A lane is a row of the output. One token reads
 * the packed lines directly, one or two panels at a time. For several tokens some columns of
 * TILE_PANELS panels are unpacked to bytes in L1 (struct tile_cache) and multiplied by tiles of
 * TILE_TOKENS tokens. The integer sums of a tile are in registers, its unfinished results in `y`.
 *
 * The including file, isa/int_NAME.c, defines the macros of int_weights_tmpl.h, TILE_PANELS,
 * TILE_TOKENS, STEP and ivec_dot (ivec.h), and includes a quantize_blocks.
 */
#include "kernels/tiles/int_weights_tmpl.h"

#include <string.h>

enum {
    VECTORS = PANEL / LANES, /* per line, per panel of results */
    VECTOR_BYTES = LINE / VECTORS,
    TILE_VECTORS = TILE_PANELS * VECTORS,
    STREAM_PANELS = 2, /* most panels of one token at a time, 8-bit types */
    CACHE_BLOCKS = 4,  /* blocks unpacked at a time */
    /* Most tokens that share unpacked weights: 64 and the rest of a tile. */
    GROUP_TOKENS = (63 / TILE_TOKENS + 1) * TILE_TOKENS
};

/* ---- one token ------------------------------------------------------------------------------- */

/* Initial value of the sums of a sub-block: -(offset of the weights) * sum of x. */
VEC_INLINE ivec first_sum(const struct x_block *x, size_t s, const struct layout *l)
{
    if (l->offset == 0 || (l->bits == 8 && SIGNED_8))
        return ivec_of(0);
    ivec both = ivec_of(x->minus_128[0]), first = ivec_of(x->minus_128[1]), sum;
    ivec_keep(&both); /* or gcc computes in general registers before it broadcasts */
    ivec_keep(&first);
    if (l->sub_blocks == 2)
        sum = s == 0 ? first : ivec_sub(both, first);
    else
        sum = both;
    return ivec_shift_right(sum, __builtin_ctz(128u / l->offset));
}

/* y += the contribution of block b of a group to LANES rows; head, bytes, lines point to them. */
VEC_INLINE vec add_block(vec y, const uint8_t *head, const uint8_t *bytes, const uint8_t *lines,
                         size_t b, const struct x_block *x, const struct layout *l)
{
    const size_t words = BLOCK_WORDS / l->sub_blocks;
#pragma GCC unroll 2
    for (size_t s = 0; s < l->sub_blocks; s++) {
        ivec sum[2] = {first_sum(x, s, l), ivec_of(0)}; /* two chains hide latency; exact */
#pragma GCC unroll 4
        for (size_t j = s * words; j < (s + 1) * words; j += 2) {
            ivec w[2], a[2];
            get_pair(w, lines, j, l);
            a[0] = ivec_of_four(x->q + 4 * j);
            a[1] = ivec_of_four(x->q + 4 * j + 4);
            for (size_t i = 0; i < 2; i += STEP)
                sum[i] = ivec_dot(sum[i], w + i, a + i, l->bits);
        }
        vec scale = vec_mul(get_scale(head, bytes, b, s, l), vec_of(x->scale));
        y = vec_fma(scale, vec_of_ivec(ivec_add(sum[0], sum[1])), y);
    }
    return l->has_min ? vec_fma(get_min(head, bytes, b, l), vec_of(x->sum), y) : y;
}

VEC_INLINE void add_group(vec y[VECTORS], const uint8_t *group, size_t blocks,
                          const struct x_block *x, size_t ahead, const struct layout *l)
{
    for (size_t b = 0; b < blocks; b++) {
        const uint8_t *lines = group + LINE * (l->head_lines + b * l->block_lines);
        for (size_t line = 0; line < l->block_lines; line++) /* may be past the end */
            __builtin_prefetch((const void *)((uintptr_t)lines + line * LINE + ahead));
        for (size_t v = 0; v < VECTORS; v++)
            y[v] = add_block(y[v], group + v * 2 * LANES, group + LINE + v * LANES,
                             lines + v * VECTOR_BYTES, b, x + b, l);
    }
}

/* One token times `panels` panels from p on: one stream from memory and one chain each. */
VEC_INLINE void stream_panels(const struct matmul m, size_t p, size_t panels,
                              const struct layout *l)
{
    size_t blocks = m.n_in / BLOCK, whole = blocks / l->group_blocks * l->group_blocks;
    size_t panel_bytes = quant_panel_bytes(l, m.n_in), ahead = streamings[m.streaming].ahead;
    const uint8_t *at = (const uint8_t *)m.w + p * panel_bytes;
    const struct x_block *x = m.x;
    vec sum[STREAM_PANELS][VECTORS];
    float out[STREAM_PANELS * PANEL];
    for (size_t i = 0; i < panels; i++)
        for (size_t v = 0; v < VECTORS; v++)
            sum[i][v] = vec_of(0);
    for (size_t b = 0; b < whole; b += l->group_blocks, at += group_at(l, 1))
        for (size_t i = 0; i < panels; i++)
            add_group(sum[i], at + i * panel_bytes, l->group_blocks, x + b, ahead, l);
    for (size_t i = 0; whole < blocks && i < panels; i++) /* only groups of two can be partial */
        add_group(sum[i], at + i * panel_bytes, 1, x + whole, ahead, l);
    for (size_t i = 0; i < panels; i++)
        for (size_t v = 0; v < VECTORS; v++)
            vec_store(out + i * PANEL + v * LANES, sum[i][v]);
    memcpy(m.y + p * PANEL, out, rows_of_panels(m.n_out, p, panels) * sizeof *out);
}

/* 8-bit weights are bound by memory. In two streams Cascade Lake reads 3 to 5 % faster, Zen 4 at
 * half the speed. Other types are unpacked, which needs the registers. */
VEC_INLINE void matmul_one(const struct matmul m, const struct layout *l)
{
    size_t p = m.p0;
    int in_two = l->bits == 8 && streamings[m.streaming].panels == STREAM_PANELS;
    for (; in_two && p + STREAM_PANELS <= m.p1; p += STREAM_PANELS)
        stream_panels(m, p, STREAM_PANELS, l);
    for (; p < m.p1; p++)
        stream_panels(m, p, 1, l);
}

/* ---- several tokens -------------------------------------------------------------------------- */

/* Unfinished results of one token. */
struct results {
    _Alignas(LINE) float y[TILE_PANELS * PANEL];
};

/* Some unpacked blocks of the panels of a tile, and the results of a group. 8-bit weights are used
 * in place if the tile has all its panels. */
struct tile_cache {
    const uint8_t *lines[CACHE_BLOCKS]; /* of the first panel; of the others `stride` bytes on */
    size_t stride;
    _Alignas(LINE) uint8_t w[CACHE_BLOCKS][TILE_PANELS][BLOCK_WORDS][LINE];
    float scale[CACHE_BLOCKS][2][TILE_PANELS][PANEL];
    float min[CACHE_BLOCKS][TILE_PANELS][PANEL];
    struct results y[GROUP_TOKENS];
};
_Static_assert(sizeof(struct tile_cache) <= WORK_WEIGHTS, "kernels_work_bytes");

VEC_INLINE int stays(size_t panels, const struct layout *l)
{
    return l->bits == 8 && !SIGNED_8 && panels == TILE_PANELS;
}

VEC_INLINE void fill_cache(struct tile_cache *c, const uint8_t *panel, size_t p, size_t b0,
                           size_t blocks, int keep, const struct layout *l)
{
    for (size_t i = 0; i < blocks; i++) {
        const uint8_t *head = panel + head_at(l, b0 + i), *lines = panel + lines_at(l, b0 + i);
        size_t b = (b0 + i) % l->group_blocks;
        for (size_t v = 0; v < VECTORS; v++) {
            const uint8_t *halves = head + v * 2 * LANES, *bytes = head + LINE + v * LANES;
#pragma GCC unroll 4
            for (size_t j = 0; j < BLOCK_WORDS && !keep; j += 2) {
                ivec w[2];
                get_pair(w, lines + v * VECTOR_BYTES, j, l);
                ivec_store(c->w[i][p][j] + v * VECTOR_BYTES, w[0]);
                ivec_store(c->w[i][p][j + 1] + v * VECTOR_BYTES, w[1]);
            }
            for (size_t s = 0; s < l->sub_blocks; s++)
                vec_store(c->scale[i][s][p] + v * LANES, get_scale(halves, bytes, b, s, l));
            if (l->has_min)
                vec_store(c->min[i][p] + v * LANES, get_min(halves, bytes, b, l));
        }
    }
}

/* Rows of quantised activations, from a block on: row i is at `at` + i * stride bytes. */
struct x_rows {
    const char *at;
    size_t stride;
};

/* y += the sums of a sub-block of n (constant) tokens, scaled. */
VEC_INLINE void add_sums(struct results *y, ivec sum[TILE_TOKENS][TILE_VECTORS],
                         const struct x_block *const xs[TILE_TOKENS], const float *scale,
                         const float *min, size_t n, const struct layout *l)
{
    for (size_t i = 0; i < n; i++)
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            vec by = vec_mul(vec_load(scale + v * LANES), vec_of(xs[i]->scale));
            vec out = vec_fma(by, vec_of_ivec(sum[i][v]), vec_load(y[i].y + v * LANES));
            if (l->has_min)
                out = vec_fma(vec_load(min + v * LANES), vec_of(xs[i]->sum), out);
            vec_store(y[i].y + v * LANES, out);
        }
}

/* y += the contribution of a sub-block for n (constant) tokens; integer sums are in registers. */
VEC_INLINE void tile_sub(struct results *y, const struct tile_cache *c, size_t b, size_t s,
                         const struct x_rows x, size_t n, const struct layout *l)
{
    const size_t words = BLOCK_WORDS / l->sub_blocks;
    const uint8_t *lines = c->lines[b];
    const size_t stride = c->stride;
    const struct x_block *xs[TILE_TOKENS];
    ivec sum[TILE_TOKENS][TILE_VECTORS];
    for (size_t i = 0; i < n; i++) {
        xs[i] = (const struct x_block *)(const void *)(x.at + i * x.stride) + b;
        ivec first = first_sum(xs[i], s, l);
        for (size_t v = 0; v < TILE_VECTORS; v++)
            sum[i][v] = first;
    }
#pragma GCC unroll 8
    for (size_t j = s * words; j < (s + 1) * words; j += STEP) {
        ivec w[TILE_VECTORS][STEP];
        for (size_t v = 0; v < TILE_VECTORS; v++)
            for (size_t t = 0; t < STEP; t++) {
                w[v][t] = ivec_load(lines + v / VECTORS * stride + (j + t) * LINE +
                                    v % VECTORS * VECTOR_BYTES);
                ivec_keep(&w[v][t]);
            }
        for (size_t i = 0; i < n; i++) {
            ivec a[STEP];
            for (size_t t = 0; t < STEP; t++) {
                a[t] = ivec_of_four(xs[i]->q + 4 * (j + t));
                ivec_keep(&a[t]);
            }
            for (size_t v = 0; v < TILE_VECTORS; v++)
                sum[i][v] = ivec_dot(sum[i][v], w[v], a, l->bits);
        }
    }
    add_sums(y, sum, xs, (const float *)c->scale[b][s], (const float *)c->min[b], n, l);
}

VEC_INLINE void int_tile(struct results *y, const struct tile_cache *c, size_t blocks,
                         const struct x_rows x, size_t n, const struct layout *l)
{
    for (size_t b = 0; b < blocks; b++) {
#pragma GCC unroll 2
        for (size_t s = 0; s < l->sub_blocks; s++) {
            __asm__ volatile("" ::: "memory"); /* or gcc keeps y in registers and spills it */
            tile_sub(y, c, b, s, x, n, l);
        }
    }
}

/* Compilers merge the functions of types whose code is the same (Q4_1, Q5_1, Q4_K, Q5_K). */
#define DEFINE_TILE(NAME, ...)                                                                     \
    static __attribute__((noinline)) void tile_##NAME(                                             \
        struct results *y, const struct tile_cache *c, size_t blocks, struct x_rows x, size_t n)   \
    {                                                                                              \
        const struct layout *l = &layouts[WEIGHT_##NAME];                                          \
        for (; n >= TILE_TOKENS; n -= TILE_TOKENS) {                                               \
            int_tile(y, c, blocks, x, TILE_TOKENS, l);                                             \
            y += TILE_TOKENS;                                                                      \
            x.at += TILE_TOKENS * x.stride;                                                        \
        }                                                                                          \
        for (; n >= 2; n -= 2) {                                                                   \
            int_tile(y, c, blocks, x, 2, l);                                                       \
            y += 2;                                                                                \
            x.at += 2 * x.stride;                                                                  \
        }                                                                                          \
        if (n == 1)                                                                                \
            int_tile(y, c, blocks, x, 1, l);                                                       \
    }

INT_TYPES(DEFINE_TILE)

typedef void tile_fn(struct results *y, const struct tile_cache *c, size_t blocks, struct x_rows x,
                     size_t n);

/* Panels [p, p + panels) times m.n <= GROUP_TOKENS tokens. */
VEC_INLINE void matmul_group(const struct matmul m, size_t p, size_t panels, tile_fn *tiles,
                             const struct layout *l)
{
    struct tile_cache *c = m.work;
    const uint8_t *w = m.w;
    struct x_rows x = {m.x, m.x_stride};
    size_t blocks = m.n_in / BLOCK, panel_bytes = quant_panel_bytes(l, m.n_in);
    int keep = stays(panels, l);
    if (panels < TILE_PANELS) /* the tile computes all panels: zero the missing ones */
        memset(c, 0, sizeof *c);
    memset(c->y, 0, m.n * sizeof *c->y);
    c->stride = keep ? panel_bytes : sizeof c->w[0][0];
    for (size_t b = 0; b < blocks; b += CACHE_BLOCKS) {
        size_t some = blocks - b < CACHE_BLOCKS ? blocks - b : CACHE_BLOCKS;
        for (size_t i = 0; i < some; i++)
            c->lines[i] = keep ? w + p * c->stride + lines_at(l, b + i) : (const uint8_t *)c->w[i];
        for (size_t i = 0; i < panels; i++)
            fill_cache(c, w + (p + i) * panel_bytes, i, b, some, keep, l);
        tiles(c->y, c, some, x, m.n);
        x.at += some * sizeof(struct x_block);
    }
}

/* Without memcpy for whole tiles: a call costs as much as a block. */
VEC_INLINE void put_results(float *y, const struct results *from, size_t rows)
{
    if (rows < TILE_PANELS * PANEL)
        memcpy(y, from->y, rows * sizeof *y);
    else
        for (size_t v = 0; v < TILE_VECTORS; v++)
            vec_store(y + v * LANES, vec_load(from->y + v * LANES));
}

VEC_INLINE void int_matmul(const struct matmul m, tile_fn *tiles, const struct layout *l)
{
    if (m.n == 1) {
        matmul_one(m, l);
        return;
    }
    const struct results *y = ((struct tile_cache *)m.work)->y;
    size_t groups = (m.n + GROUP_TOKENS - 1) / GROUP_TOKENS, unit = groups * TILE_TOKENS;
    size_t most = (m.n + unit - 1) / unit * TILE_TOKENS; /* nearly equal groups of whole tiles */
    for (size_t p = m.p0; p < m.p1; p += TILE_PANELS) {
        size_t panels = m.p1 - p < TILE_PANELS ? m.p1 - p : TILE_PANELS;
        size_t rows = rows_of_panels(m.n_out, p, panels);
        for (size_t i = 0; i < m.n; i += most) {
            struct matmul group = m;
            group.x = matmul_x(&m, i);
            group.n = m.n - i < most ? m.n - i : most;
            matmul_group(group, p, panels, tiles, l);
            for (size_t j = 0; j < group.n; j++)
                put_results(m.y + (i + j) * m.ldy + p * PANEL, y + j, rows);
        }
    }
}

#define DEFINE_MATMUL(NAME, ...)                                                                   \
    static void matmul_##NAME(const struct matmul *m)                                              \
    {                                                                                              \
        int_matmul(*m, tile_##NAME, &layouts[WEIGHT_##NAME]);                                      \
    }
INT_TYPES(DEFINE_MATMUL)

void ISA_NAME(kernels_quant_init_)(struct kernels *k)
{
    INT_TYPES(SET_MATMUL)
    k->quantize = quantize_blocks;
}
