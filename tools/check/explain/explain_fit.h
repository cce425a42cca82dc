/* Unknown values of tensors, solved for through all operations after them. See explain_fits.c. */
#ifndef MGPT_EXPLAIN_FIT_H
#define MGPT_EXPLAIN_FIT_H

#include "check/explain/explain_impl.h"

struct fit {
    struct search *s;
    /* The n unknowns: all values of this tensor and of the next, or those of it from `first` on. */
    struct whatif_tensor *given;
    size_t first, n;
    size_t m, T; /* m values of T positions are compared */
    float *old;
    double *J, *A, *b, *r, *new_r; /* [n][m], [n][n], [n], [m], [m] */
    double square;
};

/* The positions that a fit of these tensors looks at. */
size_t fit_positions(const struct search *s, const struct whatif_tensor *given);

/* Fits the unknown values. *restored: nothing is left of the differences. */
int solve_fit(struct fit *f, int *restored);

#endif
