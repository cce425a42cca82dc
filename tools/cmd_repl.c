/* mgpt repl: step through a model.
 *
 * One line, one action: an empty line draws a token, a line with a slash is a command, any other
 * line is text. In a terminal lines are edited and Ctrl-C stops a command; through a pipe the same
 * lines are a script, whose output has neither prompt nor colour. A command that fails says so and
 * the session goes on.
 */
#include "commands.h"
#include "interrupt.h"
#include "line.h"
#include "repl.h"
#include "screen.h"

#include <stdio.h>
#include <string.h>

static const char notes[] =
    "Lines: text is fed to the model, an empty line draws one token, /help lists the commands.\n"
    "A text that begins with a slash is written with two. The default temperature is 0.\n\n"
    "examples:\n"
    "  mgpt repl weights/names.gguf\n"
    "  printf 'ann\\n/top 3\\n\\n' | mgpt repl weights/names.gguf\n\n"
    "exit codes: 0 end of input or /quit, 2 usage, 3 model refused, 4 out of memory,\n"
    "5 input/output, 130 interrupted\n";

/* The i-th command that begins like this; the slash is part of the word. */
static const char *complete(const char *begin, size_t i)
{
    size_t seen = 0;
    for (size_t k = 0; k < repl_n_commands; k++)
        if (repl_commands[k].name && strncmp(repl_commands[k].name, begin, strlen(begin)) == 0 &&
            seen++ == i)
            return repl_commands[k].name;
    return NULL;
}

static void greet(const struct repl *r)
{
    const mgpt_info *i = &r->engine.info;
    printf("%s: %s, layers %d, width %d, vocabulary %d, context %zu. /help lists the commands.\n",
           r->engine.path, i->arch, (int)i->n_layer, (int)i->n_embd, (int)i->n_vocab,
           mgpt_n_ctx(r->engine.session));
}

static int loop(struct repl *r)
{
    struct line_reader reader;
    char prompt[32], *line;
    size_t n;
    int stopped = 0;
    line_open(&reader, complete);
    if (reader.terminal)
        greet(r);
    while (!r->quit && !ferror(stdout) && !stopped) {
        snprintf(prompt, sizeof prompt, "%zu> ", mgpt_pos(r->engine.session));
        line = line_next(&reader, prompt, &n);
        if (!line)
            break;
        interrupt_catch();
        repl_line(r, line, n);
        stopped = interrupted() && !reader.terminal;
        interrupt_release();
    }
    line_close(&reader);
    return stopped ? EXIT_INTERRUPTED : EXIT_OK;
}

int cmd_repl(int argc, char **argv)
{
    struct repl r = {.sampling = {.top_p = 1}};
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(r.engine),
        SAMPLING_OPTIONS(r.sampling),
        ENGINE_OPT_CTX(r.engine),
        ENGINE_OPT_THREADS(r.engine),
        ENGINE_OPT_KV(r.engine),
        ENGINE_OPT_ISA(r.engine),
        {"--screen", "KIND", CLI_TEXT, &r.screen_mode, 0, 0,
         "pictures in truecolor, 256 or plain (default: what the terminal can)"},
        {"--width", "N", CLI_INT, &r.width, 20, 1000,
         "columns of pictures (default: the terminal's)"},
    };
    const struct cli_command command = {
        "repl", "[MODEL]", "Step through a model: one Enter, one token.",
        notes,  options,   sizeof options / sizeof *options,
        0,      1};
    const char *operands[1];
    int n = cli_parse(&command, argc, argv, operands);
    if (n < 0)
        return cli_parse_exit(n);
    struct screen screen;
    if (!screen_look(&screen, r.screen_mode, r.width))
        return cli_usage(&command, "--screen: expected truecolor, 256 or plain, found '%s'",
                         r.screen_mode);
    int code = engine_choose(&r.engine, &command, operands, n, NULL, 0);
    if (code == EXIT_OK)
        code = sampling_begin(&r.sampling, &command);
    if (code == EXIT_OK)
        code = engine_open(&r.engine);
    if (code == EXIT_OK)
        code = engine_session(&r.engine);
    if (code == EXIT_OK)
        code = cli_finish(repl_begin(&r) ? loop(&r) : EXIT_FULL);
    repl_end(&r);
    engine_close(&r.engine);
    return code;
}
