/* The search for scales of blocks and super-blocks. See dtype_ksearch.h.
 *
 * The scales and minima of the sub-blocks are themselves integers times the super-block's d and
 * dmin. Four steps reduce the squared error:
 *  1. for each sub-block alone, the best real scale and min: several widths of the range, one
 *     least-squares step each;
 *  2. d and dmin such that the largest scale and min fit;
 *  3. for each sub-block, the integers next to its scale and min with the smallest error;
 *  4. d and dmin by least squares over the super-block, all integers fixed; then step 3 again.
 * The best result is written. All is float32 and double in a fixed order, so equal input gives
 * equal bytes everywhere.
 */
#include "dtype/dtype_ksearch.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 3, WIDTHS = 11 };

/* Values of a sub-block with their weights, and the sums of w and of w x. */
struct sub_block {
    const float *x, *w;
    double n, sum_x;
};

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

static struct sub_block make_sub_block(const struct scale_form *f, const float *x, const float *w)
{
    float wx[QK] = {0};
    for (size_t j = 0; j < f->n; j++)
        wx[j] = w[j] * x[j];
    return (struct sub_block){x, w, (double)sum_chains(w, f->n), (double)sum_chains(wx, f->n)};
}

/* The integers of the form, as floats, that are nearest to (x + min) / scale. */
static void get_levels(const struct scale_form *f, const float *x, float scale, float min,
                       float *level)
{
    float inverse = scale != 0 ? 1 / scale : 0, lo = (float)f->lo, hi = (float)f->hi;
    for (size_t j = 0; j < f->n; j++) {
        float v = (x[j] + min) * inverse;
        v = v > lo ? v : lo; /* NaN as well, from an inverse that overflowed */
        v = v < hi ? v : hi;
        level[j] = (float)(int)(v - lo + 0.5f) + lo;
    }
}

/* The squared error with those integers, which are stored in q. */
static double assign(const struct scale_form *f, const struct sub_block *p, float scale, float min,
                     int8_t *q)
{
    float level[QK], square[QK];
    get_levels(f, p->x, scale, min, level);
    for (size_t j = 0; j < f->n; j++) {
        float rest = p->x[j] - (scale * level[j] - min);
        square[j] = rest * rest * p->w[j];
        q[j] = (int8_t)level[j];
    }
    return (double)sum_chains(square, f->n);
}

struct fit_sums { /* over a sub-block, each times w */
    double q, qq, qx;
};

/* The sums for the same integers. */
static struct fit_sums measure_fit(const struct scale_form *f, const struct sub_block *p,
                                   float scale, float min)
{
    float q[QK] = {0}, qq[QK] = {0}, qx[QK]; /* 0: gcc warns in one file of all */
    get_levels(f, p->x, scale, min, q);
    for (size_t j = 0; j < f->n; j++) {
        qq[j] = q[j] * q[j] * p->w[j];
        qx[j] = q[j] * p->x[j] * p->w[j];
        q[j] *= p->w[j];
    }
    return (struct fit_sums){(double)sum_chains(q, f->n), (double)sum_chains(qq, f->n),
                             (double)sum_chains(qx, f->n)};
}

/* Copies the values. One that is not finite counts as 0, so that it does not spoil the others.
 * Values beyond every half-precision scale are clipped, so that no sum overflows; d is then
 * infinite. */
static void copy_finite(const float *src, float *x, size_t n)
{
    const float most = 1e9f;
    for (size_t j = 0; j < n; j++) {
        float v = isfinite(src[j]) ? src[j] : 0;
        v = v < most ? v : most;
        x[j] = v > -most ? v : -most;
    }
}

/* Copies the weights as shares of the largest. None is below LEAST: a sub-block that never counted
 * has weights that are equal. */
static void copy_weights(const float *src, float *w, size_t n)
{
    const float least = 1e-7f;
    float most = 0;
    for (size_t j = 0; src && j < n; j++)
        most = src[j] > most ? src[j] : most;
    for (size_t j = 0; j < n; j++) {
        float v = most > 0 && most < INFINITY ? src[j] / most : 1;
        w[j] = v > least ? v : least;
    }
}

