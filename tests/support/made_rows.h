/* Rows that a test makes, compared with those of a file: what many inputs come to, as hashes. MGPT_WRITE=1 writes the
 * file again; read its diff then. */
#ifndef TESTS_MADE_ROWS_H
#define TESTS_MADE_ROWS_H

#include <stdio.h>

/* Rows are printed to what it returns: a name, then words. */
FILE *made_begin(void);

/* Fails unless the file of the source tree, but for comments, has these rows, in any order. */
void made_end(FILE *made, const char *path);

#endif
