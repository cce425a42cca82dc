/* Any bias or gain, and any weight far from the others of its tensor, solved for through all
 * operations between it and the values that are compared. See explain_impl.h.
 *
 * Each unknown takes a pass for each step (explain_fit.c): for small models only. Biases that are all
 * zeros and gains that are all ones come first, for that is what a vector that got lost looks like.
 */
#include "check/explain/explain_fit.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_PAID = 10, FAR_OUT = 8, TIMES = 6, FOUND = 4 };
static const double most_work = 4e10; /* of all fits: weights times positions */
static const size_t most_values = (size_t)1 << 24;

/* ---- vectors ------------------------------------------------------------------------------------ */

struct found {
    struct whatif_tensor *given;
    size_t differ; /* values */
};

struct fits {
    struct search *s;
    double work; /* the budget that is left */
    int layer;   /* the only one to look at, or -1 */
    /* vectors that restore agreement, the one that changes least first */
    struct found found[FOUND];
};

/* Whether `steps` with passes of T positions for n unknowns are still affordable. */
static int pays(struct fits *f, size_t n, int steps, size_t T)
{
    f->work -= (double)(n + 2) * steps * (double)f->s->as_is.info.n_params * (double)T;
    return f->work > 0;
}

static int keep_found(struct fits *f, struct whatif_tensor *given)
{
    struct found one = {given, 0};
    int status = given_differ(f->s, given, &one.differ);
    for (int i = 0; i < FOUND; i++)
        if (one.given && (!f->found[i].given || one.differ < f->found[i].differ)) {
            struct found t = f->found[i];
            f->found[i] = one;
            one = t;
        }
    return status;
}

/* A bias of v and one of attention's output can do the same: what changes fewest values comes
 * first. */
static int propose_found(struct fits *f)
{
    int status = MGPT_OK;
    for (int i = 0; i < FOUND && f->found[i].given && status == MGPT_OK; i++)
        status = given_propose(f->s, f->found[i].given, 0);
    return status;
}

static int fit_vector(struct fits *f, const char *name, size_t n)
{
    if (!pays(f, n, 4, f->s->n))
        return MGPT_OK;
    struct whatif_tensor *given = given_new(f->s, name, n);
    struct fit fit = {.s = f->s, .given = given, .n = n};
    int restored, status = given ? solve_fit(&fit, &restored) : f->s->err->status;
    return status == MGPT_OK && restored ? keep_found(f, given) : status;
}

static int in_layer(const struct fits *f, const char *name)
{
    const char *stem;
    return f->layer < 0 || oracle_layer_of(name, &stem) == f->layer;
}

/* Whether all values are the same. */
static int is_constant(struct fits *f, const mgpt_tensor *t, int *is)
{
    size_t n = (size_t)t->dims[0];
    float *x = mem_new(n, sizeof *x);
    int status = x ? mgpt_read_tensor(f->s->model, t->name, 0, n, x, f->s->err)
                   : err_memory(f->s->err, t->name, n * sizeof *x);
    *is = status == MGPT_OK && memcmp(x, x + 1, (n - 1) * sizeof *x) == 0;
    free(x);
    return status;
}

/* Vectors of the file that are constant, or those that are not. */
static int fit_vectors(struct fits *f, int constants)
{
    int status = MGPT_OK, is;
    for (size_t i = 0; i < mgpt_n_tensors(f->s->model) && status == MGPT_OK; i++) {
        mgpt_tensor t;
        status = mgpt_get_tensor(f->s->model, i, &t, f->s->err);
        if (status != MGPT_OK || t.n_dims != 1 || !in_layer(f, t.name))
            continue;
        status = is_constant(f, &t, &is);
        if (status == MGPT_OK && is == constants)
            status = fit_vector(f, t.name, (size_t)t.dims[0]);
    }
    return status;
}

