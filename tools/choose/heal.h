/* Token healing: a prompt's last bytes are drawn again, so that its last tokens are not those of an end that the prompt
 * only seems to have.
 *
 *   kept    the prompt's tokens up to its last border that every text with these bytes has: no token of the vocabulary
 *           goes over it, whatever follows the prompt. After at most HEAL_BYTES; one token is kept if there is none
 *   bytes   what comes after it, as pieces have it
 *   path    tokens whose bytes are a part of these, from their first on; a node, of which the model says what follows
 *
 * The tokens that complete the bytes, or go beyond, are drawn with the probability that they have given the kept tokens
 * and that the text begins with these bytes: a sum over all paths. Paths are run likeliest first, until those that have
 * not been run, at most HEAL_RUNS, have less than 1e-6 of that sum. Each draw then adds to the logit of a token the logarithm of the sum after it.
 */
#ifndef MGPT_HEAL_H
#define MGPT_HEAL_H

#include "mgpt.h"

enum { HEAL_BYTES = 64, HEAL_RUNS = 1000 };
#define HEAL_LEFT_OUT 1e-6

struct heal_node {
    int32_t parent, token;
    uint32_t at; /* bytes before it */
    int is_run;
    double logprob; /* of the path */
    double covers;  /* log-probability, after it, of the tokens that complete the bytes */
    double sum;     /* of all ways to complete them; when all have been run */
};

struct heal {
    const mgpt_model *model;
    char *bytes; /* malloc'ed, [n_bytes]; 0: nothing is to be drawn again */
    size_t n_bytes;
    size_t n_kept, n_given; /* tokens of the prompt */
    /* malloc'ed: the tokens with bytes, but for end tokens, by first byte, then by id. Those with first byte b are
     * sorted[first[b]] to sorted[first[b + 1] - 1]. */
    int32_t *sorted;
    uint32_t first[257];
    struct heal_node *nodes; /* stb_ds array; the first is the path without tokens */
    int32_t *path;           /* malloc'ed, [n_bytes] */
    int32_t next;            /* node to run */
    double left_out;         /* most of the probability that paths have which were not run */
};

/* For a prompt, which is not needed later. MGPT_OK or MGPT_EMEM. Zero it before. */
int heal_open(struct heal *h, const mgpt_model *model, const int32_t *tokens, size_t n,
              mgpt_error *err);
void heal_close(struct heal *h);

/* The next path to run after the kept tokens: its length, and its tokens in h->path. -1: no more. heal_learn takes the
 * logits that can be drawn after it. MGPT_OK or MGPT_EMEM. */
int32_t heal_next(struct heal *h);
int heal_learn(struct heal *h, const float *logits, size_t n, mgpt_error *err);

/* How many of n tokens after the kept ones, and of `token` after them, leave some of the bytes to be drawn. */
size_t heal_repeats(const struct heal *h, const int32_t *drawn, size_t n, int32_t token);

/* The edit of a draw after `tokens`, prompt and drawn. */
void heal_edit(const struct heal *h, float *logits, size_t n, const int32_t *tokens,
               size_t n_tokens);

#endif
