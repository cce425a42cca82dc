/* Why two programs differ: the usual suspects (suspects.h), one after the other, until one restores
 * agreement; and weights that differ one by one.
 *
 * Each suspect is a pass of the float64 oracle over a few positions with one thing changed. With inner
 * values the pass is fed with the reference's up to the first bad hook, and only suspects that show
 * there are tried first; with logits only, the shape of the error over positions says which come first.
 */
#ifndef MGPT_EXPLAIN_H
#define MGPT_EXPLAIN_H

#include "locate.h"
#include "suspects.h"

struct explain_trial {
    char cause[160];
    double nmse; /* the worst position's, where it was looked at; NaN: not finite */
    size_t suspect;
    int layer; /* -1: all */
};

/* A weight (or a few) that differs, found by what it does to the numbers behind it. */
struct explain_weight {
    int found;
    char tensor[80];
    int64_t row, col; /* -1: not known, or a vector has none */
    double ours, theirs;
    int not_finite; /* ours is NaN or infinite; what the reference has is not known */
};

struct explain {
    char shape[160]; /* the error over positions, in words */
    double bound;    /* of NMSE: agreement */
    double as_is;    /* of the unchanged model in float64, where suspects are compared */
    int kernels;     /* float64 agrees and the engine does not: its kernels are wrong */
    struct explain_trial *trials; /* stb_ds array, best first */
    size_t n_tried;
    int restored;  /* the best one is within the bound */
    double logits; /* NMSE of the logits of a whole pass with it */
    struct explain_weight weight;
};

/* Looks for the cause of what `locate` found (which must have found something). MGPT_OK whether or not
 * there is one; MGPT_ESTOP after Ctrl-C. */
int explain_run(struct explain *e, const mgpt_model *model, const struct answer *answer,
                const struct locate *locate, mgpt_error *err);
void explain_free(struct explain *e);

int explain_print(const struct explain *e);
int explain_print_json(const struct explain *e);

/* ---- between its parts ---- */

/* A pass of a variant, compared at one hook. */
struct score {
    const struct answer *a;
    const struct locate *l;
    size_t target; /* hook, n_hooks for the logits */
    int feed;      /* values before it are replaced by the reference's */
    double nmse;
    /* What it saw, when asked to keep it: at the target, and at its input. */
    int keep;
    mgpt_point input; /* MGPT_N_POINTS: none */
    double *diff, *in;
    size_t n_diff, n_in, n; /* values a row, rows */
};

/* Fills score->nmse. MGPT_EARG: the variant does not fit the model. */
int explain_score(struct score *score, struct whatif *w, mgpt_error *err);

/* Looks for single weights behind the bad hook. */
int explain_weights(struct explain_weight *weight, const mgpt_model *model, const struct answer *a,
                    const struct locate *l, size_t n, mgpt_error *err);

#endif
