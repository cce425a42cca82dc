/* Floor 0. A whole file as read-only bytes.
 *
 * Larger files are mapped, smaller ones are read, which makes them safe from whoever truncates them
 * later. A file can be opened for reading part by part: then `data` has its whole size from the start,
 * but a part must be loaded before it is looked at, and parts that nobody loads cost no memory.
 */
#ifndef MGPT_FILE_H
#define MGPT_FILE_H

#include "mgpt.h"

#define FILE_MAP_ABOVE ((uint64_t)256 << 20)

struct file {
    const uint8_t *data;
    size_t size;
    int mapped; /* 1: data is the file's own pages */
    int partly; /* 1: fd is open, what was not loaded is zeros */
    int fd;
};

/* Opens a regular file. A mapped file that is truncated later raises SIGBUS on access: there is no
 * portable way to prevent that, hence the rule in mgpt.h. */
int file_open(struct file *file, const char *path, mgpt_error *err);

/* The same, with nothing loaded but the first `n` bytes, unless the file is mapped or nearly as short. */
int file_open_partly(struct file *file, const char *path, size_t n, mgpt_error *err);

/* Releases it; a zeroed struct is allowed. */
void file_close(struct file *file);

/* Loads n bytes at `offset`, which lie inside the file. Does nothing for a file that is all there, and
 * for a zeroed struct. MGPT_EIO: the file has become shorter, or cannot be read. */
int file_load(const struct file *file, uint64_t offset, size_t n, mgpt_error *err);

/* The same, to a place of the caller's. For a file that is open partly; may run in several threads. */
int file_read(const struct file *file, uint64_t offset, size_t n, void *to, mgpt_error *err);

/* Gives the memory of a mapped file's pages inside [from, from + n) back; they are read again when they
 * are looked at. Does nothing for other files. */
void file_drop(const struct file *file, const uint8_t *from, size_t n);

#endif
