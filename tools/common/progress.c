/* See progress.h. */
#include "common/progress.h"

#include "common/cli.h"

#include <stdio.h>
#include <unistd.h>

void progress_begin(struct progress *p)
{
    *p = (struct progress){.terminal = isatty(STDERR_FILENO) && !cli_is_quiet(),
                           .start = cli_seconds()};
}

void progress_show(void *user, uint64_t n_done, uint64_t n_all)
{
    struct progress *p = user;
    double t = p->terminal ? cli_seconds() : p->start;
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
