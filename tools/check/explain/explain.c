/* Trying the suspects. See explain.h. */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Positions that suspects are compared on, and products (weights times positions times trials)
 * after which no more are tried once one has restored agreement. */
enum { POSITIONS = 12, POSITIONS_MOST = 300, CONFIRMED = 12 };
static const double enough_work = 5e9, most_work = 4e12;
static const uint64_t anywhere = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;

/* ---- the search -------------------------------------------------------------------------------- */

/* One suspect in one layer or all. */
static int try_suspect(struct search *s, size_t i, int layer, size_t target, int feed, double *nmse)
{
    return search_score(s, &s->suspects[i].edit, layer, target, feed, nmse);
}

static int note_trial(struct search *s, size_t i, int layer, double nmse)
{
    struct explain_trial trial = {.nmse = nmse, .suspect = i, .layer = layer};
    size_t n = text_format(trial.cause, sizeof trial.cause, "%s", s->suspects[i].cause);
    if (layer >= 0)
        text_format(trial.cause + n, sizeof trial.cause - n, ", in layer %d only", layer);
    s->e->n_tried++;
    s->e->restored |= nmse <= s->e->bound;
    return arr_push(s->e->trials, trial) ? MGPT_OK : err_memory(s->err, "trials", sizeof trial);
}

void *search_new(struct search *s, size_t n, size_t each)
{
    void *block = mem_new(n, each);
    if (block && arr_push(s->owned, block))
        return block;
    free(block);
    err_memory(s->err, "what is solved for", n * each);
    return NULL;
}

size_t search_positions(const struct search *s, size_t n)
{
    n = n > s->n ? n : s->n;
    return n < s->a->n ? n : s->a->n;
}

int search_propose(struct search *s, struct whatif_edit edit, const char *cause, ...)
{
    struct suspect suspect = {.edit = edit};
    size_t i = arr_len(s->suspects);
    double nmse;
    va_list args;
    va_start(args, cause);
    vsnprintf(suspect.cause, sizeof suspect.cause, cause, args);
    va_end(args);
    if (!arr_push(s->suspects, suspect))
        return err_memory(s->err, "suspects", sizeof suspect);
    int status = try_suspect(s, i, -1, s->target, s->feed, &nmse);
    if (status == MGPT_OK && nmse <= s->e->bound)
        return note_trial(s, i, -1, nmse);
    arr_set_len(s->suspects, i);
    return status;
}

int search_spent(const struct search *s)
{
    return s->work > most_work;
}

static int enough(const struct search *s)
{
    return search_spent(s) || (s->e->restored && s->work > enough_work);
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
        status = try_suspect(s, i, layer, s->target, s->feed, &nmse);
        if (status == MGPT_OK && !isinf(nmse))
            status = note_trial(s, i, layer, nmse);
    }
    return status;
}

static int better(double a, double b)
{
    return isnan(b) ? !isnan(a) : a < b;
}

/* Best first; a stable order among equals, for the list begins with the likeliest. */
static void sort_trials(struct explain_trial *trials)
{
    for (size_t i = 1; i < arr_len(trials); i++) {
        struct explain_trial t = trials[i];
        size_t j = i;
        for (; j > 0 && better(t.nmse, trials[j - 1].nmse); j--)
            trials[j] = trials[j - 1];
        trials[j] = t;
    }
}

/* All trials within the bound restore equally well: the one that was tried first comes first. */
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

/* Points first to last, in the order of the pass. */
static uint64_t range(int first, int last)
{
    return (MGPT_POINT_BIT(last + 1) - 1) & ~(MGPT_POINT_BIT(first) - 1);
}

