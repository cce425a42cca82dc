/* A whole file as read-only bytes.
 *
 * Files above FILE_MAP_ABOVE are mapped. Smaller ones are read, so truncating them later does no
 * harm. A file can be opened partly: `data` has the full size from the start, a part must be loaded
 * before it is used, and parts that are never loaded take no memory. What is used once is best read
 * by file_read: a page of a mapping costs more than copying it. Or a file is opened without loading
 * anything, for file_read alone.
 *
 * Several files can be opened as the parts of one: each begins at a multiple of FILE_PART_ALIGN, and
 * between parts are zeros. Offsets are those of the whole.
 */
#ifndef MGPT_FILE_H
#define MGPT_FILE_H

#include "mgpt.h"

#define FILE_MAP_ABOVE ((uint64_t)256 << 20)
#define FILE_PART_ALIGN ((uint64_t)65536) /* the largest page size in use: parts are mapped */

struct file_part {
    uint64_t offset; /* in the whole */
    size_t size;
    int fd; /* open if the whole is opened partly */
};

struct file {
    const uint8_t *data;
    size_t size;
    int mapped; /* 1: data is a mapping of the file */
    int partly; /* 1: fd is open; without a mapping, bytes that were not loaded are zeros */
    int fd;
    struct file_part *parts; /* [n_parts]; NULL: one file, which has `fd` */
    size_t n_parts;
};

/* Opens a regular file. Reading a mapped file that was truncated later raises SIGBUS. There is
 * no portable way to prevent that, hence the rule in mgpt.h. */
int file_open(struct file *file, const char *path, mgpt_error *err);

/* Opens a regular file and loads only its first `n` bytes, or maps it. A file of up to about 2n bytes is
 * loaded whole. */
int file_open_partly(struct file *file, const char *path, size_t n, mgpt_error *err);

/* Opens a regular file without loading or mapping it: `data` is NULL, and file_read reads the bytes. */
int file_open_unread(struct file *file, const char *path, mgpt_error *err);

/* Gives the path of part i; returns 0 if there is no memory for it. The caller frees it. */
typedef char *file_part_path(void *user, size_t i);

/* Opens n_parts files as one, of each part like file_open_partly. Errors name the part. */
int file_open_parts(struct file *file, file_part_path *path, void *user, size_t n_parts, size_t n,
                    mgpt_error *err);

/* Releases the file; a zeroed struct is allowed. */
void file_close(struct file *file);

/* Loads n bytes at `offset`, all inside the file. Does nothing for a file that is loaded or mapped
 * whole, nor for a zeroed struct. MGPT_EIO: the file has become shorter, or cannot be read. */
int file_load(const struct file *file, uint64_t offset, size_t n, mgpt_error *err);

/* Reads n bytes at `offset` into `to`. Only for a file opened partly or unread; may run in several
 * threads. */
int file_read(const struct file *file, uint64_t offset, size_t n, void *to, mgpt_error *err);

#endif
