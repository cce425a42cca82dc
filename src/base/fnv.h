/* FNV-1a (Fowler, Noll & Vo): for hash tables, and for results that are compared as one number. */
#ifndef MGPT_FNV_H
#define MGPT_FNV_H

#include <stddef.h>
#include <stdint.h>

#define FNV_START UINT64_C(0xCBF29CE484222325)

/* The hash of what h is the hash of, followed by n bytes. */
static inline uint64_t fnv1a(uint64_t h, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001B3);
    return h;
}

#endif
