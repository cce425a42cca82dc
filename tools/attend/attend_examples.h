/* The worked examples of the attention lessons, by name, for mgpt attend. */
#ifndef MGPT_ATTEND_EXAMPLES_H
#define MGPT_ATTEND_EXAMPLES_H

#include <stddef.h>

struct attend_example {
    const char *name, *about;
    const char *x, *wq, *wk, *wv; /* matrices as text, or names of projections (attend_matrix.h) */
    int causal;
};

extern const struct attend_example attend_examples[];
extern const size_t attend_n_examples;

#endif
