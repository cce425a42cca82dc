/* A matrix of numbers as a picture: numbers on colours where they fit, else half blocks of colour
 * (two rows a line), else a ramp of characters.
 *
 * A matrix that is larger than the screen is drawn in cells of several numbers each, and says so.
 * It is filled number by number and never held whole, so its size does not matter. What was never
 * put is shown as '·': there is nothing. */
#ifndef MGPT_HEAT_H
#define MGPT_HEAT_H

#include "common/screen.h"

enum { HEAT_LABEL = 96 }; /* bytes of a label */

/* What row or column i is: at most `columns` wide, in out[HEAT_LABEL]. */
typedef void heat_label_fn(const void *user, size_t i, size_t columns, char *out);

struct heat_axis {
    size_t n;
    const char *name;     /* "query" */
    heat_label_fn *label; /* NULL: only the index is shown */
    const void *user;
    int unnumbered; /* 1: only the label is shown */
};

enum heat_cell {
    HEAT_LARGEST,
    HEAT_LARGEST_SIZE
}; /* what a cell shows that stands for more than one number */

struct heat {
    struct heat_axis rows, cols;
    enum heat_cell cell;
    size_t zoom;             /* half blocks of a cell on each side; 0: one */
    int logarithmic;         /* colours are spread by the logarithm, from high / 10^4 on */
    int is_signed;           /* colours show signs; set by heat_end, too, if a number is below 0 */
    size_t per_row, per_col; /* numbers of a cell */
    size_t n_rows, n_cols;   /* cells */
    struct heat_value *values; /* [n_rows][n_cols] */
    double low, high;          /* of all that was put, once heat_end was called */
};

/* Sets rows, cols, cell and logarithmic before. At most max_rows x max_cols cells. 0: out of
 * memory. */
int heat_open(struct heat *heat, size_t max_rows, size_t max_cols);
void heat_put(struct heat *heat, size_t row, size_t col, double value);
void heat_close(struct heat *heat);

/* How large a picture with labels may be on this screen. */
void heat_room(const struct screen *screen, size_t *max_rows, size_t *max_cols);

/* Range of what was put, after the last heat_put. */
void heat_end(struct heat *heat);

/* The whole picture with labels and legend. */
void heat_print(const struct heat *heat, const struct screen *screen, FILE *to);

/* All of it for a matrix of this value: open, put, end, print on stdout, close. 0: out of memory. */
typedef double heat_value_fn(const void *user, size_t row, size_t col);
int heat_show(struct heat *heat, const struct screen *screen, heat_value_fn *value,
              const void *user);

/* Lines and columns that the cells alone take, and one of the lines. For pictures side by side. */
size_t heat_lines(const struct heat *heat, const struct screen *screen);
size_t heat_columns(const struct heat *heat, const struct screen *screen);
void heat_line(const struct heat *heat, const struct screen *screen, size_t line, FILE *to);
void heat_legend(const struct heat *heat, const struct screen *screen, FILE *to);

#endif
