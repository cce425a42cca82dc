/* A vector or a matrix that differs in many layers: it is solved for where values are bad first, with
 * it the next one is, until a whole pass agrees. See explain_impl.h.
 *
 * Inner values are needed, for each tensor is solved for at its own stage.
 */
#include "check/explain/explain_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

enum { TENSORS_MOST = 1000 };

struct tensor_chain {
    struct search *s;
    const struct whatif_tensor *list; /* what was solved for, the last one first */
    int matrices;                     /* 1: matrices, 0: vectors */
};

static int is_matrix(const struct search *s, const struct whatif_tensor *given)
{
    mgpt_tensor t;
    return oracle_tensor_find(s->model, given->name, &t) && t.n_dims == 2;
}

static const struct whatif_tensor *find_given(const struct whatif_tensor *list, const char *name)
{
    while (list && strcmp(list->name, name) != 0)
        list = list->next;
    return list;
}

/* The list with the tensors of a trial in front; NULL: the trial is of another kind. */
static const struct whatif_tensor *chain_longer(struct tensor_chain *c, const struct search *s,
                                                const struct explain_trial *t)
{
    const struct whatif_edit *edit = &s->suspects[t->suspect].edit;
    const struct whatif_tensor *list = c->list;
    if (!(t->nmse <= s->e->bound) || edit->apply != edit_given || edit->columns)
        return NULL;
    for (const struct whatif_tensor *g = edit->given; g; g = g->next) {
        if (find_given(list, g->name) || is_matrix(s, g) != c->matrices)
            return NULL;
        struct whatif_tensor *copy = search_new(c->s, 1, sizeof *copy);
        if (!copy)
            return NULL;
        *copy = *g;
        copy->next = list;
        list = copy;
    }
    return list;
}

/* Takes the trial with which the first bad hook is farthest, and beyond `hook`. *more: there is
 * one. */
static int chain_take(struct tensor_chain *c, const struct search *found, int64_t hook, int *more)
{
    const struct whatif_tensor *best = NULL;
    int status = MGPT_OK;
    *more = 0;
    for (size_t i = 0; i < arr_len(found->e->trials) && status == MGPT_OK; i++) {
        struct locate l;
        const struct whatif_tensor *list = chain_longer(c, found, &found->e->trials[i]);
        struct whatif_edit edit = given_edit(list);
        if (!list && c->s->err->status == MGPT_EMEM)
            return MGPT_EMEM;
        if (!list)
            continue;
        status = search_locate(c->s, &edit, -1, &l);
        if (status != MGPT_OK)
            break;
        int64_t first = l.first_bad < 0 ? (int64_t)l.n_hooks + 1 : l.first_bad;
        if (first > hook)
            hook = first, best = list;
        locate_free(&l);
    }
    if (best)
        c->list = best;
    *more = best != NULL;
    return status == MGPT_EARG ? MGPT_OK : status;
}

/* Solves for the next tensor with those of the list. */
static int solve_next(struct tensor_chain *c, const struct whatif *base, int *more)
{
    struct locate l;
    struct explain next = {.bound = c->s->e->bound};
    struct search s = *c->s;
    s.base = base;
    *more = 0;
    int status = search_locate(&s, NULL, -1, &l);
    if (status != MGPT_OK)
        return status;
    s.e = &next;
    s.l = &l;
    if (l.first_bad >= 0) {
        search_begin(&s);
        status = c->matrices ? solve_matrix(&s) : solve_vectors(&s);
    }
    c->s->suspects = s.suspects;
    c->s->owned = s.owned;
    c->s->work = s.work;
    c->s->e->n_tried += next.n_tried;
    if (status == MGPT_OK)
        status = chain_take(c, &s, l.first_bad, more);
    explain_free(&next);
    locate_free(&l);
    return status;
}

static int chain_next(struct tensor_chain *c, int *more)
{
    struct whatif base;
    struct whatif_edit edit = given_edit(c->list);
    int status = whatif_over(&base, c->s->base, c->s->a->n, c->s->err);
    if (status != MGPT_OK)
        return status;
    whatif_apply(&base, &edit, -1);
    status = solve_next(c, &base, more);
    whatif_close(&base);
    return status == MGPT_EARG ? MGPT_OK : status;
}

int search_layers(struct search *s)
{
    struct tensor_chain c = {.s = s};
    int more = arr_len(s->e->trials) > 0 && s->a->n_hooks > 0, status = MGPT_OK;
    const struct whatif_tensor *first =
        more ? s->suspects[s->e->trials[0].suspect].edit.given : NULL;
    if (!first)
        return MGPT_OK;
    c.matrices = is_matrix(s, first);
    status = chain_take(&c, s, s->l->first_bad, &more);
    for (size_t n = 0; more && status == MGPT_OK && n < TENSORS_MOST && !search_spent(s); n++)
        status = chain_next(&c, &more);
    if (status == MGPT_OK && c.list && c.list->next)
        status = given_propose_list(s, c.list, c.matrices);
    search_sort(s->e);
    return status;
}
