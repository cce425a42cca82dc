/* Memory: aligned blocks and checked growth of stb_ds arrays.
 *
 * stb_ds dereferences the result of a failed growth, so no array here grows inside its macros:
 * arr_reserve makes the room and can fail, arr_put only fills it. The library does not use stb_ds's
 * hash maps: creating one writes a process-global seed.
 */
#ifndef MGPT_MEM_H
#define MGPT_MEM_H

#include <stddef.h>
#include <stdint.h>

#define STBDS_NO_SHORT_NAMES
#include <stb_ds.h>

/* The array may be NULL, which means empty. */
static inline size_t arr_len(const void *a)
{
    return a ? stbds_header(a)->length : 0;
}

static inline size_t arr_cap(const void *a)
{
    return a ? stbds_header(a)->capacity : 0;
}

#define arr_put(a, v) ((a)[stbds_header(a)->length++] = (v)) /* room must have been reserved */
#define arr_set_len(a, n) (stbds_header(a)->length = (n))
#define arr_free(a) stbds_arrfree(a)

/* Makes room for n elements in all, growing to at least twice the present capacity. Returns 0 when
 * out of memory; the array is then unchanged. `a` may be NULL (an empty array). */
#define arr_reserve(a, n) arr_reserve_bytes((void **)(void *)&(a), sizeof *(a), (n))
int arr_reserve_bytes(void **array, size_t element, size_t n);

/* Reserves room for one more and appends; 0 when out of memory. */
#define arr_push(a, v) (arr_reserve(a, arr_len(a) + 1) && (arr_put(a, v), 1))

/* Appends n bytes to an array of char, which is then not NULL; 0 when out of memory. */
int arr_append(char **to, const char *p, size_t n);

/* n * each bytes, aligned to 64 and zeroed; NULL when out of memory or n * each overflows. Free
 * with free(). A size of zero gives a valid block. */
void *mem_new(size_t n, size_t each);

/* Allocates as mem_new, but without zeroing: for weights, which are written whole and read for every
 * token. A large block asks the system for huge pages. */
void *mem_large(size_t n, size_t each);

#define MEM_HUGE_PAGE ((size_t)2 << 20)

/* Asks the system for huge pages inside [p, p + n): fewer page faults and fewer TLB misses. */
void mem_hint_huge(const void *p, size_t n);

/* Gives the whole pages inside [p, p + n) back to the system; what is there is undefined afterwards. */
void mem_drop(void *p, size_t n);

#endif
