/* XXH64, the 64-bit hash of Yann Collet's xxHash: fast enough to be bound by memory, and known well enough
 * that other programs can check it (xxhsum -H64). Written from the specification:
 * https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md. It tells files apart; it does not
 * protect from somebody who wants two of them to look the same. */
#ifndef MGPT_XXH64_H
#define MGPT_XXH64_H

#include <stddef.h>
#include <stdint.h>

/* The hash of n bytes with the seed 0. */
uint64_t xxh64(const void *data, size_t n);

#endif
