/* Windows: paths and errors of its own calls. */
#ifndef MGPT_WIDE_H
#define MGPT_WIDE_H

#include <wchar.h>

/* A UTF-8 path as Windows takes it; /dev/null is NUL. NULL with errno on failure; the caller frees it. */
wchar_t *wide_path(const char *path);

/* Sets errno to what POSIX calls GetLastError(), and returns -1. */
int wide_fail(void);

#endif
