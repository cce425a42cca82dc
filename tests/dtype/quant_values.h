/* Random values of the tests of element types, those of tests/vectors/quant.py. */
#ifndef TESTS_QUANT_VALUES_H
#define TESTS_QUANT_VALUES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { MANY = 16384 };

/* The generator. */
static inline uint64_t draw(uint64_t *x)
{
    *x ^= *x >> 12;
    *x ^= *x << 25;
    *x ^= *x >> 27;
    return *x * UINT64_C(2685821657736338717);
}

static inline uint64_t seeded(uint64_t seed)
{
    return seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

static inline float gauss(uint64_t *x)
{
    int total = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t word = draw(x);
        for (int shift = 0; shift < 64; shift += 16)
            total += (int)(word >> shift & 0xFFFF) - 0x8000;
    }
    return (float)total / 65536;
}

/* Values of a kind: normal, spread, shifted, sparse. */
static inline void make_kind(const char *kind, float x[MANY])
{
    uint64_t rng = seeded(2);
    for (size_t i = 0; i < MANY; i++) {
        x[i] = gauss(&rng);
        if (strcmp(kind, "spread") == 0)
            x[i] = ldexpf(x[i], -(int)(i / 32 * 7 % 5));
        else if (strcmp(kind, "shifted") == 0)
            x[i] += 1;
        else if (strcmp(kind, "sparse") == 0)
            x[i] *= i % 11 == 3 ? 1 : 0;
    }
}

#endif
