/* What every command of the mgpt binary shares: options, exit codes, error lines.
 *
 * stdout carries results and nothing else; everything here prints to stderr, except --help.
 */
#ifndef MGPT_CLI_H
#define MGPT_CLI_H

#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

enum {
    EXIT_OK = 0,
    EXIT_DIFFERENT = 1, /* check: the logits differ */
    EXIT_USAGE = 2,     /* options, arguments, a prompt the vocabulary cannot express */
    EXIT_REFUSED = 3,   /* a file is not what it should be */
    EXIT_FULL = 4,      /* memory or context exhausted */
    EXIT_IO = 5,
    EXIT_INTERRUPTED = 130
};

enum { CLI_CHOSEN = -1, CLI_MAX_THREADS = 256 /* of mgpt.h */ };

enum cli_kind { CLI_FLAG, CLI_INT, CLI_U64, CLI_REAL, CLI_TEXT };

/* One option. `to` points to int (CLI_FLAG: set to 1), int32_t, uint64_t, double, const char *.
 * Numbers must lie in [min, max] when min < max. A CLI_INT whose arg begins with '[' may stand alone and
 * is then CLI_CHOSEN; a number that follows it is its value. */
struct cli_option {
    const char *name; /* "--temp"; with a short form: "-n, --tokens". Some have aliases (cli.c) */
    const char *arg;  /* "N", "FILE"; NULL for a flag */
    enum cli_kind kind;
    void *to;
    double min, max;
    const char *help;
};

struct cli_command {
    const char *name;     /* "generate" */
    const char *operands; /* "[MODEL]", for the usage line */
    const char *summary;  /* one line */
    const char *notes;    /* examples and exit codes, printed at the end of --help; may be NULL */
    const struct cli_option *options;
    size_t n_options;
    int min_operands, max_operands;
};

/* Parses argv[1..] (argv[0] is the command's name). Operands go to operands[]; their number is
 * returned. Returns -1 after --help was printed, -2 after a usage error was (with the nearest
 * option as a suggestion): cli_parse_exit turns these into an exit code. "--" ends the options. */
int cli_parse(const struct cli_command *command, int argc, char **argv, const char **operands);
int cli_parse_exit(int parsed);

/* Reads text strictly as the number that the row describes: 1 when it was stored, 0 when it is none
 * or out of range. */
int cli_set_number(const struct cli_option *option, const char *text);

/* "mgpt COMMAND: text" plus the hint to --help; returns EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int cli_usage(const struct cli_command *command,
                                                    const char *fmt, ...);

/* "mgpt: FILE: text (byte N)"; returns the exit code for err->status. file may be NULL. */
int cli_fail(const char *file, const mgpt_error *err);

/* "mgpt: text": something the user should know; the run goes on. Silenced by nothing. */
__attribute__((format(printf, 1, 2))) void cli_note(const char *fmt, ...);

/* Flushes stdout; returns EXIT_IO with a line when that (or an earlier write) failed, else code. */
int cli_finish(int code);

/* Reads a whole file, or stdin for "-", into a malloc'ed NUL-terminated buffer; NULL with *err. */
char *cli_read(const char *path, size_t *n_bytes, mgpt_error *err);

/* The same with limits, so that /dev/zero is not read for long. MGPT_EFULL for a file of more than `all` bytes,
 * or one with a line of more than `line` bytes. */
struct cli_limits {
    size_t all, line; /* 0: cli_read's own */
    int is_prefix;    /* 1: of a longer file the first `all` bytes are enough */
};
char *cli_read_limited(const char *path, struct cli_limits limits, size_t *n_bytes,
                       mgpt_error *err);

/* 1: both are names of one file. Replacing what is being read would be a surprise even where it works. */
int cli_same_file(const char *a, const char *b);

/* The name that a word of other programs stands for, by a table of {word, name}; or NULL. */
struct cli_synonym {
    const char *word, *name;
};
const char *cli_synonym(const char *word, const struct cli_synonym *rows, size_t n_rows);

/* The name most like a misspelt word, or NULL when none is close. */
const char *cli_nearest(const char *word, const char *const *names, size_t n_names);

#endif
