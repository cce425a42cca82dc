/* Memory. See mem.h. */
#include "base/mem.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

/* Under AddressSanitizer nobody may read or write the padding of a block. */
#ifdef __SANITIZE_ADDRESS__
void __asan_poison_memory_region(const volatile void *p, size_t n);
#define forbid(p, n) __asan_poison_memory_region(p, n)
#else
#define forbid(p, n) (void)0
#endif

/* stb_ds stores {length, capacity, ...} in a header before the first element. A block made here
 * has the same layout, so stb_ds's own macros (arrdel, arrfree) work on it. */
int arr_reserve_bytes(void **array, size_t element, size_t n)
{
    void *old = *array;
    size_t cap = arr_cap(old);
    if (n <= cap)
        return 1;
    size_t want = cap > SIZE_MAX / 2 ? n : cap * 2;
    if (want < n)
        want = n;
    if (want < 4)
        want = 4;
    size_t bytes;
    if (!ck_bytes(want, element, &bytes) || bytes > SIZE_MAX - sizeof(stbds_array_header))
        return 0;
    stbds_array_header *h = old ? realloc(stbds_header(old), sizeof *h + bytes) /* no second copy */
                                : malloc(sizeof *h + bytes);
    if (!h)
        return 0;
    if (!old)
        memset(h, 0, sizeof *h);
    h->capacity = want;
    *array = h + 1;
    return 1;
}

int arr_append(char **to, const char *p, size_t n)
{
    size_t at = arr_len(*to);
    if (!arr_reserve(*to, at + n + 1))
        return 0;
    if (n) {
        memcpy(*to + at, p, n);
        arr_set_len(*to, at + n);
    }
    return 1;
}

void *mem_new(size_t n, size_t each)
{
    size_t bytes;
    uint64_t padded;
    if (!ck_bytes(n, each, &bytes) || !ck_align(bytes ? bytes : 1, 64, &padded))
        return NULL;
    void *p = aligned_alloc(64, (size_t)padded);
    if (p) {
        memset(p, 0, (size_t)padded);
        forbid((char *)p + bytes, padded - bytes);
    }
    return p;
}

void *mem_large(size_t n, size_t each)
{
    size_t bytes;
    uint64_t padded;
    if (!ck_bytes(n, each, &bytes))
        return NULL;
    size_t alignment = bytes < 2 * MEM_HUGE_PAGE ? 64 : MEM_HUGE_PAGE;
    if (!ck_align(bytes ? bytes : 1, alignment, &padded))
        return NULL;
    void *p = aligned_alloc(alignment, (size_t)padded);
    if (p) {
        mem_hint_huge(p, (size_t)padded);
        forbid((char *)p + bytes, padded - bytes);
    }
    return p;
}
