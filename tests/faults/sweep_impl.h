/* Tests: the outcome of a run of a sweep, and how it is judged (sweep_judge.c). */
#ifndef TESTS_SWEEP_IMPL_H
#define TESTS_SWEEP_IMPL_H

#include "faults/faults.h"
#include "faults/sweep.h"

enum { MAX_FILES = 4 };

struct file_bytes {
    char *p;
    size_t n;
};

/* What a run has left. */
struct outcome {
    int code; /* exit code, or 1000 and the signal */
    struct file_bytes out, err;
    int n_files;
    struct {
        char name[64];
        struct file_bytes bytes;
    } files[MAX_FILES];
};

struct sweep_total {
    size_t operations, calls, runs, tolerated, wrong;
};

extern struct fault_report *report;
extern struct sweep_total total;

/* What was in a file before: as much of its kind as files.c asks for. */
const char *sweep_old(const char *name);

/* The result is that of the run without faults: what failed was not needed. */
int sweep_same(const struct sweep *s, const struct outcome *base, const struct outcome *o);

/* NULL when all is as it should be, or what is not. */
const char *sweep_judge(const struct sweep *s, const struct outcome *base, const struct outcome *o);

#endif
