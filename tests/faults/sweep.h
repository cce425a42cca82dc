/* Tests: one operation over and over, each time with another call failing. See sweep.c. */
#ifndef TESTS_SWEEP_H
#define TESTS_SWEEP_H

/* An entry point of a command, or a function of the same shape. What it returns is an exit code. */
typedef int sweep_fn(int argc, char **argv);

enum sweep_rule {
    SWEEP_PLAIN,  /* a failure ends it */
    SWEEP_GOES_ON /* a script: a failure is told in a line, the next command runs, the code is the
                     failure's */
};

struct sweep {
    const char *name;
    sweep_fn *run;
    /* Arguments with spaces between; '@x' is x in the repository, '%x' a prepared file. */
    const char *line;
    const char *input; /* stdin, NULL: empty */
    enum sweep_rule rule;
    int replaces; /* 1: what it writes is there before, as an old file */
};

/* Makes the directories. Exits when that fails. */
void sweep_begin(void);

/* Files for '%x': what a command without faults writes, a text, a link into the repository. */
void sweep_prepare(sweep_fn *run, const char *line);
void sweep_put(const char *name, const char *text);
void sweep_link(const char *name, const char *target); /* target: in the repository */

/* The path of a prepared file, for a test that makes the file itself. A few later calls reuse the string. */
const char *sweep_path(const char *name);

/* The whole sweep; prints one line. Returns how many runs went wrong. */
int sweep_run(const struct sweep *s);

/* Removes the directories and prints the totals. */
void sweep_end(void);

#endif
