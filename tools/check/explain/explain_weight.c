/* Single weights that differ. See explain.h.
 *
 * A weight that is not finite is found by looking. One that is wrong shows in one column of its
 * matrix's product only, there by (theirs - ours) times the input at its column: the column whose
 * inputs explain the differences of all positions is the weight's, and the factor is the
 * difference.
 */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- by looking -------------------------------------------------------------------------------- */

static int scan_tensor(struct explain_weight *w, const mgpt_model *m, const mgpt_tensor *t,
                       mgpt_error *err)
{
    size_t n = (size_t)t->dims[0], rows = (size_t)(t->dims[1] * t->dims[2] * t->dims[3]);
    float *row = mem_new(n, sizeof *row);
    int status = row ? MGPT_OK : err_memory(err, t->name, n * sizeof *row);
    for (size_t r = 0; r < rows && status == MGPT_OK && !w->found; r++) {
        status = mgpt_read_tensor(m, t->name, (uint64_t)r * n, n, row, err);
        for (size_t i = 0; i < n && status == MGPT_OK && !w->found; i++) {
            if (isfinite(row[i]))
                continue;
            *w = (struct explain_weight){.found = 1,
                                         .row = t->n_dims > 1 ? (int64_t)r : -1,
                                         .col = (int64_t)i,
                                         .ours = (double)row[i],
                                         .theirs = (double)NAN,
                                         .not_finite = 1};
            text_format(w->tensor, sizeof w->tensor, "%s", t->name);
        }
    }
    free(row);
    return status;
}

/* All tensors, in the order of the file. */
static int scan_tensors(struct explain_weight *w, const mgpt_model *m, mgpt_error *err)
{
    int status = MGPT_OK;
    for (size_t i = 0; i < mgpt_n_tensors(m) && status == MGPT_OK && !w->found; i++) {
        mgpt_tensor t;
        status = mgpt_get_tensor(m, i, &t, err);
        if (status == MGPT_OK)
            status = scan_tensor(w, m, &t, err);
    }
    return status;
}

/* ---- by what it does --------------------------------------------------------------------------- */

/* The one column of the differences that is not nearly zero next to the largest, or -1. */
static int64_t single_column(const struct search_view *v)
{
    double largest = 0;
    int64_t column = -1;
    for (size_t i = 0; i < v->n * v->cols; i++)
        largest = fmax(largest, fabs(v->diff[i]));
    for (size_t i = 0; i < v->cols; i++) {
        double most = 0;
        for (size_t t = 0; t < v->n; t++)
            most = fmax(most, fabs(v->diff[t * v->cols + i]));
        if (!(most > 1e-3 * largest))
            continue;
        if (column >= 0)
            return -1;
        column = (int64_t)i;
    }
    return column;
}

/* The part of the column's differences that is left when `by` times x is taken away, and the best
 * `by`. */
static double left_over(const struct search_view *v, size_t column, const double *x, double *by)
{
    double dx = 0, xx = 0, dd = 0;
    for (size_t t = 0; t < v->n; t++) {
        double d = v->diff[t * v->cols + column], value = x ? x[t * v->n_in] : 1;
        dx += d * value, xx += value * value, dd += d * d;
    }
    *by = xx > 0 ? dx / xx : 0;
    return dd > 0 ? (dd - *by * dx) / dd : 1;
}

/* The column of the row whose inputs explain the differences, or -1. Float32 on both sides leaves
 * about 1e-12 of the squares; what other inputs explain by chance is far more. */
static const double enough = 1e-6;

static int64_t explaining_input(const struct search_view *v, size_t column, double *best_by)
{
    double by, least = enough;
    int64_t best = -1;
    for (size_t c = 0; c < v->n_in && v->n > 1; c++) {
        double left = left_over(v, column, v->in + c, &by);
        if (left < least)
            least = left, best = (int64_t)c, *best_by = by;
    }
    return best;
}

/* What the product is multiplied by before the hook. */
static double factor_after(const struct search *s)
{
    const struct oracle_spec *spec = &s->as_is.spec;
    switch (answer_hook(s->a, s->target).point) {
    case MGPT_ATTN_OUT:
    case MGPT_MLP_OUT:
        return spec->residual_scale;
    case MGPT_LOGITS:
        return spec->logit_scale;
    default:
        return 1;
    }
}

