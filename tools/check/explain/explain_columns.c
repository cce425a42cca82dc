/* Values at other places, or multiplied. See explain_impl.h.
 *
 * Each column of the reference's values at the target (one value of every position) is looked for
 * among ours: at its place times a factor, or at another place, with either sign. When all are
 * found the reference's rows are ours in another order or by another factor. Where a product has a
 * bias, the rows of its matrix may have moved without it.
 */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "check/explain/solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POSITIONS_WANTED = 24, LEAST = 4, NAME = 96 };

/* The share of a column's squared sum that rounding in float32 and in the reference's inputs may
 * leave. */
static const double close_enough = 1e-8;

struct ranked {
    double square;
    uint32_t i;
};

struct column_match {
    size_t n, T;           /* columns, positions */
    double *theirs, *ours; /* [n][T] */
    struct ranked *ranked; /* ours by their squares */
    uint32_t *from;
    double *times;
};

/* ---- matching ----------------------------------------------------------------------------------- */

/* Whether column i of theirs is `times` column j of ours. */
static int equal(const struct column_match *c, size_t i, size_t j, double times)
{
    const double *x = c->theirs + i * c->T, *y = c->ours + j * c->T;
    double left = 0;
    for (size_t t = 0; t < c->T; t++)
        left += (x[t] - times * y[t]) * (x[t] - times * y[t]);
    return left <= close_enough * solve_dot(x, x, c->T);
}

/* All by one factor, or each by its own. */
static int match_factors(struct column_match *c)
{
    double xy = solve_dot(c->theirs, c->ours, c->n * c->T);
    double all = xy / solve_dot(c->ours, c->ours, c->n * c->T);
    int one = 1, each = 1;
    for (size_t i = 0; i < c->n && (one || each); i++) {
        const double *x = c->theirs + i * c->T, *y = c->ours + i * c->T;
        double square = solve_dot(y, y, c->T),
               own = square > 0 ? solve_dot(x, y, c->T) / square : 0;
        one = one && equal(c, i, i, all);
        each = each && equal(c, i, i, own);
        c->from[i] = (uint32_t)i;
        c->times[i] = own;
    }
    for (size_t i = 0; one && i < c->n; i++)
        c->times[i] = all;
    return one || each;
}

/* Binary search in c->ranked, our columns in order of their sum of squares: returns the first whose
 * sum is at least `square`. */
