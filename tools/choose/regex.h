/* --regex: tokens that a text may go on with, so that all of it can still match.
 *
 * The bytes of tokens walk an automaton. Which tokens a state allows is found once, through the vocabulary in order of
 * bytes (common beginnings are walked once, and what no text matches is passed over), and kept: a bit for each token of
 * the vocabulary. A state from which no tokens lead to a whole match is not entered.
 */
#ifndef MGPT_REGEX_H
#define MGPT_REGEX_H

#include "choose/pattern.h"

/* The tokens with bytes in order of these, and the end tokens. */
struct token_order {
    int32_t *tokens;  /* stb_ds array */
    uint32_t *common; /* stb_ds array: first bytes that are those of the token before */
    int32_t *ends;    /* stb_ds array */
    size_t longest;
};

/* MGPT_OK or MGPT_EMEM. Zero it before. */
int token_order_open(struct token_order *o, const mgpt_model *model, mgpt_error *err);
void token_order_free(struct token_order *o);

/* What is known of a state: bits of the tokens that it allows, and their number; NULL: not known. */
struct allowed {
    uint64_t *bits;
    size_t n;
};

struct regex {
    const mgpt_model *model;
    const struct token_order *order;
    size_t n_tokens;
    struct automaton automaton;
    struct allowed *allowed; /* stb_ds array, by state */
    struct allowed first;    /* where the text begins: some vocabularies drop a space there */
    uint8_t *live;           /* stb_ds array, by state: tokens lead to a match; NULL: from all */
    int32_t *path;           /* [longest + 1] scratch */
    int failed;              /* out of memory or of states */
};

/* MGPT_OK, MGPT_EMEM, or MGPT_EARG: no text of the vocabulary matches, or the automaton is too large. Zero it before. */
int constraint_open(struct regex *x, const struct pattern *pattern, const struct token_order *order,
                    const mgpt_model *model, mgpt_error *err);
void constraint_close(struct regex *x);

/* The state after one token more; `starts`: no text is before it. -1: they do not match. */
int32_t constraint_step(struct regex *x, int32_t state, int32_t token, int starts);

/* Drops what is not allowed from n logits: all but end tokens where nothing is. */
void constraint_edit(struct regex *x, int32_t state, int starts, float *logits, size_t n);

/* 1 if the text matches, and cannot go on. */
int constraint_is_complete(struct regex *x, int32_t state, int starts);

#endif
