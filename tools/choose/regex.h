/* --regex: tokens that a text may go on with, so that all of it can still match.
 *
 * The bytes of tokens walk an automaton. Which tokens a state allows is found once, by a walk over the trie of the
 * vocabulary (common beginnings are walked once, and what no text matches is passed over), and kept: a bit for each token
 * of the vocabulary. A state from which no tokens lead to a whole match is not entered.
 */
#ifndef MGPT_REGEX_H
#define MGPT_REGEX_H

#include "choose/pattern.h"

/* A node of the trie, in order of bytes: what its byte leads to comes next, up to node `skip`. The tokens that end at
 * it are tokens[first] up to the first of the next node. */
struct token_node {
    uint32_t first, skip, depth;
    unsigned char byte;
};

struct token_piece {
    const char *bytes; /* the model's */
    size_t n;
};

/* The tokens with bytes, and the end tokens. The last node only ends the tokens of the one before. */
struct token_trie {
    struct token_node *nodes;   /* stb_ds array */
    int32_t *tokens;            /* stb_ds array, in order of bytes */
    int32_t *ends;              /* stb_ds array */
    struct token_piece *pieces; /* by token */
    size_t longest;
};

/* MGPT_OK or MGPT_EMEM. Zero it before. */
int token_trie_open(struct token_trie *o, const mgpt_model *model, mgpt_error *err);
void token_trie_free(struct token_trie *o);

/* The tokens that a state allows: a bit for each, end tokens too where the text matches. NULL: not known yet. */
struct allowed {
    uint64_t *bits;
    size_t n; /* without end tokens */
};

struct regex {
    const mgpt_model *model;
    const struct token_trie *trie;
    size_t n_tokens;
    struct automaton automaton;
    struct allowed *allowed; /* stb_ds array, by state */
    struct allowed first;    /* where the text begins: some vocabularies drop a space there */
    struct allowed only_end; /* after a text that does not match */
    size_t n_kept;           /* of `allowed` that are known */
    uint8_t *live;           /* stb_ds array, by state: tokens lead to a match; NULL: from all */
    int32_t *path;           /* [longest + 1] scratch */
    int failed;              /* out of memory or of states */
};

/* MGPT_OK, MGPT_EMEM, or MGPT_EARG: no text of the vocabulary matches, or the automaton is too large. Zero it before. */
int constraint_open(struct regex *x, const struct pattern *pattern, const struct token_trie *trie,
                    const mgpt_model *model, mgpt_error *err);
void constraint_close(struct regex *x);

/* The state after one token more; `starts`: no text is before it. -1: they do not match. */
int32_t constraint_step(struct regex *x, int32_t state, int32_t token, int starts);

/* Drops what is not allowed from n logits: all but end tokens where nothing is. */
void constraint_edit(struct regex *x, int32_t state, int starts, float *logits, size_t n);

/* 1 if the text matches, and cannot go on. */
int constraint_is_complete(struct regex *x, int32_t state, int starts);

#endif
