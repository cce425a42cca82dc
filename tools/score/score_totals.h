/* Sums over all texts of mgpt score, and what is printed of them. */
#ifndef MGPT_SCORE_TOTALS_H
#define MGPT_SCORE_TOTALS_H

#include "score/score_windows.h"

#include <stdio.h>

struct score_totals {
    size_t n_texts, n_tokens, n_bytes, n_words; /* n_tokens: scored ones */
    size_t n_rolled, n_windows;                 /* texts of more than one window; windows of all */
    double nll;                                 /* nats */
    int in_word;                                /* the bytes counted last end in a word */
};

/* Adds bytes and words (runs of characters that are not white space, as Python's split() has them). With `ends` the
 * text ends there; else the next call goes on with it. */
void totals_add_bytes(struct score_totals *t, const char *bytes, size_t n, int ends);

/* Prints likelihoods per token, byte and word. is_document: the texts are one file, in windows. */
void totals_print(const struct score_totals *t, const struct score_windows *windows,
                  int is_document);

#endif
