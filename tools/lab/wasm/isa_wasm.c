/* The ISA level of a page: the scalar one, with products of float matrices in WebAssembly's vectors
 * of two doubles. In place of scalar.c; the bits are the specification's (float_tmpl.h).
 *
 * A panel's 16 sums are floats held as doubles. A step multiplies (exactly) and adds as doubles,
 * then rounds to floats. That is fmaf unless a sum falls into the middle between two floats
 * (fma.h): such steps, one in a hundred with halves as weights, are done again with care. Sums
 * below 2^-126 need none: where weights and inputs are 0 or at least 2^-60 in size, all products
 * are multiples of 2^-166, so such a sum is exact as a double. With smaller numbers every step is
 * done with care.
 */
#define ISA scalar
#include "kernels/spec/float_tmpl.h"

#include <wasm_simd128.h>

enum { TOKENS = 16, VECTORS = 4 }; /* with their sums, four fit into 16 registers */

#define EACH_VECTOR _Pragma("clang loop unroll(full)") for (size_t v = 0; v < VECTORS; v++)

struct panel_columns {
    double w[WIDEN * PANEL];
};

struct panel_sums {
    double c[4][PANEL]; /* floats, one row per chain */
};

static int has_tiny(const float *x, size_t n)
{
    int tiny = 0;
    for (size_t i = 0; i < n; i++)
        tiny |= (fabsf(x[i]) < 0x1p-60f) & (x[i] != 0);
    return tiny;
}

/* Converts n weights to float. */
typedef void widen_fn(float *dst, const void *src, size_t n);

static int load_columns(struct panel_columns *to, widen_fn *widen, const void *from, size_t n)
{
    float wide[WIDEN * PANEL];
    widen(wide, from, n * PANEL);
    for (size_t i = 0; i < n * PANEL; i++)
        to->w[i] = (double)wide[i];
    return has_tiny(wide, n * PANEL);
}

/* Two sums, rounded to odd before they are rounded to floats. */
static v128_t add_with_care(v128_t p, v128_t c, v128_t s)
{
    double parts[3][2];
    wasm_v128_store(parts[0], p);
    wasm_v128_store(parts[1], c);
    wasm_v128_store(parts[2], s);
    return wasm_f64x2_make(lab_sum_to_odd(parts[0][0], parts[1][0], parts[2][0]),
                           lab_sum_to_odd(parts[0][1], parts[1][1], parts[2][1]));
}

/* Every `step`-th of n columns onto the eight sums at c: w are weights of 16 rows, so they are half
 * a panel. */
static void add_columns(double *c, const double *w, const float *x, size_t n, size_t step,
                        int careful)
{
    const v128_t low = wasm_i32x4_const(0x1FFFFFFF, 0, 0x1FFFFFFF, 0);
    const v128_t middle = wasm_i32x4_const(0x10000000, 1, 0x10000000, 1); /* no high word is 1 */
    v128_t a[VECTORS], s[VECTORS];
    for (size_t v = 0; v < VECTORS; v++)
        a[v] = wasm_v128_load(c + 2 * v);
    for (size_t k = 0; k < n; k += step) {
        v128_t by = wasm_f64x2_splat((double)x[k]), unsure = wasm_i32x4_splat(careful);
        EACH_VECTOR
        {
            s[v] = wasm_f64x2_add(wasm_f64x2_mul(wasm_v128_load(w + k * PANEL + 2 * v), by), a[v]);
            unsure = wasm_v128_or(unsure, wasm_i32x4_eq(wasm_v128_and(s[v], low), middle));
        }
        if (__builtin_expect(wasm_v128_any_true(unsure), 0))
            EACH_VECTOR s[v] = add_with_care(
                wasm_f64x2_mul(wasm_v128_load(w + k * PANEL + 2 * v), by), a[v], s[v]);
        EACH_VECTOR a[v] = wasm_f64x2_promote_low_f32x4(wasm_f32x4_demote_f64x2_zero(s[v]));
    }
    for (size_t v = 0; v < VECTORS; v++)
        wasm_v128_store(c + 2 * v, a[v]);
}

static void add_chains(struct panel_sums *s, size_t n_chains, const struct panel_columns *w,
                       const float *x, size_t n, int careful)
{
    for (size_t i = 0; i < n_chains && i < n; i++)
        for (size_t l = 0; l < PANEL; l += 2 * VECTORS)
            add_columns(s->c[i] + l, w->w + i * PANEL + l, x + i, n - i, n_chains, careful);
}

static void store_sums(float *y, const struct panel_sums *s, size_t n_chains, size_t rows)
{
    struct chains floats;
    for (size_t i = 0; i < n_chains; i++)
        for (size_t l = 0; l < PANEL; l++)
            floats.c[i][l] = (float)s->c[i][l];
    chains_reduce(y, &floats, n_chains, rows);
}

/* Element types of weights: how they become floats, and their bytes. */
struct pairs_type {
    widen_fn *widen;
    size_t bytes;
};

/* Panel p times m->n <= TOKENS tokens; some want care. */
static void multiply(const struct matmul *m, const struct pairs_type type, size_t p,
                     const int careful[TOKENS])
{
    size_t n_chains = m->n_out > NARROW ? 1 : 4;
    struct panel_sums sums[TOKENS] = {{{{0}}}};
    struct panel_columns w;
    for (size_t k = 0; k < m->n_in; k += WIDEN) {
        size_t n_columns = m->n_in - k < WIDEN ? m->n_in - k : WIDEN;
        const char *from = (const char *)m->w + (p * m->n_in + k) * PANEL * type.bytes;
        int tiny = load_columns(&w, type.widen, from, n_columns);
        for (size_t i = 0; i < m->n; i++) {
            const float *row = matmul_x(m, i);
            add_chains(&sums[i], n_chains, &w, row + k, n_columns, tiny | careful[i]);
        }
    }
    for (size_t i = 0; i < m->n; i++)
        store_sums(m->y + i * m->ldy + p * PANEL, &sums[i], n_chains,
                   rows_of_panels(m->n_out, p, 1));
}

static void matmul_by_pairs(const struct matmul *all, const struct pairs_type type)
{
    for (size_t first = 0; first < all->n; first += TOKENS) {
        struct matmul m = *all;
        int careful[TOKENS];
        m.n = all->n - first < TOKENS ? all->n - first : TOKENS;
        m.x = matmul_x(all, first);
        m.y += first * m.ldy;
        for (size_t i = 0; i < m.n; i++)
            careful[i] = has_tiny(matmul_x(&m, i), m.n_in);
        for (size_t p = m.p0; p < m.p1; p++)
            multiply(&m, type, p, careful);
    }
}

#define DEFINE_LINEAR(NAME, BYTES)                                                                 \
    static void pairs_##NAME(const struct matmul *m)                                               \
    {                                                                                              \
        matmul_by_pairs(m, (struct pairs_type){widen_##NAME, BYTES});                              \
    }

DEFINE_LINEAR(f32, 4)
DEFINE_LINEAR(f16, 2)
DEFINE_LINEAR(bf16, 2)

void kernels_init_scalar(struct kernels *k)
{
    spec_init(k);
    k->matmul[WEIGHT_F32] = pairs_f32;
    k->matmul[WEIGHT_F16] = pairs_f16;
    k->matmul[WEIGHT_BF16] = pairs_bf16;
}
