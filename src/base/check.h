/* Checked arithmetic for quantities that come from a file or are derived from one. Each function
 * returns 1 and stores the result, or returns 0; the stored value must then not be used. */
#ifndef MGPT_CHECK_H
#define MGPT_CHECK_H

#include <stddef.h>
#include <stdint.h>

static inline int ck_add(uint64_t a, uint64_t b, uint64_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

static inline int ck_mul(uint64_t a, uint64_t b, uint64_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

/* Rounds up to a multiple of `to`, a power of two. */
static inline int ck_align(uint64_t a, uint64_t to, uint64_t *aligned)
{
    uint64_t up;
    if (!ck_add(a, to - 1, &up))
        return 0;
    *aligned = up & ~(to - 1);
    return 1;
}

/* A file quantity as size_t. Returns 0 if it does not fit (32-bit machines). */
static inline int ck_size(uint64_t a, size_t *size)
{
    *size = (size_t)a;
    return *size == a;
}

static inline int ck_bytes(uint64_t n, uint64_t each, size_t *size)
{
    uint64_t bytes;
    return ck_mul(n, each, &bytes) && ck_size(bytes, size);
}

#endif
