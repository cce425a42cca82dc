/* What the looking commands of the repl share: labels, tables, pictures, files of numbers, and
 * values gathered from a replay.
 *
 * A view prints what a person can read. With `-o FILE` it writes all its numbers as text instead (a
 * line that begins with '#', then columns apart by tabs: numpy.loadtxt reads it), without
 * a limit. */
#ifndef MGPT_VIEW_H
#define MGPT_VIEW_H

#include "base/outfile.h"
#include "common/heat.h"
#include "repl/repl.h"
#include "repl/repl_args.h"

struct view {
    struct repl *repl;
    const char *path;    /* of -o, or NULL */
    struct outfile file; /* while it is written */
    struct screen screen;
    size_t n_pos; /* tokens held */
};

/* A view of the session as it is now, on the screen or in the file of -o. */
struct view view_of(struct repl *repl, const struct repl_args *args);

/* 1 if the layer is attention; otherwise says what it is. */
int view_is_attention(const struct view *v, int32_t layer);

/* ---- labels ---- */

/* The token at a position: a label for heat_axis. user: the view. */
heat_label_fn view_token_label;

/* An id's text, escaped, at most `columns` wide. */
void view_token(const struct repl *repl, int32_t token, size_t columns, char *out);

/* The rest of a line: probabilities and tokens of the likeliest, VIEW_TOP columns of each. */
enum { VIEW_TOP = 8 };
void view_print_tops(const struct repl *repl, const mgpt_candidate *top, size_t n);

/* ---- numbers into a file ---- */

/* Opens the file of -o and writes the line of titles (after "# "); 0 after telling the user. */
int view_file_open(struct view *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void view_file_put(struct view *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* n numbers, then the end of the line. */
void view_file_row(struct view *v, const double *values, size_t n);
/* Commits and says so. */
void view_file_close(struct view *v);

/* ---- matrices ---- */

/* A matrix that a command shows as a picture, or writes to the file of -o after its line of
 * titles. */
struct view_matrix {
    struct heat heat; /* rows, cols and cell are set */
    heat_value_fn *value;
    const void *user;
};
void view_picture(const struct view *v, struct view_matrix *m);
void view_file_matrix(struct view *v, const struct view_matrix *m);

/* The place (row * columns + column) of the value that is largest in size and not taken; takes
 * it. */
size_t view_take_largest(const struct view_matrix *m, uint8_t *taken);

/* ---- tables ---- */

struct view_column {
    const char *title;
    int width, digits;
};

/* A table of labelled rows to the screen or the file. NaN is shown as '·'. At most SCREEN_LINES
 * rows go to the screen: see view_strongest. */
int view_table_open(struct view *v, const char *first, const struct view_column *columns, size_t n);
void view_table_row(struct view *v, const char *label, const struct view_column *columns,
                    const double *values, size_t n);
void view_table_close(struct view *v);

/* The label of a table's row, padded. A number that is zero in `digits` digits, as a zero
 * without sign. */
void view_print_label(const char *label);
double view_fixed(double x, int digits);

/* Marks (1) the rows to show: all, or the SCREEN_LINES largest in size, and says so. n bytes to be
 * freed, NULL: out of memory, said. */
uint8_t *view_strongest(const struct view *v, const double *sizes, size_t n, const char *what);

/* ---- values of a replay ---- */

/* Columns [col, col + n_cols) of the rows of positions [first, first + n) at a point, to
 * to[n][n_cols]. At MGPT_SCORES and MGPT_WEIGHTS: of head `col`, keys 0 to first; n = 1. */
struct view_want {
    mgpt_point point;
    int32_t layer;
    size_t first, n, col, n_cols;
    float *to;
    int seen; /* set when it was there */
};

struct view_wants {
    struct view_want *wants;
    size_t n;
};

/* A mgpt_tap_fn, user: struct view_wants. */
int view_gather(const mgpt_value *value, void *user);
uint64_t view_points(const struct view_wants *wants);

/* The residual before, within and after a layer. */
enum { VIEW_HALVES = 3 };
extern const mgpt_point view_residuals[]; /* [VIEW_HALVES] */

/* Memory, or NULL after telling the user. */
void *view_new(size_t n, size_t each);

#endif
