/* Matrix products and norms of the fused step (fused_tmpl.h), for one row or several contiguous
 * rows. Several rows share each loaded tile of weights, their chains of fmaf hide each other's
 * latency, and four norms share their shuffles. A row's result does not depend on their number.
 */
#ifndef MGPT_FUSED_MATMUL_TMPL_H
#define MGPT_FUSED_MATMUL_TMPL_H

#include "kernels/kernels.h"
#include "kernels/simd/lanes.h"
#include "page/fused.h"

enum {
    CHAINS = 4,                      /* per sum of a narrow matrix */
    SUMS = LANES_REGISTERS * 3 / 4,  /* chains that fit in registers with the operands */
    TOGETHER = LANES_REGISTERS / 8,  /* panels per tile of one row */
    PAIR_ROWS = SUMS / (2 * CHAINS), /* rows per tile of two panels; 0: too few registers */
    SINGLE_ROWS = SUMS / CHAINS,     /* rows per tile of one panel */
    ONE_CHAIN_ROWS = 6,              /* the same for sums of one chain */
    TILE_SUMS = 6                    /* largest rows * panels of a tile */
};

/* How a product is written: y = sum, y = max(0, sum), or y += sum. */
enum step_end { STEP_PUT, STEP_RELU, STEP_ADD };

/* y = matrix * x for several rows. Row r of y is at each[r], or at y + r * n_out if each is NULL.
 * Row r of x is at x + r * ldx. */
struct step_product {
    float *y, *const *each;
    const float *w, *bias, *x; /* bias may be NULL */
    size_t ldx, n_in, n_panels;
    enum step_end end;
};

/* Makes the compiler reload what was stored at p: a broadcast from memory is one load, while one
 * from a register is two shuffles. */