/* Vectors that other layers have and this one lacks. */
static int fit_missing(struct fits *f)
{
    int status = MGPT_OK, n_layer = f->s->as_is.info.n_layer;
    for (size_t i = 0; i < mgpt_n_tensors(f->s->model) && status == MGPT_OK; i++) {
        mgpt_tensor t, other;
        char name[80];
        status = mgpt_get_tensor(f->s->model, i, &t, f->s->err);
        const char *stem = "";
        int in_a_layer = status == MGPT_OK && oracle_layer_of(t.name, &stem) >= 0;
        for (int l = 0; in_a_layer && t.n_dims == 1 && l < n_layer && status == MGPT_OK; l++) {
            oracle_name(name, l, stem, "");
            if (in_layer(f, name) && !oracle_tensor_find(f->s->model, name, &other))
                status = fit_vector(f, name, (size_t)t.dims[0]);
        }
    }
    return status;
}

/* ---- vectors of all layers ---------------------------------------------------------------------- */

/* A bias of a product or a gain, if the file has none, zeros or ones: its values, in front of the list;
 * else NULL. */
static struct whatif_tensor *lost_vector(struct fits *f, const char *name,
                                         const struct whatif_tensor *list)
{
    mgpt_tensor t;
    char weight[80];
    int gain = given_is_gain(name);
    text_format(weight, sizeof weight, "%.*s.weight", (int)(strrchr(name, '.') - name), name);
    if (!oracle_tensor_find(f->s->model, weight, &t) || (!gain && t.n_dims != 2))
        return NULL;
    struct whatif_tensor *given =
        given_new(f->s, name, (size_t)(t.dims[1] * (gain ? t.dims[0] : 1)));
    for (size_t i = 0; given && i < given->n; i++)
        if (given->values[i] != (gain ? 1.0F : 0.0F))
            return NULL;
    if (given)
        given->next = list;
    return given;
}

/* All of these vectors in all layers at once, if all are lost. */
static int fit_lost_set(struct fits *f, const char *names)
{
    struct whatif_tensor *list = NULL;
    size_t n = 0;
    int status = MGPT_OK, restored = 0;
    for (const char *at = names; *at; at += strcspn(at, " "), at += *at == ' ')
        for (int l = 0; l < f->s->as_is.info.n_layer; l++) {
            char name[80];
            const char *kind = at + strcspn(at, ".");
            oracle_model_name(f->s->model, l, oracle_role_of_word(at, (size_t)(kind - at)),
                              *kind == '.' && kind[1] == 'b' ? ".bias" : ".weight", name);
            struct whatif_tensor *given = lost_vector(f, name, list);
            if (!given)
                return f->s->err->status == MGPT_EMEM ? MGPT_EMEM : MGPT_OK;
            list = given;
            n += given->n;
        }
    struct fit fit = {.s = f->s, .given = list, .n = n};
    if (list && pays(f, n, STEPS_PAID, fit_positions(f->s, list)))
        status = solve_fit(&fit, &restored);
    return status == MGPT_OK && restored ? given_propose_list(f->s, list, 0) : status;
}

/* Fewest first: more can do what fewer do. But what families lose comes before the budget ends. Many
 * unknown values can do what is not theirs: as many positions as solve for them must be left to prove
 * them. */
static int fit_lost(struct fits *f)
{
    static const char *const sets[] = {"W_Q.bias",
                                       "W_K.bias",
                                       "W_V.bias",
                                       "W_Q.bias W_K.bias W_V.bias", /* Qwen2 */
                                       "W_O.bias",
                                       "W_Q.bias W_K.bias W_V.bias W_O.bias",
                                       "W_down.bias",
                                       "W_up.bias",
                                       "W_gate.bias",
                                       "W_QKV.bias",
                                       "q_norm.weight",
                                       "k_norm.weight",
                                       "ln1.weight",
                                       "ln2.weight",
                                       "W_up.bias W_down.bias",
                                       "W_gate.bias W_up.bias W_down.bias",
                                       "W_QKV.bias W_O.bias W_up.bias W_down.bias",
                                       ("W_Q.bias W_K.bias W_V.bias W_O.bias W_gate.bias W_up.bias "
                                        "W_down.bias")};
    int status = MGPT_OK;
    if (f->s->a->n < 2 * f->s->n)
        return MGPT_OK;
    for (size_t i = 0; i < sizeof sets / sizeof *sets && status == MGPT_OK && !f->s->e->proved; i++)
        status = fit_lost_set(f, sets[i]);
    return status;
}

/* ---- weights far from the others ------------------------------------------------------------------- */

