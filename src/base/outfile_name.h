/* Names of temporary files: .NAME.XXXXXX.tmp next to NAME, the same on all systems. */
#ifndef MGPT_OUTFILE_NAME_H
#define MGPT_OUTFILE_NAME_H

#include <stddef.h>
#include <stdint.h>

/* Six letters that differ between writers and times; opening must fail if the file is there. */
enum { OUTFILE_ATTEMPTS = 100 };

/* DIR/.NAME.??????.tmp; NAME begins at path[start]. The caller frees it; NULL: out of memory. */
char *outfile_temporary(const char *path, size_t start);

/* Puts letters in place of the last: `unique` differs between processes and times. */
void outfile_put_letters(char *temporary, uint64_t unique, unsigned attempt);

/* 1: the entry of a directory has such a name for the target NAME. */
int outfile_is_temporary(const char *entry, const char *name);

#endif
