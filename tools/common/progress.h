/* How far a long loop is: a line on stderr that is written over, from half a second on, where
 * stderr is a terminal. */
#ifndef MGPT_PROGRESS_H
#define MGPT_PROGRESS_H

#include <stdint.h>

struct progress {
    int terminal;
    double start, shown; /* seconds; shown is 0 until the line is there */
};

void progress_begin(struct progress *progress);

/* user: the struct progress. */
void progress_show(void *user, uint64_t n_done, uint64_t n_all);

/* Removes the line. */
void progress_end(struct progress *progress);

#endif
