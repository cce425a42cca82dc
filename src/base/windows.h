/* What C11 and POSIX have and MinGW-w64 lacks, or has with other results. A Windows build includes it before every
 * source file (meson.build), so that no other file names Windows.
 *
 * Memory: free() cannot take what an aligned allocation of Windows returned. So every allocation of this program is
 * one of those, aligned to 64 bytes, and free, realloc and strdup are theirs.
 */
#ifndef MGPT_WINDOWS_H
#define MGPT_WINDOWS_H

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef __FMA__
#include "fmaf.h" /* MinGW's fmaf rounds twice */
#endif

enum { SYS_ALIGNMENT = 64 };

static inline void *sys_realloc_aligned(void *old, size_t n, size_t alignment)
{
    void *p = n < SIZE_MAX / 2 ? _aligned_realloc(old, n ? n : 1, alignment) : NULL;
    if (!p)
        errno = ENOMEM;
    return p;
}

static inline void *sys_malloc(size_t n)
{
    return sys_realloc_aligned(NULL, n, SYS_ALIGNMENT);
}

static inline void *sys_realloc(void *old, size_t n)
{
    return sys_realloc_aligned(old, n, SYS_ALIGNMENT);
}

static inline void *sys_aligned_alloc(size_t alignment, size_t n)
{
    /* Large alignments are for huge pages, which Windows gives to no such block. */
    (void)alignment;
    return sys_malloc(n);
}

static inline void *sys_calloc(size_t n, size_t each)
{
    void *p = sys_malloc(each && n > SIZE_MAX / each ? SIZE_MAX : n * each);
    return p ? memset(p, 0, n * each) : NULL;
}

static inline char *sys_copy(const char *text, size_t n)
{
    char *copy = sys_malloc(n + 1);
    if (copy) {
        memcpy(copy, text, n);
        copy[n] = 0;
    }
    return copy;
}

static inline char *sys_strndup(const char *text, size_t most)
{
    return sys_copy(text, strnlen(text, most));
}

static inline char *sys_strdup(const char *text)
{
    return sys_copy(text, strlen(text));
}

#undef strdup
#define malloc sys_malloc
#define calloc sys_calloc
#define realloc sys_realloc
#define free _aligned_free
#define aligned_alloc sys_aligned_alloc
#define strdup sys_strdup
#define strndup sys_strndup
#define strerror_r(code, text, n) strerror_s(text, n, code)

#endif
