/* The oracle's operations. See oracle_math.h. */
#include "check/oracle/oracle_math.h"

#include <math.h>
#include <string.h>

/* To a multiple of 2^(e - bits), where x is below 2^e, or of the least one that the type has. */
double math_rounded(const struct oracle_spec *s, double x)
{
    static const struct {
        int bits, least;
        double most;
    } types[] = {[ORACLE_BF16] = {8, -133, 0x1.fep127},
                 [ORACLE_F16] = {11, -24, 65504},
                 [ORACLE_F8_E4M3] = {4, -9, 448},
                 [ORACLE_F8_E5M2] = {3, -16, 57344},
                 [ORACLE_TF32] = {11, -136, 0x1.ffcp127}};
    int bits = types[s->type].bits, least = types[s->type].least;
    uint64_t word;
    if (s->type == ORACLE_EXACT || x == 0 || !isfinite(x))
        return x;
    if (fabs(x) > 2 * types[s->type].most)
        return copysign(INFINITY, x);
    memcpy(&word, &x, sizeof word);
    int e = (int)(word >> 52 & 0x7ff) - 1022;
    e = e - bits > least ? e - bits : least;
    word = (uint64_t)(e + 52 + 1023) << 52 | UINT64_C(1) << 51;
    double large, y; /* 1.5 * 2^(e + 52), whose last bit counts 2^e */
    memcpy(&large, &word, sizeof large);
    y = x + large - large;
    return copysign(fabs(y) > types[s->type].most ? INFINITY : y, x);
}

void math_round(const struct oracle_spec *s, double *x, size_t n)
{
    for (size_t i = 0; s->type != ORACLE_EXACT && s->rounded == ORACLE_ALL && i < n; i++)
        x[i] = math_rounded(s, x[i]);
}

/* The mean of squares about `mean`. */
static double variance(const struct oracle_spec *s, const double *x, size_t w, double mean)
{
    int terms = s->rounded == ORACLE_NORMS || s->rounded == ORACLE_SQUARES;
    double square = 0;
    for (size_t i = 0; i < w; i++) {
        double d = terms ? math_rounded(s, x[i]) - mean : x[i] - mean;
        square += (terms ? math_rounded(s, d * d) : d * d) / (double)w;
    }
    if (s->norm_how == ORACLE_NORM_SUM)
        square *= (double)w;
    if (s->norm_how == ORACLE_NORM_UNBIASED && w > 1)
        square *= (double)w / (double)(w - 1);
    return s->rounded >= ORACLE_NORMS && s->rounded <= ORACLE_VARIANCE ? math_rounded(s, square)
                                                                       : square;
}

/* Each factor and product rounded. */
static double norm_rounded(const struct oracle_spec *s, double x, double by, double gain)
{
    if (s->rounded == ORACLE_NORMS)
        x = math_rounded(s, x), by = math_rounded(s, by), gain = math_rounded(s, gain);
    return math_rounded(s, math_rounded(s, x * by) * gain);
}

/* What x less its mean is divided by. */
static double norm_size(const struct oracle_spec *s, const double *x, size_t w, double mean)
{
    double square = variance(s, x, w, mean);
    double eps = s->norm_how == ORACLE_NORM_EPS ? s->norm_eps : s->eps;
    if (s->norm_how == ORACLE_NORM_GAIN_ONLY)
        return 1;
    return s->norm_how == ORACLE_NORM_EPS_OUTSIDE ? sqrt(square) + eps : sqrt(square + eps);
}

static void norm_row(const struct oracle_spec *s, double *y, const double *x, size_t w,
                     const float *gain, const float *bias)
{
    int rounds = s->type != ORACLE_EXACT && s->rounded <= ORACLE_NORMS && !s->layer_norm;
    int first = s->norm_how == ORACLE_NORM_GAIN_FIRST;
    int centred =
        s->norm_how != ORACLE_NORM_GAIN_ONLY && s->layer_norm != (s->norm_how == ORACLE_NORM_OTHER);
    double mean = 0;
    for (size_t i = 0; i < w; i++)
        y[i] = x[i] * (first && gain ? (double)gain[i] : 1);
    for (size_t i = 0; i < w && centred; i++)
        mean += y[i] / (double)w;
    double size = norm_size(s, y, w, mean);
    for (size_t i = 0; i < w; i++) {
        double g = gain && !first ? (double)gain[i] : 1, b = bias ? (double)bias[i] : 0;
        y[i] = rounds ? norm_rounded(s, y[i], 1 / size, g) : (y[i] - mean) / size * g + b;
        y[i] = s->rounded == ORACLE_NORM_RESULTS ? math_rounded(s, y[i]) : y[i];
    }
    math_round(s, y, w);
}

