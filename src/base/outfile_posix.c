/* Output files on POSIX systems. See outfile_system.h.
 *
 * A regular target is replaced by rename(2), so a reader sees the old file or the whole new one,
 * even after a crash of the machine: the data is synced before the rename, the directory after it.
 * A failed directory sync is ignored, because the file is complete by then. A new file gets the
 * permissions of any created file, a replaced one keeps its own. A link is followed and its target
 * replaced; a dangling link is itself replaced.
 *
 * Where the system has O_TMPFILE, the file has no name until it is complete, so a killed process
 * leaves nothing. Elsewhere, and where linkat is forbidden, it is .NAME.XXXXXX.tmp from the start.
 * Replacing always needs such a name, since linkat does not replace; with O_TMPFILE it exists only
 * between two system calls. Its writer holds a lock on it (flock), so that the next writer of NAME
 * knows what a killed process has left (outfile_left.c).
 */
#ifdef __linux__
#define _GNU_SOURCE /* O_TMPFILE */
#elif !defined _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* realpath */
#endif
#include "base/outfile_system.h"

#include "base/error.h"
#include "base/outfile_left.h"
#include "base/outfile_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* rename */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static size_t name_start(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* ---- the temporary file ---------------------------------------------------------------------- */

/* A number that two processes, or two calls at different times, hardly share. */
static uint64_t unique_now(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30 ^ (uint64_t)getpid() << 40;
}

