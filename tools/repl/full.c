/* The full-screen view. Its panes are what /top, /a and /kv print into a file, cut to size; each key is a line of
 * the repl as a user would type it. From the top: the text, coloured by surprisal; the next token beside the attention
 * of one head; the cache of that head, keys beside values, or what a typed line has printed. */
#include "repl/full.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"
#include "common/text.h"
#include "engine/layers.h"
#include "repl/held.h"
#include "repl/view.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS_MIN = 24, COLS_MIN = 80, TEXT_ROWS = 4, TOP_COLS = 48, LINE = 1024 };

static const double MOST_NATS = 10; /* of surprisal: the end of the colours */
static const char keys_help[] =
    "space draw, enter take, u undo, r redo, up/down token, left/right head, [ ] layer, : q";

struct full {
    struct repl *repl;
    FILE *shown; /* what is drawn, in memory */
    int capture; /* the file that stdout and stderr go to */
    size_t rows, cols, chosen, n_top;
    int32_t layer, head;
    struct screen screen;
    char *output; /* of the last line that did something */
};

/* ---- lines of the repl ---- */

/* Runs a line; what it has printed, malloc'ed, or NULL. */
static char *run_line(struct full *f, const char *line)
{
    char copy[LINE];
    int n = snprintf(copy, sizeof copy, "%s", line);
    fflush(stdout);
    if (ftruncate(f->capture, 0) < 0 || lseek(f->capture, 0, SEEK_SET) < 0)
        return NULL;
    interrupt_catch();
    repl_line(f->repl, copy, (size_t)n < sizeof copy ? (size_t)n : sizeof copy - 1);
    fflush(stdout);
    fflush(stderr);
    off_t end = lseek(f->capture, 0, SEEK_END);
    char *text = end >= 0 ? malloc((size_t)end + 1) : NULL;
    ssize_t got = text ? pread(f->capture, text, (size_t)end, 0) : -1;
    if (text)
        text[got > 0 ? got : 0] = 0;
    return text;
}

__attribute__((format(printf, 2, 3))) static char *run_format(struct full *f, const char *fmt, ...)
{
    char line[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    return run_line(f, line);
}

/* A line whose output stays in sight until the next one. */
static void act(struct full *f, const char *line)
{
    free(f->output);
    f->output = run_line(f, line);
}

/* ---- drawing ---- */

static void go_to(struct full *f, size_t row, size_t col)
{
    fprintf(f->shown, "\033[%zu;%zuH", row + 1, col + 1);
}

/* Bytes of the next character or escape sequence, and its columns. */
static size_t next_cell(const char *at, size_t *cols)
{
    char one[8] = {0};
    size_t n = 1;
    *cols = 0;
    if (*at == 27) {
        n = 1 + strcspn(at + 1, "mHJK");
        return at[n] ? n + 1 : n;
    }
    while (n < 4 && ((unsigned char)at[n] & 0xC0) == 0x80)
        n++;
    memcpy(one, at, n);
    *cols = screen_columns(one);
    return n;
}

static void put_cut(struct full *f, const char *line, size_t n, size_t most)
{
    for (size_t at = 0, used = 0, cols, length; at < n; at += length, used += cols) {
        length = next_cell(line + at, &cols);
        length = length > n - at ? n - at : length;
        if (used + cols > most)
            break;
        fwrite(line + at, 1, length, f->shown);
    }
    screen_reset(&f->screen, f->shown);
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; text && *text; text += strcspn(text, "\n"), text += *text == '\n')
        n++;
    return n;
}

struct pane {
    size_t row, col, rows, cols;
    size_t head;   /* lines that stay when the pane shows the end of the text */
    size_t chosen; /* a line in reverse; SIZE_MAX: none */
};

static void put_pane(struct full *f, const char *text, struct pane p)
{
    size_t n = count_lines(text), skipped = n > p.rows ? n - p.rows : 0;
    for (size_t i = 0, row = p.row; i < n; i++, text += *text == '\n') {
        size_t length = strcspn(text, "\n");
        if (i < p.head || i >= p.head + skipped) {
            go_to(f, row++, p.col);
            fputs(i == p.chosen ? "\033[7m" : "", f->shown);
            put_cut(f, text, length, p.cols);
            fputs(i == p.chosen ? "\033[0m" : "", f->shown);
        }
        text += length;
    }
}

/* The lines of a command in a pane. */
static void put_command(struct full *f, struct pane p, const char *fmt, int32_t layer, int32_t head)
{
    char line[64];
    snprintf(line, sizeof line, fmt, (int)layer, (int)head);
    f->repl->width = p.cols < 20 ? 20 : (int32_t)p.cols;
    char *text = run_line(f, line);
    put_pane(f, text, p);
    free(text);
}

