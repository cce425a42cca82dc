/* Whole matrices: another one in the reference, or a head that is tied and should not be. See
 * explain_impl.h.
 *
 * With more positions than a row has values, each row of a product's matrix follows from the
 * reference's values in least squares; that the positions beyond fit as well shows that nothing
 * else is wrong.
 */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "check/explain/solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BEYOND = 4 };
static const size_t most_values = (size_t)1 << 25;

/* The head is the token embedding: by absence, or value by value. */
static int head_is_embedding(struct search *s, const char **how)
{
    mgpt_tensor head, embd;
    char name[ORACLE_NAME];
    *how = "output.weight is not there";
    if (!stage_tensor(s->model, -1, MGPT_W_E, ".weight", name, &embd))
        return 0;
    if (!oracle_tensor_find(s->model, "output.weight", &head))
        return 1;
    *how = "output.weight equals token_embd.weight";
    size_t n = (size_t)head.dims[0],
           same = head.dims[0] == embd.dims[0] && head.dims[1] == embd.dims[1];
    float *rows = mem_new(2 * n, sizeof *rows);
    for (uint64_t r = 0; rows && same && r < head.dims[1]; r++)
        same = mgpt_read_tensor(s->model, "output.weight", r * n, n, rows, s->err) == MGPT_OK &&
               mgpt_read_tensor(s->model, name, r * n, n, rows + n, s->err) == MGPT_OK &&
               memcmp(rows, rows + n, n * sizeof *rows) == 0;
    free(rows);
    return rows && same;
}

int solve_tied(struct search *s)
{
    struct explain *e = s->e;
    const char *how;
    size_t last = s->a->n_hooks;
    mgpt_tensor t;
    if (s->not_linear || !head_is_embedding(s, &how))
        return MGPT_OK;
    if (last > 0 && s->l->first_bad == (int64_t)last && s->l->last_good + 1 == s->l->first_bad)
        text_format(e->head, sizeof e->head,
                    "tied head: %s, and only its product is wrong: the reference has another head",
                    how);
    else if (oracle_tensor_find(s->model, "output.weight", &t)) /* it is stored twice */
        text_format(e->head, sizeof e->head, "%s, as if the head had been tied", how);
    return MGPT_OK;
}

/* ---- least squares ------------------------------------------------------------------------------ */

/* x'x of the inputs, factored. Returns whether all of a row's values are determined. */
static int factor_inputs(const struct search_view *view, double *a)
{
    size_t D = view->n_in;
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t t = 0; t < view->n; t++)
                sum += view->in[t * D + i] * view->in[t * D + j];
            a[i * D + j] = sum;
        }
    return solve_factor(a, D) == D;
}

/* One column of the differences. */
struct column {
    const struct search_view *view;
    size_t at;
    double left; /* squares that the last change does not explain */
};

/* x' times the column's differences that change w of its row does not explain. */
static void column_rest(void *user, const double *w, double *rest)
{
    struct column *c = user;
    const struct search_view *v = c->view;
    size_t D = v->n_in;
    c->left = 0;
    memset(rest, 0, D * sizeof *rest);
    for (size_t t = 0; t < v->n; t++) {
        const double *x = v->in + t * D;
        double d = v->diff[t * v->cols + c->at];
        for (size_t i = 0; i < D; i++)
            d -= w[i] * x[i];
        for (size_t i = 0; i < D; i++)
            rest[i] += d * x[i];
        c->left += d * d;
    }
}

/* Adds each row's change to `given`; the squares that are left of all. */
static double solve_rows(struct search *s, const struct search_view *view,
                         const struct stage_product *p, struct whatif_tensor *given)
{
    size_t D = view->n_in;
    double *a = search_new(s, D * D, sizeof *a), *w = search_new(s, 2 * D, sizeof *w), left = 0;
    if (!a || !w || !factor_inputs(view, a))
        return INFINITY;
    for (size_t r = 0; r < view->cols; r++) {
        struct column column = {.view = view, .at = r};
        solve_refined(a, D, w, w + D, column_rest, &column);
        left += column.left;
        float *row = given->values + stage_product_row(p, r) * D;
        for (size_t i = 0; i < D; i++)
            row[i] += (float)w[i];
    }
    return left;
}

int solve_matrix(struct search *s)
{
    struct stage_product p;
    struct search_view view;
    const char *how;
    struct ref_hook hook = answer_hook(s->a, s->target);
    if (!stage_product(&p, s->model, hook))
        return MGPT_OK;
    size_t n = search_positions(s, p.n_in + 3 * BEYOND), rows = (size_t)p.tensor.dims[1];
    if (n < p.n_in + BEYOND || p.n_in * p.n_in > most_values || rows > most_values / p.n_in)
        return MGPT_OK;
    struct whatif_tensor *given = given_new(s, p.name, rows * p.n_in);
    if (!given)
        return s->err->status;
    if (hook.point == MGPT_LOGITS) /* a tied head becomes a matrix of its own */
        oracle_model_name(s->model, -1, MGPT_W_U, ".weight", given->name);
    int status = search_look(s, s->target, p.input, p.n_in, n, NULL, &view);
    if (status != MGPT_OK)
        return status;
    double left = solve_rows(s, &view, &p, given);
    int solved = left <= s->e->bound * view.square;
    view_free(&view);
    s->not_linear = !solved && hook.point == MGPT_LOGITS;
    if (!solved)
        return MGPT_OK;
    int tied = hook.point == MGPT_LOGITS && head_is_embedding(s, &how);
    return search_propose(s, given_edit(given), "%s is a different matrix in the reference%s%s%s",
                          given->name, tied ? " (tied head: " : "", tied ? how : "",
                          tied ? ")" : "");
}
