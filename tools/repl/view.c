/* What the looking commands share. See view.h. */
#include "repl/view.h"

#include "base/mem.h"
#include "common/files.h"
#include "common/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments ------------------------------------------------------------------------------- */

/* "-o FILE" ends a line: a file name may hold spaces. */
static int take_path(struct view *v)
{
    char *at = v->rest;
    while ((at = strstr(at, "-o")) != NULL) {
        int begins = at == v->rest || at[-1] == ' ' || at[-1] == '\t';
        if (begins && (at[2] == ' ' || at[2] == '\t' || at[2] == 0))
            break;
        at += 2;
    }
    if (!at)
        return 1;
    *at = 0;
    at += 2;
    at += strspn(at, " \t");
    v->path = at;
    if (!*at)
        repl_error("%s: -o, but no file name behind it", v->command);
    return *at != 0;
}

int view_open(struct view *v, struct repl *r, const char *command, char *args)
{
    *v = (struct view){.repl = r, .command = command, .rest = args};
    v->n_pos = mgpt_pos(r->engine.session);
    screen_look(&v->screen, r->screen_mode, r->width);
    return take_path(v);
}

/* A token in quotes may hold spaces. */
static char *end_of_quoted(char *at)
{
    char *end = at + 1;
    while (*end && *end != '"')
        end += end[0] == '\\' && end[1] ? 2 : 1;
    return *end ? end + 1 : at;
}

char *view_word(struct view *v)
{
    char *word = v->rest + strspn(v->rest, " \t");
    char *end = *word == '"' ? end_of_quoted(word) : word;
    v->rest = end + strcspn(end, " \t");
    if (*v->rest)
        *v->rest++ = 0;
    return word;
}

int view_flag(struct view *v, const char *word)
{
    char *at = v->rest + strspn(v->rest, " \t");
    size_t n = strcspn(at, " \t");
    if (n != strlen(word) || strncmp(at, word, n) != 0)
        return 0;
    view_word(v);
    return 1;
}

/* How the command is to be typed. */
static const char *usage(const struct view *v)
{
    const struct repl_command *command = repl_find(v->command);
    return command ? command->args : "";
}

int view_end(struct view *v)
{
    char *word = view_word(v);
    if (*word)
        repl_error("unexpected '%.40s': %s %s", word, v->command, usage(v));
    return !*word;
}

/* The next word as one of 0 to n - 1. */
static int read_index(struct view *v, const char *what, size_t n, int32_t *index)
{
    char *word = view_word(v);
    if (*word)
        return repl_read_index(what, word, n, index);
    repl_error("which %s? %s %s", what, v->command, usage(v));
    return 0;
}

int view_layer(struct view *v, int32_t *layer)
{
    return read_index(v, "layer", (size_t)v->repl->engine.info.n_layer, layer);
}

int view_head(struct view *v, int32_t *head, int32_t n_heads, const char *what)
{
    return read_index(v, what, (size_t)n_heads, head);
}

int view_position(struct view *v, const char *what, int optional, size_t *pos)
{
    int32_t p;
    int none = v->rest[strspn(v->rest, " \t")] == 0;
    if (v->n_pos == 0) {
        repl_error("nothing to look at yet: type a text first");
        return 0;
    }
    *pos = v->n_pos - 1;
    if ((optional && none) || view_flag(v, "-1"))
        return 1;
    if (!read_index(v, what, v->n_pos, &p))
        return 0;
    *pos = (size_t)p;
    return 1;
}

void *view_new(size_t n, size_t each)
{
    void *p = mem_new(n, each);
    if (!p)
        repl_error("out of memory: %zu numbers", n);
    return p;
}

/* ---- labels ---------------------------------------------------------------------------------- */

void view_token(const struct repl *r, int32_t token, size_t columns, char *out)
{
    char *text = NULL;
    size_t n = 0;
    FILE *memory = open_memstream(&text, &n);
    *out = 0;
    if (memory) {
        text_print_token(memory, r->engine.model, token);
        fclose(memory);
    }
    if (text) {
        screen_cut(text, columns < HEAT_LABEL / 4 ? columns : HEAT_LABEL / 4);
        snprintf(out, HEAT_LABEL, "%s", text);
    } else {
        repl_no_memory();
    }
    free(text);
}

