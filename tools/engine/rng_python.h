/* CPython's random numbers: what random.seed(n) and random.random() give, to the bit. */
#ifndef MGPT_RNG_PYTHON_H
#define MGPT_RNG_PYTHON_H

#include <stdint.h>

struct rng_python {
    uint32_t state[624];
    unsigned next;    /* words of the state already handed out */
    uint64_t n_words; /* all that were handed out or skipped since it was seeded */
};

/* random.seed(n) for an integer 0 <= n < 2^64. */
void rng_python_seed(struct rng_python *rng, uint64_t n);

/* The next 32-bit word: random.getrandbits(32). */
uint32_t rng_python_word(struct rng_python *rng);

/* random.random(): two words, 53 bits. The pointer is a struct rng_python: fits mgpt_sampler. */
double rng_python_uniform(void *rng);

/* Throws n words away. */
void rng_python_skip(struct rng_python *rng, uint64_t n);

#endif
