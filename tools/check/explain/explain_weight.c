/* Single weights that differ. See explain.h.
 *
 * A weight that is not finite is found by looking. One that is wrong shows behind its matrix in one column
 * only, there by (theirs - ours) times the input at its column: the column whose inputs explain the
 * differences of all positions is the weight's, and the factor is the difference.
 */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where a point's values come from: the tensor, and the point of its input. */
static const struct {
    mgpt_point point, input;
    const char *stem, *fused;
} products[] = {{MGPT_Q, MGPT_ATTN_IN, "attn_q", "attn_qkv"},
                {MGPT_K, MGPT_ATTN_IN, "attn_k", "attn_qkv"},
                {MGPT_V, MGPT_ATTN_IN, "attn_v", "attn_qkv"},
                {MGPT_ATTN_OUT, MGPT_HEADS, "attn_output", NULL},
                {MGPT_MLP_PRE, MGPT_MLP_IN, "ffn_gate", NULL},
                {MGPT_MLP_PRE, MGPT_MLP_IN, "ffn_up", NULL},
                {MGPT_MLP_PRE_LINEAR, MGPT_MLP_IN, "ffn_up", NULL},
                {MGPT_MLP_OUT, MGPT_MLP_POST, "ffn_down", NULL},
                {MGPT_LOGITS, MGPT_FINAL, "output", NULL},
                {MGPT_LOGITS, MGPT_FINAL, "token_embd", NULL}};

static int name_of(const mgpt_model *m, int layer, const char *stem, const char *kind, char *name,
                   size_t cap, mgpt_tensor *t)
{
    if (layer < 0)
        text_format(name, cap, "%s%s", stem, kind);
    else
        text_format(name, cap, "blk.%d.%s%s", layer, stem, kind);
    return oracle_tensor_find(m, name, t);
}

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
static int scan(struct explain_weight *w, const mgpt_model *m, mgpt_error *err)
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

/* The one column of the differences that is not nearly zero beside the largest, or -1. */
static int64_t single_column(const struct score *s)
{
    double largest = 0;
    int64_t column = -1;
    for (size_t i = 0; i < s->n * s->n_diff; i++)
        largest = fmax(largest, fabs(s->diff[i]));
    for (size_t i = 0; i < s->n_diff; i++) {
        double most = 0;
        for (size_t t = 0; t < s->n; t++)
            most = fmax(most, fabs(s->diff[t * s->n_diff + i]));
        if (!(most > 1e-3 * largest))
            continue;
        if (column >= 0)
            return -1;
        column = (int64_t)i;
    }
    return column;
}

/* How much of the column's differences is left when `by` times x is taken away, and the best `by`. */
static double left_over(const struct score *s, size_t column, const double *x, size_t stride,
                        double *by)
{
    double dx = 0, xx = 0, dd = 0;
    for (size_t t = 0; t < s->n; t++) {
        double d = s->diff[t * s->n_diff + column], v = x ? x[t * stride] : 1;
        dx += d * v, xx += v * v, dd += d * d;
    }
    *by = xx > 0 ? dx / xx : 0;
    return dd > 0 ? (dd - *by * dx) / dd : 1;
}

static int read_one(const mgpt_model *m, const mgpt_tensor *t, size_t row, size_t col, double *v,
                    mgpt_error *err)
{
    size_t n = (size_t)t->dims[0];
    float *values = mem_new(n, sizeof *values);
    int status = values ? mgpt_read_tensor(m, t->name, (uint64_t)row * n, n, values, err)
                        : err_memory(err, t->name, n * sizeof *values);
    if (status == MGPT_OK)
        *v = (double)values[col];
    free(values);
    return status;
}

/* A difference that is the same at every position is the bias's, else a weight's. Float32 on both sides
 * leaves about 1e-12 of the squares; what other inputs explain by chance is far more. */
