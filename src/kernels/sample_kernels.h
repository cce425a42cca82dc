/* Sampling kernels: the arithmetic per logit. See sample_tmpl.h. */
#ifndef MGPT_SAMPLE_KERNELS_H
#define MGPT_SAMPLE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum { SAMPLE_FEW = 64 };

/* NaN counts as minus infinity. A separate table, because sampling needs no model. kernels_sample()
 * returns the best one that this machine runs. */
struct sample_kernels {
    /* The largest x[i]; minus infinity if all are NaN or n is 0. */
    float (*biggest)(const float *x, size_t n);

    /* w[i] = 2^40 e^((x[i] - max) * inverse_t) rounded to an integer, 0 where e^... < least;
     * returns their sum. w has room for whole panels; n <= 2^23. */
    uint64_t (*weigh)(uint64_t *w, const float *x, size_t n, float max, float inverse_t,
                      float least);

    /* Samples from n <= SAMPLE_FEW such weights: the first token whose running sum exceeds
     * u * total, rounded down, 0 <= u < 1. 0 if all weights are zero. */
    size_t (*few)(const float *x, size_t n, float inverse_t, float least, double u);

    /* sum of e^(x[i] - max) for max >= every x[i], in float64. */
    double (*sum_exp)(const float *x, size_t n, double max);
};

const struct sample_kernels *kernels_sample(void);
extern const struct sample_kernels sample_kernels_scalar;
extern const struct sample_kernels sample_kernels_avx2;
extern const struct sample_kernels sample_kernels_avx512;
extern const struct sample_kernels sample_kernels_neon;

#endif
