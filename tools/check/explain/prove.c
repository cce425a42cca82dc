/* The proof: a whole pass with what is suspected, compared everywhere that the reference has
 * values. See explain_impl.h. */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a cause leaves of the differences, at most: what is left is rounding. */
static const double left_over = 1e-2;

/* How much more a broken tie leaves at one position than rounding makes at most: measured, up to 6.5. */
static const double as_rounded = 20;

/* NMSE that float32 leaves at least, and how much more than at the best position a cause leaves at most. */
static const double least_noise = 1e-14, as_noise = 1e6;

/* Positions that agree before the first tie is broken otherwise. */
enum { TIES_FIRST = 4 };

/* ---- a whole pass ------------------------------------------------------------------------------ */

struct whole_pass {
    const struct search *s;
    const struct whatif *w;
    struct locate *l;
    double *row; /* the reference's */
    float *ours;
    int status;
};

static int whole_visit(mgpt_point point, int layer, size_t pos, size_t head, double *row, size_t n,
                       void *user)
{
    struct whole_pass *p = user;
    const struct answer *a = p->s->a;
    whatif_columns_at(p->w, (struct whatif_place){point, layer, pos}, row, n, p->row);
    int64_t i = answer_find(a, point, layer), theirs = (int64_t)pos - p->w->offset;
    if (i < 0 || theirs < 0 || theirs >= (int64_t)a->n ||
        (answer_is_attention(point) && p->w->offset))
        return interrupted();
    p->status = answer_read(a, (size_t)i, (size_t)theirs, head, p->row, p->s->err);
    if (p->status < 0)
        return 1;
    for (size_t j = 0; j < n; j++)
        p->ours[j] = (float)row[j];
    locate_row(p->l, (size_t)i, (size_t)theirs, head, p->row, p->ours, n);
    return interrupted();
}

static int run_whole(struct whole_pass *p)
{
    size_t widest = answer_widest(p->s->a);
    p->row = mem_new(widest, sizeof *p->row);
    p->ours = mem_new(widest, sizeof *p->ours);
    int status = MGPT_OK;
    if (!p->row || !p->ours)
        status = err_memory(p->s->err, "a row", widest * sizeof *p->row);
    if (status == MGPT_OK)
        status = oracle_pass(&p->w->spec, p->w->tokens, p->w->n, whole_visit, p, p->s->err);
    if (status == MGPT_ESTOP && p->status < 0)
        status = p->status;
    else if (status == MGPT_ESTOP)
        err_set(p->s->err, MGPT_ESTOP, MGPT_NO_OFFSET, "interrupted");
    free(p->row);
    free(p->ours);
    return status;
}

int search_locate(struct search *s, const struct whatif_edit *edit, int layer, struct locate *l)
{
    struct whatif w;
    struct whole_pass pass = {.s = s, .w = &w, .l = l};
    int status = whatif_over(&w, s->base, s->a->n, s->err);
    if (status != MGPT_OK)
        return status;
    if ((edit && !whatif_apply(&w, edit, layer)) || !search_comparable(s->a, &w, s->a->n_hooks))
        status = err_set(s->err, MGPT_EARG, MGPT_NO_OFFSET, "does not apply");
    if (status == MGPT_OK) {
        s->work += (double)s->as_is.info.n_params * (double)w.n;
        status = locate_open(l, s->a, s->e->bound, s->err);
        if (status == MGPT_OK)
            status = run_whole(&pass);
        if (status == MGPT_OK)
            locate_judge(l);
        else
            locate_free(l);
    }
    whatif_close(&w);
    return status;
}

/* ---- the proof --------------------------------------------------------------------------------- */

/* 1: half of the rows of logits that were compared are, one at least: a shift can leave
 * none of those that a reference has. */
static int compares_all(const struct search *s, const struct locate *l)
{
    const struct locate_at *was = s->l->hooks[s->a->n_hooks].own, *is = l->hooks[l->n_hooks].own;
    size_t before = 0, after = 0;
    for (size_t t = 0; t < l->n; t++) {
        before += was[t].ref_square > 0;
        after += is[t].ref_square > 0;
    }
    return after > 0 && 2 * after >= before;
}

/* Whether nothing is bad, and little is left of what was. */
static int is_proof(const struct search *s, const struct locate *l)
{
    const struct locate_hook *was = &s->l->hooks[s->l->first_bad], *is = &l->hooks[s->l->first_bad];
    return l->first_bad < 0 && is->fired && compares_all(s, l) &&
           (isnan(was->nmse) || is->nmse <= left_over * was->nmse);
}

static double share_left(const struct locate_at *at)
{
    return at->square == 0 ? 0 : at->square / fmax(at->ref_square, 1e-300);
}

double search_noise(const struct locate *l)
{
    const struct locate_at *own = l->hooks[l->n_hooks].own;
    double noise = INFINITY;
    for (size_t t = 0; t < l->n; t++)
        noise = own[t].ref_square > 0 ? fmin(noise, share_left(&own[t])) : noise;
    return noise;
}

