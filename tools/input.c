/* From options to tokens. See input.h. */
#include "input.h"

#include "text.h"

#include <stdlib.h>
#include <string.h>

int input_count(const struct input *in)
{
    return (in->text != NULL) + (in->file != NULL) + (in->ids != NULL);
}

static int read_ids(struct input *in, int32_t n_vocab)
{
    const char *at = in->ids;
    size_t cap = strlen(in->ids) / 2 + 1; /* a digit and a separator each */
    int32_t id = 0;
    int got;
    in->tokens = malloc(cap * sizeof *in->tokens);
    if (!in->tokens) {
        cli_note("out of memory: the tokens");
        return EXIT_FULL;
    }
    while ((got = text_next_id(&at, &id)) == 1) {
        if (id < 0 || id >= n_vocab) {
            cli_note("--ids: token %zu is %d, the model has ids 0 to %d", in->n_tokens, (int)id,
                     (int)n_vocab - 1);
            return EXIT_USAGE;
        }
        in->tokens[in->n_tokens++] = id;
    }
    if (got == 0)
        return EXIT_OK;
    cli_note("--ids: expected a number at byte %zu", (size_t)(at - in->ids));
    return EXIT_USAGE;
}

/* The tokens that mgpt generate would begin with. */
static int read_text(struct input *in, const struct engine *engine,
                     const struct cli_command *command)
{
    const mgpt_info *info = &engine->info;
    char *bytes;
    size_t n;
    int code = text_prompt(command, in->text, in->file, &bytes, &n);
    if (code != EXIT_OK)
        return code;
    if (in->file && n > 0 && bytes[n - 1] == '\n')
        n--;
    code = engine_encode(engine, "prompt", bytes, n,
                         MGPT_NO_SPECIAL_TOKENS | (in->special ? MGPT_PARSE_SPECIAL : 0u),
                         info->add_bos || n == 0 ? info->bos : -1, &in->tokens, &in->n_tokens);
    free(bytes);
    return code;
}

int input_read(struct input *in, const struct engine *engine, const struct cli_command *command)
{
    return in->ids ? read_ids(in, engine->info.n_vocab) : read_text(in, engine, command);
}
