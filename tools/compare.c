/* Comparing logits. See compare.h. */
#include "compare.h"

#include <math.h>
#include <stdint.h>

/* log of the sum of exp, with the maximum taken out. */
static double log_sum_exp(const double *x, const float *y, size_t n)
{
    double top = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++) {
        double v = x ? x[i] : (double)y[i];
        top = v > top ? v : top;
    }
    for (size_t i = 0; i < n; i++)
        sum += exp((x ? x[i] : (double)y[i]) - top);
    return top + log(sum);
}

static double divergence(const double *reference, const float *ours, size_t n)
{
    double z_reference = log_sum_exp(reference, NULL, n), z_ours = log_sum_exp(NULL, ours, n);
    double kl = 0;
    for (size_t i = 0; i < n; i++) {
        double log_p = reference[i] - z_reference, log_q = (double)ours[i] - z_ours;
        kl += exp(log_p) * (log_p - log_q);
    }
    return kl < 0 ? 0 : kl; /* rounding can leave a hair below zero; NaN stays */
}

static size_t first_not_finite(const double *reference, const float *ours, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(reference[i]) || !isfinite(ours[i]))
            return i;
    return n;
}

static void find_tops(struct compare_row *row, const double *reference, const float *ours, size_t n,
                      double tol)
{
    for (size_t i = 1; i < n; i++) { /* the lowest id wins among equals */
        if (reference[i] > reference[row->top_reference])
            row->top_reference = i;
        if (ours[i] > ours[row->top_ours])
            row->top_ours = i;
    }
    /* Two values within tol of the truth can swap when they are closer than twice that. */
    double gap = reference[row->top_reference] - reference[row->top_ours];
    if (row->top_reference == row->top_ours)
        row->top = TOP_SAME;
    else
        row->top = gap <= 2 * tol ? TOP_TIE : TOP_OTHER;
}

struct compare_row compare_row(const double *reference, const float *ours, size_t n, double tol)
{
    struct compare_row row = {.at = first_not_finite(reference, ours, n)};
    if (row.at < n) {
        row.max_abs = row.kl = row.sum_squares = row.reference_squares = (double)NAN;
        row.top = TOP_OTHER;
        return row;
    }
    row.at = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs(reference[i] - (double)ours[i]);
        if (d > row.max_abs) {
            row.max_abs = d;
            row.at = i;
        }
        row.sum_squares += d * d;
        row.reference_squares += reference[i] * reference[i];
    }
    row.kl = divergence(reference, ours, n);
    find_tops(&row, reference, ours, n, tol);
    return row;
}

void compare_add(struct compare_total *total, const struct compare_row *row, size_t sequence,
                 size_t position)
{
    int bad = !isfinite(row->max_abs);
    int first_bad = bad && total->n_bad == 0;
    if (first_bad || total->n_rows == 0 || row->max_abs > total->max_abs) {
        total->max_abs = row->max_abs;
        total->sequence = sequence;
        total->position = position;
        total->at = row->at;
    }
    total->n_rows++;
    total->n_bad += (size_t)bad;
    total->n_same += row->top == TOP_SAME;
    total->n_tie += row->top == TOP_TIE;
    total->sum_squares += row->sum_squares;
    total->reference_squares += row->reference_squares;
    total->sum_kl += row->kl;
}

double compare_nmse(const struct compare_total *total)
{
    return total->sum_squares == 0 ? 0 : total->sum_squares / total->reference_squares;
}

int compare_same(const struct compare_total *total, double tol)
{
    return total->n_rows > 0 && total->n_bad == 0 && total->max_abs <= tol;
}
