/* Files written: whole, synced and under their name, or not at all. No temporary file remains. */
#ifdef __linux__
#define _GNU_SOURCE /* O_TMPFILE */
#endif
#include "base/outfile.h"
#include "support/place.h"
#include "support/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

static size_t temporary_has_name; /* 0 where a file in progress can do without */

/* Makes it such a system: from here on open refuses O_TMPFILE. 0: that is not possible. */
static int forbid_unnamed(void)
{
#if defined __linux__ && defined O_TMPFILE
#ifdef SYS_open
    enum { OPEN_CALL = SYS_open };
#else
    enum { OPEN_CALL = SYS_openat }; /* aarch64 has no other */
#endif
    const uint32_t unnamed = O_TMPFILE & ~O_DIRECTORY;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_STMT(BPF_JMP | BPF_JA, 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OPEN_CALL, 0, 3), /* musl's open */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, unnamed, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {COUNT(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
#else
    return 0;
#endif
}

/* Whether the directory of the tests can hold a file without a name. */
static int makes_unnamed(void)
{
    int fd = -1;
#ifdef O_TMPFILE
    const char *tmp = getenv("TMPDIR");
    fd = open(tmp ? tmp : "/tmp", O_TMPFILE | O_WRONLY, 0600);
    if (fd >= 0)
        close(fd);
#endif
    return fd >= 0;
}

static size_t n_files(const char *path)
{
    size_t n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir));)
        n += strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
    closedir(dir);
    return n;
}

/* The place holds its file with this text, and nothing else. */
static void assert_only_file(const char *text)
{
    assert_file(place.path, text);
    assert_int_equal(n_files(place.dir), 1);
}

/* ---- writing ---- */

