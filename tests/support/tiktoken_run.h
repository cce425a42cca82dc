/* Tests: tiktoken's readers, whose faults leave a run (checkpoint.h), as functions that return a status. */
#ifndef MGPT_TESTS_TIKTOKEN_RUN_H
#define MGPT_TESTS_TIKTOKEN_RUN_H

#include "convert/vocab/tiktoken.h"

struct tiktoken_run {
    struct checkpoint *c;
    const struct tiktoken *t; /* NULL: of the file */
    struct span file;
    uint64_t n_rows;
};

static inline void tiktoken_step(void *arg)
{
    const struct tiktoken_run *run = arg;
    if (run->t)
        tiktoken_read(run->c, run->t, "the tokenizer", run->n_rows);
    else
        tiktoken_file_read(run->c, run->file, "test.tiktoken", run->n_rows);
}

static inline int tiktoken_status(struct tiktoken_run run, mgpt_error *err)
{
    return ckpt_run(run.c, tiktoken_step, &run, err);
}

#endif
