/* The search for scales that the encoders share (src/dtype only).
 *
 * A sub-block has n values x with weights w. Its stored values are scale * q - min, with integers q
 * from lo to hi. The search makes the weighted sum of squared errors small:
 *     sum_j w_j (x_j - scale q_j + min)^2
 */
#ifndef MGPT_DTYPE_KSEARCH_H
#define MGPT_DTYPE_KSEARCH_H

#include "dtype/dtype_quant.h"

struct scale_form {
    int lo, hi;  /* of the integers q */
    size_t n;    /* values that share a scale */
    int has_min; /* 0: min is 0 */
    int top; /* of a super-block: scales and minima are 0 to top; without minima -top - 1 to top */
};

enum { SUB_MOST = 16 }; /* sub-blocks of a super-block */

/* A super-block: scale i is d * scale[i], min i is dmin * min[i]. */
struct super_block {
    float d, dmin;
    int scale[SUB_MOST], min[SUB_MOST];
    int8_t q[QK_K];
    double error;
};

/* Finds the numbers of 256 values. weight[256] or NULL: all values count the same. */
void search_super_block(const struct scale_form *f, const float *src, const float *weight,
                        struct super_block *best);

/* Finds scale and min, both of half precision, of f->n values alone; min may be negative. */
void search_block(const struct scale_form *f, const float *src, const float *weight, float *scale,
                  float *min, int8_t *q);

#endif
