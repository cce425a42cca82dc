/* References as answers. See answer.h. */
#include "check/compare/answer.h"

#include "base/error.h"
#include "base/mem.h"
#include "check/oracle/oracle_model.h"
#include "engine/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_COMPARED = -2 }; /* layer of a hook that is no point of the pass */

struct source {
    struct reference *ref;
    size_t sequence, n_vocab;
};

static int source_row(void *user, size_t i, size_t row, double *out, mgpt_error *err)
{
    const struct source *s = user;
    return reference_hook_rows(s->ref, i, row, 1, out, err);
}

/* The values of some ids, which ascend, at their places; the others are missing. */
static void spread_row(double *out, size_t n_vocab, struct ref_row about)
{
    size_t k = about.n;
    for (size_t i = n_vocab; i > 0 && i--;)
        out[i] = k > 0 && (size_t)about.ids[k - 1] == i ? out[--k] : ANSWER_MISSING;
}

static int source_logits(void *user, size_t row, double *out, mgpt_error *err)
{
    const struct source *s = user;
    int status = reference_row(s->ref, s->sequence, row, out, err);
    struct ref_row about = reference_about(s->ref);
    const char *what = NULL;
    if (status == MGPT_OK && (about.n == 0 || (about.masked && !about.logprobs)))
        spread_row(out, s->n_vocab, about);
    else if (about.ids || about.logprobs || about.n != s->n_vocab)
        what = "log-probabilities";
    if (status == MGPT_OK && what)
        status = err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                         "position %zu: %s; what differs inside is found from logits", row, what);
    return status;
}

/* Attention of a layer is compared if the model has as many heads there. */
static void compare_heads(struct answer *a, struct ref_hook *hook, const mgpt_model *model)
{
    if (!answer_is_attention(hook->point))
        return;
    size_t theirs = hook->rows / a->n_rows, ours = (size_t)engine_heads(model, hook->layer);
    if (hook->rows == ours * a->n_rows)
        return;
    a->other_heads = theirs, a->own_heads = ours;
    hook->layer = NOT_COMPARED;
}

int answer_open(struct answer *a, struct reference *ref, const mgpt_model *model, size_t sequence,
                size_t limit, mgpt_error *err)
{
    mgpt_info info;
    if (mgpt_get_info(model, &info, err) < 0)
        return MGPT_EARG;
    struct ref_sequence tokens = reference_sequence(ref, sequence);
    size_t n_hooks = reference_n_hooks(ref);
    struct source *source = mem_new(1, sizeof *source);
    struct ref_hook *hooks = mem_new(n_hooks, sizeof *hooks);
    *a = (struct answer){.tokens = tokens.ids,
                         .n = limit && limit < tokens.n ? limit : tokens.n,
                         .n_vocab = (size_t)info.n_vocab,
                         .hooks = hooks,
                         .n_hooks = n_hooks,
                         .row = source_row,
                         .logits = source_logits,
                         .n_rows = tokens.n,
                         .user = source};
    if (!source || !hooks) {
        free(source);
        free(hooks);
        *a = (struct answer){0};
        return err_memory(err, "the reference's hooks", n_hooks * sizeof *hooks);
    }
    *source = (struct source){ref, sequence, a->n_vocab};
    int status = MGPT_OK;
    for (size_t i = 0; i < n_hooks && status == MGPT_OK; i++)
        status = reference_hook(ref, i, &hooks[i]);
    for (size_t i = 0; i < n_hooks && status == MGPT_OK; i++)
        compare_heads(a, &hooks[i], model);
    return status;
}

/* ---- the last hidden state ---------------------------------------------------------------------- */

/* Positions that are looked at; how much better the logits must agree when a hook is the residual
 * before the final norm, and the most that may be left of them then. A norm after a norm changes
 * next to nothing: what follows the norm may agree as the residual too, but never better. */
enum { PLACED = 16, BETTER = 4 };
static const double placed_most = 1e-3;

/* Hook i takes the place of the engine's value at a point. Sums of squares: of the reference's rows
 * and logits, and of what differs from the engine's value and from the logits it leads to. */
struct placing {
    const struct answer *a;
    size_t i;
    mgpt_point point;
    int layer;
    double *theirs;
    double row_square, row_difference, square, difference;
};

static double add_differences(const double *theirs, const float *ours, size_t n, double *square)
{
    double difference = 0;
    for (size_t j = 0; j < n; j++) {
        difference += (theirs[j] - (double)ours[j]) * (theirs[j] - (double)ours[j]);
        *square += theirs[j] * theirs[j];
    }
    return difference;
}