/* Links the unnamed file to `path`. Returns 0, or -1 with errno. */
static int link_unnamed(const struct outfile *out, const char *path)
{
    char self[40];
    text_format(self, sizeof self, "/proc/self/fd/%d", out->fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

/* Creates and locks the temporary file. Returns 0 with errno on failure: EEXIST also if another
 * writer has taken it for a left one before it was locked. */
static int open_locked(struct outfile *out, mode_t mode)
{
    out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (out->fd < 0)
        return 0;
    if (outfile_lock(out->fd))
        return 1;
    close(out->fd);
    out->fd = -1;
    errno = EEXIST;
    return 0;
}

/* Creates DIR/.NAME.XXXXXX.tmp, or links the unnamed file to that name. mkstemp is not used: it
 * would make the file private regardless of the umask. */
static int create_named(struct outfile *out, mode_t mode, mgpt_error *err)
{
    out->temporary = outfile_temporary(out->path, name_start(out->path));
    if (!out->temporary)
        return err_memory(err, "a file name", strlen(out->path));
    for (unsigned i = 0; i < OUTFILE_ATTEMPTS; i++) {
        outfile_put_letters(out->temporary, unique_now(), i);
        if (out->fd >= 0 ? link_unnamed(out, out->temporary) == 0 : open_locked(out, mode))
            return MGPT_OK;
        if (errno != EEXIST && errno != EINTR)
            break;
    }
    int status = err_system(err, "create", MGPT_NO_OFFSET);
    free(out->temporary);
    out->temporary = NULL;
    return status;
}

/* 1: a filter of system calls forbids linkat, as some containers do. Without one, an empty path is
 * ENOENT. */
static int link_is_forbidden(void)
{
    return linkat(AT_FDCWD, "", AT_FDCWD, "", 0) < 0 && errno != ENOENT;
}

/* Opens an unnamed file in the target's directory and returns 1. Returns 0 with errno on failure,
 * EOPNOTSUPP without O_TMPFILE, linkat or /proc: the file can be named later only through these. */
static int create_unnamed(struct outfile *out, mode_t mode)
{
    errno = EOPNOTSUPP;
#ifdef O_TMPFILE
    char self[40];
    size_t start = name_start(out->path);
    char *directory = start ? strndup(out->path, start) : strdup(".");
    if (!directory) {
        errno = ENOMEM;
        return 0;
    }
    out->fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    int why = errno;
    free(directory);
    errno = why;
    if (out->fd < 0)
        return 0;
    text_format(self, sizeof self, "/proc/self/fd/%d", out->fd);
    if (access(self, F_OK) == 0 && !link_is_forbidden()) {
        outfile_lock(out->fd); /* always free: the file is new */
        return 1;
    }
    close(out->fd);
    out->fd = -1;
    errno = EOPNOTSUPP;
#else
    (void)out;
    (void)mode;
#endif
    return 0;
}

static int create_temporary(struct outfile *out, mode_t mode, mgpt_error *err)
{
    out->regular = 1;
    outfile_remove_left(out->path);
    while (!create_unnamed(out, mode)) {
        if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)
            return create_named(out, mode, err);
        if (errno == ENOMEM)
            return err_memory(err, "a file name", strlen(out->path));
        if (errno != EINTR)
            return err_system(err, "create", MGPT_NO_OFFSET);
    }
    return MGPT_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_new(struct outfile *out, const char *path, mgpt_error *err)
{
    if (path[name_start(path)] == 0) {
        errno = ENOENT; /* "" or "missing/" */
        return err_system(err, "create", MGPT_NO_OFFSET);
    }
    out->path = strdup(path);
    if (!out->path)
        return err_memory(err, "a file name", strlen(path) + 1);
    out->fresh = 1;
    return create_temporary(out, 0666, err);
}

static int open_replacing(struct outfile *out, const char *path, mode_t mode, mgpt_error *err)
{
    /* rename needs no write permission on the old file. Users expect it to be required, so
     * check. */
    if (access(path, W_OK) < 0)
        return err_system(err, "write", MGPT_NO_OFFSET);
    out->path = realpath(path, NULL);
    if (!out->path)
        return err_system(err, "resolve", MGPT_NO_OFFSET);
    int status = create_temporary(out, mode, err);
    /* The umask may have cleared bits. If they cannot be restored, the file has fewer
     * permissions. */
    if (status == MGPT_OK)
        fchmod(out->fd, mode);
    return status;
}

static int open_special(struct outfile *out, const char *path, mgpt_error *err)
{
    out->path = strdup(path);
    if (!out->path)
        return err_memory(err, "a file name", strlen(path) + 1);
    do
        out->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    while (out->fd < 0 && errno == EINTR);
    return out->fd < 0 ? err_system(err, "open", MGPT_NO_OFFSET) : MGPT_OK;
}

int outfile_open_target(struct outfile *out, const char *path, mgpt_error *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return errno == ENOENT ? open_new(out, path, err)
                               : err_system(err, "create", MGPT_NO_OFFSET);
    if (S_ISDIR(st.st_mode))
        return err_set(err, MGPT_EIO, MGPT_NO_OFFSET, "is a directory, expected a file name");
    if (!S_ISREG(st.st_mode))
        return open_special(out, path, err);
    return open_replacing(out, path, st.st_mode & 0777, err);
}

/* ---- writing --------------------------------------------------------------------------------- */

int64_t outfile_send(struct outfile *out, const void *p, size_t n, uint64_t at)
{
    return out->regular ? pwrite(out->fd, p, n, (off_t)at) : write(out->fd, p, n);
}

/* Returns 0 or an error number. Without posix_fallocate (macOS) a full disk is found only on
 * write. */
static int reserve_once(int fd, off_t size)
{
#ifdef MGPT_NO_FALLOCATE
    return ftruncate(fd, size) == 0 ? 0 : errno;
#else
    return posix_fallocate(fd, 0, size);
#endif
}

int outfile_reserve_blocks(struct outfile *out, uint64_t size)
{
    off_t length = (off_t)size;
    int failed = 0;
    if (length < 0 || (uint64_t)length != size)
        return EFBIG;
    if (size > 0)
        do
            failed = reserve_once(out->fd, length);
        while (failed == EINTR);
    return failed;
}

/* ---- finishing ------------------------------------------------------------------------------- */

/* Makes the rename durable. Errors are ignored: not every file system can sync a directory. */
static void sync_directory(char *path)
{
    size_t start = name_start(path);
    path[start] = 0;
    int fd = open(start ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

/* Names a complete unnamed file: the target's name if that is free, else a temporary one. */
static void name_unnamed(struct outfile *out)
{
    if (out->failed.status < 0 || !out->regular || out->temporary)
        return;
    if (out->fresh && link_unnamed(out, out->path) == 0)
        return;
    if (out->fresh && errno != EEXIST)
        err_system(&out->failed, "rename the finished file", MGPT_NO_OFFSET);
    else
        create_named(out, 0, &out->failed);
}

/* Writes all bytes to the disk, names the file and closes the descriptor, also after an error.
 * Returns a second descriptor, which keeps the lock until the file is renamed, or -1. */
static int sync_and_close(struct outfile *out)
{
    if (out->failed.status == MGPT_OK && out->regular && fsync(out->fd) < 0)
        err_system(&out->failed, "sync", MGPT_NO_OFFSET);
    name_unnamed(out);
    int lock = out->temporary ? fcntl(out->fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (close(out->fd) < 0 && errno != EINTR && out->failed.status == MGPT_OK)
        err_system(&out->failed, "close", MGPT_NO_OFFSET);
    out->fd = -1;
    return lock;
}

void outfile_finish(struct outfile *out)
{
    int lock = out->failed.status == MGPT_OK ? sync_and_close(out) : -1;
    if (out->failed.status == MGPT_OK && out->temporary && rename(out->temporary, out->path) < 0)
        err_system(&out->failed, "rename the finished file", MGPT_NO_OFFSET);
    if (lock >= 0)
        close(lock);
    if (out->failed.status == MGPT_OK && out->regular)
        sync_directory(out->path);
}

void outfile_remove(struct outfile *out)
{
    if (out->fd >= 0)
        close(out->fd);
    if (out->temporary)
        unlink(out->temporary);
}