void math_norm(const struct oracle_spec *s, double *y, const double *x, size_t n, size_t w,
               const float *gain, const float *bias)
{
    if (s->norm_how == ORACLE_NORM_LEFT_OUT) {
        memmove(y, x, n * w * sizeof *y);
        return;
    }
    for (size_t row = 0; row < n; row++, x += w, y += w) {
        norm_row(s, y, x, w, gain, bias);
        if (s->norm_how == ORACLE_NORM_TWICE)
            norm_row(s, y, y, w, gain, bias);
    }
}

enum math_act {
    XIELU,
    RELU,
    RELU2,
    SIGMOID,
    SILU,
    GELU_QUICK,
    GELU_ERF,
    GELU_TANH,
    TANH,
    NONE,
    N_ACTS
};

static double activation(enum math_act act, const double c[4], double x)
{
    switch (act) {
    case XIELU:
        return (x > 0 ? c[0] * x * x : c[1] * (expm1(isnan(x) ? x : fmin(x, c[3])) - x)) + c[2] * x;
    case RELU:
        return x > 0 || isnan(x) ? x : 0;
    case RELU2:
        return x > 0 || isnan(x) ? x * x : 0;
    case SIGMOID:
        return 1 / (1 + exp(-x));
    case SILU:
        return x / (1 + exp(-x));
    case GELU_QUICK:
        return x / (1 + exp(-1.702 * x));
    case GELU_ERF:
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    case GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case TANH:
        return tanh(x);
    default:
        return act == NONE ? x : (double)NAN;
    }
}

void math_activate(const struct oracle_layer *l, double *x, size_t n)
{
    static const char *const names[] = {"xielu",      "relu",     "relu2",     "sigmoid", "silu",
                                        "gelu_quick", "gelu_erf", "gelu_tanh", "tanh",    "none"};
    _Static_assert(sizeof names / sizeof *names == N_ACTS, "a row each");
    int act = 0;
    while (act < N_ACTS && strcmp(names[act], l->activation) != 0)
        act++;
    for (size_t i = 0; i < n; i++)
        x[i] = activation((enum math_act)act, l->xielu, x[i]);
}

void math_softmax(double *row, size_t n, double sink, enum oracle_softmax how)
{
    double max = sink, sum = 0;
    for (size_t i = 0; i < n; i++)
        max = fmax(max, row[i]);
    sum = exp(sink - max);
    for (size_t i = 0; i < n; i++)
        sum += row[i] = exp(row[i] - max);
    sum += how == ORACLE_SUM_FROM_1 ? 1 : how == ORACLE_SUM_WITH_0 ? exp(-max) : 0;
    for (size_t i = 0; i < n; i++)
        row[i] /= sum;
}

double math_cap(double x, double cap)
{
    return cap != 0 ? cap * tanh(x / cap) : x;
}

void math_to_int8(double *x, size_t n)
{
    for (size_t i = 0; i + 32 <= n; i += 32) {
        float largest = 0;
        for (size_t j = i; j < i + 32; j++)
            largest = fmaxf(largest, fabsf((float)x[j]));
        float step = largest / 127, per_step = largest > 0 ? 127 / largest : 0;
        for (size_t j = i; j < i + 32; j++)
            x[j] = (double)step * (double)rintf((float)x[j] * per_step);
    }
}

void math_transpose(double *block, const double *x, size_t n_in, size_t n)
{
    for (size_t t = 0; t < MATH_ROWS; t++)
        for (size_t i = 0; i < n_in; i++)
            block[i * MATH_ROWS + t] = t < n ? x[t * n_in + i] : 0;
}

