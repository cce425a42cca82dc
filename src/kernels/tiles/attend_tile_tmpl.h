/* The attention kernels as register tiles, in the vectors of the including ISA level (simd/vec.h).
 * Included after float_tile_tmpl.h.
 *
 * A tile is a few rows (queries of heads that share a KV head) by a few vectors, of tokens for
 * scores and of columns for mix. Each vector of keys or values is loaded and converted to float
 * once per tile. The sums are those of attend_tmpl.h: every chain is one lane.
 */
#include "kernels/simd/lanes.h"

enum {
    ROWS_MOST = 6,                              /* of a tile */
    KEY_PANELS = VECTORS < 4 ? 4 / VECTORS : 1, /* most adjacent ones of a tile */
    VECTORS_MOST = LANES < 16 ? 8 : 4,          /* of values in a tile */
    TILE_BLOCKS =
        (VECTORS_MOST * LANES + BLOCK - 1) / BLOCK, /* blocks of Q8_0 that hold these values */

    /* Prefetch distances: panels of keys, tokens of values. VALUES_AHEAD equals MIX_KEYS, the tokens
     * of attention.c's next call, so that the memory traffic of that call is spread over all tiles of
     * this one. */
    PANELS_AHEAD = 4,
    VALUES_AHEAD = 128,
    VALUES_AHEAD_Q8_0 = 64
};

/* Vectors of values per row that fit in registers for a number of rows: 8, 4, 2 or 1. */
VEC_INLINE size_t vectors_for(size_t rows)
{
    size_t fit = CHAINS_FIT / rows;
    if (VECTORS_MOST >= 8 && rows * 8 <= REGISTERS / 2) /* as many values are live */
        return 8;
    if (fit >= 4)
        return 4;
    return fit >= 2 ? 2 : 1;
}

/* 1: vectors of a tile are multiplied as they are loaded. 0: all are loaded first, which is faster if
 * they and the sums fit in registers. */
VEC_INLINE int used_at_once(size_t rows, size_t vectors)
{
    return rows * vectors + vectors + 1 > REGISTERS;
}

VEC_INLINE vec load_kv(const void *p, size_t i, enum kv_type type)
{
    if (type == KV_Q8_0)
        return vec_load_i8((const uint8_t *)p + i);
    return type == KV_F32 ? vec_load((const float *)p + i) : vec_load_f16((const uint16_t *)p + i);
}

VEC_INLINE size_t kv_element_bytes(enum kv_type type)
{
    if (type == KV_Q8_0)
        return 1;
    return type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
}

VEC_INLINE const void *kv_at(const void *p, size_t i, enum kv_type type)
{
    return (const char *)p + i * kv_element_bytes(type);
}

/* Prefetches element i, which may be past the end; the address is computed as a number. */
VEC_INLINE void kv_fetch(const void *p, size_t i, enum kv_type type)
{
    __builtin_prefetch((const void *)((uintptr_t)p + i * kv_element_bytes(type)), 0, 2);
}

/* Whether to prefetch what comes from memory (`far`). Few rows are bound by memory, and the hardware
 * prefetcher is too late: it stops at page ends and, for F16, has half the lines in flight. One row
 * of F32 has too little work per line to gain from it. With many rows, or from a cache, it costs
 * more than it saves. */
VEC_INLINE int fetches_ahead(int far, size_t rows, enum kv_type type)
{
    return far && rows <= 4 && !(rows == 1 && type == KV_F32);
}

