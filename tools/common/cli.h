/* Shared by all commands of the mgpt binary: options, exit codes, error messages.
 *
 * stdout carries results and nothing else; everything here prints to stderr, except --help.
 */
#ifndef MGPT_CLI_H
#define MGPT_CLI_H

#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The exit codes, X(ID, number, words of --help). A command may have words of its own. */
#define EXIT_CODES(X)                                                                              \
    X(OK, 0, "ok")                                                                                 \
    X(DIFFERENT, 1, "check says different")                                                        \
    X(USAGE, 2, "usage")          /* options, arguments, text that the vocabulary lacks */         \
    X(REFUSED, 3, "file refused") /* invalid, or of the wrong kind */                              \
    X(FULL, 4, "out of memory or context")                                                         \
    X(IO, 5, "input/output")                                                                       \
    X(INTERRUPTED, 130, "interrupted")

#define EXIT_NUMBER(id, number, words) EXIT_##id = number,
#define EXIT_PLACE(id, number, words) EXIT_AT_##id,
enum { EXIT_CODES(EXIT_NUMBER) };
enum { EXIT_CODES(EXIT_PLACE) EXIT_N_CODES };

enum { CLI_CHOSEN = -1, CLI_MAX_THREADS = 256 /* of mgpt.h */ };

enum cli_kind { CLI_FLAG, CLI_INT, CLI_U64, CLI_REAL, CLI_TEXT, CLI_MANY };

enum { CLI_MAX_MANY = 16 };

/* The values of an option that may be given more than once, in order. */
struct cli_many {
    const char *values[CLI_MAX_MANY];
    size_t n;
};

/* The groups of --help, X(ID, title), in their order; those of a command are the groups of its rows. */
#define CLI_GROUPS(X)                                                                              \
    X(FEW, "") /* the command has few options, which are a list without groups */                  \
    X(USED, "most used")                                                                           \
    X(MODEL, "model")                                                                              \
    X(TEXT, "text")                                                                                \
    X(CHOICE, "choosing tokens")                                                                   \
    X(WHERE, "which values")                                                                       \
    X(BOUNDS, "bounds")                                                                            \
    X(SELF, "with --self")                                                                         \
    X(MEASURED, "what is measured")                                                                \
    X(VOCAB, "vocabulary")                                                                         \
    X(FACTS, "facts that the checkpoint lacks")                                                    \
    X(LIST, "a list of parameters")                                                                \
    X(OUTPUT, "output")                                                                            \
    X(SPEED, "speed and memory")                                                                   \
    X(LOOK, "looking")
#define CLI_GROUP_ID(id, title) IN_##id,
enum cli_group { CLI_GROUPS(CLI_GROUP_ID) CLI_N_GROUPS };
enum { CLI_FEW = 12 }; /* options, from one more on --help has groups */

/* One option. `to` points to int (CLI_FLAG: set to 1), int32_t, uint64_t, double, const char *,
 * struct cli_many (CLI_MANY).
 * Numbers must be in [min, max] when min < max. A CLI_INT whose arg begins with '[' may be given
 * without a value and is then CLI_CHOSEN; a number after it is its value. */
struct cli_option {
    const char *name; /* "--temp"; with a short form: "-n, --tokens". Some have aliases (cli.c) */
    const char *arg;  /* "N", "FILE"; NULL for a flag */
    enum cli_kind kind;
    void *to;
    double min, max;
    const char *help;
    enum cli_group group;
};

struct cli_command {
    const char *name;     /* "generate" */
    const char *operands; /* "[MODEL]", for the usage line */
    const char *summary;  /* one line */
    const char *notes;    /* examples, printed before the exit codes of --help; may be NULL */
    const struct cli_option *options;
    size_t n_options;
    int min_operands, max_operands;
    const char *notes_first;  /* printed before the notes; NULL: none */
    const char *const *exits; /* [EXIT_N_CODES] words for exit codes; NULL: those of the table */
};

/* A command whose options are the rows of an array, at most CLI_MAX_OPTIONS. */
enum { CLI_MAX_OPTIONS = 80 };
#define CLI_ROWS(rows) (sizeof(rows) / sizeof *(rows))
#define CLI_N_OPTIONS(rows)                                                                        \
    (CLI_ROWS(rows) + 0 * sizeof(struct {                                                          \
                          _Static_assert(CLI_ROWS(rows) <= CLI_MAX_OPTIONS,                        \
                                         "more options than CLI_MAX_OPTIONS");                     \
                          int unused;                                                              \
                      }))
