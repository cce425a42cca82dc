/* Files piece by piece. See reader.h. */
#include "common/reader.h"

#include "base/error.h"
#include "common/files.h"
#include "common/interrupt.h"
#include "common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_AT_ONCE = 1 << 16 };

int reader_open(struct text_reader *r, const char *path, mgpt_error *err)
{
    struct stat st;
    int is_stdin = strcmp(path, "-") == 0;
    *r = (struct text_reader){.fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)};
    if (r->fd < 0)
        return err_system(err, "open", MGPT_NO_OFFSET);
    if (fstat(r->fd, &st) == 0 && S_ISREG(st.st_mode))
        r->n_all = (uint64_t)st.st_size;
    int status = files_note_stream(r->fd, path, err);
    if (status < 0)
        reader_close(r);
    return status;
}

void reader_close(struct text_reader *r)
{
    if (r->fd > STDIN_FILENO)
        close(r->fd);
    free(r->bytes);
    *r = (struct text_reader){.fd = -1};
}

/* Makes room for READ_AT_ONCE bytes more: drops what is used, or grows. Returns a status. */
static int reader_room(struct text_reader *r, mgpt_error *err)
{
    if (r->from > 0) {
        memmove(r->bytes, r->bytes + r->from, r->n - r->from);
        r->n -= r->from;
        r->from = 0;
    }
    if (r->cap - r->n >= READ_AT_ONCE)
        return MGPT_OK;
    size_t cap = r->cap * 2 + 2 * READ_AT_ONCE;
    char *bigger = cap > r->cap ? realloc(r->bytes, cap) : NULL;
    if (!bigger)
        return err_memory(err, "the text", cap);
    r->bytes = bigger;
    r->cap = cap;
    return MGPT_OK;
}

int reader_hold(struct text_reader *r, size_t want, mgpt_error *err)
{
    while (!r->is_end && r->n - r->from < want) {
        int status = interrupted() ? MGPT_ESTOP : reader_room(r, err);
        if (status < 0)
            return err ? err->status = status : status;
        ssize_t got = read(r->fd, r->bytes + r->n, r->cap - r->n);
        if (got < 0 && errno != EINTR)
            return err_system(err, "read", MGPT_NO_OFFSET);
        r->n += got > 0 ? (size_t)got : 0;
        r->is_end = got == 0;
    }
    return MGPT_OK;
}

int reader_ready(const struct text_reader *r)
{
    struct pollfd in = {.fd = r->fd, .events = POLLIN};
    size_t n;
    const char *at = reader_bytes(r, &n);
    return r->is_end || memchr(at, '\n', n) || poll(&in, 1, 0) != 0;
}

const char *reader_bytes(const struct text_reader *r, size_t *n)
{
    *n = r->n - r->from;
    return r->bytes ? r->bytes + r->from : "";
}

void reader_use(struct text_reader *r, size_t n)
{
    r->from += n;
    r->n_used += n;
}

int reader_line(struct text_reader *r, size_t most, const char **line, size_t *n, mgpt_error *err)
{
    size_t held, seen = 0;
    const char *at = reader_bytes(r, &held), *end = NULL;
    while (!(end = held > seen ? memchr(at + seen, '\n', held - seen) : NULL) && !r->is_end) {
        seen = held;
        int status = reader_hold(r, held + 1, err);
        if (status < 0)
            return status;
        at = reader_bytes(r, &held);
        if (held > most && !memchr(at, '\n', most + 1))
            break;
    }
    if (held == 0)
        return 0;
    size_t length = end ? (size_t)(end - at) : held;
    if (length > most)
        return err_set(err, MGPT_EFULL, r->n_used,
                       "a line of more than %zu bytes, the most that can fit", most);
    const char *next = at;
    *n = text_cut_line(&next, at + held, line);
    reader_use(r, (size_t)(next - at));
    return 1;
}
