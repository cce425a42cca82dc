/* --check-finite: is every value of a pass a number? A watcher of all points that stops the pass at the
 * first NaN or infinity and says where it is: hook, head, position, place in the row.
 *
 * Which value is the first depends on how the tokens were cut into passes, as these go layer by layer.
 * Minus infinity as the score of a key that the layer's window hides is as it should be.
 */
#ifndef MGPT_FINITE_H
#define MGPT_FINITE_H

#include "watch.h"

struct finite {
    const mgpt_model *model;
    int found; /* one that finite_error has not told yet */
    mgpt_point point;
    int32_t layer, pos, row, col;
    float value;
    size_t n_told;
};

/* A watcher for sessions of a model. *f must stay where it is as long as it watches. */
struct watcher finite_watcher(struct finite *f, const mgpt_model *model);

/* What a call returned that f watched. A pass that f stopped becomes MGPT_EFILE, with the line for the
 * user in *err; any other status remains. */
int finite_told(struct finite *f, int status, mgpt_error *err);

#endif
