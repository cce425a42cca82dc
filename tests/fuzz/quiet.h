/* Fuzz targets: what functions print while they are fuzzed is checked and dropped:
 * text of a file or a user reaches a terminal through the escaper, so no byte moves a cursor.
 *
 * stdout and stderr are other streams between quiet_begin and quiet_end (glibc and musl have
 * fopencookie); descriptors 1 and 2 stay, for sanitizers and MUST.
 */
#ifndef TESTS_QUIET_H
#define TESTS_QUIET_H

#include <stddef.h>

/* What stdout gets goes to `out` unchecked; NULL: it is held to the same. */
typedef void quiet_out_fn(const char *text, size_t n);
void quiet_begin(quiet_out_fn *out);
void quiet_end(void);

/* Bytes written to stderr since quiet_begin. */
size_t quiet_told(void);

#endif
