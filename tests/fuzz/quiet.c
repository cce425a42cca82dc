/* Fuzz targets: streams that go nowhere. See quiet.h. */
#define _GNU_SOURCE /* fopencookie */
#include "fuzz/quiet.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static FILE *real_out, *real_err, *quiet_out, *quiet_err;
static size_t told;
static quiet_out_fn *takes_out;

/* In place of MUST, whose stderr this is. */
static void complain(void)
{
    static const char line[] = "quiet.c: broken promise: a control character was printed\n";
    if (write(STDERR_FILENO, line, sizeof line - 1) < 0)
        _exit(1);
    abort();
}

static ssize_t take(void *count, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)text[i] < 32 && text[i] != '\n') || text[i] == 127)
            complain();
    if (count)
        *(size_t *)count += n;
    return (ssize_t)n;
}

static ssize_t take_out(void *count, const char *text, size_t n)
{
    if (!takes_out)
        return take(count, text, n);
    takes_out(text, n);
    return (ssize_t)n;
}

static FILE *nowhere(cookie_write_function_t *takes, size_t *count)
{
    const cookie_io_functions_t how = {.write = takes};
    FILE *f = fopencookie(count, "w", how);
    if (!f)
        abort();
    return f;
}

void quiet_begin(quiet_out_fn *out)
{
    if (!quiet_out) {
        quiet_out = nowhere(take_out, NULL);
        quiet_err = nowhere(take, &told);
        setvbuf(quiet_err, NULL, _IOLBF, BUFSIZ);
        real_out = stdout;
        real_err = stderr;
    }
    told = 0;
    takes_out = out;
    stdout = quiet_out;
    stderr = quiet_err;
}

void quiet_end(void)
{
    fflush(quiet_out);
    fflush(quiet_err);
    stdout = real_out;
    stderr = real_err;
}

size_t quiet_told(void)
{
    fflush(quiet_err);
    return told;
}
