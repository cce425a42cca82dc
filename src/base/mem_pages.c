/* Advice about pages. See mem.h. */
#include "base/mem.h"
#include "base/system.h"

/* Calls advise(the whole pages of `size` bytes inside [p, p + n)). Failure is ignored. */
static inline void advise_pages(const void *p, size_t n, size_t size,
                                void (*advise)(void *, size_t))
{
    const uintptr_t rest = size - 1;
    uintptr_t from = ((uintptr_t)p + rest) & ~rest, to = ((uintptr_t)p + n) & ~rest;
    if (from < to)
        advise((void *)from, to - from);
}

void mem_hint_huge(const void *p, size_t n)
{
    advise_pages(p, n, MEM_HUGE_PAGE, sys_want_huge);
}

/* The largest page size in use: whole pages of any system. */
enum { ANY_PAGE = 65536 };

void mem_drop(void *p, size_t n)
{
    advise_pages(p, n, ANY_PAGE, sys_drop);
}
