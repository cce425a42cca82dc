/* Floor 0. A whole file as read-only bytes. */
#ifndef MGPT_FILE_H
#define MGPT_FILE_H

#include "mgpt.h"

#define FILE_MAP_ABOVE ((uint64_t)256 << 20) /* larger files are mapped, smaller ones are read */

struct file {
    const uint8_t *data;
    size_t size;
    int mapped; /* 1: munmap, 0: free */
};

/* Opens a regular file. A mapped file that is truncated later raises SIGBUS on access: there is no
 * portable way to prevent that, hence the rule in mgpt.h. */
int file_open(struct file *file, const char *path, mgpt_error *err);

/* Releases it; a zeroed struct is allowed. */
void file_close(struct file *file);

#endif
