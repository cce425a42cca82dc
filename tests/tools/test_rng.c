/* CPython's random numbers, against CPython 3.11. The vectors were made by
 *
 *     python3 -c 'import random
 *     for n in (0, 1, 42, 2**32 - 1, 2**32, 2**64 - 1):
 *         random.seed(n); print(n, [hex(random.getrandbits(32)) for _ in range(4)])
 *         random.seed(n); print([random.random().hex() for _ in range(3)])
 *     random.seed(42); w = [random.getrandbits(32) for _ in range(53024)]
 *     print([hex(x) for x in w[53020:]], hex(w[623]), hex(w[624]))'
 */
#include "engine/rng_python.h"
#include "support/unit.h"

static const struct {
    uint64_t seed;
    uint32_t words[4];
    double uniform[3];
} golden[] = {
    {0,
     {0xd82c07cd, 0x629f6fbe, 0xc2094cac, 0xe3e70682},
     {0x1.b0580f98a7dbep-1, 0x1.84129978f9c1ap-1, 0x1.aeaa51052e978p-2}},
    {1,
     {0x2265b1f5, 0x91b7584a, 0xd8f16adf, 0xcd613e30},
     {0x1.132d8f91b7584p-3, 0x1.b1e2d5b3584f8p-1, 0x1.870d778409f13p-1}},
    {42,
     {0xa3b1799d, 0x1c80317f, 0x6671ad1, 0xbdd640fb},
     {0x1.4762f307200c5p-1, 0x1.99c6b5eeb2060p-6, 0x1.19a1491f589dcp-2}},
    {UINT32_MAX,
     {0xa2a6c909, 0x9e9c04f4, 0x3404e941, 0x3720bfa9},
     {0x1.454d9227a7013p-1, 0x1.a0274a3720bf8p-3, 0x1.36f8c1616ef77p-1}},
    {(uint64_t)UINT32_MAX + 1,
     {0x1ced31d7, 0x59ef8bbc, 0x6af6d506, 0xef49e4d2},
     {0x1.ced31cb3df170p-4, 0x1.abdb5477a4f26p-2, 0x1.1139c02ebd380p-6}},
    {UINT64_MAX,
     {0x5965e7e, 0x3faff328, 0x568d6a40, 0x9e667b13},
     {0x1.659799fd7f980p-6, 0x1.5a35a94f333d8p-2, 0x1.b21c0274c09a4p-3}},
};
enum { N_GOLDEN = COUNT(golden) };

TEST(words_are_pythons)
{
    for (size_t i = 0; i < N_GOLDEN; i++) {
        struct rng_python rng;
        rng_python_seed(&rng, golden[i].seed);
        for (size_t k = 0; k < 4; k++)
            assert_int_equal(rng_python_word(&rng), golden[i].words[k]);
    }
}

TEST(uniform_is_pythons_to_the_bit)
{
    for (size_t i = 0; i < N_GOLDEN; i++) {
        struct rng_python rng;
        rng_python_seed(&rng, golden[i].seed);
        for (size_t k = 0; k < 3; k++) {
            double u = rng_python_uniform(&rng);
            assert_memory_equal(&u, &golden[i].uniform[k], sizeof u);
        }
    }
}

TEST(skipping_is_drawing)
{
    static const uint32_t after[4] = {0x9244479f, 0xc000432, 0xc34d5cbe, 0xce5b4e8b};
    struct rng_python rng;
    rng_python_seed(&rng, 42);
    rng_python_skip(&rng, 53020);
    for (size_t k = 0; k < 4; k++)
        assert_int_equal(rng_python_word(&rng), after[k]);
}

TEST(skips_of_any_length)
{
    static const unsigned ns[] = {0, 1, 623, 624, 625, 1247, 1248, 1249, 5000};
    for (size_t i = 0; i < COUNT(ns); i++)
        for (unsigned before = 0; before < 1300; before += 311) {
            struct rng_python a, b;
            rng_python_seed(&a, 7);
            for (unsigned k = 0; k < before; k++)
                rng_python_word(&a);
            b = a;
            rng_python_skip(&a, ns[i]);
            for (unsigned k = 0; k < ns[i]; k++)
                rng_python_word(&b);
            for (int k = 0; k < 3; k++)
                assert_int_equal(rng_python_word(&a), rng_python_word(&b));
        }
}

TEST(refills_where_the_state_ends)
{
    struct rng_python rng;
    rng_python_seed(&rng, 42);
    rng_python_skip(&rng, 623);
    assert_int_equal(rng_python_word(&rng), 0xae9bec36);
    assert_int_equal(rng_python_word(&rng), 0x3fe12e47);
}
