/* Planted bugs. See planted.h. */
#include "support/planted.h"

#include "base/mem.h"
#include "check/explain/explain.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- an answer from a trace
 * --------------------------------------------------------------------- */

static int told_row(void *user, size_t i, size_t row, double *out, mgpt_error *err)
{
    const struct told *t = user;
    const struct ref_hook *h = &t->hooks[i];
    const struct trace_value *v = trace_at(t->trace, h->point, h->layer);
    (void)err;
    if (trace_is_attention(h->point))
        memcpy(out, v->data + row % t->n * v->cols + row / t->n * t->n, t->n * sizeof *out);
    else
        memcpy(out, v->data + row * v->cols, v->cols * sizeof *out);
    return 0;
}

static int told_logits(void *user, size_t row, double *out, mgpt_error *err)
{
    const struct told *t = user;
    const struct trace_value *v = trace_at(t->trace, MGPT_LOGITS, -1);
    (void)err;
    memcpy(out, v->data + row * v->cols, v->cols * sizeof *out);
    return 0;
}

static void list_hooks(struct told *t, int layer, int from, int to, uint64_t without)
{
    for (int p = from; p <= to; p++) {
        const struct trace_value *v = trace_at(t->trace, (mgpt_point)p, layer);
        char *name = toy_alloc(64, 1);
        mgpt_point_name((mgpt_point)p, layer, name, 64);
        int attention = trace_is_attention((mgpt_point)p);
        if (v->data && !(without & MGPT_POINT_BIT(p)))
            t->hooks[t->n_hooks++] =
                (struct ref_hook){name, (mgpt_point)p, layer, attention ? t->n_head * t->n : t->n,
                                  attention ? t->n : v->cols};
        else
            free(name);
    }
}

struct answer told_answer(struct told *t, struct trace *trace, const struct toy *m,
                          const int32_t *tokens, size_t n, uint64_t without)
{
    int n_layer = m->spec.n_layer;
    *t = (struct told){.trace = trace, .n_head = (size_t)m->spec.n_head, .n = n};
    t->hooks = toy_alloc((size_t)(n_layer + 1) * MGPT_N_POINTS, sizeof *t->hooks);
    list_hooks(t, -1, MGPT_EMBD, MGPT_EMBD_NORM, without);
    for (int layer = 0; layer < n_layer; layer++)
        list_hooks(t, layer, MGPT_RESID_PRE, MGPT_RESID_POST, without);
    list_hooks(t, -1, MGPT_FINAL, MGPT_FINAL, without);
    return (struct answer){.tokens = tokens,
                           .n = n,
                           .n_vocab = (size_t)m->spec.n_vocab,
                           .n_head = t->n_head,
                           .hooks = t->hooks,
                           .n_hooks = t->n_hooks,
                           .row = told_row,
                           .logits = told_logits,
                           .n_rows = n,
                           .user = t};
}

void told_forget(struct told *t)
{
    for (size_t i = 0; i < t->n_hooks; i++)
        free((void *)(uintptr_t)t->hooks[i].name);
    free(t->hooks);
}

void told_free(struct told *t)
{
    told_forget(t);
    trace_free(t->trace);
}

/* ---- looking for it
 * ----------------------------------------------------------------------------- */

static const char not_found[] = "not found";

static const char *cause_of(const struct explain *e)
{
    static char text[128];
    const struct explain_weight *w = &e->weight;
    if (w->found) {
        snprintf(text, sizeof text, "%s row %d column %d", w->tensor, (int)w->row, (int)w->col);
        return text;
    }
    if (e->head_only)
        return e->head;
    return e->restored ? e->trials[0].cause : not_found;
}

/* Runs both for one answer; returns whether the cause is the one that was planted. */
int planted_found(const struct bug *bug, const mgpt_model *model, const struct answer *a,
                  const char *hook)
{
    struct locate l;
    struct explain e;
    mgpt_error err;
    char name[64];
    if (locate_run(&l, model, a, 1e-9, &err) != MGPT_OK)
        fail_msg("%s: %s", bug->label, err.text);
    assert_true(l.first_bad >= 0);
    struct ref_hook bad = l.hooks[l.first_bad].hook;
    mgpt_point_name(bad.point, bad.layer, name, sizeof name);
    if (strcmp(name, hook) != 0)
        fail_msg("%s: first bad hook is %s, not %s", bug->label, name, hook);
    if (a->n_hooks)
        assert_int_equal(l.hooks[l.first_bad].fed_bad, 1);
    if (explain_run(&e, model, a, &l, &err) != MGPT_OK)
        fail_msg("%s: %s", bug->label, err.text);
    const char *want = bug->cause ? bug->cause : not_found;
    int right = strstr(cause_of(&e), want) != NULL;
    if (!right)
        print_message("%s (%s): '%s', not '%s'\n", bug->label, a->n_hooks ? "hooks" : "logits",
                      cause_of(&e), want);
    explain_free(&e);
    locate_free(&l);
    return right;
}