/* Fits a line to the points (q, x) by least squares; min may be negative only of a block alone.
 * Returns the squared error of all zeros minus that of the fit. */
static double fit_line(const struct fit_sums *s, const struct sub_block *p, int alone, float *scale,
                       float *min)
{
    double det = p->n * s->qq - s->q * s->q;
    if (!(det > 0))
        return 0;
    double slope = (p->n * s->qx - s->q * p->sum_x) / det;
    double offset = (slope * s->q - p->sum_x) / p->n;
    if (offset < 0 && !alone) {
        offset = 0;
        slope = s->qx / s->qq;
    }
    *scale = (float)slope;
    *min = (float)offset;
    return slope * s->qx - offset * p->sum_x;
}

/* Step 1: ranges from a little narrower to a little wider than that of the values. */
static void search_line(const struct scale_form *f, const struct sub_block *p, int alone,
                        float *scale, float *min)
{
    const float *x = p->x;
    float lo = alone ? x[0] : 0, hi = x[0];
    for (size_t j = 0; j < f->n; j++) {
        lo = x[j] < lo ? x[j] : lo;
        hi = x[j] > hi ? x[j] : hi;
    }
    double best = 0;
    *scale = 0;
    *min = -lo;
    for (int i = 0; i < WIDTHS && hi > lo; i++) {
        float s = (hi - lo) / ((float)(f->hi - 1) + 0.2f * (float)i), m = -lo;
        struct fit_sums sums = measure_fit(f, p, s, m);
        double gain = fit_line(&sums, p, alone, &s, &m);
        if (gain > best || i == 0) {
            best = gain;
            *scale = s;
            *min = m;
        }
    }
}

/* Step 1 without minima: the value of largest magnitude gets about the lowest integer. */
static void search_scale(const struct scale_form *f, const struct sub_block *p, float *scale,
                         float *min)
{
    float largest = 0;
    double best = 0;
    for (size_t j = 0; j < f->n; j++)
        largest = fabsf(p->x[j]) > fabsf(largest) ? p->x[j] : largest;
    *scale = *min = 0;
    for (int i = 0; i < WIDTHS; i++) {
        float s = -largest / ((float)(-f->lo - 1) + 0.2f * (float)i);
        struct fit_sums sums = measure_fit(f, p, s, 0);
        double gain = sums.qq > 0 ? sums.qx * sums.qx / sums.qq : 0; /* of the squared error */
        if (gain > best) {
            best = gain;
            *scale = (float)(sums.qx / sums.qq);
        }
    }
}

static void search_sub_block(const struct scale_form *f, const struct sub_block *p, int alone,
                             float *scale, float *min)
{
    if (f->has_min)
        search_line(f, p, alone, scale, min);
    else
        search_scale(f, p, scale, min);
}

/* Step 3 for sub-block i: an integer scale, with the integer minima for it. */
static void choose_min(const struct scale_form *f, struct super_block *b, size_t i,
                       const struct sub_block *p, int scale, float min, double *best)
{
    int last = -1, mn = f->has_min ? nearest_integer(min / (double)b->dmin, 0, f->top) : 0;
    int8_t q[QK];
    for (int turn = 0; turn < 2 && (turn == 0 || mn != last); turn++) {
        float s = b->d * (float)scale, m = b->dmin * (float)mn;
        double error = assign(f, p, s, m, q);
        if (error < *best) {
            *best = error;
            b->scale[i] = scale;
            b->min[i] = mn;
            memcpy(b->q + f->n * i, q, f->n);
        }
        if (!f->has_min)
            return;
        struct fit_sums sums = measure_fit(f, p, s, m); /* the best min for these integers */
        last = mn;
        mn = nearest_integer(((double)s * sums.q - p->sum_x) / p->n / (double)b->dmin, 0, f->top);
    }
}

