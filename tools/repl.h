/* The repl: its state and its table of commands. A command is a row in repl_commands.c. */
#ifndef MGPT_REPL_H
#define MGPT_REPL_H

#include "engine.h"
#include "sampling.h"

struct repl {
    struct engine engine;
    struct sampling sampling;
    const char *screen_mode; /* options, see screen_look */
    int32_t width;
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

/* A number is an id; anything else, or anything in quotes, is the text of one token (args may be
 * changed). 0 after telling the user. */
int repl_token(const struct repl *repl, char *args, size_t n, int32_t *token);

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
void view_attention(struct repl *repl, char *args, size_t n); /* view_attend.c */
void view_heads(struct repl *repl, char *args, size_t n);
void view_dot(struct repl *repl, char *args, size_t n); /* view_head.c */
void view_mix(struct repl *repl, char *args, size_t n);
void view_lens(struct repl *repl, char *args, size_t n);    /* view_lens.c */
void view_dla(struct repl *repl, char *args, size_t n);     /* view_dla.c */
void view_norms(struct repl *repl, char *args, size_t n);   /* view_resid.c */
void view_neurons(struct repl *repl, char *args, size_t n); /* view_mlp.c */
void view_cache(struct repl *repl, char *args, size_t n);   /* view_kv.c */
void view_tensor(struct repl *repl, char *args, size_t n);  /* view_tensor.c */

#endif
