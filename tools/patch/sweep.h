/* Sweeps: a prompt is run again and again, each time with one value inside the model changed, and
 * the metric is read after the last token.
 *
 * A site is a point of the forward pass, a layer, a head where the point has heads, and a position.
 * A grid is all sites of a point. Each number has the bits of a run of the whole prompt in a
 * session of its own with a tap that makes the change. What is computed are the layers from the
 * site's on of the tokens from its position on, of many sites in one pass (mgpt_feed_many). */
#ifndef MGPT_PATCH_SWEEP_H
#define MGPT_PATCH_SWEEP_H

#include "patch/metric.h"
#include "patch/values.h"

enum sweep_mode {
    SWEEP_PATCH, /* the value of the other run */
    SWEEP_ZERO,
    SWEEP_MEAN,  /* of all positions, in the run as it was */
    SWEEP_SCALE, /* the value times a factor */
    SWEEP_KEY,   /* later queries do not see this key; the point is MGPT_SCORES */
    SWEEP_VALUE  /* later queries mix zeros for this value; the point is MGPT_WEIGHTS */
};

enum { SWEEP_EVERYWHERE = -1 }; /* as a position: the change is made at all of them */

struct sweep_grid {
    const char *name; /* "z" */
    mgpt_point point;
    enum sweep_mode mode;
    float factor;
    int has_heads;
    size_t width; /* columns of a head, or of the whole row; unused at scores and pattern */
    size_t group; /* SWEEP_KEY, SWEEP_VALUE: query heads of a KV head; else 1 */
    int32_t *layers, *heads, *positions; /* stb_ds arrays; heads is {0} where there are none */
    float *means;                        /* SWEEP_MEAN: [layers][heads][width] */
    double *values; /* the metric, [layers][heads][positions]; NaN until it is known */
};

/* The grid's number of sites, and one of its values. */
size_t sweep_size(const struct sweep_grid *grid);
double sweep_value(const struct sweep_grid *grid, size_t layer, size_t head, size_t pos);

/* Allocates values. sweep_grid_free frees them and the arrays. */
int sweep_grid_room(struct sweep_grid *grid, mgpt_error *err);
void sweep_grid_free(struct sweep_grid *grid);

/* One site, and what is written there. */
struct sweep_site {
    const struct sweep_grid *grid;
    int32_t layer, pos;
    size_t head;      /* the first of grid->group */
    size_t first;     /* the first position that is computed anew */
    size_t order;     /* in which sites are listed */
    const float *row; /* SWEEP_PATCH, SWEEP_MEAN: what to write */
    double *value;
};

struct sweep_batch;

struct patch_sweep {
    struct engine *engine; /* its session runs the prompt */
    const struct metric *metric;
    const int32_t *tokens; /* the prompt that is changed */
    size_t n_tokens;
    struct run_values own;    /* values of this prompt, for SWEEP_MEAN and SWEEP_PATCH */
    struct run_values other;  /* values of the other prompt */
    double base;              /* the metric without a change: set by patch_sweep_begin */
    struct sweep_site *sites; /* stb_ds array: the sites that need a run */
    size_t n_done;            /* sites that have been run */
    struct sweep_batch *batch;
};

/* Runs tokens in the engine's session from position 0 and keeps the points of `values`. */
int sweep_keep(struct engine *e, const int32_t *tokens, size_t n, struct run_values *values,
               mgpt_error *err);

/* Fills in the values of n grids after sweep_keep of s->tokens as the last call on the session.
 * After Ctrl-C it returns MGPT_OK, and the values that are not known are NaN. */
int patch_sweep_run(struct patch_sweep *s, struct sweep_grid *grids, size_t n, mgpt_error *err);

/* Runs a sweep in steps: after begin, a step runs some sites, of about most_rows tokens together, until
 * none is left. end frees what begin made; the values stay, and step's bits depend on no size. */
int patch_sweep_begin(struct patch_sweep *s, struct sweep_grid *grids, size_t n, mgpt_error *err);
size_t patch_sweep_left(const struct patch_sweep *s);
int patch_sweep_step(struct patch_sweep *s, size_t most_rows, mgpt_error *err);
void patch_sweep_end(struct patch_sweep *s);

/* A site of a grid after patch_sweep_begin, by its place in values; s and the grid must stay. And
 * the mgpt_tap_fn that makes its change in any run; user: the struct sweep_site. */
struct sweep_site sweep_site(const struct patch_sweep *s, const struct sweep_grid *grid,
                             size_t index);
int sweep_change(const mgpt_value *value, void *user);

#endif
