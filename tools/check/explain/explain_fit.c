/* Levenberg-Marquardt, with a pass for each unknown value. See explain_fit.h. */
#include "check/explain/explain_fit.h"

#include "base/mem.h"
#include "check/explain/solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 16, STEPS_MANY = 60, DAMPED = 8, HALVED = 8, MOST_POSITIONS = 64, FEW = 8 };
/* The share of one tensor's squared differences that may be left after one step, after two, and after
 * each further step. */
static const double enough[4] = {1, 0.5, 0.25, 0.7};
/* The squares of derivatives that are rounding, as a share of the largest. */
static const double no_effect = 1e-12;
static const size_t most_values = (size_t)1 << 24;

static float *unknown_value(const struct fit *f, size_t k)
{
    struct whatif_tensor *given = f->given;
    for (k += f->first; k >= given->n; given = (struct whatif_tensor *)(uintptr_t)given->next)
        k -= given->n;
    return given->values + k;
}

/* Differences with the values as they are now. */
static int look_fit(struct fit *f, double *diff, double *square)
{
    struct search_view view;
    struct whatif_edit edit = given_edit(f->given);
    *square = INFINITY;
    int status = search_look(f->s, f->s->target, MGPT_N_POINTS, 0, f->T, &edit, &view);
    if (status != MGPT_OK)
        return status;
    memcpy(diff, view.diff, f->m * sizeof *diff);
    *square = view.square;
    view_free(&view);
    return MGPT_OK;
}

/* How the differences change with each unknown. */
static int derivatives(struct fit *f)
{
    int status = MGPT_OK;
    for (size_t k = 0; k < f->n && status == MGPT_OK; k++) {
        float *value = unknown_value(f, k), was = *value;
        double *j = f->J + k * f->m, ignored;
        *value = was + 1e-3F * (1 + fabsf(was));
        double h = (double)*value - (double)was;
        status = look_fit(f, j, &ignored);
        for (size_t i = 0; i < f->m; i++)
            j[i] = (j[i] - f->r[i]) / h;
        *value = was;
    }
    return status;
}

/* The normal equations, their diagonal larger by a part `damping`; the step is left in b. Of many
 * tensors some change nothing, as a bias of k without RoPE: rounding must not move these. */
static void solve_step(struct fit *f, double damping)
{
    double largest = 0;
    for (size_t k = 0; k < f->n; k++) {
        const double *x = f->J + k * f->m;
        f->b[k] = -solve_dot(x, f->r, f->m);
        for (size_t l = 0; l <= k; l++)
            f->A[k * f->n + l] = solve_dot(x, f->J + l * f->m, f->m);
        largest = fmax(largest, f->A[k * f->n + k]);
        f->A[k * f->n + k] *= 1 + damping;
    }
    for (size_t k = 0; k < f->n && f->given->next; k++)
        f->A[k * f->n + k] += no_effect * largest;
    solve_factor(f->A, f->n);
    solve_with(f->A, f->n, f->b);
}

/* A step that comes nearer: shorter ones for one tensor, more damped ones for many, whose derivatives
 * are those of larger changes. */
static int step_fit(struct fit *f, double *damping, int *moved)
{
    static const double shorter[] = {1, 0.3, 0.1};
    const int is_list = f->given->next != NULL;
    *moved = 0;
    for (size_t i = 0; i < f->n; i++)
        f->old[i] = *unknown_value(f, i);
    for (int k = 0; k < (is_list ? DAMPED : 3) && !*moved; k++) {
        double square, by = is_list ? 1 : shorter[k];
        if (is_list || k == 0)
            solve_step(f, *damping);
        for (size_t i = 0; i < f->n; i++)
            *unknown_value(f, i) = f->old[i] + (float)(by * f->b[i]);
        int status = look_fit(f, f->new_r, &square);
        if (status != MGPT_OK)
            return status;
        *moved = square < f->square;
        if (*moved) {
            memcpy(f->r, f->new_r, f->m * sizeof *f->r);
            f->square = square;
        }
        for (size_t i = 0; i < f->n && !*moved; i++)
            *unknown_value(f, i) = f->old[i];
        *damping *= is_list && !*moved ? 8 : 1;
    }
    *damping *= is_list ? 0.125 : 0.1;
    return MGPT_OK;
}

