/* What another program computed for some tokens: logits, and inner values when it recorded them.
 * They come through functions, so that a reference file and a float64 trace are compared in the
 * same way. */
#ifndef MGPT_ANSWER_H
#define MGPT_ANSWER_H

#include "check/reference/reference.h"

/* A logit that the reference does not have: it is -inf there, or the whole row is not there. It is
 * compared with nothing. */
#define ANSWER_MISSING 0x1p1023

struct answer {
    const int32_t *tokens;
    size_t n; /* tokens, and rows of logits */
    size_t n_vocab;
    const struct ref_hook *hooks; /* in the order of the pass, without the logits */
    size_t n_hooks;
    /* One row of hook i (at scores and pattern, row head * T + position of T values). */
    int (*row)(void *user, size_t i, size_t row, double *out, mgpt_error *err);
    int (*logits)(void *user, size_t row, double *out, mgpt_error *err);
    /* Heads of the reference's attention and of the model's, where they differ in a layer: it is not
     * compared there. Otherwise 0. */
    size_t other_heads, own_heads;
    size_t n_rows; /* T: positions the hooks were recorded for, at least n */
    void *user;
};

/* Sequence `sequence` of a reference, at most `limit` positions of it (0: all). The caller frees
 * (void *)answer->hooks and answer->user. */
int answer_open(struct answer *answer, struct reference *ref, const mgpt_model *model,
                size_t sequence, size_t limit, mgpt_error *err);

/* transformers' last hidden state follows the final norm; a tuple of that name that another program
 * wrote (or of a model without that norm) may end with the residual before it. Both are tried in the
 * engine's pass. Where the residual agrees better, the hook becomes the last layer's
 * MGPT_RESID_POST. */
int answer_place_last(struct answer *answer, const mgpt_model *model, mgpt_error *err);

/* The row of hook i, or of the logits when i is n_hooks, that belongs to a head of a position: its
 * first `n` values. `buffer` has room for answer_widest() values. */
int answer_read(const struct answer *a, size_t i, size_t pos, size_t head, double *buffer,
                mgpt_error *err);
size_t answer_widest(const struct answer *a);

/* Hook i; for i = n_hooks the logits. */
struct ref_hook answer_hook(const struct answer *a, size_t i);

/* Heads of hook i, at scores or pattern. */
size_t answer_heads(const struct answer *a, size_t i);

/* Index of the hook at a point, n_hooks for the logits, -1 when it was not recorded. */
int64_t answer_find(const struct answer *a, mgpt_point point, int layer);

int answer_is_attention(mgpt_point point);

/* Whether a row at the point is those of all heads, one after the other. */
int answer_is_heads(mgpt_point point);

#endif
