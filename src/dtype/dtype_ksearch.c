/* Encoders of Q4_K and Q6_K. See dtype_quant.h; the layouts are in dtype_kquant.c.
 *
 * A value is stored as scale * q - min (Q6_K: min = 0). The scales and minima of the sub-blocks are
 * themselves integers times the super-block's d and dmin. Four steps reduce the squared error:
 *  1. for each sub-block alone, the best real scale and min: several widths of the range, one
 *     least-squares step each;
 *  2. d and dmin such that the largest scale and min fit;
 *  3. for each sub-block, the integers next to its scale and min with the smallest error;
 *  4. d and dmin by least squares over the super-block, all integers fixed; then step 3 again.
 * The best result is written. All is float32 and double in a fixed order, so equal input gives
 * equal bytes everywhere. There is no importance weighting: every value counts the same.
 */
#include "dtype/dtype_quant.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 3, WIDTHS = 11 };

/* The range of the integers q of a type, and the number of values that share a scale. */
struct grid {
    int lo, hi;
    size_t n;
};

static const struct grid grid4 = {0, 15, 32}, grid6 = {-32, 31, 16};

/* The nearest integer in [lo, hi]; lo for NaN. */
static int nearest_integer(double v, int lo, int hi)
{
    double clipped = v > lo ? v : lo;
    clipped = clipped < hi ? clipped : hi;
    return (int)floor(clipped + 0.5);
}

/* v rounded to half precision. */
static float round_to_f16(double v)
{
    return f16_to_f32(f16_from_f32((float)v));
}

/* The sum of n values, a multiple of 4, in four chains that compilers can vectorise. */
static float sum_chains(const float *v, size_t n)
{
    float a = 0, b = 0, c = 0, d = 0;
    for (size_t j = 0; j < n; j += 4) {
        a += v[j];
        b += v[j + 1];
        c += v[j + 2];
        d += v[j + 3];
    }
    return (a + c) + (b + d);
}

/* The integers of the grid, as floats, that are nearest to (x + min) / scale. */
static void get_levels(const struct grid *g, const float *x, float scale, float min, float *level)
{
    float inverse = scale != 0 ? 1 / scale : 0, lo = (float)g->lo, hi = (float)g->hi;
    for (size_t j = 0; j < g->n; j++) {
        float v = (x[j] + min) * inverse;
        v = v > lo ? v : lo; /* NaN as well, from an inverse that overflowed */
        v = v < hi ? v : hi;
        level[j] = (float)(int)(v - lo + 0.5f) + lo;
    }
}

/* The squared error with those integers, which are stored in q. */
static double assign(const struct grid *g, const float *x, float scale, float min, int8_t *q)
{
    float level[QK], square[QK];
    get_levels(g, x, scale, min, level);
    for (size_t j = 0; j < g->n; j++) {
        float rest = x[j] - (scale * level[j] - min);
        square[j] = rest * rest;
        q[j] = (int8_t)level[j];
    }
    return (double)sum_chains(square, g->n);
}

struct fit_sums { /* over a sub-block; those of q are exact */
    double q, qq, qx;
};

/* The sums for the same integers. */
static struct fit_sums measure_fit(const struct grid *g, const float *x, float scale, float min)
{
    float q[QK] = {0}, qq[QK] = {0}, qx[QK]; /* 0: gcc warns in one file of all */
    get_levels(g, x, scale, min, q);
    for (size_t j = 0; j < g->n; j++) {
        qq[j] = q[j] * q[j];
        qx[j] = q[j] * x[j];
    }
    return (struct fit_sums){(double)sum_chains(q, g->n), (double)sum_chains(qq, g->n),
                             (double)sum_chains(qx, g->n)};
}

static double grid_sum(const struct grid *g, const float *x)
{
    return (double)sum_chains(x, g->n);
}

/* Copies the values. One that is not finite counts as 0, so that it does not spoil the others.
 * Values beyond every half-precision scale are clipped, so that no sum overflows; d is then
 * infinite. */
static void copy_finite(const float *src, float x[QK_K])
{
    const float most = 1e9f;
    for (size_t j = 0; j < QK_K; j++) {
        float v = isfinite(src[j]) ? src[j] : 0;
        v = v < most ? v : most;
        x[j] = v > -most ? v : -most;
    }
}

/* ---- Q4_K ------------------------------------------------------------------------------------ */

enum { N_SUB4 = 8, TOP4 = 63 }; /* sub-blocks; the largest integer scale and min */

struct q4_k {
    float d, dmin;
    int scale[N_SUB4], min[N_SUB4];
    int8_t q[QK_K];
    double error;
};

/* Fits a line to the points (q, x) by least squares; sum_x is the sum of x; min may not be
 * negative. Returns the squared error of all zeros minus that of the fit. */
