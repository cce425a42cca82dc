/* madvise calls. See mem.h. */
#define _DEFAULT_SOURCE /* madvise */
#include "base/mem.h"

#include <sys/mman.h>

/* It is a hint, so failure is ignored. */
void mem_hint_huge(const void *p, size_t n)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t rest = MEM_HUGE_PAGE - 1;
    uintptr_t from = ((uintptr_t)p + rest) & ~rest, to = ((uintptr_t)p + n) & ~rest;
    if (from < to)
        madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
    (void)p, (void)n;
#endif
}
