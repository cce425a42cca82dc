/* mgpt repl: step through a model.
 *
 * One line, one action: an empty line draws a token, a line with a slash is a command, any other
 * line is text. In a terminal lines are edited and Ctrl-C stops a command; through a pipe the same
 * lines are a script, whose output has neither prompt nor colour. A command that fails says so and
 * the session goes on; a script ends with the exit code of its first failure.
 */
#include "base/mem.h"
#include "common/commands.h"
#include "common/interrupt.h"
#include "common/screen.h"
#include "engine/chat.h"
#include "repl/full.h"
#include "repl/line.h"
#include "repl/repl.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char notes[] =
    "Lines: text is fed to the model, an empty line draws one token, /help lists the commands, "
    "quit\n"
    "ends the session.\n"
    "A text that begins with a slash is written with two. The default temperature is 0.\n"
    "--screen full shows text, next token, attention and cache at once: space draws a token, "
    "enter\n"
    "takes the chosen one, u undoes, a colon begins a line as above, q ends.\n\n"
    "examples:\n"
    "  mgpt repl weights/names.gguf\n"
    "  printf 'ann\\n/top 3\\n\\n' | mgpt repl weights/names.gguf\n";

static const char *const exits[EXIT_N_CODES] = {
    [EXIT_AT_OK] = "end of input or /quit",
    [EXIT_AT_REFUSED] = "model or file refused, or not finite",
    [EXIT_AT_INTERRUPTED] = "interrupted; a script goes on after a line that fails, and ends with "
                            "the code of the first one",
};

static void greet(const struct repl *r)
{
    const mgpt_info *i = &r->engine.info;
    printf("%s: %s, layers %d, width %d, vocabulary %d, context %zu. /help lists the commands.\n",
           r->engine.path, i->arch, (int)i->n_layer, (int)i->n_embd, (int)i->n_vocab,
           mgpt_n_ctx(r->engine.session));
}

/* Reads and runs lines until the end. */
static int repl_read_lines(struct repl *r, struct line_reader *reader)
{
    char prompt[REPL_NAME + 32], *line;
    size_t n;
    int stopped = 0;
    while (!r->quit && !ferror(stdout) && !stopped) {
        int several = arr_len(r->branches) > 1;
        snprintf(prompt, sizeof prompt, "%s%s%zu> ", several ? r->branches[r->current].name : "",
                 several ? " " : "", mgpt_pos(r->engine.session));
        line = line_next(reader, prompt, &n);
        if (!line)
            break;
        interrupt_catch();
        repl_line(r, line, n);
        stopped = interrupted() && (!reader->terminal || interrupt_is_final());
        interrupt_release();
    }
    if (reader->failed.status < 0)
        return cli_fail("stdin", &reader->failed);
    return stopped ? EXIT_INTERRUPTED : EXIT_OK;
}

static int loop(struct repl *r, const char *history)
{
    struct line_reader reader;
    mgpt_error err;
    if (line_open(&reader, history, repl_complete, r, &err) < 0)
        return cli_fail(history, &err);
    if (reader.terminal)
        greet(r);
    int code = repl_read_lines(r, &reader);
    if (code == EXIT_OK)
        repl_trace_end(r);
    if (line_close(&reader, &err) < 0)
        cli_fail(history, &err);
    if (code == EXIT_OK && r->engine.finite.n_told > 0)
        code = EXIT_REFUSED;
    return code == EXIT_OK && !isatty(STDIN_FILENO) ? repl_first_code() : code;
}

/* Feeds the conversation of a file, up to where the next answer begins. */
static int feed_chat(struct repl *r, const char *path, const struct cli_command *command)
{
    struct chat chat;
    const struct chat_style style = {.format = NULL};
    int code = chat_open(&chat, &r->engine, command, &style);
    if (code == EXIT_OK)
        code = chat_read(&chat, path);
    if (code == EXIT_OK)
        code = chat_write(&chat);
    if (code == EXIT_OK)
        code = engine_fits(&r->engine, path, arr_len(chat.tokens));
    if (code == EXIT_OK)
        repl_feed_tokens(r, chat.tokens, arr_len(chat.tokens));
    chat_close(&chat);
    return code;
}

static int run_all(struct repl *r, const char *chat_file, const char *history, int full,
                   const struct cli_command *command)
{
    int code = repl_begin(r) ? EXIT_OK : EXIT_FULL;
    if (code == EXIT_OK && chat_file)
        code = feed_chat(r, chat_file, command);
    if (code != EXIT_OK)
        return code;
    return full ? full_run(r) : loop(r, history);
}

int cmd_repl(int argc, char **argv)
{
    struct repl r = {.engine.pack_later = 1, .sampling = {SAMPLING_INITIAL.seed = 0}};
    struct sampling *s = &r.sampling;
    const char *history = NULL, *chat_file = NULL;
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(r.engine),
        SAMPLING_OPTIONS,
        ENGINE_OPT_CTX(r.engine),
        ENGINE_OPT_THREADS(r.engine),
        ENGINE_OPT_KV(r.engine),
        ENGINE_OPT_ISA(r.engine),
        ENGINE_OPT_STEER(r.engine),
        ENGINE_OPT_FINITE(r.engine),
        {"--screen", "KIND", CLI_TEXT, &r.screen_mode, 0, 0,
         "truecolor, 256, plain (default: what there is), or full: all at once", IN_LOOK},
        {"--width", "N", CLI_INT, &r.width, 20, 1000,
         "columns of pictures (default: the terminal's)", IN_LOOK},
        {"--chat-file", "FILE", CLI_TEXT, &chat_file, 0, 0,
         "begin with a conversation: JSON messages, by the model's template", IN_TEXT},
        {"--history", "FILE", CLI_TEXT, &history, 0, 0,
         "in a terminal: keep the lines typed in a file, its own (default: none)", IN_LOOK},
    };
    const struct cli_command command =
        CLI_COMMAND("repl", "[MODEL]", "Step through a model: one Enter, one token.", notes, exits,
                    options, 0, 1);
    struct screen screen;
    int code;
    int ready = engine_start(&r.engine, &r.sampling, &command, argc, argv, &code);
    int full = ready && r.screen_mode && strcmp(r.screen_mode, "full") == 0;
    if (full && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
        code = cli_usage(&command, "--screen full needs a terminal");
    else if (ready && !full && !screen_look(&screen, r.screen_mode, r.width))
        code = cli_usage(&command, "--screen: expected truecolor, 256, plain or full, found '%s'",
                         r.screen_mode);
    else if (ready)
        code = engine_session(&r.engine);
    if (r.engine.session)
        code = cli_finish(run_all(&r, chat_file, history, full, &command));
    repl_end(&r);
    sampling_end(&r.sampling);
    engine_close(&r.engine);
    return code;
}
