/* Rows of logits that were changed as a whole: probabilities, their logarithms, a constant for each
 * row, a repetition penalty. See explain_impl.h. */
#include "check/explain/explain_impl.h"

#include <math.h>
#include <stdio.h>

/* The share of a row's squared sum that rounding in float32 may leave. */
static const double close_enough = 1e-8;
/* How far a sum of probabilities may be from 1. */
static const double sum_enough = 1e-3;
/* The most values that are looked at to find the constants of all rows. */
enum { VALUES_MOST = 1 << 25 };

static int propose_row(struct search *s, struct whatif_columns columns, const char *cause)
{
    struct whatif_columns *change = search_new(s, 1, sizeof *change);
    if (!change)
        return MGPT_EMEM;
    *change = columns;
    change->point = MGPT_LOGITS;
    change->layer = -1;
    return search_propose(s, columns_edit(change), "%s", cause);
}

static double theirs_at(const struct search_view *view, size_t t, size_t i)
{
    return view->ours[t * view->cols + i] + view->diff[t * view->cols + i];
}

/* Whether the values of each row, or 2 to these, add up to 1. */
static int adds_up(const struct search_view *view, int exponents)
{
    for (size_t t = 0; t < view->n; t++) {
        double sum = 0;
        for (size_t i = 0; i < view->cols; i++)
            sum += exponents ? exp2(theirs_at(view, t, i)) : theirs_at(view, t, i);
        if (!(fabs(sum - 1) < sum_enough))
            return 0;
    }
    return 1;
}

/* Whether each row differs by the same in all columns. */
static int all_by_one(const struct search_view *view)
{
    double all = 0, left = 0;
    for (size_t t = 0; t < view->n; t++) {
        const double *d = view->diff + t * view->cols;
        for (size_t i = 0; i < view->cols; i++) {
            all += d[i] * d[i];
            left += (d[i] - d[0]) * (d[i] - d[0]);
        }
    }
    return left <= close_enough * all;
}

/* A constant for each row of the text. */
static int solve_constants(struct search *s)
{
    struct search_view view;
    size_t most = VALUES_MOST / s->a->n_vocab, n = s->a->n < most ? s->a->n : most;
    double *added = search_new(s, n, sizeof *added);
    if (!added)
        return MGPT_EMEM;
    int status = search_look(s, s->target, MGPT_N_POINTS, 0, n, NULL, &view);
    if (status != MGPT_OK)
        return status;
    for (size_t t = 0; t < view.n; t++)
        for (size_t i = 0; i < view.cols; i++)
            added[t] += view.diff[t * view.cols + i] / (double)view.cols;
    view_free(&view);
    return propose_row(
        s, (struct whatif_columns){.how = ROW_PLUS, .added = added, .n_added = n},
        "the reference's rows of logits have a constant added, one a row: the same probabilities");
}

static int is_before(const struct search *s, size_t pos, size_t token)
{
    size_t t = 0;
    while (t <= pos && (size_t)s->a->tokens[t] != token)
        t++;
    return t <= pos;
}

/* The penalty that the logit of a token so far shows best, if all others agree; 0: none. */
static double find_penalty(const struct search *s, const struct search_view *view)
{
    double most = 0, penalty = 0, other = 0, all = 0;
    for (size_t t = 0; t < view->n; t++)
        for (size_t i = 0; i < view->cols; i++) {
            double ours = view->ours[t * view->cols + i], d = view->diff[t * view->cols + i];
            all += d * d;
            if (!is_before(s, t, i)) {
                other += d * d;
            } else if (fabs(ours) > most) {
                most = fabs(ours);
                penalty = ours < 0 ? (ours + d) / ours : ours / (ours + d);
            }
        }
    return other <= close_enough * all && penalty > 0.01 && penalty < 100 ? penalty : 0;
}

static int solve_repetition(struct search *s, const struct search_view *view)
{
    char cause[128], number[NUMBER];
    double penalty = find_penalty(s, view);
    if (penalty == 0)
        return MGPT_OK;
    snprintf(cause, sizeof cause,
             "a repetition penalty of %s on the tokens so far: scores, not logits",
             say_number(penalty, number));
    return propose_row(s, (struct whatif_columns){.how = ROW_REPETITION, .x = penalty}, cause);
}

/* Scores after top-k or top-p: all that are left are divided by one number. */
static int solve_temperature(struct search *s, const struct search_view *view)
{
    char cause[128], number[NUMBER];
    double most = 0, x = 1, left = 0, all = 0;
    size_t n_missing = 0, n = view->n * view->cols;
    for (size_t i = 0; i < n; i++) {
        double d = view->diff[i], ours = view->ours[i];
        n_missing += d == 0; /* not in the reference */
        if (d != 0 && fabs(ours) > most) {
            most = fabs(ours);
            x = ours / (ours + d);
        }
    }
    for (size_t i = 0; i < n; i++) {
        double d = view->diff[i], rest = d != 0 ? view->ours[i] / x - view->ours[i] - d : 0;
        left += rest * rest;
        all += d * d;
    }
    if (n_missing < n / 2 || n - n_missing < 3 || !(left <= close_enough * all && x > 0))
        return MGPT_OK;
    snprintf(cause, sizeof cause, "a temperature of %s: scores, not logits", say_number(x, number));
    return propose_row(s, (struct whatif_columns){.how = ROW_DIVIDED, .x = x}, cause);
}

int solve_logit_rows(struct search *s, const struct search_view *view)
{
    static const struct {
        enum whatif_row how;
        const char *cause;
    } constants[] = {
        {ROW_LOGARITHMS, "the reference holds logarithms of probabilities, not logits"},
        {ROW_LESS_LARGEST, "the reference's logits are less the largest of their row"},
        {ROW_LESS_MEAN, "the reference's logits are less the mean of their row"},
    };
    int status = solve_temperature(s, view), by_one = all_by_one(view);
    if (status != MGPT_OK || s->e->proved)
        return status;
    if (adds_up(view, 0))
        status = propose_row(s, (struct whatif_columns){.how = ROW_PROBABILITIES},
                             "the reference holds probabilities, not logits");
    else if (adds_up(view, 1))
        status =
            propose_row(s, (struct whatif_columns){.how = ROW_LOGARITHMS_2},
                        "the reference holds logarithms of probabilities to base 2, not logits");
    for (size_t i = 0; by_one && i < 3 && status == MGPT_OK && !s->e->proved; i++)
        status =
            propose_row(s, (struct whatif_columns){.how = constants[i].how}, constants[i].cause);
    if (by_one && status == MGPT_OK && !s->e->proved)
        status = solve_constants(s);
    return status == MGPT_OK && !s->e->proved && !by_one ? solve_repetition(s, view) : status;
}
