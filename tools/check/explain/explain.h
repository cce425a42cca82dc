/* Why two programs differ: the suspects (suspects.h) in order, until one restores agreement; and
 * single weights that differ.
 *
 * Each suspect is a pass of the float64 oracle over a few positions with one thing changed. With
 * inner values the pass is fed with the reference's up to the first bad hook, and only suspects
 * that show there are tried first; with logits only, the shape of the error over positions says
 * which come first. What restores agreement there is a hint, until a whole pass with it agrees with
 * everything that the reference has: then it is the cause.
 */
#ifndef MGPT_EXPLAIN_H
#define MGPT_EXPLAIN_H

#include "check/compare/locate.h"
#include "check/explain/suspects.h"

struct explain_trial {
    char cause[160];
    double nmse;  /* NMSE of the worst position that was computed; NaN: not finite */
    size_t good;  /* positions that agree before the first that does not */
    size_t reach; /* the first bad hook of the whole pass; 0: there was none */
    size_t suspect;
    int layer;       /* -1: all */
    int approximate; /* within the bound, but 10^6 times worse than the noise of the best position */
    int proved;      /* a whole pass with it agrees everywhere that is compared */
    double logits;   /* NMSE of that pass; NaN: there was none */
};

/* A weight (or a few) that differs, found by its effect on the numbers that follow. */
struct explain_weight {
    int found, proved; /* proved: it is the cause */
    char tensor[80];
    int64_t row, col; /* -1: not known, or a vector has none */
    double ours, theirs;
    int not_finite; /* ours is NaN or infinite */
};

/* How the difference compares with the rounding error of a shorter type. */
struct explain_precision {
    const char *type;  /* the nearest; NULL: it was not looked at */
    double noise;      /* NMSE of the median position of a pass in that type */
    double error;      /* the same of the reference */
    int stored;        /* the reference's logits are numbers of that type */
    int as_large;      /* it would fit by its size, but a pass in that type has other differences */
    int fits;          /* the difference is no larger, and has no structure */
    const char *file;  /* type of the file's weights, where the reference's may be others */
    double file_noise; /* NMSE of weights that are moved by what rounding to it moves */
    int inside;        /* the first bad inner value agrees with weights rounded to that type */
};

struct explain {
    char shape[160]; /* the error over positions, in words */
    double bound;    /* of NMSE: agreement */
    double as_is;    /* of the unchanged model in float64, where suspects are compared */
    int kernels;     /* float64 agrees and the engine does not: its kernels are wrong */
    struct explain_trial *trials; /* stb_ds array, best first */
    size_t n_tried;
    int proved; /* the cause is known: a whole pass with it agrees everywhere that is compared. It is
                 * the weight, the kernels, `first` and `with` together, or the first trial */
    char first[160], with[160], third[160]; /* two or three causes at once, or "" */
    double logits;                          /* NMSE of the logits of a whole pass with the cause */
    struct explain_weight weight;
    char head[160]; /* where nothing restores agreement: what the file shows of a tied head */
    struct explain_precision precision;
    int interrupted;
};

/* Looks for the cause of what `locate` found (which must have found something). MGPT_OK whether or
 * not there is one, and after Ctrl-C with what is known so far. */
int explain_run(struct explain *e, const mgpt_model *model, const struct answer *answer,
                const struct locate *locate, mgpt_error *err);
void explain_free(struct explain *e);

/* The cause in words, a weight's tensor, or NULL: none is known. With e->with it is one of two. */
const char *explain_cause(const struct explain *e);

/* directory: path of the model in the "run again" line if it is a Hugging Face directory, else NULL. */
int explain_print(const struct explain *e, const char *directory);
int explain_print_json(const struct explain *e);

#endif
