/* Line input. See line.h. libedit (BSD licence), through its readline interface. */
#include "line.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <editline/readline.h>
#include <locale.h>

/* libedit's callbacks carry no user pointer, hence one per process. */
static line_complete_fn *complete_word;

/* A list for libedit, which frees it: first what all matches have in common, then the matches. */
static char **matches(const char *text, int start, int end)
{
    size_t n = 0, common = SIZE_MAX;
    const char *first = complete_word(text, 0), *word;
    (void)end;
    rl_attempted_completion_over = 1; /* never fall back to file names */
    while (start == 0 && (word = complete_word(text, n)) != NULL) {
        size_t same = 0;
        while (same < common && word[same] && word[same] == first[same])
            same++;
        common = same;
        n++;
    }
    char **list = n > 0 ? calloc(n + 2, sizeof *list) : NULL;
    for (size_t i = 0; list && i < n; i++)
        list[i + 1] = strdup(complete_word(text, i));
    if (list)
        list[0] = strndup(first, common);
    return list;
}

void line_open(struct line_reader *reader, line_complete_fn *complete)
{
    *reader = (struct line_reader){.terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    if (!reader->terminal)
        return;
    complete_word = complete;
    /* libedit edits characters, not bytes; numbers keep their point. */
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
        setlocale(LC_CTYPE, "C.UTF-8");
    rl_readline_name = "mgpt";
    rl_attempted_completion_function = matches;
    rl_basic_word_break_characters = " \t\n";
    using_history();
}

static char *edited(struct line_reader *reader, const char *prompt, size_t *n_bytes)
{
    free(reader->line);
    reader->line = readline(prompt);
    if (!reader->line) {
        putchar('\n');
        return NULL;
    }
    if (*reader->line)
        add_history(reader->line);
    *n_bytes = strlen(reader->line);
    return reader->line;
}

char *line_next(struct line_reader *reader, const char *prompt, size_t *n_bytes)
{
    if (reader->terminal)
        return edited(reader, prompt, n_bytes);
    ssize_t n = getline(&reader->line, &reader->cap, stdin);
    if (n < 0)
        return NULL;
    if (n > 0 && reader->line[n - 1] == '\n')
        reader->line[--n] = 0;
    if (n > 0 && reader->line[n - 1] == '\r')
        reader->line[--n] = 0;
    *n_bytes = (size_t)n;
    return reader->line;
}

void line_close(struct line_reader *reader)
{
    free(reader->line);
    reader->line = NULL;
}