/* Step 3 for sub-block i; returns the error. */
static double choose_scale(const struct scale_form *f, struct super_block *b, size_t i,
                           const struct sub_block *p, float scale, float min)
{
    int first = nearest_integer(scale / (double)b->d, f->has_min ? 1 : -f->top, f->top - 1);
    double best = (double)INFINITY;
    for (int sc = first - 1; sc <= first + 1; sc++)
        choose_min(f, b, i, p, sc, min, &best);
    return best;
}

/* Step 4: the d and dmin that make sum w (x - d * scale * q + dmin * min)^2 smallest. */
static void refit_scales(const struct scale_form *f, struct super_block *b,
                         const struct sub_block *parts)
{
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (size_t i = 0; i < QK_K / f->n; i++) {
        double scale = b->scale[i], min = b->min[i];
        struct fit_sums s =
            measure_fit(f, &parts[i], b->d * (float)b->scale[i], b->dmin * (float)b->min[i]);
        aa += scale * scale * s.qq;
        ab += scale * min * s.q;
        bb += min * min * parts[i].n;
        ax += scale * s.qx;
        bx += min * parts[i].sum_x;
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

/* Steps 1 and 2. Scales without minima: the largest gets the one integer more of the negative side. */
static void begin_super_block(const struct scale_form *f, const struct sub_block *parts,
                              struct super_block *b, float *scale, float *min)
{
    float largest = 0, most_min = 0;
    for (size_t i = 0; i < QK_K / f->n; i++) {
        search_sub_block(f, &parts[i], 0, &scale[i], &min[i]);
        float size = f->has_min ? scale[i] : fabsf(scale[i]);
        largest = size > fabsf(largest) ? scale[i] : largest;
        most_min = min[i] > most_min ? min[i] : most_min;
    }
    b->d = round_to_f16(f->has_min ? (double)largest / f->top : (double)largest / -(f->top + 1));
    b->dmin = round_to_f16((double)most_min / f->top);
}

void search_super_block(const struct scale_form *f, const float *src, const float *weight,
                        struct super_block *best)
{
    float x[QK_K], w[QK_K], scale[SUB_MOST] = {0}, min[SUB_MOST] = {0};
    struct sub_block parts[SUB_MOST];
    struct super_block b = {0};
    size_t n = QK_K / f->n;
    copy_finite(src, x, QK_K);
    copy_weights(weight, w, QK_K);
    for (size_t i = 0; i < n; i++)
        parts[i] = make_sub_block(f, x + f->n * i, w + f->n * i);
    begin_super_block(f, parts, &b, scale, min);
    *best = b;
    for (int round = 0; round < ROUNDS && (b.d != 0 || b.dmin != 0); round++) {
        b.error = 0;
        for (size_t i = 0; i < n; i++)
            b.error += choose_scale(f, &b, i, &parts[i], scale[i], min[i]);
        if (round == 0 || b.error < best->error)
            *best = b;
        refit_scales(f, &b, parts);
    }
}

/* Step 3 and 4 of a block alone. */
static void refit_block(const struct scale_form *f, const struct sub_block *p, float *scale,
                        float *min)
{
    struct fit_sums s = measure_fit(f, p, *scale, *min);
    if (f->has_min)
        fit_line(&s, p, 1, scale, min);
    else if (s.qq > 0)
        *scale = (float)(s.qx / s.qq);
}

void search_block(const struct scale_form *f, const float *src, const float *weight, float *scale,
                  float *min, int8_t *q)
{
    float x[QK], w[QK], s, m;
    int8_t levels[QK];
    double best = (double)INFINITY;
    copy_finite(src, x, f->n);
    copy_weights(weight, w, f->n);
    struct sub_block p = make_sub_block(f, x, w);
    search_sub_block(f, &p, 1, &s, &m);
    *scale = *min = 0;
    memset(q, 0, f->n);
    for (int round = 0; round < ROUNDS; round++) {
        s = round_to_f16((double)s);
        m = round_to_f16((double)m);
        double error = assign(f, &p, s, m, levels);
        if (error < best) {
            best = error;
            *scale = s;
            *min = m;
            memcpy(q, levels, f->n);
        }
        refit_block(f, &p, &s, &m);
    }
}
