/* Log-probabilities of many texts of a small model: what texts begin with in common runs once.
 *
 * The texts are sorted by their tokens. A lane is a session that goes through a range of them: for the next text it goes
 * back to what that has in common with the one before, and runs the rest. The lanes step together. The logits after
 * each token of the current text are kept, so a text that leaves the path of the one before needs no pass there. A text
 * that earlier calls have scored is found in a tree (score_tree.h).
 */
#ifndef MGPT_SCORE_WALK_H
#define MGPT_SCORE_WALK_H

#include "score/score_texts.h"

struct score_walk;

/* 1: the engine's model is one for which this is faster than passes over many rows. */
int walk_fits(const struct engine *e);

/* One of n_threads walks. Its sessions are forks of `base`, which is empty. NULL with *err. */
struct score_walk *walk_open(struct engine *e, const mgpt_session *base, size_t n_threads,
                             mgpt_error *err);
void walk_close(struct score_walk *walk);

/* Fills in the numbers of n texts and changes their order. Shows how far it is unless `shown` is NULL. Returns a status. */
int walk_texts(struct score_walk *walk, struct scored_text **texts, size_t n,
               const struct score_shown *shown, mgpt_error *err);

#endif
