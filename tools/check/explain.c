/* Trying the suspects. See explain.h. */
#include "explain.h"

#include "error.h"
#include "interrupt.h"
#include "mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Positions that suspects are compared on, and products (weights times positions times trials) after which
 * no more are tried once one has restored agreement. */
enum { POSITIONS = 12, POSITIONS_MOST = 300, CONFIRMED = 12 };
static const double enough_work = 5e9, most_work = 4e12;

/* ---- one pass ---------------------------------------------------------------------------------- */

struct sums {
    struct score *score;
    const struct whatif *w;
    double *square, *ref_square; /* [n] */
    double *row;
    int bad, status;
    mgpt_error *err;
};

static void add_row(struct sums *s, size_t pos, size_t head, const double *ours, size_t n)
{
    struct score *sc = s->score;
    for (size_t i = 0; i < n; i++) {
        double d = ours[i] - s->row[i];
        if (isinf(ours[i]) && ours[i] < 0 && s->row[i] < -1e4)
            continue; /* masked */
        s->bad |= !isfinite(d);
        s->square[pos] += d * d;
        s->ref_square[pos] += s->row[i] * s->row[i];
    }
    for (size_t i = 0; sc->keep && head == 0 && i < n && i < sc->n_diff; i++)
        sc->diff[pos * sc->n_diff + i] = s->row[i] - ours[i];
}

static void keep_input(struct score *sc, mgpt_point point, int layer, size_t pos, const double *row,
                       size_t n)
{
    struct ref_hook target = answer_hook(sc->a, sc->target);
    int outside = target.layer < 0 || layer == target.layer;
    if (sc->keep && point == sc->input && outside && n == sc->n_in)
        memcpy(sc->in + pos * n, row, n * sizeof *row);
}

static int visit(mgpt_point point, int layer, size_t pos, size_t head, double *row, size_t n,
                 void *user)
{
    struct sums *s = user;
    struct score *sc = s->score;
    int64_t i = answer_find(sc->a, point, layer), theirs = (int64_t)pos - s->w->offset;
    int attention = answer_is_attention(point), mine = i == (int64_t)sc->target;
    int read =
        i >= 0 && (mine || (sc->feed && i < (int64_t)sc->target && !sc->l->hooks[i].elsewhere));
    if (read && theirs >= 0 && theirs < (int64_t)sc->a->n && !(attention && s->w->offset)) {
        s->status = answer_read(sc->a, (size_t)i, (size_t)theirs, head, s->row, s->err);
        if (s->status < 0)
            return 1;
        if (mine)
            add_row(s, pos, head, row, n);
        else
            memcpy(row, s->row, n * sizeof *row);
    }
    keep_input(sc, point, layer, pos, row, n);
    int last = pos + 1 == s->w->n && (!attention || head + 1 == sc->a->n_head);
    return interrupted() || (mine && last);
}

static double worst(const struct sums *s, size_t n)
{
    double floor = 0, most = 0;
    for (size_t t = 0; t < n; t++)
        floor += 1e-4 * s->ref_square[t] / (double)n;
    for (size_t t = 0; t < n; t++) {
        double e = s->square[t] == 0 ? 0 : s->square[t] / fmax(s->ref_square[t], floor);
        most = e > most ? e : most;
    }
    return s->bad ? (double)NAN : most;
}

int explain_score(struct score *score, struct whatif *w, mgpt_error *err)
{
    struct sums s = {.score = score, .w = w, .err = err};
    if (w->offset && answer_is_attention(answer_hook(score->a, score->target).point))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "positions of queries and keys are not those");
    s.square = mem_new(w->n, sizeof *s.square);
    s.ref_square = mem_new(w->n, sizeof *s.ref_square);
    s.row = mem_new(answer_widest(score->a), sizeof *s.row);
    int status = MGPT_OK;
    if (!s.square || !s.ref_square || !s.row)
        status = err_memory(err, "a comparison", answer_widest(score->a) * sizeof *s.row);
    if (status == MGPT_OK)
        status = oracle_pass(&w->spec, w->tokens, w->n, visit, &s, err);
    if (status == MGPT_ESTOP)
        status = s.status;
    if (status == MGPT_OK)
        score->nmse = worst(&s, w->n);
    if (interrupted())
        status = err_set(err, MGPT_ESTOP, MGPT_NO_OFFSET, "interrupted");
    free(s.square);
    free(s.ref_square);
    free(s.row);
    return status;
}

