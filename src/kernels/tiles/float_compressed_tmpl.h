/* matmul of one or a few tokens for BF16_COMPRESSED (pack/float_compressed.h), and its conversion to
 * floats for tiles. Included by float_tile_tmpl.h.
 *
 * A group of columns is unpacked in registers and multiplied with all tokens. That takes less time
 * than reading the bytes that it saves, for weights that come from memory.
 */
#include "kernels/pack/float_compressed.h"
#include "kernels/simd/ivec_zip.h"

enum {
    FEW_SUMS =
        VECTORS == 1 ? 12 : 4, /* rows of a panel, as `lanes`, that are summed in registers */
    FEW_PANELS = VECTORS == 1 ? 6 : 3, /* panels of one token */
    FEW_TOKENS = VECTORS == 1 ? 6 : 4  /* more are tiles */
};

VEC_INLINE const uint8_t *compressed_panel(const struct matmul *m, size_t p)
{
    return (const uint8_t *)m->w + p * compressed_panel_bytes(m->n_in);
}

/* Vector v of the columns of a group to to[column]. */
VEC_INLINE void group_floats(vec to[GROUP], const uint8_t *group, ivec table, size_t v)
{
    const uint8_t *low = group + PLANE + v * sizeof(ivec);
    ivec indices = ivec_load(group + v * sizeof(ivec)), zero = {0}, nibble = ivec_of_byte(15);
    UNROLLED(half, 2) {
        ivec index = (half ? ivec_shift(indices, -4) : indices) & nibble;
        ivec high_bytes = ivec_lookup(table, index), low_bytes = ivec_load(low + half * PLANE);
        UNROLLED(pair, 2) {
            ivec two = ivec_zip_8(low_bytes, high_bytes, pair);
            to[4 * half + 2 * pair] = (vec)ivec_zip_16(zero, two, 0);
            to[4 * half + 2 * pair + 1] = (vec)ivec_zip_16(zero, two, 1);
        }
    }
}

/* Columns [k0, k0 + columns) of a panel as floats; both are multiples of GROUP. */
static void compressed_widen(float *to, const uint8_t *panel, size_t n_in, size_t k0,
                             size_t columns)
{
    int patched = 0;
    for (size_t k = k0; k < k0 + columns; k += GROUP) {
        const uint8_t *table = panel + compressed_table_at(k);
        patched |= compressed_has_patches(table);
        UNROLLED(v, VECTORS) {
            vec w[GROUP];
            group_floats(w, panel + compressed_group_at(k), ivec_of_16(table), v);
            UNROLLED(i, GROUP)
                vec_store(to + (k - k0 + i) * PANEL + v * LANES, w[i]);
        }
    }
    if (patched)
        compressed_patch(to, panel, n_in, k0, columns);
}

/* Columns [k, k + columns), inside a span, of `panels` panels from p on. Bit i of `patched`: panel i
 * has patches. */
struct span_work {
    const struct matmul *m;
    size_t p, panels, k, columns;
    int patched;
};

/* Multiplies the spans with patches: the sums of panel p and token i, sums[i * panels + p], become
 * those in `before` plus its products. Not inlined: rare, and a call would take the registers of the
 * sums. */
static NOINLINE void patched_spans(const struct span_work *s, float (*before)[PANEL],
                                   float (*sums)[PANEL])
{
    float wide[SPAN * PANEL];
    for (size_t p = 0; s->patched >> p; p++) {
        if (!(s->patched >> p & 1))
            continue;
        compressed_widen(wide, compressed_panel(s->m, s->p + p), s->m->n_in, s->k, s->columns);
        for (size_t i = 0; i < s->m->n; i++) {
            const float *x = (const float *)matmul_x(s->m, i) + s->k;
            lanes c = lanes_load(before[i * s->panels + p]);
            for (size_t k = 0; k < s->columns; k++)
                c = lanes_fma(lanes_load(wide + k * PANEL), lanes_of(x[k]), c);
            lanes_store(sums[i * s->panels + p], c);
        }
    }
}