VEC_INLINE void step_settle(const float *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* ---- matmul ---- */

VEC_INLINE void step_finish(const struct step_product t, size_t r, size_t p, lanes sum)
{
    float *y = (t.each ? t.each[r] : t.y + r * t.n_panels * PANEL) + p * PANEL;
    if (t.bias)
        sum = lanes_add(sum, lanes_load(t.bias + p * PANEL));
    if (t.end == STEP_RELU)
        sum = lanes_max(lanes_of(0), sum);
    if (t.end == STEP_ADD)
        sum = lanes_add(lanes_load(y), sum);
    lanes_store(y, sum);
}

/* One column of weights for one chain of each sum of a tile. With several rows lanes_keep stops the
 * compiler from loading the weights again for each row. */
VEC_INLINE void step_column(lanes sum[TILE_SUMS], const struct step_product t, const float *w,
                            const float *x, size_t rows, size_t panels)
{
    lanes weights[TILE_SUMS];
    UNROLLED(p, panels) {
        weights[p] = lanes_load(w + p * t.n_in * PANEL);
        if (rows > 1)
            lanes_keep(&weights[p]);
    }
    UNROLLED(r, rows) {
        lanes xk = lanes_of(x[r * t.ldx]);
        UNROLLED(p, panels)
            sum[r * panels + p] = lanes_fma(weights[p], xk, sum[r * panels + p]);
    }
}

/* Rows from r0 and panels from p0 of a product. rows, panels and chains are constants. */
VEC_INLINE void step_tile(const struct step_product t, size_t r0, size_t p0, size_t rows,
                          size_t panels, size_t chains)
{
    lanes sum[CHAINS][TILE_SUMS];
    const float *w = t.w + p0 * t.n_in * PANEL, *x = t.x + r0 * t.ldx;
    UNROLLED(c, chains)
        UNROLLED(s, rows * panels)
            sum[c][s] = lanes_of(0);
    for (size_t k = 0; k < t.n_in; k += chains)
        UNROLLED(c, chains)
            step_column(sum[c], t, w + (k + c) * PANEL, x + k + c, rows, panels);
    UNROLLED(r, rows)
        UNROLLED(p, panels) {
            size_t s = r * panels + p;
            lanes all = sum[0][s];
            if (chains == CHAINS)
                all = lanes_add(lanes_add(all, sum[1][s]), lanes_add(sum[2][s], sum[3][s]));
            step_finish(t, r0 + r, p0 + p, all);
        }
}

/* One row: up to TOGETHER panels at a time. */
VEC_INLINE void step_row(const struct step_product t, size_t r, size_t chains)
{
    size_t p = 0;
    for (; p + TOGETHER <= t.n_panels; p += TOGETHER)
        step_tile(t, r, p, 1, TOGETHER, chains);
    if (TOGETHER > 3 && t.n_panels - p == 3)
        step_tile(t, r, p, 1, TOGETHER > 3 ? 3 : 1, chains);
    else if (TOGETHER > 2 && t.n_panels - p == 2)
        step_tile(t, r, p, 1, TOGETHER > 2 ? 2 : 1, chains);
    else if (t.n_panels - p == 1)
        step_tile(t, r, p, 1, 1, chains);
}

/* All rows of `panels` panels, in tiles of `most` rows, then of two, then of one. */
VEC_INLINE void step_stripe(const struct step_product t, size_t n, size_t p, size_t panels,
                            size_t most, size_t chains)
{
    size_t r = 0;
    for (; r + most <= n; r += most)
        step_tile(t, r, p, most, panels, chains);
    for (; most > 2 && r + 2 <= n; r += 2)
        step_tile(t, r, p, 2, panels, chains);
    for (; r < n; r++)
        step_tile(t, r, p, 1, panels, chains);
}

VEC_INLINE void step_rows(const struct step_product t, size_t n, int one_chain)
{
    size_t p = 0;
    if (n == 1) {
        step_settle(t.x);
        if (one_chain)
            step_row(t, 0, 1);
        else
            step_row(t, 0, CHAINS);
        return;
    }
    for (; one_chain && p < t.n_panels; p++)
        step_stripe(t, n, p, 1, ONE_CHAIN_ROWS, 1);
    for (; PAIR_ROWS > 0 && p + 2 <= t.n_panels; p += 2)
        step_stripe(t, n, p, 2, PAIR_ROWS, CHAINS);
    for (; p < t.n_panels; p++)
        step_stripe(t, n, p, 1, SINGLE_ROWS, CHAINS);
}

/* ---- norms ---- */

VEC_INLINE lanes step_sum(const float *x, size_t E)
{
    lanes sum = lanes_of(0);
    for (size_t i = 0; i < E; i += PANEL)
        sum = lanes_add(sum, lanes_load(x + i));
    return sum;
}

VEC_INLINE lanes step_squares(const float *x, lanes mean, size_t E)
{
    lanes sum = lanes_of(0);
    for (size_t i = 0; i < E; i += PANEL) {
        lanes d = lanes_sub(lanes_load(x + i), mean);
        sum = lanes_fma(d, d, sum);
    }
    return sum;
}

VEC_INLINE void step_normed(float *y, const struct fused_norm *norm, const float *x, lanes mean,
                            lanes inverse, size_t E)
{
    for (size_t i = 0; i < E; i += PANEL) {
        lanes a = lanes_mul(lanes_sub(lanes_load(x + i), mean), inverse);
        if (norm->gain)
            a = lanes_mul(a, lanes_load(norm->gain + i));
        if (norm->bias)
            a = lanes_add(a, lanes_load(norm->bias + i));
        lanes_store(y + i, a);
    }
}

VEC_INLINE void step_norm(float *y, const struct fused_norm *norm, const float *x, size_t E,
                          float eps)
{
    lanes mean = lanes_of(0);
    if (norm->kind == FUSED_LAYERNORM)
        mean = lanes_of(lanes_reduce(step_sum(x, E)) / (float)E);
    float squares = lanes_reduce(step_squares(x, mean, E));
    step_normed(y, norm, x, mean, lanes_of(1.0f / sqrtf(squares / (float)E + eps)), E);
}

VEC_INLINE void step_norm_four(float *y, const struct fused_norm *norm, const float *x, size_t E,
                               float eps)
{
    float means[4] = {0}, inverses[4];
    lanes sums[4];
    quad width = quad_of((float)E);
    if (norm->kind == FUSED_LAYERNORM) {
        for (size_t r = 0; r < 4; r++)
            sums[r] = step_sum(x + r * E, E);
        quad_store(means, quad_div(lanes_reduce_four(sums), width));
    }
    for (size_t r = 0; r < 4; r++)
        sums[r] = step_squares(x + r * E, lanes_of(means[r]), E);
    quad root = quad_sqrt(quad_add(quad_div(lanes_reduce_four(sums), width), quad_of(eps)));
    quad_store(inverses, quad_div(quad_of(1), root));
    for (size_t r = 0; r < 4; r++)
        step_normed(y + r * E, norm, x + r * E, lanes_of(means[r]), lanes_of(inverses[r]), E);
}

/* Norms of n contiguous rows, written to y. Returns y, or x if the model has no norm here. */
VEC_INLINE float *step_norms(float *y, const struct fused_norm *norm, float *x, size_t n, size_t E,
                             float eps)
{
    size_t r = 0;
    if (norm->kind == FUSED_NO_NORM)
        return x;
    for (; r + 4 <= n; r += 4)
        step_norm_four(y + r * E, norm, x + r * E, E, eps);
    for (; r < n; r++)
        step_norm(y + r * E, norm, x + r * E, E, eps);
    return y;
}

#endif
