/* Reading a text, from a file or stdin, with limits. See cli.h. */
#include "base/error.h"
#include "common/cli.h"
#include "common/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TEXT = 1 << 30 };

static int read_error(mgpt_error *err, const char *verb)
{
    err_set(err, MGPT_EIO, MGPT_NO_OFFSET, "cannot %s: %s", verb, strerror(errno));
    return 0;
}

/* Checks the limits. buf[from..n) is new; *line is where the last line begins. */
static int within_limits(struct cli_limits limits, const char *buf, size_t from, size_t n,
                         size_t *line, mgpt_error *err)
{
    if (n > MAX_TEXT) {
        err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "more than %d bytes, the limit", MAX_TEXT);
        return 0;
    }
    for (size_t i = from; i < n; i++)
        *line = buf[i] == '\n' ? i + 1 : *line;
    if (limits.all && n > limits.all && !limits.is_prefix)
        err_set(err, MGPT_EFULL, MGPT_NO_OFFSET, "more than %zu bytes, the most that can fit",
                limits.all);
    else if (limits.line && n - *line > limits.line)
        err_set(err, MGPT_EFULL, *line, "a line of more than %zu bytes, the most that can fit",
                limits.line);
    else
        return 1;
    return 0;
}

/* The number of bytes before the last character, which may be incomplete. */
static size_t whole_characters(const char *buf, size_t n)
{
    while (n > 0 && ((unsigned char)buf[n - 1] & 0xC0) == 0x80)
        n--;
    return n > 0 ? n - 1 : 0;
}

static int read_stream(int fd, struct cli_limits limits, char **buf, size_t *n_bytes,
                       mgpt_error *err)
{
    size_t cap = 0, n = 0, line = 0;
    for (;;) {
        if (cap - n < 2) {
            char *bigger = cap <= SIZE_MAX / 2 - 4096 ? realloc(*buf, cap * 2 + 4096) : NULL;
            if (!bigger) {
                err_memory(err, "the text", cap);
                return 0;
            }
            *buf = bigger;
            cap = cap * 2 + 4096;
        }
        ssize_t got = read(fd, *buf + n, cap - n - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return read_error(err, "read");
        if (got == 0)
            break;
        if (!within_limits(limits, *buf, n, n + (size_t)got, &line, err))
            return 0;
        n += (size_t)got;
        if (limits.is_prefix && n > limits.all) {
            n = whole_characters(*buf, limits.all);
            break;
        }
    }
    (*buf)[n] = 0;
    *n_bytes = n;
    return 1;
}

char *cli_read(const char *path, size_t *n_bytes, mgpt_error *err)
{
    return cli_read_limited(path, (struct cli_limits){.all = 0}, n_bytes, err);
}

char *cli_read_limited(const char *path, struct cli_limits limits, size_t *n_bytes, mgpt_error *err)
{
    int is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    char *buf = NULL;
    if (fd < 0) {
        read_error(err, "open");
        return NULL;
    }
    int ok =
        files_note_stream(fd, path, err) == MGPT_OK && read_stream(fd, limits, &buf, n_bytes, err);
    if (!is_stdin)
        close(fd);
    if (!ok) {
        free(buf);
        return NULL;
    }
    return buf;
}
