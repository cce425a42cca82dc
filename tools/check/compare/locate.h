/* Where our pass and another program's begin to differ: every inner value that the reference
 * recorded, in the order of the pass.
 *
 * Two passes of the engine. In the first it runs as it is. In the second each value is replaced by
 * the reference's once it has been compared: a stage that differs there is wrong by itself; one
 * that differs in the first pass only has inherited its error.
 */
#ifndef MGPT_LOCATE_H
#define MGPT_LOCATE_H

#include "check/compare/answer.h"

/* One position at one hook. */
struct locate_at {
    double square, ref_square; /* of the differences, of the reference's values */
    double worst;              /* NaN when a value is not finite */
    size_t head, index;        /* where; index counts within a head at the points that have heads */
    double ours, theirs;
};

struct locate_hook {
    struct ref_hook hook;
    struct locate_at *own, *fed; /* [n]: the engine as it is, fed with the reference's values */
    double nmse, fed_nmse;       /* the worst position's; NaN when a value is not finite */
    int bad, fed_bad, fired;
    int elsewhere; /* bad, but what is computed from it is not: recorded at another place */
    size_t pos;    /* first bad position, or the worst */
};

struct locate {
    struct locate_hook *hooks; /* [n_hooks + 1], the logits last */
    size_t n_hooks, n;         /* n positions */
    double bound;
    int64_t first_bad, last_good; /* indices, -1: none */
};

/* Walks the hooks for answer->n tokens. MGPT_OK also when all agree; on failure nothing is left to
 * free. */
int locate_run(struct locate *locate, const mgpt_model *model, const struct answer *answer,
               double bound, mgpt_error *err);
void locate_free(struct locate *locate);

/* Locates the first bad hook in a pass that the caller runs: rows in any order, then locate_judge. It
 * does not test whether a stage is wrong by itself. */
int locate_open(struct locate *locate, const struct answer *answer, double bound, mgpt_error *err);
void locate_row(struct locate *locate, size_t hook, size_t pos, size_t head, const double *theirs,
                const float *ours, size_t n);
void locate_judge(struct locate *locate);

/* The layers in which the first bad value may have gone wrong: they follow the last good hook, and
 * the bad one follows them. None when from > to. */
struct locate_layers {
    int from, to;
};
struct locate_layers locate_layers(const struct locate *locate, int n_layer);

/* Words for messages: what the stage before a point does, and its tensors. */
const char *locate_stage(mgpt_point point);

/* Prints the finding. Exit codes. */
int locate_print(const struct locate *locate, const mgpt_model *model, const struct answer *answer);
int locate_print_json(const struct locate *locate, const mgpt_model *model);

#endif
