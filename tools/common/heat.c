/* Pictures of matrices. See heat.h. */
#include "common/heat.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum cell_state { NOTHING, NUMBER, NOT_FINITE };

struct heat_value {
    float value;
    enum cell_state state;
};

enum { SIDE = 16, LEGEND = 16, INDEX_EVERY = 10, DECADES = 4 };

/* ---- filling --------------------------------------------------------------------------------- */

static size_t cells_of(size_t n, size_t max, size_t *per)
{
    *per = max && n > max ? (n + max - 1) / max : 1;
    return (n + *per - 1) / *per;
}

int heat_open(struct heat *h, size_t max_rows, size_t max_cols)
{
    h->n_rows = cells_of(h->rows.n, max_rows, &h->per_row);
    h->n_cols = cells_of(h->cols.n, max_cols, &h->per_col);
    h->low = h->high = 0;
    h->values = mem_new(h->n_rows * h->n_cols, sizeof *h->values);
    return h->values != NULL;
}

static int beats(const struct heat *h, float a, float b)
{
    return h->cell == HEAT_LARGEST ? a > b : fabsf(a) > fabsf(b);
}

void heat_put(struct heat *h, size_t row, size_t col, double value)
{
    struct heat_value *v = &h->values[row / h->per_row * h->n_cols + col / h->per_col];
    if (!isfinite(value))
        v->state = NOT_FINITE; /* shown even if its neighbours are larger */
    else if (v->state == NOTHING || (v->state == NUMBER && beats(h, (float)value, v->value)))
        *v = (struct heat_value){(float)value, NUMBER};
}

void heat_end(struct heat *h)
{
    int any = 0;
    for (size_t i = 0; i < h->n_rows * h->n_cols; i++) {
        double v = (double)h->values[i].value;
        if (h->values[i].state != NUMBER)
            continue;
        h->low = any && h->low < v ? h->low : v;
        h->high = any && h->high > v ? h->high : v;
        any = 1;
    }
    h->is_signed |= h->low < 0 && !h->logarithmic;
}

void heat_close(struct heat *h)
{
    free(h->values);
    h->values = NULL;
}

/* ---- one cell -------------------------------------------------------------------------------- */

static const struct heat_value *cell_at(const struct heat *h, size_t row, size_t col)
{
    static const struct heat_value nothing;
    return row < h->n_rows && col < h->n_cols ? &h->values[row * h->n_cols + col] : &nothing;
}

/* Where from low to high, 0 to 1; NaN: nothing to show. */
static double place(const struct heat *h, const struct heat_value *v)
{
    double span = h->high - h->low, x = (double)v->value;
    if (v->state == NOTHING)
        return NAN;
    if (v->state == NOT_FINITE)
        return 1;
    if (h->logarithmic)
        return x > 0 && h->high > 0 ? fmax(0, 1 + log10(x / h->high) / DECADES) : 0;
    return span > 0 ? (x - h->low) / span : 0.5;
}

static enum screen_scale scale_of(const struct heat *h)
{
    return h->is_signed ? SCREEN_SIGNS : SCREEN_SIZES;
}

/* Where on the scale of colours. */
static double coloured(const struct heat *h, const struct heat_value *v)
{
    double most = fmax(fabs(h->low), fabs(h->high));
    return h->is_signed && v->state == NUMBER ? 0.5 + (most > 0 ? (double)v->value / most / 2 : 0)
                                              : place(h, v);
}

/* ---- cells without numbers ------------------------------------------------------------------- */

static size_t zoom_of(const struct heat *h)
{
    return h->zoom ? h->zoom : 1;
}

size_t heat_lines(const struct heat *h, const struct screen *s)
{
    return s->mode == SCREEN_PLAIN ? h->n_rows : (h->n_rows * zoom_of(h) + 1) / 2;
}

static void plain_line(const struct heat *h, size_t line, FILE *to)
{
    for (size_t j = 0; j < h->n_cols; j++) {
        const struct heat_value *v = cell_at(h, line, j);
        if (v->state == NUMBER)
            fputc(screen_ramp(place(h, v)), to);
        else
            fputs(v->state == NOTHING ? "·" : "?", to);
    }
}

void heat_line(const struct heat *h, const struct screen *s, size_t line, FILE *to)
{
    size_t zoom = zoom_of(h);
    if (s->mode == SCREEN_PLAIN) {
        plain_line(h, line, to);
        return;
    }
    for (size_t j = 0; j < h->n_cols * zoom; j++)
        screen_halves(s, to, scale_of(h), coloured(h, cell_at(h, 2 * line / zoom, j / zoom)),
                      coloured(h, cell_at(h, (2 * line + 1) / zoom, j / zoom)));
    screen_reset(s, to);
}

