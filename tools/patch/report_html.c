/* The page: one HTML file of plain tables, without scripts, that needs no network, for light and dark
 * themes. A cell's colour is blue below and rust above zero, the stronger the further (colours.h). */
#include "base/mem.h"
#include "common/colours.h"
#include "common/files.h"
#include "patch/report.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

static const char head[] = FILES_PATCH_LINE
    "<meta charset=utf-8><meta http-equiv=Content-Security-Policy content=\"default-src 'none'; "
    "style-src 'unsafe-inline'\">\n"
    "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n"
    "<title>mgpt patch</title>\n"
    "<style>:root{color-scheme:light dark}body{font:14px sans-serif;margin:2em}"
    "table{border-collapse:collapse;margin:.5em 0;display:block;overflow-x:auto}"
    "td,th{border:1px solid #8886;padding:2px 5px;font-weight:normal;text-align:right;"
    "font-variant-numeric:tabular-nums}pre{white-space:pre-wrap}";

enum { STEPS = 16, LEGEND_STEP = 4 }; /* colours on each side of zero; between two of the legend */

__attribute__((format(printf, 2, 3))) static void html_put(struct outfile *f, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    outfile_write(f, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* Black or white, which is read better on a colour: by its relative luminance (WCAG 2). */
static const char *html_ink(unsigned colour)
{
    static const double weights[] = {0.0722, 0.7152, 0.2126};
    double sum = 0;
    for (int i = 0; i < 3; i++)
        sum += weights[i] * pow((colour >> 8 * i & 255) / 255.0, 2.2);
    return sum > 0.179 ? "000" : "fff";
}

/* Classes c0 (the most below zero) to c32 of one theme. */
static void html_theme(struct outfile *f, const unsigned *points, int n)
{
    for (int i = 0; i <= 2 * STEPS; i++) {
        unsigned colour = colours_at(points, n, (double)i / (2 * STEPS));
        html_put(f, ".c%d{background:#%06x;color:#%s}", i, colour, html_ink(colour));
    }
}

static void html_begin(struct outfile *f)
{
    static const unsigned light[] = {COLOURS_SIGNS_LIGHT}, dark[] = {COLOURS_SIGNS_DARK};
    outfile_write(f, head, strlen(head));
    html_theme(f, light, sizeof light / sizeof *light);
    html_put(f, "@media(prefers-color-scheme:dark){");
    html_theme(f, dark, sizeof dark / sizeof *dark);
    html_put(f, "}</style>\n<h1>mgpt patch</h1>\n");
}

/* Text of a model or a user. */
static void html_text(struct outfile *f, const char *text)
{
    for (; *text; text++) {
        if (strchr("<>&\"'", *text))
            html_put(f, "&#%d;", *text);
        else
            outfile_write(f, text, 1);
    }
}

static void html_runs(struct outfile *f, const struct report *r)
{
    html_put(f, "<p>metric: ");
    html_text(f, r->metric->text);
    if (r->pairs)
        html_put(f, ", means over %zu pairs", pairs_known(r->pairs));
    html_put(f, ", model: ");
    html_text(f, r->path);
    for (int which = 0; which < N_RUNS; which++) {
        const struct report_run *run = &r->runs[which];
        if (!run->tokens)
            continue;
        html_put(f, "<pre>%-8s %10.4f ", report_runs[which], run->value);
        for (size_t i = 0; i < run->n_tokens; i++) {
            html_put(f, " ");
            html_text(f, run->labels[i]);
        }
        html_put(f, "</pre>\n");
    }
}

static void html_cell(struct outfile *f, double x, double largest)
{
    if (isfinite(x))
        html_put(f, " class=c%d>%.3f", STEPS + (int)lround(largest > 0 ? x / largest * STEPS : 0),
                 x);
    else
        html_put(f, ">?");
}

/* What the colours of a table say. */
static void html_legend(struct outfile *f, double largest)
{
    html_put(f, "<table><tr><th>colours");
    for (int i = -STEPS; i <= STEPS && largest > 0; i += LEGEND_STEP) {
        html_put(f, "<td");
        html_cell(f, largest * i / STEPS, largest);
    }
    html_put(f, "</table>\n");
}

/* The header: the columns are positions. */
static void html_columns(struct outfile *f, const struct report *r, const struct sweep_grid *g)
{
    html_put(f, "<tr><th>%s", g->has_heads ? "head" : "layer");
    for (size_t i = 0; i < arr_len(g->positions); i++) {
        if (g->positions[i] == SWEEP_EVERYWHERE) {
            html_put(f, "<th>all positions");
            continue;
        }
        html_put(f, "<th>%d ", (int)g->positions[i]);
        html_text(f, r->runs[r->into].labels[g->positions[i]]);
    }
}

static void html_grid(struct outfile *f, const struct report *r, size_t at)
{
    const struct sweep_grid *g = &r->grids[at];
    size_t n_pos = arr_len(g->positions), n_head = arr_len(g->heads);
    double base = r->runs[r->into].value, largest = 0;
    for (size_t i = 0; i < sweep_size(g); i++)
        if (isfinite(g->values[i] - base))
            largest = fmax(largest, fabs(g->values[i] - base));
    html_put(f, "<h2>%s</h2><p>%s", g->name,
             r->why ? "metric less that without" : "change of the metric, mode ");
    html_text(f, r->why ? "" : report_mode(r, g));
    html_put(f, "\n");
    html_legend(f, largest);
    html_put(f, "<table>");
    html_columns(f, r, g);
    for (size_t i = 0; i < sweep_size(g); i++) {
        if (i % n_pos == 0)
            html_put(f, "\n<tr><th>%d", (int)g->layers[i / n_pos / n_head]);
        if (i % n_pos == 0 && g->has_heads)
            html_put(f, ".%d", (int)g->heads[i / n_pos % n_head]);
        html_put(f, "<td");
        if (r->pairs)
            html_put(f, " title=\"standard error %.3g, p %.3g\"", r->pairs->grids[at].stderrs[i],
                     r->pairs->grids[at].p[i]);
        html_cell(f, r->why ? base - g->values[i] : g->values[i] - base, largest);
    }
    html_put(f, "</table>\n");
}

/* One table of rows: a label each, one number each. */
static void html_why(struct outfile *f, const struct report *r)
{
    const struct why *w = r->why;
    const struct report_run *run = &r->runs[r->into];
    html_put(f, w->tokens ? "<h2>tokens</h2><p>metric less that without\n<table>" : "<table>");
    for (size_t i = 0; w->tokens && i < w->n_prompt; i++) {
        html_put(f, "<tr><th>%zu ", i);
        html_text(f, run->labels[i]);
        html_put(f, "<td>%.4f\n", run->value - w->tokens[i]);
    }
    html_put(f, w->coalitions ? "</table><h2>segments</h2><p>Shapley values\n<table>" : "</table>");
    for (size_t i = 0; w->coalitions && i < w->n_segments; i++) {
        html_put(f, "<tr><th>");
        for (size_t j = w->first[i]; j < w->first[i + 1]; j++)
            html_text(f, run->labels[j]);
        html_put(f, "<td>%.4f\n", w->shapley[i]);
    }
    html_put(f, w->coalitions ? "</table>\n" : "\n");
}

int report_html(const struct report *r, const char *path, mgpt_error *err)
{
    struct outfile f;
    int status = files_create(&f, path, FILES_PATCH, err);
    if (status < 0)
        return status;
    html_begin(&f);
    html_runs(&f, r);
    if (r->why)
        html_why(&f, r);
    for (size_t i = 0; i < arr_len(r->grids); i++)
        html_grid(&f, r, i);
    return outfile_commit(&f, err);
}