/* Whether the logits of a position differ 10^6 times as much as those of the best one, with the edit or
 * without: programs that compute the same differ by about as much everywhere. Only wide bounds, as of
 * --tol f16, allow that. */
static int is_approximate(const struct search *s, const struct locate *l)
{
    const struct locate_at *own = l->hooks[l->n_hooks].own;
    double most = 0;
    for (size_t t = 0; t < l->n; t++)
        most = own[t].ref_square > 0 ? fmax(most, share_left(&own[t])) : most;
    return most > as_noise * fmax(least_noise, fmin(s->noise, search_noise(l)));
}

/* One hook, or the logits: the first positions agree, most have little left, and none has more than
 * rounding makes at most positions. */
static int hook_agrees_but_for_ties(const struct locate_hook *was, const struct locate_hook *is,
                                    size_t n, double bound)
{
    size_t agree = 0, smaller = 0, usual = 0;
    double most = 0;
    for (size_t t = 0; t < n; t++) {
        double left = share_left(&is->own[t]);
        agree += agree == t && left <= bound;
        smaller += left <= fmax(bound, left_over * share_left(&was->own[t]));
        most = isnan(is->own[t].worst) ? INFINITY : fmax(most, left);
    }
    for (size_t t = 0; t < n; t++)
        usual += most <= fmax(bound, as_rounded * share_left(&was->own[t]));
    return agree >= TIES_FIRST && 2 * smaller >= n && 2 * usual >= n;
}

/* Where a pass rounds, float32 on the other side rounds a few values the other way, and what follows
 * from those differs by such a step. */
static int agrees_but_for_ties(const struct search *s, const struct locate *l)
{
    size_t differed = 0, agree = 0;
    for (size_t t = 0; t < l->n; t++)
        differed += share_left(&s->l->hooks[l->n_hooks].own[t]) > s->e->bound;
    for (size_t i = 0; i <= l->n_hooks; i++)
        agree += l->hooks[i].elsewhere || !l->hooks[i].fired ||
                 hook_agrees_but_for_ties(&s->l->hooks[i], &l->hooks[i], l->n, s->e->bound);
    return differed + 1 >= l->n &&
           agree == l->n_hooks + 1; /* position 0's attention may be exact */
}

int search_prove(struct search *s, const struct whatif_edit *edit, int layer, struct proof *proof)
{
    struct locate l;
    *proof = (struct proof){.logits = INFINITY};
    int status = search_locate(s, edit, layer, &l);
    if (status == MGPT_OK) {
        proof->logits = l.hooks[l.n_hooks].nmse;
        proof->reach = l.first_bad < 0 ? l.n_hooks + 1 : (size_t)l.first_bad;
        proof->proved = is_proof(s, &l);
        proof->approximate = proof->proved && edit && is_approximate(s, &l);
        proof->proved &= !proof->approximate;
        if (!proof->proved && edit && edit->apply == edit_rounded)
            proof->proved = agrees_but_for_ties(s, &l);
        locate_free(&l);
    }
    return status == MGPT_EARG ? MGPT_OK : status;
}

static int same_hook_everywhere_bad(const struct locate *l)
{
    const struct ref_hook bad = l->hooks[l->first_bad].hook;
    int n = 0;
    for (size_t i = 0; i < l->n_hooks; i++)
        n += l->hooks[i].hook.point == bad.point && l->hooks[i].hook.layer != bad.layer &&
             l->hooks[i].fed_bad;
    return n > 0;
}

/* The layer that an edit of all layers may be restricted to, or -1. */
static int only_layer(const struct search *s, const struct explain_trial *trial)
{
    struct locate_layers layers = locate_layers(s->l, s->as_is.info.n_layer);
    int one = s->feed && trial->layer < 0 && s->suspects[trial->suspect].per_layer;
    return one && layers.from == layers.to && !same_hook_everywhere_bad(s->l) ? layers.to : -1;
}

void search_name_trial(const struct search *s, struct explain_trial *trial)
{
    size_t n =
        text_format(trial->cause, sizeof trial->cause, "%s", s->suspects[trial->suspect].cause);
    if (trial->layer >= 0)
        text_format(trial->cause + n, sizeof trial->cause - n, ", in layer %d only", trial->layer);
}

int search_prove_trial(struct search *s, struct explain_trial *trial)
{
    const struct whatif_edit edit = s->suspects[trial->suspect].edit;
    struct proof all, one;
    int status = search_prove(s, &edit, trial->layer, &all);
    int only = all.proved ? -1 : only_layer(s, trial);
    if (status == MGPT_OK && only >= 0) {
        status = search_prove(s, &edit, only, &one);
        if (status == MGPT_OK && (one.proved || one.logits < all.logits)) {
            trial->layer = only;
            search_name_trial(s, trial);
            all = one;
        }
    }
    trial->logits = all.logits;
    trial->reach = all.reach;
    trial->proved = all.proved;
    trial->approximate = all.approximate;
    s->e->proved |= trial->proved;
    return status;
}