/* The number of positions that a fit uses. Unknown tensors of many layers need more: half of the text,
 * so that the other half can prove what was found. */
size_t fit_positions(const struct search *s, const struct whatif_tensor *given)
{
    size_t half = s->a->n / 2 < MOST_POSITIONS ? s->a->n / 2 : MOST_POSITIONS;
    return given->next ? search_positions(s, half) : s->n;
}

static int open_fit(struct fit *f)
{
    struct ref_hook hook = answer_hook(f->s->a, f->s->target);
    size_t heads = answer_is_attention(hook.point) ? answer_heads(f->s->a, f->s->target) : 0,
           few = FEW;
    /* A few positions are enough if they differ and have twice as many numbers as unknowns. */
    f->T = fit_positions(f->s, f->given);
    if (few < f->T && !f->given->next && f->s->l->hooks[f->s->target].pos < few / 2 &&
        few * (heads ? heads * few : hook.cols) >= 2 * f->n)
        f->T = few;
    f->m = f->T * (heads ? heads * f->T : hook.cols);
    if (f->m < 2 * f->n || f->m > most_values / (f->n + 1)) /* too few to be sure of, or too many */
        return 0;
    f->J = mem_new(f->n * f->m, sizeof *f->J);
    f->A = mem_new(f->n * f->n, sizeof *f->A);
    f->b = mem_new(f->n, sizeof *f->b);
    f->r = mem_new(f->m, sizeof *f->r);
    f->new_r = mem_new(f->m, sizeof *f->new_r);
    f->old = mem_new(f->n, sizeof *f->old);
    return f->J && f->A && f->b && f->r && f->new_r && f->old;
}

static void close_fit(struct fit *f)
{
    free(f->J), free(f->A), free(f->b), free(f->r), free(f->new_r), free(f->old);
}

/* Whether the squares after k steps are too many to go on. Tensors of many layers change one another's
 * inputs: some steps bring little, but HALVED of them halve the squares. */
static int is_stuck(const struct fit *f, const double *squares, int k)
{
    if (!f->given->next)
        return k > 0 && squares[k] > enough[k < 3 ? k : 3] * squares[k < 3 ? 0 : k - 1];
    return (k == 1 && squares[1] > 0.9 * squares[0]) || (k == 3 && squares[3] > 0.6 * squares[0]) ||
           (k >= HALVED && squares[k] > 0.5 * squares[k - HALVED]);
}

int solve_fit(struct fit *f, int *restored)
{
    double damping = 1e-3, squares[STEPS_MANY + 1] = {0};
    int moved = 1, status, most = f->given->next ? STEPS_MANY : STEPS;
    *restored = 0;
    if (!open_fit(f)) {
        close_fit(f);
        return MGPT_OK;
    }
    status = look_fit(f, f->r, &f->square);
    const double first = f->square;
    size_t n_missing = 0; /* in the reference */
    for (size_t i = 0; i < f->m && status == MGPT_OK; i++)
        n_missing += f->r[i] == 0;
    moved = f->m - n_missing >= 2 * f->n;
    for (int k = 0; k < most && status == MGPT_OK && moved && isfinite(f->square); k++) {
        squares[k] = f->square;
        *restored = f->square <= 1e-12 * first;
        if (*restored || is_stuck(f, squares, k))
            break;
        status = derivatives(f);
        if (status == MGPT_OK)
            status = step_fit(f, &damping, &moved);
    }
    *restored = f->square <= 1e-8 * first;
    close_fit(f);
    return status == MGPT_EARG ? MGPT_OK : status;
}
