/* Planted bugs. See planted.h. */
#include "support/planted.h"

#include "base/mem.h"
#include "check/explain/explain.h"
#include "support/said.h"

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
                (struct ref_hook){name, (mgpt_point)p, layer,
                                  attention ? (size_t)toy_heads(t->of, layer) * t->n : t->n,
                                  attention ? t->n : v->cols};
        else
            free(name);
    }
}

struct answer told_answer(struct told *t, struct trace *trace, const struct toy *m,
                          const int32_t *tokens, size_t n, uint64_t without)
{
    int n_layer = m->spec.n_layer;
    *t = (struct told){.trace = trace, .of = &m->spec, .n = n};
    t->hooks = toy_alloc((size_t)(n_layer + 1) * MGPT_N_POINTS, sizeof *t->hooks);
    list_hooks(t, -1, MGPT_EMBD, MGPT_EMBD_NORM, without);
    for (int layer = 0; layer < n_layer; layer++)
        list_hooks(t, layer, MGPT_RESID_PRE, MGPT_RESID_POST, without);
    list_hooks(t, -1, MGPT_FINAL, MGPT_HEAD_IN, without);
    return (struct answer){.tokens = tokens,
                           .n = n,
                           .n_vocab = (size_t)m->spec.n_vocab,
                           .hooks = t->hooks,
                           .n_hooks = t->n_hooks,
                           .row = told_row,
                           .logits = told_logits,
                           .n_rows = n,
                           .user = t};
}

static void told_forget(struct told *t)
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

/* ---- looking for it ----------------------------------------------------------------------------- */

static const char not_found[] = "not found";

static const char *cause_of(const struct explain *e)
{
    static char text[500];
    const struct explain_weight *w = &e->weight;
    if (w->proved) {
        snprintf(text, sizeof text, "%s row %d column %d", w->tensor, (int)w->row, (int)w->col);
        return text;
    }
    if (e->precision.inside) {
        snprintf(text, sizeof text, "ran in %s", e->precision.type);
        return text;
    }
    if (e->proved && e->with[0]) {
        snprintf(text, sizeof text, "%s; %s; %s", explain_cause(e), e->with, e->third);
        return text;
    }
    return e->proved ? explain_cause(e) : e->head[0] ? e->head : not_found;
}

/* Whether the whole report is the one that the program's file has. */
static int reports_alike(const struct bug *bug, const mgpt_model *model, const struct answer *a,
                         const struct locate *l, struct explain *e, const char *hook)
{
    int hooks = a->n_hooks > 0;
    e->n_tried = e->n_tried ? 99 : 0; /* a new row of the table changes no file */
    said_begin();
    if (hooks)
        locate_print(l, model, a);
    explain_print(e, hooks ? NULL : "models/it");
    if (hooks)
        locate_print_json(l, model);
    explain_print_json(e);
    return said_as("%s, %s: %zu hooks, %s", bug->spec->label ? bug->spec->label : bug->spec->arch,
                   bug->label, a->n_hooks, hook);
}

/* Runs both for one answer; returns whether the cause is the one that was planted. */
int planted_found(const struct bug *bug, const mgpt_model *model, const struct answer *a,
                  const char *hook)
{
    struct locate l;
    struct explain e;
    mgpt_error err;
    char name[64];
    if (locate_run(&l, model, a, bug->bound > 0 ? bug->bound : 1e-9, &err) != MGPT_OK)
        fail_msg("%s: %s", bug->label, err.text);
    if (l.first_bad < 0)
        fail_msg("%s: nothing differs", bug->label);
    struct ref_hook bad = l.hooks[l.first_bad].hook;
    mgpt_point_name(bad.point, bad.layer, name, sizeof name);
    if (strcmp(name, hook) != 0)
        fail_msg("%s: first bad hook is %s, not %s", bug->label, name, hook);
    if (a->n_hooks)
        assert_int_equal(l.hooks[l.first_bad].fed_bad, 1);
    if (explain_run(&e, model, a, &l, &err) != MGPT_OK)
        fail_msg("%s: %s", bug->label, err.text);
    const char *want = bug->told && !a->n_hooks ? bug->told : bug->cause ? bug->cause : not_found;
    int right = strstr(cause_of(&e), want) != NULL;
    if (!right)
        print_message("%s (%s): '%s', not '%s'\n", bug->label, a->n_hooks ? "hooks" : "logits",
                      cause_of(&e), want);
    right = reports_alike(bug, model, a, &l, &e, name) && right;
    explain_free(&e);
    locate_free(&l);
    return right;
}

/* ---- planting it -------------------------------------------------------------------------------- */

static void to_pairs(const struct trace_value *v, size_t n, size_t d)
{
    double *head = toy_alloc(d, sizeof *head);
    for (size_t i = 0; i < n * v->cols; i += d) {
        memcpy(head, v->data + i, d * sizeof *head);
        for (size_t j = 0; j < d; j++)
            v->data[i + j] = head[j / 2 + j % 2 * (d / 2)];
    }
    free(head);
}

/* The reference's pass. */
static struct trace *run_reference(const struct bug *b, const struct toy *good,
                                   const int32_t *tokens, size_t n)
{
    uint64_t rng = 99;
    struct trace *trace = oracle_run(good, tokens, n, b->patch, &rng);
    const struct trace_value *embd = trace_at(trace, MGPT_EMBD, -1);
    for (size_t i = 0; b->embd > 0 && i < n * embd->cols; i++)
        embd->data[i] /= b->embd;
    for (int layer = 0; b->pairs && layer < good->spec.n_layer; layer++)
        for (int p = MGPT_Q; p <= MGPT_ROT_K; p++)
            if (p != MGPT_V)
                to_pairs(trace_at(trace, (mgpt_point)p, layer), n, (size_t)good->spec.head_dim);
    return trace;
}

size_t planted_missed(const struct bug *b, int bare)
{
    const uint64_t attention = MGPT_POINT_BIT(MGPT_SCORES) | MGPT_POINT_BIT(MGPT_WEIGHTS);
    const uint64_t norms =
        MGPT_POINT_BIT(MGPT_ATTN_IN) | MGPT_POINT_BIT(MGPT_MLP_IN) | MGPT_POINT_BIT(MGPT_FINAL);
    size_t n = b->n ? b->n : PLANTED_N, missed;
    int32_t tokens[PLANTED_MOST];
    struct toy *good = toy_build(b->spec), *broken = toy_build(b->spec);
    struct told told;
    mgpt_info info;
    toy_tokens(good, 5, tokens, n);
    good->differs = b->differs;
    struct trace *trace = run_reference(b, good, tokens, n);
    if (b->rename)
        b->rename(tokens, n);
    toy_edit(broken, b->edits ? b->edits : "");
    mgpt_model *model = toy_open(broken, NULL);
    assert_int_equal(mgpt_get_info(model, &info, NULL), MGPT_OK);
    uint64_t without = info.n_head == good->spec.n_head ? 0 : attention;
    without |= b->only ? ~b->only : 0;
    struct answer a = told_answer(&told, trace, good, tokens, n, without);
    missed = !planted_found(b, model, &a, b->hook);
    if (bare) {
        told_forget(&told);
        a = told_answer(&told, trace, good, tokens, n, without | norms);
        missed += !planted_found(b, model, &a, b->bare ? b->bare : b->hook);
    }
    a.n_hooks = 0;
    if (b->logits)
        missed += !planted_found(b, model, &a, "logits");
    mgpt_close(model);
    told_free(&told);
    toy_free(good);
    toy_free(broken);
    return missed;
}
