/* Unknown values of tensors, solved for through all operations after them. See explain_fits.c. */
#ifndef MGPT_EXPLAIN_FIT_H
#define MGPT_EXPLAIN_FIT_H

#include "check/explain/explain_impl.h"

struct fit {
    struct search *s;
    struct whatif_tensor
        *given;            /* all values of this and the next are unknown, or n from `first` on */
    size_t first, n, m, T; /* m values compared, of T positions */
    float *old;
    double *J, *A, *b, *r, *new_r; /* [n][m], [n][n], [n], [m], [m] */
    double square;
};

/* The positions that a fit of these tensors looks at. */
size_t fit_positions(const struct search *s, const struct whatif_tensor *given);

/* Fits the unknown values. *restored: nothing is left of the differences. */
int solve_fit(struct fit *f, int *restored);

#endif
