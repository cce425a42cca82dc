/* Tests: calls that fail when told to. See faults.h. */
#define _GNU_SOURCE    /* RTLD_NEXT */
#undef _FORTIFY_SOURCE /* both change the names that this file defines */
#undef _FILE_OFFSET_BITS
#include "faults/faults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

const char *const fault_names[N_FAULTS] = {
    [FAULT_MEMORY] = "memory", [FAULT_MAP] = "map",         [FAULT_THREAD] = "thread",
    [FAULT_OPEN] = "open",     [FAULT_READ] = "read",       [FAULT_WRITE] = "write",
    [FAULT_SYNC] = "sync",     [FAULT_RESERVE] = "reserve", [FAULT_RENAME] = "rename",
};

static const int codes[N_FAULTS] = {
    [FAULT_MEMORY] = ENOMEM, [FAULT_MAP] = ENOMEM,     [FAULT_THREAD] = EAGAIN,
    [FAULT_OPEN] = EMFILE,   [FAULT_READ] = EIO,       [FAULT_WRITE] = ENOSPC,
    [FAULT_SYNC] = EIO,      [FAULT_RESERVE] = ENOSPC, [FAULT_RENAME] = EIO,
};

static struct fault_report *report; /* NULL: nothing counts */
static size_t fail_at;
static int fail_onwards;
static size_t n_calls;
static pthread_t armed_by;     /* what other threads allocate is libc's and the sanitizer's own */
static _Thread_local int busy; /* in here: unwinding may allocate */

void faults_arm(struct fault_report *to, size_t k, int onwards)
{
    void *frames[1];
    backtrace(frames, 1); /* the first one loads a library */
    to->n = 0;
    to->hit = 0;
    to->renamed = 0;
    fail_at = k;
    fail_onwards = onwards;
    armed_by = pthread_self();
    n_calls = 0;
    report = to;
}

void faults_disarm(void)
{
    if (report)
        report->n = n_calls;
    report = NULL;
}

static uint32_t hash_of_path(void *const *frames, int n)
{
    uint64_t h = 0;
    for (int i = 0; i < n; i++)
        h = (h ^ (uint64_t)(uintptr_t)frames[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32);
}

static void write_down(size_t k)
{
    void *frames[32];
    if (k <= FAULT_PATHS)
        report->paths[k - 1] = hash_of_path(frames, backtrace(frames, 32));
}

static int same_sort(enum fault a, enum fault b)
{
    return (a <= FAULT_THREAD) == (b <= FAULT_THREAD);
}

/* Counts a call; 1 when it is to fail. */
static int fails(enum fault kind)
{
    if (!report || busy || !pthread_equal(pthread_self(), armed_by))
        return 0;
    busy = 1;
    size_t k = ++n_calls;
    int now = k == fail_at;
    if (now) {
        report->hit = 1;
        report->kind = kind;
        report->n_frames = backtrace(report->frames, FAULT_FRAMES);
    } else if (fail_at == 0) {
        write_down(k);
    } else if (fail_onwards && report->hit) {
        now = same_sort(kind, report->kind);
    }
    report->renamed += kind == FAULT_RENAME && !report->hit;
    busy = 0;
    if (now)
        errno = codes[kind];
    return now;
}

/* The next definition of the function. */
static void find(void *function, size_t size, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    memcpy(function, &found, size);
}

#define WRAP(type, name, parameters, arguments, kind, failure)                                     \
    type name parameters;                                                                          \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*next) parameters;                                                             \
        if (!next)                                                                                 \
            find(&next, sizeof next, #name);                                                       \
        return fails(kind) ? (failure) : next arguments;                                           \
    }

WRAP(void *, malloc, (size_t n), (n), FAULT_MEMORY, NULL)
WRAP(void *, calloc, (size_t n, size_t each), (n, each), FAULT_MEMORY, NULL)
WRAP(void *, realloc, (void *p, size_t n), (p, n), FAULT_MEMORY, NULL)
WRAP(void *, aligned_alloc, (size_t alignment, size_t n), (alignment, n), FAULT_MEMORY, NULL)
WRAP(int, posix_memalign, (void **to, size_t alignment, size_t n), (to, alignment, n), FAULT_MEMORY,
     ENOMEM)

