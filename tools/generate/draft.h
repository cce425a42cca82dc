/* Speculative decoding with a draft model: proposals of a second, smaller model with the same
 * vocabulary.
 *
 * The draft follows the text and draws what may come next with the numbers that the sampler will
 * draw with: where the two models agree closely enough, the sampler then draws the same token.
 * How likely that is depends on how sure the draft is, and is learned. The draft stops where a
 * further token would not pay for itself; while none pays it rests, and is tried again at growing
 * distances. It sees the end of the text only, when it has rested or its context is full.
 *
 * Only the number of passes depends on any of this, never what is drawn (speculate.h).
 */
#ifndef MGPT_DRAFT_H
#define MGPT_DRAFT_H

#include "engine/engine.h"
#include "generate/odds.h"

enum { DRAFT_LEVELS = 8, DRAFT_MOST = 64 };

/* Costs in passes of one row: of one more row, and of a token of the draft. */
struct draft_costs {
    double row, draw;
};

struct draft {
    struct engine engine;                /* engine.path: option; NULL: no draft */
    size_t base;                         /* index in the text of its first token */
    struct odds odds[DRAFT_LEVELS], all; /* by how sure it is of a token; of any token */
    unsigned rest;                       /* proposals to pass over while none pays */
    struct draft_costs costs;
    /* The last proposal. */
    struct chain chain;
    int32_t *history;                /* stb_ds array: the text and the proposal, for edits */
    size_t n, n_run;                 /* tokens proposed, and tokens that the draft ran */
    unsigned char level[DRAFT_MOST]; /* how sure it was of each token proposed */
};

/* Opens the draft for the models of `target`. Tells the user what is wrong; an exit code. */
int draft_open(struct draft *d, const struct engine *target);
void draft_close(struct draft *d);

/* Proposes at most cap <= DRAFT_MOST tokens to follow the text of n > 0 tokens, which `sampler`
 * will draw, and returns how many. d->costs are up to date. */
size_t draft_propose(struct draft *d, const int32_t *text, size_t n, const mgpt_sampler *sampler,
                     int32_t *proposal, size_t cap);

/* Tells how many tokens of the last proposal were right. */
void draft_learn(struct draft *d, size_t right);

#endif