size_t heat_columns(const struct heat *h, const struct screen *s)
{
    return s->mode == SCREEN_PLAIN ? h->n_cols : h->n_cols * zoom_of(h);
}

/* ---- labels ---------------------------------------------------------------------------------- */

static int digits_of(size_t n)
{
    int digits = 1;
    for (; n >= 10; n /= 10)
        digits++;
    return digits;
}

/* A text padded to `columns`, on the left or right. */
static void print_padded(FILE *to, const char *text, size_t columns, int right)
{
    size_t used = screen_columns(text), pad = used < columns ? columns - used : 0;
    fprintf(to, "%*s%s%*s", right ? (int)pad : 0, "", text, right ? 0 : (int)pad, "");
}

static void axis_label(const struct heat_axis *axis, size_t i, size_t columns, char *out)
{
    *out = 0;
    if (axis->label && columns > 0)
        axis->label(axis->user, i, columns, out);
    screen_cut(out, columns);
}

/* The label in front of row i. If j is another row they share a line: part of both labels. */
static void print_side(const struct heat_axis *axis, size_t i, size_t j, FILE *to)
{
    char label[2 * HEAT_LABEL + 2], other[HEAT_LABEL] = "";
    size_t left = SIDE - 1;
    if (!axis->unnumbered)
        left -= (size_t)fprintf(to, "%*zu ", digits_of(axis->n - 1), i);
    int shared = j != i && j < axis->n && axis->label;
    axis_label(axis, i, shared ? (left - 1) / 2 : left, label);
    if (shared)
        axis_label(axis, j, (left - 1) / 2, other);
    if (*other)
        snprintf(label + strlen(label), HEAT_LABEL + 1, "/%s", other);
    print_padded(to, label, left + 1, 0);
}

/* The index of every tenth cell above the cells. */
static void print_ruler(const struct heat *h, FILE *to)
{
    fprintf(to, "%*s", SIDE, "");
    for (size_t j = 0; j < h->n_cols;) {
        int used = fprintf(to, "%zu", j * h->per_col);
        for (; used < INDEX_EVERY && j + (size_t)used < h->n_cols; used++)
            fputc(' ', to);
        j += INDEX_EVERY;
    }
    fputc('\n', to);
}

/* One character of each column's label: enough to find one's place in a text. What is not a plain
 * letter or sign is '_'. */
static void print_initials(const struct heat *h, FILE *to)
{
    char label[HEAT_LABEL];
    fprintf(to, "%*s", SIDE, "");
    for (size_t j = 0; j < h->n_cols; j++) {
        axis_label(&h->cols, j, HEAT_LABEL / 4, label);
        const char *at = *label == '"' && label[1] ? label + 1 : label;
        uint8_t lead = (uint8_t)*at;
        fputc(lead > 32 && lead < 127 && lead != '\\' ? lead : '_', to);
    }
    fputc('\n', to);
}

static void print_names(const struct heat *h, FILE *to)
{
    char title[HEAT_LABEL];
    snprintf(title, sizeof title, "%s \\ %s", h->rows.name, h->cols.name);
    screen_cut(title, SIDE - 1);
    print_padded(to, title, SIDE, 0);
}

/* ---- pictures -------------------------------------------------------------------------------- */

void heat_room(const struct screen *s, size_t *max_rows, size_t *max_cols)
{
    *max_rows = s->mode == SCREEN_PLAIN ? SCREEN_LINES : 2 * SCREEN_LINES;
    *max_cols = s->width > SIDE + 4 ? s->width - SIDE : 4;
}

static void print_cells(const struct heat *h, const struct screen *s, FILE *to)
{
    size_t rows_of_line = s->mode == SCREEN_PLAIN ? 1 : 2;
    print_ruler(h, to);
    if (h->cols.label && !h->cols.unnumbered && h->per_col == 1)
        print_initials(h, to);
    for (size_t line = 0; line < heat_lines(h, s); line++) {
        size_t first = line * rows_of_line * h->per_row;
        print_side(&h->rows, first, rows_of_line * h->per_row == 2 ? first + 1 : first, to);
        heat_line(h, s, line, to);
        fputc('\n', to);
    }
}

/* A number as the picture shows it: `digits` after the point, fewer than none: as a power of
 * ten. */