static double fit_line(const struct fit_sums *s, double n, double sum_x, float *scale, float *min)
{
    double det = n * s->qq - s->q * s->q;
    if (!(det > 0))
        return 0;
    double slope = (n * s->qx - s->q * sum_x) / det, offset = (slope * s->q - sum_x) / n;
    if (offset < 0) {
        offset = 0;
        slope = s->qx / s->qq;
    }
    *scale = (float)slope;
    *min = (float)offset;
    return slope * s->qx - offset * sum_x;
}

/* Step 1: ranges from a little narrower to a little wider than that of the values. */
static void search4(const float *x, float *scale, float *min)
{
    float lo = 0, hi = x[0];
    for (size_t j = 0; j < grid4.n; j++) {
        lo = x[j] < lo ? x[j] : lo;
        hi = x[j] > hi ? x[j] : hi;
    }
    double sum_x = grid_sum(&grid4, x), best = 0;
    *scale = 0;
    *min = -lo;
    for (int i = 0; i < WIDTHS && hi > lo; i++) {
        float s = (hi - lo) / (14 + 0.2f * (float)i), m = -lo;
        struct fit_sums sums = measure_fit(&grid4, x, s, m);
        double gain = fit_line(&sums, (double)grid4.n, sum_x, &s, &m);
        if (gain > best || i == 0) {
            best = gain;
            *scale = s;
            *min = m;
        }
    }
}

/* Step 3 for sub-block i; returns the error. */
static double choose4(struct q4_k *b, size_t i, const float *x, float scale, float min)
{
    int first = nearest_integer(scale / (double)b->d, 1, TOP4 - 1), last = -1;
    double best = (double)INFINITY, sum_x = grid_sum(&grid4, x);
    int8_t q[QK];
    for (int sc = first - 1; sc <= first + 1; sc++) {
        int mn = nearest_integer(min / (double)b->dmin, 0, TOP4);
        for (int turn = 0; turn < 2 && (turn == 0 || mn != last); turn++) {
            float s = b->d * (float)sc, m = b->dmin * (float)mn;
            double error = assign(&grid4, x, s, m, q);
            if (error < best) {
                best = error;
                b->scale[i] = sc;
                b->min[i] = mn;
                memcpy(b->q + QK * i, q, QK);
            }
            struct fit_sums sums =
                measure_fit(&grid4, x, s, m); /* the best min for these integers */
            last = mn;
            mn = nearest_integer(((double)s * sums.q - sum_x) / (double)grid4.n / (double)b->dmin,
                                 0, TOP4);
        }
    }
    return best;
}

/* Step 4: the d and dmin that make sum (x - d * scale * q + dmin * min)^2 smallest. */
static void refit4(struct q4_k *b, const float *x)
{
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (size_t i = 0; i < N_SUB4; i++) {
        double scale = b->scale[i], min = b->min[i];
        struct fit_sums s =
            measure_fit(&grid4, x + QK * i, b->d * (float)b->scale[i], b->dmin * (float)b->min[i]);
        aa += scale * scale * s.qq;
        ab += scale * min * s.q;
        bb += min * min * (double)grid4.n;
        ax += scale * s.qx;
        bx += min * grid_sum(&grid4, x + QK * i);
    }
    double det = aa * bb - ab * ab;
    if (bb == 0 && aa > 0) {
        b->d = round_to_f16(ax / aa);
    } else if (det > 0) {
        double d = (bb * ax - ab * bx) / det, dmin = (ab * ax - aa * bx) / det;
        if (d > 0 && dmin >= 0) {
            b->d = round_to_f16(d);
            b->dmin = round_to_f16(dmin);
        }
    }
}

static void encode4(const float *x, struct q4_k *best)
{
    float scale[N_SUB4] = {0}, min[N_SUB4] = {0}, most_scale = 0, most_min = 0;
    struct q4_k b = {0};
    for (size_t i = 0; i < N_SUB4; i++) {
        search4(x + QK * i, &scale[i], &min[i]);
        most_scale = scale[i] > most_scale ? scale[i] : most_scale;
        most_min = min[i] > most_min ? min[i] : most_min;
    }
    b.d = round_to_f16((double)most_scale / TOP4);
    b.dmin = round_to_f16((double)most_min / TOP4);
    *best = b;
    for (int round = 0; round < ROUNDS && (b.d != 0 || b.dmin != 0); round++) {
        b.error = 0;
        for (size_t i = 0; i < N_SUB4; i++)
            b.error += choose4(&b, i, x + QK * i, scale[i], min[i]);
        if (round == 0 || b.error < best->error)
            *best = b;
        refit4(&b, x);
    }
}

/* 6 bits each, packed as get_scale_min of dtype_kquant.c reads them. */
static void put_scale_min(uint8_t *p, size_t s, int scale, int min)
{
    if (s < 4) {
        p[s] = (uint8_t)(p[s] | scale);
        p[s + 4] = (uint8_t)(p[s + 4] | min);
    } else {
        p[s + 4] = (uint8_t)((scale & 15) | (min & 15) << 4);
        p[s - 4] = (uint8_t)(p[s - 4] | scale >> 4 << 6);
        p[s] = (uint8_t)(p[s] | min >> 4 << 6);
    }
}