/* A token as it is in a text: without quotes. */
static void token_text(const struct repl *r, int32_t token, char *out)
{
    view_token(r, token, HEAT_LABEL / 4, out);
    size_t n = strlen(out);
    if (n < 2 || out[0] != '"')
        return;
    memmove(out, out + 1, n - 1);
    out[n - 1 - (out[n - 2] == '"')] = 0;
}

static void full_put_text(struct full *f)
{
    const struct repl *r = f->repl;
    const int32_t *tokens = mgpt_tokens(r->engine.session);
    size_t n = mgpt_pos(r->engine.session), lines = 0, col = f->cols;
    struct tokens_held h;
    char text[HEAT_LABEL];
    int known = repl_held(f->repl, 0, &h);
    for (int draws = 0; draws < 2; draws++) { /* at first only the lines are counted */
        size_t first = draws && lines > TEXT_ROWS ? lines - TEXT_ROWS : 0, line = 0;
        col = 0;
        for (size_t i = 0; i < n; i++) {
            token_text(r, tokens[i], text);
            size_t width = screen_columns(text);
            line += col > 0 && col + width > f->cols;
            col = col > 0 && col + width > f->cols ? 0 : col;
            if (draws && line >= first) {
                go_to(f, 1 + line - first, col);
                if (known && i > 0)
                    screen_ground(&f->screen, f->shown, SCREEN_SIZES,
                                  fmin(1, -h.drawn.logprobs[i - 1] / MOST_NATS));
                put_cut(f, text, strlen(text), f->cols);
            }
            col += width;
        }
        lines = line + 1;
    }
    if (known)
        held_free(&h);
}

static void put_line(struct full *f, size_t row, const char *text)
{
    go_to(f, row, 0);
    fputs("\033[7m", f->shown);
    put_cut(f, text, strcspn(text, "\n"), f->cols);
    fputs("\033[0m", f->shown);
}

static void put_title(struct full *f)
{
    const struct repl *r = f->repl;
    char title[256];
    const char *name = strrchr(r->engine.path, '/');
    text_format(title, sizeof title, "%s %s: %zu of %zu tokens, layer %d, head %d, temp %g",
                name ? name + 1 : r->engine.path, r->branches[r->current].name,
                mgpt_pos(r->engine.session), mgpt_n_ctx(r->engine.session), (int)f->layer,
                (int)f->head, r->sampling.temperature);
    put_line(f, 0, title);
}

static void put_panes(struct full *f)
{
    size_t first = 1 + TEXT_ROWS, room = f->rows - first - 1, upper = room / 2, half = f->cols / 2;
    int32_t kv = f->head / engine_group(f->repl->engine.model, f->layer);
    struct pane top = {first, 0, upper, TOP_COLS, 0, SIZE_MAX};
    struct pane attention = {first, TOP_COLS, upper, f->cols - TOP_COLS, 3, SIZE_MAX};
    struct pane keys = {first + upper, 0, room - upper, half - 1, 0, SIZE_MAX}, values = keys;
    f->n_top = upper - 2;
    f->chosen = f->chosen < f->n_top ? f->chosen : f->n_top - 1;
    top.chosen = 1 + f->chosen;
    put_command(f, top, "/top %d", (int32_t)f->n_top, 0);
    put_command(f, attention, "/a %d %d", f->layer, f->head);
    if (count_lines(f->output) > 1) {
        keys.cols = f->cols;
        put_pane(f, f->output, keys);
        return;
    }
    f->repl->width = (int32_t)keys.cols;
    char *cache = run_format(f, "/kv %d %d", (int)f->layer, (int)kv);
    char *second = cache ? strstr(cache, ": values\n") : NULL;
    while (second > cache && second[-1] != '\n')
        second--;
    values.col = half;
    keys.head = 4;
    values.head = 2;
    if (second > cache) {
        put_pane(f, second, values);
        *second = 0;
    }
    put_pane(f, cache, keys);
    free(cache);
}

static void full_draw(struct full *f)
{
    char *bytes = NULL, message[128];
    size_t n = 0;
    full_size(&f->rows, &f->cols);
    f->shown = open_memstream(&bytes, &n);
    if (!f->shown)
        return;
    fputs("\033[0m\033[2J", f->shown);
    if (f->rows < ROWS_MIN || f->cols < COLS_MIN) {
        snprintf(message, sizeof message, "%d x %d are needed, here are %zu x %zu; q ends",
                 COLS_MIN, ROWS_MIN, f->cols, f->rows);
        go_to(f, 0, 0);
        put_cut(f, message, strlen(message), f->cols);
    } else {
        put_panes(f); /* /top gives an empty session its first token */
        put_title(f);
        full_put_text(f);
        put_line(f, f->rows - 1, count_lines(f->output) == 1 ? f->output : keys_help);
    }
    if (fclose(f->shown) == 0 && bytes)
        full_write(bytes, n);
    free(bytes);
}

