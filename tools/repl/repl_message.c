/* Messages of the repl's commands. */
#include "base/error.h"
#include "common/text.h"
#include "repl/repl.h"

#include <stdarg.h>
#include <stdio.h>

/* One for the process: most of what fails knows of no repl. */
static int first_code = EXIT_OK;

void repl_note_code(int code)
{
    if (first_code == EXIT_OK)
        first_code = code;
}

int repl_first_code(void)
{
    return first_code;
}

void repl_error(const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fflush(stdout);
    cli_note("%s", line);
    repl_note_code(EXIT_USAGE);
}

void repl_say(const char *fmt, ...)
{
    char line[1024], clean[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    text_format(clean, sizeof clean, "%s", line);
    puts(clean);
}

void repl_file_failed(const char *file, const mgpt_error *err)
{
    fflush(stdout);
    if (err->status == MGPT_ESTOP)
        cli_note("stopped");
    repl_note_code(cli_fail(file, err));
}

void repl_failed(const mgpt_error *err)
{
    repl_file_failed(NULL, err);
}

void repl_no_memory(void)
{
    repl_note_code(EXIT_FULL);
    repl_error("out of memory");
}

void repl_bad_escape(void)
{
    repl_error("a backslash begins one of \\n \\t \\r \\\\ \\\" \\xFF \\u{1F600}");
}

void repl_print_tokens(const struct repl *r, const int32_t *tokens, size_t n)
{
    enum { SHOWN = 24 };
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        putchar(' ');
        text_print_token(stdout, r->engine.model, tokens[i]);
    }
    fputs(n > SHOWN ? " ..." : "", stdout);
}
