/* JSON schemas as regular expressions: --json-schema.
 *
 * All texts of the expression (pattern.h) are documents that the schema allows; not all that it allows are texts of it:
 * properties are in the order of the schema, none are added, and one space may be after : and , and nowhere else. What
 * cannot be translated is refused by its name. Formats, depth and sizes: schema.c.
 */
#ifndef MGPT_SCHEMA_H
#define MGPT_SCHEMA_H

#include "mgpt.h"

#include <stddef.h>

/* *pattern: an stb_ds array, NUL-terminated, or NULL. MGPT_OK, MGPT_EFILE with the place in the schema and what is wrong
 * there, or MGPT_EMEM. */
int schema_pattern(const char *json, size_t n, char **pattern, mgpt_error *err);

#endif
