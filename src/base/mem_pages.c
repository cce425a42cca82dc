/* madvise calls. See mem.h. */
#define _DEFAULT_SOURCE /* madvise */
#include "base/mem.h"

#include <sys/mman.h>

/* madvise for the multiples of `unit` inside [p, p + n). It is a hint, so failure is ignored. */
static void advise(const void *p, size_t n, size_t unit, int advice)
{
    uintptr_t from = ((uintptr_t)p + unit - 1) & ~(unit - 1), to = ((uintptr_t)p + n) & ~(unit - 1);
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
