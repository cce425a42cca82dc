/* Attention without a model, stage by stage, by the kernels of the engine (Vaswani et al. 2017, eq.
 * 1).
 *
 *     Q = X W_Q   K = X W_K   V = X W_V       a row is a token; projections have a row per dimension of X
 *     S = Q K^T   S / tau   the mask   A = softmax, row by row   A V
 *
 * With several heads the columns of Q, K and V are cut into one slice per head; the outputs are
 * joined.
 */
#ifndef MGPT_ATTEND_STAGES_H
#define MGPT_ATTEND_STAGES_H

#include "attend/attend_matrix.h"
#include "kernels/kernels.h"

struct attend_input {
    const struct matrix *x, *wq, *wk, *wv;
    double tau; /* 0: the square root of a head's width in Q */
    int causal;
    size_t n_heads;
};

struct attend_head {
    struct matrix s, scaled, masked, a, out; /* masked: -inf where nothing is seen */
};

struct attend_stages {
    double tau;
    struct matrix q, k, v, out;
    struct attend_head *heads; /* [n_heads] */
    size_t n_heads;
};

/* Sizes that do not fit together are MGPT_EARG and named. After a failure nothing needs to be
 * freed. */
int attend_run(struct attend_stages *stages, const struct attend_input *in,
               const struct kernels *kernels, mgpt_error *err);
void attend_free(struct attend_stages *stages);

#endif
