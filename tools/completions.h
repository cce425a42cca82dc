/* mgpt completions: the scripts for bash, zsh and fish, and the candidates that they ask for. */
#ifndef MGPT_COMPLETIONS_H
#define MGPT_COMPLETIONS_H

#include <stddef.h>

/* A command of the mgpt binary; run is NULL if this build leaves it out. */
struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
};

/* mgpt completions bash|zsh|fish prints the script. mgpt completions -- WORD... prints a line for each candidate for the
 * last word: "word TAB about", or ":files" where names of files fit. Returns the exit code. */
int completions(const struct command *commands, size_t n_commands, int argc, char **argv);

#endif
