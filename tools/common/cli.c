/* Messages and exit codes of all commands. See cli.h. Messages are one line each;
 * control characters from arguments and file names are shown as '?'.
 */
#include "common/cli.h"

#include "base/error.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LINE = 1024 };
enum {
    LINE_BYTES = 199, /* of an error about a file, with the newline */
    TEXT_BYTES = 170  /* of its text and byte offset; the rest is for the file's name */
};

/* ---- messages -------------------------------------------------------------------------------- */

static void print_message(const char *prefix, const char *fmt, va_list ap)
{
    char line[MAX_LINE], clean[MAX_LINE];
    if (vsnprintf(line, sizeof line, fmt, ap) < 0)
        return;
    text_format(clean, sizeof clean, "%s", line); /* arguments and names may hold any bytes */
    fprintf(stderr, "mgpt%s%s: %s", *prefix ? " " : "", prefix, clean);
}

void cli_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    print_message("", fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

static int is_quiet; /* of the process, as stderr is */

void cli_set_quiet(void)
{
    is_quiet = 1;
}

int cli_is_quiet(void)
{
    return is_quiet;
}

void cli_info(const char *fmt, ...)
{
    va_list ap;
    if (is_quiet)
        return;
    va_start(ap, fmt);
    print_message("", fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

int cli_usage(const struct cli_command *command, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    print_message(command->name, fmt, ap);
    va_end(ap);
    fprintf(stderr, " (see mgpt %s --help)\n", command->name);
    return EXIT_USAGE;
}

static int exit_code(int status)
{
    switch (status) {
    case MGPT_OK:
        return EXIT_OK;
    case MGPT_EFILE:
        return EXIT_REFUSED;
    case MGPT_EMEM:
    case MGPT_EFULL:
        return EXIT_FULL;
    case MGPT_EIO:
        return EXIT_IO;
    case MGPT_ESTOP: /* our taps stop only after Ctrl-C */
        return EXIT_INTERRUPTED;
    default:
        return EXIT_USAGE;
    }
}

/* Prints the end of a path that is too long for the line: the file's name matters most. */
static void note_of_file(const char *file, const char *text, const char *where)
{
    size_t room = LINE_BYTES - strlen("mgpt: : \n") - strlen(text) - strlen(where),
           n = strlen(file);
    const char *dots = n > room ? "..." : "";
    if (n > room)
        for (file += n - room + strlen(dots); ((unsigned char)*file & 0xC0) == 0x80;)
            file++; /* do not begin inside a UTF-8 character */
    cli_note("%s%s: %s%s", dots, file, text, where);
}

int cli_fail(const char *file, const mgpt_error *err)
{
    char where[40] = "", text[sizeof err->text];
    if (err->status == MGPT_ESTOP)
        return EXIT_INTERRUPTED;
    if (err->offset != MGPT_NO_OFFSET && err->status != MGPT_ETEXT) /* ETEXT texts have it */
        snprintf(where, sizeof where, " (byte %llu)", (unsigned long long)err->offset);
    text_format(text, TEXT_BYTES - strlen(where), "%s", err->text);
    if (file)
        note_of_file(file, text, where);
    else
        cli_note("%s%s", text, where);
    return exit_code(err->status);
}

/* 1: the reader of the pipe is gone, as in `mgpt generate ... | head`; then no message is
 * printed. */
static int reader_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

int cli_finish(int code)
{
    int failed = fflush(stdout) != 0;
    int reason = failed ? errno : EIO;
    if (!failed && !ferror(stdout))
        return code;
    if (!reader_gone())
        cli_note("cannot write to stdout: %s", strerror(reason));
    return EXIT_IO;
}

int cli_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

double cli_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
