/* Trying suspects at the target, and proving those that restore agreement there. See
 * explain_impl.h. */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Products (weights times positions times trials) after which no more are tried, and after which
 * no more are tried once there is a cause. */
static const double most_work = 4e12, enough_work = 5e9;

/* Positions of the first test, at least. A suspect that does not agree there cannot agree at
 * all. */
enum { FIRST = 8 };

/* ---- one suspect ------------------------------------------------------------------------------- */

static struct explain_trial *note_trial(struct search *s, struct explain_trial trial)
{
    search_name_trial(s, &trial);
    s->e->n_tried++;
    if (arr_push(s->e->trials, trial))
        return &s->e->trials[arr_len(s->e->trials) - 1];
    err_memory(s->err, "trials", sizeof trial);
    return NULL;
}

/* Where the first positions that differ are. */
static size_t first_test(const struct search *s)
{
    size_t n = s->l->hooks[s->target].pos + 1;
    n = n > FIRST ? n : FIRST;
    return n + FIRST / 2 < s->n ? n : s->n;
}

static int score_at(struct search *s, struct explain_trial *trial, size_t n)
{
    const struct whatif_edit *edit = &s->suspects[trial->suspect].edit;
    size_t all = s->n;
    s->n = n;
    int status = search_score(s, edit, trial->layer, s->target, s->feed, &trial->nmse);
    s->n = all;
    trial->good = s->good;
    return status;
}

/* A query that sees one key only gives it all weight: what q and k are changes nothing there. */
static int changes_nothing_at_0(const struct search *s, const struct suspect *suspect)
{
    const struct oracle_spec *spec = &s->base->spec;
    uint64_t qk = MGPT_POINT_BIT(MGPT_Q) | MGPT_POINT_BIT(MGPT_K) | MGPT_POINT_BIT(MGPT_ROT_Q) |
                  MGPT_POINT_BIT(MGPT_ROT_K);
    return suspect->points && !(suspect->points & ~qk) && !spec->v_is_k &&
           spec->mask == ORACLE_CAUSAL && spec->prefix == 0 && spec->softmax == ORACLE_SUM &&
           spec->cap_at < ORACLE_CAP_MASKED;
}

/* Looks at the first positions, and at all of the search's where those agree. A score is that of the
 * worst position, so what does not agree at the first one that differs cannot agree: enough to know
 * of a second cause. */
static int score_suspect(struct search *s, struct explain_trial *trial)
{
    size_t one = s->l->hooks[s->target].pos + 1, first = first_test(s);
    int status = MGPT_OK;
    if (s->second && !s->feed && one == 1 &&
        changes_nothing_at_0(s, &s->suspects[trial->suspect])) {
        trial->nmse = INFINITY;
        return MGPT_OK;
    }
    if (s->second && 2 * one <= first) {
        status = score_at(s, trial, one);
        if (status != MGPT_OK || !(trial->nmse <= s->e->bound))
            return status;
    }
    status = score_at(s, trial, first);
    if (status == MGPT_OK && first < s->n && trial->nmse <= s->e->bound)
        status = score_at(s, trial, s->n);
    return status;
}

/* One suspect in one layer or all: a trial, if it applies; a proof, if it restores agreement. */
static int try_suspect(struct search *s, size_t i, int layer)
{
    struct explain_trial trial = {.suspect = i, .layer = layer, .logits = (double)NAN};
    int status = score_suspect(s, &trial);
    if (status != MGPT_OK || isinf(trial.nmse))
        return status;
    struct explain_trial *noted = note_trial(s, trial);
    if (!noted)
        return MGPT_EMEM;
    return trial.nmse <= s->e->bound ? search_prove_trial(s, noted) : MGPT_OK;
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
    size_t i = arr_len(s->suspects), n = arr_len(s->e->trials);
    va_list args;
    va_start(args, cause);
    vsnprintf(suspect.cause, sizeof suspect.cause, cause, args);
    va_end(args);
    if (!arr_push(s->suspects, suspect))
        return err_memory(s->err, "suspects", sizeof suspect);
    int status = try_suspect(s, i, -1);
    if (arr_len(s->e->trials) > n && !(s->e->trials[n].nmse <= s->e->bound)) {
        arr_set_len(s->e->trials, n);
        s->e->n_tried--;
    }
    return status;
}

/* ---- all of them ------------------------------------------------------------------------------- */

int search_spent(const struct search *s)
{
    return s->work > most_work;
}

static int enough(const struct search *s)
{
    return search_spent(s) || (s->e->proved && s->work > enough_work);
}

static int is_tried(const struct search *s, const struct suspect *suspect, uint64_t points,
                    uint64_t before, int layer)
{
    if (s->common && !(s->switches ? suspect->is_switch : suspect->common))
        return 0;
    if (s->second && suspect->edit.change == TENSORS_QUANTISED)
        return 0; /* rounded row by row: too slow for each first cause */
    return (suspect->points & points) && !(suspect->points & before) &&
           (layer < 0 || suspect->per_layer);
}

int search_try(struct search *s, uint64_t points, uint64_t before, int layer)
{
    int status = MGPT_OK;
    for (size_t i = s->common; i < arr_len(s->suspects) && status == MGPT_OK && !enough(s); i++) {
        if (is_tried(s, &s->suspects[i], points, before, layer))
            status = try_suspect(s, i, layer);
    }
    return status;
}

/* ---- the best ---------------------------------------------------------------------------------- */

static int better(const struct explain_trial *a, const struct explain_trial *b)
{
    if (a->proved != b->proved)
        return a->proved;
    return isnan(b->nmse) ? !isnan(a->nmse)
                          : a->nmse < 0.999 * b->nmse; /* else as they were tried */
}

static void trial_first(struct explain *e, size_t i)
{
    struct explain_trial t = e->trials[i];
    memmove(e->trials + 1, e->trials, i * sizeof t);
    e->trials[0] = t;
}

/* All that agree restore equally well: the one that was tried first comes first. */
static void prefer_likeliest(struct explain *e)
{
    size_t first = 0, n = arr_len(e->trials);
    for (size_t i = 1; i < n && e->trials[i].nmse <= e->bound; i++) {
        const struct explain_trial *a = &e->trials[i], *b = &e->trials[first];
        int all = (a->layer < 0) - (b->layer < 0);
        if (a->proved == b->proved &&
            (all > 0 || (all == 0 && a->suspect < b->suspect && a->nmse <= 100 * b->nmse)))
            first = i;
    }
    if (first > 0)
        trial_first(e, first);
}

void search_sort(struct explain *e)
{
    struct explain_trial *trials = e->trials;
    for (size_t i = 1; i < arr_len(trials); i++) {
        struct explain_trial t = trials[i];
        size_t j = i;
        for (; j > 0 && better(&t, &trials[j - 1]); j--)
            trials[j] = trials[j - 1];
        trials[j] = t;
    }
    prefer_likeliest(e);
}
