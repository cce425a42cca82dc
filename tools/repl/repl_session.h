/* Session files: what writing and reading them share. The format is described in repl_save.c. */
#ifndef MGPT_REPL_SESSION_H
#define MGPT_REPL_SESSION_H

#include "repl/repl.h"

#define REPL_SESSION_FORMAT "mgpt session"
#define REPL_SESSION_VERSION 1
#define REPL_SESSION_STEERED 2 /* with steering, which programs before it would leave out */

/* The hash of the model's file, computed when it is asked for the first time. */
int repl_model_hash(struct repl *repl, uint64_t *hash, mgpt_error *err);

#endif
