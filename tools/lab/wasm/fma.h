/* fmaf for machines without such an instruction: WebAssembly has none, and its libc's is a call.
 *
 * A product of two floats is exact as a double. The sum with the third is rounded to odd instead of to
 * nearest: when it is not exact, its last bit becomes 1, which says to the second rounding on which side
 * of every midpoint the true sum lies (Boldo and Melquiond 2008; 53 >= 24 + 2 bits, subnormal floats
 * have fewer). What two roundings to nearest would do wrongly is thereby right: fmaf's bits, always.
 *
 * Included in front of every source of the page's module, so that the engine's fmaf is this.
 */
#ifndef MGPT_LAB_FMA_H
#define MGPT_LAB_FMA_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float lab_fmaf(float a, float b, float c)
{
    double p = (double)a * (double)b, s = p + (double)c;
    double back = s - p,
           lost = (p - (s - back)) + ((double)c - back); /* exactly (Knuth's TwoSum) */
    int64_t bits, side;
    memcpy(&bits, &s, sizeof bits);
    /* Away from zero when what was lost has the sign of s, towards it otherwise. */
    side = ((lost > 0) == (s > 0)) ? 1 : -1;
    if (((lost > 0) | (lost < 0)) & !(bits & 1)) /* neither for infinities and NaN */
        bits += side;
    memcpy(&s, &bits, sizeof s);
    return (float)s;
}

#define fmaf lab_fmaf

#endif
