/* XXH64, the 64-bit hash of Yann Collet's xxHash: memory-bound speed, and checkable with other
 * programs (xxhsum -H64). Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
 * It distinguishes files; it is not secure against deliberate collisions. */
#ifndef MGPT_XXH64_H
#define MGPT_XXH64_H

#include <stddef.h>
#include <stdint.h>

/* The hash of n bytes with the seed 0. */
uint64_t xxh64(const void *data, size_t n);

#endif
