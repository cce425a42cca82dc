/* XXH64. See xxh64.h. Four lanes of eight bytes each, merged at the end, then the remaining bytes.
 * The constants and the order of operations follow the specification; words are little-endian, as
 * the machine is (kernels.h). */
#include "base/xxh64.h"

#include <string.h>

#define P1 UINT64_C(0x9E3779B185EBCA87)
#define P2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define P3 UINT64_C(0x165667B19E3779F9)
#define P4 UINT64_C(0x85EBCA77C2B2AE63)
#define P5 UINT64_C(0x27D4EB2F165667C5)

enum { STRIPE = 32 };

static uint64_t word32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t word64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
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

/* Hashes n bytes, whole stripes. */
static void stripes(struct xxh64 *h, const uint8_t *p, size_t n)
{
    uint64_t a = h->lanes[0], b = h->lanes[1], c = h->lanes[2], d = h->lanes[3];
    for (; n > 0; n -= STRIPE, p += STRIPE) {
        a = mix_word(a, word64(p));
        b = mix_word(b, word64(p + 8));
        c = mix_word(c, word64(p + 16));
        d = mix_word(d, word64(p + 24));
    }
    h->lanes[0] = a;
    h->lanes[1] = b;
    h->lanes[2] = c;
    h->lanes[3] = d;
}

static uint64_t merge_lanes(const uint64_t lanes[4])
{
    uint64_t hash =
        rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
    for (int i = 0; i < 4; i++)
        hash = merge_lane(hash, lanes[i]);
    return hash;
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

void xxh64_begin(struct xxh64 *h)
{
    *h = (struct xxh64){.lanes = {P1 + P2, P2, 0, 0 - P1}};
}

void xxh64_add(struct xxh64 *h, const void *data, size_t n)
{
    const uint8_t *p = data;
    size_t held = h->n % STRIPE, room = STRIPE - held;
    h->n += n;
    if (held > 0 && n >= room) {
        memcpy(h->held + held, p, room);
        stripes(h, h->held, STRIPE);
        p += room;
        n -= room;
        held = 0;
    }
    size_t whole = held ? 0 : n - n % STRIPE;
    stripes(h, p, whole);
    if (n > whole)
        memcpy(h->held + held, p + whole, n - whole);
}

uint64_t xxh64_end(const struct xxh64 *h)
{
    uint64_t hash = (h->n >= STRIPE ? merge_lanes(h->lanes) : P5) + h->n;
    hash = hash_tail(hash, h->held, h->n % STRIPE);
    hash = (hash ^ hash >> 33) * P2;
    hash = (hash ^ hash >> 29) * P3;
    return hash ^ hash >> 32;
}

uint64_t xxh64(const void *data, size_t n)
{
    struct xxh64 h;
    xxh64_begin(&h);
    xxh64_add(&h, data, n);
    return xxh64_end(&h);
}
