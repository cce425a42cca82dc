/* What utf8proc knows about Unicode. A build without it (-Dconvert=disabled) has no_unicode.c in place of
 * unicode.c. */
#ifndef MGPT_TOOLS_UNICODE_H
#define MGPT_TOOLS_UNICODE_H

#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

/* Makes a malloc'ed copy of n bytes in Unicode's normal form C, for models that were trained on such
 * texts. Bytes that are not UTF-8 stay as they are and separate the texts around them. Returns a status. */
int nfc_copy(const char *text, size_t n, char **copy, size_t *n_copy, mgpt_error *err);

/* Columns that a character takes on a terminal: 0, 1 or 2. */
size_t unicode_columns(uint32_t code);

#endif
