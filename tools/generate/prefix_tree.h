/* A tree of prefixes: samples of a block, and the timelines that run them. Used by prefixes.c.
 *
 *   sample    one continuation of the prompt, with random numbers of its own
 *   block     samples that are drawn together
 *   prefix    the tokens with which some samples of a block begin
 *   group     the samples of a block with one prefix: one pass gives the logits that all of them draw from
 *   timeline  a session that runs prefixes: its path is the prefix that it holds, and groups with longer
 *             prefixes wait in its stack
 *   tree      the timelines of one thread; results of samples are stored in it
 */
#ifndef MGPT_PREFIX_TREE_H
#define MGPT_PREFIX_TREE_H

#include "generate/draw_groups.h"
#include "generate/sample_text.h"

#include <stdatomic.h>

struct timeline {
    mgpt_session *session;
    struct group *waiting;   /* stb_ds array, used as a stack; parents are on the path to `at` */
    struct group at;         /* n = 0: no work */
    int32_t *history;        /* the prompt, if draws depend on it, and path */
    int32_t *path;           /* [longest] tokens drawn, in history */
    struct text_out text;    /* of the prompt and the path */
    struct text_mark *marks; /* [longest + 1] of the text, by depth */
};

/* Text and tokens of a prefix that samples have ended with. */
struct ended {
    uint32_t n_text, n_tokens; /* bytes; tokens, for --json only */
    enum ending ending;
    uint32_t stop; /* END_TEXT: index of the stop text */
};

/* A group that waits for a tree, with its prefix. */
enum { SHARED_DEPTH = 8 };
struct shared_group {
    struct group g;
    int32_t path[SHARED_DEPTH];
};

/* Samples that run together, from number `first` on, and the trees of the threads that run them. The
 * numbers of samples below are those in the block. */
struct prefix_block {
    struct samples *ask;
    uint64_t first;
    size_t n, room;
    struct draw_samples samples;
    uint32_t *result; /* [n] number of the sample's struct ended (prefix_tree.c); 0: goes on */
    struct prefix_tree *trees;
    size_t n_trees;
    struct shared_group *shared; /* stb_ds array: groups for trees without work, largest first */
    atomic_size_t n_taken;
};

struct prefix_tree {
    struct samples *ask;
    struct prefix_block *block;
    struct timeline *lines;
    size_t n_lines, longest; /* longest: most tokens of a sample */
    size_t n_busy;           /* lines in the last pass */
    struct draw_groups draw;
    struct chooser chooser;
    char *results; /* stb_ds array: struct ended, tokens, text; index 0 is not used */
    size_t n_drawn;

    mgpt_session **stepped; /* [n_lines] with the tokens to step */
    int32_t *step;
    size_t n_printed, end;   /* of the block's samples it prints [n_printed, end) */
    struct sample_text text; /* of the next sample to print */
    size_t n_shown;          /* bytes of its text that have been shown */
    int code;                /* exit code of the block */
    mgpt_error err;          /* with status < 0: what to tell */
};

/* Begins a block, of whose samples it is to print [from, to). The only tree prints while it runs;
 * of several all but the first hold what they print until their end. */
void prefix_tree_begin(struct prefix_tree *t, size_t from, size_t to);

/* The sampler for a group of this depth at a line, which another tree may have. Returns a status, in t->err. */
int prefix_tree_sampler(struct prefix_tree *t, const struct timeline *line, uint32_t depth,
                        mgpt_sampler *sampler);

/* Divides a group that has drawn into children. Children whose text goes on wait at line 0. Returns a status. */
int prefix_tree_divide(struct prefix_tree *t, struct group g);

/* Moves line 0 to a group. Returns its logits, or NULL. */
const float *prefix_tree_go(struct prefix_tree *t, struct shared_group to);

/* Runs what waits at lines and in the block. Then prints, and at last what is held. Errors are kept
 * for the end, which returns the block's exit code. */
void prefix_tree_run(struct prefix_tree *t);
void prefix_tree_print(struct prefix_tree *t);
int prefix_tree_end(struct prefix_tree *t);

#endif