void view_token_label(const void *user, size_t i, size_t columns, char *out)
{
    const struct view *v = user;
    view_token(v->repl, mgpt_tokens(v->repl->engine.session)[i], columns, out);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void view_put(struct view *v, const char *fmt, va_list ap)
{
    char text[512];
    int n = vsnprintf(text, sizeof text, fmt, ap);
    if (n > 0)
        outfile_write(&v->file, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

void view_file_put(struct view *v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    view_put(v, fmt, ap);
    va_end(ap);
}

int view_file_open(struct view *v, const char *fmt, ...)
{
    mgpt_error err;
    va_list ap;
    if (files_create(&v->file, v->path, FILES_TABLE, &err) < 0) {
        fflush(stdout);
        cli_fail(v->path, &err);
        return 0;
    }
    view_file_put(v, "# ");
    va_start(ap, fmt);
    view_put(v, fmt, ap);
    va_end(ap);
    view_file_put(v, "\n");
    return 1;
}

void view_file_row(struct view *v, const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        view_file_put(v, "%s%.9g", i ? "\t" : "", values[i]);
    view_file_put(v, "\n");
}

void view_file_close(struct view *v)
{
    mgpt_error err;
    unsigned long long n = v->file.offset + v->file.n_buf;
    if (outfile_commit(&v->file, &err) < 0) {
        fflush(stdout);
        cli_fail(v->path, &err);
        return;
    }
    repl_say("wrote %llu bytes to %s", n, v->path);
}

/* ---- tables ---------------------------------------------------------------------------------- */

enum { TABLE_LABEL = 16 };

void view_print_label(const char *label)
{
    size_t used = screen_columns(label);
    printf("%s%*s", label, used < TABLE_LABEL ? (int)(TABLE_LABEL - used) : 0, "");
}

double view_fixed(double x, int digits)
{
    return fabs(x) < 0.5 * pow(10, -digits) ? 0 : x;
}

int view_table_open(struct view *v, const char *first, const struct view_column *columns, size_t n)
{
    if (v->path && !view_file_open(v, "%s", first))
        return 0;
    if (!v->path)
        printf("%-*s", TABLE_LABEL, first);
    for (size_t i = 0; i < n; i++)
        if (v->path)
            view_file_put(v, "%s%s", i ? "\t" : "# ", columns[i].title);
        else
            printf(" %*s", columns[i].width, columns[i].title);
    if (v->path)
        view_file_put(v, "\n");
    else
        putchar('\n');
    return 1;
}

void view_table_row(struct view *v, const char *label, const struct view_column *columns,
                    const double *values, size_t n)
{
    if (v->path) {
        view_file_row(v, values, n);
        return;
    }
    view_print_label(label);
    for (size_t i = 0; i < n; i++)
        if (isnan(values[i]))
            printf(" %*s·", columns[i].width - 1, "");
        else
            printf(" %*.*f", columns[i].width, columns[i].digits,
                   view_fixed(values[i], columns[i].digits));
    putchar('\n');
}

void view_table_close(struct view *v)
{
    if (v->path)
        view_file_close(v);
}

static int larger_first(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The SCREEN_LINES-th largest size, and how many are above it. */
static int find_threshold(const double *sizes, size_t n, double *threshold, size_t *n_above)
{
    double *sorted = view_new(n, sizeof *sorted);
    if (!sorted)
        return 0;
    for (size_t i = 0; i < n; i++)
        sorted[i] = isnan(sizes[i]) ? INFINITY : fabs(sizes[i]);
    qsort(sorted, n, sizeof *sorted, larger_first);
    *threshold = sorted[SCREEN_LINES - 1];
    for (*n_above = 0; sorted[*n_above] > *threshold;)
        ++*n_above;
    free(sorted);
    return 1;
}

uint8_t *view_strongest(const struct view *v, const double *sizes, size_t n, const char *what)
{
    uint8_t *shown = view_new(n, 1);
    double threshold;
    size_t n_above;
    if (!shown)
        return NULL;
    memset(shown, 1, n);
    if (v->path || n <= SCREEN_LINES)
        return shown;
    if (!find_threshold(sizes, n, &threshold, &n_above)) {
        free(shown);
        return NULL;
    }
    size_t ties = SCREEN_LINES - n_above; /* of those that are exactly as large, the first */
    for (size_t i = 0; i < n; i++) {
        double size = isnan(sizes[i]) ? INFINITY : fabs(sizes[i]);
        shown[i] = size > threshold || (size == threshold && ties > 0);
        ties -= size == threshold && ties > 0;
    }
    printf("the strongest %d of %zu %s; -o FILE writes all\n", SCREEN_LINES, n, what);
    return shown;
}

/* ---- values of a replay ---------------------------------------------------------------------- */

uint64_t view_points(const struct view_wants *wants)
{
    uint64_t points = 0;
    for (size_t i = 0; i < wants->n; i++)
        points |= MGPT_POINT_BIT(wants->wants[i].point);
    return points;
}

static void gather_head(struct view_want *w, const mgpt_value *value)
{
    if ((size_t)value->pos != w->first)
        return;
    memcpy(w->to, value->data + w->col * value->stride, (w->first + 1) * sizeof *w->to);
    w->seen = 1;
}

static void gather_rows(struct view_want *w, const mgpt_value *value)
{
    for (size_t i = 0; i < (size_t)value->rows; i++) {
        size_t pos = (size_t)value->pos + i;
        if (pos < w->first || pos >= w->first + w->n)
            continue;
        memcpy(w->to + (pos - w->first) * w->n_cols, value->data + i * value->stride + w->col,
               w->n_cols * sizeof *w->to);
        w->seen = 1;
    }
}

int view_gather(const mgpt_value *value, void *user)
{
    struct view_wants *wants = user;
    for (size_t i = 0; i < wants->n; i++) {
        struct view_want *w = &wants->wants[i];
        if (w->point != value->point || w->layer != value->layer)
            continue;
        if (value->point == MGPT_SCORES || value->point == MGPT_WEIGHTS)
            gather_head(w, value);
        else
            gather_rows(w, value);
    }
    return 0;
}
