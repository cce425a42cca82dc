/* Prompt look-up decoding (n-gram speculation): what may follow a text, proposed from what followed in it before.
 *
 * The text is the prompt and all that was drawn since. The longest recent repetition of its end
 * is found through hash chains of its last 8, 4 or 2 tokens, with a bounded number of
 * comparisons, and the tokens after that earlier place are the proposal. How many are worth
 * proposing is learned from how often repetitions as long as this one went on: the next token of
 * a proposal must be right often enough to pay for its row in the pass that verifies it. Only
 * the number of passes depends on any of this, never what is drawn (speculate.h).
 *
 * Memory: 16 bytes a token and a fixed table. When that cannot grow, nothing more is proposed.
 */
#ifndef MGPT_LOOKUP_H
#define MGPT_LOOKUP_H

#include "generate/odds.h"

#include <stddef.h>
#include <stdint.h>

enum { LOOKUP_ORDERS = 3, LOOKUP_BUCKETS = 1 << 12, LOOKUP_LONGEST = 24 };

struct lookup {
    int32_t *tokens;                 /* stb_ds array: the text */
    int32_t *earlier[LOOKUP_ORDERS]; /* stb_ds arrays: the place before with this hash, or -1 */
    int32_t (*latest)[LOOKUP_BUCKETS];
    struct odds odds[LOOKUP_LONGEST + 1]; /* by the length of the repetition */
    double row_cost;                      /* of one more row in a pass, in passes of one row */
    size_t length; /* length of the repetition that the last proposal came from */
    int broken;    /* out of memory: the text is incomplete */
};

/* An empty text. Returns 0 when out of memory. */
int lookup_open(struct lookup *l, double row_cost);
void lookup_close(struct lookup *l);

/* Forgets the text, but not what was learned. */
void lookup_clear(struct lookup *l);

/* Appends a token to the text. */
void lookup_add(struct lookup *l, int32_t token);

/* Proposes at most cap tokens to follow the text, and returns how many. */
size_t lookup_propose(struct lookup *l, int32_t *proposal, size_t cap);

/* Tells how many tokens of the last proposal, of n, were right. */
void lookup_learn(struct lookup *l, size_t n, size_t right);

#endif
