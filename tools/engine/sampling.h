/* How the next token is chosen, as the command line says it: options, and the sampler they make. */
#ifndef MGPT_SAMPLING_H
#define MGPT_SAMPLING_H

#include "common/cli.h"
#include "engine/rng_python.h"
#include "mgpt.h"

/* Far more than a training script draws, and skipped in a fraction of a second. */
#define SAMPLING_MAX_SKIP 1e8

/* The seed before options are read, where it matters whether one was given. */
#define SAMPLING_NO_SEED UINT64_C(0xB5297A4D68E31DA4)

struct sampling {
    double temperature, top_p, min_p; /* options */
    int32_t top_k;
    uint64_t seed, skip;
    int seed_given; /* 0: none was given (SAMPLING_NO_SEED), and seed is 0 */
    const char *rng;
    mgpt_sampler sampler;
    struct rng_python python;
};

/* clang-format off */
/* Rows of an option table; s is a struct sampling. */
#define SAMPLING_OPTIONS(s)                                                                        \
    {"-s, --seed", "N", CLI_U64, &(s).seed, 0, 0,                                                  \
     "seed (default 0): the same seed gives the same bytes"},                                      \
    {"--temp", "T", CLI_REAL, &(s).temperature, 0, 1e30,                                           \
     "temperature; 0 always takes the likeliest token"},                                           \
    {"--top-k", "K", CLI_INT, &(s).top_k, 0, INT32_MAX,                                            \
     "choose among the K likeliest (default 0: all)"},                                             \
    {"--top-p", "P", CLI_REAL, &(s).top_p, 0, 1,                                                   \
     "choose among the likeliest that make up P (default 1: all)"},                                \
    {"--min-p", "P", CLI_REAL, &(s).min_p, 0, 1,                                                   \
     "drop tokens under P times the likeliest (default 0: none)"},                                 \
    {"--rng", "NAME", CLI_TEXT, &(s).rng, 0, 0,                                                    \
     "random numbers: splitmix (default), python (CPython's random)"},                             \
    {"--rng-skip", "N", CLI_U64, &(s).skip, 0, SAMPLING_MAX_SKIP,                                  \
     "with --rng python: skip N 32-bit words after seeding"}
/* clang-format on */

/* Fills the sampler from the options. Returns an exit code. The struct must not move afterwards. */
int sampling_begin(struct sampling *s, const struct cli_command *command);

/* Draws from CPython's numbers, or from SplitMix64. */
void sampling_use_python(struct sampling *s, int python);

/* Takes over changed temperature, top_k, top_p and min_p. */
void sampling_apply(struct sampling *s);

/* The sampler of one sample of several: sample i draws what it would draw if it were alone. Sample
 * 0 of a seed begins with the seed itself, sample i > 0 with the i-th number of a SplitMix64 that
 * begins with the first number of the seed's. With --rng python one stream goes through all
 * samples, as in microgpt: the sampler is then a view of it, and samples must be drawn one after
 * the other. */
mgpt_sampler sampling_of_sample(const struct sampling *s, uint64_t sample);

/* 1 when samples share one stream. */
int sampling_is_shared(const struct sampling *s);

/* Starts the random numbers anew. */
void sampling_seed(struct sampling *s, uint64_t seed);

#endif
