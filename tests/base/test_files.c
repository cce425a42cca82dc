/* Floor 0: files read and written.
 *
 * Each test gets a fresh directory below TMPDIR (or /tmp) and must leave it empty: that no temporary
 * file stays behind is part of what is tested.
 */
#ifdef __linux__
#define _GNU_SOURCE /* O_TMPFILE */
#endif
#include "base/file.h"
#include "base/outfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include <cmocka.h>

/* ---- a directory of our own ------------------------------------------------------------------- */

struct place {
    char dir[256], path[300];
};

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    const char *tmp = getenv("TMPDIR");
    snprintf(place->dir, sizeof place->dir, "%s/mgpt-base-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(place->dir))
        return -1;
    snprintf(place->path, sizeof place->path, "%s/file", place->dir);
    *state = place;
    return 0;
}

/* Fails when the test (or what it tests) left something behind. */
static int remove_place(void **state)
{
    struct place *place = *state;
    int status = rmdir(place->dir);
    free(place);
    return status;
}

/* 1: a file in progress has a name. It has none where the system can do that. */
static size_t temporary_has_name;

/* Such a system is made one that cannot: open refuses O_TMPFILE for the rest of this process. 0: not possible
 * here. */
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
    struct sock_fprog program = {sizeof code / sizeof *code, code};
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

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static void assert_file(const char *path, const char *text)
{
    struct file file;
    assert_int_equal(file_open(&file, path, NULL), MGPT_OK);
    assert_int_equal(file.size, strlen(text));
    assert_memory_equal(file.data, text, file.size);
    file_close(&file);
}

/* ---- reading ---------------------------------------------------------------------------------- */

static void test_file_reads(void **state)
{
    struct place *place = *state;
    struct file file;
    put_file(place->path, "hello");
    assert_int_equal(file_open(&file, place->path, NULL), MGPT_OK);
    assert_int_equal(file.size, 5);
    assert_false(file.mapped);
    assert_memory_equal(file.data, "hello", 5);
    file_close(&file);
    file_close(&file);
    put_file(place->path, "");
    assert_int_equal(file_open(&file, place->path, NULL), MGPT_OK);
    assert_int_equal(file.size, 0);
    assert_non_null(file.data);
    file_close(&file);
    unlink(place->path);
}

/* A sparse file: it takes no room on the disk, and mapping it none in memory. */
static void test_file_maps_large(void **state)
{
    struct place *place = *state;
    struct file file;
    put_file(place->path, "first");
    if (truncate(place->path, (off_t)FILE_MAP_ABOVE + 1) < 0) {
        unlink(place->path);
        skip();
    }
    assert_int_equal(file_open(&file, place->path, NULL), MGPT_OK);
    assert_true(file.mapped);
    assert_true(file.size == FILE_MAP_ABOVE + 1);
    assert_memory_equal(file.data, "first", 6);
    assert_int_equal(file.data[file.size - 1], 0);
    file_close(&file);
    unlink(place->path);
}

static void test_file_loads_partly(void **state)
{
    struct place *place = *state;
    struct file file;
    mgpt_error err = {0};
    char bytes[4];
    put_file(place->path, "0123456789");
    assert_int_equal(file_open_partly(&file, place->path, 5, NULL), MGPT_OK);
    assert_false(file.partly); /* the rest is not worth a second look */
    file_close(&file);
    assert_int_equal(file_open_partly(&file, place->path, 3, NULL), MGPT_OK);
    assert_true(file.partly);
    assert_int_equal(file.size, 10);
    assert_memory_equal(file.data, "012\0\0\0\0\0\0\0", 10);
    assert_int_equal(file_load(&file, 4, 2, NULL), MGPT_OK);
    assert_memory_equal(file.data, "012\00045\0\0\0\0", 10);
    assert_int_equal(file_read(&file, 6, 4, bytes, NULL), MGPT_OK);
    assert_memory_equal(bytes, "6789", 4);
    file_drop(&file, file.data, 10);
    assert_memory_equal(file.data, "012", 3);
    assert_int_equal(truncate(place->path, 7), 0);
    assert_int_equal(file_read(&file, 6, 4, bytes, &err), MGPT_EIO);
    assert_true(err.offset == 7);
    assert_string_equal(err.text, "the file ended at byte 7 while it was read up to byte 10");
    assert_int_equal(file_load(&file, 8, 1, &err), MGPT_EIO);
    file_close(&file);
    file_close(&file);
    unlink(place->path);
}

