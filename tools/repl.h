/* The repl: its state and its table of commands. A command is a row in repl_commands.c. */
#ifndef MGPT_REPL_H
#define MGPT_REPL_H

#include "edits.h"
#include "engine.h"
#include "sampling.h"

enum { REPL_NAME = 32, REPL_BRANCHES = 64 };

/* A timeline: the tokens of its session, and behind them those that going back has left `ahead`. */
struct repl_branch {
    char name[REPL_NAME];
    mgpt_session *session; /* NULL until the branch is used */
    int32_t *ahead;        /* stb_ds array: tokens behind the session's */
    size_t resume;         /* how many of them are fed when the branch is used next */
};

struct repl {
    struct engine engine; /* engine.session is the current branch's */
    struct sampling sampling;
    struct repl_branch *branches; /* stb_ds array, at least one */
    size_t current;
    struct edits edits; /* in force in all branches */
    int quit;
};

struct repl_command {
    const char *name;    /* "/top" */
    const char *args;    /* "[N]" */
    const char *help;    /* one line */
    const char *example; /* a line to type, and what it does */
    /* args: what follows the name, n bytes and a NUL; may be changed. */
    void (*run)(struct repl *repl, char *args, size_t n);
};

extern const struct repl_command repl_commands[];
extern const size_t repl_n_commands;

/* The row with this name, or NULL after telling the user which one may have been meant. */
const struct repl_command *repl_find(const char *name);

/* Feeds text (BOS first where the model wants it) and shows the tokens. */
void repl_feed(struct repl *repl, const char *text, size_t n);

/* Draws one token and keeps it: the empty line. */
void repl_step(struct repl *repl);

/* A message about a command that failed; what was printed before it comes out first. */
__attribute__((format(printf, 1, 2))) void repl_error(const char *fmt, ...);

/* The same for a failure of the library. */
void repl_failed(const mgpt_error *err);

/* Reads the whole of args as a number from min on; `otherwise` when there is none. 0: said so. */
int repl_count(const char *args, int32_t min, int32_t otherwise, int32_t *n);

/* The logits to choose from, NULL when there are none (the user knows). An empty session of a model
 * with BOS hears it now. */
const float *repl_logits(struct repl *repl);
size_t repl_n_logits(const struct repl *repl);

/* 1 for the likeliest token; among equals the lowest id comes first. */
size_t repl_rank(const float *logits, size_t n, int32_t token);

/* Runs the tokens of the current timeline anew in a session of its own, with the edits in force; fn (it
 * may be NULL) is called at every point of the mask, on this thread. 1, or 0 after telling the user.
 * repl_replay_kept hands that session over, with its cache and logits and without taps: the caller
 * frees it. repl_replay.c */
int repl_replay(struct repl *repl, uint64_t points, mgpt_tap_fn *fn, void *user);
mgpt_session *repl_replay_kept(struct repl *repl, uint64_t points, mgpt_tap_fn *fn, void *user);

/* Commands, by file. */
void repl_run_feed(struct repl *repl, char *args, size_t n); /* repl_run.c */
void repl_run_ids(struct repl *repl, char *args, size_t n);
void repl_run_steps(struct repl *repl, char *args, size_t n);
void repl_run_generate(struct repl *repl, char *args, size_t n);
void repl_run_back(struct repl *repl, char *args, size_t n);
void repl_run_reset(struct repl *repl, char *args, size_t n);
void repl_run_top(struct repl *repl, char *args, size_t n); /* repl_look.c */
void repl_run_p(struct repl *repl, char *args, size_t n);
void repl_run_tokens(struct repl *repl, char *args, size_t n);

/* Reads "L.H" or "mlp.L" (head -1) at *at and moves behind it and the spaces there. 0: said so. */
int repl_read_part(const struct repl *repl, const char **at, int32_t *layer, int32_t *head);

/* Reads a token: an id, or anything else, or anything in quotes, as the text of one token. The text may be
 * changed. 0: said so. */
int repl_read_token(const struct repl *repl, char *args, size_t n, int32_t *token);

#endif
