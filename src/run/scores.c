/* Changes that some models make to attention scores: ALiBi, a soft cap, sinks. See ops.h. */
#include "run/ops.h"

/* ALiBi (Press et al. 2022): a key that is n positions before the query loses n times the slope of
 * the head. */
void adjust_row(const pass *p, float *s, size_t n, size_t head, size_t back)
{
    const float *slopes = p->model->alibi_slopes;
    for (size_t i = 0; slopes && i < n; i++)
        s[i] -= slopes[head] * (float)(back - i);
    if (p->model->attn_softcap > 0)
        p->kernels->softcap(s, p->model->attn_softcap, n);
}

/* A sink (gpt-oss) is one score more, of no key: the last term of the sum. */
void weigh_keys(const pass *p, size_t head, float *s, size_t n)
{
    const float *sinks = p->model->layers[p->il].sinks;
    if (sinks)
        s[n++] = sinks[head];
    p->kernels->softmax(s, n);
}
