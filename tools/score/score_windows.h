/* Windows of a text that has more tokens than the model sees at once: log-probabilities as lm-evaluation-harness 0.4
 * has them (loglikelihood_rolling: get_rolling_token_windows, make_disjoint_window).
 *
 *     tokens   BOS (or what else comes first, and is only seen), then those that are scored, each in one window
 *     window   the most tokens that the model runs at once; positions begin at 0 in each
 *     stride   the tokens that a window after the first scores; the first scores `window` of them
 *
 * So a token of a later window follows window - stride + 1 tokens or more. The last window scores what is left and
 * sees as many tokens before that as fit. BOS is in the first window only. stride = window: each token is run once.
 */
#ifndef MGPT_SCORE_WINDOWS_H
#define MGPT_SCORE_WINDOWS_H

#include <stddef.h>

struct score_windows {
    size_t window, stride; /* 1 <= stride <= window */
};

/* Tokens [first, first + n_seen) of the text are only seen, the n_scored after them are scored. */
struct score_window {
    size_t first, n_seen, n_scored;
};

/* The window after n_done scored tokens, when n_left are left. */
static inline struct score_window windows_next(const struct score_windows *w, size_t n_done,
                                               size_t n_left)
{
    size_t most = n_done > 0 ? w->stride : w->window, n = n_left < most ? n_left : most;
    size_t end = n_done + n, first = end > w->window ? end - w->window : 0;
    return (struct score_window){first, n_done + 1 - first, n};
}

/* The number of windows of a text with n scored tokens. */
static inline size_t windows_count(const struct score_windows *w, size_t n)
{
    return n <= w->window ? n > 0 : 1 + (n - w->window + w->stride - 1) / w->stride;
}

#endif
