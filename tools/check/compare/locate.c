/* Where two passes begin to differ. See locate.h.
 *
 * A position is bad when the squares of its differences are more than `bound` of the squares of the
 * reference's values, or of a ten-thousandth of the hook's average where the position itself is
 * nearly zero; or when a value is not finite. Only values a query may see count, so how a program
 * marks masked scores does not matter.
 */
#include "check/compare/locate.h"

#include "base/error.h"
#include "base/mem.h"
#include "check/oracle/oracle_model.h"
#include "engine/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double masked_below = -1e4; /* programs write -inf or a large negative number */

struct walk {
    struct locate *l;
    const struct answer *a;
    const mgpt_model *model;
    double *row;
    int feeding;
    mgpt_error *err;
};

/* ---- comparing --------------------------------------------------------------------------------- */

/* One row; `base` is the head it belongs to, `width` splits a row of all heads. */
static void compare_row(struct locate_at *at, const double *theirs, const float *ours, size_t n,
                        size_t head, size_t width)
{
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)ours[i] - theirs[i]);
        if (theirs[i] == ANSWER_MISSING)
            continue;
        if (isinf(ours[i]) && ours[i] < 0 && theirs[i] < masked_below)
            continue;
        if (isfinite(d)) {
            at->square += d * d;
            at->ref_square += theirs[i] * theirs[i];
        }
        if (isnan(at->worst) || d <= at->worst)
            continue;
        at->worst = isfinite(d) ? d : (double)NAN;
        at->head = width ? i / width : head;
        at->index = width ? i % width : i;
        at->ours = (double)ours[i];
        at->theirs = theirs[i];
    }
}

void locate_row(struct locate *l, size_t hook, size_t pos, size_t head, const double *theirs,
                const float *ours, size_t n)
{
    compare_row(&l->hooks[hook].own[pos], theirs, ours, n, head, 0);
    l->hooks[hook].fired = 1;
}

static int visit_row(struct walk *w, size_t i, const mgpt_value *value, int32_t r)
{
    struct locate_hook *h = &w->l->hooks[i];
    int attention = answer_is_attention(value->point);
    size_t pos = (size_t)value->pos + (attention ? 0 : (size_t)r), n = (size_t)value->cols;
    float *ours = value->data + (size_t)r * value->stride;
    if (answer_read(w->a, i, pos, attention ? (size_t)r : 0, w->row, w->err) < 0)
        return 0;
    size_t d = answer_is_heads(value->point)
                   ? (size_t)engine_width(w->model, value->point, value->layer)
                   : 0;
    compare_row(w->feeding ? &h->fed[pos] : &h->own[pos], w->row, ours, n, (size_t)r, d);
    h->fired = 1;
    int feeds = w->feeding && !h->elsewhere && !value->copied;
    for (size_t j = 0; feeds && j < n; j++)
        ours[j] = (float)w->row[j];
    return 1;
}

static int locate_tap(const mgpt_value *value, void *user)
{
    struct walk *w = user;
    int64_t i = answer_find(w->a, value->point, value->layer);
    if (i < 0)
        return 0;
    size_t cols = answer_hook(w->a, (size_t)i).cols;
    int attention = answer_is_attention(value->point);
    if (attention ? cols < (size_t)value->cols : cols != (size_t)value->cols) {
        err_set(w->err, MGPT_EFILE, MGPT_NO_OFFSET, "%.60s: %zu values a row, the model has %d",
                answer_hook(w->a, (size_t)i).name, cols, (int)value->cols);
        return 1;
    }
    for (int32_t r = 0; r < value->rows; r++)
        if (!visit_row(w, (size_t)i, value, r))
            return 1;
    return 0;
}

/* ---- judging ----------------------------------------------------------------------------------- */

static double average(const struct locate_at *at, size_t n)
{
    double sum = 0;
    for (size_t t = 0; t < n; t++)
        sum += at[t].ref_square;
    return sum / (double)n;
}

static double error_at(const struct locate_at *at, double floor)
{
    if (isnan(at->worst))
        return (double)NAN;
    return at->square == 0 ? 0 : at->square / fmax(at->ref_square, floor);
}

/* The worst position's error; whether one is bad, and which is the first. */
static int judge(const struct locate_at *at, size_t n, double bound, double *nmse, size_t *first)
{
    double floor = 1e-4 * average(at, n);
    int bad = 0;
    *nmse = 0;
    for (size_t t = 0; t < n; t++) {
        double e = error_at(&at[t], floor);
        int worse = !isnan(*nmse) && !(e <= *nmse);
        if (!bad && (worse || !(e <= bound)))
            *first = t;
        bad = bad || !(e <= bound);
        *nmse = worse ? e : *nmse;
    }
    return bad;
}

static int locate_is_norm(mgpt_point point)
{
    return point == MGPT_ATTN_IN || point == MGPT_MLP_IN || point == MGPT_EMBD_NORM ||
           point == MGPT_FINAL || point == MGPT_HEAD_IN;
}

