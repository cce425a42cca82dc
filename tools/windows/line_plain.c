/* Line input of the repl on Windows: the console's own editing (arrows, its history), without completion and without a
 * history file. See line.h; repl/line.c is the one with libedit. A console gives UTF-16, anything else bytes. */
#include "repl/line.h"

#include "base/error.h"
#include "common/interrupt.h"
#include "windows/posix.h"

#include <stdatomic.h>
#include <windows.h>

enum { LINE_UNITS = 8192, SETTLE_MS = 50 };

struct line_words {
    int n;
};

int line_add(struct line_words *words, const char *word)
{
    (void)words, (void)word;
    return 0;
}

int line_open(struct line_reader *reader, const char *history, line_complete_fn *complete,
              void *user, mgpt_error *err)
{
    (void)complete, (void)user;
    *reader = (struct line_reader){.terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    if (history && reader->terminal)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "no history files on Windows: its console keeps lines");
    return MGPT_OK;
}

/* Reads a line of the console in UTF-8, with its end. NULL: Ctrl-Z, or out of memory. */
static char *console_line(struct line_reader *reader)
{
    static wchar_t units[LINE_UNITS];
    DWORD n = 0;
    if (!ReadConsoleW(GetStdHandle(STD_INPUT_HANDLE), units, LINE_UNITS, &n, NULL))
        n = 0;
    if (n == 0)
        Sleep(SETTLE_MS); /* after Ctrl-C: its handler runs in another thread */
    int n_bytes = n ? WideCharToMultiByte(CP_UTF8, 0, units, (int)n, NULL, 0, NULL, NULL) : 0;
    char *line = n_bytes > 0 && units[0] != 'Z' - '@' ? malloc((size_t)n_bytes + 1) : NULL;
    free(reader->line);
    reader->line = line;
    if (line) {
        WideCharToMultiByte(CP_UTF8, 0, units, (int)n, line, n_bytes, NULL, NULL);
        line[n_bytes] = 0;
    }
    return line;
}

static atomic_int is_key; /* Ctrl-C or Ctrl-Break came */

/* While a line is awaited, keys end that line only, however many come. Windows calls this before interrupt.h's. */
static BOOL WINAPI on_control(DWORD event)
{
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT)
        return FALSE;
    atomic_store(&is_key, 1);
    return TRUE;
}

/* As console_line; after Ctrl-C another line begins. */
static char *typed_line(struct line_reader *reader, const char *prompt)
{
    char *line;
    interrupt_catch();
    SetConsoleCtrlHandler(on_control, TRUE);
    do {
        atomic_store(&is_key, 0);
        fputs(prompt, stdout);
        fflush(stdout);
        line = console_line(reader);
        if (!line)
            putchar('\n');
    } while (!line && atomic_load(&is_key) && !interrupt_is_final());
    SetConsoleCtrlHandler(on_control, FALSE);
    interrupt_release();
    return line;
}

char *line_next(struct line_reader *reader, const char *prompt, size_t *n_bytes)
{
    errno = 0;
    char *line = NULL;
    if (reader->terminal)
        line = typed_line(reader, prompt);
    else if (getline(&reader->line, &reader->cap, stdin) >= 0)
        line = reader->line;
    else if (errno == ENOMEM)
        err_memory(&reader->failed, "a line", reader->cap);
    else if (!feof(stdin))
        err_system(&reader->failed, "read", MGPT_NO_OFFSET);
    if (!line)
        return NULL;
    size_t n = strlen(line);
    if (n > 0 && line[n - 1] == '\n')
        line[--n] = 0;
    if (n > 0 && line[n - 1] == '\r')
        line[--n] = 0;
    *n_bytes = n;
    return line;
}

int line_close(struct line_reader *reader, mgpt_error *err)
{
    (void)err;
    free(reader->line);
    reader->line = NULL;
    return MGPT_OK;
}
