/* Log-probabilities of many texts with few passes over the weights.
 *
 * A text that is long is fed: one pass for each chunk of its tokens. Short ones are stepped side by
 * side: one pass for a token of each. Either way the numbers are those of the text alone, to the
 * bit, and are added up in the order of its tokens.
 */
#ifndef MGPT_SCORE_TEXTS_H
#define MGPT_SCORE_TEXTS_H

#include "engine/engine.h"

struct scored_text {
    const char *text; /* borrowed */
    size_t n_bytes;
    int32_t *tokens; /* malloc'ed: n_scored + 1 of them, or more */
    size_t n_scored; /* tokens but the first, as far as the context goes */
    double nll;      /* in nats: the sum of -log p */
    /* Arrays of the caller's, or NULL: the log-probability of token i + 1, and the n_top likeliest
     * tokens in its place ([n_scored][n_top]; n_top is not above the vocabulary). */
    double *logprobs;
    mgpt_candidate *top;
    size_t n_top;
};

/* Timelines for short texts. */
struct scorer {
    struct engine *engine; /* with a session */
    mgpt_session **slots;  /* [n_slots]; none until they are needed */
    size_t n_slots;
};

/* Fills in nll, logprobs and top for n texts; one with nothing to score needs no tokens. Returns an
 * exit code. */
int score_texts(struct scorer *scorer, struct scored_text *texts, size_t n);
void score_close(struct scorer *scorer);

#endif
