/* Cholesky's factors. See solve.h. A row that is left out has 0 on the diagonal. */
#include "check/explain/solve.h"

#include <math.h>
#include <string.h>

/* Float64 leaves about 1e-16 n of a pivot that should be zero. */
static const double nothing = 1e-13;

double solve_dot(const double *x, const double *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

size_t solve_factor(double *a, size_t n)
{
    size_t rank = 0;
    for (size_t i = 0; i < n; i++) {
        double *row = a + i * n, was = row[i];
        for (size_t j = 0; j < i; j++) {
            double pivot = a[j * n + j];
            row[j] = pivot > 0 ? (row[j] - solve_dot(row, a + j * n, j)) / pivot : 0;
        }
        double left = was - solve_dot(row, row, i);
        int determined = left > nothing * was;
        if (!determined)
            memset(row, 0, i * sizeof *row);
        row[i] = determined ? sqrt(left) : 0;
        rank += (size_t)determined;
    }
    return rank;
}

void solve_with(const double *a, size_t n, double *x)
{
    for (size_t i = 0; i < n; i++) {
        double pivot = a[i * n + i];
        x[i] = pivot > 0 ? (x[i] - solve_dot(a + i * n, x, i)) / pivot : 0;
    }
    for (size_t i = n; i > 0 && i--;) {
        double pivot = a[i * n + i];
        x[i] = pivot > 0 ? x[i] / pivot : 0;
        for (size_t j = 0; j < i; j++)
            x[j] -= a[i * n + j] * x[i];
    }
}

void solve_refined(const double *factor, size_t n, double *x, double *rest, solve_rest *fn,
                   void *user)
{
    memset(x, 0, n * sizeof *x);
    fn(user, x, rest);
    for (int k = 0; k < 3; k++) {
        solve_with(factor, n, rest);
        for (size_t i = 0; i < n; i++)
            x[i] += rest[i];
        fn(user, x, rest);
    }
}