/* ---- the search -------------------------------------------------------------------------------- */

struct search {
    struct explain *e;
    const mgpt_model *model;
    const struct answer *a;
    const struct locate *l;
    struct suspect *suspects;
    size_t target, n; /* where to compare, on so many positions */
    int feed;
    double work;
    mgpt_error *err;
};

/* One suspect in one layer or all; a trial that fits is noted. */
static int try_one(struct search *s, size_t i, int layer, size_t target, int feed, double *nmse)
{
    struct whatif w;
    const struct suspect *suspect = i < arr_len(s->suspects) ? &s->suspects[i] : NULL;
    int status = whatif_open(&w, s->model, s->a->tokens, s->n, s->err);
    if (status != MGPT_OK)
        return status;
    *nmse = INFINITY;
    if (!suspect || suspect->apply(&w, suspect, layer)) {
        struct score score = {.a = s->a, .l = s->l, .target = target, .feed = feed};
        score.input = MGPT_N_POINTS;
        status = explain_score(&score, &w, s->err);
        s->work += (double)w.info.n_params * (double)s->n;
        if (status == MGPT_OK)
            *nmse = score.nmse;
        else if (status == MGPT_EARG)
            status = MGPT_OK; /* does not fit */
    }
    whatif_close(&w);
    return status;
}

static int note(struct search *s, size_t i, int layer, double nmse)
{
    struct explain_trial trial = {.nmse = nmse, .suspect = i, .layer = layer};
    size_t n = text_format(trial.cause, sizeof trial.cause, "%s", s->suspects[i].cause);
    if (layer >= 0)
        text_format(trial.cause + n, sizeof trial.cause - n, ", in layer %d only", layer);
    s->e->n_tried++;
    s->e->restored |= nmse <= s->e->bound;
    return arr_push(s->e->trials, trial) ? MGPT_OK : err_memory(s->err, "trials", sizeof trial);
}

static int enough(const struct search *s)
{
    return s->work > most_work || (s->e->restored && s->work > enough_work);
}

/* All suspects that show at one of `points` and were not tried for `before`. */
static int try_points(struct search *s, uint64_t points, uint64_t before, int layer)
{
    int status = MGPT_OK;
    for (size_t i = 0; i < arr_len(s->suspects) && status == MGPT_OK && !enough(s); i++) {
        const struct suspect *suspect = &s->suspects[i];
        double nmse;
        if (!(suspect->points & points) || suspect->points & before ||
            (layer >= 0 && !suspect->per_layer))
            continue;
        status = try_one(s, i, layer, s->target, s->feed, &nmse);
        if (status == MGPT_OK && !isinf(nmse))
            status = note(s, i, layer, nmse);
    }
    return status;
}

static int better(double a, double b)
{
    return isnan(b) ? !isnan(a) : a < b;
}

/* Best first; a stable order among equals, for the list begins with the likeliest. */
static void sort(struct explain_trial *trials)
{
    for (size_t i = 1; i < arr_len(trials); i++) {
        struct explain_trial t = trials[i];
        size_t j = i;
        for (; j > 0 && better(t.nmse, trials[j - 1].nmse); j--)
            trials[j] = trials[j - 1];
        trials[j] = t;
    }
}

/* Whatever is within the bound restores equally well: the first of those that were tried comes first. */
static void prefer_likeliest(struct explain *e)
{
    size_t first = 0, n = arr_len(e->trials);
    for (size_t i = 1; i < n && e->trials[i].nmse <= e->bound; i++) {
        const struct explain_trial *a = &e->trials[i], *b = &e->trials[first];
        int all = (a->layer < 0) - (b->layer < 0);
        if (all > 0 || (all == 0 && a->suspect < b->suspect && a->nmse <= 100 * b->nmse))
            first = i;
    }
    if (n == 0 || first == 0)
        return;
    struct explain_trial t = e->trials[first];
    memmove(e->trials + 1, e->trials, first * sizeof t);
    e->trials[0] = t;
}

