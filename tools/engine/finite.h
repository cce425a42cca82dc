/* --check-finite: is every value of a pass a number? A watcher of all points that stops the pass at
 * the first NaN or infinity and says where it is: hook, head, position, place in the row.
 *
 * Which value is the first depends on how the tokens were cut into passes, as these go layer by
 * layer. Minus infinity as the score of a key that the layer's window hides is as it should be.
 */
#ifndef MGPT_FINITE_H
#define MGPT_FINITE_H

#include "engine/watch.h"

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

/* What a call returned that f watched. A pass that f stopped becomes MGPT_EFILE, with the line for
 * the user in *err; any other status remains. */
int finite_told(struct finite *f, int status, mgpt_error *err);

/* The quick half of finite_logits: a sum of numbers is a number, but for overflow. */
static inline int finite_sum(const float *x, size_t n)
{
    float p[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t l = 0; l < 8; l++)
            p[l] += x[i + l];
    for (; i < n; i++)
        p[0] += x[i];
    for (size_t l = 0; l < 4; l++)
        p[l] += p[l + 4];
    float sum = (p[0] + p[1]) + (p[2] + p[3]);
    return sum - sum == 0;
}

/* Without --check-finite: a NaN or an infinity inside shows in the n logits after position pos,
 * which costs next to nothing to test. MGPT_OK, or MGPT_EFILE with the line for the user. */
int finite_logits(struct finite *f, const float *logits, size_t n, size_t pos, mgpt_error *err);

#endif
