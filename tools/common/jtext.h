/* JSON to be printed: a value is built as its text, compact, with the bytes that jansson's JSON_COMPACT
 * has, but characters that a terminal hides or obeys are escaped. jval.h reads; json_out.h writes records of any
 * length without memory.
 *
 *     struct jtext *line = jtext("{s:s, s:[i, i]}", "name", name, "shape", rows, columns);
 *     jtext_add(line, "s:f", "nmse", nmse);
 *     return text_json_line(line);
 *
 * A format has brackets, and a letter for each argument; `,` and space separate and mean nothing.
 *
 *     s:    const char *, a key; its value follows
 *     s     const char *; NULL gives null. Ill-formed bytes of UTF-8 become U+FFFD
 *     s%    const char *, size_t: a string of that many bytes
 *     i I   int, int64_t
 *     b     int: true or false
 *     f     double, with 17 digits; null if it is not finite
 *     g     double, with 9 digits, which is enough for a float
 *     o     struct jtext *, which is taken over; NULL: an allocation failed
 *
 * When an allocation fails, the value knows (jtext_end, jtext_write); nothing else needs a check. */
#ifndef MGPT_JTEXT_H
#define MGPT_JTEXT_H

#include "common/files.h"
#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

struct jtext; /* a value; NULL: an allocation failed, which all functions accept */

struct jtext *jtext(const char *format, ...);

/* Appends elements to an array, or members to an object. */
void jtext_add(struct jtext *to, const char *format, ...);

struct jtext *jtext_null(void);

/* Arrays of whole numbers. */
struct jtext *jtext_ids(const int32_t *values, size_t n);
struct jtext *jtext_shape(const uint64_t *dims, size_t n);

/* An allocation of the caller's failed: the value is not whole. */
void jtext_fail(struct jtext *value);

/* The whole text, NUL-terminated, and its length; the value ends here and owns it. With `ascii` every
 * other character is escaped. NULL: an allocation failed. */
const char *jtext_end(struct jtext *value, int ascii, size_t *n);

/* Writes a value as one line to a new file, whole or not at all. Returns a status. */
int jtext_write(struct jtext *value, const char *path, enum files_kind kind, mgpt_error *err);

void jtext_free(struct jtext *value);

#endif
