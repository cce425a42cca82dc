/* A prefix tree of the texts that a thread has scored: a text whose tokens all are in it needs no pass.
 *
 * A node is a beginning of texts. An edge leads from a beginning to the one with one more token, and has that token's
 * log-probability. The tree grows up to a number of edges, then stays as it is: a file's lines may never repeat.
 */
#ifndef MGPT_SCORE_TREE_H
#define MGPT_SCORE_TREE_H

#include "score/score_texts.h"

struct score_edge {
    uint32_t from, to; /* nodes; to 0: the slot is free */
    int32_t token;
    double logprob;
};

/* All zero: empty, and it stays empty. */
struct score_tree {
    struct score_edge *edges; /* open addressing, linear probing, at most half full; NULL: none */
    size_t n_slots;           /* a power of 2 */
    size_t n, most;           /* edges */
};

/* Fills in the numbers of the texts whose tokens are all in the tree, unless a text asks for more than its sum and
 * log-probabilities. Moves the other texts to the front and returns their number. */
size_t tree_score(const struct score_tree *tree, struct scored_text **texts, size_t n);

/* Adds a text's tokens; logprobs[i]: of token i, i > 0. Without memory the tree stays as it is. */
void tree_add(struct score_tree *tree, const struct scored_text *text, const double *logprobs);
void tree_free(struct score_tree *tree);

#endif