static void test_file_refuses(void **state)
{
    struct place *place = *state;
    struct file file;
    mgpt_error err = {0};
    assert_int_equal(file_open(&file, place->path, &err), MGPT_EIO);
    assert_string_equal(err.text, "cannot open: No such file or directory");
    assert_int_equal(file_open(&file, place->dir, &err), MGPT_EIO);
    assert_string_equal(err.text, "is a directory, expected a file");
    assert_int_equal(mkfifo(place->path, 0600), 0);
    alarm(20); /* nobody writes to the FIFO: hanging here would be the bug */
    assert_int_equal(file_open(&file, place->path, &err), MGPT_EIO);
    alarm(0);
    assert_string_equal(err.text, "is not a regular file");
    file_close(&file);
    unlink(place->path);
}

/* ---- writing ---------------------------------------------------------------------------------- */

static void test_outfile_creates(void **state)
{
    struct place *place = *state;
    struct outfile out;
    struct stat st;
    mode_t old = umask(027);
    assert_int_equal(outfile_open(&out, place->path, NULL), MGPT_OK);
    umask(old);
    outfile_write(&out, "abc", 3);
    outfile_write(&out, NULL, 0);
    outfile_write(&out, "def", 3);
    assert_true(out.offset == 6);
    assert_int_equal(access(place->path, F_OK), -1);
    assert_int_equal(n_files(place->dir), temporary_has_name);
    assert_int_equal(outfile_commit(&out, NULL), MGPT_OK);
    outfile_discard(&out);
    assert_file(place->path, "abcdef");
    assert_int_equal(n_files(place->dir), 1);
    assert_int_equal(stat(place->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    unlink(place->path);
}

/* What the system was asked for, in order (calls pass through here, see meson.build): f and d, a file and a
 * directory synced; l and r, a file linked and renamed. */
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

int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __real_linkat(int from, const char *a, int to, const char *b, int flags);
int __wrap_fsync(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_linkat(int from, const char *a, int to, const char *b, int flags);

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
    see('l');
    return __real_linkat(from, a, to, b, flags);
}

int __real_access(const char *path, int mode);
int __real_close(int fd);
int __wrap_access(const char *path, int mode);
int __wrap_close(int fd);

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

static int write_file(const char *path, const char *text, mgpt_error *err)
{
    struct outfile out;
    seen.n = 0;
    seen.calls[0] = 0;
    assert_int_equal(outfile_open(&out, path, NULL), MGPT_OK);
    outfile_write(&out, text, strlen(text));
    return outfile_commit(&out, err);
}

/* All bytes are on the disk before the file gets its name, the name after it. A file that cannot be synced
 * replaces nothing. */
static void test_outfile_syncs(void **state)
{
    struct place *place = *state;
    struct stat st;
    mgpt_error err;
    assert_int_equal(stat(place->dir, &st), 0);
    for (size_t replaces = 0; replaces < 2; replaces++) {
        const char *text = replaces ? "the second" : "first";
        assert_int_equal(write_file(place->path, text, &err), MGPT_OK);
        assert_int_equal(seen.calls[0], 'f');
        assert_true(seen.n >= 3 && seen.calls[seen.n - 1] == 'd');
        assert_int_equal(strspn(seen.calls + 1, "lr"), seen.n - 2);
        assert_int_equal(seen.size, strlen(text));
        assert_true(seen.directory == st.st_ino);
    }
    seen.fails = 1;
    assert_int_equal(write_file(place->path, "never", &err), MGPT_EIO);
    assert_non_null(strstr(err.text, "sync"));
    assert_string_equal(seen.calls, "f");
    assert_file(place->path, "the second");
    unlink(place->path);
    assert_int_equal(write_file(place->path, "never", &err), MGPT_EIO);
    assert_int_equal(access(place->path, F_OK), -1);
    seen.fails = 0;
    int here = open(".", O_RDONLY);
    assert_int_equal(chdir(place->dir), 0);
    assert_int_equal(write_file("file", "in the current directory", &err), MGPT_OK);
    assert_int_equal(fchdir(here), 0);
    close(here);
    assert_true(seen.calls[seen.n - 1] == 'd' && seen.directory == st.st_ino);
    unlink(place->path);
}

/* Root may write to every file, so the system's answer is ours. */
static void test_outfile_without_the_right(void **state)
{
    struct place *place = *state;
    struct outfile out;
    mgpt_error err;
    assert_int_equal(write_file(place->path, "first", NULL), MGPT_OK);
    seen.no_right = 1;
    assert_int_equal(outfile_open(&out, place->path, &err), MGPT_EIO);
    seen.no_right = 0;
    assert_file(place->path, "first");
    assert_int_equal(n_files(place->dir), 1);
    unlink(place->path);
}

/* A write that a signal interrupts is tried again, one that is cut short goes on, and a close that is
 * interrupted has closed. */
static void test_outfile_interrupted(void **state)
{
    struct place *place = *state;
    mgpt_error err;
    seen.interrupted = 1;
    assert_int_equal(write_file(place->path, "all of these bytes", &err), MGPT_OK);
    assert_int_equal(seen.interrupted, 0);
    assert_file(place->path, "all of these bytes");
    seen.interrupted = 2;
    seen.close_error = EIO;
    assert_int_equal(write_file(place->path, "never", &err), MGPT_EIO);
    seen.close_error = 0;
    assert_non_null(strstr(err.text, "close"));
    assert_file(place->path, "all of these bytes");
    unlink(place->path);
}

/* Pieces below, at and above the size of the buffer arrive in order. */
static void test_outfile_large(void **state)
{
    struct place *place = *state;
    static const size_t pieces[] = {1, 100000, 262143, 262144, 300000, 3, 262144, 262145, 7};
    size_t total = 0, at = 0;
    uint8_t *bytes = malloc(2000000);
    struct outfile out;
    struct file file;
    for (size_t i = 0; i < 2000000; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    assert_int_equal(outfile_open(&out, place->path, NULL), MGPT_OK);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        outfile_write(&out, bytes + at, pieces[i]);
        total = at += pieces[i];
    }
    assert_int_equal(outfile_commit(&out, NULL), MGPT_OK);
    assert_int_equal(file_open(&file, place->path, NULL), MGPT_OK);
    assert_int_equal(file.size, total);
    assert_memory_equal(file.data, bytes, total);
    file_close(&file);
    free(bytes);
    unlink(place->path);
}

static void test_outfile_replaces_or_aborts(void **state)
{
    struct place *place = *state;
    struct outfile out = {0};
    struct stat st;
    outfile_discard(&out); /* a zeroed one: must not close descriptor 0 */
    put_file(place->path, "old");
    chmod(place->path, 0604);
    assert_int_equal(outfile_open(&out, place->path, NULL), MGPT_OK);
    outfile_write(&out, "new content", 11);
    assert_file(place->path, "old");
    outfile_discard(&out);
    outfile_discard(&out);
    assert_file(place->path, "old");
    assert_int_equal(n_files(place->dir), 1);
    assert_int_equal(outfile_open(&out, place->path, NULL), MGPT_OK);
    outfile_write(&out, "new", 3);
    assert_int_equal(outfile_commit(&out, NULL), MGPT_OK);
    assert_file(place->path, "new");
    assert_int_equal(stat(place->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0604);
    assert_int_equal(n_files(place->dir), 1);
    unlink(place->path);
}

/* Between opening and finishing somebody else makes a file of that name, or takes the old one away. */
static void test_outfile_target_changes(void **state)
{
    struct place *place = *state;
    struct outfile out;
    for (int begins_there = 0; begins_there < 2; begins_there++) {
        assert_int_equal(outfile_open(&out, place->path, NULL), MGPT_OK);
        outfile_write(&out, "ours", 4);
        if (begins_there)
            unlink(place->path);
        else
            put_file(place->path, "theirs");
        assert_int_equal(outfile_commit(&out, NULL), MGPT_OK);
        assert_file(place->path, "ours");
        assert_int_equal(n_files(place->dir), 1);
    }
    unlink(place->path);
}

static void test_outfile_follows_link(void **state)
{
    struct place *place = *state;
    struct outfile out;
    struct stat st;
    char link[300];
    snprintf(link, sizeof link, "%s/link", place->dir);
    put_file(place->path, "old");
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(outfile_open(&out, link, NULL), MGPT_OK);
    outfile_write(&out, "through", 7);
    assert_int_equal(outfile_commit(&out, NULL), MGPT_OK);
    assert_file(place->path, "through");
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    unlink(link);
    unlink(place->path);
}

static void test_outfile_long_name(void **state)
{
    struct place *place = *state;
    struct outfile out;
    char path[600], name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    snprintf(path, sizeof path, "%s/%s", place->dir, name);
    assert_int_equal(outfile_open(&out, path, NULL), MGPT_OK);
    assert_int_equal(outfile_commit(&out, NULL), MGPT_OK);
    assert_file(path, "");
    unlink(path);
}

static void test_outfile_refuses(void **state)
{
    struct place *place = *state;
    struct outfile out;
    mgpt_error err = {0};
    char path[400];
    assert_int_equal(outfile_open(&out, place->dir, &err), MGPT_EIO);
    assert_string_equal(err.text, "is a directory, expected a file name");
    outfile_discard(&out);
    snprintf(path, sizeof path, "%s/missing/file", place->dir);
    assert_int_equal(outfile_open(&out, path, &err), MGPT_EIO);
    assert_string_equal(err.text, "cannot create: No such file or directory");
    snprintf(path, sizeof path, "%s/missing/", place->dir);
    assert_int_equal(outfile_open(&out, path, &err), MGPT_EIO);
    assert_int_equal(outfile_open(&out, "", &err), MGPT_EIO);
    put_file(place->path, "a file");
    snprintf(path, sizeof path, "%s/below", place->path);
    assert_int_equal(outfile_open(&out, path, &err), MGPT_EIO);
    assert_string_equal(err.text, "cannot create: Not a directory");
    if (geteuid() != 0) { /* root may write anything */
        chmod(place->path, 0444);
        assert_int_equal(outfile_open(&out, place->path, &err), MGPT_EIO);
        assert_string_equal(err.text, "cannot write: Permission denied");
    }
    assert_file(place->path, "a file");
    unlink(place->path);
}

/* The directory disappears while the file is being written: the rename fails, nothing is left open. */
static void test_outfile_directory_vanishes(void **state)
{
    struct place *place = *state;
    struct outfile out;
    mgpt_error err = {0};
    char dir[300], path[320];
    snprintf(dir, sizeof dir, "%s/sub", place->dir);
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

/* A limit on the size of files stands for a full disk: the write fails half-way. */
static void test_outfile_disk_full(void **state)
{
    struct place *place = *state;
    struct outfile out;
    mgpt_error err = {0};
    struct rlimit old, small;
    uint8_t *bytes = calloc(1, 1000000);
    put_file(place->path, "old");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 600000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(outfile_open(&out, place->path, NULL), MGPT_OK);
    outfile_write(&out, bytes, 1000000);
    outfile_write(&out, "more", 4); /* after the failure: ignored */
    int status = outfile_commit(&out, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, MGPT_EIO);
    assert_string_equal(err.text, "cannot write: File too large");
    assert_true(err.offset == 600000);
    assert_file(place->path, "old");
    assert_int_equal(n_files(place->dir), 1);
    free(bytes);
    unlink(place->path);
}

static void test_outfile_devices(void **state)
{
    (void)state;
    struct outfile out;
    mgpt_error err = {0};
    if (access("/dev/full", W_OK) < 0)
        skip();
    assert_int_equal(outfile_open(&out, "/dev/full", NULL), MGPT_OK);
    assert_null(out.temporary);
    outfile_write(&out, "x", 1);
    assert_int_equal(outfile_commit(&out, &err), MGPT_EIO);
    assert_string_equal(err.text, "cannot write: No space left on device");
    assert_int_equal(outfile_open(&out, "/dev/null", NULL), MGPT_OK);
    assert_null(out.temporary); /* or root would replace the device here */
    outfile_write(&out, "x", 1);
    assert_int_equal(outfile_commit(&out, NULL), MGPT_OK);
}

#define in_place(f) cmocka_unit_test_setup_teardown(f, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_place(test_file_reads),
        in_place(test_file_maps_large),
        in_place(test_file_loads_partly),
        in_place(test_file_refuses),
        in_place(test_outfile_creates),
        in_place(test_outfile_syncs),
        in_place(test_outfile_without_the_right),
        in_place(test_outfile_interrupted),
        in_place(test_outfile_large),
        in_place(test_outfile_replaces_or_aborts),
        in_place(test_outfile_target_changes),
        in_place(test_outfile_follows_link),
        in_place(test_outfile_long_name),
        in_place(test_outfile_refuses),
        in_place(test_outfile_directory_vanishes),
        in_place(test_outfile_disk_full),
        cmocka_unit_test(test_outfile_devices),
    };
    temporary_has_name = !makes_unnamed();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (temporary_has_name || !forbid_unnamed())
        return failed;
    temporary_has_name = 1;
    return failed + cmocka_run_group_tests_name("without O_TMPFILE", tests, NULL, NULL);
}
