/* mgpt generate --records FILE: many prompts, a record of JSON Lines each, and a record out for each in their order.
 *
 * A record's text depends on the record and the command's options only: not on its place, the batch, the threads or the
 * shard. It is what the command prints for the prompt alone. The file is read as records are drawn.
 */
#ifndef MGPT_RECORDS_H
#define MGPT_RECORDS_H

#include "generate/samples.h"

struct records_ask {
    const char *file;
    const struct samples *usual; /* the defaults of a record; with a sampler and a session */
    int special;                 /* control tokens in prompts are read as tokens */
};

/* 1: --json -f FILE has records, as its name says. */
int records_named(const char *file);

/* Returns an exit code: EXIT_REFUSED when all is done and some could not be drawn. */
int records_run(const struct records_ask *ask);

#endif
