/* Systems of linear equations with a symmetric positive matrix, in float64: a least-squares problem's normal
 * equations. Small ones: nothing is blocked or threaded.
 */
#ifndef MGPT_SOLVE_H
#define MGPT_SOLVE_H

#include <stddef.h>

/* Factors the [n][n] matrix in place (its lower half is read and written). An unknown that the equations
 * do not determine beside those before it is left out: it will be 0. Returns how many are determined. */
size_t solve_factor(double *a, size_t n);

/* The right-hand side becomes the solution. */
void solve_with(const double *factor, size_t n, double *x);

#endif
