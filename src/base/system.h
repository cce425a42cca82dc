/* What reading files and allocating pages need of the operating system: system_posix.c and
 * system_windows.c. Paths are UTF-8. Functions set errno when they fail. Output files have
 * outfile_system.h, counting cores has cores.h; threads are POSIX threads everywhere.
 */
#ifndef MGPT_SYSTEM_H
#define MGPT_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

enum sys_kind { SYS_FILE, SYS_FOLDER, SYS_OTHER };

/* A descriptor for reading, which child processes do not inherit, or -1. Never waits for a writer of a
 * FIFO. */
int sys_open(const char *path);
void sys_close(int fd);

/* The kind of what is open, or of what is at `path`, and its bytes if it is a file. Returns 0 or -1. */
int sys_look(int fd, enum sys_kind *kind, uint64_t *size);
int sys_look_at(const char *path, enum sys_kind *kind, uint64_t *size);

/* Reads up to n bytes at `offset`, from any thread. Returns their number, 0 at the end of the file, or -1. */
int64_t sys_read_at(int fd, void *to, size_t n, uint64_t offset);

/* n bytes of pages: of zeros, which take no memory until they are written, or of the beginning of a file,
 * read-only. Pages that are not writable are for sys_map_part; they count for no limit on memory. NULL on
 * failure. sys_unmap frees pages; is_file says which they are. */
void *sys_pages(size_t n, int writable);
void *sys_map(int fd, size_t n);
void sys_unmap(void *pages, size_t n, int is_file);

/* Maps a file into pages of sys_pages, at a multiple of 64 KiB. Returns 0 or -1. Windows cannot: there
 * SYS_MAPS_PARTS is 0 and the parts of a split file are read. */
int sys_map_part(void *at, int fd, size_t n);
#ifdef _WIN32
enum { SYS_MAPS_PARTS = 0 };
#else
enum { SYS_MAPS_PARTS = 1 };
#endif

/* Advice about whole pages: huge pages would help; what is in these is not needed any more. */
void sys_want_huge(void *pages, size_t n);
void sys_drop(void *pages, size_t n);

#endif
