/* References as answers. See answer.h. */
#include "check/compare/answer.h"

#include "base/error.h"
#include "base/mem.h"
#include "check/oracle/oracle_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_COMPARED = -2 }; /* layer of a hook that no point of the pass is */

struct source {
    struct reference *ref;
    size_t sequence, n_vocab;
};

static int source_row(void *user, size_t i, size_t row, double *out, mgpt_error *err)
{
    const struct source *s = user;
    return reference_hook_rows(s->ref, i, row, 1, out, err);
}

static int source_logits(void *user, size_t row, double *out, mgpt_error *err)
{
    const struct source *s = user;
    int status = reference_row(s->ref, s->sequence, row, out, err);
    struct ref_row about = reference_about(s->ref);
    if (status == MGPT_OK && (about.ids || about.logprobs || about.n != s->n_vocab))
        status = err_set(
            err, MGPT_EFILE, MGPT_NO_OFFSET,
            "position %zu: log-probabilities; what differs inside is found from logits", row);
    return status;
}

int answer_open(struct answer *a, struct reference *ref, const mgpt_info *info, size_t sequence,
                size_t limit, mgpt_error *err)
{
    struct ref_sequence tokens = reference_sequence(ref, sequence);
    size_t n_hooks = reference_n_hooks(ref);
    struct source *source = mem_new(1, sizeof *source);
    struct ref_hook *hooks = mem_new(n_hooks, sizeof *hooks);
    *a = (struct answer){.tokens = tokens.ids,
                         .n = limit && limit < tokens.n ? limit : tokens.n,
                         .n_vocab = (size_t)info->n_vocab,
                         .n_head = (size_t)info->n_head,
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
        if (answer_is_attention(hooks[i].point) && hooks[i].rows != a->n_head * tokens.n) {
            a->other_heads = hooks[i].rows / tokens.n;
            hooks[i].layer = NOT_COMPARED;
        }
    return status;
}

/* A row that the final norm would leave as it is, which without gains says nothing: it has passed
 * through. */
static int is_normed(const double *row, size_t n)
{
    double square = 0;
    for (size_t i = 0; i < n; i++)
        square += row[i] * row[i] / (double)n;
    return fabs(square - 1) < 1e-3;
}

/* Whether a row of hook i at position pos makes the reference's logits. `rows`: the row, the logits
 * of both. */
static int makes_logits(const struct answer *a, size_t i, size_t pos, mgpt_session *session,
                        double *theirs, float *row, float *ours)
{
    size_t n = a->hooks[i].cols;
    double square = 0, difference = 0;
    mgpt_error err;
    if (answer_read(a, i, pos, 0, theirs, &err) < 0 || is_normed(theirs, n))
        return 0;
    for (size_t j = 0; j < n; j++)
        row[j] = (float)theirs[j];
    if (mgpt_unembed(session, row, ours, &err) < 0 ||
        answer_read(a, a->n_hooks, pos, 0, theirs, &err) < 0)
        return 0;
    for (size_t j = 0; j < a->n_vocab; j++) {
        difference += (theirs[j] - (double)ours[j]) * (theirs[j] - (double)ours[j]);
        square += theirs[j] * theirs[j];
    }
    return difference <= 1e-3 * square;
}

/* At the first, middle and last position. */
static int is_before_norm(const struct answer *a, size_t i, const mgpt_model *model,
                          mgpt_error *err)
{
    mgpt_session_params params = {.n_ctx = 1, .n_threads = 1};
    mgpt_session *session = mgpt_session_new(model, &params, err);
    double *theirs = mem_new(answer_widest(a), sizeof *theirs);
    float *row = mem_new(a->hooks[i].cols, sizeof *row);
    float *ours = mem_new(a->n_vocab, sizeof *ours);
    int status = MGPT_OK;
    if (!session)
        status = err->status;
    else if (!theirs || !row || !ours)
        status = err_memory(err, "a hidden state", answer_widest(a) * sizeof *theirs);
    else
        status = makes_logits(a, i, 0, session, theirs, row, ours) &&
                 makes_logits(a, i, a->n / 2, session, theirs, row, ours) &&
                 makes_logits(a, i, a->n - 1, session, theirs, row, ours);
    mgpt_session_free(session);
    free(theirs);
    free(row);
    free(ours);
    return status;
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
        int before = oracle_final_norm(model) ? is_before_norm(a, i, model, err) : 1;
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