/* The points that the stages from the last good hook to the first bad one go through. */
static uint64_t points_of(const struct locate *l, int n_layer)
{
    struct locate_layers layers = locate_layers(l, n_layer);
    struct ref_hook bad = l->hooks[l->first_bad].hook, good = {.layer = -1, .point = MGPT_EMBD};
    uint64_t points = 0;
    int first = MGPT_RESID_PRE, last = (int)bad.point;
    if (l->n_hooks == 0)
        return range(0, MGPT_LOGITS);
    if (l->last_good >= 0)
        good = l->hooks[l->last_good].hook;
    if (l->last_good < 0)
        first = MGPT_EMBD;
    else if (good.layer < 0 || good.layer == layers.from || layers.from > layers.to)
        first = (int)good.point + 1;
    if (layers.from < layers.to || (bad.point == MGPT_RESID_PRE && layers.from == layers.to))
        points = range(MGPT_RESID_PRE, MGPT_RESID_POST);
    return points | range(first < last ? first : last, last);
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

static uint64_t explain_read_shape(struct explain *e, const struct locate *l)
{
    const struct locate_hook *logits = &l->hooks[l->n_hooks];
    size_t first = 0;
    while (first < l->n && position_error(&logits->own[first]) <= l->bound &&
           !isnan(logits->own[first].worst))
        first++;
    if (first >= l->n) {
        text_format(e->shape, sizeof e->shape, "the logits agree at every position");
        return anywhere;
    }
    if (isnan(logits->own[first].worst)) {
        text_format(e->shape, sizeof e->shape,
                    "not finite from position %zu on: a weight that is NaN or infinite", first);
        return anywhere;
    }
    if (first == 0) {
        text_format(e->shape, sizeof e->shape,
                    "position 0 differs already: not q, k, their rotation or the mask");
        return anywhere & ~seen_from_one();
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

/* The suspects that are listed, at one hook. */
static int try_listed(struct search *s, uint64_t first)
{
    struct locate_layers layers = locate_layers(s->l, s->as_is.info.n_layer);
    int status = try_points(s, first, 0, -1);
    for (int i = layers.to; s->feed && i >= layers.from && status == MGPT_OK; i--)
        if (!s->e->restored)
            status = try_points(s, first, 0, i);
    if (status == MGPT_OK && !s->e->restored && first != anywhere)
        status = try_points(s, ~UINT64_C(0), first, -1);
    for (int i = 0; !s->feed && i < s->as_is.info.n_layer && status == MGPT_OK && !s->e->restored;
         i++)
        status = try_points(s, first, 0, i);
    return status;
}

static int explain_is_norm(mgpt_point point)
{
    return point == MGPT_ATTN_IN || point == MGPT_MLP_IN || point == MGPT_FINAL;
}

/* What no list holds: the numbers are solved for. A norm's values times factors are its gain. */
static int try_solved(struct search *s)
{
    static int (*const solvers[])(struct search *) = {solve_columns, solve_vectors, solve_matrix,
                                                      solve_numbers, solve_fits};
    int norm = explain_is_norm(answer_hook(s->a, s->target).point), status = MGPT_OK;
    for (size_t i = 0; i < 5 && status == MGPT_OK && !s->e->restored; i++)
        status = solvers[norm && i < 2 ? 1 - i : i](s);
    return status;
}

/* All there is to try at the target. */
static int search_all(struct search *s)
{
    struct explain *e = s->e;
    uint64_t shape = explain_read_shape(e, s->l),
             first = s->feed ? points_of(s->l, s->as_is.info.n_layer) : shape;
    s->points = s->feed ? first : anywhere;
    int status = try_listed(s, first);
    if (status == MGPT_OK && !e->restored)
        status = try_solved(s);
    sort_trials(e->trials);
    prefer_likeliest(e);
    return status;
}

/* The whole pass of trial i, in all layers and, where that does not do and only one stage of its
 * kind is wrong, in the layer that was looked at. */
static int whole_pass(struct search *s, struct explain_trial *trial, double *logits)
{
    struct locate_layers layers = locate_layers(s->l, s->as_is.info.n_layer);
    int only = layers.from == layers.to ? layers.to : -1;
    double alone;
    int status = try_suspect(s, trial->suspect, trial->layer, s->a->n_hooks, 0, logits);
    if (status != MGPT_OK || *logits <= s->e->bound || trial->layer >= 0 || only < 0 ||
        !s->suspects[trial->suspect].per_layer || same_hook_everywhere_bad(s->l))
        return status;
    status = try_suspect(s, trial->suspect, only, s->a->n_hooks, 0, &alone);
    if (status == MGPT_OK && better(alone, *logits)) {
        size_t n = strlen(trial->cause);
        text_format(trial->cause + n, sizeof trial->cause - n, ", in layer %d only", only);
        trial->layer = only;
        *logits = alone;
    }
    return status;
}

/* Several may restore the one hook: the first of them that restores the logits as well is the
 * cause, or else the one that comes nearest. */
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

/* Inner values only show where to look first: when no cause at the bad hook restores the logits of
 * the whole pass, what would do so is looked for as if there were none. */
static int without_hooks(struct search *s)
{
    struct explain *e = s->e, before = *e;
    e->trials = NULL;
    e->restored = 0;
    s->feed = 0;
    s->target = s->a->n_hooks;
    int status = search_all(s);
    e->n_tried = e->n_tried > before.n_tried ? e->n_tried : before.n_tried;
    if (e->restored) {
        e->logits = e->trials[0].nmse;
        arr_free(before.trials);
        return status;
    }
    arr_free(e->trials);
    *e = before;
    return status;
}

/* The target with the model as it is, in float64, then with what is suspected. */
static int search_run(struct search *s)
{
    struct explain *e = s->e;
    int status = search_score(s, NULL, -1, s->target, s->feed, &e->as_is);
    if (status != MGPT_OK || e->as_is <= e->bound) {
        e->kernels = status == MGPT_OK;
        return status;
    }
    status = search_all(s);
    if (status == MGPT_OK && e->restored)
        status = confirm(s);
    if (status == MGPT_OK && s->feed && !(e->restored && e->logits <= e->bound))
        status = without_hooks(s);
    return status == MGPT_OK && !e->restored ? solve_tied(s) : status;
}

int explain_run(struct explain *e, const mgpt_model *model, const struct answer *a,
                const struct locate *l, mgpt_error *err)
{
    mgpt_error local;
    *e = (struct explain){.bound = l->bound, .as_is = (double)NAN, .logits = (double)NAN};
    struct search s = {.e = e, .model = model, .a = a, .l = l, .err = err ? err : &local};
    *s.err = (mgpt_error){.status = MGPT_OK};
    if (l->first_bad < 0)
        return MGPT_OK;
    s.target = (size_t)l->first_bad;
    s.feed = a->n_hooks > 0;
    s.n = positions(l, a);
    s.base = &s.as_is;
    int status = whatif_open(&s.as_is, model, a->tokens, a->n, s.err);
    if (status != MGPT_OK)
        return status;
    s.suspects = suspects_list(&s.as_is, s.err);
    status = s.suspects ? solve_weights(&s, &e->weight) : MGPT_EMEM;
    if (status == MGPT_OK && !e->weight.found)
        status = search_run(&s);
    whatif_close(&s.as_is);
    arr_free(s.suspects);
    for (size_t i = 0; i < arr_len(s.owned); i++)
        free(s.owned[i]);
    arr_free(s.owned);
    if (status != MGPT_OK)
        explain_free(e);
    return status;
}

void explain_free(struct explain *e)
{
    arr_free(e->trials);
}