static int format(const struct heat *h, double value, int digits, char *out, size_t cap)
{
    return h->logarithmic ? snprintf(out, cap, "%.*e", digits > 2 ? 2 : 0, value)
                          : snprintf(out, cap, "%.*f", digits, value);
}

/* Columns of the widest number. */
static size_t widest(const struct heat *h, int digits)
{
    char text[64];
    size_t most = 1;
    for (size_t i = 0; i < h->n_rows * h->n_cols; i++)
        if (h->values[i].state == NUMBER) {
            int n = format(h, (double)h->values[i].value, digits, text, sizeof text);
            most = (size_t)n > most ? (size_t)n : most;
        }
    return most;
}

static void print_number(const struct heat *h, const struct screen *s, const struct heat_value *v,
                         int digits, size_t width, FILE *to)
{
    char text[64];
    if (v->state == NOTHING) {
        fprintf(to, "%*s·", (int)width, "");
        return;
    }
    strcpy(text, "?");
    if (v->state == NUMBER)
        format(h, (double)v->value, digits, text, sizeof text);
    fputc(' ', to);
    screen_ground(s, to, scale_of(h), coloured(h, v));
    print_padded(to, text, width, 1);
    screen_reset(s, to);
}

static void print_heads(const struct heat *h, size_t width, FILE *to)
{
    char label[HEAT_LABEL];
    print_names(h, to);
    for (size_t j = 0; j < h->n_cols && !h->cols.unnumbered; j++)
        fprintf(to, " %*zu", (int)width, j);
    if (!h->cols.unnumbered)
        fputc('\n', to);
    if (!h->cols.label)
        return;
    fprintf(to, "%*s", h->cols.unnumbered ? 0 : SIDE, "");
    for (size_t j = 0; j < h->n_cols; j++) {
        axis_label(&h->cols, j, width, label);
        fputc(' ', to);
        print_padded(to, label, width, 1);
    }
    fputc('\n', to);
}

static void print_numbers(const struct heat *h, const struct screen *s, int digits, FILE *to)
{
    size_t width = widest(h, digits);
    print_heads(h, width, to);
    for (size_t i = 0; i < h->n_rows; i++) {
        print_side(&h->rows, i, i, to);
        for (size_t j = 0; j < h->n_cols; j++)
            print_number(h, s, cell_at(h, i, j), digits, width, to);
        fputc('\n', to);
    }
}

void heat_legend(const struct heat *h, const struct screen *s, FILE *to)
{
    int in_signs = h->is_signed && s->mode != SCREEN_PLAIN;
    double high = in_signs ? fmax(fabs(h->low), fabs(h->high)) : h->high;
    double low = h->logarithmic ? h->high / pow(10, DECADES) : in_signs ? -high : h->low;
    fprintf(to, h->logarithmic ? "log scale %.1e " : "scale %.4f ", low);
    for (int i = 0; i < LEGEND; i++) {
        double at = (double)i / (LEGEND - 1);
        screen_ground(s, to, scale_of(h), at);
        fputc(s->mode == SCREEN_PLAIN ? screen_ramp(at) : ' ', to);
    }
    screen_reset(s, to);
    fprintf(to, h->logarithmic ? " %.1e" : " %.4f", high);
    if (h->per_row > 1 || h->per_col > 1)
        fprintf(to, "\na cell: largest%s of %zu x %zu; all %zu x %zu: -o FILE",
                h->cell == HEAT_LARGEST ? "" : " in size", h->per_row, h->per_col, h->rows.n,
                h->cols.n);
    fputc('\n', to);
}

void heat_print(const struct heat *h, const struct screen *s, FILE *to)
{
    size_t room = s->width > SIDE ? s->width - SIDE : 0;
    int digits = 4;
    while (digits >= 2 && h->n_cols * (widest(h, digits) + 1) > room)
        digits -= 2;
    if (h->per_row == 1 && h->per_col == 1 && digits >= 2 && h->n_rows <= SCREEN_LINES)
        print_numbers(h, s, digits, to);
    else
        print_cells(h, s, to);
    heat_legend(h, s, to);
}

int heat_show(struct heat *h, const struct screen *s, heat_value_fn *value, const void *user)
{
    size_t max_rows, max_cols;
    heat_room(s, &max_rows, &max_cols);
    if (!heat_open(h, max_rows, max_cols))
        return 0;
    for (size_t i = 0; i < h->rows.n; i++)
        for (size_t j = 0; j < h->cols.n; j++)
            heat_put(h, i, j, value(user, i, j));
    heat_end(h);
    heat_print(h, s, stdout);
    heat_close(h);
    return 1;
}