static void put_Q4_K(uint8_t *p, const float *src)
{
    float x[QK_K];
    struct q4_k b;
    copy_finite(src, x);
    encode4(x, &b);
    put_f16(p, b.d);
    put_f16(p + 2, b.dmin);
    memset(p + 4, 0, 12);
    for (size_t s = 0; s < N_SUB4; s++)
        put_scale_min(p + 4, s, b.scale[s], b.min[s]);
    for (size_t j = 0; j < QK_K / 2; j++) {
        size_t low = j / 32 * 64 + j % 32;
        p[16 + j] = (uint8_t)(b.q[low] | b.q[low + 32] << 4);
    }
}
ROW_ENCODER(Q4_K, put_Q4_K(b, x))

/* ---- Q6_K ------------------------------------------------------------------------------------ */

enum { N_SUB6 = 16, SUB6 = 16 };

struct q6_k {
    float d;
    int scale[N_SUB6];
    int8_t q[QK_K];
    double error;
};

/* Step 1: the value of largest magnitude gets about -32. */
static float search6(const float *x)
{
    float largest = 0, scale = 0;
    double best = 0;
    for (size_t j = 0; j < SUB6; j++)
        largest = fabsf(x[j]) > fabsf(largest) ? x[j] : largest;
    for (int i = 0; i < WIDTHS; i++) {
        struct fit_sums s = measure_fit(&grid6, x, -largest / (31 + 0.2f * (float)i), 0);
        double gain = s.qq > 0 ? s.qx * s.qx / s.qq : 0; /* reduction of the squared error */
        if (gain > best) {
            best = gain;
            scale = (float)(s.qx / s.qq);
        }
    }
    return scale;
}

/* Step 3 for sub-block i; returns the error. */
static double choose6(struct q6_k *b, size_t i, const float *x, float scale)
{
    int first = nearest_integer(scale / (double)b->d, -127, 126);
    double best = (double)INFINITY;
    int8_t q[SUB6];
    for (int sc = first - 1; sc <= first + 1; sc++) {
        double error = assign(&grid6, x, b->d * (float)sc, 0, q);
        if (error < best) {
            best = error;
            b->scale[i] = sc;
            memcpy(b->q + SUB6 * i, q, SUB6);
        }
    }
    return best;
}

/* Step 4. */
static void refit6(struct q6_k *b, const float *x)
{
    double aa = 0, ax = 0;
    for (size_t i = 0; i < N_SUB6; i++) {
        double scale = b->scale[i];
        struct fit_sums s = measure_fit(&grid6, x + SUB6 * i, b->d * (float)b->scale[i], 0);
        aa += scale * scale * s.qq;
        ax += scale * s.qx;
    }
    if (aa > 0)
        b->d = round_to_f16(ax / aa);
}

/* The largest scale gets -128: the range has one more integer on the negative side. */
static void encode6(const float *x, struct q6_k *best)
{
    float scale[N_SUB6], largest = 0;
    struct q6_k b = {0};
    for (size_t i = 0; i < N_SUB6; i++) {
        scale[i] = search6(x + SUB6 * i);
        largest = fabsf(scale[i]) > fabsf(largest) ? scale[i] : largest;
    }
    b.d = round_to_f16(largest / -128.0);
    *best = b;
    for (int round = 0; round < ROUNDS && b.d != 0; round++) {
        b.error = 0;
        for (size_t i = 0; i < N_SUB6; i++)
            b.error += choose6(&b, i, x + SUB6 * i, scale[i]);
        if (round == 0 || b.error < best->error)
            *best = b;
        refit6(&b, x);
    }
}

/* Rows of 32 values: see get_Q6_K of dtype_kquant.c. */
static void put_row6(uint8_t *p, size_t row, const int8_t *q)
{
    size_t h = row / 4, k = row % 4;
    uint8_t *low = p + 64 * h + 32 * (k & 1), *high = p + 128 + 32 * h;
    unsigned shift = k < 2 ? 0 : 4;
    for (size_t l = 0; l < 32; l++) {
        unsigned level = (unsigned)(q[l] + 32);
        low[l] = (uint8_t)(low[l] | (level & 15) << shift);
        high[l] = (uint8_t)(high[l] | level >> 4 << 2 * k);
    }
}

static void put_Q6_K(uint8_t *p, const float *src)
{
    float x[QK_K];
    struct q6_k b;
    copy_finite(src, x);
    encode6(x, &b);
    memset(p, 0, 192);
    for (size_t row = 0; row < 8; row++)
        put_row6(p, row, b.q + 32 * row);
    for (size_t s = 0; s < N_SUB6; s++)
        p[192 + s] = (uint8_t)b.scale[s];
    put_f16(p + 208, b.d);
}
ROW_ENCODER(Q6_K, put_Q6_K(b, x))