/* A reference without logits leaves their difference NaN. */
static int placing_tap(const mgpt_value *value, void *user)
{
    struct placing *p = user;
    int logits = value->point == MGPT_LOGITS;
    size_t i = logits ? p->a->n_hooks : p->i, n = (size_t)value->cols;
    if (!logits && (value->point != p->point || value->layer != p->layer))
        return 0;
    for (int32_t r = 0; r < value->rows; r++) {
        float *ours = value->data + (size_t)r * value->stride;
        if (answer_read(p->a, i, (size_t)(value->pos + r), 0, p->theirs, NULL) < 0)
            p->difference = logits ? (double)NAN : p->difference;
        else if (logits)
            p->difference += add_differences(p->theirs, ours, n, &p->square);
        else
            p->row_difference += add_differences(p->theirs, ours, n, &p->row_square);
        for (size_t j = 0; !logits && j < n; j++)
            ours[j] = (float)p->theirs[j];
    }
    return 0;
}

/* How far hook i is from the value at a point: from the engine's own, or the logits it leads to from
 * the reference's, whichever is nearer. */
static int place_at(const struct answer *a, size_t i, mgpt_point point, int layer,
                    const mgpt_model *model, double *far, mgpt_error *err)
{
    struct placing p = {.a = a, .i = i, .point = point, .layer = layer};
    uint64_t points = MGPT_POINT_BIT(point) | MGPT_POINT_BIT(MGPT_LOGITS);
    p.theirs = mem_new(answer_widest(a), sizeof *p.theirs);
    if (!p.theirs)
        return err_memory(err, "a hidden state", answer_widest(a) * sizeof *p.theirs);
    size_t n = a->n < PLACED ? a->n : PLACED;
    int status = oracle_engine_pass(model, a->tokens, n, points, placing_tap, &p, err);
    *far = fmin(p.row_difference / p.row_square, p.difference / p.square);
    free(p.theirs);
    return status;
}

/* Whether hook i is the residual before the final norm, not what follows it. */
static int is_before_norm(const struct answer *a, size_t i, const mgpt_model *model, int n_layer,
                          mgpt_error *err)
{
    double before, after;
    int status = place_at(a, i, MGPT_RESID_POST, n_layer - 1, model, &before, err);
    if (status == MGPT_OK)
        status = place_at(a, i, MGPT_FINAL, -1, model, &after, err);
    return status == MGPT_OK ? before <= placed_most && BETTER * before < after : status;
}

int answer_place_last(struct answer *a, const mgpt_model *model, mgpt_error *err)
{
    mgpt_info info;
    int status = mgpt_get_info(model, &info, err);
    for (size_t i = 0; i < a->n_hooks && status == MGPT_OK && info.n_layer > 0; i++) {
        struct ref_hook *h = (struct ref_hook *)(uintptr_t)&a->hooks[i];
        if (h->point != MGPT_FINAL || strncmp(h->name, "hidden_states", 13) != 0 ||
            h->cols != (size_t)info.n_embd)
            continue;
        int before = oracle_final_norm(model) ? is_before_norm(a, i, model, info.n_layer, err) : 1;
        if (before < 0)
            return before;
        if (before)
            h->point = MGPT_RESID_POST, h->layer = info.n_layer - 1;
    }
    return status;
}

int answer_is_attention(mgpt_point point)
{
    return point == MGPT_SCORES || point == MGPT_WEIGHTS;
}

int answer_is_heads(mgpt_point point)
{
    return (point >= MGPT_Q && point <= MGPT_ROT_K) || point == MGPT_HEADS;
}

int answer_read(const struct answer *a, size_t i, size_t pos, size_t head, double *buffer,
                mgpt_error *err)
{
    if (i == a->n_hooks)
        return a->logits(a->user, pos, buffer, err);
    size_t row = answer_is_attention(a->hooks[i].point) ? head * a->n_rows + pos : pos;
    return a->row(a->user, i, row, buffer, err);
}

size_t answer_heads(const struct answer *a, size_t i)
{
    return i < a->n_hooks ? a->hooks[i].rows / a->n_rows : 1; /* n_hooks: logits */
}

size_t answer_widest(const struct answer *a)
{
    size_t widest = a->n_vocab;
    for (size_t i = 0; i < a->n_hooks; i++)
        widest = a->hooks[i].cols > widest ? a->hooks[i].cols : widest;
    return widest;
}

struct ref_hook answer_hook(const struct answer *a, size_t i)
{
    if (i < a->n_hooks)
        return a->hooks[i];
    return (struct ref_hook){"logits", MGPT_LOGITS, -1, a->n, a->n_vocab};
}

int64_t answer_find(const struct answer *a, mgpt_point point, int layer)
{
    if (point == MGPT_LOGITS)
        return (int64_t)a->n_hooks;
    for (size_t i = 0; i < a->n_hooks; i++)
        if (a->hooks[i].point == point && a->hooks[i].layer == layer)
            return (int64_t)i;
    return -1;
}
