/* What mgpt patch found, and the forms it is shown in. */
#ifndef MGPT_PATCH_REPORT_H
#define MGPT_PATCH_REPORT_H

#include "common/heat.h"
#include "patch/pairs.h"
#include "patch/sweep.h"
#include "patch/why.h"

enum { RUN_CLEAN, RUN_CORRUPT, N_RUNS };
extern const char *const report_runs[]; /* [N_RUNS], "clean", "corrupt" */

/* A prompt and the metric after it. */
struct report_run {
    const char *name;      /* in the tables; NULL: that of report_runs */
    const int32_t *tokens; /* NULL: not given */
    size_t n_tokens;
    char (*labels)[HEAT_LABEL]; /* of the tokens, malloc'ed: report_label */
    double value;
};

struct report {
    const mgpt_model *model;
    const char *path, *mode; /* as the user wrote them */
    const struct metric *metric;
    struct report_run runs[N_RUNS];
    int into;                       /* the run that is changed */
    const struct sweep_grid *grids; /* stb_ds array */
    const struct pairs *pairs;      /* NULL: one pair; else values are means */
    const struct why *why;          /* NULL: the tables show changes, not what a part contributes */
};

/* The mode of a grid in words: heads, keys and values are left out in every mode. */
const char *report_mode(const struct report *report, const struct sweep_grid *grid);

/* Makes the labels of all tokens, which the tables show; 0: out of memory. */
int report_label(struct report *report);

/* Tables and heatmaps of the change of the metric. 0: out of memory. */
int report_show(const struct report *report, const struct screen *screen);

/* One line of JSON. Returns an exit code. */
int report_json(const struct report *report);

/* Files, there whole or not at all; the page needs report_label. Returns a status. */
int report_npz(const struct report *report, const char *path, mgpt_error *err);
int report_html(const struct report *report, const char *path, mgpt_error *err);

#endif
