/* Single numbers of a model, solved for: caps, scales, epsilon, the rope's base. See explain_impl.h.
 *
 * Gauss-Newton in the number's logarithm, on all values at the target: passes with the number a little
 * larger say how they change. It begins with what came nearest among the listed suspects of its kind.
 */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "check/explain/suspects_impl.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 14, HALVINGS = 5, STARTS = 3 };

#define BIT(point) MGPT_POINT_BIT(MGPT_##point)

struct number {
    const char *before, *behind; /* the number, in the cause's words */
    uint64_t points;             /* where its effect shows first */
    suspect_fn *apply;
    double starts[STARTS]; /* 0: none */
};

static const struct number numbers[] = {
    {"a soft cap of ", " on the logits", BIT(LOGITS), suspect_softcap, {30}},
    {"a soft cap of ", " on attention scores", BIT(SCORES), suspect_attn_cap, {50, 5}},
    {"embeddings times ", "", BIT(EMBD) | BIT(RESID_PRE), suspect_embd_scale, {1, 8}},
    {"attention scores times ", "", BIT(SCORES), suspect_attn_scale, {0.1, 1}},
    {"epsilon of norms ",
     "",
     BIT(ATTN_IN) | BIT(MLP_IN) | BIT(FINAL) | BIT(EMBD_NORM) | BIT(ROT_Q) | BIT(ROT_K),
     suspect_eps,
     {1e-3, 1e-5}},
    {"rope base ", "", BIT(ROT_Q) | BIT(ROT_K), suspect_base, {1e4}},
    {"rope positions divided by ", "", BIT(ROT_Q) | BIT(ROT_K), suspect_factor, {1.01}},
};

/* One pass with the number exp(x). Returns the squares of the differences, INFINITY when it does not fit. */
static int explain_numbers_look(struct search *s, const struct number *number, double x,
                                struct seen *seen, double *square)
{
    struct suspect suspect = {.x = exp(x), .apply = number->apply};
    *square = INFINITY;
    *seen = (struct seen){0};
    int status = search_look(s, s->target, MGPT_N_POINTS, 0, s->n, &suspect, seen);
    if (status != MGPT_OK)
        return status == MGPT_EARG ? MGPT_OK : status;
    *square = 0;
    for (size_t i = 0; i < seen->n * seen->cols; i++)
        *square += seen->diff[i] * seen->diff[i];
    if (!isfinite(*square))
        *square = INFINITY;
    return MGPT_OK;
}

/* Where Gauss-Newton would go from x. */
static int direction(struct search *s, const struct number *number, double x,
                     const struct seen *here, double *step)
{
    const double h = 1e-5;
    struct seen there;
    double ignored, jd = 0, jj = 0;
    int status = explain_numbers_look(s, number, x + h, &there, &ignored);
    for (size_t i = 0; there.diff && i < here->n * here->cols; i++) {
        double j = (there.diff[i] - here->diff[i]) / h;
        jd += j * here->diff[i];
        jj += j * j;
    }
    seen_free(&there);
    *step = jj > 0 ? fmax(-2, fmin(2, -jd / jj)) : 0;
    return status;
}

/* One step, halved until it comes nearer. 0 in *moved: nowhere nearer. */
static int step_from(struct search *s, const struct number *number, double *x, struct seen *here,
                     double *square, int *moved)
{
    double step;
    int status = direction(s, number, *x, here, &step);
    *moved = 0;
    for (int k = 0; k < HALVINGS && status == MGPT_OK && !*moved && fabs(step) > 1e-12;
         k++, step /= 2) {
        struct seen there;
        double left;
        status = explain_numbers_look(s, number, *x + step, &there, &left);
        *moved = left < *square;
        if (*moved) {
            seen_free(here);
            *here = there;
            *square = left;
            *x += step;
        } else {
            seen_free(&there);
        }
    }
    return status;
}

static int solved(double square, const struct search *s)
{
    return square <= 1e-4 * s->e->bound; /* per value this is far below what counts */
}

static int fit(struct search *s, const struct number *number, double start)
{
    struct seen here;
    double x = log(start), square, first;
    char text[NUMBER];
    int moved = 1, status = explain_numbers_look(s, number, x, &here, &square);
    first = square;
    for (int k = 0; k < STEPS && status == MGPT_OK && isfinite(square) && moved; k++) {
        if ((k == 4 && square > 0.5 * first) || solved(square, s))
            break;
        status = step_from(s, number, &x, &here, &square, &moved);
    }
    seen_free(&here);
    if (status != MGPT_OK || !(square < 1e-2 * first || solved(square, s)))
        return status;
    struct suspect suspect = {.x = exp(x), .points = number->points, .apply = number->apply};
    text_format(suspect.cause, sizeof suspect.cause, "%s%s%s", number->before,
                say_number(suspect.x, text), number->behind);
    return search_propose(s, &suspect);
}

/* The number of the listed suspect of this kind that came nearest; 0: none was tried. */
static double explain_numbers_nearest(const struct search *s, const struct number *number)
{
    double best = INFINITY, x = 0;
    for (size_t i = 0; i < arr_len(s->e->trials); i++) {
        const struct explain_trial *t = &s->e->trials[i];
        const struct suspect *suspect = &s->suspects[t->suspect];
        if (suspect->apply == number->apply && t->nmse < best && suspect->x > 0) {
            best = t->nmse;
            x = suspect->x;
        }
    }
    return x;
}

int solve_numbers(struct search *s, uint64_t points)
{
    int status = MGPT_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const struct number *number = &numbers[i];
        double begin = number->points & points ? explain_numbers_nearest(s, number) : 0;
        if (!(number->points & points))
            continue;
        if (begin > 0)
            status = fit(s, number, begin);
        for (int k = 0; k < STARTS && status == MGPT_OK && !s->e->restored && !search_spent(s); k++)
            if (number->starts[k] > 0)
                status = fit(s, number, number->starts[k]);
        if (status != MGPT_OK || s->e->restored)
            break;
    }
    return status;
}
