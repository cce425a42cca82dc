/* Atomic output files: the part that all systems share. See outfile.h, and outfile_system.h for the rest.
 *
 * A target that is not a regular file (/dev/null, /dev/stdout on a pipe, a FIFO) cannot be
 * replaced: bytes are written straight to it, and outfile_discard cannot take them back.
 */
#include "base/outfile.h"

#include "base/error.h"
#include "base/outfile_system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER ((size_t)256 << 10)

static void outfile_release(struct outfile *out)
{
    free(out->path);
    free(out->temporary);
    free(out->buf);
    *out = (struct outfile){.fd = -1};
}

int outfile_open(struct outfile *out, const char *path, mgpt_error *err)
{
    *out = (struct outfile){.fd = -1};
    out->buf = malloc(BUFFER);
    if (!out->buf)
        return err_memory(err, "an output buffer", BUFFER);
    int status = outfile_open_target(out, path, err);
    if (status < 0)
        outfile_release(out);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes n bytes to the kernel; `at` is their offset in the file and is used for regular files
 * only. */
static void write_through(struct outfile *out, const uint8_t *p, size_t n, uint64_t at)
{
    while (n > 0) {
        int64_t done = outfile_send(out, p, n, at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            errno = EIO;
        if (done <= 0) {
            err_system(&out->failed, "write", at);
            return;
        }
        p += done;
        n -= (size_t)done;
        at += (uint64_t)done;
    }
}

static void flush(struct outfile *out)
{
    write_through(out, out->buf, out->n_buf, out->offset - out->n_buf);
    out->n_buf = 0;
}

void outfile_write(struct outfile *out, const void *data, size_t n)
{
    if (n == 0 || out->failed.status < 0)
        return;
    if (n > BUFFER - out->n_buf)
        flush(out);
    if (out->failed.status < 0)
        return;
    if (n >= BUFFER) {
        write_through(out, data, n, out->offset);
    } else {
        memcpy(out->buf + out->n_buf, data, n);
        out->n_buf += n;
    }
    out->offset += n;
}

/* ---- writing in any order -------------------------------------------------------------------- */

int outfile_reserve(struct outfile *out, uint64_t size, mgpt_error *err)
{
    if (!out->regular)
        return err_set(err, MGPT_EIO, MGPT_NO_OFFSET,
                       "not a regular file, expected one: it is not written in order");
    int failed = outfile_reserve_blocks(out, size);
    if (!failed)
        return MGPT_OK;
    mgpt_error why;
    errno = failed;
    err_system(&why, "reserve", MGPT_NO_OFFSET);
    return err_set(err, MGPT_EIO, MGPT_NO_OFFSET, "%s for %llu bytes", why.text,
                   (unsigned long long)size);
}

void outfile_put(struct outfile *out, uint64_t at, const void *data, size_t n)
{
    if (out->failed.status == MGPT_OK)
        write_through(out, data, n, at);
}

/* ---- finishing ------------------------------------------------------------------------------- */

int outfile_commit(struct outfile *out, mgpt_error *err)
{
    if (out->failed.status == MGPT_OK)
        flush(out);
    outfile_finish(out);
    int status = out->failed.status;
    if (status < 0) {
        if (err)
            *err = out->failed;
        outfile_discard(out);
    }
    outfile_release(out);
    return status;
}

void outfile_discard(struct outfile *out)
{
    if (out->path) /* a zeroed struct does not own descriptor 0 */
        outfile_remove(out);
    outfile_release(out);
}
