/* Log-probabilities of many texts with few passes over the weights.
 *
 * Texts with the same context are a group, whose context runs once. Contexts of many groups, and then
 * what follows them, run in common passes (mgpt_feed_many), each text in a session of its own that
 * begins as a fork where it shares tokens with others. The numbers are those of the text alone, to
 * the bit, and are added up in the order of its tokens.
 */
#ifndef MGPT_SCORE_TEXTS_H
#define MGPT_SCORE_TEXTS_H

#include "common/progress.h"
#include "engine/engine.h"
#include "score/score_windows.h"

struct scored_text {
    const char *text; /* borrowed; NULL for a context with a continuation */
    size_t n_bytes;
    int32_t *tokens;  /* malloc'ed: [n_context + n_scored] or more */
    size_t n_context; /* tokens that are only seen, at least 1; those of a text are its first */
    size_t n_scored;  /* tokens after them */
    int cut;          /* 1: a context that does not fit the model, and this is what fits */
    int is_done;      /* it has its numbers */
    size_t n_windows; /* that it was scored in */
    double nll;       /* in nats: the sum of -log p */
    int is_greedy;    /* 1 in: say whether each token is the likeliest. 1 out: they are */
    /* Arrays of the caller's, or NULL: the log-probability of token n_context + i, and the n_top
     * likeliest tokens in its place ([n_scored][n_top]; n_top is not above the vocabulary). */
    double *logprobs;
    mgpt_candidate *top;
    size_t n_top;
};

enum { SCORE_SLOTS = 48 };

/* What is expected in a session after the context of n texts, and for one text further on. */
struct score_job {
    struct scorer *scorer;
    struct scored_text **texts;
    size_t n;
    struct watcher watcher, steering;
};

/* What scores one batch after the other. */
struct scorer {
    struct engine *engine;
    mgpt_session *base;                                       /* holds what contexts share */
    mgpt_error err;                                           /* what failed */
    mgpt_session *contexts[SCORE_SLOTS], *slots[SCORE_SLOTS]; /* NULL until they are needed */
    struct score_job jobs[SCORE_SLOTS];
    mgpt_run runs[1 + 2 * SCORE_SLOTS]; /* the first one lends its scratch and has no tokens */
    size_t n_jobs, n_runs, n_rows;      /* of the next passes; n_runs without the first */
    mgpt_error refused;                 /* logits that are not finite */
};

/* A part of a long work whose progress is shown: from `from` to `to` of `all`. */
struct score_shown {
    struct progress *line; /* NULL: nothing is shown */
    uint64_t from, to, all;
};

/* n_done of the part's n_all are done. */
void score_show(const struct score_shown *shown, size_t n_done, size_t n_all);

/* The texts of a run: they are dealt to threads where passes are too small for these (score_team.c). */
struct score_team {
    struct engine *engine;        /* with a session */
    struct score_windows windows; /* of texts with more tokens than a window has */
    size_t n;                     /* threads; 0: not chosen yet */
    struct pool *pool;            /* NULL: one thread, whose passes may have several */
    struct scorer *scorers;       /* [n] */
    struct score_walk **walks;    /* [n]; NULL: not for this model */
    struct score_shown shown;     /* by the first thread */
};

/* The number of threads that take batches of their own; 1: the engine's threads run a pass together. */
size_t score_n_scorers(const struct engine *e);

/* 1: the text has several windows. Then it needs logprobs. */
int score_rolls(const struct score_team *team, const struct scored_text *text);

/* Fills in nll, is_greedy, logprobs and top for n texts; one with nothing to score needs no tokens.
 * After a failure some texts may be done. Returns an exit code. */
int score_texts(struct score_team *team, struct scored_text *texts, size_t n);
void score_close(struct score_team *team);

/* How many of n texts and windows, sorted by score_compare, a scorer takes next; *prefix for score_batch. */
int score_compare(const void *left, const void *right);
size_t score_batch_size(struct scored_text **texts, size_t n, size_t *prefix);

/* Runs them. Returns a status, with s->err. */
int score_batch(struct scorer *s, struct scored_text **texts, size_t n, size_t prefix);
void scorer_close(struct scorer *s);

/* These logits are what the model expects in the place of scored token i: for is_greedy and top. */
void score_note_choice(struct scored_text *text, size_t i, const float *logits, size_t n_vocab);

#endif
