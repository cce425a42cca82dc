/* References as answers. See answer.h. */
#include "answer.h"

#include "error.h"
#include "mem.h"

#include <stdlib.h>
#include <string.h>

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
    return status;
}

int answer_is_attention(mgpt_point point)
{
    return point == MGPT_SCORES || point == MGPT_WEIGHTS;
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