/* Our value, at w->col of row `row`, and theirs, of which the hook sees `by` more. */
static int read_values(struct search *s, struct explain_weight *w, const mgpt_tensor *t, size_t row,
                       double by)
{
    size_t n = (size_t)t->dims[0];
    float *values = search_new(s, n, sizeof *values);
    int status = values ? mgpt_read_tensor(s->model, t->name, (uint64_t)row * n, n, values, s->err)
                        : MGPT_EMEM;
    if (status == MGPT_OK)
        w->ours = (double)values[w->col];
    w->theirs = w->ours + by / factor_after(s);
    return status;
}

/* A difference that is the same at every position is the bias's, else a weight's. */
static int find_weight(struct search *s, struct explain_weight *w, const struct search_view *v,
                       const struct stage_product *p)
{
    int layer = answer_hook(s->a, s->target).layer;
    int64_t column = single_column(v);
    double by = 0;
    mgpt_tensor t;
    if (column < 0)
        return MGPT_OK;
    size_t row = stage_product_row(p, (size_t)column);
    if (left_over(v, (size_t)column, NULL, &by) < enough &&
        stage_tensor(s->model, layer, p->role, ".bias", w->tensor, &t)) {
        w->found = 1, w->col = (int64_t)row;
        return read_values(s, w, &t, 0, by);
    }
    if (!stage_tensor(s->model, layer, p->role, ".weight", w->tensor, &t))
        return MGPT_OK;
    w->found = 1, w->row = (int64_t)row;
    w->col = explaining_input(v, (size_t)column, &by);
    return w->col >= 0 ? read_values(s, w, &t, row, by)
                       : MGPT_OK; /* more of the row than a weight */
}

/* Values that are copied to prove one. */
static const size_t most_values = (size_t)1 << 26;

/* Whether a whole pass with that value agrees. Of a row of which more than a weight differs, and of
 * what could not be solved for, nothing is proved. */
static int prove_weight(struct search *s, struct explain_weight *w)
{
    struct whatif_tensor *given = NULL;
    mgpt_tensor t;
    if (!w->found || w->col < 0 || !oracle_tensor_find(s->model, w->tensor, &t))
        return MGPT_OK;
    size_t rows = t.n_dims > 1 ? (size_t)t.dims[1] : 1, n = (size_t)t.dims[0] * rows;
    size_t at = (w->row > 0 ? (size_t)(w->row * (int64_t)t.dims[0]) : 0) + (size_t)w->col;
    int status = MGPT_OK;
    if (n > most_values)
        return MGPT_OK;
    if (w->not_finite)
        status = solve_values(s, w->tensor, at, 1, n, &given);
    else if ((given = given_new(s, w->tensor, n)) != NULL)
        given->values[at] = (float)w->theirs;
    if (!given)
        return w->not_finite ? status : s->err->status;
    const struct whatif_edit edit = given_edit(given);
    w->theirs = (double)given->values[at];
    struct proof proof;
    status = search_prove(s, &edit, -1, &proof);
    s->e->logits = proof.logits;
    w->proved = proof.proved;
    s->e->proved |= w->proved;
    return status;
}

int solve_weights(struct search *s, struct explain_weight *w)
{
    const struct locate_hook *bad = &s->l->hooks[s->target];
    struct stage_product p;
    struct search_view view;
    *w = (struct explain_weight){.row = -1, .col = -1};
    if (isnan(bad->nmse) || isnan(s->l->hooks[s->l->n_hooks].nmse))
        return scan_tensors(w, s->model, s->err) == MGPT_OK ? prove_weight(s, w) : s->err->status;
    if (!stage_product(&p, s->model, bad->hook))
        return MGPT_OK;
    int status = search_look(s, s->target, p.input, p.n_in, s->n, NULL, &view);
    if (status != MGPT_OK)
        return status;
    status = find_weight(s, w, &view, &p);
    view_free(&view);
    return status == MGPT_OK ? prove_weight(s, w) : status;
}
