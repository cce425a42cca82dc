/* Lines for the repl: edited in a terminal (libedit: history, completion), plain otherwise. */
#ifndef MGPT_LINE_H
#define MGPT_LINE_H

#include "mgpt.h"

#include <stddef.h>

struct line_reader {
    int terminal; /* both ends are: there is a prompt */
    char *line;   /* the last line, or what was pasted */
    char *rest;   /* in `line`: the lines of a pasted script that come next, or NULL */
    size_t cap;
    const char *history; /* a file, or NULL */
    mgpt_error failed;   /* status < 0: why there was no further line, when it was not the end */
};

/* What a word can be completed to, being collected. */
struct line_words;

/* Adds one; returns 0 when there are enough. */
int line_add(struct line_words *words, const char *word);

/* Adds the words that complete `begin`, the beginning of a word; `before` is the line in front of
 * it. It must be the same for all readers of a process; NULL completes nothing. */
typedef void line_complete_fn(const char *before, const char *begin, struct line_words *words,
                              void *user);

/* Opens a reader. `history`: a file of earlier lines, which need not exist yet, or NULL. Returns a
 * negative status with *err if the file cannot be read; the reader works without it. */
int line_open(struct line_reader *reader, const char *history, line_complete_fn *complete,
              void *user, mgpt_error *err);

/* The next line without its line end, NULL at the end of input. Lives until the next call. */
char *line_next(struct line_reader *reader, const char *prompt, size_t *n_bytes);

/* Writes the history, where there is a file for it. */
int line_close(struct line_reader *reader, mgpt_error *err);

#endif
