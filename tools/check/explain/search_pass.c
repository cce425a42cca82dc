/* One pass of a variant in float64, compared with the reference at one hook. See explain_impl.h. */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Residuals that are kept, at most. */
static const size_t most_residuals = (size_t)1 << 26;

struct search_pass {
    const struct search *s;
    const struct whatif *w;
    size_t hook;
    int feed, attention;
    double *square, *ref_square; /* [n] */
    double *row;                 /* the reference's */
    size_t good;
    int bad, status;
    struct search_view *view; /* NULL: only the error is wanted */
    mgpt_point input;
    double *keep; /* residuals before each layer, [n_layer][n][n_embd]; NULL: not wanted */
};

static int is_masked(double ours, double theirs)
{
    return isinf(ours) && ours < 0 && theirs < -1e4;
}

/* One row at the target; p->row is the reference's. */
static void compare_target(struct search_pass *p, size_t pos, size_t head, const double *ours,
                           size_t n)
{
    struct search_view *v = p->view;
    size_t first = v ? pos * v->cols + (p->attention ? head * v->n : 0) : 0;
    for (size_t i = 0; i < n; i++) {
        double theirs = p->row[i], d = theirs == ANSWER_MISSING ? 0 : theirs - ours[i];
        if (v) {
            v->diff[first + i] = p->attention && !isfinite(d) ? 0 : d; /* masked */
            v->ours[first + i] = ours[i];
        }
        if (theirs == ANSWER_MISSING || is_masked(ours[i], theirs))
            continue;
        p->bad |= !isfinite(d);
        p->square[pos] += d * d;
        p->ref_square[pos] += theirs * theirs;
    }
}

static void keep_input(struct search_pass *p, mgpt_point point, int layer, size_t pos,
                       const double *row, size_t n)
{
    int at = answer_hook(p->s->a, p->hook).layer;
    if (p->view && point == p->input && (at < 0 || layer == at) && n == p->view->n_in)
        memcpy(p->view->in + pos * n, row, n * sizeof *row);
}

static int pass_visit(mgpt_point point, int layer, size_t pos, size_t head, double *row, size_t n,
                      void *user)
{
    struct search_pass *p = user;
    const struct answer *a = p->s->a;
    if (p->keep && point == MGPT_RESID_PRE)
        memcpy(p->keep + ((size_t)layer * p->w->n + pos) * n, row, n * sizeof *row);
    whatif_columns_at(p->w, (struct whatif_place){point, layer, pos}, row, n, p->row);
    int64_t i = answer_find(a, point, layer), theirs = (int64_t)pos - p->w->offset;
    int attention = answer_is_attention(point), mine = i == (int64_t)p->hook;
    int read =
        i >= 0 && (mine || (p->feed && i < (int64_t)p->hook && !p->s->l->hooks[i].elsewhere));
    if (read && theirs >= 0 && theirs < (int64_t)a->n && !(attention && p->w->offset)) {
        p->status = answer_read(a, (size_t)i, (size_t)theirs, head, p->row, p->s->err);
        if (p->status < 0)
            return 1;
        if (mine)
            compare_target(p, pos, head, row, n);
        else
            memcpy(row, p->row, n * sizeof *row);
    }
    keep_input(p, point, layer, pos, row, n);
    int last = pos + 1 == p->w->n && (!attention || head + 1 == answer_heads(a, p->hook));
    return interrupted() || (mine && last);
}

/* What the rounding of float64 leaves is no difference: which of two suspects leaves less says nothing. */
static const double rounding = 1e-24;

/* The worst position's error; *good: the positions before the first that is beyond the bound. */
static double worst_position(const struct search_pass *p, size_t n, size_t *good)
{
    double least = 0, most = 0, all = 0;
    *good = 0;
    for (size_t t = 0; t < n; t++)
        all += p->ref_square[t];
    for (size_t t = 0; t < n; t++)
        least += 1e-4 * p->ref_square[t] / (double)n;
    for (size_t t = 0; t < n; t++) {
        double e = p->square[t] == 0 ? 0 : p->square[t] / fmax(p->ref_square[t], least);
        most = e > most ? e : most;
        *good += *good == t && e <= p->s->e->bound;
    }
    return p->bad || (all == 0 && p->hook == p->s->a->n_hooks) ? (double)NAN
                                                               : (most < rounding ? 0 : most);
}

int search_comparable(const struct answer *a, const struct whatif *w, size_t hook)
{
    for (size_t i = 0; i <= hook; i++) {
        struct ref_hook at = answer_hook(a, i);
        if (answer_is_attention(at.point) && at.layer >= 0 &&
            answer_heads(a, i) != oracle_head_sizes(&w->spec, at.layer).n)
            return 0;
    }
    return !(w->offset && answer_is_attention(answer_hook(a, hook).point));
}

static int run_pass(struct search_pass *p, double *nmse)
{
    const struct whatif *w = p->w;
    mgpt_error *err = p->s->err;
    if (!search_comparable(p->s->a, w, p->hook))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "nothing to compare with");
    p->square = mem_new(2 * w->n, sizeof *p->square);
    p->row = mem_new(answer_widest(p->s->a), sizeof *p->row);
    int status = MGPT_OK;
    if (!p->square || !p->row)
        status = err_memory(err, "a comparison", answer_widest(p->s->a) * sizeof *p->row);
    p->ref_square = p->square + (p->square ? w->n : 0);
    if (status == MGPT_OK)
        status = oracle_pass(&w->spec, w->tokens, w->n, pass_visit, p, err);
    if (status == MGPT_ESTOP)
        status = p->status;
    if (status == MGPT_OK)
        *nmse = worst_position(p, w->n, &p->good);
    if (interrupted())
        status = err_set(err, MGPT_ESTOP, MGPT_NO_OFFSET, "interrupted");
    free(p->square);
    free(p->row);
    return status;
}

