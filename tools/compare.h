/* Comparing logits with a reference, in float64. A NaN or an infinity on either side is a
 * difference, whatever the tolerance: every test is written so that NaN fails it. */
#ifndef MGPT_COMPARE_H
#define MGPT_COMPARE_H

#include <stddef.h>

enum compare_top { TOP_SAME, TOP_TIE, TOP_OTHER };

/* One row of n logits. */
struct compare_row {
    double max_abs; /* largest |reference - ours|; NaN when a value is not finite */
    size_t at;      /* where; the first value that is not finite if there is one */
    double kl;      /* KL(softmax(reference) || softmax(ours)), nats */
    double sum_squares, reference_squares;
    enum compare_top
        top; /* TOP_TIE: another top token, but within the tolerance of the reference's */
    size_t top_reference, top_ours;
};

/* All rows. */
struct compare_total {
    size_t n_rows, n_bad;          /* n_bad: rows with a value that is not finite */
    size_t n_same, n_tie;          /* top tokens */
    double max_abs;                /* NaN when n_bad > 0 */
    size_t sequence, position, at; /* where max_abs was met */
    double sum_squares, reference_squares, sum_kl;
};

struct compare_row compare_row(const double *reference, const float *ours, size_t n, double tol);
void compare_add(struct compare_total *total, const struct compare_row *row, size_t sequence,
                 size_t position);

/* Mean squared error over mean square of the reference; 0 when both are 0. */
double compare_nmse(const struct compare_total *total);

/* 1 when there is at least one row, all values are finite and none is further away than tol. */
int compare_same(const struct compare_total *total, double tol);

#endif