/* A third of a block's rows. On machines without vectors of that length the compiler uses shorter
 * ones. */
typedef double vec4 __attribute__((vector_size(32), aligned(8), may_alias));

/* n_w and n_vec are constants where it is inlined, so the sums are in registers. */
__attribute__((always_inline)) static inline void dots(const float *w, size_t n_w,
                                                       const double *block, size_t n_in,
                                                       size_t n_vec, double sum[][MATH_ROWS])
{
    vec4 s[MATH_COLS][MATH_ROWS / 4];
#pragma GCC unroll 12
    for (size_t k = 0; k < n_w * n_vec; k++)
        s[k / n_vec][k % n_vec] = ((const vec4 *)sum[k / n_vec])[k % n_vec];
    for (size_t i = 0; i < n_in; i++) {
        const vec4 *x = (const vec4 *)(block + i * MATH_ROWS);
#pragma GCC unroll 12
        for (size_t k = 0; k < n_w * n_vec; k++)
            s[k / n_vec][k % n_vec] += (double)w[k / n_vec * n_in + i] * x[k % n_vec];
    }
#pragma GCC unroll 12
    for (size_t k = 0; k < n_w * n_vec; k++)
        ((vec4 *)sum[k / n_vec])[k % n_vec] = s[k / n_vec][k % n_vec];
}

__attribute__((always_inline)) static inline void dots_of(const float *w, size_t n_w,
                                                          const double *block, size_t n_in,
                                                          size_t n, double sum[][MATH_ROWS])
{
    if (n_w == 1)
        dots(w, 1, block, n_in, 3, sum);
    else if (n > 8)
        dots(w, MATH_COLS, block, n_in, 3, sum);
    else if (n > 4)
        dots(w, MATH_COLS, block, n_in, 2, sum);
    else
        dots(w, MATH_COLS, block, n_in, 1, sum);
}

/* 2 x 4 rows with one. */
__attribute__((always_inline)) static inline void dots_with_one(const float *w, const double *x,
                                                                size_t n, double *y)
{
    vec4 a = ((const vec4 *)y)[0], b = ((const vec4 *)y)[1];
    for (size_t i = 0; i < n; i++) {
        const float *at = w + i;
        vec4 c = {(double)at[0], (double)at[n], (double)at[2 * n], (double)at[3 * n]};
        vec4 d = {(double)at[4 * n], (double)at[5 * n], (double)at[6 * n], (double)at[7 * n]};
        a += c * x[i];
        b += d * x[i];
    }
    ((vec4 *)y)[0] = a;
    ((vec4 *)y)[1] = b;
}

#ifdef __x86_64__ /* the same sums, four at a time */
__attribute__((target("avx2"))) static void dots_with_one_avx2(const float *w, const double *x,
                                                               size_t n, double *y)
{
    dots_with_one(w, x, n, y);
}

__attribute__((target("avx2"))) static void dots_avx2(const float *w, size_t n_w,
                                                      const double *block, size_t n_in, size_t n,
                                                      double sum[][MATH_ROWS])
{
    dots_of(w, n_w, block, n_in, n, sum);
}
#endif

void math_dots(const float *w, size_t n_w, const double *block, size_t n_in, size_t n,
               double sum[][MATH_ROWS])
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        dots_avx2(w, n_w, block, n_in, n, sum);
        return;
    }
#endif
    dots_of(w, n_w, block, n_in, n, sum);
}

void math_dots_with_one(const float *w, size_t n_w, const double *x, size_t n_in, double *y)
{
    size_t k = 0;
    for (; k + 8 <= n_w; k += 8) {
#ifdef __x86_64__
        if (__builtin_cpu_supports("avx2")) {
            dots_with_one_avx2(w + k * n_in, x, n_in, y + k);
            continue;
        }
#endif
        dots_with_one(w + k * n_in, x, n_in, y + k);
    }
    for (; k < n_w; k++)
        for (size_t i = 0; i < n_in; i++)
            y[k] += (double)w[k * n_in + i] * x[i];
}
