/* mgpt repl --screen full: the commands' own output in panes, redrawn after each key. */
#ifndef MGPT_FULL_H
#define MGPT_FULL_H

#include "repl/repl.h"

/* Runs until q, Ctrl-C or the end of input. stdin and stdout must be a terminal. Returns an exit code. */
int full_run(struct repl *repl);

/* The terminal while the view has it. Signals that stop or end the process put it back first; after a stop it is
 * taken again. take returns 0 when there is no terminal. */
int full_take_terminal(void);
void full_leave_terminal(void);

/* Writes what has been drawn. */
void full_write(const char *bytes, size_t n);

/* Its size, from the terminal. */
void full_size(size_t *rows, size_t *cols);

/* The next key: a byte, or one of these; FULL_AGAIN: draw again, the size may be another. */
enum { FULL_UP = 256, FULL_DOWN, FULL_RIGHT, FULL_LEFT, FULL_AGAIN, FULL_STOP };
int full_key(void);

#endif
