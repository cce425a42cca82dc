/* XXH64. See xxh64.h. Four lanes of eight bytes each, merged at the end, then the remaining bytes.
 * The constants and the order of operations follow the specification; words are little-endian. */
#include "common/xxh64.h"

#define P1 UINT64_C(0x9E3779B185EBCA87)
#define P2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define P3 UINT64_C(0x165667B19E3779F9)
#define P4 UINT64_C(0x85EBCA77C2B2AE63)
#define P5 UINT64_C(0x27D4EB2F165667C5)

enum { STRIPE = 32 };

static uint64_t word32(const uint8_t *p)
{
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
}

static uint64_t word64(const uint8_t *p)
{
    return word32(p) | word32(p + 4) << 32;
}

static uint64_t rotate(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static uint64_t mix_word(uint64_t lane, uint64_t word)
{
    return rotate(lane + word * P2, 31) * P1;
}

static uint64_t merge_lane(uint64_t hash, uint64_t lane)
{
    return (hash ^ mix_word(0, lane)) * P1 + P4;
}

/* Hashes all whole stripes; *p moves past them. */
static uint64_t stripes(const uint8_t **p, size_t n)
{
    uint64_t a = P1 + P2, b = P2, c = 0, d = 0 - P1;
    for (; n >= STRIPE; n -= STRIPE, *p += STRIPE) {
        a = mix_word(a, word64(*p));
        b = mix_word(b, word64(*p + 8));
        c = mix_word(c, word64(*p + 16));
        d = mix_word(d, word64(*p + 24));
    }
    uint64_t hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
    return merge_lane(merge_lane(merge_lane(merge_lane(hash, a), b), c), d);
}

static uint64_t hash_tail(uint64_t hash, const uint8_t *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8)
        hash = rotate(hash ^ mix_word(0, word64(p)), 27) * P1 + P4;
    if (n >= 4) {
        hash = rotate(hash ^ word32(p) * P1, 23) * P2 + P3;
        n -= 4;
        p += 4;
    }
    for (; n > 0; n--, p++)
        hash = rotate(hash ^ *p * P5, 11) * P1;
    return hash;
}

uint64_t xxh64(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint64_t hash = (n >= STRIPE ? stripes(&p, n) : P5) + n;
    hash = hash_tail(hash, p, n % STRIPE);
    hash = (hash ^ hash >> 33) * P2;
    hash = (hash ^ hash >> 29) * P3;
    return hash ^ hash >> 32;
}
