/* The functions of the specification (README.md): bits, exp and what is built on it, sums. */
#pragma once

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "this needs float arithmetic in float: -fexcess-precision=fast on s390x, -mfpmath=sse on x86"
#endif

enum { LANES = 16, NARROW = 64 };

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t number(const uint8_t *p, int n_bytes)
{
    uint64_t v = 0;
    for (int i = n_bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static float half(const uint8_t *p)
{
    uint32_t h = (uint32_t)number(p, 2), e = h >> 10 & 31, m = h & 1023;
    float size = ldexpf((float)(e ? m + 1024 : m), e ? (int)e - 25 : -24);
    return (h >> 15 ? -1.0f : 1.0f) * (e < 31 ? size : m ? NAN : INFINITY);
}

/* e^r - 1, where x = n ln 2 + r. */
static float exp_rest(float x, int *n)
{
    static const float c[] = {0x1.123fc6p-7f, 0x1.555916p-5f, 0x1.55548ap-3f, 0x1.fffffcp-2f};
    float p = 0x1.6a1a76p-10f, whole = fmaf(x, 0x1.715476p0f, 0x1.8p23f) - 0x1.8p23f;
    float r = fmaf(whole, -0x1.7f7d1cp-20f, fmaf(whole, -0x1.62e4p-1f, x));
    for (int i = 0; i < 4; i++)
        p = fmaf(p, r, c[i]);
    *n = (int)whole;
    return fmaf(p, r * r, r);
}

static float exp_f32(float x)
{
    int n;
    float rest = exp_rest(fminf(fmaxf(x, -104.0f), 89.0f), &n);
    return x != x ? x : ldexpf(rest + 1.0f, n);
}

static float tanh_f32(float z)
{
    static const float c[] = {0x1.5159fp-6f, -0x1.b81e1cp-5f, 0x1.11064ap-3f, -0x1.55552ep-2f};
    float size = fabsf(z), s = z * z, p = -0x1.72328p-8f;
    for (int i = 0; i < 4; i++)
        p = fmaf(p, s, c[i]);
    float large = 1.0f - 2.0f / (exp_f32(2.0f * size) + 1.0f);
    return copysignf(size < 0.625f ? fmaf(size * s, p, size) : large, z);
}

static float gelu_erf(float v)
{
    static const float c[] = {-0x1.3e4be4p-3f, 0x1.6216bep-3f, -0x1.02ec56p-6f,
                              0x1.3a0056p-4f,  0x1.3710e8p-3f, 0x1.314172p-3f,
                              0x1.81d1fp-3f,   0x1.939c7ap-3f, 0x1.94743p-3f};
    float u = 1.0f / fmaf(fabsf(v), 0x1.fadaa8p-3f, 1.0f), p = 0x1.35767p-5f;
    for (int i = 0; i < 9; i++)
        p = fmaf(p, u, c[i]);
    float tail = 0.5f * exp_f32(-0.5f * v * v) * (u * p);
    return v * (v < 0.0f ? tail : 1.0f - tail);
}

/* xIELU of Apertus. c: alpha_p, alpha_n, beta, -eps. */
static float xielu(float x, const float *c)
{
    int n;
    float rest = exp_rest(fmaxf(fminf(x, -fabsf(c[3])), -30.0f), &n), two_n = ldexpf(1, n);
    float less_1 = fmaf(two_n, rest, two_n - 1.0f);
    return x > 0 ? fmaf(c[0] * x, x, c[2] * x) : fmaf(less_1 - x, c[1], c[2] * x);
}

static float activation(const char *name, float x, const float *c)
{
    if (!strcmp(name, "xielu"))
        return xielu(x, c);
    if (!strcmp(name, "silu"))
        return x / (1.0f + exp_f32(-x));
    if (!strcmp(name, "sigmoid"))
        return 1.0f / (1.0f + exp_f32(-x));
    if (!strcmp(name, "gelu_quick"))
        return x / (1.0f + exp_f32(-1.702f * x));
    if (!strcmp(name, "gelu_erf"))
        return gelu_erf(x);
    if (!strcmp(name, "gelu_tanh"))
        return x / (1.0f + exp_f32(-2.0f * (0x1.988454p-1f * fmaf(0.044715f * x * x, x, x))));
    return x < 0.0f ? 0.0f : strcmp(name, "relu2") ? x : x * x;
}

/* The sum of x, or of (x - mean)^2. */
static float sum_of(const float *x, size_t n, int squares, float mean)
{
    float p[LANES] = {0};
    for (size_t i = 0; i < n; i++)
        p[i % LANES] = squares ? fmaf(x[i] - mean, x[i] - mean, p[i % LANES]) : p[i % LANES] + x[i];
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            p[i] += p[i + width];
    return p[0];
}

static void softmax(float *x, size_t n)
{
    float most = x[0];
    for (size_t i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (size_t i = 0; i < n; i++)
        x[i] = exp_f32(x[i] - most);
    float inverse = 1.0f / sum_of(x, n, 0, 0);
    for (size_t i = 0; i < n; i++)
        x[i] *= inverse;
}

static inline float sigmoid(float x)
{
    float two[] = {x, 0};
    softmax(two, 2);
    return two[0];
}

/* FNV-1a of the bytes of n floats, lowest first. */
static uint64_t hash_floats(uint64_t h, const float *x, size_t n)
{
    for (size_t i = 0; i < 4 * n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i / 4], sizeof bits);
        h = (h ^ (bits >> i % 4 * 8 & 255)) * UINT64_C(0x100000001B3);
    }
    return h;
}

static inline void scale(float *x, size_t n, float by)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= by;
}

