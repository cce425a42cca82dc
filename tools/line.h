/* Lines for the repl: edited in a terminal (libedit: history, completion), plain otherwise. */
#ifndef MGPT_LINE_H
#define MGPT_LINE_H

#include <stddef.h>

struct line_reader {
    int terminal; /* both ends are: there is a prompt */
    char *line;   /* the last line */
    size_t cap;
};

/* `complete` gets the beginning of a word at the start of a line and returns the i-th way to end it
 * (a literal), or NULL when there are no more. It must be the same for all readers of a process. */
typedef const char *line_complete_fn(const char *begin, size_t i);
void line_open(struct line_reader *reader, line_complete_fn *complete);

/* The next line without its line end, NULL at the end of input. Lives until the next call. */
char *line_next(struct line_reader *reader, const char *prompt, size_t *n_bytes);
void line_close(struct line_reader *reader);

#endif
