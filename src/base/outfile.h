/* Output files that appear complete or not at all.
 *
 * Bytes go to a temporary file in the target's directory, unnamed where the system supports that.
 * outfile_commit flushes it to disk and renames it over the target. Until then the target is
 * untouched; outfile_discard (or a failed commit) removes the temporary file.
 *
 * A file is written either in order or, once its size has been reserved, in any order; not both.
 */
#ifndef MGPT_OUTFILE_H
#define MGPT_OUTFILE_H

#include "mgpt.h"

struct outfile {
    char *path, *temporary; /* temporary: NULL while the file has no name */
    int fd;
    int regular;  /* 1: the target is replaced, 0: it is written in place */
    int fresh;    /* 1: the target did not exist at outfile_open */
    uint8_t *buf; /* bytes not yet written to the kernel */
    size_t n_buf;
    uint64_t offset;   /* bytes written so far */
    mgpt_error failed; /* sticky: the first failure; status 0 if there is none */
};

int outfile_open(struct outfile *out, const char *path, mgpt_error *err);

/* Appends n bytes. Errors are sticky and reported by outfile_commit, so a writer need not check
 * each. */
void outfile_write(struct outfile *out, const void *data, size_t n);

/* Makes the file `size` bytes long, zeros, and allocates its blocks, so that a full disk fails now.
 * MGPT_EIO for a full disk and for a target that is not a regular file (a pipe has no offsets). */
int outfile_reserve(struct outfile *out, uint64_t size, mgpt_error *err);

/* Writes n bytes at offset `at`, inside the reserved size. Errors are sticky as in
 * outfile_write. */
void outfile_put(struct outfile *out, uint64_t at, const void *data, size_t n);

/* Flushes, syncs, renames. On failure the target is as before. Either way the struct is
 * released. */
int outfile_commit(struct outfile *out, mgpt_error *err);

/* Discards what was written; allowed on a zeroed or released struct. */
void outfile_discard(struct outfile *out);

#endif
