/* Floor 0. Writing a file so that it is there whole or not at all.
 *
 * Bytes go to a temporary file beside the target, without a name where the system can do that;
 * outfile_commit flushes it to disk and renames it over the target. Until then the target is untouched, and
 * outfile_discard (or a failed commit) removes the temporary file.
 *
 * A file is written either in order or, once its size has been reserved, in any order; not both.
 */
#ifndef MGPT_OUTFILE_H
#define MGPT_OUTFILE_H

#include "mgpt.h"

struct outfile {
    char *path, *temporary; /* temporary: NULL while the file has no name */
    int fd;
    int regular;  /* 1: the target is replaced, 0: written to as it is */
    int fresh;    /* 1: nothing had the target's name at the beginning */
    uint8_t *buf; /* what has not reached the kernel yet */
    size_t n_buf;
    uint64_t offset;   /* bytes written so far */
    mgpt_error failed; /* sticky: the first failure; status 0 while all is well */
};

int outfile_open(struct outfile *out, const char *path, mgpt_error *err);

/* Appends n bytes. Errors are sticky and reported by outfile_commit, so a writer need not check each. */
void outfile_write(struct outfile *out, const void *data, size_t n);

/* Makes the file `size` bytes long, zeros, with all its room on the disk, so that a disk that is too small
 * says so now. MGPT_EIO for that, and where the target is no regular file: a pipe has no places. */
int outfile_reserve(struct outfile *out, uint64_t size, mgpt_error *err);

/* n bytes to a place inside what was reserved. Errors are sticky as those of outfile_write. */
void outfile_put(struct outfile *out, uint64_t at, const void *data, size_t n);

/* Flushes, syncs, renames. On failure the target is as before. Either way the struct is released. */
int outfile_commit(struct outfile *out, mgpt_error *err);

/* Throws away what was written; allowed on a zeroed or released struct. */
void outfile_discard(struct outfile *out);

#endif
