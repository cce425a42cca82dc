/* Systems of linear equations with a symmetric positive matrix, in float64: a least-squares
 * problem's normal equations. Small ones: nothing is blocked or threaded.
 */
#ifndef MGPT_SOLVE_H
#define MGPT_SOLVE_H

#include <stddef.h>

/* Factors the [n][n] matrix in place (its lower half is read and written). An unknown that the
 * equations do not determine next to those before it is left out: it will be 0. Returns how many
 * are determined. */
size_t solve_factor(double *a, size_t n);

/* The right-hand side becomes the solution. */
void solve_with(const double *factor, size_t n, double *x);

/* Stores in `rest` the right-hand side that is left with the solution x. */
typedef void solve_rest(void *user, const double *x, double *rest);

/* Solves for x, and corrects twice what rounding left of it. `rest` has room for n values; it holds
 * what is left. */
void solve_refined(const double *factor, size_t n, double *x, double *rest, solve_rest *fn,
                   void *user);

double solve_dot(const double *x, const double *y, size_t n);

#endif
