/* malloc of a test that is linked with -Wl,--wrap=malloc: counts bytes and can fail. */
#ifndef TESTS_WRAP_MALLOC_H
#define TESTS_WRAP_MALLOC_H

#include <errno.h>
#include <stddef.h>

static int fail_after = -1; /* allocations that still succeed before one fails; -1: all do */
static size_t allocated;    /* bytes, all together */

void *__real_malloc(size_t n), *__wrap_malloc(size_t n);

void *__wrap_malloc(size_t n)
{
    allocated += n;
    if (fail_after < 0 || fail_after-- > 0)
        return __real_malloc(n);
    errno = ENOMEM;
    return NULL;
}

#endif
