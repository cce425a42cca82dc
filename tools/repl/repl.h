/* The repl: its state and its table of commands. A command is a row in commands.inc.
 *
 *   timeline, branch  a session with a name; /branch forks the current one
 *   position          a token of the timeline, counted from 0; /back moves, and keeps what is ahead
 *   edit              a head or MLP that is left out or scaled, in all timelines
 *   view              a command that prints values of the pass: view_*.c
 *   lens              the logits that the residual stream of a layer gives (logit lens)
 */
#ifndef MGPT_REPL_H
#define MGPT_REPL_H

#include "engine/engine.h"
#include "engine/hooks.h"
#include "engine/sampling.h"
#include "repl/edits.h"
#include "repl/line.h"

enum { REPL_NAME = 32, REPL_BRANCHES = 64 };

/* A timeline: the tokens of its session, and after them those that going back has left `ahead`. */
struct repl_branch {
    char name[REPL_NAME];
    mgpt_session *session; /* NULL until the branch is used */
    int32_t *ahead;        /* stb_ds array: tokens after the session's */
    size_t resume;         /* how many of them are fed when the branch is used next */
};

/* A value that /watch shows: of the last position, at a point of a layer. In scores and weights the row is
 * a head, and a column below 0 a key counted from the end. */
struct repl_watched {
    char name[128]; /* as it is shown: hook and place */
    mgpt_point point;
    int32_t layer, row, col;
    float value; /* NaN: there is none; of MGPT_LOGITS the session keeps it */
};

struct repl {
    struct engine engine; /* engine.session is the current branch's */
    struct sampling sampling;
    struct repl_branch *branches; /* stb_ds array, at least one */
    size_t current;
    struct edits edits; /* in force in all branches */
    uint64_t model_hash;
    int model_hashed;
    struct hook *hooks;             /* listed at first use */
    char *trace_globs, *trace_path; /* malloc'ed while a trace is on */
    /* /watch: what is shown, how passes note it, and the session that the values are of; NULL: they
     * have been shown. */
    struct repl_watched *watches; /* stb_ds array */
    struct watcher watching;
    const mgpt_session *watched_in;
    char *steer_text; /* malloc'ed: what /steer has put in force; NULL: nothing yet */
    /* /with: a second model on the same tokens, malloc'ed, and its path; NULL: none. */
    struct engine *with;
    char *with_path;
    const char *screen_mode; /* options, see screen_look */
    int32_t width;
    /* The text that is being drawn: a draw goes on with it if the last one ended here. NULL: none, which tokens
     * that are fed begin anew. */
    const mgpt_session *drawn_session;
    size_t drawn_end;
    int quit;
};

/* A row of commands.inc; one without a name is a heading, its help the title. */
enum { REPL_NAMES = 4 };
struct repl_args;
typedef void repl_run_fn(struct repl *repl, struct repl_args *args);
struct repl_command {
    const char *names[REPL_NAMES]; /* "/a", "/attention", NULL: its own, then others */
    const char *usage, *types;     /* "[N]", "[count]" */
    repl_run_fn *run;
    const char *help; /* one line */
    const char *example;
};

extern const struct repl_command repl_commands[];
extern const size_t repl_n_commands;

#define HEADING(title)
#define COMMAND(names, usage, types, run, help, example) repl_run_fn run;
#include "repl/commands.inc"
#undef HEADING
#undef COMMAND

/* The row with this name of n bytes, or NULL. */
const struct repl_command *repl_named(const char *name, size_t n);

/* The row with this name, or NULL after telling the user which one may have been meant. */
const struct repl_command *repl_find(const char *name);

/* One line of input, n bytes and a NUL, without its line end; may be changed. */
void repl_line(struct repl *repl, char *line, size_t n);

/* A number of /set, from a row of SAMPLER_SETTINGS, or the seed; the edits (EDIT_SETTINGS) come after them: its name, its name in session
 * files, its place in struct sampling, its range (from 0 to max; max 0: no limit). */
