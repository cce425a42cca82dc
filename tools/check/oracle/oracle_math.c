/* The oracle's operations. See oracle_math.h. */
#include "check/oracle/oracle_math.h"

#include <math.h>
#include <string.h>

void math_norm(const struct oracle_spec *s, double *y, const double *x, size_t n, size_t w,
               const float *gain, const float *bias)
{
    for (size_t row = 0; row < n; row++, x += w, y += w) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < w && s->layer_norm; i++)
            mean += x[i] / (double)w;
        for (size_t i = 0; i < w; i++)
            square += (x[i] - mean) * (x[i] - mean) / (double)w;
        double size = sqrt(square + s->eps);
        for (size_t i = 0; i < w; i++)
            y[i] =
                (x[i] - mean) / size * (gain ? (double)gain[i] : 1) + (bias ? (double)bias[i] : 0);
    }
}

double math_activation(const char *name, double x)
{
    if (strcmp(name, "relu") == 0)
        return x > 0 || isnan(x) ? x : 0;
    if (strcmp(name, "relu2") == 0)
        return x > 0 || isnan(x) ? x * x : 0;
    if (strcmp(name, "silu") == 0)
        return x / (1 + exp(-x));
    if (strcmp(name, "gelu_erf") == 0)
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    if (strcmp(name, "gelu_quick") == 0)
        return x / (1 + exp(-1.702 * x));
    if (strcmp(name, "gelu_tanh") == 0)
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    return (double)NAN;
}

void math_softmax(double *row, size_t n)
{
    double max = row[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        max = fmax(max, row[i]);
    for (size_t i = 0; i < n; i++)
        sum += row[i] = exp(row[i] - max);
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

void math_dots(const float *w, const double *block, size_t n_in, double sum[MATH_ROWS])
{
    double s[MATH_ROWS]; /* in registers: the compiler need not write it for each i */
    memcpy(s, sum, sizeof s);
    for (size_t i = 0; i < n_in; i++)
        for (size_t t = 0; t < MATH_ROWS; t++)
            s[t] += (double)w[i] * block[i * MATH_ROWS + t];
    memcpy(sum, s, sizeof s);
}
