/* Temporary files that killed processes have left (outfile_name.h). A writer locks its
 * own, so one without a lock is left from a process that ended. Where a file system has no locks,
 * nothing is removed.
 */
#ifndef MGPT_OUTFILE_LEFT_H
#define MGPT_OUTFILE_LEFT_H

/* Locks a temporary file that was just opened. Returns 0 if another process has the lock or has
 * removed the file; 1 also where there are no locks. */
int outfile_lock(int fd);

/* Removes the left temporary files of this target. Errors are ignored. */
void outfile_remove_left(const char *path);

#endif
