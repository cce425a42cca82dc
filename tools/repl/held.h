/* What the model says of the tokens that a timeline holds: log-probability, the probability of a draw, rank, and
 * the likeliest in their place. Fed and drawn tokens alike; the first token has nothing before it that says
 * anything. */
#ifndef MGPT_HELD_H
#define MGPT_HELD_H

#include "engine/drawn.h"
#include "engine/engine.h"

/* Entry i is of token i + 1. */
struct tokens_held {
    struct drawn drawn;
    size_t *ranks;         /* stb_ds array: 1 for the likeliest */
    const int32_t *tokens; /* [n] */
    size_t first;          /* the position of tokens[0] */
    size_t n, n_vocab, n_choices;
    struct sampling *sampling; /* the settings that `drawn` asks */
    int is_full;               /* there was no memory for all */
};

/* Prepares for a run of n tokens from position `first` (0) on, with the n_top likeliest of each. */
struct tokens_held held_new(const struct engine *engine, struct sampling *sampling,
                            const int32_t *tokens, size_t n, size_t n_top);

/* A mgpt_tap_fn for MGPT_LOGITS; user: the struct tokens_held, whose is_full is to be asked after the run. */
int held_see(const mgpt_value *value, void *user);

/* The sum of the log-probabilities of tokens[from] and those after it. */
double held_sum(const struct tokens_held *held, size_t from);

void held_free(struct tokens_held *held);

#endif
