/* exp, log, sin and cos in float64 with a fixed order of operations.
 *
 * libm's results differ between machines and versions, and rope angles affect logits. These use
 * only + - * / on doubles, which IEEE 754 defines exactly. Errors are a few 1e-16 (relative;
 * absolute for the reduced sine), far below a float's. Arguments must be finite; each function
 * states its range.
 */
#ifndef MGPT_DMATH_H
#define MGPT_DMATH_H

#include "base/float_bits.h"

/* Nearest integer to x, ties to even, for |x| < 2^51: adding 1.5 * 2^52 rounds away the
 * fraction. */
static inline double d_round(double x)
{
    return (x + 0x1.8p52) - 0x1.8p52;
}

/* e^x; 0 below -708, infinity above 709.78. Taylor series on |r| <= ln2 / 2, scaled by 2^n. */
static inline double d_exp(double x)
{
    if (!(x >= -708.0))
        return x < 0 ? 0.0 : x; /* NaN stays NaN */
    if (x > 709.78)
        return d_from_bits(UINT64_C(0x7FF0000000000000));
    double n = d_round(x * 0x1.71547652b82fep0);
    double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    double sum = 1.0;
    for (int i = 14; i >= 1; i--)
        sum = 1.0 + sum * (r / i);
    int64_t half = (int64_t)n / 2, rest = (int64_t)n - half; /* 2^1024 is not a double */
    return sum * d_from_bits((uint64_t)(half + 1023) << 52) *
           d_from_bits((uint64_t)(rest + 1023) << 52);
}

/* ln x for normal x > 0: x = m * 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2
 * atanh((m-1)/(m+1)). */
static inline double d_log(double x)
{
    uint64_t bits = d_bits(x);
    int64_t e = (int64_t)(bits >> 52) - 1023;
    double m = d_from_bits((bits & UINT64_C(0x000FFFFFFFFFFFFF)) | UINT64_C(0x3FF0000000000000));
    if (m > 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        e++;
    }
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
    for (int i = 23; i >= 1; i -= 2)
        sum = sum * s2 + 1.0 / i;
    return (double)e * 0x1.62e42fefa39efp-1 + 2 * s * sum;
}

/* sin and cos of x, |x| < 2^30. n quarter turns are subtracted in three parts of pi/2 whose
 * products with n are exact or nearly so (Cody and Waite). Taylor series on |r| <= pi/4. */
static inline void d_sincos(double x, double *sine, double *cosine)
{
    double n = d_round(x * 0x1.45f306dc9c883p-1);
    double r = ((x - n * 0x1.921fb544p0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2e037073p-69;
    double r2 = r * r, s = 1.0, c = 1.0;
    for (int i = 18; i >= 2; i -= 2) {
        s = 1.0 - s * (r2 / (i * (i + 1)));
        c = 1.0 - c * (r2 / (i * (i - 1)));
    }
    s *= r;
    unsigned quarter = (unsigned)(int64_t)n & 3;
    double a = quarter & 1 ? c : s, b = quarter & 1 ? s : c;
    *sine = quarter & 2 ? -a : a;
    *cosine = quarter == 1 || quarter == 2 ? -b : b;
}

#endif
