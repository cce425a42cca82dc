/* What some models do to scores before the softmax: ALiBi, a soft cap. See ops.h. */
#include "run/ops.h"

#include "base/dmath.h"

/* ALiBi (Press et al. 2022): a key that is n positions before the query loses n times the slope of
 * the head. Slopes are 2^-alibi to the powers 1/n, 2/n, ... 1, for the largest power of two n of
 * heads; heads beyond those have the powers between. */
static float alibi_slope(double alibi, size_t n_head, size_t head)
{
    size_t n = 1;
    while (n * 2 <= n_head)
        n *= 2;
    double power = head < n ? (double)(head + 1) : (double)(2 * (head - n) + 1) / 2;
    return (float)d_exp(-alibi * power / (double)n * d_log(2));
}

void adjust_row(const pass *p, float *s, size_t n, size_t head, size_t back)
{
    double alibi = p->model->alibi;
    float slope = alibi > 0 ? alibi_slope(alibi, p->model->shape.n_head, head) : 0;
    for (size_t i = 0; alibi > 0 && i < n; i++)
        s[i] -= slope * (float)(back - i);
    if (p->model->attn_softcap > 0)
        p->kernels->softcap(s, p->model->attn_softcap, n);
}
