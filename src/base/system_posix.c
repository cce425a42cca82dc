/* POSIX systems. See system.h. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "base/system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int sys_open(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

void sys_close(int fd)
{
    close(fd);
}

static int tell_kind(const struct stat *st, enum sys_kind *kind, uint64_t *size)
{
    *kind = S_ISDIR(st->st_mode) ? SYS_FOLDER : SYS_OTHER;
    *kind = S_ISREG(st->st_mode) ? SYS_FILE : *kind;
    *size = *kind == SYS_FILE ? (uint64_t)st->st_size : 0;
    return 0;
}

int sys_look(int fd, enum sys_kind *kind, uint64_t *size)
{
    struct stat st;
    return fstat(fd, &st) < 0 ? -1 : tell_kind(&st, kind, size);
}

int sys_look_at(const char *path, enum sys_kind *kind, uint64_t *size)
{
    struct stat st;
    return stat(path, &st) < 0 ? -1 : tell_kind(&st, kind, size);
}

int64_t sys_read_at(int fd, void *to, size_t n, uint64_t offset)
{
    return pread(fd, to, n, (off_t)offset);
}

void *sys_pages(size_t n, int writable)
{
    int rights = PROT_READ | (writable ? PROT_WRITE : 0);
    void *p = mmap(NULL, n, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *sys_map(int fd, size_t n)
{
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

void sys_unmap(void *pages, size_t n, int is_file)
{
    (void)is_file;
    munmap(pages, n);
}

int sys_map_part(void *at, int fd, size_t n)
{
    return mmap(at, n, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED ? -1 : 0;
}

void sys_want_huge(void *pages, size_t n)
{
#ifdef MADV_HUGEPAGE
    madvise(pages, n, MADV_HUGEPAGE);
#else
    (void)pages, (void)n;
#endif
}

void sys_drop(void *pages, size_t n)
{
    madvise(pages, n, MADV_DONTNEED);
}