/* ---- where to begin ---------------------------------------------------------------------------- */

static uint64_t between(mgpt_point after, mgpt_point upto)
{
    uint64_t to = MGPT_POINT_BIT(upto + 1) - 1;
    return after < upto ? to & ~(MGPT_POINT_BIT(after + 1) - 1) : to;
}

/* The points that the stages from the last good hook to the first bad one go through. */
static uint64_t points_of(const struct locate *l)
{
    const uint64_t all = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;
    struct ref_hook bad = l->hooks[l->first_bad].hook;
    if (l->n_hooks == 0)
        return all;
    if (l->last_good < 0)
        return bad.layer <= 0 ? between(MGPT_EMBD, bad.point) | MGPT_POINT_BIT(MGPT_EMBD) : all;
    struct ref_hook good = l->hooks[l->last_good].hook;
    int last = bad.layer < 0 && bad.point >= MGPT_FINAL, first = bad.layer <= 0 && !last;
    if (good.layer == bad.layer || (first && good.layer < 0) ||
        (last && good.layer == l->hooks[l->n_hooks ? l->n_hooks - 1 : 0].hook.layer))
        return between(good.point, bad.point);
    return all;
}

/* Suspects that change nothing at position 0, where a query sees one key only. */
static uint64_t seen_from_one(void)
{
    return MGPT_POINT_BIT(MGPT_Q) | MGPT_POINT_BIT(MGPT_K) | MGPT_POINT_BIT(MGPT_ROT_Q) |
           MGPT_POINT_BIT(MGPT_ROT_K) | MGPT_POINT_BIT(MGPT_SCORES) | MGPT_POINT_BIT(MGPT_WEIGHTS);
}

static double position_error(const struct locate_at *at)
{
    return at->square == 0 ? 0 : at->square / fmax(at->ref_square, 1e-300);
}

static uint64_t read_shape(struct explain *e, const struct locate *l)
{
    const struct locate_hook *logits = &l->hooks[l->n_hooks];
    const uint64_t all = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;
    size_t first = 0;
    while (first < l->n && position_error(&logits->own[first]) <= l->bound &&
           !isnan(logits->own[first].worst))
        first++;
    if (first >= l->n) {
        text_format(e->shape, sizeof e->shape, "the logits agree at every position");
        return all;
    }
    if (isnan(logits->own[first].worst)) {
        text_format(e->shape, sizeof e->shape,
                    "not finite from position %zu on: a weight that is NaN or infinite", first);
        return all;
    }
    if (first == 0) {
        text_format(e->shape, sizeof e->shape,
                    "position 0 differs already: not q, k, their rotation or the mask");
        return all & ~seen_from_one();
    }
    if (first == 1)
        text_format(e->shape, sizeof e->shape,
                    "position 0 agrees, where a query sees one key only: q, k, rotation or scale");
    else
        text_format(e->shape, sizeof e->shape,
                    "positions before %zu agree: a window, or that token's or position's row",
                    first);
    return seen_from_one();
}