/* ---- keys ---- */

/* A line typed at the bottom: Enter runs it, Escape drops it. 0: the input has ended. */
static int type_line(struct full *f)
{
    char line[LINE] = "", shown[LINE + 32];
    size_t n = 0;
    for (;;) {
        const char *end = line; /* as much of it as fits */
        while (*end && (screen_columns(end) + 2 > f->cols || ((unsigned char)*end & 0xC0) == 0x80))
            end++;
        int at = snprintf(shown, sizeof shown, "\033[%zu;1H\033[2K:%s", f->rows, end);
        full_write(shown, (size_t)at);
        int key = full_key();
        if (key == FULL_STOP)
            return 0;
        if (key == 27)
            return 1;
        if (key == '\r' || key == '\n') {
            act(f, line);
            return 1;
        }
        if ((key == 127 || key == 8) && n > 0)
            while (n > 0 && ((unsigned char)line[--n] & 0xC0) == 0x80)
                continue;
        else if (key >= ' ' && key < 256 && key != 127 && n + 1 < sizeof line)
            line[n++] = (char)key;
        line[n] = 0;
    }
}

/* Feeds the chosen token. */
static void take_chosen(struct full *f)
{
    const struct repl *r = f->repl;
    const float *logits = mgpt_logits(r->engine.session);
    mgpt_candidate *top = mem_new(f->n_top, sizeof *top);
    char line[32];
    if (logits && top && f->chosen < mgpt_top(logits, repl_n_logits(r), top, f->n_top)) {
        snprintf(line, sizeof line, "/ids %d", (int)top[f->chosen].token);
        act(f, line);
        f->chosen = 0;
    }
    free(top);
}

static int32_t moved(int32_t x, int32_t by, int32_t n)
{
    return n > 0 ? (x + by + n) % n : 0;
}

/* Layers may have different numbers of heads. */
static void change_layer(struct full *f, int32_t layer)
{
    int32_t heads = engine_heads(f->repl->engine.model, layer);
    f->layer = layer;
    f->head = f->head < heads ? f->head : heads - 1;
}

static void redo(struct full *f)
{
    char line[48];
    snprintf(line, sizeof line, "/goto %zu", mgpt_pos(f->repl->engine.session) + 1);
    act(f, line);
}

/* 0: the view ends. */
static int do_key(struct full *f, int key)
{
    const mgpt_info *info = &f->repl->engine.info;
    if (key == ' ')
        act(f, "");
    else if (key == '\r' || key == '\n')
        take_chosen(f);
    else if (key == 'u')
        act(f, "/b");
    else if (key == 'r')
        redo(f);
    else if (key == FULL_UP)
        f->chosen -= f->chosen > 0;
    else if (key == FULL_DOWN)
        f->chosen += f->chosen + 1 < f->n_top && f->chosen + 1 < repl_n_logits(f->repl);
    else if (key == FULL_LEFT || key == FULL_RIGHT)
        f->head = moved(f->head, key == FULL_RIGHT ? 1 : -1,
                        engine_heads(f->repl->engine.model, f->layer));
    else if (key == '[' || key == ']')
        change_layer(f, moved(f->layer, key == ']' ? 1 : -1, info->n_layer));
    else if (key == ':')
        return type_line(f) && !f->repl->quit;
    return key != 'q' && key != FULL_STOP;
}

int full_run(struct repl *r)
{
    struct full f = {.repl = r};
    FILE *file = tmpfile();
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    screen_look(&f.screen, NULL, 0);
    static const char *const modes[] = {"plain", "256", "truecolor"};
    r->screen_mode = modes[f.screen.mode];
    if (!file || out < 0 || err < 0 || !full_take_terminal()) {
        cli_note("--screen full: no temporary file, or no terminal");
        return EXIT_IO;
    }
    f.capture = fileno(file);
    dup2(f.capture, STDOUT_FILENO);
    dup2(f.capture, STDERR_FILENO);
    do
        full_draw(&f);
    while (do_key(&f, full_key()));
    int stopped = interrupted();
    full_leave_terminal();
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    fclose(file);
    free(f.output);
    interrupt_release();
    if (!stopped)
        repl_trace_end(r);
    return stopped ? EXIT_INTERRUPTED : EXIT_OK;
}
