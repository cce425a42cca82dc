/* The values of one run at some points, of all layers and positions. */
#ifndef MGPT_PATCH_VALUES_H
#define MGPT_PATCH_VALUES_H

#include "engine/engine.h"
#include "engine/hooks.h"

struct run_values {
    size_t n_tokens;
    uint64_t points;            /* kept */
    float *at[MGPT_N_POINTS];   /* [n_layer][n_tokens][cols] */
    size_t cols[MGPT_N_POINTS]; /* of the widest layer; scores and pattern: heads * n_tokens */
    const struct hook *hooks;   /* of the model, which outlive this */
};

/* Makes room for these points, which must be among the hooks. values_free frees it in any case. */
int values_new(struct run_values *v, const struct hook *hooks, uint64_t points, int32_t n_layer,
               size_t n_tokens, mgpt_error *err);
void values_free(struct run_values *v);

/* A mgpt_tap_fn that keeps what it sees; user: the struct run_values. */
int values_keep(const mgpt_value *value, void *user);

/* The row of a position; of a head where the point has them. *n: its length, pos + 1 at scores and
 * pattern. */
float *values_row(const struct run_values *v, mgpt_point point, int32_t layer, size_t pos,
                  size_t head, size_t *n);

#endif