/* The points that the pass reads, and one of each layer, where it can be interrupted. */
static uint64_t points_read(const struct search_pass *p)
{
    uint64_t points =
        MGPT_POINT_BIT(MGPT_RESID_PRE) | MGPT_POINT_BIT(answer_hook(p->s->a, p->hook).point);
    for (size_t i = 0; p->feed && i < p->hook; i++)
        points |= MGPT_POINT_BIT(answer_hook(p->s->a, i).point);
    for (const struct whatif *w = p->w; w; w = w->base)
        points |= w->edit.columns ? MGPT_POINT_BIT(w->edit.columns->point) : 0;
    return points | MGPT_POINT_BIT(p->input);
}

/* Up to the first layer that is changed, a pass is that of the base. */
static void begin_at_layer(const struct search *s, int layer, struct whatif *w)
{
    layer = layer > w->begins ? layer : w->begins;
    if (!s->residuals || layer <= 0 || w->offset != s->base->offset || w->n > s->n_kept)
        return;
    w->spec.first_layer = (size_t)layer;
    w->spec.residual = s->residuals + (size_t)layer * s->n_kept * w->spec.n_embd;
}

/* Opens the variant of n tokens and runs it. */
static int edited_pass(struct search *s, const struct whatif_edit *edit, int layer, size_t n,
                       struct search_pass *p, double *nmse)
{
    struct whatif w;
    int status = whatif_over(&w, s->base, n, s->err);
    if (status != MGPT_OK)
        return status;
    p->s = s;
    p->w = &w;
    p->attention = answer_is_attention(answer_hook(s->a, p->hook).point);
    if (p->input == MGPT_FINAL && !w.spec.final_norm)
        p->input = w.spec.n_layer ? MGPT_RESID_POST : MGPT_EMBD;
    if (edit && !whatif_apply(&w, edit, layer))
        status = err_set(s->err, MGPT_EARG, MGPT_NO_OFFSET, "does not apply");
    else
        s->work += (double)s->as_is.info.n_params * (double)n;
    w.spec.points = points_read(p);
    if (p->input == MGPT_N_POINTS && !p->feed)
        begin_at_layer(s, layer, &w);
    if (status == MGPT_OK)
        status = run_pass(p, nmse);
    s->good = p->good;
    whatif_close(&w);
    return status;
}

int search_score(struct search *s, const struct whatif_edit *edit, int layer, size_t hook, int feed,
                 double *nmse)
{
    struct search_pass p = {.hook = hook, .feed = feed, .input = MGPT_N_POINTS};
    *nmse = INFINITY;
    int status = edited_pass(s, edit, layer, s->n, &p, nmse);
    return status == MGPT_EARG ? MGPT_OK : status;
}

int search_as_is(struct search *s, double *nmse)
{
    const struct oracle_spec *spec = &s->base->spec;
    size_t n = spec->n_layer * s->n * spec->n_embd;
    struct search_pass p = {.hook = s->target, .feed = s->feed, .input = MGPT_N_POINTS};
    int plain = spec->backout == 0; /* nothing of earlier layers is read again */
    for (size_t i = 0; i < spec->n_layer; i++)
        plain &= spec->layers[i].keep == 1 && spec->layers[i].mix_in_x0 == 0;
    s->residuals = NULL;
    s->n_kept = s->n < s->base->n ? s->n : s->base->n;
    if (!s->feed && plain && n > 0 && n < most_residuals)
        p.keep = search_new(s, n, sizeof *p.keep);
    if (s->err->status == MGPT_EMEM)
        return MGPT_EMEM;
    *nmse = INFINITY;
    int status = edited_pass(s, NULL, -1, s->n, &p, nmse);
    if (status == MGPT_OK && p.keep)
        s->residuals = p.keep;
    return status;
}

int search_look(struct search *s, size_t hook, mgpt_point input, size_t n_in, size_t n,
                const struct whatif_edit *edit, struct search_view *v)
{
    struct search_pass p = {.hook = hook, .feed = s->feed, .input = input, .view = v};
    struct ref_hook at = answer_hook(s->a, hook);
    size_t cols = answer_is_attention(at.point) ? answer_heads(s->a, hook) * n : at.cols;
    double nmse;
    *v = (struct search_view){.n = n, .cols = cols, .n_in = n_in};
    v->diff = mem_new(n * cols, sizeof *v->diff);
    v->ours = mem_new(n * cols, sizeof *v->ours);
    v->in = mem_new(n * n_in, sizeof *v->in);
    int status = MGPT_OK;
    if (!v->diff || !v->ours || !v->in)
        status = err_memory(s->err, "values of a pass", n * cols * sizeof *v->diff);
    if (status == MGPT_OK)
        status = edited_pass(s, edit, -1, n, &p, &nmse);
    if (status != MGPT_OK)
        view_free(v);
    for (size_t i = 0; status == MGPT_OK && i < n * cols; i++)
        v->square += v->diff[i] * v->diff[i];
    return status;
}

void view_free(struct search_view *v)
{
    free(v->diff);
    free(v->ours);
    free(v->in);
    *v = (struct search_view){0};
}