/* Multiplies a span as if it had no patches. tokens and panels are constants. */
VEC_INLINE void span_run(lanes *c, const struct span_work *s, size_t tokens, size_t panels)
{
    size_t stride = compressed_panel_bytes(s->m->n_in);
    const uint8_t *w = compressed_panel(s->m, s->p), *table = w + compressed_table_at(s->k);
    const uint8_t *group = w + compressed_group_at(s->k);
    const float *x[FEW_TOKENS];
    UNROLLED(i, tokens)
        x[i] = (const float *)matmul_x(s->m, i) + s->k;
    for (size_t k = 0; k < s->columns; k += GROUP, group += GROUP_BYTES)
        UNROLLED(p, panels) {
            UNROLLED(line, GROUP_BYTES / PLANE)
                vec_prefetch((uintptr_t)group + p * stride + AHEAD + line * PLANE);
            UNROLLED(v, VECTORS) {
                vec a[GROUP];
                group_floats(a, group + p * stride, ivec_of_16(table + p * stride), v);
                UNROLLED(j, GROUP)
                    UNROLLED(i, tokens) {
                        vec *sum = &c[i * panels + p].v[v];
                        *sum = vec_fma(a[j], vec_of(x[i][k + j]), *sum);
                    }
            }
        }
}

/* All tokens, `tokens` of them, with panels [p, p + panels). Spans with patches are computed again.
 */
VEC_INLINE void few_run(const struct matmul *m, size_t p, size_t tokens, size_t panels)
{
    lanes c[FEW_SUMS];
    float before[FEW_SUMS][PANEL], sums[FEW_SUMS][PANEL];
    size_t stride = compressed_panel_bytes(m->n_in);
    struct span_work s = {.m = m, .p = p, .panels = panels};
    UNROLLED(i, tokens * panels)
        c[i] = lanes_of(0);
    for (; s.k < m->n_in; s.k += SPAN) {
        const uint8_t *table = compressed_panel(m, p) + compressed_table_at(s.k);
        s.columns = m->n_in - s.k < SPAN ? m->n_in - s.k : SPAN;
        s.patched = 0;
        UNROLLED(i, panels)
            s.patched |= compressed_has_patches(table + i * stride) << i;
        if (s.patched)
            UNROLLED(i, tokens * panels)
                lanes_store(before[i], c[i]);
        span_run(c, &s, tokens, panels);
        if (s.patched) {
            UNROLLED(i, tokens * panels)
                lanes_store(sums[i], c[i]);
            patched_spans(&s, before, sums);
            UNROLLED(i, tokens * panels)
                c[i] = lanes_load(sums[i]);
        }
    }
    UNROLLED(i, tokens * panels)
        lanes_store(sums[i], c[i]);
    for (size_t i = 0; i < tokens; i++)
        memcpy(m->y + i * m->ldy + p * PANEL, sums[i * panels],
               rows_of_panels(m->n_out, p, panels) * sizeof(float));
}

/* As many panels at a time as the registers hold sums of, then the others one by one. */
#define FEW_CASE(N)                                                                                \
    case N:                                                                                        \
        for (; p + FEW_SUMS / FEW_OF(N) <= m->p1; p += FEW_SUMS / FEW_OF(N))                       \
            few_run(m, p, FEW_OF(N), FEW_SUMS / FEW_OF(N));                                        \
        for (; p < m->p1; p++)                                                                     \
            few_run(m, p, FEW_OF(N), 1);                                                           \
        break;
#define FEW_OF(N) (N < FEW_TOKENS ? N : FEW_TOKENS)

static NOINLINE void few_tokens(const struct matmul *m)
{
    size_t p = m->p0;
    switch (m->n) {
        FEW_CASE(2)
        FEW_CASE(3)
        FEW_CASE(4)
        FEW_CASE(5)
        FEW_CASE(6)
    default:
        break;
    }
}