struct far_out {
    char tensor[80];
    size_t at, n, cols;
    double value, times; /* times the root mean square of its tensor */
};

/* Keeps the farthest, in order. */
static void keep_far_out(struct far_out *list, struct far_out one)
{
    for (int i = 0; i < FAR_OUT; i++)
        if (one.times > list[i].times) {
            struct far_out t = list[i];
            list[i] = one;
            one = t;
        }
}

static int scan_far_out(struct fits *f, const mgpt_tensor *t, struct far_out *list)
{
    size_t n = (size_t)(t->dims[0] * t->dims[1]);
    struct whatif_tensor *all = n <= most_values ? given_new(f->s, t->name, n) : NULL;
    double squares = 0;
    if (!all)
        return n <= most_values ? f->s->err->status : MGPT_OK;
    for (size_t i = 0; i < n; i++)
        squares += (double)all->values[i] * (double)all->values[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        struct far_out one = {.at = i, .n = n, .cols = (size_t)t->dims[0]};
        one.value = (double)all->values[i];
        one.times = squares > 0 ? fabs((double)all->values[i]) / sqrt(squares) : 0;
        text_format(one.tensor, sizeof one.tensor, "%s", t->name);
        if (one.times > TIMES)
            keep_far_out(list, one);
    }
    return MGPT_OK;
}

int solve_values(struct search *s, const char *tensor, size_t first, size_t count, size_t n,
                 struct whatif_tensor **solved)
{
    struct whatif_tensor *given = given_new(s, tensor, n);
    struct fit fit = {.s = s, .given = given, .first = first, .n = count};
    int restored;
    *solved = NULL;
    if (!given)
        return s->err->status;
    for (size_t i = first; i < first + count; i++)
        given->values[i] = isfinite(given->values[i]) ? given->values[i] : 0;
    int status = solve_fit(&fit, &restored);
    if (status == MGPT_OK && restored)
        *solved = given;
    return status;
}

static int fit_weight(struct fits *f, const struct far_out *one)
{
    char ours[NUMBER], theirs[NUMBER];
    struct whatif_tensor *given = NULL;
    int status = pays(f, 1, 4, f->s->n)
                     ? solve_values(f->s, one->tensor, one->at, 1, one->n, &given)
                     : MGPT_OK;
    if (status != MGPT_OK || !given)
        return status;
    return search_propose(f->s, given_edit(given),
                          "%s row %zu column %zu: %s here, %s in the reference", one->tensor,
                          one->at / one->cols, one->at % one->cols, say_number(one->value, ours),
                          say_number((double)given->values[one->at], theirs));
}

static int fit_weights(struct fits *f)
{
    struct far_out list[FAR_OUT] = {0};
    int status = MGPT_OK;
    for (size_t i = 0; i < mgpt_n_tensors(f->s->model) && status == MGPT_OK; i++) {
        mgpt_tensor t;
        status = mgpt_get_tensor(f->s->model, i, &t, f->s->err);
        if (status == MGPT_OK && t.n_dims == 2 && in_layer(f, t.name))
            status = scan_far_out(f, &t, list);
    }
    for (int i = 0; i < FAR_OUT && list[i].times > 0 && status == MGPT_OK && !f->s->e->proved; i++)
        status = fit_weight(f, &list[i]);
    return status;
}

int solve_fits(struct search *s)
{
    struct fits f = {.s = s, .work = most_work};
    f.layer = s->feed ? answer_hook(s->a, s->target).layer : -1;
    if ((double)s->as_is.info.n_params * (double)s->n * 8 > most_work)
        return MGPT_OK; /* not even one */
    int status = fit_missing(&f);
    for (int constants = 1; constants >= 0 && status == MGPT_OK && !f.found[0].given; constants--)
        status = fit_vectors(&f, constants);
    if (status == MGPT_OK)
        status = propose_found(&f);
    if (status == MGPT_OK && !s->e->proved && f.layer < 0)
        status = solve_embeddings(s);
    if (status == MGPT_OK && !s->e->proved && f.layer < 0)
        status = fit_lost(&f);
    return status == MGPT_OK && !s->e->proved ? fit_weights(&f) : status;
}
