/* Floor 0. Filling a mgpt_error.
 *
 * The formatter is our own: the library must not depend on locale or stdio. It knows the subset that
 * error lines need and truncates what does not fit into mgpt_error.text.
 */
#ifndef MGPT_ERROR_H
#define MGPT_ERROR_H

#include "mgpt.h"

#include <stdarg.h>

/* Sets *err (which may be NULL) and returns status. Formats: %s %.60s %d %u %zu %lld %llu %x %c %g %%,
 * and %.*s, which unlike printf's takes exactly so many bytes, NULs included.
 * Bytes of strings that would break the line or the terminal (utf8_dangerous) are printed as '?'. */
__attribute__((format(printf, 4, 5))) int err_set(mgpt_error *err, int status, uint64_t offset,
                                                  const char *fmt, ...);

/* Puts the formatted text into buf (always NUL-terminated, truncated to cap); returns its length. */
__attribute__((format(printf, 3, 4))) size_t text_format(char *buf, size_t cap, const char *fmt,
                                                         ...);

/* Out of memory: the one message for it. `what` names what was being allocated. */
int err_memory(mgpt_error *err, const char *what, size_t n_bytes);

/* A system call failed: MGPT_EIO with errno's text. `what` is the verb: "open". */
int err_system(mgpt_error *err, const char *what, uint64_t offset);

#endif
