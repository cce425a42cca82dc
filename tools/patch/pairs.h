/* mgpt patch over many pairs of prompts: each is an experiment of its own, with its own lines of text. Of every site
 * they give the mean of the metric, the standard error of its change, and p: how often a sum of the changes with signs
 * at random is at least as far from 0 as theirs. Up to PAIRS_EXACT pairs all signs are tried, else PAIRS_FLIPS of them,
 * the true ones among them. */
#ifndef MGPT_PATCH_PAIRS_H
#define MGPT_PATCH_PAIRS_H

#include "patch/sweep.h"

enum { PAIRS_EXACT = 12, PAIRS_FLIPS = 1 << PAIRS_EXACT, PAIRS_TEXTS = 3 };

/* What all pairs give for a grid of the experiments: its sites in the order of values. */
struct pairs_grid {
    double *values;      /* stb_ds array [pairs][size]: the metric */
    double *stderrs, *p; /* [size], malloc'ed by pairs_end */
};

struct pairs {
    const char *files
        [PAIRS_TEXTS]; /* options: of the clean and corrupted prompts, and of metrics; NULL: none */
    char **lines[PAIRS_TEXTS]; /* stb_ds arrays, into bytes */
    char *bytes[PAIRS_TEXTS];
    double *runs[2]; /* stb_ds arrays: the metric of both prompts of each pair that is known */
    struct pairs_grid *grids; /* stb_ds array */
};

/* Reads the files: as many lines in each, at least one. Returns an exit code; the user has been told. */
int pairs_read(struct pairs *pairs);
size_t pairs_lines(const struct pairs *pairs);

/* How many pairs are known. */
size_t pairs_known(const struct pairs *pairs);

/* Keeps the values of a pair, line `line` (from 1), whose grids are as those of the first. */
int pairs_add(struct pairs *pairs, const struct sweep_grid *grids, const double *runs, size_t line,
              mgpt_error *err);

/* Puts means in place of the values of the first pair and its runs, and fills in stderrs and p. `into`: the
 * run that is changed. */
int pairs_end(struct pairs *pairs, struct sweep_grid *grids, double *runs, int into,
              mgpt_error *err);
void pairs_free(struct pairs *pairs);

#endif
