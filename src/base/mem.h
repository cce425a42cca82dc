/* Floor 0. Memory: aligned blocks and checked growth of stb_ds arrays.
 *
 * stb_ds dereferences the result of a failed growth, so no array here grows inside its macros: arr_reserve
 * makes the room and can say no, and arr_put only fills it. Hash maps of stb_ds are not used in the library:
 * making one writes a process-global seed.
 */
#ifndef MGPT_MEM_H
#define MGPT_MEM_H

#include <stddef.h>
#include <stdint.h>

#define STBDS_NO_SHORT_NAMES
#include <stb_ds.h>

/* Of an array that may be NULL, the empty one. */
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

/* Room for one more, then the append; 0 when out of memory. */
#define arr_push(a, v) (arr_reserve(a, arr_len(a) + 1) && (arr_put(a, v), 1))

/* n * each bytes, aligned to 64 and zeroed; NULL when out of memory or n * each overflows. Free with
 * free(). A size of zero gives a valid block. */
void *mem_new(size_t n, size_t each);

/* The same without zeroing: for weights, which are written whole and read in every token. A large block
 * asks the system for huge pages. */
void *mem_large(size_t n, size_t each);

#define MEM_HUGE_PAGE ((size_t)2 << 20)

/* Asks the system for huge pages for what will be touched inside [p, p + n): fewer faults now, fewer misses
 * of the TLB later. */
void mem_wish_huge(const void *p, size_t n);

/* Gives the whole pages inside [p, p + n) of a mapping back to the system. */
void mem_drop(const void *p, size_t n);

#endif
