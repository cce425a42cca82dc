/* Line input. See line.h. libedit (BSD licence), through its readline interface. */
#include "repl/line.h"

#include "base/error.h"
#include "base/utf8.h"
#include "common/files.h"
#include "common/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

#include <editline/readline.h>
#include <locale.h>
#include <wchar.h>

enum { MAX_WORDS = 1000, MAX_HISTORY = 1000 };

struct line_words {
    char *list[MAX_WORDS];
    size_t n;
};

/* libedit's callbacks carry no user pointer, hence one per process. */
static struct {
    line_complete_fn *fn;
    void *user;
} completion;

/* ---- completion ---- */

int line_add(struct line_words *words, const char *word)
{
    char *copy = words->n < MAX_WORDS ? strdup(word) : NULL;
    if (copy)
        words->list[words->n++] = copy;
    return copy != NULL;
}

/* The longest common prefix of all words, in whole characters. The caller frees it. */
static char *common(const struct line_words *words)
{
    size_t same = strlen(words->list[0]);
    for (size_t i = 1; i < words->n; i++)
        for (size_t k = 0; k < same; k++)
            if (words->list[i][k] != words->list[0][k])
                same = k;
    return strndup(words->list[0], same - utf8_incomplete(words->list[0], same));
}

/* A list for libedit, which frees it: first what all matches have in common, then the matches. */
static char **matches(const char *text, int start, int end)
{
    struct line_words words = {.n = 0};
    char *before = strndup(rl_line_buffer, (size_t)start);
    (void)end;
    rl_attempted_completion_over = 1; /* never fall back to file names */
    if (before && completion.fn)
        completion.fn(before, text, &words, completion.user);
    free(before);
    char **list = words.n > 0 ? calloc(words.n + 2, sizeof *list) : NULL;
    if (list)
        list[0] = common(&words);
    /* A directory is completed as far as its slash: what is in it comes next. */
    int is_directory = words.n == 1 && words.list[0][strlen(words.list[0]) - 1] == '/';
    rl_completion_append_character = is_directory ? 0 : ' ';
    for (size_t i = 0; i < words.n; i++) {
        if (list)
            list[i + 1] = words.list[i];
        else
            free(words.list[i]);
    }
    return list;
}

/* ---- history ---- */

/* A file of lines, the oldest first, after the line that says what it is. */
static int line_read_lines(const char *path, mgpt_error *err)
{
    struct file file;
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return MGPT_OK;
    if (file_open(&file, path, err) < 0)
        return err->status;
    for (size_t at = file.size ? sizeof FILES_HISTORY_LINE : 0, end; at < file.size; at = end + 1) {
        for (end = at; end < file.size && file.data[end] != '\n';)
            end++;
        char *line = strndup((const char *)file.data + at, end - at);
        if (line && *line)
            add_history(line);
        free(line);
    }
    file_close(&file);
    return MGPT_OK;
}

static int write_lines(const char *path, mgpt_error *err)
{
    struct outfile out;
    if (files_create(&out, path, FILES_HISTORY, err) < 0)
        return err->status;
    outfile_write(&out, FILES_HISTORY_LINE "\n", sizeof FILES_HISTORY_LINE);
    for (int i = 0; i < history_length; i++) {
        const HIST_ENTRY *entry = history_get(history_base + i);
        if (!entry || !entry->line)
            continue;
        outfile_write(&out, entry->line, strlen(entry->line));
        outfile_write(&out, "\n", 1);
    }
    return outfile_commit(&out, err);
}

/* ---- the reader ---- */

static volatile sig_atomic_t was_continued;

static void on_continue(int signal_number)
{
    (void)signal_number;
    was_continued = 1;
}

/* For SIGCONT: without SA_RESTART, so that the read of a key ends. */
static void catch_continue(void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    was_continued = 0;
    sigaction(SIGCONT, &action, NULL);
}

/* After Ctrl-Z and fg: the terminal's mode may be the shell's, and the line is above the shell's
 * own. libedit sets a mode only when it has set the other one before. */
