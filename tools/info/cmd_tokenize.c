/* mgpt tokenize: text to token ids, and back.
 *
 * The text is taken byte for byte, from -p as from -f: no line end is dropped, so that a text and
 * its ids can be compared with other programs. Only the vocabulary of the model file is read.
 */
#include "base/mem.h"
#include "common/commands.h"
#include "common/text.h"
#include "engine/engine.h"
#include "engine/token_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct tokenize {
    struct engine engine;
    const char *text, *file;
    int decode, pieces, special, no_bos, json;
};

static const char notes[] =
    "The text comes from -p, -f or, with neither, from stdin; every byte of it counts, line ends\n"
    "too. --decode prints valid UTF-8: a byte that belongs to no character becomes U+FFFD, and\n"
    "the space that SentencePiece puts in front of a text is dropped. --json prints {\"ids\": "
    "[...],\n"
    "\"tokens\": [texts]}, with --decode {\"text\": ...}.\n\n"
    "examples:\n"
    "  mgpt tokenize model.gguf -p 'Hello world'\n"
    "  mgpt tokenize model.gguf -f text.txt | mgpt tokenize model.gguf --decode\n";

static const char *const exits[EXIT_N_CODES] = {
    [EXIT_AT_USAGE] = "usage or text that the vocabulary lacks",
};

static void print_json_ids(const struct tokenize *t, const int32_t *tokens, size_t n)
{
    struct json_out out = {stdout, isatty(STDOUT_FILENO)};
    fputs("{\"ids\":", stdout);
    token_json_ids(&out, tokens, n);
    fputs(",\"tokens\":", stdout);
    for (size_t i = 0; i < n; i++) {
        putchar(i ? ',' : '[');
        token_json_text(&out, t->engine.model, tokens[i]);
    }
    puts(n ? "]}" : "[]}");
}

static int print_ids(const struct tokenize *t, const char *bytes, size_t n_bytes)
{
    int32_t *tokens;
    size_t n;
    unsigned flags =
        (t->no_bos ? MGPT_NO_SPECIAL_TOKENS : 0u) | (t->special ? MGPT_PARSE_SPECIAL : 0u);
    int code = engine_encode(&t->engine, "text", bytes, n_bytes, flags, -1, &tokens, &n);
    if (code == EXIT_OK && t->json)
        print_json_ids(t, tokens, n);
    for (size_t i = 0; i < n && code == EXIT_OK && !t->json; i++) {
        printf(i > 0 && !t->pieces ? " %d" : "%d", (int)tokens[i]);
        if (t->pieces) {
            putchar('\t');
            text_print_token(stdout, t->engine.model, tokens[i]);
            putchar('\n');
        }
    }
    if (code == EXIT_OK && !t->pieces && !t->json)
        putchar('\n');
    free(tokens);
    return code;
}

static int print_text(const struct tokenize *t, const char *ids)
{
    struct text_out out;
    int32_t id = 0;
    int got;
    const char *at = ids;
    text_out_open(&out, t->engine.model, t->json ? NULL : stdout);
    while ((got = text_next_id(&at, &id)) == 1 && id >= 0 && id < t->engine.info.n_tokens)
        text_out_token(&out, id, 0);
    text_out_end(&out);
    int code = out.failed.status < 0 ? cli_fail(NULL, &out.failed) : EXIT_OK;
    if (code == EXIT_OK && got == 0 && t->json)
        code = text_json_line(
            jtext("{s:s%}", "text", out.buffer ? out.buffer : "", arr_len(out.buffer)));
    text_out_close(&out);
    if (code != EXIT_OK || got == 0)
        return code;
    if (got < 0)
        cli_note("ids: expected a number at byte %zu", (size_t)(at - ids));
    else
        cli_note("ids: token %d before byte %zu, the vocabulary has %d", (int)id,
                 (size_t)(at - ids), (int)t->engine.info.n_tokens);
    return EXIT_USAGE;
}

static int tokenize_run(struct tokenize *t, const struct cli_command *command)
{
    char *bytes;
    size_t n;
    if (!t->text && !t->file)
        t->file = "-";
    int code = text_prompt(command, t->text, t->file, &bytes, &n);
    if (code != EXIT_OK)
        return code;
    code = t->decode ? print_text(t, bytes) : print_ids(t, bytes, n);
    free(bytes);
    return cli_finish(code);
}

int cmd_tokenize(int argc, char **argv)
{
    struct tokenize t = {.engine = {.vocab_only = 1}};
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(t.engine),
        {"-p, --prompt", "TEXT", CLI_TEXT, &t.text, 0, 0, "the text (with --decode: the ids)",
         IN_FEW},
        {"-f, --file", "FILE", CLI_TEXT, &t.file, 0, 0, "read it from a file; - is stdin", IN_FEW},
        {"--decode", NULL, CLI_FLAG, &t.decode, 0, 0, "ids, separated by spaces, back to text",
         IN_FEW},
        {"--pieces", NULL, CLI_FLAG, &t.pieces, 0, 0, "one token a line: id, tab, text in quotes",
         IN_FEW},
        {"--json", NULL, CLI_FLAG, &t.json, 0, 0, "ids and texts of the tokens as a JSON object",
         IN_FEW},
        {"--special", NULL, CLI_FLAG, &t.special, 0, 0,
         "read <|endoftext|> and other control tokens in the text as tokens", IN_FEW},
        {"--no-bos", NULL, CLI_FLAG, &t.no_bos, 0, 0, "add neither BOS nor EOS", IN_FEW},
    };
    const struct cli_command command =
        CLI_COMMAND("tokenize", "[MODEL]", "Text to token ids, on one line, and back.", notes,
                    exits, options, 0, 1);
    int code;
    if (!engine_parse(&t.engine, &command, argc, argv, &code))
        return code;
    code = engine_open(&t.engine);
    if (code == EXIT_OK)
        code = tokenize_run(&t, &command);
    engine_close(&t.engine);
    return code;
}
