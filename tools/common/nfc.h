/* Unicode's normal form C, for models that were trained on such texts. */
#ifndef MGPT_TOOLS_NFC_H
#define MGPT_TOOLS_NFC_H

#include <stddef.h>

/* A malloc'ed copy of n bytes in normal form C and its length; NULL when out of memory. Bytes
 * that are not UTF-8 stay as they are and separate the texts around them. */
char *nfc_copy(const char *text, size_t n, size_t *n_copy);

#endif
