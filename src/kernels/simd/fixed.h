/* Sixteen integers of 64 bits: the weights of sampling (sample_tmpl.h). */
#ifndef MGPT_KERNELS_FIXED_H
#define MGPT_KERNELS_FIXED_H

#include "kernels/simd/lanes.h"

#if !defined(LANES_FIXED)

typedef struct {
    uint64_t v[16];
} fixed;

VEC_INLINE fixed fixed_zero(void)
{
    return (fixed){{0}};
}

/* Rounds to nearest, ties to even, for 0 <= a <= 2^40: after adding 2^52 the low bits are the
 * integer. */
VEC_INLINE fixed fixed_of(lanes a)
{
    float x[16];
    fixed f;
    lanes_store(x, a);
    for (size_t i = 0; i < 16; i++) {
        double d = (double)x[i] + 0x1p52;
        memcpy(&f.v[i], &d, sizeof d);
        f.v[i] -= UINT64_C(0x4330000000000000);
    }
    return f;
}

VEC_INLINE fixed fixed_add(fixed a, fixed b)
{
    for (size_t i = 0; i < 16; i++)
        a.v[i] += b.v[i];
    return a;
}

VEC_INLINE void fixed_store(uint64_t *p, fixed a)
{
    memcpy(p, a.v, sizeof a.v);
}

VEC_INLINE uint64_t fixed_sum(fixed a)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < 16; i++)
        sum += a.v[i];
    return sum;
}

/* The number of lanes, over n values in order, whose running sum is at most u * total, rounded
 * down. */
VEC_INLINE size_t fixed_passed(const fixed *a, size_t n, double u)
{
    uint64_t sum = 0, target;
    size_t count = 0;
    for (size_t j = 0; j < n; j++)
        sum += fixed_sum(a[j]);
    target = (uint64_t)(u * (double)sum);
    sum = 0;
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < 16; i++) {
            sum += a[j].v[i];
            count += sum <= target; /* no branch: it could not be predicted */
        }
    return count;
}

#endif
#endif
