/* See experiment.h. */
#include "patch/experiment.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdlib.h>

int experiment_prepare(struct experiment *x)
{
    const struct report_run *run = &x->report.runs[x->report.into];
    mgpt_error err;
    x->hooks = hooks_list(x->engine->model, &err);
    if (!x->hooks)
        return cli_fail(NULL, &err);
    int code = grid_read(&x->request, x->engine, x->hooks, run->n_tokens, &x->grids);
    x->why = (struct why){.engine = x->engine,
                          .metric = &x->metric,
                          .prompt = run->tokens,
                          .n_prompt = run->n_tokens};
    x->sweep.engine = x->engine;
    x->sweep.metric = &x->metric;
    x->sweep.tokens = run->tokens;
    x->sweep.n_tokens = run->n_tokens;
    x->report.model = x->engine->model;
    x->report.mode = x->request.mode;
    x->report.metric = &x->metric;
    x->report.grids = x->grids;
    x->report.why = x->request.why ? &x->why : NULL;
    return code == EXIT_OK && x->request.segments ? why_cut(&x->why, x->segments) : code;
}

static uint64_t patch_points(const struct sweep_grid *grids, enum sweep_mode mode)
{
    uint64_t points = 0;
    for (size_t i = 0; i < arr_len(grids); i++)
        if (grids[i].mode == mode)
            points |= MGPT_POINT_BIT(grids[i].point);
    return points;
}

/* Runs a prompt and keeps its values where the sweep needs them, and its metric. */
static int run_prompt(struct experiment *x, int which, mgpt_error *err)
{
    struct report_run *run = &x->report.runs[which];
    int own = which == x->report.into;
    struct run_values *values = own ? &x->sweep.own : &x->sweep.other;
    uint64_t points = patch_points(x->grids, SWEEP_PATCH);
    if (own && arr_len(x->grids) > 0)
        points |= patch_points(x->grids, SWEEP_MEAN) | MGPT_POINT_BIT(MGPT_RESID_PRE);
    if (!run->tokens)
        return MGPT_OK;
    values_free(values);
    int status = values_new(values, x->hooks, points, x->engine->info.n_layer, run->n_tokens, err);
    if (status == MGPT_OK)
        status = sweep_keep(x->engine, run->tokens, run->n_tokens, values, err);
    if (status < 0)
        return status;
    const float *logits = mgpt_logits(x->engine->session);
    if (which == RUN_CLEAN && !metric_keep_clean(&x->metric, logits))
        return err_memory(err, "the logits", x->metric.n_vocab * sizeof *x->metric.clean);
    run->value = metric_value(&x->metric, logits);
    return MGPT_OK;
}

int experiment_prompts(struct experiment *x, mgpt_error *err)
{
    int into = x->report.into, status = run_prompt(x, RUN_CLEAN, err);
    if (status == MGPT_OK)
        status = run_prompt(x, RUN_CORRUPT, err);
    if (status == MGPT_OK && into == RUN_CLEAN && x->report.runs[RUN_CORRUPT].tokens)
        status = run_prompt(x, RUN_CLEAN, err);
    return status;
}

int experiment_run(struct experiment *x, mgpt_error *err)
{
    int status = experiment_prompts(x, err);
    if (status == MGPT_OK && x->request.tokens)
        status = why_tokens(&x->why, err);
    if (status == MGPT_OK && x->request.segments)
        status = why_segments(&x->why, err);
    return status == MGPT_OK ? patch_sweep_run(&x->sweep, x->grids, arr_len(x->grids), err)
                             : status;
}

void experiment_close(struct experiment *x)
{
    for (size_t i = 0; i < arr_len(x->grids); i++)
        sweep_grid_free(&x->grids[i]);
    arr_free(x->grids);
    values_free(&x->sweep.own);
    values_free(&x->sweep.other);
    why_free(&x->why);
    metric_free(&x->metric);
    arr_free(x->hooks);
    for (int i = 0; i < N_RUNS; i++)
        free(x->report.runs[i].labels);
}
