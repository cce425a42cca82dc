/* malloc and realloc of a test that is linked with --wrap of both: counts bytes and can fail. */
#ifndef TESTS_WRAP_MALLOC_H
#define TESTS_WRAP_MALLOC_H

#include <errno.h>
#include <stddef.h>

static int fail_after = -1; /* allocations that still succeed before one fails; -1: all do */
static size_t allocated;    /* bytes, all together */

void *__real_malloc(size_t n), *__wrap_malloc(size_t n);
void *__real_realloc(void *p, size_t n), *__wrap_realloc(void *p, size_t n);

static inline int is_to_fail(size_t n)
{
    allocated += n;
    if (fail_after < 0 || fail_after-- > 0)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *__wrap_malloc(size_t n)
{
    return is_to_fail(n) ? NULL : __real_malloc(n);
}

void *__wrap_realloc(void *p, size_t n)
{
    return is_to_fail(n) ? NULL : __real_realloc(p, n);
}

#endif