struct repl_setting {
    const char *name, *key;
    enum cli_kind kind;
    size_t at;
    double max;
};
#define REPL_COUNT_SETTING(...) +1
enum { REPL_SETTINGS = SAMPLER_SETTINGS(REPL_COUNT_SETTING) + 1 };
extern const struct repl_setting repl_settings[]; /* [REPL_SETTINGS] */
void *repl_setting_of(const struct repl_setting *setting, struct sampling *sampling);

/* ---- messages: repl_message.c ---- */

/* A message about a command that failed; what was printed before it comes out first. */
__attribute__((format(printf, 1, 2))) void repl_error(const char *fmt, ...);

/* The exit code of the first line that failed, EXIT_OK if none has: that of a script. The messages
 * here note it; repl_note_code is for failures that were printed elsewhere. */
void repl_note_code(int code);
int repl_first_code(void);

/* A line on stdout with a text of the user's in it: what would move a cursor is printed as '?'. */
__attribute__((format(printf, 1, 2))) void repl_say(const char *fmt, ...);

/* Prints the texts of the first tokens, each after a space. */
void repl_print_tokens(const struct repl *repl, const int32_t *tokens, size_t n);

/* A message about a failure of the library, with a file, and for a lack of memory of our own. */
void repl_failed(const mgpt_error *err);
void repl_file_failed(const char *file, const mgpt_error *err);
void repl_no_memory(void);
void repl_bad_escape(void);

/* ---- the timelines: repl_timeline.c ---- */

/* Makes the first branch, of the engine's session. Returns 0 after printing an error. */
int repl_begin(struct repl *repl);

/* Frees the branches and the edits; the engine keeps the current session. */
void repl_end(struct repl *repl);

/* 1 for what may be a branch's name. The place of the branch called so; their number without
 * one. */
int repl_is_name(const char *name);
size_t repl_find_branch(const struct repl_branch *branches, const char *name);

/* Finds a branch by name; returns 0 after an error that names the nearest. */
int repl_choose_branch(const struct repl *repl, const char *name, size_t *branch);

/* How many tokens a branch holds, with or without a session, which ones, and how many are ahead of
 * them. */
size_t repl_branch_tokens(const struct repl_branch *branch, const int32_t **held, size_t *n_ahead);

/* Frees an array of branches, but one session. */
void repl_free_branches(struct repl_branch *branches, const mgpt_session *except);

/* Runs tokens in a session with the edits in force; Ctrl-C stops it. `look`, which may be NULL,
 * watches what the edits leave. */
int repl_run_tokens(struct repl *repl, mgpt_session *session, const int32_t *tokens, size_t n,
                    struct watcher *look, mgpt_error *err);

/* Appends tokens to the current branch; what was ahead is forgotten. */
int repl_append(struct repl *repl, const int32_t *tokens, size_t n, mgpt_error *err);

/* Goes to a position of the current branch, 0 .. tokens held and ahead. Going back leaves the
 * tokens after it ahead. After a failure the branch has the same tokens, but may be at an earlier
 * position. */
int repl_go(struct repl *repl, size_t pos, mgpt_error *err);

/* Computes the logits of the last token, if there is one and a failed move has lost them. Returns 0
 * after printing an error. */
int repl_compute_logits(struct repl *repl);

/* Brings a branch's session to where it was left. Returns 0 after an error; nothing has changed
 * then. */
int repl_open_branch(struct repl *repl, size_t branch);

/* A session of its own with the current tokens up to `keep`, then n others; as the edits want it.
 * `look`, which may be NULL, watches the others. NULL: after printing an error. The caller frees it,
 * or hands it to repl_take_session, as the current branch's. */
mgpt_session *repl_variant(struct repl *repl, size_t keep, const int32_t *tokens, size_t n,
                           struct watcher *look);
void repl_take_session(struct repl *repl, mgpt_session *session);

