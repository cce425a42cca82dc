/* madvise calls. See mem.h. */
#define _DEFAULT_SOURCE /* madvise */
#include "base/mem.h"

#include <sys/mman.h>

/* Advises the system about the pages of `size` bytes inside [p, p + n). Failure is ignored. */
static inline void advise(const void *p, size_t n, size_t size, int advice)
{
    const uintptr_t rest = size - 1;
    uintptr_t from = ((uintptr_t)p + rest) & ~rest, to = ((uintptr_t)p + n) & ~rest;
    if (from < to)
        madvise((void *)from, to - from, advice);
}

void mem_hint_huge(const void *p, size_t n)
{
#ifdef MADV_HUGEPAGE
    advise(p, n, MEM_HUGE_PAGE, MADV_HUGEPAGE);
#else
    (void)p, (void)n;
#endif
}

/* The largest page size in use: whole pages of any system. */
enum { ANY_PAGE = 65536 };

void mem_drop(void *p, size_t n)
{
    advise(p, n, ANY_PAGE, MADV_DONTNEED);
}