/* Elements of a cache line. */
VEC_INLINE size_t kv_line(enum kv_type type)
{
    return LINE / kv_element_bytes(type);
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* The part of a job with its rows and the panels from p on. */
VEC_INLINE struct scores scores_from_panel(struct scores a, size_t p, enum kv_type type)
{
    a.s += p * PANEL;
    a.keys = kv_at(a.keys, p * PANEL * a.d, type);
    return a;
}

/* The part of a job with its panels and the rows from i on. */
VEC_INLINE struct scores scores_from_row(struct scores a, size_t i)
{
    a.s += i * a.lds;
    a.q += i;
    return a;
}

/* Called for vector v of nv in row j of a tile of panels. Where it begins a line, prefetches a line of
 * the tiles to come, in the order of memory: in that of the vectors, which takes panels in turn, a
 * processor reads 25 % slower (Zen 3). */
VEC_INLINE void fetch_keys(const struct scores a, size_t j, size_t v, size_t nv, enum kv_type type)
{
    size_t at = j * PANEL + v % VECTORS * LANES, line = kv_line(type);
    size_t n = at / line * (nv / VECTORS) + v / VECTORS;
    if (at % line == 0)
        kv_fetch(a.keys, PANELS_AHEAD * PANEL * a.d + n * line, type);
}

/* The first nr rows by nv vectors of tokens, of the first and every `step`th panel. nr, nv and type
 * are constants. */
VEC_INLINE void scores_tile(const struct scores a, size_t nr, size_t nv, size_t step,
                            enum kv_type type)
{
    vec c[ROWS_MOST][PANELS_APART * VECTORS], w[PANELS_APART * VECTORS];
    const float *x[ROWS_MOST];
    for (size_t i = 0; i < nr; i++) {
        x[i] = a.q[i];
        for (size_t v = 0; v < nv; v++)
            c[i][v] = vec_of(0);
    }
    for (size_t j = 0; j < a.d; j++) {
        for (size_t v = 0; v < nv; v++) {
            size_t at = (v / VECTORS * step * a.d + j) * PANEL + v % VECTORS * LANES;
            w[v] = load_kv(a.keys, at, type);
            vec_keep(&w[v]);
            if (step == 1 && fetches_ahead(a.far, nr, type))
                fetch_keys(a, j, v, nv, type);
        }
        for (size_t i = 0; i < nr; i++) {
            vec b = vec_of(x[i][j]);
            for (size_t v = 0; v < nv; v++)
                c[i][v] = vec_fma(w[v], b, c[i][v]);
        }
    }
    for (size_t i = 0; i < nr; i++)
        for (size_t v = 0; v < nv; v++)
            vec_store(a.s + i * a.lds + v / VECTORS * step * PANEL + v % VECTORS * LANES,
                      vec_mul(c[i][v], vec_of(a.by)));
}

/* One row by panels that are far apart, as one token reads weights (struct streaming). Returns the
 * first panel that is left. For more rows there are too few registers to gain from it. */
VEC_INLINE size_t scores_apart(const struct scores a, enum kv_type type)
{
    size_t step = (a.p1 - a.p0) / PANELS_APART;
    for (size_t p = a.p0; p < a.p0 + step; p++)
        scores_tile(scores_from_panel(a, p, type), 1, PANELS_APART * VECTORS, step, type);
    return a.p0 + PANELS_APART * step;
}

/* The first nr rows against the first np panels. */
VEC_INLINE void scores_rows(const struct scores a, size_t nr, size_t np, enum kv_type type)
{
    size_t nv = nr > 2 && VECTORS > 1 ? VECTORS : KEY_PANELS * VECTORS; /* 4 chains or more */
    size_t p = 0;
    for (; p + nv / VECTORS <= np; p += nv / VECTORS)
        scores_tile(scores_from_panel(a, p, type), nr, nv, 1, type);
    for (; p < np; p++)
        scores_tile(scores_from_panel(a, p, type), nr, VECTORS, 1, type);
}

/* The outer loop is over groups of panels: a group stays in L1 for all tiles of rows. */
VEC_INLINE void scores_all(const struct scores all, enum kv_type type)
{
    int apart = all.n == 1 && reads_apart(all.kernels->streaming);
    size_t p = apart ? scores_apart(all, type) : all.p0;
    for (; p < all.p1; p += KEY_PANELS) {
        size_t np = all.p1 - p < KEY_PANELS ? all.p1 - p : KEY_PANELS, i = 0;
        const struct scores a = scores_from_panel(all, p, type);
        for (; i + 6 <= a.n; i += 6)
            scores_rows(scores_from_row(a, i), 6, np, type);
        for (; i + 4 <= a.n; i += 4)
            scores_rows(scores_from_row(a, i), 4, np, type);
        if (i + 3 == a.n)
            scores_rows(scores_from_row(a, i), 3, np, type);
        if (i + 2 == a.n)
            scores_rows(scores_from_row(a, i), 2, np, type);
        if (i + 1 == a.n)
            scores_rows(scores_from_row(a, i), 1, np, type);
    }
}

/* ---- mix ------------------------------------------------------------------------------------- */

/* The rows from i on. */
VEC_INLINE struct mix mix_from_row(struct mix m, size_t i)
{
    m.o += i;
    m.a += i * m.lda;
    return m;
}

typedef float scaled_weights[TILE_BLOCKS][PANEL]; /* of a row: weights times the values' scales */

/* Some tokens of a tile: all or, of Q8_0, those of one panel. Their values from the tile's first
 * column on, and their weights: of row i, vector v and token t at a + i * lda + block_of(v) + t. */
struct mix_run {
    const void *values;
    size_t ldv, n;
    const float *a;
    size_t lda;
    scaled_weights *scaled; /* [ROWS_MOST], room for the weights of Q8_0 */
};

VEC_INLINE size_t block_of(size_t v, enum kv_type type)
{
    return type == KV_Q8_0 ? v * LANES / BLOCK * PANEL : 0;
}

/* n of a panel's weights from `lane` on, among zeros. Not inlined: rare, and its zeros would take a
 * register of the sums. */
static NOINLINE void pad_weights(float *to, const float *a, size_t lane, size_t n)
{
    memset(to, 0, PANEL * sizeof *to);
    memcpy(to + lane, a, n * sizeof *to);
}

VEC_INLINE void scale_weights(struct mix_run *r, const struct mix m, const uint16_t *scales,
                              size_t done, size_t nr, size_t blocks)
{
    size_t lane = (m.t0 + done) % PANEL;
    for (size_t i = 0; i < nr; i++) {
        float padded[PANEL];
        const float *a = m.a + i * m.lda + done;
        if (r->n < PANEL) {
            pad_weights(padded, a, lane, r->n);
            a = padded;
        }
        for (size_t b = 0; b < blocks; b++)
            for (size_t l = 0; l < PANEL; l += LANES)
                vec_store(r->scaled[i][b] + l,
                          vec_mul(vec_load(a + l), vec_load_f16(scales + b * PANEL + l)));
    }
    r->a = r->scaled[0][0] + lane;
    r->lda = TILE_BLOCKS * PANEL;
}

/* The tokens from `done` on. */
VEC_INLINE void mix_next(struct mix_run *r, const struct mix m, size_t j, size_t done, size_t nr,
                         size_t nv, enum kv_type type)
{
    if (type != KV_Q8_0) {
        r->values = kv_at(m.values, j, type);
        r->ldv = m.ldv, r->n = m.n_keys, r->a = m.a, r->lda = m.lda;
        return;
    }
    size_t t = m.t0 + done, bytes = quant_panel_bytes(&layouts[WEIGHT_Q8_0], kv_padded(m.ldv));
    const char *panel = (const char *)m.values + t / PANEL * bytes;
    size_t left = m.n_keys - done, n = PANEL - t % PANEL;
    j += m.j0;
    r->values = panel + kv_value_at(j, t % PANEL, m.ldv);
    r->ldv = kv_value_columns(j, m.ldv);
    r->n = left < n ? left : n;
    scale_weights(r, m, (const uint16_t *)(const void *)panel + kv_scale_at(j / BLOCK, 0), done, nr,
                  (nv * LANES + BLOCK - 1) / BLOCK);
}

/* c += vector v of token t times its weight in row i. */
VEC_INLINE void mix_add(vec *c, vec w, const struct mix_run *r, size_t i, size_t v, size_t t,
                        enum kv_type type)
{
    *c = vec_fma(w, vec_of(r->a[i * r->lda + block_of(v, type) + t]), *c);
}

/* The first nr rows by nv vectors of columns from j on. nr, nv and type are constants. */
VEC_INLINE void mix_tile(const struct mix m, size_t j, size_t nr, size_t nv, enum kv_type type)
{
    vec c[ROWS_MOST][VECTORS_MOST], w[VECTORS_MOST];
    scaled_weights scaled[ROWS_MOST];
    struct mix_run r = {.scaled = scaled};
    size_t ahead = type == KV_Q8_0 ? VALUES_AHEAD_Q8_0 : VALUES_AHEAD;
    const int at_once = used_at_once(nr, nv);
    for (size_t i = 0; i < nr; i++)
        for (size_t v = 0; v < nv; v++)
            c[i][v] = vec_load(m.o[i] + j + v * LANES);
    for (size_t done = 0; done < m.n_keys; done += r.n) {
        mix_next(&r, m, j, done, nr, nv, type);
        for (size_t t = 0; t < r.n; t++) {
            for (size_t v = 0; v < nv; v++) {
                w[v] = load_kv(r.values, t * r.ldv + v * LANES, type);
                if (fetches_ahead(m.far, nr, type) && v * LANES % kv_line(type) == 0)
                    kv_fetch(r.values, (t + ahead) * r.ldv + v * LANES, type);
                if (at_once)
                    for (size_t i = 0; i < nr; i++) {
                        mix_add(&c[i][v], w[v], &r, i, v, t, type);
                        vec_keep(&c[i][v]);
                    }
                else
                    vec_keep(&w[v]);
            }
            for (size_t i = 0; !at_once && i < nr; i++)
                for (size_t v = 0; v < nv; v++)
                    mix_add(&c[i][v], w[v], &r, i, v, t, type);
        }
    }
    for (size_t i = 0; i < nr; i++)
        for (size_t v = 0; v < nv; v++)
            vec_store(m.o[i] + j + v * LANES, c[i][v]);
}

/* Loads the first n elements at p, n < LANES. Blocks are padded. */
VEC_INLINE vec load_kv_part(const void *p, size_t n, enum kv_type type)
{
    if (type == KV_Q8_0)
        return load_kv(p, 0, type);
    return type == KV_F32 ? vec_load_part((const float *)p, (ptrdiff_t)n, 0)
                          : vec_load_part_f16((const uint16_t *)p, n);
}

/* The columns after the last whole vector: [j, d), fewer than LANES. */
VEC_INLINE void mix_rest(const struct mix m, size_t j, size_t nr, enum kv_type type)
{
    vec c[ROWS_MOST];
    scaled_weights scaled[ROWS_MOST];
    struct mix_run r = {.scaled = scaled};
    size_t columns = m.d - j;
    for (size_t i = 0; i < nr; i++)
        c[i] = vec_load_part(m.o[i] + j, (ptrdiff_t)columns, 0);
    for (size_t done = 0; done < m.n_keys; done += r.n) {
        mix_next(&r, m, j, done, nr, 1, type);
        for (size_t t = 0; t < r.n; t++) {
            vec w = load_kv_part(kv_at(r.values, t * r.ldv, type), columns, type);
            for (size_t i = 0; i < nr; i++)
                c[i] = vec_fma(w, vec_of(r.a[i * r.lda + t]), c[i]);
        }
    }
    for (size_t i = 0; i < nr; i++)
        vec_store_part(m.o[i] + j, c[i], columns);
}

VEC_INLINE void mix_rows(const struct mix m, size_t nr, enum kv_type type)
{
    size_t nv = vectors_for(nr), j = 0;
    for (; type == KV_Q8_0 && (m.j0 + j) % (nv * LANES) && j + LANES <= m.d; j += LANES)
        mix_tile(m, j, nr, 1, type); /* a tile does not cross a multiple of its width */
    for (; j + nv * LANES <= m.d; j += nv * LANES)
        mix_tile(m, j, nr, nv, type);
    for (; nv > 4 && j + 4 * LANES <= m.d; j += 4 * LANES)
        mix_tile(m, j, nr, 4, type);
    for (; nv > 2 && j + 2 * LANES <= m.d; j += 2 * LANES)
        mix_tile(m, j, nr, 2, type);
    for (; j + LANES <= m.d; j += LANES)
        mix_tile(m, j, nr, 1, type);
    if (j < m.d)
        mix_rest(m, j, nr, type);
}

VEC_INLINE void mix_all(struct mix m, enum kv_type type)
{
    size_t i = 0;
    if (type != KV_Q8_0)
        m.values = kv_at(m.values, m.t0 * m.ldv + m.j0, type);
    for (; i + 6 <= m.n; i += 6)
        mix_rows(mix_from_row(m, i), 6, type);
    for (; i + 4 <= m.n; i += 4)
        mix_rows(mix_from_row(m, i), 4, type);
    if (i + 3 == m.n)
        mix_rows(mix_from_row(m, i), 3, type);
    if (i + 2 == m.n)
        mix_rows(mix_from_row(m, i), 2, type);
    if (i + 1 == m.n)
        mix_rows(mix_from_row(m, i), 1, type);
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* By hand: compilers turn the loops of float_tmpl.h into sixteen scalar chains here. */
static float tile_maximum(const float *x, size_t n)
{
    lanes most = lanes_of(x[0]);
    size_t i = 0;
    for (; i + PANEL <= n; i += PANEL)
        most = lanes_max(lanes_load(x + i), most);
    if (i < n)
        most = lanes_max(lanes_load_some(x + i, n - i, x[0]), most);
    return lanes_biggest(most);
}

/* x[i] = e^(x[i] - max). Returns their sum. x[i] - max <= 0, the range of lanes_exp. */
static float tile_exp_less(float *x, float max, size_t n)
{
    lanes all = lanes_of(max), sum = lanes_of(0), e;
    size_t i = 0;
    for (; i + PANEL <= n; i += PANEL) {
        e = lanes_exp(lanes_sub(lanes_load(x + i), all));
        lanes_store(x + i, e);
        sum = lanes_add(sum, e);
    }
    if (i < n) {
        e = lanes_exp(lanes_sub(lanes_load_some(x + i, n - i, max), all));
        lanes_store_some(x + i, n - i, e);
        sum = lanes_first(n - i, lanes_add(sum, e), sum);
    }
    return lanes_reduce(sum);
}

static void tile_softmax(float *x, size_t n)
{
    scale(x, 1.0f / tile_exp_less(x, tile_maximum(x, n), n), n);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Compiles a job twice, with and without prefetching (far: the KV cache is in memory, not in a CPU
 * cache): a test per line would cost what prefetching costs.
 * ALL: the amalgamation does not rename names that are pasted here. */
#define DEFINE_ATTEND(KIND, ALL, TYPE, ID)                                                         \
    static void tile_##KIND##_##TYPE(const struct KIND *job)                                       \
    {                                                                                              \
        struct KIND all = *job;                                                                    \
        if (job->far) {                                                                            \
            all.far = 1;                                                                           \
            ALL(all, ID);                                                                          \
        } else {                                                                                   \
            all.far = 0;                                                                           \
            ALL(all, ID);                                                                          \
        }                                                                                          \
    }
DEFINE_ATTEND(scores, scores_all, f32, KV_F32)
DEFINE_ATTEND(scores, scores_all, f16, KV_F16)
DEFINE_ATTEND(mix, mix_all, f32, KV_F32)
DEFINE_ATTEND(mix, mix_all, f16, KV_F16)
DEFINE_ATTEND(mix, mix_all, q8_0, KV_Q8_0)
#include "kernels/tiles/mix_tiny_tmpl.h"

static void tile_to_f16(uint16_t *dst, const float *src, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store_f16(dst + i, vec_load(src + i));
    to_f16(dst + i, src + i, n - i);
}

static inline void attend_init(struct kernels *k)
{
    k->scores[KV_F32] = tile_scores_f32;
    k->scores[KV_F16] = tile_scores_f16;
    k->mix[KV_F32] = mix_any_f32;
    k->mix[KV_F16] = mix_any_f16;
    k->mix[KV_Q8_0] = tile_mix_q8_0;
    k->to_f16 = tile_to_f16;
    k->softmax = tile_softmax;
}
