/* Filling an mgpt_error.
 *
 * The formatter does not use stdio, because the library must not depend on the locale. It supports
 * the subset that messages need and truncates what does not fit into mgpt_error.text.
 */
#ifndef MGPT_ERROR_H
#define MGPT_ERROR_H

#include "mgpt.h"

#include <stdarg.h>

/* Sets *err (which may be NULL) and returns status. Formats: %s %.60s %d %u %zu %lld %llu %x %c
 * %g %%, and %.*s, which unlike printf's takes exactly the given number of bytes, NULs included.
 * Bytes of strings that are unsafe on a terminal (utf8_dangerous, utf8_hidden) are printed as '?'. */
__attribute__((format(printf, 4, 5))) int err_set(mgpt_error *err, int status, uint64_t offset,
                                                  const char *fmt, ...);

/* Puts the formatted text into buf (always NUL-terminated, truncated to cap); returns its
 * length. */
__attribute__((format(printf, 3, 4))) size_t text_format(char *buf, size_t cap, const char *fmt,
                                                         ...);
size_t text_format_v(char *buf, size_t cap, const char *fmt, va_list *ap);

/* Sets the out-of-memory message. `what` names what was being allocated. Returns MGPT_EMEM. */
int err_memory(mgpt_error *err, const char *what, size_t n_bytes);

/* Sets "cannot WHAT: reason" from errno, for a failed system call; `what` is a verb such as
 * "open". Returns MGPT_EIO, or MGPT_EMEM for ENOMEM. */
int err_system(mgpt_error *err, const char *what, uint64_t offset);

#endif
