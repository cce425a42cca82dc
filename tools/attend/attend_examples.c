/* The worked examples of the attention lessons. See attend_examples.h. */
#include "attend/attend_examples.h"

/* Three tokens of four dimensions; the third shares one with each of the others. */
#define THREE_TOKENS "1 0 1 0\n0 1 0 1\n1 1 0 0\n"

/* A row per letter of ".emma" over the letters . e m a, one of them 1. */
#define EMMA "1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 1 0\n0 0 0 1\n"

/* How often, in "emma", a letter (row) is followed by another (column): shares of its row. */
#define EMMA_BIGRAMS                                                                               \
    "0 1 0   0\n"                                                                                  \
    "0 0 1   0\n"                                                                                  \
    "0 0 0.5 0.5\n"                                                                                \
    "1 0 0   0\n"

const struct attend_example attend_examples[] = {
    {"identity", "three tokens, Q = K = V = X", THREE_TOKENS, "identity", "identity", "identity",
     0},
    {"causal", "the same, and no token sees the future", THREE_TOKENS, "identity", "identity",
     "identity", 1},
    {"average", "queries of zero: every token is the average of those up to it",
     "2 4\n6 0\n1 5\n3 3\n", "zero", "identity", "identity", 1},
    {"one-hot", "a query that matches one key by far copies its value", "1 0 0\n0 1 0\n0 0 1\n",
     "0 0 1000\n1000 0 0\n0 1000 0\n", "identity", "1 2\n3 4\n5 6\n", 0},
    /* Queries of 1000: a letter looks at itself only, so its row of the table is what it gets. */
    {"bigram", "a table of next letters, looked up by attention: .emma", EMMA,
     "1000 0 0 0\n0 1000 0 0\n0 0 1000 0\n0 0 0 1000\n", "identity", EMMA_BIGRAMS, 1},
};
const size_t attend_n_examples = sizeof attend_examples / sizeof *attend_examples;