static inline void add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

/* limit 0: none */
static inline void clamp(float *x, size_t n, float limit)
{
    for (size_t i = 0; limit > 0 && i < n; i++)
        x[i] = x[i] < -limit ? -limit : x[i] > limit ? limit : x[i];
}

/* ---- float64: angles of rope, constants ---- */

/* The logarithm by m in (sqrt 1/2, sqrt 2] and the series of atanh. */
static inline double ln(double x)
{
    int e;
    double m = frexp(x, &e) * 2, log = 0;
    e -= m > 0x1.6a09e667f3bcdp0 ? 0 : 1;
    m *= m > 0x1.6a09e667f3bcdp0 ? 0.5 : 1;
    double s = (m - 1) / (m + 1);
    for (int i = 23; i >= 1; i -= 2)
        log = log * (s * s) + 1.0 / i;
    return e * 0x1.62e42fefa39efp-1 + 2 * s * log;
}

static inline double exp64(double x)
{
    double sum = 1.0, n = (x * 0x1.71547652b82fep0 + 0x1.8p52) - 0x1.8p52;
    double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    for (int i = 14; i >= 1; i--)
        sum = 1.0 + sum * (r / i);
    return ldexp(sum, (int)n);
}

static inline double power(double base, double x)
{
    return exp64(x * ln(base));
}

static inline double softplus(double x)
{
    return ln(1 + exp64(x));
}

/* log(1 + e^x), also where e^x or its inverse is a small part of 1. */
static inline double softplus_of(double x)
{
    double u = exp64(x > 0 ? -x : x);
    return (x > 0 ? x : 0) + (u < 1e-8 ? u : ln(1 + u));
}

static inline void d_sincos(double x, double *sine, double *cosine)
{
    double n = (x * 0x1.45f306dc9c883p-1 + 0x1.8p52) - 0x1.8p52, s = 1.0, c = 1.0;
    double r = ((x - n * 0x1.921fb544p0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2e037073p-69;
    for (int i = 18; i >= 2; i -= 2) {
        s = 1.0 - s * (r * r / (i * (i + 1)));
        c = 1.0 - c * (r * r / (i * (i - 1)));
    }
    int quarter = (int)((int64_t)n & 3);
    double a = quarter & 1 ? c : s * r, b = quarter & 1 ? s * r : c;
    *sine = quarter & 2 ? -a : a;
    *cosine = quarter == 1 || quarter == 2 ? -b : b;
}

/* The frequency of pair i of n / 2 with YaRN, for the pairs that turn `fast` to `slow` times in the
 * original context between that without scaling and that divided by the factor. */
static inline double yarn(double i, double n, double base, double factor, double context,
                          double fast, double slow, int whole)
{
    double turn = 6.283185307179586, plain = power(base, -2.0 * i / n), f = plain / factor;
    double low = n * ln(context / (fast * turn)) / (2 * ln(base));
    double high = n * ln(context / (slow * turn)) / (2 * ln(base));
    low = whole ? floor(low) : low;
    high = whole ? ceil(high) : high;
    low = low > 0 ? low : 0;
    high = high < n - 1 ? high : n - 1;
    double t = (i - low) / (high - low + (high == low ? 1e-3 : 0));
    return t >= 1 ? f : t > 0 ? f * t + plain * (1 - t) : plain;
}

/* How many of n values are larger than value i, or equal and in front of it. */
static inline size_t rank_of(const float *by, size_t n, size_t i)
{
    size_t before = 0;
    for (size_t k = 0; k < n; k++)
        before += by[k] > by[i] || (by[k] == by[i] && k < i);
    return before;
}

/* -infinity for values outside the `used` of n groups that have the largest sums of their `most` largest; sums: [n] zeros. */
static inline void leave_groups(float *by, float *sums, size_t all, double groups, double used,
                                size_t most)
{
    size_t n = groups > 1 ? (size_t)groups : 1, each = all / n;
    for (size_t rank = 0; rank < most; rank++)
        for (size_t e = 0; e < all && n > 1; e++)
            if (rank_of(by + e / each * each, each, e % each) == rank)
                sums[e / each] += by[e];
    for (size_t e = 0; e < all && n > 1; e++)
        if (rank_of(sums, n, e / each) >= (size_t)used)
            by[e] = -INFINITY;
}

/* Weights by a sparse mixer, from scores in w: `used` times the largest of s that is left, by those near it. */
static inline void mix_experts(float *w, float *s, float *near, size_t X, size_t used, float most)
{
    memcpy(s, w, X * sizeof *s);
    memset(w, 0, X * sizeof *w);
    for (; used > 0; used--) {
        size_t best = 0;
        for (size_t e = 0; e < X; e++)
            best = s[e] > s[best] ? e : best;
        for (size_t e = 0; e < X; e++) {
            float size = fabsf(s[e]) > s[best] ? fabsf(s[e]) : s[best];
            near[e] = (s[best] - s[e]) / size > most ? -INFINITY : s[e];
        }
        softmax(near, X);
        w[best] = near[best];
        s[best] = -INFINITY;
    }
}
