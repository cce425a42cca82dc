/* The tokens of a context and its continuation, by the rules of lm-evaluation-harness 0.4
 * (lm_eval/api/model.py, _encode_pair, and models/huggingface.py):
 *
 *     the tokens of the context are encode(context without the spaces at its end), and those of
 *     the continuation are encode(context + continuation) after the first n, if the context has n;
 *     where a token would be part of both, the two together are not the tokens of the whole
 *     an empty context is BOS, or EOS if the model has no BOS; one of spaces only counts as empty
 *     what the model's window does not hold is cut from the left
 */
#ifndef MGPT_SCORE_PAIR_H
#define MGPT_SCORE_PAIR_H

#include "score/score_texts.h"

struct score_pair {
    const char *context, *continuation; /* UTF-8 */
    size_t n_context, n_continuation;   /* bytes */
};

/* Stores the tokens, their numbers and `cut` in *text. Returns a status: MGPT_ETEXT for what cannot be
 * scored. no_bos: no BOS before a context that is not empty, even if the model asks for one. */
int score_pair_encode(const struct engine *e, const struct score_pair *pair, int no_bos,
                      struct scored_text *text, mgpt_error *err);

#endif
