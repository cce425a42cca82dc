/* Where to look, and in which order. See explain.h. */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Positions that suspects are compared on. */
enum { POSITIONS = 12, POSITIONS_MOST = 300 };
static const uint64_t anywhere = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;

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

/* The first position whose logits are bad. */
static size_t first_bad_position(const struct locate *l)
{
    const struct locate_hook *logits = &l->hooks[l->n_hooks];
    size_t first = 0;
    while (first < l->n && position_error(&logits->own[first]) <= l->bound &&
           !isnan(logits->own[first].worst))
        first++;
    return first;
}

static uint64_t explain_read_shape(struct explain *e, const mgpt_model *model,
                                   const struct locate *l)
{
    const struct locate_hook *logits = &l->hooks[l->n_hooks];
    int32_t at = l->hooks[l->first_bad].hook.layer;
    size_t first = first_bad_position(l);
    mgpt_layer layer;
    if (at >= 0 && mgpt_get_layer(model, (size_t)at, &layer, NULL) == MGPT_OK && layer.n_conv) {
        text_format(e->shape, sizeof e->shape,
                    "layer %d is a short convolution of %d tokens: positions exclude no suspect",
                    (int)at, (int)layer.n_conv);
        return anywhere;
    }
    if (first >= l->n) {
        text_format(e->shape, sizeof e->shape, "the logits agree at every position");
        return anywhere;
    }
    if (logits->own[0].ref_square == 0 && first > 0) {
        text_format(e->shape, sizeof e->shape,
                    "the reference lacks the first positions: positions exclude no suspect");
        return anywhere;
    }
    if (isnan(logits->own[first].worst)) {
        text_format(e->shape, sizeof e->shape,
                    "%snot finite from position %zu on: a weight that is NaN or infinite",
                    isfinite(logits->own[first].ours) ? "the reference is " : "", first);
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

/* The suspects that are listed, at one hook. */
static int try_listed(struct search *s, uint64_t first)
{
    struct locate_layers layers = locate_layers(s->l, s->as_is.info.n_layer);
    int status = search_try(s, first, 0, -1);
    for (int i = layers.to; s->feed && i >= layers.from && status == MGPT_OK; i--)
        if (!s->e->proved)
            status = search_try(s, first, 0, i);
    if (status == MGPT_OK && !s->e->proved && first != anywhere)
        status = search_try(s, ~UINT64_C(0), first, -1);
    for (int i = 0; !s->feed && i < s->as_is.info.n_layer && status == MGPT_OK && !s->e->proved;
         i++)
        status = search_try(s, first, 0, i);
    return status;
}

/* What no list holds: the numbers are solved for. A norm's values times factors are its gain. */
static int try_solved(struct search *s)
{
    static int (*const solvers[])(struct search *) = {solve_columns, solve_vectors, solve_matrix,
                                                      solve_numbers, solve_fits};
    int norm = stage_is_normed(s->model, answer_hook(s->a, s->target)), status = MGPT_OK;
    for (size_t i = 0; i < 5 && status == MGPT_OK && !s->e->proved; i++)
        status = solvers[norm && i < 2 ? 1 - i : i](s);
    return status;
}

/* All there is to try at the target. */
static int search_target(struct search *s, int solve)
{
    struct explain *e = s->e;
    uint64_t shape = explain_read_shape(e, s->model, s->l),
             first = s->feed ? points_of(s->l, s->as_is.info.n_layer) : shape;
    s->points = s->feed ? first : anywhere;
    int status = try_listed(s, first);
    if (status == MGPT_OK && !e->proved && solve)
        status = try_solved(s);
    search_sort(e);
    return status;
}

/* Inner values only show where to look first: when no cause at the bad hook is proved, one is
 * looked for as if there were none. */
static int without_hooks(struct search *s, int solve)
{
    struct explain *e = s->e, before = *e;
    size_t target = s->target;
    e->trials = NULL;
    s->feed = 0;
    s->target = s->a->n_hooks;
    int status = search_target(s, solve);
    e->n_tried = e->n_tried > before.n_tried ? e->n_tried : before.n_tried;
    int keep = e->proved || arr_len(before.trials) == 0 || before.trials[0].nmse > e->bound;
    arr_free(*(keep ? &before.trials : &e->trials));
    if (!keep)
        e->trials = before.trials;
    s->feed = 1;
    s->target = target;
    return status;
}

void search_begin(struct search *s)
{
    s->target = (size_t)s->l->first_bad;
    s->feed = s->a->n_hooks > 0;
    s->n = positions(s->l, s->a);
}

int search_all(struct search *s, int solve)
{
    search_begin(s);
    int status = search_as_is(s, &s->e->as_is);
    if (status == MGPT_OK)
        status = search_target(s, solve);
    if (status == MGPT_OK && s->feed && !s->e->proved)
        status = without_hooks(s, solve);
    return status;
}

/* ---- all of it --------------------------------------------------------------------------------- */

/* A weight, what is listed, what can be solved for, that in many layers, and two of these. */
static int search_causes(struct search *s)
{
    if (s->as_is.spec.n_latent) /* nothing is solved for */
        return search_all(s, 0);
    int status = solve_weights(s, &s->e->weight);
    if (status == MGPT_OK && !s->e->proved)
        status = search_all(s, 1);
    if (status == MGPT_OK && !s->e->proved)
        status = search_layers(s);
    if (status == MGPT_OK && !s->e->proved)
        status = search_pairs(s);
    return status == MGPT_OK && !s->e->proved ? solve_tied(s) : status;
}

/* Weights rounded to a shorter type agree with the first bad inner value of any reference that ran
 * in that type: if a whole pass does not, they say its precision and hint at no cause. */
static void rounding_is_precision(struct search *s)
{
    struct explain *e = s->e;
    if (e->proved || !s->a->n_hooks || !arr_len(e->trials) || !(e->trials[0].nmse <= e->bound))
        return;
    const struct whatif_edit *edit = &s->suspects[e->trials[0].suspect].edit;
    if (edit->apply != edit_rounded || edit->b != ORACLE_WEIGHTS)
        return;
    e->precision.inside = 1;
    if (!e->precision.fits && !e->precision.stored)
        e->precision.type = edit->a == ORACLE_BF16 ? "bfloat16" : "float16";
    arr_free(e->trials);
    e->trials = NULL;
}

/* The model as it is, in float64; then its precision, and if that is not all, causes. */
static int explain_search(struct search *s)
{
    struct explain *e = s->e;
    struct proof as_is;
    int status = search_prove(s, NULL, -1, &as_is);
    e->logits = as_is.logits;
    e->proved = e->kernels = as_is.proved;
    if (status == MGPT_OK && !e->proved)
        status = solve_precision(s);
    if (status == MGPT_OK && !e->proved && !(e->precision.stored && e->precision.fits))
        status = search_causes(s); /* with numbers that short nothing could be proved */
    if (status == MGPT_OK)
        rounding_is_precision(s);
    if (e->proved)
        e->precision = (struct explain_precision){0};
    return status;
}

/* Keeps the suspects that change one number or switch: tensors of latent attention have other shapes than heads. */
static void keep_for_latent(struct suspect *rows)
{
    whatif_fn *const safe[] = {edit_spec,     edit_layers, choose_spec,
                               flip_spec,     flip_layers, choose_layers,
                               edit_turn_one, edit_pairs,  edit_as_stored};
    size_t n = 0;
    for (size_t i = 0; i < arr_len(rows); i++) {
        int is_safe = 0;
        for (size_t k = 0; k < sizeof safe / sizeof *safe; k++)
            is_safe |= rows[i].edit.apply == safe[k];
        if (is_safe)
            rows[n++] = rows[i];
    }
    arr_set_len(rows, n);
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
    s.noise = search_noise(l);
    search_begin(&s);
    s.base = &s.as_is;
    int status = whatif_open(&s.as_is, model, a->tokens, a->n, s.err);
    if (status != MGPT_OK)
        return status;
    s.suspects = suspects_list(&s.as_is, first_bad_position(l), s.err);
    if (s.suspects && s.as_is.spec.n_latent)
        keep_for_latent(s.suspects);
    status = s.suspects ? explain_search(&s) : MGPT_EMEM;
    e->interrupted = status == MGPT_ESTOP && interrupted();
    if (e->interrupted) {
        search_sort(e);
        status = MGPT_OK;
    }
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