#define CLI_COMMAND(name, operands, summary, notes, exits, rows, min_operands, max_operands)       \
    {                                                                                              \
        name, operands, summary, notes, rows, CLI_N_OPTIONS(rows), min_operands, max_operands,     \
            NULL, exits                                                                            \
    }

/* Parses argv[1..] (argv[0] is the command's name). Stores operands in operands[] and returns their
 * number. Returns -1 after printing --help, -2 after printing a usage error (with the nearest
 * option as a suggestion); cli_parse_exit turns these into an exit code. "--" ends the options. */
int cli_parse(const struct cli_command *command, int argc, char **argv, const char **operands);
int cli_parse_exit(int parsed);

/* A list in lines of at most 97 columns, which end between two items. */
struct cli_list {
    FILE *to;
    const char *between; /* two items, besides a space or the end of a line */
    size_t indent;       /* of the lines after the first */
    size_t column; /* where the next item begins; at first, the width that the caller has printed */
    size_t n_items;
};
void cli_print_item(struct cli_list *l, const char *item);

/* "tokens" of "-n, --tokens"; NULL for an option that has only a letter. */
const char *cli_long_name(const struct cli_option *option);

/* The other name of an option, or NULL. */
const char *cli_alias(const struct cli_option *option);

/* ---- completion (tools/completions.h) ---- */

/* Where the cursor is. */
struct cli_typed {
    const char *option; /* the word before it, or "" */
    const char *word;   /* what is typed of the word */
    const char *before; /* what is printed before each candidate: "--kv=" */
};

/* A command that is called with this word and the three texts of a struct cli_typed prints its candidates. */
#define CLI_COMPLETE "--complete"
#define CLI_FILES ":files" /* a line of its own: names of files, too */

/* Prints "word TAB about" if the word begins as typed. */
void cli_candidate(const struct cli_typed *typed, const char *word, const char *about);

/* Prints the candidates of a command: values of the option before, from the list in its help; names of options. */
void cli_complete(const struct cli_command *command, const struct cli_typed *typed);

/* Prints the paragraph "exit codes: ..."; exits: as in cli_command. */
void cli_print_exits(FILE *to, const char *const *exits);

/* Parses text strictly as the number that the row describes. Returns 1 and stores it, or 0 if it
 * is not a number or out of range. */
int cli_set_number(const struct cli_option *option, const char *text);

/* "mgpt COMMAND: text" plus the hint to --help; returns EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int cli_usage(const struct cli_command *command,
                                                    const char *fmt, ...);

/* "mgpt: FILE: text (byte N)"; returns the exit code for err->status. file may be NULL. */
int cli_fail(const char *file, const mgpt_error *err);

/* What compiled this program: "gcc 12.2.0". */
#if defined(__clang__)
#define CLI_COMPILER __VERSION__
#else
#define CLI_COMPILER "gcc " __VERSION__
#endif

/* Prints "mgpt: text": what is wrong, or information for the user; --quiet silences cli_info only. */
__attribute__((format(printf, 1, 2))) void cli_note(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void cli_info(const char *fmt, ...);

/* --quiet was given: no information on stderr, no progress. */
void cli_set_quiet(void);
int cli_is_quiet(void);

/* Flushes stdout. Returns code, or prints an error and returns EXIT_IO if this or an earlier
 * write failed. */
int cli_finish(int code);

/* Reads a whole file, or stdin for "-", into a malloc'ed NUL-terminated buffer; NULL with *err. */
char *cli_read(const char *path, size_t *n_bytes, mgpt_error *err);

/* Reads as cli_read within limits, so that /dev/zero is not read for long. MGPT_EFULL for a file of more
 * than `all` bytes, or one with a line of more than `line` bytes. */
struct cli_limits {
    size_t all, line; /* 0: cli_read's own */
    int is_prefix;    /* 1: of a longer file, read the first `all` bytes */
};
char *cli_read_limited(const char *path, struct cli_limits limits, size_t *n_bytes,
                       mgpt_error *err);

/* Seconds on a clock that is never set back. */
double cli_seconds(void);

/* 1: both are names of one file. An output must not replace a file that is being read. */
int cli_same_file(const char *a, const char *b);

/* The name for a word of other programs, by a table of {word, name}; or NULL. */
struct cli_synonym {
    const char *word, *name;
};
const char *cli_synonym(const char *word, const struct cli_synonym *rows, size_t n_rows);

/* The name nearest to a misspelt word, or NULL if none is close. */
const char *cli_nearest(const char *word, const char *const *names, size_t n_names);

#endif
