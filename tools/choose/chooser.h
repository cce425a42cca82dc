/* Draws tokens with the edits of struct edit_rules: mgpt_sampler.edit, and what it needs to know.
 *
 *   history  the tokens of the text so far, prompt and drawn; the next token is drawn at its end
 *   begin    tokens of the history that were not drawn: banned texts begin at it or later
 *
 * A chooser has scratch and the state of one text: each thread and each text has its own; rules may be
 * shared. Without rules in force it draws as mgpt_sample does, at no cost.
 */
#ifndef MGPT_CHOOSER_H
#define MGPT_CHOOSER_H

#include "choose/edit_rules.h"

enum {
    CHOOSER_AHEAD = 64, /* a draft may propose that many tokens after the history */
    CHOOSER_TEXTS = 16  /* texts whose states are known, by the address of their history */
};

struct ranked_token {
    double key;
    int32_t token;
};

/* A token that is not drawn again at position `at`, as a banned text began with it. */
struct banned {
    size_t at;
    int32_t token;
};

/* A drawn token, and the regex's state after it. */
struct known_state {
    int32_t token, state;
};

struct chooser {
    const struct edit_rules *rules;
    int is_on;                                /* a rule is in force */
    uint8_t on[EDIT_N];                       /* which */
    double temperature;                       /* of the draw */
    float *copy;                              /* [n_tokens] */
    uint32_t *count;                          /* [n_tokens] 0 between uses */
    struct ranked_token *ranked;              /* [n_tokens] for TYPICAL, or NULL */
    uint32_t *repeats;                        /* stb_ds array: for DRY */
    struct regex *regex;                      /* for REGEX, or NULL */
    const struct pattern_state *pattern;      /* that it was made for */
    int is_lent;                              /* the regex is another chooser's */
    struct known_state *known[CHOOSER_TEXTS]; /* stb_ds arrays: texts that were last asked for */
    int starts;  /* no text is before the drawn one; -1: not known yet */
    int drops;   /* XTC drops tokens in this draw */
    int is_dead; /* no token was left to draw */
    size_t begin;
    double mu;             /* Mirostat's, before the next draw */
    double *mus;           /* stb_ds array: before the draw at begin, begin + 1, ... */
    struct banned *banned; /* stb_ds array, by position */
};

/* Takes rules; may be called again when they have changed. MGPT_OK or MGPT_EMEM. Zero it before. */
int chooser_open(struct chooser *c, const struct edit_rules *rules, mgpt_error *err);
void chooser_close(struct chooser *c);

/* Before chooser_open with the same rules in the same thread: what is known of the REGEX is that of `from`, which
 * stays. */
void chooser_share(struct chooser *c, const struct chooser *from);

/* A text whose drawn part begins at position `begin`. mu: Mirostat's, of a text that goes on; 0: as at its begin. */
void chooser_begin(struct chooser *c, size_t begin, double mu);

/* Prepares `sampler` to draw after n_tokens of history, which must stay. MGPT_OK or MGPT_EMEM. */
int chooser_prepare(struct chooser *c, mgpt_sampler *sampler, const int32_t *tokens,
                    size_t n_tokens, mgpt_error *err);

/* MGPT_OK, or MGPT_ETEXT with *err if the last draw, at this position, had no token left. */
int chooser_check(const struct chooser *c, size_t position, mgpt_error *err);

/* Draws as mgpt_sample from n logits. mgpt_draw_prob(sampler, ...) is then that of this draw, until
 * the next. Returns a token, or a negative status with *err: MGPT_EMEM; MGPT_ETEXT if no token is left. */
int32_t chooser_draw(struct chooser *c, mgpt_sampler *sampler, const float *logits, size_t n,
                     const int32_t *tokens, size_t n_tokens, mgpt_error *err);

/* After tokens[n_tokens - 1] was drawn: if a banned text has been completed, the position of the token in
 * which it began, which is not drawn there again: the text goes back to there. Else n_tokens. *text (or
 * NULL): which. MGPT_EMEM is a negative number. */
int64_t chooser_back(struct chooser *c, const int32_t *tokens, size_t n_tokens,
                     const struct edit_text **text);

/* 1 if the drawn text of this history matches REGEX and cannot go on. */
int chooser_is_complete(struct chooser *c, const int32_t *tokens, size_t n_tokens);

/* Tokens that no banned text can still take back. */
size_t chooser_final(const struct chooser *c, const int32_t *tokens, size_t n_tokens);

/* The edits of one draw, for mgpt_sampler.edit. user: the chooser. */
void chooser_edit(float *logits, size_t n, const int32_t *tokens, size_t n_tokens, void *user);

/* Parts of it: edit_penalties.c and edit_filters.c. */
void edit_penalties(struct chooser *c, float *logits, size_t n, const int32_t *tokens,
                    size_t n_tokens);
void edit_dry(struct chooser *c, float *logits, size_t n, const int32_t *tokens, size_t n_tokens);
void edit_nsigma(const struct chooser *c, float *logits, size_t n);
void edit_typical(struct chooser *c, float *logits, size_t n);
void edit_xtc(const struct chooser *c, float *logits, size_t n);
void edit_mirostat(const struct chooser *c, float *logits, size_t n);

#endif
