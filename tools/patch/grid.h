/* From options to the grids of a sweep: which points, layers, heads and positions. */
#ifndef MGPT_PATCH_GRID_H
#define MGPT_PATCH_GRID_H

#include "patch/sweep.h"

/* What the user asked for. NULL: all. */
struct grid_request {
    const char *over; /* "resid_pre,z"; with `why` also tokens and segments */
    const char *layers, *heads, *positions;
    const char *mode;          /* "patch", "zero", "mean", "scale:X" */
    int why, tokens, segments; /* the last two are set when --over names them */
};

/* The i-th name that `over` may have; NULL at the end. */
const char *grid_point_name(size_t i);

/* Numbers and ranges from 0 to n - 1 ("0-3,7,-1": negative ones count from the end) as an stb_ds
 * array. `option` names it in messages. Returns an exit code; the user has been told. */
int grid_read_set(const char *option, const char *text, size_t n, int32_t **set);

/* The grids, an stb_ds array whose members sweep_grid_free frees. Returns an exit code; the user has been
 * told which hook the model lacks, or which word is unknown. */
int grid_read(struct grid_request *request, const struct engine *e, const struct hook *hooks,
              size_t n_tokens, struct sweep_grid **grids);

#endif
