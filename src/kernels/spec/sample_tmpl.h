/* Sampling kernels (sample_kernels.h), in the vectors of the including ISA level (fixed.h).
 *
 * Weights are integers, in units of 2^-40 of the largest one. Their sums are exact, so neither the
 * order of addition nor the vector width changes the sampled token, and 2^23 of them cannot
 * overflow 64 bits. sum_exp is for reported probabilities: float64, sixteen partial sums.
 */
#ifndef MGPT_KERNELS_SAMPLE_TMPL_H
#define MGPT_KERNELS_SAMPLE_TMPL_H

#include "base/dmath.h"
#include "kernels/kernels.h"
#include "kernels/simd/fixed.h"

#include <float.h>

/* Values down here count as minus infinity, and so does NaN. */
#define MASKED (-FLT_MAX)

static float sample_biggest(const float *x, size_t n)
{
    lanes most = lanes_of(-INFINITY);
    size_t i = 0;
    for (; i + PANEL <= n; i += PANEL)
        most = lanes_max(lanes_load(x + i), most); /* in this order NaN is ignored */
    if (i < n)
        most = lanes_max(lanes_load_some(x + i, n - i, -INFINITY), most);
    return lanes_biggest(most);
}

/* The parameters of all weights. */
struct sample_by {
    lanes max, inverse_t;
    float least; /* times 2^40 */
};

/* e^-45 rounds to weight 0; smaller floats would be slow. */
VEC_INLINE fixed sample_weight(lanes x, const struct sample_by by)
{
    lanes c = lanes_min(lanes_max(x, lanes_of(MASKED)), lanes_of(FLT_MAX));
    lanes e = lanes_max(lanes_mul(lanes_sub(c, by.max), by.inverse_t), lanes_of(-45.0f));
    lanes w = lanes_exp_by(e, 40);
    if (by.least > 0)
        w = lanes_at_least(w, lanes_of(by.least), w);
    return fixed_of(lanes_at_least(c, lanes_of(-0x1.fffffcp127f), w));
}

static inline struct sample_by sample_by(lanes max, float inverse_t, float least)
{
    return (struct sample_by){lanes_min(max, lanes_of(FLT_MAX)), lanes_of(inverse_t),
                              least * 0x1p40f};
}

static uint64_t sample_weigh(uint64_t *w, const float *x, size_t n, float max, float inverse_t,
                             float least)
{
    const struct sample_by by = sample_by(lanes_of(max), inverse_t, least);
    fixed sum = fixed_zero();
    size_t i = 0;
    for (; i + PANEL <= n; i += PANEL) {
        fixed row = sample_weight(lanes_load(x + i), by);
        fixed_store(w + i, row);
        sum = fixed_add(sum, row);
    }
    if (i < n) {
        fixed row = sample_weight(lanes_load_some(x + i, n - i, -INFINITY), by);
        fixed_store(w + i, row);
        sum = fixed_add(sum, row);
    }
    return fixed_sum(sum);
}

/* sample_few for logits that all fit in registers; panels is a constant. Latency bounds this, not
 * throughput. */
VEC_INLINE size_t sample_panels(const float *x, size_t n, float inverse_t, float least, double u,
                                size_t panels)
{
    lanes row[SAMPLE_FEW / PANEL], most = lanes_of(-INFINITY);
    fixed w[SAMPLE_FEW / PANEL];
    for (size_t p = 0; p < panels; p++) {
        size_t from = p * PANEL < n ? p * PANEL : n;
        row[p] = lanes_load_some(x + from, n - from, -INFINITY);
        most = lanes_max(row[p], most);
    }
    const struct sample_by by = sample_by(lanes_biggest_all(most), inverse_t, least);
    for (size_t p = 0; p < panels; p++)
        w[p] = sample_weight(row[p], by);
    size_t token = fixed_passed(w, panels, u);
    return token < n ? token : 0; /* all are zero */
}

static size_t sample_few(const float *x, size_t n, float inverse_t, float least, double u)
{
    if (n <= 2 * PANEL)
        return sample_panels(x, n, inverse_t, least, u, 2);
    return sample_panels(x, n, inverse_t, least, u, SAMPLE_FEW / PANEL);
}

/* e^x for x <= 0 (NaN: 0), like d_exp but without a branch: the multiple of ln 2 is the low bits
 * after adding 1.5 * 2^52, and reciprocal factorials replace divisions. */
static inline double sample_exp(double x)
{
    static const double f[] = {1 / 87178291200.0,
                               1 / 6227020800.0,
                               1 / 479001600.0,
                               1 / 39916800.0,
                               1 / 3628800.0,
                               1 / 362880.0,
                               1 / 40320.0,
                               1 / 5040.0,
                               1 / 720.0,
                               1 / 120.0,
                               1 / 24.0,
                               1 / 6.0,
                               0.5,
                               1.0,
                               1.0};
    double c = x > -700.0 ? x : -700.0;
    double shifted = c * 0x1.71547652b82fep0 + 0x1.8p52, n = shifted - 0x1.8p52;
    double r = (c - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33, sum = f[0];
    for (size_t i = 1; i < sizeof f / sizeof *f; i++)
        sum = sum * r + f[i];
    double power = d_from_bits((d_bits(shifted) + 1023) << 52); /* the other bits are shifted out */
    return x > -700.0 ? sum * power : 0.0;
}

static double sample_sum_exp(const float *x, size_t n, double max)
{
    double p[PANEL] = {0};
    size_t i = 0;
    for (; i + PANEL <= n; i += PANEL)
        for (size_t l = 0; l < PANEL; l++)
            p[l] += sample_exp((double)x[i + l] - max);
    for (size_t l = 0; i + l < n; l++)
        p[l] += sample_exp((double)x[i + l] - max);
    for (size_t width = PANEL / 2; width > 0; width /= 2)
        for (size_t l = 0; l < width; l++)
            p[l] += p[l + width];
    return p[0];
}

#endif