/* A sanitizer's versions of these do not come by our malloc. */
char *strndup(const char *text, size_t n)
{
    size_t length = strnlen(text, n);
    char *copy = malloc(length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = 0;
    }
    return copy;
}

char *strdup(const char *text)
{
    return strndup(text, strlen(text));
}

typedef void *thread_fn(void *);
WRAP(int, pthread_create,
     (pthread_t *restrict thread, const pthread_attr_t *restrict attr, thread_fn *fn,
      void *restrict arg),
     (thread, attr, fn, arg), FAULT_THREAD, EAGAIN)

WRAP(void *, mmap, (void *at, size_t n, int prot, int flags, int fd, int64_t offset),
     (at, n, prot, flags, fd, offset), FAULT_MAP, (void *)-1)
WRAP(void *, mmap64, (void *at, size_t n, int prot, int flags, int fd, int64_t offset),
     (at, n, prot, flags, fd, offset), FAULT_MAP, (void *)-1)

#define WRAP_OPEN(name)                                                                            \
    int name(const char *path, int flags, ...);                                                    \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        static int (*next)(const char *, int, ...);                                                \
        va_list ap;                                                                                \
        va_start(ap, flags);                                                                       \
        mode_t mode = va_arg(ap, mode_t); /* garbage where none was given, and not used then */    \
        va_end(ap);                                                                                \
        if (!next)                                                                                 \
            find(&next, sizeof next, #name);                                                       \
        return fails(FAULT_OPEN) ? -1 : next(path, flags, mode);                                   \
    }

WRAP_OPEN(open)
WRAP_OPEN(open64)
WRAP(int, __open_2, (const char *path, int flags), (path, flags), FAULT_OPEN, -1)
WRAP(int, __open64_2, (const char *path, int flags), (path, flags), FAULT_OPEN, -1)
WRAP(FILE *, fopen, (const char *restrict path, const char *restrict mode), (path, mode),
     FAULT_OPEN, NULL)
WRAP(FILE *, fopen64, (const char *restrict path, const char *restrict mode), (path, mode),
     FAULT_OPEN, NULL)
WRAP(DIR *, opendir, (const char *path), (path), FAULT_OPEN, NULL)

WRAP(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n), FAULT_READ, -1)
WRAP(ssize_t, __read_chk, (int fd, void *to, size_t n, size_t room), (fd, to, n, room), FAULT_READ,
     -1)
WRAP(ssize_t, pread, (int fd, void *to, size_t n, int64_t at), (fd, to, n, at), FAULT_READ, -1)
WRAP(ssize_t, pread64, (int fd, void *to, size_t n, int64_t at), (fd, to, n, at), FAULT_READ, -1)
WRAP(ssize_t, __pread64_chk, (int fd, void *to, size_t n, int64_t at, size_t room),
     (fd, to, n, at, room), FAULT_READ, -1)

WRAP(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n), FAULT_WRITE, -1)
WRAP(ssize_t, pwrite, (int fd, const void *from, size_t n, int64_t at), (fd, from, n, at),
     FAULT_WRITE, -1)
WRAP(ssize_t, pwrite64, (int fd, const void *from, size_t n, int64_t at), (fd, from, n, at),
     FAULT_WRITE, -1)
WRAP(int, fsync, (int fd), (fd), FAULT_SYNC, -1)
WRAP(int, ftruncate, (int fd, int64_t n), (fd, n), FAULT_RESERVE, -1)
WRAP(int, ftruncate64, (int fd, int64_t n), (fd, n), FAULT_RESERVE, -1)
WRAP(int, posix_fallocate, (int fd, int64_t at, int64_t n), (fd, at, n), FAULT_RESERVE, ENOSPC)
WRAP(int, posix_fallocate64, (int fd, int64_t at, int64_t n), (fd, at, n), FAULT_RESERVE, ENOSPC)
WRAP(int, rename, (const char *from, const char *to), (from, to), FAULT_RENAME, -1)
WRAP(int, linkat, (int d, const char *from, int e, const char *to, int flags),
     (d, from, e, to, flags), FAULT_RENAME, -1)
