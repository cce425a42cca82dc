/* MT19937 (Matsumoto and Nishimura, 1998) with the seeding that CPython's random.seed uses for
 * integers: the number's 32-bit digits, lowest first, through init_by_array. */
#include "engine/rng_python.h"

enum { N = 624, M = 397 };

static void init_linear(struct rng_python *rng, uint32_t seed)
{
    uint32_t *s = rng->state;
    s[0] = seed;
    for (uint32_t i = 1; i < N; i++)
        s[i] = 1812433253u * (s[i - 1] ^ (s[i - 1] >> 30)) + i;
    rng->next = N;
}

static void init_by_array(struct rng_python *rng, const uint32_t *key, uint32_t n_key)
{
    uint32_t *s = rng->state, i = 1, j = 0;
    init_linear(rng, 19650218u);
    for (uint32_t k = N > n_key ? N : n_key; k; k--) {
        s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1664525u)) + key[j] + j;
        if (++i == N) {
            s[0] = s[N - 1];
            i = 1;
        }
        j = j + 1 == n_key ? 0 : j + 1;
    }
    for (uint32_t k = N - 1; k; k--) {
        s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1566083941u)) - i;
        if (++i == N) {
            s[0] = s[N - 1];
            i = 1;
        }
    }
    s[0] = 0x80000000u;
}

void rng_python_seed(struct rng_python *rng, uint64_t n)
{
    const uint32_t key[2] = {(uint32_t)n, (uint32_t)(n >> 32)};
    init_by_array(rng, key, key[1] ? 2 : 1); /* zero has one digit as well */
    rng->n_words = 0;
}

static void refill(struct rng_python *rng)
{
    uint32_t *s = rng->state;
    for (unsigned i = 0; i < N; i++) {
        uint32_t y = (s[i] & 0x80000000u) | (s[(i + 1) % N] & 0x7FFFFFFFu);
        s[i] = s[(i + M) % N] ^ (y >> 1) ^ (y & 1 ? 0x9908B0DFu : 0);
    }
    rng->next = 0;
}

uint32_t rng_python_word(struct rng_python *rng)
{
    if (rng->next >= N)
        refill(rng);
    uint32_t y = rng->state[rng->next++];
    rng->n_words++;
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680u;
    y ^= (y << 15) & 0xEFC60000u;
    return y ^ (y >> 18);
}

double rng_python_uniform(void *user)
{
    struct rng_python *rng = user;
    uint32_t high = rng_python_word(rng) >> 5, low = rng_python_word(rng) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0; /* 27 and 26 bits of 53 */
}

void rng_python_skip(struct rng_python *rng, uint64_t n)
{
    rng->n_words += n;
    while (n > N - rng->next) { /* the rest of a block at a time */
        n -= N - rng->next;
        refill(rng);
    }
    rng->next += (unsigned)n;
}
