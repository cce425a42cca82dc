/* Two causes at once: one that comes nearer, and what is left with it is looked for again; and three
 * switches of a configuration. See explain_impl.h. */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* First causes that are tried: with the suspects of all layers, and the best of them also with
 * those of single layers and what is solved for. Many rope bases, say, come about as near as one
 * another: so only the best ones of a kind. */
enum { FIRSTS = 16, SOLVED = 2, OF_A_KIND = 2 };

/* The share of the logits' NMSE that a first cause may leave. If more positions agree with it, or the
 * first bad value is a later one, it may leave more. */
static const double nearer = 0.9;

/* Whether the model with the first cause is nearer to the reference. */
static int is_nearer(const struct locate *l, const struct locate *was)
{
    size_t last = l->n_hooks;
    if (l->first_bad != was->first_bad)
        return l->first_bad > was->first_bad || !was->hooks[l->first_bad].fired;
    return l->hooks[l->first_bad].pos > was->hooks[was->first_bad].pos ||
           l->hooks[last].nmse < nearer * was->hooks[last].nmse;
}

/* A second one among those that are as common. */
static int search_common(struct search *s)
{
    search_begin(s);
    int status = search_as_is(s, &s->e->as_is);
    if (status == MGPT_OK)
        status = search_try(s, ~UINT64_C(0), 0, -1);
    search_sort(s->e);
    return status;
}

/* The causes are t, and what `second` found with it. */
static void take_causes(struct explain *e, const struct explain_trial *t,
                        const struct explain *second)
{
    const struct explain_trial *best = second->trials;
    const int two = second->with[0] != 0;
    if (!two && !best[0].proved)
        return;
    e->proved = 1;
    e->logits = two ? second->logits : best[0].logits;
    text_format(e->first, sizeof e->first, "%s", t->cause);
    text_format(e->with, sizeof e->with, "%s", two ? second->first : best[0].cause);
    text_format(e->third, sizeof e->third, "%s", two ? second->with : "");
}

static int search_with_each(struct search *s, int switches);

/* The second one, or the second and the third. */
static int search_second(struct search *s, const struct whatif *base, const struct explain_trial *t,
                         int solve)
{
    struct locate l;
    struct explain second = {.bound = s->e->bound};
    struct search more = *s;
    more.base = base;
    more.second = 1;
    int status = search_locate(&more, NULL, -1, &l);
    if (status != MGPT_OK)
        return status;
    more.e = &second;
    more.l = &l;
    if (l.first_bad >= 0 && more.common && more.switches > 1)
        status = search_with_each(&more, more.switches - 1);
    else if (l.first_bad >= 0 && more.common)
        status = search_common(&more);
    else if (l.first_bad >= 0 && is_nearer(&l, s->l))
        status = search_all(&more, solve);
    s->suspects = more.suspects;
    s->owned = more.owned;
    s->work = more.work;
    s->e->n_tried += second.n_tried;
    if (second.proved)
        take_causes(s->e, t, &second);
    explain_free(&second);
    locate_free(&l);
    return status;
}

static int search_pair(struct search *s, const struct explain_trial *t, int solve)
{
    struct whatif base;
    const struct whatif_edit edit = s->suspects[t->suspect].edit;
    int status = whatif_over(&base, s->base, s->a->n, s->err);
    if (status != MGPT_OK)
        return status;
    if (whatif_apply(&base, &edit, t->layer))
        status = search_second(s, &base, t, solve);
    whatif_close(&base);
    return status == MGPT_EARG ? MGPT_OK : status;
}

/* Sorts the trials that may be the first cause of a pair: most hooks that agree first, then most
 * positions, then the smallest remaining error. */
static int comes_before(const struct explain_trial *a, const struct explain_trial *b)
{
    if (a->reach != b->reach)
        return a->reach > b->reach;
    if (a->good != b->good)
        return a->good > b->good;
    return isnan(b->nmse) ? !isnan(a->nmse) : a->nmse < b->nmse;
}