static size_t positions(const struct locate *l, const struct answer *a)
{
    size_t bad = l->hooks[l->first_bad].pos, n = bad + 4 > POSITIONS ? bad + 4 : POSITIONS;
    n = n < POSITIONS_MOST ? n : POSITIONS_MOST;
    return n < a->n ? n : a->n;
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

/* What the reference says about the target with the model as it is, in float64. */
static int search_all(struct search *s)
{
    struct explain *e = s->e;
    const struct locate *l = s->l;
    uint64_t shape = read_shape(e, l), first = s->feed ? points_of(l) : shape;
    int only = answer_hook(s->a, s->target).layer;
    int status = try_one(s, SIZE_MAX, -1, s->target, s->feed, &e->as_is);
    if (status != MGPT_OK || e->as_is <= e->bound) {
        e->kernels = status == MGPT_OK;
        return status;
    }
    status = try_points(s, first, 0, -1);
    if (status == MGPT_OK && !e->restored && s->feed && only >= 0)
        status = try_points(s, first, 0, only);
    if (status == MGPT_OK && !e->restored && first != MGPT_POINT_BIT(MGPT_N_POINTS) - 1)
        status = try_points(s, ~UINT64_C(0), first, -1);
    for (int layer = 0; !s->feed && layer < (int)l->n && status == MGPT_OK && !e->restored;
         layer++) {
        mgpt_info info;
        mgpt_get_info(s->model, &info, NULL);
        if (layer >= info.n_layer)
            break;
        status = try_points(s, first, 0, layer);
    }
    return status;
}

/* The whole pass of trial i, in all layers and, where that does not do and only one stage of its kind is
 * wrong, in the layer that was looked at. */
static int whole_pass(struct search *s, struct explain_trial *trial, double *logits)
{
    int only = answer_hook(s->a, s->target).layer;
    double alone;
    int status = try_one(s, trial->suspect, trial->layer, s->a->n_hooks, 0, logits);
    if (status != MGPT_OK || *logits <= s->e->bound || trial->layer >= 0 || only < 0 ||
        !s->suspects[trial->suspect].per_layer || same_hook_everywhere_bad(s->l))
        return status;
    status = try_one(s, trial->suspect, only, s->a->n_hooks, 0, &alone);
    if (status == MGPT_OK && better(alone, *logits)) {
        size_t n = strlen(trial->cause);
        text_format(trial->cause + n, sizeof trial->cause - n, ", in layer %d only", only);
        trial->layer = only;
        *logits = alone;
    }
    return status;
}

/* Several may restore the one hook: the first of them that restores the logits as well is the cause, or
 * else the one that comes nearest. */
static int confirm(struct search *s)
{
    struct explain *e = s->e;
    size_t best = 0, n = arr_len(e->trials);
    e->logits = e->trials[0].nmse;
    for (size_t i = 0; s->feed && i < n && i < CONFIRMED && e->trials[i].nmse <= e->bound; i++) {
        double logits;
        int status = whole_pass(s, &e->trials[i], &logits);
        if (status != MGPT_OK)
            return status;
        if (i > 0 && !better(logits, e->logits))
            continue;
        best = i;
        e->logits = logits;
        if (logits <= e->bound)
            break;
    }
    struct explain_trial t = e->trials[best];
    memmove(e->trials + 1, e->trials, best * sizeof t);
    e->trials[0] = t;
    return MGPT_OK;
}

int explain_run(struct explain *e, const mgpt_model *model, const struct answer *a,
                const struct locate *l, mgpt_error *err)
{
    mgpt_error local;
    struct whatif as_is;
    *e = (struct explain){.bound = l->bound, .as_is = (double)NAN, .logits = (double)NAN};
    struct search s = {.e = e, .model = model, .a = a, .l = l, .err = err ? err : &local};
    if (l->first_bad < 0)
        return MGPT_OK;
    s.target = (size_t)l->first_bad;
    s.feed = a->n_hooks > 0;
    s.n = positions(l, a);
    int status = whatif_open(&as_is, model, a->tokens, s.n, s.err);
    if (status != MGPT_OK)
        return status;
    s.suspects = suspects_list(&as_is, s.err);
    whatif_close(&as_is);
    status = s.suspects ? explain_weights(&e->weight, model, a, l, s.n, s.err) : MGPT_EMEM;
    if (status == MGPT_OK && !e->weight.found)
        status = search_all(&s);
    sort(e->trials);
    prefer_likeliest(e);
    if (status == MGPT_OK && e->restored)
        status = confirm(&s);
    arr_free(s.suspects);
    if (status != MGPT_OK)
        explain_free(e);
    return status;
}

void explain_free(struct explain *e)
{
    arr_free(e->trials);
}