static int solve(struct explain_weight *w, const mgpt_model *m, const struct score *s,
                 const struct explain_product *p, int layer, mgpt_error *err)
{
    const double enough = 1e-6;
    int64_t column = single_column(s), best = -1;
    double by, best_by = 0, least = enough;
    mgpt_tensor t;
    if (column < 0)
        return MGPT_OK;
    w->row = (int64_t)explain_product_row(p, (size_t)column);
    if (left_over(s, (size_t)column, NULL, 0, &by) < enough &&
        name_of(m, layer, p->stem, ".bias", w->tensor, sizeof w->tensor, &t)) {
        w->found = 1, w->col = w->row, w->row = -1;
        int status = read_one(m, &t, 0, (size_t)w->col, &w->ours, err);
        w->theirs = w->ours + by;
        return status;
    }
    for (size_t c = 0; c < s->n_in && s->n > 1; c++) {
        double left = left_over(s, (size_t)column, s->in + c, s->n_in, &by);
        if (left < least)
            least = left, best = (int64_t)c, best_by = by;
    }
    if (!name_of(m, layer, p->stem, ".weight", w->tensor, sizeof w->tensor, &t))
        return MGPT_OK;
    w->found = 1;
    w->col = best;
    if (best < 0)
        return MGPT_OK; /* more of the row than one weight */
    int status = read_one(m, &t, (size_t)w->row, (size_t)best, &w->ours, err);
    w->theirs = w->ours + best_by;
    return status;
}

/* A pass that keeps differences and inputs, then the search among them. */
static int try_product(struct explain_weight *w, const mgpt_model *m, const struct answer *a,
                       const struct locate *l, size_t n, const struct explain_product *product,
                       mgpt_error *err)
{
    struct whatif model;
    struct ref_hook bad = l->hooks[l->first_bad].hook;
    struct score s = {.a = a,
                      .l = l,
                      .target = (size_t)l->first_bad,
                      .feed = a->n_hooks > 0,
                      .keep = 1,
                      .input = product->input,
                      .n_diff = bad.cols,
                      .n_in = product->n_in,
                      .n = n};
    int status = whatif_open(&model, m, a->tokens, n, err);
    if (status != MGPT_OK)
        return status;
    if (s.input == MGPT_FINAL && !model.spec.final_norm)
        s.input = model.spec.n_layer ? MGPT_RESID_POST : MGPT_EMBD;
    s.diff = mem_new(n * s.n_diff, sizeof *s.diff);
    s.in = mem_new(n * s.n_in, sizeof *s.in);
    status = s.diff && s.in ? explain_score(&s, &model, err) : err_memory(err, "differences", 0);
    if (status == MGPT_OK)
        status = solve(w, m, &s, product, bad.layer, err);
    free(s.diff);
    free(s.in);
    whatif_close(&model);
    return status;
}

/* First row of q, k or v in the tensor that holds all three. */
static size_t fused_row(const mgpt_model *m, mgpt_point point)
{
    mgpt_info info;
    if (mgpt_get_info(m, &info, NULL) < 0 || point == MGPT_Q)
        return 0;
    size_t d = (size_t)info.head_dim, q = (size_t)info.n_head * d;
    return point == MGPT_K ? q : q + (size_t)info.n_head_kv * d;
}

int explain_product(struct explain_product *p, const mgpt_model *m, struct ref_hook hook)
{
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        if (products[i].point != hook.point)
            continue;
        *p = (struct explain_product){.stem = products[i].stem, .input = products[i].input};
        int there = name_of(m, hook.layer, p->stem, ".weight", p->name, sizeof p->name, &p->tensor);
        if (!there && products[i].fused) {
            p->stem = products[i].fused;
            p->first_row = fused_row(m, hook.point);
            there = name_of(m, hook.layer, p->stem, ".weight", p->name, sizeof p->name, &p->tensor);
        }
        if (hook.point == MGPT_Q || hook.point == MGPT_K)
            p->order = oracle_qk_order(m, &p->head_dim);
        p->n_in = there ? (size_t)p->tensor.dims[0] : 0;
        if (there)
            return 1;
    }
    return 0;
}

int explain_weights(struct explain_weight *w, const mgpt_model *m, const struct answer *a,
                    const struct locate *l, size_t n, mgpt_error *err)
{
    const struct locate_hook *bad = &l->hooks[l->first_bad];
    struct explain_product product;
    *w = (struct explain_weight){.row = -1, .col = -1};
    if (isnan(bad->nmse) || isnan(l->hooks[l->n_hooks].nmse))
        return scan(w, m, err);
    if (!explain_product(&product, m, bad->hook))
        return MGPT_OK;
    return try_product(w, m, a, l, n, &product, err);
}