/* Puts `next` in force in place of the edits, in all branches, and prints what that changes. 0:
 * said so, and the edits are those of before. Owns `next` in either case. */
int repl_set_edits(struct repl *repl, struct edits next);

/* Puts steering vectors in force in the same way. */
int repl_set_steer(struct repl *repl, struct steer next);

/* ---- what is printed in several places ---- */

/* Feeds text (BOS first where the model wants it) and shows the tokens. */
void repl_feed(struct repl *repl, const char *text, size_t n);

/* Feeds tokens and shows them. */
void repl_feed_tokens(struct repl *repl, const int32_t *tokens, size_t n);

/* Draws one token and keeps it: the empty line. */
void repl_step(struct repl *repl);

/* "N of N_CTX", and how many tokens are ahead. */
void repl_print_place(const struct repl *repl);

/* How a next-token distribution has changed: the divergence of `after` from `before`, and the
 * tokens that are likely in one of them. The names are what the two are called. repl_effect.c */
void repl_print_effect(const struct repl *repl, const char *name_before, const float *before,
                       const char *name_after, const float *after);

/* ---- the second model: repl_with.c ---- */

/* /top with both models: the n likeliest of the first, then those of the second. */
void repl_with_top(struct repl *repl, const float *logits, const mgpt_candidate *top, size_t n);

/* /diff of both models on the current tokens, or of another timeline in the second model. */
void repl_with_diff(struct repl *repl);
void repl_with_diff_branch(struct repl *repl, const struct repl_branch *branch);
void repl_with_end(struct repl *repl);

/* The logits to choose from, NULL when there are none (the user knows). An empty session of a model
 * with BOS gets it now. */
const float *repl_logits(struct repl *repl);
size_t repl_n_logits(const struct repl *repl);

/* 1 for the likeliest token; among equals the lowest id comes first. */
size_t repl_rank(const float *logits, size_t n, int32_t token);

/* The entropy of the distribution, in nats. Values that cannot occur (-inf) add nothing. `top`: the
 * likeliest token. */
double repl_entropy(const float *logits, size_t n, const mgpt_candidate *top);

/* Draws a token. -1: there is nothing to draw from, or no room for it (the user knows). */
int32_t repl_run_draw(struct repl *repl, const float **logits);

/* Appends it. A banned text that it completes takes the branch back to where that began: *banned is then that
 * text, which repl_run_say_back prints, else NULL. 0: after an error. */
int repl_run_keep(struct repl *repl, int32_t token, const struct edit_text **banned);
void repl_run_say_back(const struct repl *repl, const struct edit_text *banned);

/* What the model says of each token held, and the n_top likeliest; 0 after telling the user. */
struct tokens_held;
int repl_held(struct repl *repl, size_t n_top, struct tokens_held *held);

/* A chain for passes in `session` that notes what /watch shows, then goes on with `next`; NULL: nothing to
 * do. repl_watch_print shows the values if the last such pass was in the current session. */
struct watcher *repl_watching(struct repl *repl, const mgpt_session *session, struct watcher *next);
void repl_watch_print(struct repl *repl);

/* Writes the trace that is on, if any, and ends it. */
void repl_trace_end(struct repl *repl);

/* The model's hooks, an stb_ds array that the repl keeps; NULL after telling the user. */
const struct hook *repl_hooks(struct repl *repl);

/* What a word of a line can be completed to; user is the repl. */
void repl_complete(const char *before, const char *begin, struct line_words *words, void *user);

/* Runs the tokens of the current timeline anew in a session of its own, with the edits in force; fn
 * (it may be NULL) is called at every point of the mask, on this thread. 1, or 0 after telling the
 * user. repl_replay_kept hands that session over, with its cache and logits and without taps: the
 * caller frees it. repl_replay.c */
int repl_replay(struct repl *repl, uint64_t points, mgpt_tap_fn *fn, void *user);
mgpt_session *repl_replay_kept(struct repl *repl, uint64_t points, mgpt_tap_fn *fn, void *user);

#endif
