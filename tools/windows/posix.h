/* The calls of POSIX that the tools use and MinGW-w64 lacks, or has for the code page instead of UTF-8, without the
 * number of a file, or for a disk's root only (tmpfile). A Windows build includes it before every source of the tools,
 * so that they name no system. Each does what the tools need of it, no more.
 */
#ifndef MGPT_POSIX_H
#define MGPT_POSIX_H

#include "base/windows.h"

#include <fcntl.h>
#include <io.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* ---- files: paths are UTF-8, what is opened is binary ---- */
struct sys_stat {
    dev_t st_dev;
    uint64_t st_ino;
    unsigned st_mode;
    off_t st_size;
};
int sys_stat(const char *path, struct sys_stat *st);
int sys_fstat(int fd, struct sys_stat *st);
int sys_open_path(const char *path, int flags, ...);
ssize_t sys_read(int fd, void *to, size_t n);
ssize_t sys_write(int fd, const void *from, size_t n);
int sys_access(const char *path, int mode);
FILE *sys_tmpfile(void);

/* F_GETFD only: is the descriptor open? */
int sys_fcntl(int fd, int what);
enum { F_GETFD = 1 };

/* Console windows only, not NUL. */
int sys_isatty(int fd);

/* As open_memstream; the text is there after fclose. */
FILE *sys_open_memstream(char **text, size_t *n);
int sys_fclose(FILE *file);
ssize_t sys_getline(char **line, size_t *cap, FILE *file);

#undef stat
#undef fstat
#define stat sys_stat
#define fstat sys_fstat
#define ino_t uint64_t
#define open sys_open_path
#define read sys_read
#define write sys_write
#define access sys_access
#define tmpfile sys_tmpfile
#define fcntl sys_fcntl
#define isatty sys_isatty
#define open_memstream sys_open_memstream
#define fclose sys_fclose
#define getline sys_getline
#ifndef O_CLOEXEC
#define O_CLOEXEC _O_NOINHERIT
#endif

/* ---- poll: one descriptor ---- */
struct pollfd {
    int fd;
    short events, revents;
};
enum { POLLIN = 1, POLLOUT = 4, POLLERR = 8 };
int sys_poll(struct pollfd *p, unsigned n, int wait_ms);
#define poll sys_poll

/* ---- fnmatch: * and ? only ---- */
enum { FNM_NOESCAPE = 1 };
int sys_fnmatch(const char *pattern, const char *text, int flags);
#define fnmatch sys_fnmatch

/* ---- the machine ---- */
struct winsize {
    unsigned short ws_row, ws_col;
};
enum { TIOCGWINSZ = 1, _SC_NPROCESSORS_ONLN = 1, _SC_PAGESIZE, RUSAGE_SELF = 0 };
int ioctl(int fd, int what, struct winsize *size);
long sysconf(int what);
int getentropy(void *to, size_t n);
struct rusage {
    uint64_t ru_maxrss; /* KiB */
};
int getrusage(int who, struct rusage *usage);
struct utsname {
    char sysname[16], machine[16];
};
int uname(struct utsname *system);

#endif
