/* A sweep or --why from request to report, for the command and the repl. */
#ifndef MGPT_PATCH_EXPERIMENT_H
#define MGPT_PATCH_EXPERIMENT_H

#include "patch/grid.h"
#include "patch/report.h"

/* Fill in engine, with a session that is the experiment's to change; request; metric, as
 * metric_read leaves it; tokens and n_tokens of report.runs, report.into and report.path; segments. */
struct experiment {
    struct engine *engine;
    struct grid_request request;
    const char *segments; /* of --why (why_cut), or NULL */
    struct metric metric;
    struct report report;
    struct hook *hooks;
    struct sweep_grid *grids;
    struct patch_sweep sweep;
    struct why why;
};

/* Reads the request; an exit code, and the user has been told. */
int experiment_prepare(struct experiment *x);

/* Runs the prompts, the one that is changed last: its session is what the sweep starts from. A
 * status. */
int experiment_prompts(struct experiment *x, mgpt_error *err);

/* Runs the prompts and every site; the report is complete then. After Ctrl-C it has what is known.
 * A status. */
int experiment_run(struct experiment *x, mgpt_error *err);
void experiment_close(struct experiment *x);

#endif