static size_t lower(const struct column_match *c, double square)
{
    size_t low = 0, high = c->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (c->ranked[mid].square < square)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int match_one(struct column_match *c, size_t i)
{
    double square = solve_dot(c->theirs + i * c->T, c->theirs + i * c->T, c->T);
    size_t k = lower(c, square * (1 - 1e-3));
    for (; k < c->n && c->ranked[k].square <= square * (1 + 1e-3); k++)
        for (int sign = 1; sign >= -1; sign -= 2)
            if (equal(c, i, c->ranked[k].i, sign)) {
                c->from[i] = c->ranked[k].i;
                c->times[i] = sign;
                return 1;
            }
    return 0;
}

static int match_places(struct column_match *c)
{
    for (size_t i = 0; i < c->n; i++) {
        int sign = equal(c, i, i, -1) ? -1 : 1;
        c->from[i] = (uint32_t)i;
        c->times[i] = sign;
        if (!equal(c, i, i, sign) && !match_one(c, i))
            return 0;
    }
    return 1;
}

/* ---- saying it ---------------------------------------------------------------------------------- */

/* By one factor, by factors, or with another sign. */
static void say_factors(const struct column_match *c, const char *what, char *text, size_t cap)
{
    double least = c->times[0], most = c->times[0];
    char a[NUMBER], b[NUMBER];
    size_t negative = 0;
    int signs = 1;
    for (size_t i = 0; i < c->n; i++) {
        least = fmin(least, c->times[i]);
        most = fmax(most, c->times[i]);
        negative += c->times[i] < 0;
        signs = signs && fabs(fabs(c->times[i]) - 1) < 1e-3;
    }
    int one = most - least <= 1e-5 * fabs(most);
    if (one && signs)
        text_format(text, cap, "%s: the other sign", what);
    else if (one)
        text_format(text, cap, "%s: times %s", what, say_number(most, b));
    else if (signs)
        text_format(text, cap, "%s: the other sign in %zu of %zu", what, negative, c->n);
    else
        text_format(text, cap, "%s: each times a factor of its own, %s to %s", what,
                    say_number(least, a), say_number(most, b));
}

/* Two that are exchanged, all shifted by one distance (returns 2 or 1 and says it), or 0. */
static int say_simple(const uint32_t *from, size_t n, const char *what, const char *which,
                      char *text, size_t cap)
{
    size_t moved = 0, first = n, shifted = 0, by = from[0];
    for (size_t i = 0; i < n; i++) {
        moved += from[i] != i;
        first = first == n && from[i] != i ? i : first;
        shifted += from[i] == (i + by) % n;
    }
    if (moved == 2 && from[from[first]] == first)
        text_format(text, cap, "%s: %s %zu and %u exchanged", what, which, first,
                    (unsigned)from[first]);
    else if (shifted == n)
        text_format(text, cap, "%s: %s shifted by %zu (%.*s 0 is %zu here)", what, which,
                    by <= n / 2 ? by : n - by, (int)strlen(which) - 1, which, by); /* one of them */
    else
        return 0;
    return 1;
}

/* Says in words how whole heads of d rows moved; 0 if rows did not move in whole heads. */
static int say_heads(const struct column_match *c, size_t d, const char *what, char *text,
                     size_t cap)
{
    uint32_t heads[64] = {0};
    size_t n = d > 0 ? c->n / d : 0;
    if (d < 2 || n < 2 || n > 64)
        return 0;
    for (size_t i = 0; i < c->n; i++) {
        heads[i / d] = i % d == 0 ? c->from[i] / (uint32_t)d : heads[i / d];
        if (c->from[i] != heads[i / d] * d + i % d)
            return 0;
    }
    if (say_simple(heads, n, what, "heads", text, cap))
        return 1;
    size_t at = text_format(text, cap, "%s: heads are in another order here:", what);
    for (size_t h = 0; h < n && h < 8; h++)
        at += text_format(text + at, cap - at, " %u", (unsigned)heads[h]);
    return 1;
}

static void say_places(const struct column_match *c, size_t d, const char *what, char *text,
                       size_t cap)
{
    size_t first = 0, moved = 0;
    for (size_t i = c->n; i > 0 && i--;) {
        moved += c->from[i] != i;
        first = c->from[i] != i ? i : first;
    }
    if (moved == 0)
        say_factors(c, what, text, cap);
    else if (!say_heads(c, d, what, text, cap) &&
             !say_simple(c->from, c->n, what, "rows", text, cap))
        text_format(text, cap, "%s: %zu rows are at other places (row %zu is %u here)", what, moved,
                    first, (unsigned)c->from[first]);
}

/* ---- the target --------------------------------------------------------------------------------- */

static int by_square(const void *a, const void *b)
{
    double x = ((const struct ranked *)a)->square, y = ((const struct ranked *)b)->square;
    return (x > y) - (x < y);
}

/* Columns as rows, less what is added at each (NULL: nothing). */
static int open_columns(struct search *s, struct column_match *c, const struct search_view *view,
                        const float *added)
{
    *c = (struct column_match){.n = view->cols, .T = view->n};
    c->theirs = search_new(s, c->n * c->T, sizeof *c->theirs);
    c->ours = search_new(s, c->n * c->T, sizeof *c->ours);
    c->ranked = search_new(s, c->n, sizeof *c->ranked);
    c->from = search_new(s, c->n, sizeof *c->from);
    c->times = search_new(s, c->n, sizeof *c->times);
    if (!c->theirs || !c->ours || !c->ranked || !c->from || !c->times)
        return MGPT_EMEM;
    for (size_t i = 0; i < c->n; i++) {
        double *ours = c->ours + i * c->T;
        for (size_t t = 0; t < c->T; t++) {
            ours[t] = view->ours[t * c->n + i] - (added ? (double)added[i] : 0);
            c->theirs[i * c->T + t] = ours[t] + view->diff[t * c->n + i];
        }
        c->ranked[i] = (struct ranked){solve_dot(ours, ours, c->T), (uint32_t)i};
    }
    qsort(c->ranked, c->n, sizeof *c->ranked, by_square);
    return MGPT_OK;
}

/* Makes moves of a matrix's rows of the moves of the columns that these rows appear in. */
static int as_rows(struct search *s, struct column_match *c, const struct stage_product *p)
{
    const struct column_match shown = *c;
    c->from = search_new(s, c->n, sizeof *c->from);
    c->times = search_new(s, c->n, sizeof *c->times);
    for (size_t i = 0; c->from && c->times && i < c->n; i++) {
        size_t row = stage_product_row(p, i) - p->first_row;
        c->from[row] = (uint32_t)(stage_product_row(p, shown.from[i]) - p->first_row);
        c->times[row] = shown.times[i];
    }
    return c->from && c->times;
}

static int propose_columns(struct search *s, const struct whatif_columns *columns,
                           const char *cause)
{
    return search_propose(s, columns_edit(columns), "%s", cause);
}

/* Matches and proposes: values at the point or, with a product, rows of its matrix. */
static int try_columns(struct search *s, const struct search_view *view, const float *added,
                       const struct stage_product *p)
{
    struct column_match c;
    struct ref_hook hook = answer_hook(s->a, s->target);
    char cause[sizeof s->suspects->cause];
    struct whatif_columns *move = search_new(s, 1, sizeof *move);
    int status = open_columns(s, &c, view, added);
    if (status != MGPT_OK || !move)
        return MGPT_EMEM;
    if (!match_factors(&c) && !match_places(&c))
        return MGPT_OK;
    int heads = answer_is_heads(hook.point);
    *move = (struct whatif_columns){
        .point = hook.point, .layer = hook.layer, .n = c.n, .from = c.from, .times = c.times};
    if (p && p->order && !as_rows(s, &c, p))
        return MGPT_EMEM;
    if (added) {
        move->from = c.from, move->times = c.times;
        text_format(move->tensor, sizeof move->tensor, "%s", p->name);
        move->first = p->first_row;
    }
    const char *what = locate_stage(hook.point);
    char named[ORACLE_NAME];
    if (stage_is_normed(s->model, hook))
        what = oracle_stem(s->model, hook.layer, stage_norm(hook.point), "", named);
    if (p && p->role == MGPT_W_E)
        text_format(named, sizeof named, "the head (%.60s)", p->name);
    if (p)
        what = p->role == MGPT_W_E ? named : p->name;
    say_places(&c, heads ? oracle_head_sizes(&s->as_is.spec, hook.layer).width : 0, what, cause,
               sizeof cause);
    return propose_columns(s, move, cause);
}

/* The bias of a product, a value for each of the hook's columns; NULL: none. */
static const float *bias_of(struct search *s, const struct stage_product *p, size_t cols)
{
    char name[80];
    mgpt_tensor t;
    text_format(name, sizeof name, "%.*s.bias", (int)(strlen(p->name) - strlen(".weight")),
                p->name);
    if (!oracle_tensor_find(s->model, name, &t))
        return NULL;
    struct whatif_tensor *bias = given_new(s, name, (size_t)t.dims[0]);
    float *shown = bias ? search_new(s, cols, sizeof *shown) : NULL;
    for (size_t i = 0; shown && i < cols; i++)
        shown[i] = bias->values[stage_product_row(p, i)];
    return shown;
}

int solve_columns(struct search *s)
{
    struct ref_hook hook = answer_hook(s->a, s->target);
    struct stage_product p;
    struct search_view view;
    size_t n = search_positions(s, POSITIONS_WANTED);
    if (answer_is_attention(hook.point) || n < LEAST)
        return MGPT_OK;
    if (hook.point == MGPT_RESID_PRE && hook.layer == 0)
        return MGPT_OK; /* of embeddings' scale, which the logits tell */
    int product = stage_product(&p, s->model, hook);
    int status = search_look(s, s->target, MGPT_N_POINTS, 0, n, NULL, &view);
    if (status != MGPT_OK)
        return status;
    if (hook.point == MGPT_LOGITS)
        status = solve_logit_rows(s, &view);
    if (status == MGPT_OK && !s->e->proved)
        status = try_columns(s, &view, NULL, product ? &p : NULL);
    const float *bias = product && !s->e->proved ? bias_of(s, &p, view.cols) : NULL;
    if (status == MGPT_OK && bias)
        status = try_columns(s, &view, bias, &p);
    view_free(&view);
    return status;
}
