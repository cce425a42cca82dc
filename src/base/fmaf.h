/* fmaf for WebAssembly, which has no such instruction and whose libc's is a call, and for MinGW-w64, whose fmaf rounds
 * twice.
 *
 * A product of two floats is exact as a double. Its sum with the third is rounded to a double and
 * then to a float, which is wrong only where the double is halfway between two floats without being
 * the exact sum: then the second rounding cannot know on which side that was. In the middle of
 * normal floats a double ends in 1 and 28 zeros; elsewhere it is smaller than 2^-126. Those few
 * sums are rounded to odd instead of to nearest (Boldo and Melquiond 2008): when a sum is not exact
 * its last bit becomes 1, which keeps it off every middle. So the result is fmaf's, always.
 *
 * Included in front of every source there, so that the engine's fmaf is this.
 */
#ifndef MGPT_FMAF_H
#define MGPT_FMAF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* p + c, which is s to the nearest double, rounded to odd. */
static inline double spec_sum_to_odd(double p, double c, double s)
{
    double back = s - p, lost = (p - (s - back)) + (c - back); /* exactly (Knuth's TwoSum) */
    int64_t bits;
    memcpy(&bits, &s, sizeof bits);
    /* Away from zero when what was lost has the sign of s, towards it otherwise. */
    if ((lost > 0 || lost < 0) && !(bits & 1)) /* neither for infinities and NaN */
        bits += (lost > 0) == (s > 0) ? 1 : -1;
    memcpy(&s, &bits, sizeof s);
    return s;
}

static inline float spec_fmaf(float a, float b, float c)
{
    double p = (double)a * (double)b, s = p + (double)c;
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    if (__builtin_expect((bits & 0x1FFFFFFF) == 0x10000000 || fabs(s) < 0x1p-126, 0))
        s = spec_sum_to_odd(p, (double)c, s);
    return (float)s;
}

#define fmaf spec_fmaf

#endif
