/* A tree of prefixes: the samples of a block, and the timelines that run them. Used by prefixes.c. */
#ifndef MGPT_PREFIX_TREE_H
#define MGPT_PREFIX_TREE_H

#include "generate/draw_groups.h"
#include "generate/sample_text.h"

struct timeline {
    mgpt_session *session;
    struct group *waiting;   /* stb_ds array, used as a stack; parents are on the path to `at` */
    struct group at;         /* n = 0: no work */
    int32_t *path;           /* [longest] tokens drawn */
    struct text_out text;    /* of the prompt and the path */
    struct text_mark *marks; /* [longest + 1] of the text, by depth */
};

/* Text and tokens of a prefix that samples have ended with. */
struct ended {
    uint32_t n_text, n_tokens; /* bytes; tokens, for --json only */
    enum ending ending;
};

struct prefix_tree {
    struct samples *ask;
    struct timeline *lines;
    size_t n_lines, longest; /* longest: most tokens of a sample */

    /* A block of n samples, from number `first` on. */
    uint64_t first;
    size_t n, room, n_printed, n_drawn;
    struct draw_groups draw; /* numbers of samples are those in the block */
    uint32_t *result;        /* [n] index of struct ended in results; 0: goes on */
    char *results;           /* stb_ds array: struct ended, tokens, text; index 0 is not used */

    mgpt_session **stepped; /* [n_lines] with the tokens to step */
    int32_t *step;
    struct sample_text text; /* of the next sample to print */
    size_t n_shown;          /* bytes of its text that have been shown */
    int prints;              /* while it runs, not when its samples have ended */
    int holds;               /* what it prints: another tree's samples come before */
    int code;                /* exit code of the block */
    mgpt_error err;          /* with status < 0: what to tell */
};

/* Runs the block's samples. Errors are kept for the end, which prints what is left to print and
 * returns the block's exit code. */
void prefix_tree_run(struct prefix_tree *t);
int prefix_tree_end(struct prefix_tree *t);

#endif