/* The best trial that is not taken yet; NULL: there is none. */
static struct explain_trial *next_first(const struct search *s, const char *taken)
{
    struct explain_trial *best = NULL;
    for (size_t i = 0; i < arr_len(s->e->trials); i++)
        if (!taken[i] && (!best || comes_before(&s->e->trials[i], best)))
            best = &s->e->trials[i];
    return best;
}

static int of_a_kind(const struct search *s, const struct explain_trial *a,
                     const struct explain_trial *b)
{
    const struct whatif_edit *x = &s->suspects[a->suspect].edit, *y = &s->suspects[b->suspect].edit;
    return x->apply == y->apply && x->member == y->member && x->change == y->change;
}

/* Whether both come as much nearer: with either the logits are the same (a final norm by the sum of
 * squares, logits divided by sqrt(n_embd)). What comes no nearer may differ at later positions. */
static int same_effect(const struct search *s, const struct explain_trial *a,
                       const struct explain_trial *b)
{
    return a->nmse < nearer * s->e->as_is && fabs(a->nmse - b->nmse) <= 1e-9 * a->nmse;
}

/* *n of them. MGPT_OK or MGPT_EMEM. */
static int list_firsts(const struct search *s, struct explain_trial firsts[FIRSTS], size_t *n)
{
    struct explain_trial *t;
    char *taken = mem_new(arr_len(s->e->trials), 1);
    if (!taken)
        return err_memory(s->err, "trials", arr_len(s->e->trials));
    for (*n = 0; *n < FIRSTS && (t = next_first(s, taken)) != NULL;) {
        int alike = 0;
        taken[t - s->e->trials] = 1;
        for (size_t i = 0; i < *n; i++)
            alike += same_effect(s, &firsts[i], t) ? OF_A_KIND : of_a_kind(s, &firsts[i], t);
        if (alike < OF_A_KIND)
            firsts[(*n)++] = *t;
    }
    free(taken);
    return MGPT_OK;
}

/* Each common suspect from s->common on with each later one: none need come nearer alone. switches > 0: each
 * switch of a configuration with as many later ones. */
static int search_with_each(struct search *s, int switches)
{
    const size_t from = s->common;
    const int of = s->switches;
    int status = MGPT_OK;
    s->switches = switches;
    for (size_t i = from; i < arr_len(s->suspects) && status == MGPT_OK && !s->e->proved; i++) {
        struct explain_trial t = {.suspect = i, .layer = -1};
        int is_one = switches ? s->suspects[i].is_switch : s->suspects[i].common;
        if (!is_one || search_spent(s))
            continue;
        search_name_trial(s, &t);
        s->common = i + 1;
        status = search_pair(s, &t, 0);
    }
    s->common = from;
    s->switches = of;
    return status;
}

/* Whether values are solved for with it, which takes long. */
static int comes_nearer(const struct search *s, const struct explain_trial *t)
{
    return t->reach > 0 || t->nmse < nearer * s->e->as_is;
}

int search_pairs(struct search *s)
{
    struct explain_trial firsts[FIRSTS];
    size_t n = 0;
    int status = search_with_each(s, 0);
    if (status == MGPT_OK && !s->e->proved)
        status = search_with_each(s, 2);
    if (status == MGPT_OK && !s->e->proved)
        status = list_firsts(s, firsts, &n);
    for (size_t i = 0; i < n && status == MGPT_OK; i++)
        if (!s->e->proved && !search_spent(s))
            status = search_pair(s, &firsts[i], 0);
    for (size_t i = 0, solved = 0; i < n && solved < SOLVED && status == MGPT_OK; i++)
        if (!s->e->proved && !search_spent(s) && comes_nearer(s, &firsts[i])) {
            status = search_pair(s, &firsts[i], 1);
            solved++;
        }
    return status;
}