TEST_IN_PLACE(creates)
{
    struct outfile out;
    struct stat st;
    mode_t old = umask(027);
    assert_int_equal(outfile_open(&out, place.path, NULL), MGPT_OK);
    umask(old);
    outfile_write(&out, "abc", 3);
    outfile_write(&out, NULL, 0);
    outfile_write(&out, "def", 3);
    assert_true(out.offset == 6);
    assert_int_equal(access(place.path, F_OK), -1);
    assert_int_equal(n_files(place.dir), temporary_has_name);
    assert_int_equal(outfile_commit(&out, NULL), MGPT_OK);
    outfile_discard(&out);
    assert_only_file("abcdef");
    assert_int_equal(stat(place.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
}

/* What the system was asked for, in order (calls pass through here, see meson.build): f and d, a
 * file and a directory synced; l and r, a file linked and renamed. */
static struct {
    char calls[16];
    size_t n;
    off_t size;      /* of the file when it was synced */
    ino_t directory; /* that was synced */
    int fails;       /* the next sync of a file does */
    int no_right;    /* access(W_OK) fails */
    int interrupted; /* the next write and the next close: 1 both, 2 the close */
    int close_error; /* what that fails with, 0: EINTR */
} seen;

static void see(char call)
{
    if (seen.n + 1 < sizeof seen.calls)
        seen.calls[seen.n++] = call;
    seen.calls[seen.n] = 0;
}

int __real_fsync(int fd), __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to),
    __wrap_rename(const char *from, const char *to);
int __real_linkat(int from, const char *a, int to, const char *b, int flags),
    __wrap_linkat(int from, const char *a, int to, const char *b, int flags);

int __wrap_fsync(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    see(S_ISDIR(st.st_mode) ? 'd' : 'f');
    if (S_ISDIR(st.st_mode))
        seen.directory = st.st_ino;
    else
        seen.size = st.st_size;
    errno = EIO;
    return seen.fails && S_ISREG(st.st_mode) ? -1 : __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to)
{
    see('r');
    return __real_rename(from, to);
}

int __wrap_linkat(int from, const char *a, int to, const char *b, int flags)
{
    if (*a) /* else: is linkat forbidden? */
        see('l');
    return __real_linkat(from, a, to, b, flags);
}

int __real_access(const char *path, int mode), __wrap_access(const char *path, int mode);
int __real_close(int fd), __wrap_close(int fd);

int __wrap_access(const char *path, int mode)
{
    if (!seen.no_right || mode != W_OK)
        return __real_access(path, mode);
    errno = EACCES;
    return -1;
}

int __wrap_close(int fd)
{
    int status = __real_close(fd), fails = seen.interrupted == 2;
    seen.interrupted = fails ? 0 : seen.interrupted;
    if (fails)
        errno = seen.close_error ? seen.close_error : EINTR;
    return fails ? -1 : status;
}

/* Interrupted once, then half of what was asked for. */
#define WRAP_PWRITE(NAME)                                                                          \
    ssize_t __real_##NAME(int fd, const void *p, size_t n, off_t at);                              \
    ssize_t __wrap_##NAME(int fd, const void *p, size_t n, off_t at);                              \
    ssize_t __wrap_##NAME(int fd, const void *p, size_t n, off_t at)                               \
    {                                                                                              \
        int fails = seen.interrupted == 1;                                                         \
        seen.interrupted += fails;                                                                 \
        errno = fails ? EINTR : errno;                                                             \
        return fails ? -1 : __real_##NAME(fd, p, seen.interrupted ? (n + 1) / 2 : n, at);          \
    }
#if defined(__GLIBC__) && defined(_FILE_OFFSET_BITS) && _FILE_OFFSET_BITS == 64
WRAP_PWRITE(pwrite64)
#else
WRAP_PWRITE(pwrite)
#endif

static int replace_file(const char *path, const char *text, mgpt_error *err)
{
    struct outfile out;
    seen.n = 0;
    seen.calls[0] = 0;
    assert_int_equal(outfile_open(&out, path, NULL), MGPT_OK);
    outfile_write(&out, text, strlen(text));
    return outfile_commit(&out, err);
}

/* All bytes are on the disk before the file gets its name, the name after it. A file that cannot be
 * synced replaces nothing. */
TEST_IN_PLACE(syncs)
{
    struct stat st;
    mgpt_error err;
    assert_int_equal(stat(place.dir, &st), 0);
    for (size_t replaces = 0; replaces < 2; replaces++) {
        const char *text = replaces ? "the second" : "first";
        assert_int_equal(replace_file(place.path, text, &err), MGPT_OK);
        assert_int_equal(seen.calls[0], 'f');
        assert_true(seen.n >= 3 && seen.calls[seen.n - 1] == 'd');
        assert_int_equal(strspn(seen.calls + 1, "lr"), seen.n - 2);
        assert_int_equal(seen.size, strlen(text));
        assert_true(seen.directory == st.st_ino);
    }
    seen.fails = 1;
    assert_int_equal(replace_file(place.path, "never", &err), MGPT_EIO);
    assert_non_null(strstr(err.text, "sync"));
    assert_string_equal(seen.calls, "f");
    assert_file(place.path, "the second");
    unlink(place.path);
    assert_int_equal(replace_file(place.path, "never", &err), MGPT_EIO);
    assert_int_equal(access(place.path, F_OK), -1);
    seen.fails = 0;
    int here = open(".", O_RDONLY);
    assert_int_equal(chdir(place.dir), 0);
    assert_int_equal(replace_file("file", "in the current directory", &err), MGPT_OK);
    assert_int_equal(fchdir(here), 0);
    close(here);
    assert_true(seen.calls[seen.n - 1] == 'd' && seen.directory == st.st_ino);
}

/* Root may write to every file, so the system's answer is ours. */
TEST_IN_PLACE(without_the_right)
{
    struct outfile out;
    mgpt_error err;
    assert_int_equal(replace_file(place.path, "first", NULL), MGPT_OK);
    seen.no_right = 1;
    assert_int_equal(outfile_open(&out, place.path, &err), MGPT_EIO);
    seen.no_right = 0;
    assert_only_file("first");
}

/* An interrupted write is tried again, a short one goes on, an interrupted close has closed. */
TEST_IN_PLACE(interrupted)
{
    mgpt_error err;
    seen.interrupted = 1;
    assert_int_equal(replace_file(place.path, "all of these bytes", &err), MGPT_OK);
    assert_int_equal(seen.interrupted, 0);
    assert_file(place.path, "all of these bytes");
    seen.interrupted = 2;
    seen.close_error = EIO;
    assert_int_equal(replace_file(place.path, "never", &err), MGPT_EIO);
    seen.close_error = 0;
    assert_non_null(strstr(err.text, "close"));
    assert_file(place.path, "all of these bytes");
}

/* Pieces below, at and above the size of the buffer arrive in order. */
TEST_IN_PLACE(large)
{
    static const size_t pieces[] = {1, 100000, 262143, 262144, 300000, 3, 262144, 262145, 7};
    size_t total = 0, at = 0;
    uint8_t *bytes = malloc(2000000);
    struct outfile out;
    struct file file;
    for (size_t i = 0; i < 2000000; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    assert_int_equal(outfile_open(&out, place.path, NULL), MGPT_OK);
    for (size_t i = 0; i < COUNT(pieces); i++) {
        outfile_write(&out, bytes + at, pieces[i]);
        total = at += pieces[i];
    }
    assert_int_equal(outfile_commit(&out, NULL), MGPT_OK);
    assert_int_equal(file_open(&file, place.path, NULL), MGPT_OK);
    assert_int_equal(file.size, total);
    assert_memory_equal(file.data, bytes, total);
    file_close(&file);
    free(bytes);
}

TEST_IN_PLACE(replaces_or_aborts)
{
    struct outfile out = {0};
    struct stat st;
    outfile_discard(&out); /* a zeroed one: must not close descriptor 0 */
    put_file(place.path, "old");
    chmod(place.path, 0723); /* which no usual umask leaves */
    assert_int_equal(outfile_open(&out, place.path, NULL), MGPT_OK);
    outfile_write(&out, "new content", 11);
    int fd = out.fd;
    assert_file(place.path, "old");
    outfile_discard(&out);
    outfile_discard(&out);
    assert_int_equal(close(fd), -1); /* it is closed */
    assert_only_file("old");
    assert_int_equal(replace_file(place.path, "new", NULL), MGPT_OK);
    assert_file(place.path, "new");
    assert_int_equal(stat(place.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0723);
    assert_int_equal(n_files(place.dir), 1);
}

/* Before the commit another program makes a file of that name, or removes the old one. */
TEST_IN_PLACE(target_changes)
{
    struct outfile out;
    for (int begins_there = 0; begins_there < 2; begins_there++) {
        assert_int_equal(outfile_open(&out, place.path, NULL), MGPT_OK);
        outfile_write(&out, "ours", 4);
        if (begins_there)
            unlink(place.path);
        else
            put_file(place.path, "theirs");
        assert_int_equal(outfile_commit(&out, NULL), MGPT_OK);
        assert_only_file("ours");
    }
}

TEST_IN_PLACE(follows_link)
{
    struct stat st;
    char link[300];
    snprintf(link, sizeof link, "%s/link", place.dir);
    put_file(place.path, "old");
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(replace_file(link, "through", NULL), MGPT_OK);
    assert_file(place.path, "through");
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    unlink(link);
}

TEST_IN_PLACE(long_name)
{
    char path[600], name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    snprintf(path, sizeof path, "%s/%s", place.dir, name);
    assert_int_equal(replace_file(path, "", NULL), MGPT_OK);
    assert_file(path, "");
    unlink(path);
}

static void outfile_refused(const char *directory, const char *name, const char *text)
{
    struct outfile out;
    mgpt_error err = {0};
    char path[400];
    snprintf(path, sizeof path, "%s%s", directory, name);
    assert_int_equal(outfile_open(&out, path, &err), MGPT_EIO);
    assert_string_equal(err.text, text);
    outfile_discard(&out);
}

TEST_IN_PLACE(refuses)
{
    outfile_refused(place.dir, "", "is a directory, expected a file name");
    outfile_refused(place.dir, "/missing/file", "cannot create: No such file or directory");
    outfile_refused(place.dir, "/missing/", "cannot create: No such file or directory");
    outfile_refused("", "", "cannot create: No such file or directory");
    put_file(place.path, "a file");
    outfile_refused(place.path, "/below", "cannot create: Not a directory");
    if (geteuid() != 0) { /* root may write anything */
        chmod(place.path, 0444);
        outfile_refused(place.path, "", "cannot write: Permission denied");
    }
    assert_file(place.path, "a file");
}

/* The directory disappears before the commit: the rename fails, nothing is left open. */
TEST_IN_PLACE(directory_vanishes)
{
    struct outfile out;
    mgpt_error err = {0};
    char dir[300], path[320];
    snprintf(dir, sizeof dir, "%s/sub", place.dir);
    snprintf(path, sizeof path, "%s/file", dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(outfile_open(&out, path, NULL), MGPT_OK);
    outfile_write(&out, "lost", 4);
    if (out.temporary)
        assert_int_equal(unlink(out.temporary), 0);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(outfile_commit(&out, &err), MGPT_EIO);
    assert_string_equal(err.text, "cannot rename the finished file: No such file or directory");
}

/* A limit on the size of files acts as a full disk: the write fails half-way. */
TEST_IN_PLACE(disk_full)
{
    struct outfile out;
    mgpt_error err = {0};
    struct rlimit old, small;
    uint8_t *bytes = calloc(1, 1000000);
    put_file(place.path, "old");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){600000, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(outfile_open(&out, place.path, NULL), MGPT_OK);
    assert_int_equal(outfile_reserve(&out, 1000000, &err), MGPT_EIO);
    outfile_write(&out, bytes, 1000000);
    outfile_write(&out, "more", 4); /* after the failure: ignored */
    int status = outfile_commit(&out, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, MGPT_EIO);
    assert_string_equal(err.text, "cannot write: File too large");
    assert_true(err.offset == 600000);
    assert_only_file("old");
    free(bytes);
}

/* A temporary file would replace the device where root runs the tests. */
static int write_device(const char *path, mgpt_error *err)
{
    struct outfile out;
    assert_int_equal(outfile_open(&out, path, NULL), MGPT_OK);
    assert_null(out.temporary);
    outfile_write(&out, "x", 1);
    return outfile_commit(&out, err);
}

TEST(devices)
{
    mgpt_error err = {0};
    if (access("/dev/full", W_OK) < 0)
        skip();
    assert_int_equal(write_device("/dev/full", &err), MGPT_EIO);
    assert_string_equal(err.text, "cannot write: No space left on device");
    assert_int_equal(write_device("/dev/null", NULL), MGPT_OK);
}

int main(void)
{
    temporary_has_name = !makes_unnamed();
    int failed = unit_run("tests");
    if (temporary_has_name || !forbid_unnamed())
        return failed;
    temporary_has_name = 1;
    return failed + unit_run("without O_TMPFILE");
}
