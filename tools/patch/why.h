/* What the parts of a prompt contribute to the metric after it, by running prompts without them.
 *
 * A coalition is the prompt of some of its segments, one after another; a BOS token at the
 * beginning is in all of them. Shapley values share the metric of the whole prompt, less that of
 * the empty one, among the segments: the mean, over all orders in which they may be added, of what
 * the segment changes (Shapley 1953). All 2^n coalitions are run, so they are exact; a prefix is
 * run once. */
#ifndef MGPT_PATCH_WHY_H
#define MGPT_PATCH_WHY_H

#include "patch/metric.h"

enum { WHY_SEGMENTS = 12 };

struct why {
    struct engine *engine; /* its session holds the prompt, and is not changed */
    const struct metric *metric;
    const int32_t *prompt;
    size_t n_prompt;
    double *tokens; /* [n_prompt]: the metric without the token; NaN: not known. NULL: not asked */
    size_t n_segments;              /* 0: not asked */
    size_t first[WHY_SEGMENTS + 1]; /* where they begin, and the end of the prompt */
    double *coalitions; /* [2^n_segments]: the metric; bit i: with segment i. NaN: not known */
    double shapley[WHY_SEGMENTS];
};

/* Runs the prompt without each of its tokens. */
int why_tokens(struct why *why, mgpt_error *err);

/* Cuts what follows BOS into segments: a number of them, at most WHY_SEGMENTS (NULL: as many as
 * there are tokens), or the positions where they begin. Returns an exit code; the user has been told. */
int why_cut(struct why *why, const char *text);

/* Runs all coalitions. Both return MGPT_OK after Ctrl-C, with what is known. */
int why_segments(struct why *why, mgpt_error *err);

void why_free(struct why *why);

#endif