/* The value that is computed from a norm's or from the embedding's, or NULL: others follow. */
static const struct locate_hook *computed_from(const struct locate_hook *h)
{
    const struct locate_hook *next = h + 1;
    if (h->hook.point == MGPT_EMBD) {
        next += next->hook.point == MGPT_POS_EMBD;
        return next->hook.layer == 0 && next->hook.point == MGPT_RESID_PRE ? next : NULL;
    }
    int same = next->hook.layer == h->hook.layer || h->hook.point == MGPT_EMBD_NORM;
    return locate_is_norm(h->hook.point) && same ? next : NULL;
}

/* TransformerLens records an RMSNorm before its gain is applied, and some record the embedding
 * before its factor: a value that differs while the next one, which is computed from it, does not,
 * was only recorded at another place. */
static void find_elsewhere(struct locate *l)
{
    for (size_t i = 0; i < l->n_hooks; i++) {
        struct locate_hook *h = &l->hooks[i];
        const struct locate_hook *next = computed_from(h);
        h->elsewhere = h->bad && next && next->fired && !next->bad && isfinite(h->nmse);
    }
}

void locate_judge(struct locate *l)
{
    for (size_t i = 0; i <= l->n_hooks; i++) {
        struct locate_hook *h = &l->hooks[i];
        h->bad = h->fired && judge(h->own, l->n, l->bound, &h->nmse, &h->pos);
    }
    find_elsewhere(l);
    for (size_t i = 0; i <= l->n_hooks && l->first_bad < 0; i++) {
        const struct locate_hook *h = &l->hooks[i];
        if (h->bad && !h->elsewhere)
            l->first_bad = (int64_t)i;
        else if (h->fired && !h->bad)
            l->last_good = (int64_t)i;
    }
}

static void judge_fed(struct locate *l)
{
    for (size_t i = 0; i <= l->n_hooks; i++) {
        struct locate_hook *h = &l->hooks[i];
        size_t ignored;
        h->fed_bad =
            h->fired && !h->elsewhere && judge(h->fed, l->n, l->bound, &h->fed_nmse, &ignored);
    }
}

/* ---- running ----------------------------------------------------------------------------------- */

static int run_engine_pass(struct walk *w, const mgpt_model *model, int feeding)
{
    uint64_t points = MGPT_POINT_BIT(MGPT_LOGITS);
    for (size_t i = 0; i < w->a->n_hooks; i++)
        points |= MGPT_POINT_BIT(w->a->hooks[i].point);
    w->feeding = feeding;
    return oracle_engine_pass(model, w->a->tokens, w->a->n, points, locate_tap, w, w->err);
}

int locate_open(struct locate *l, const struct answer *a, double bound, mgpt_error *err)
{
    size_t n_hooks = a->n_hooks + 1;
    *l = (struct locate){.n_hooks = a->n_hooks, .n = a->n, .bound = bound};
    l->first_bad = l->last_good = -1;
    l->hooks = mem_new(n_hooks, sizeof *l->hooks);
    for (size_t i = 0; l->hooks && i < n_hooks; i++) {
        struct locate_hook *h = &l->hooks[i];
        h->hook = answer_hook(a, i);
        h->own = mem_new(a->n, sizeof *h->own);
        h->fed = mem_new(a->n, sizeof *h->fed);
        if (!h->own || !h->fed)
            return err_memory(err, "positions of hooks", a->n * sizeof *h->own);
    }
    return l->hooks ? MGPT_OK : err_memory(err, "hooks", n_hooks * sizeof *l->hooks);
}

int locate_run(struct locate *l, const mgpt_model *model, const struct answer *a, double bound,
               mgpt_error *err)
{
    mgpt_error local;
    err = err ? err : &local;
    struct walk w = {.l = l, .a = a, .model = model, .err = err};
    w.row = mem_new(answer_widest(a), sizeof *w.row);
    int status = locate_open(l, a, bound, err);
    if (status == MGPT_OK && !w.row)
        status = err_memory(err, "a row", 0);
    if (status == MGPT_OK)
        status = run_engine_pass(&w, model, 0);
    if (status == MGPT_OK)
        locate_judge(l);
    if (status == MGPT_OK && l->first_bad >= 0 && a->n_hooks > 0)
        status = run_engine_pass(&w, model, 1);
    if (status == MGPT_OK && a->n_hooks > 0)
        judge_fed(l);
    free(w.row);
    if (status != MGPT_OK)
        locate_free(l);
    return status;
}

struct locate_layers locate_layers(const struct locate *l, int n_layer)
{
    struct locate_layers layers = {0, n_layer - 1};
    struct ref_hook bad = l->hooks[l->first_bad].hook;
    if (bad.layer >= 0)
        layers.to = bad.layer - (bad.point == MGPT_RESID_PRE);
    else if (bad.point <= MGPT_EMBD_NORM)
        layers.to = -1;
    if (l->last_good < 0)
        return layers;
    struct ref_hook good = l->hooks[l->last_good].hook;
    if (good.layer >= 0)
        layers.from = good.layer + (good.point == MGPT_RESID_POST);
    else if (good.point >= MGPT_FINAL)
        layers.from = n_layer;
    return layers;
}

void locate_free(struct locate *l)
{
    for (size_t i = 0; l->hooks && i <= l->n_hooks; i++) {
        free(l->hooks[i].own);
        free(l->hooks[i].fed);
    }
    free(l->hooks);
    l->hooks = NULL;
}