static void draw_again(void)
{
    was_continued = 0;
    rl_deprep_terminal();
    rl_prep_terminal(1);
    rl_forced_update_display();
}

/* One byte of a terminal. A signal ends select, or, where it came just before or another thread took it, is seen within
 * a tick. What is typed after Ctrl-C is left for the next line. */
static ssize_t read_byte(int fd, char *byte)
{
    int ready = 0;
    while (ready == 0 && !interrupted()) {
        struct timeval tick = {.tv_usec = 50000};
        fd_set input;
        if (was_continued)
            draw_again();
        FD_ZERO(&input);
        FD_SET(fd, &input);
        ready = select(fd + 1, &input, NULL, NULL, &tick);
    }
    if (interrupted()) {
        errno = EINTR;
        return -1;
    }
    return ready < 0 ? -1 : read(fd, byte, 1);
}

/* ---- keys ---- */

/* Bracketed paste (xterm): what is pasted comes between these. libedit would end the line at each
 * line end; a literal-next key before it, and before other control characters, inserts them. */
#define PASTE_ON "\033[?2004h"
#define PASTE_OFF "\033[?2004l"
#define PASTE_BEGIN "[200~" /* after an escape */
#define PASTE_END "[201~"

enum { ESCAPE = 27, LITERAL_NEXT = 'V' - '@', ESCAPE_WAIT_MS = 50 };

static struct {
    int is_pasting;
    int next; /* to return after a literal-next key; 0: none */
    char ahead[sizeof PASTE_END];
    size_t at, n; /* bytes that were read ahead */
} keys;

static ssize_t next_byte(int fd, char *byte)
{
    if (keys.at == keys.n)
        return read_byte(fd, byte);
    *byte = keys.ahead[keys.at++];
    return 1;
}

/* After an escape: 1 when the rest of the mark follows. What was read of something else comes again
 * from next_byte. */
static int follows(int fd, const char *mark)
{
    struct pollfd input = {.fd = fd, .events = POLLIN};
    size_t n = 0;
    if (keys.at < keys.n)
        return 0;
    keys.at = 0;
    while (mark[n] && poll(&input, 1, ESCAPE_WAIT_MS) == 1 && read(fd, &keys.ahead[n], 1) == 1) {
        n++;
        if (keys.ahead[n - 1] != mark[n - 1])
            break;
    }
    int is_mark = n == strlen(mark) && memcmp(keys.ahead, mark, n) == 0;
    keys.n = is_mark ? 0 : n;
    return is_mark;
}

/* The next character of a terminal. After Ctrl-C it is the end of the line, which
 * leaves libedit in good order; the line is dropped. */
static int next_character(int fd)
{
    mbstate_t state;
    memset(&state, 0, sizeof state);
    for (;;) {
        char byte;
        wchar_t c;
        ssize_t n = next_byte(fd, &byte);
        if (n < 0 && errno == EINTR) { /* or the terminal has another size, or is back */
            if (interrupted())
                return '\n';
            continue;
        }
        if (n <= 0)
            return EOF;
        size_t used = mbrtowc(&c, &byte, 1, &state);
        if (used == (size_t)-1)
            return 0xFFFD;
        if (used != (size_t)-2)
            return (int)c;
    }
}

static int read_key(FILE *from)
{
    for (;;) {
        int c = keys.next ? keys.next : next_character(fileno(from));
        int is_held = keys.next != 0;
        keys.next = 0;
        if (interrupted())
            keys.is_pasting = 0;
        if (c == ESCAPE && follows(fileno(from), keys.is_pasting ? PASTE_END : PASTE_BEGIN)) {
            keys.is_pasting = !keys.is_pasting;
            continue;
        }
        if (!keys.is_pasting || is_held || c == EOF)
            return c;
        if (c == 0)
            continue;
        c = c == '\r' ? '\n' : c; /* as terminals paste a line end */
        if (c >= ' ' && c != 127)
            return c;
        keys.next = c;
        return LITERAL_NEXT;
    }
}

