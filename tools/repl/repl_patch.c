/* Repl: which values inside the model make the difference between two timelines, and what the parts
 * of one contribute (patch/experiment.h). The experiment has a session of its own. */
#include "base/mem.h"
#include "patch/experiment.h"
#include "repl/view.h"

#include <stdlib.h>
#include <string.h>

/* An experiment on the current timeline, and what it points to. */
struct repl_trial {
    struct engine engine; /* the repl's, with another session */
    struct experiment experiment;
    char metric[2 * HEAT_LABEL + 16];
    int32_t *tokens[N_RUNS];
};

/* The first n tokens of a session. 0: out of memory, said. */
static int take_tokens(struct repl_trial *t, int which, const mgpt_session *from, size_t n)
{
    int32_t *copy = view_new(n, sizeof *copy);
    if (!copy)
        return 0;
    memcpy(copy, mgpt_tokens(from), n * sizeof *copy);
    t->tokens[which] = copy;
    t->experiment.report.runs[which] = (struct report_run){.tokens = copy, .n_tokens = n};
    return 1;
}

/* "logprob" of a token, the logit of one less that of another, or, without a token, kl. */
static void set_metric(struct repl_trial *t, const struct repl *r, int32_t token, int32_t other)
{
    char a[HEAT_LABEL], b[HEAT_LABEL];
    struct metric *m = &t->experiment.metric;
    *m = (struct metric){
        .text = t->metric, .a = token, .b = other, .n_vocab = (size_t)r->engine.info.n_vocab};
    m->kind = token < 0 ? METRIC_KL : METRIC_LOGPROB;
    if (token >= 0 && other >= 0)
        m->kind = METRIC_DIFFERENCE;
    snprintf(t->metric, sizeof t->metric, "kl");
    if (token < 0)
        return;
    view_token(r, token, HEAT_LABEL / 4, a);
    snprintf(t->metric, sizeof t->metric, "logprob:%s", a);
    if (other < 0)
        return;
    view_token(r, other, HEAT_LABEL / 4, b);
    snprintf(t->metric, sizeof t->metric, "%s - %s", a, b);
}

static void run_trial(struct repl_trial *t, struct repl *r)
{
    struct experiment *x = &t->experiment;
    struct screen screen;
    mgpt_error err;
    t->engine = r->engine;
    t->engine.session = engine_fork(&r->engine, r->engine.session, &err);
    x->engine = &t->engine;
    screen_look(&screen, r->screen_mode, r->width);
    fflush(stdout);
    if (!t->engine.session) {
        repl_failed(&err);
        return;
    }
    int code = experiment_prepare(x);
    repl_note_code(code);
    if (code == EXIT_OK && experiment_run(x, &err) < 0)
        repl_failed(&err);
    else if (code == EXIT_OK && (!report_label(&x->report) || !report_show(&x->report, &screen)))
        repl_no_memory();
}

static void close_trial(struct repl_trial *t)
{
    experiment_close(&t->experiment);
    mgpt_session_free(t->engine.session);
    for (int i = 0; i < N_RUNS; i++)
        free(t->tokens[i]);
}

/* Something to run, as the model is. */
static int may_try(const struct repl *r, const struct repl_args *args)
{
    if (mgpt_pos(r->engine.session) == 0)
        repl_error("nothing to look at yet: type a text first");
    else if (arr_len(r->edits.list) > 0)
        repl_error("%s: end the edits first (/ab lists them)", args->command->names[0]);
    else
        return 1;
    return 0;
}

/* The current timeline with values of another one. */
void repl_run_patch(struct repl *r, struct repl_args *args)
{
    struct repl_trial t = {.experiment = {.request = {.over = args->name, .mode = "patch"},
                                          .report = {.into = RUN_CORRUPT}}};
    const mgpt_session *own = r->engine.session, *other;
    if (!may_try(r, args) || !repl_open_branch(r, args->branch))
        return;
    other = r->branches[args->branch].session;
    size_t n = mgpt_pos(other) < mgpt_pos(own) ? mgpt_pos(other) : mgpt_pos(own);
    if (n == 0)
        repl_error("timeline %s is empty", r->branches[args->branch].name);
    else if (take_tokens(&t, RUN_CLEAN, other, n) && take_tokens(&t, RUN_CORRUPT, own, n)) {
        t.experiment.report.runs[RUN_CLEAN].name = r->branches[args->branch].name;
        t.experiment.report.runs[RUN_CORRUPT].name = r->branches[r->current].name;
        if (mgpt_pos(other) != mgpt_pos(own))
            printf("the first %zu tokens of both\n", n);
        set_metric(&t, r, args->token, args->other);
        run_trial(&t, r);
    }
    close_trial(&t);
}

void repl_run_why(struct repl *r, struct repl_args *args)
{
    struct repl_trial t = {
        .experiment = {
            .request = {.over = "tokens,segments,heads,keys,values", .mode = "zero", .why = 1},
            .report = {.into = RUN_CLEAN}}};
    mgpt_candidate top;
    if (!may_try(r, args) || !repl_compute_logits(r))
        return;
    mgpt_top(mgpt_logits(r->engine.session), engine_n_choices(&r->engine), &top, 1);
    if (take_tokens(&t, RUN_CLEAN, r->engine.session, mgpt_pos(r->engine.session))) {
        t.experiment.report.runs[RUN_CLEAN].name = r->branches[r->current].name;
        set_metric(&t, r, args->token < 0 ? top.token : args->token, args->other);
        run_trial(&t, r);
    }
    close_trial(&t);
}
