/* XXH64, the 64-bit hash of Yann Collet's xxHash: memory-bound speed, and checkable with other
 * programs (xxhsum -H64). Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
 * It distinguishes files; it is not secure against deliberate collisions. */
#ifndef MGPT_XXH64_H
#define MGPT_XXH64_H

#include <stddef.h>
#include <stdint.h>

/* The hash of n bytes with the seed 0. */
uint64_t xxh64(const void *data, size_t n);

/* The hash of bytes that come in pieces: begin, add each piece, end. */
struct xxh64 {
    uint64_t lanes[4], n; /* n: bytes so far */
    uint8_t held[32];     /* the last n % 32 of them */
};
void xxh64_begin(struct xxh64 *h);
void xxh64_add(struct xxh64 *h, const void *data, size_t n);
uint64_t xxh64_end(const struct xxh64 *h);

#endif