int line_open(struct line_reader *reader, const char *history, line_complete_fn *complete,
              void *user, mgpt_error *err)
{
    *reader = (struct line_reader){.terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    if (history && files_may_write(history, FILES_HISTORY, err) < 0)
        return err->status;
    if (!reader->terminal)
        return MGPT_OK;
    completion.fn = complete;
    completion.user = user;
    /* libedit edits characters, not bytes; numbers keep their point. */
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
        setlocale(LC_CTYPE, "C.UTF-8");
    rl_readline_name = "mgpt";
    rl_getc_function = read_key;
    rl_attempted_completion_function = matches;
    rl_basic_word_break_characters = " \t\n,";
    using_history();
    stifle_history(MAX_HISTORY);
    if (!history)
        return MGPT_OK;
    int status = line_read_lines(history, err);
    reader->history =
        status == MGPT_OK ? history : NULL; /* a file of another kind is not written over */
    return status;
}

/* Switches bracketed paste, where the terminal has more than lines of text. */
static void set_paste(const char *how)
{
    const char *kind = getenv("TERM");
    if (kind && *kind && strcmp(kind, "dumb") != 0) {
        fputs(how, stdout);
        fflush(stdout);
    }
}

/* Adds an entry to the history. Entries are one line: a text of more lines is kept as /feed with \n. */
static void line_keep(const char *line)
{
    const char *before = strchr(line, '\n') ? "/feed " : "";
    char *copy = malloc(strlen(before) + 2 * strlen(line) + 1), *to = copy;
    if (!copy)
        return;
    to += sprintf(copy, "%s", before);
    for (; *line; line++) {
        if (*before && (*line == '\n' || *line == '\\'))
            *to++ = '\\';
        *to++ = *before && *line == '\n' ? 'n' : *line;
    }
    *to = 0;
    add_history(copy);
    free(copy);
}

/* A line; after Ctrl-C the one being typed is dropped and another begins. */
static char *edited(struct line_reader *reader, const char *prompt)
{
    do {
        free(reader->line);
        interrupt_catch();
        catch_continue(on_continue);
        rl_prep_terminal(1); /* libedit's own comes after the prompt: keys would be echoed twice */
        set_paste(PASTE_ON);
        reader->line = readline(prompt);
        set_paste(PASTE_OFF);
        catch_continue(SIG_DFL);
        interrupt_release();
    } while (reader->line && interrupted() && !interrupt_is_final());
    if (interrupt_is_final())
        return NULL;
    if (!reader->line)
        putchar('\n');
    return reader->line;
}

/* 1: pasted lines that begin with a command: each of them is a line of its own. */
static int is_script(const char *line)
{
    return line[0] == '/' && line[1] != '/' && strchr(line, '\n');
}

/* The next line of what was typed or pasted. */
static char *typed(struct line_reader *reader, const char *prompt, size_t *n_bytes)
{
    char *line = reader->rest;
    reader->rest = NULL;
    if (!line && (line = edited(reader, prompt)) && *line && !is_script(line))
        line_keep(line);
    if (!line)
        return NULL;
    if (line != reader->line || is_script(line)) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        reader->rest = end && end[1] ? end + 1 : NULL;
        if (*line)
            line_keep(line);
    }
    *n_bytes = strlen(line);
    return line;
}

char *line_next(struct line_reader *reader, const char *prompt, size_t *n_bytes)
{
    if (reader->terminal)
        return typed(reader, prompt, n_bytes);
    errno = 0;
    ssize_t n = getline(&reader->line, &reader->cap, stdin);
    if (n < 0 && errno == ENOMEM)
        err_memory(&reader->failed, "a line", reader->cap);
    else if (n < 0 && !feof(stdin))
        err_system(&reader->failed, "read", MGPT_NO_OFFSET);
    if (n < 0)
        return NULL;
    if (n > 0 && reader->line[n - 1] == '\n')
        reader->line[--n] = 0;
    if (n > 0 && reader->line[n - 1] == '\r')
        reader->line[--n] = 0;
    *n_bytes = (size_t)n;
    return reader->line;
}

int line_close(struct line_reader *reader, mgpt_error *err)
{
    free(reader->line);
    reader->line = NULL;
    return reader->history ? write_lines(reader->history, err) : MGPT_OK;
}
