/* What a text on a command line means to a model: escapes, or ids. */
#ifndef MGPT_UNESCAPE_H
#define MGPT_UNESCAPE_H

#include "mgpt.h"

/* Undoes the escapes of text_print_quoted in place. Returns the new length, or -1 if a backslash
 * does not begin an escape. */
int64_t text_unescape(char *bytes, size_t n_bytes);

/* 1 for a model without a vocabulary: its text is ids. */
int text_is_none(const mgpt_model *model);

#endif
