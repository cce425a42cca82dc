/* What outfile.c asks of the operating system: outfile_posix.c and outfile_windows.c. */
#ifndef MGPT_OUTFILE_SYSTEM_H
#define MGPT_OUTFILE_SYSTEM_H

#include "base/outfile.h"

/* Opens the target, or the temporary file that is to replace it: sets path, temporary, fd, regular and
 * fresh. On failure the caller frees the strings. */
int outfile_open_target(struct outfile *out, const char *path, mgpt_error *err);

/* Writes up to n bytes, of a regular file at offset `at`. Returns their number, or -1 with errno. */
int64_t outfile_send(struct outfile *out, const void *p, size_t n, uint64_t at);

/* Makes the file `size` bytes long, with blocks on the disk. Returns 0 or an error number. */
int outfile_reserve_blocks(struct outfile *out, uint64_t size);

/* Syncs, closes and names a complete file. Errors go to out->failed; if there is one already, nothing is done. */
void outfile_finish(struct outfile *out);

/* Closes and removes what outfile_finish has not named. */
void outfile_remove(struct outfile *out);

#endif
