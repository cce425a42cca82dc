/* SplitMix64 (Steele, Lea & Flood 2014): random numbers from any seed. */
#ifndef MGPT_SPLITMIX_H
#define MGPT_SPLITMIX_H

#include <stdint.h>

#define SPLITMIX_STEP UINT64_C(0x9E3779B97F4A7C15)

/* The number of a state. */
static inline uint64_t splitmix_number(uint64_t state)
{
    uint64_t z = state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* The state moves on; the number of the next one. */
static inline uint64_t splitmix_next(uint64_t *state)
{
    return splitmix_number(*state += SPLITMIX_STEP);
}

/* The top 53 bits of the next number, as [0, 1). */
static inline double splitmix_real(uint64_t *state)
{
    return (double)(splitmix_next(state) >> 11) * 0x1p-53;
}

#endif
