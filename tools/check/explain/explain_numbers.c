/* Single numbers of a model, solved for: caps, scales, epsilon, the rope's base. See
 * explain_impl.h.
 *
 * Gauss-Newton in the number's logarithm, on all values at the target: passes with the number a
 * little larger say how they change. It begins with what came nearest among the listed suspects of
 * its kind.
 */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 14, HALVINGS = 5, DIGITS = 6, AS_LITTLE = 2 };
/* Where numbers are exact, this share of the bound is left. */
static const double least_left = 1e-9;

/* A number that a row of suspects.c can have. */
struct number {
    const struct suspect_row *row;
    double log; /* of its value */
    struct search_view here;
};

/* A pass with the number exp(x). square is INFINITY when it does not fit. */
static int look_with(struct search *s, const struct number *number, double x,
                     struct search_view *view)
{
    struct whatif_edit edit = number->row->edit;
    edit.x = exp(x);
    int status = search_look(s, s->target, MGPT_N_POINTS, 0, s->n, &edit, view);
    if (status != MGPT_OK || !isfinite(view->square))
        view->square = INFINITY;
    return status == MGPT_EARG ? MGPT_OK : status;
}

/* Computes the Gauss-Newton step for the number. */
static int direction(struct search *s, const struct number *number, double *step)
{
    const double h = 1e-5;
    struct search_view there;
    const struct search_view *here = &number->here;
    double jd = 0, jj = 0;
    int status = look_with(s, number, number->log + h, &there);
    for (size_t i = 0; there.diff && i < here->n * here->cols; i++) {
        double j = (there.diff[i] - here->diff[i]) / h;
        jd += j * here->diff[i];
        jj += j * j;
    }
    view_free(&there);
    *step = jj > 0 ? fmax(-2, fmin(2, -jd / jj)) : 0;
    return status;
}

/* One step, halved until it comes nearer. 0 in *moved: nowhere nearer. */
static int step_number(struct search *s, struct number *number, int *moved)
{
    double step;
    int status = direction(s, number, &step);
    *moved = 0;
    for (int k = 0; k < HALVINGS && status == MGPT_OK && !*moved && fabs(step) > 1e-12;
         k++, step /= 2) {
        struct search_view there;
        status = look_with(s, number, number->log + step, &there);
        *moved = there.square < number->here.square;
        view_free(*moved ? &number->here : &there);
        if (*moved) {
            number->here = there;
            number->log += step;
        }
    }
    return status;
}

static int is_solved(double square, const struct search *s)
{
    return square <= 1e-4 * fmin(s->e->bound, 1e-9); /* per value this is far below what counts */
}

/* The shortest number next to the solution with which as little is left: a configuration has 7.3e6, not
 * 7.2998e6. */
static int shorten(struct search *s, struct number *number)
{
    const double x = exp(number->log), left = number->here.square;
    int status = MGPT_OK, found = 0;
    for (int digits = 1; digits < DIGITS && status == MGPT_OK && !found; digits++) {
        struct search_view there;
        char text[NUMBER];
        snprintf(text, sizeof text, "%.*e", digits - 1, x);
        const double shorter = strtod(text, NULL);
        status = look_with(s, number, log(shorter), &there);
        found = there.square <= fmax(AS_LITTLE * left, least_left * s->e->bound);
        view_free(&there);
        number->log = found ? log(shorter) : number->log;
    }
    return status;
}

static int fit_number(struct search *s, const struct suspect_row *row, double start)
{
    struct number number = {.row = row, .log = log(start)};
    int moved = 1, status = look_with(s, &number, number.log, &number.here);
    double first = number.here.square;
    for (int k = 0; k < STEPS && status == MGPT_OK && isfinite(number.here.square) && moved; k++) {
        if ((k == 4 && number.here.square > 0.5 * first) || is_solved(number.here.square, s))
            break;
        status = step_number(s, &number, &moved);
    }
    double left = number.here.square;
    int solved = status == MGPT_OK && (left < 1e-2 * first || is_solved(left, s));
    if (solved)
        status = shorten(s, &number);
    view_free(&number.here);
    if (status != MGPT_OK || !solved)
        return status;
    struct suspect suspect = suspect_of(row, &s->as_is, exp(number.log), NULL);
    return search_propose(s, suspect.edit, "%s", suspect.cause);
}

/* The number of the listed suspect of this kind that came nearest; 0: none was tried. */
static double nearest_number(const struct search *s, const struct suspect_row *row)
{
    double best = INFINITY, x = 0;
    for (size_t i = 0; i < arr_len(s->e->trials); i++) {
        const struct explain_trial *t = &s->e->trials[i];
        const struct whatif_edit *edit = &s->suspects[t->suspect].edit;
        if (edit->apply == row->edit.apply && edit->member == row->edit.member && t->nmse < best &&
            edit->x > 0) {
            best = t->nmse;
            x = edit->x;
        }
    }
    return x;
}

/* From the nearest of the list, then from those of the row. */
static int solve_row_number(struct search *s, const struct suspect_row *row)
{
    double nearest = nearest_number(s, row);
    int status = nearest > 0 ? fit_number(s, row, nearest) : MGPT_OK;
    for (const double *start = row->starts;
         *start > 0 && status == MGPT_OK && !s->e->proved && !search_spent(s); start++)
        status = fit_number(s, row, *start);
    return status;
}

int solve_numbers(struct search *s)
{
    int status = MGPT_OK;
    for (size_t i = 0; i < n_suspect_rows && status == MGPT_OK && !s->e->proved; i++)
        if (suspect_rows[i].starts[0] > 0 && suspect_rows[i].points & s->points)
            status = solve_row_number(s, &suspect_rows[i]);
    return status;
}
