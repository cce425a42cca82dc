/* Speculative decoding, exact: mgpt_step that may have run ahead.
 *
 * A pass feeds the token that was drawn and, after it, a proposal of what will be drawn next
 * (lookup.h, draft.h), and keeps the logits of all of them. As long as the caller then asks for the
 * tokens that were proposed, their logits are there already; the first other token rewinds the
 * session and begins a new pass. The logits returned are those of mgpt_step, to the bit,
 * for any proposal: feeding and stepping give the same bits. So the caller draws as it
 * would without, one number per token, in order.
 *
 * While it runs ahead the session holds more tokens than count: ask speculate_pos, not mgpt_pos.
 */
#ifndef MGPT_SPECULATE_H
#define MGPT_SPECULATE_H

#include "engine/engine.h"
#include "generate/draft.h"
#include "generate/lookup.h"

enum { SPECULATE_DEFAULT = 16, SPECULATE_MAX = DRAFT_MOST };

/* What passes take: decaying sums over passes of n rows and t seconds, for a straight line. */
struct pass_times {
    double w, n, t, nn, nt;
    double one, row, usual; /* seconds of a pass of one row; of one more row, in such passes */
    double draw;            /* seconds that the draft needs for a token */
    size_t n_passes, n_drafts;
};

struct speculation {
    struct engine *engine;
    mgpt_session *session; /* the engine's */
    struct lookup lookup;
    size_t lookup_most;  /* tokens in a proposal of the look-up */
    struct draft *draft; /* or NULL */
    int drafted;         /* the last proposal is the draft's */
    struct pass_times times;
    int32_t ahead[1 + SPECULATE_MAX]; /* of the last pass: the token drawn, and the proposal */
    size_t n_ahead, at;               /* its rows, and the last of them that was asked for */
    size_t pos;                       /* tokens that count */
    float *rows;                      /* [1 + tokens in a proposal][n_vocab] */
    size_t n_vocab;
    size_t n_proposed, n_right, n_passes, n_steps; /* what came of it */
};

/* Begins speculation in the engine's session. Proposals are of look-up, at most `lookup` tokens (0:
 * none), and of an open draft (NULL: none). MGPT_OK or MGPT_EMEM. */
int speculate_open(struct speculation *s, struct engine *engine, size_t lookup, struct draft *draft,
                   mgpt_error *err);
void speculate_close(struct speculation *s);

/* The session has been rewound or fed by others: begins anew from the tokens that it holds. */
void speculate_begin(struct speculation *s);

/* As mgpt_step on the tokens that count; the logits live until the next call. At most `draws` more
 * tokens will be asked for after this one, the first as `sampler` draws it. */
const float *speculate_step(struct speculation *s, int32_t token, const mgpt_sampler *sampler,
                            size_t draws, mgpt_error *err);

/* Tokens that count. */
size_t speculate_pos(const struct speculation *s);

#endif
