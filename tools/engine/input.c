/* From options to tokens. See input.h. */
#include "engine/input.h"

#include "common/text.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int input_count(const struct input *in)
{
    return (in->text != NULL) + (in->file != NULL) + (in->ids != NULL);
}

const char *input_or_pipe(const char *file, int n_given)
{
    enum { PATIENCE = 1000 }; /* ms */
    struct stat st;
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    if (n_given > 0 || fstat(STDIN_FILENO, &st) < 0 ||
        !(S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode)))
        return file;
    if (poll(&ready, 1, PATIENCE) == 0)
        cli_note("waiting for a text on stdin (-p or -f gives one, </dev/null none)");
    return "-";
}

static int input_read_ids(struct input *in, int32_t n_vocab)
{
    const char *at = in->ids;
    size_t cap = strlen(in->ids) / 2 + 1; /* a digit and a separator each */
    const char *what = in->what ? in->what : "--ids";
    int32_t id = 0;
    int got;
    in->tokens = malloc(cap * sizeof *in->tokens);
    if (!in->tokens) {
        cli_note("out of memory: the tokens");
        return EXIT_FULL;
    }
    while ((got = text_next_id(&at, &id)) == 1) {
        if (id < 0 || id >= n_vocab) {
            cli_note("%s: token %zu is %d, the model has ids 0 to %d", what, in->n_tokens, (int)id,
                     (int)n_vocab - 1);
            return EXIT_USAGE;
        }
        in->tokens[in->n_tokens++] = id;
    }
    if (got == 0)
        return EXIT_OK;
    cli_note("%s: expected a number at byte %zu", what, (size_t)(at - in->ids));
    return EXIT_USAGE;
}

/* Reads --prompt or --file into the tokens that mgpt generate would begin with. Returns an exit
 * code. */
static int input_read_text(struct input *in, const struct engine *engine,
                           const struct cli_command *command)
{
    const mgpt_info *info = &engine->info;
    char *bytes;
    size_t n;
    if (text_is_none(engine->model))
        return cli_usage(command, "this model has no vocabulary: give the tokens as --ids '0,1,2'");
    const struct cli_limits limits = {.all = engine_text_bytes(engine)};
    int code = text_prompt_limited(command, in->text, in->file, limits, &bytes, &n);
    if (code != EXIT_OK)
        return code;
    int64_t n_read = in->escapes && in->text ? text_unescape(bytes, n) : (int64_t)n;
    if (n_read < 0) {
        free(bytes);
        return cli_usage(command,
                         "-p: a backslash begins \\n, \\t, \\r, \\\", \\\\, \\xHH or \\u{HHHH}");
    }
    n = (size_t)n_read;
    if (in->file && n > 0 && bytes[n - 1] == '\n')
        n--;
    code = engine_encode(engine, in->what ? in->what : "prompt", bytes, n,
                         MGPT_NO_SPECIAL_TOKENS | (in->special ? MGPT_PARSE_SPECIAL : 0u),
                         info->add_bos || n == 0 ? info->bos : -1, &in->tokens, &in->n_tokens);
    free(bytes);
    return code;
}

int input_read(struct input *in, const struct engine *engine, const struct cli_command *command)
{
    if (in->escapes && !in->text)
        return cli_usage(command, "-e goes with -p");
    if (in->ids && input_count(in) > 1)
        return cli_usage(command, "give one of -p, -f, --ids");
    return in->ids ? input_read_ids(in, engine->info.n_vocab)
                   : input_read_text(in, engine, command);
}
