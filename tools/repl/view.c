/* What the looking commands share. See view.h. */
#include "repl/view.h"

#include "base/mem.h"
#include "common/files.h"
#include "common/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const mgpt_point view_residuals[] = {MGPT_RESID_PRE, MGPT_RESID_MID, MGPT_RESID_POST};
_Static_assert(sizeof view_residuals / sizeof *view_residuals == VIEW_HALVES, "a row each");

struct view view_of(struct repl *r, const struct repl_args *args)
{
    struct view v = {.repl = r, .path = args->path, .n_pos = mgpt_pos(r->engine.session)};
    screen_look(&v.screen, r->screen_mode, r->width);
    return v;
}

int view_is_attention(const struct view *v, int32_t layer)
{
    mgpt_layer l = {0};
    mgpt_get_layer(v->repl->engine.model, (size_t)layer, &l, NULL);
    if (l.n_conv)
        repl_error("layer %d is a short convolution of %d tokens, which has no scores and weights",
                   (int)layer, (int)l.n_conv);
    return !l.n_conv;
}

void *view_new(size_t n, size_t each)
{
    void *p = mem_new(n, each);
    if (!p)
        repl_no_memory();
    return p;
}

/* ---- labels ---------------------------------------------------------------------------------- */

void view_token(const struct repl *r, int32_t token, size_t columns, char *out)
{
    columns = columns < HEAT_LABEL / 4 ? columns : HEAT_LABEL / 4;
    if (!text_token_label(r->engine.model, token, columns, out, HEAT_LABEL))
        repl_no_memory();
}

void view_token_label(const void *user, size_t i, size_t columns, char *out)
{
    const struct view *v = user;
    view_token(v->repl, mgpt_tokens(v->repl->engine.session)[i], columns, out);
}

void view_print_tops(const struct repl *r, const mgpt_candidate *top, size_t n)
{
    char token[HEAT_LABEL];
    for (size_t k = 0; k < n; k++) {
        view_token(r, top[k].token, VIEW_TOP, token);
        printf(" %5.3f %s%*s", exp(top[k].logprob), token,
               k + 1 < n ? (int)(VIEW_TOP - screen_columns(token)) : 0, "");
    }
    putchar('\n');
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
        repl_file_failed(v->path, &err);
        return 0;
    }
    view_file_put(v, FILES_TABLE_LINE "\n# ");
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
    unsigned long long n = v->file.offset;
    if (outfile_commit(&v->file, &err) < 0) {
        repl_file_failed(v->path, &err);
        return;
    }
    repl_say("wrote %llu bytes to %s", n, v->path);
}

/* ---- matrices -------------------------------------------------------------------------------- */

void view_picture(const struct view *v, struct view_matrix *m)
{
    if (!heat_show(&m->heat, &v->screen, m->value, m->user))
        repl_no_memory();
}

void view_file_matrix(struct view *v, const struct view_matrix *m)
{
    for (size_t i = 0; i < m->heat.rows.n; i++) {
        for (size_t j = 0; j < m->heat.cols.n; j++)
            view_file_put(v, "%s%.9g", j ? "\t" : "", m->value(m->user, i, j));
        view_file_put(v, "\n");
    }
    view_file_close(v);
}

size_t view_take_largest(const struct view_matrix *m, uint8_t *taken)
{
    size_t cols = m->heat.cols.n, n = m->heat.rows.n * cols, best = n;
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        double size = fabs(m->value(m->user, i / cols, i % cols));
        if (taken[i] || !(best == n || size > largest))
            continue;
        best = i;
        largest = size;
    }
    taken[best] = 1;
    return best;
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
    size_t ties = SCREEN_LINES - n_above; /* rows left for values equal to the threshold */
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
