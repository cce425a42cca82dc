/* The tokens that a command works on, as its options say: a text, a file, or a list of ids. */
#ifndef MGPT_INPUT_H
#define MGPT_INPUT_H

#include "common/cli.h"
#include "engine/engine.h"

struct input {
    const char *text, *file, *ids; /* options */
    const char *what;              /* it in messages; NULL: "prompt", and "--ids" */
    int special, escapes;
    int32_t *tokens; /* malloc'ed; the caller's to free */
    size_t n_tokens;
};

/* clang-format off */
/* Rows of an option table; in is a struct input. */
#define INPUT_OPTIONS(in)                                                                          \
    {"-p, --prompt", "TEXT", CLI_TEXT, &(in).text, 0, 0,                                           \
     "the text; the model's BOS is put in front where it wants that", IN_USED},                    \
    {"-f, --file", "FILE", CLI_TEXT, &(in).file, 0, 0, "read it from a file; - is stdin", IN_USED},\
    {"-e, --escapes", NULL, CLI_FLAG, &(in).escapes, 0, 0,                                         \
     "-p has escapes: \\n, \\t, \\xHH, \\u{HHHH}, \\\\", IN_TEXT},                                 \
    {"--ids", "LIST", CLI_TEXT, &(in).ids, 0, 0, "or the tokens: '26,0,13'", IN_TEXT},             \
    {"--special", NULL, CLI_FLAG, &(in).special, 0, 0,                                             \
     "read <|endoftext|> and other control tokens in the text as tokens", IN_TEXT}
/* clang-format on */

/* How many of -p, -f and --ids were given. */
int input_count(const struct input *in);

/* "-" when nothing was given and stdin is a pipe or a file, as in `echo anna | mgpt generate M`;
 * else what was given. A terminal, /dev/null, a closed stdin and a socket, which may stay open for
 * ever, are not read. */
const char *input_or_pipe(const char *file, int n_given);

/* Reads what was given; without anything the text is empty. A text gets the BOS token that generate
 * gives it. Returns an exit code; after a failure the user has been told. */
int input_read(struct input *in, const struct engine *engine, const struct cli_command *command);

#endif
