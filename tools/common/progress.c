/* See progress.h. */
#include "common/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_begin(struct progress *p)
{
    *p = (struct progress){.terminal = isatty(STDERR_FILENO), .start = now()};
}

void progress_show(void *user, uint64_t n_done, uint64_t n_all)
{
    struct progress *p = user;
    double t = p->terminal ? now() : p->start;
    if (t - p->start < 0.5 || (p->shown > 0 && t - p->shown < 0.1))
        return;
    fprintf(stderr, "\rmgpt: %3.0f %%", 100.0 * (double)n_done / (double)n_all);
    fflush(stderr);
    p->shown = t;
}

void progress_end(struct progress *p)
{
    if (p->shown > 0)
        fputs("\r           \r", stderr);
}
