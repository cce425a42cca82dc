/* Cells of a circuit's table, and its own order. See circuit.h. */
#include "base/mem.h"
#include "engine/circuit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

float circuit_cell(const struct circuit *c, size_t row, size_t col)
{
    const float *a = c->rows + row * c->stride, *b = c->cols + col * c->stride;
    float lanes[CIRCUIT_LANES] = {0}, sum = 0;
    for (size_t i = 0; i < c->stride; i += CIRCUIT_LANES)
        for (size_t k = 0; k < CIRCUIT_LANES; k++)
            lanes[k] += a[i + k] * b[i + k];
    for (size_t k = 0; k < CIRCUIT_LANES; k++)
        sum += lanes[k];
    return sum;
}

/* One factor in float64, from its mean if `centred`; tokens of skip are 0. */
static void factor_from_mean(const struct circuit *c, const float *factor, size_t n, int centred,
                             const unsigned char *skip, double *to)
{
    size_t w = c->width, n_in = 0;
    for (size_t j = 0; j < n; j++)
        n_in += !(skip && skip[j]);
    for (size_t i = 0; i < w; i++) {
        double mean = 0;
        for (size_t j = 0; j < n && centred; j++)
            mean += skip && skip[j] ? 0 : (double)factor[j * c->stride + i] / (double)n_in;
        for (size_t j = 0; j < n; j++)
            to[j * w + i] = skip && skip[j] ? 0 : (double)factor[j * c->stride + i] - mean;
    }
}

/* gram[w][w] = F' F. */
static void gram_of(const double *factor, size_t n, size_t w, double *gram)
{
    memset(gram, 0, w * w * sizeof *gram);
    for (size_t j = 0; j < n; j++)
        for (size_t a = 0; a < w; a++)
            for (size_t b = 0; b < w; b++)
                gram[a * w + b] += factor[j * w + a] * factor[j * w + b];
}

static void times_matrix(const double *m, const double *x, size_t w, double *to)
{
    for (size_t a = 0; a < w; a++) {
        to[a] = 0;
        for (size_t b = 0; b < w; b++)
            to[a] += m[a * w + b] * x[b];
    }
}

/* The table is A B'. Its singular vectors along B's rows are B y for eigenvectors y of (A'A)(B'B): the power method on the small
 * matrix, until nothing moves. */
static void first_direction(const double *gram_a, const double *gram_b, size_t w, double *y,
                            double *work)
{
    enum { MOST = 10000 };
    for (size_t i = 0; i < w; i++)
        y[i] = 1 + (double)i / (double)w;
    for (size_t turn = 0; turn < MOST; turn++) {
        double length = 0, moved = 0;
        times_matrix(gram_b, y, w, work);
        times_matrix(gram_a, work, w, work + w);
        for (size_t i = 0; i < w; i++)
            length += work[w + i] * work[w + i];
        for (size_t i = 0; i < w && length > 0; i++) {
            double next = work[w + i] / sqrt(length);
            moved = fmax(moved, fabs(next - y[i]));
            y[i] = next;
        }
        if (moved < 1e-13)
            break;
    }
}

int circuit_order(const struct circuit *c, int by_cols, const unsigned char *skip, double *along)
{
    size_t w = c->width, n_a = by_cols ? c->n_rows : c->n_cols,
           n_b = by_cols ? c->n_cols : c->n_rows;
    double *a = mem_new(n_a, w * sizeof *a), *b = mem_new(n_b, w * sizeof *b),
           *work = mem_new(2 * w * w + 3 * w, sizeof *work);
    int done = a && b && work;
    if (done) {
        double *y = work + 2 * w * w, largest = 0;
        factor_from_mean(c, by_cols ? c->rows : c->cols, n_a, 1, skip, a);
        factor_from_mean(c, by_cols ? c->cols : c->rows, n_b, 0, skip, b);
        gram_of(a, n_a, w, work);
        gram_of(b, n_b, w, work + w * w);
        first_direction(work, work + w * w, w, y, y + w);
        for (size_t j = 0; j < n_b; j++) {
            along[j] = 0;
            for (size_t i = 0; i < w; i++)
                along[j] += b[j * w + i] * y[i];
            largest = fabs(along[j]) > fabs(largest) ? along[j] : largest;
        }
        for (size_t j = 0; j < n_b && largest < 0; j++)
            along[j] = -along[j];
    }
    free(a);
    free(b);
    free(work);
    return done;
}
