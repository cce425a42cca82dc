/* The tables of mgpt patch. See report.h. */
#include "patch/report.h"

#include "base/mem.h"
#include "common/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STRONGEST = 8 };

const char *const report_runs[] = {"clean", "corrupt"};
_Static_assert(sizeof report_runs / sizeof *report_runs == N_RUNS, "a row each");

/* A grid of the report; `best`: of a head only the strongest position is shown. */
struct shown {
    const struct report *report;
    const struct sweep_grid *grid;
    int best;
    const struct pairs_grid *pairs; /* NULL: there is one pair */
};

static double change_at(const struct shown *s, size_t row, size_t pos)
{
    const struct report *r = s->report;
    size_t n_head = arr_len(s->grid->heads);
    double change = sweep_value(s->grid, row / n_head, row % n_head, pos) - r->runs[r->into].value;
    return r->why ? 0 - change : change;
}

/* ---- the prompts ---- */

static const char *name_of(const struct report *r, int which)
{
    return r->runs[which].name ? r->runs[which].name : report_runs[which];
}

const char *report_mode(const struct report *r, const struct sweep_grid *g)
{
    int left_out =
        g->mode == SWEEP_KEY || g->mode == SWEEP_VALUE || g->positions[0] == SWEEP_EVERYWHERE;
    return left_out ? "left out" : r->mode;
}

int report_label(struct report *r)
{
    int done = 1;
    for (int which = 0; which < N_RUNS; which++) {
        struct report_run *run = &r->runs[which];
        if (run->tokens)
            run->labels = mem_new(run->n_tokens, sizeof *run->labels);
        for (size_t i = 0; i < run->n_tokens && done; i++)
            done = run->labels && text_token_label(r->model, run->tokens[i], HEAT_LABEL / 4,
                                                   run->labels[i], HEAT_LABEL);
    }
    return done;
}

static void print_run(const struct report *r, int which)
{
    const struct report_run *run = &r->runs[which];
    printf("%-8s %10.4f ", name_of(r, which), run->value);
    for (size_t i = 0; i < run->n_tokens; i++)
        printf(" %s", run->labels[i]);
    putchar('\n');
}

/* ---- pictures ---- */

static void row_label(const void *user, size_t i, size_t columns, char *out)
{
    const struct sweep_grid *g = ((const struct shown *)user)->grid;
    size_t n_head = arr_len(g->heads);
    (void)columns;
    if (g->has_heads && !((const struct shown *)user)->best)
        snprintf(out, HEAT_LABEL, "%d.%d", (int)g->layers[i / n_head], (int)g->heads[i % n_head]);
    else
        snprintf(out, HEAT_LABEL, "%d", (int)g->layers[i]);
}

static void head_label(const void *user, size_t i, size_t columns, char *out)
{
    (void)columns;
    snprintf(out, HEAT_LABEL, "%d", (int)((const struct shown *)user)->grid->heads[i]);
}

static const char *token_label(const struct shown *s, size_t i)
{
    return s->report->runs[s->report->into].labels[s->grid->positions[i]];
}

static void position_label(const void *user, size_t i, size_t columns, char *out)
{
    const struct shown *s = user;
    (void)columns;
    snprintf(out, HEAT_LABEL, "%d %.64s", (int)s->grid->positions[i], token_label(s, i));
}

static double picture_value(const void *user, size_t row, size_t col)
{
    const struct shown *s = user;
    size_t n_head = arr_len(s->grid->heads);
    double best = NAN;
    if (!s->best)
        return change_at(s, row, col);
    for (size_t pos = 0; pos < arr_len(s->grid->positions); pos++) {
        double x = change_at(s, row * n_head + col, pos);
        best = isnan(best) || fabs(x) > fabs(best) ? x : best;
    }
    return best;
}

static int print_picture(const struct shown *s, const struct screen *screen)
{
    const struct sweep_grid *g = s->grid;
    size_t n_layer = arr_len(g->layers), n_head = arr_len(g->heads);
    struct heat heat = {
        .rows = {n_layer * n_head, g->has_heads ? "head" : "layer", row_label, s, 1},
        .cols = {arr_len(g->positions), "token", position_label, s, 1},
        .cell = HEAT_LARGEST_SIZE,
        .is_signed = 1};
    if (s->best) {
        heat.rows = (struct heat_axis){n_layer, "layer", row_label, s, 1};
        heat.cols = (struct heat_axis){n_head, "head", head_label, s, 1};
    }
    return heat_show(&heat, screen, picture_value, s);
}

/* ---- the strongest ---- */

static void print_site(const struct shown *s, size_t index)
{
    size_t n_pos = arr_len(s->grid->positions), n_head = arr_len(s->grid->heads);
    size_t row = index / n_pos, pos = index % n_pos;
    printf("  %d", (int)s->grid->layers[row / n_head]);
    if (s->grid->has_heads)
        printf(".%d", (int)s->grid->heads[row % n_head]);
    if (s->grid->positions[pos] != SWEEP_EVERYWHERE)
        printf(" at %d %s", (int)s->grid->positions[pos], token_label(s, pos));
    printf("  %+.4f", change_at(s, row, pos));
    if (s->pairs)
        printf(" +- %.4f, p %.4f", s->pairs->stderrs[index], s->pairs->p[index]);
    putchar('\n');
}

/* The largest change that is not taken; n: there is none. */
static size_t next_strongest(const struct shown *s, const uint8_t *taken, size_t n)
{
    size_t best = n, n_pos = arr_len(s->grid->positions);
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        double x = fabs(change_at(s, i / n_pos, i % n_pos));
        if (taken[i] || !(x > largest))
            continue;
        best = i;
        largest = x;
    }
    return best;
}

static int print_strongest_sites(const struct shown *s)
{
    size_t n = sweep_size(s->grid);
    uint8_t *taken = mem_new(n, 1);
    if (!taken)
        return 0;
    puts("strongest:");
    for (size_t k = 0; k < STRONGEST; k++) {
        size_t best = next_strongest(s, taken, n);
        if (best == n)
            break;
        taken[best] = 1;
        print_site(s, best);
    }
    free(taken);
    return 1;
}

/* ---- the report ---- */

static void print_title(const struct shown *s)
{
    const struct report *r = s->report;
    printf("\n%s, %s", s->grid->name, r->why ? "metric less that without" : "change of the metric");
    if (r->why)
        fputs(s->best && s->grid->positions[0] != SWEEP_EVERYWHERE ? ", the largest by position"
                                                                   : "",
              stdout);
    else if (s->grid->mode == SWEEP_PATCH)
        printf(" with the value of the %s run%s", name_of(r, 1 - r->into),
               s->best ? ", at the strongest position" : "");
    else
        printf(", %s%s", report_mode(r, s->grid), s->best ? " at the strongest position" : "");
    putchar('\n');
}

/* ---- why ---- */

static void print_token_values(const struct report *r)
{
    const struct report_run *run = &r->runs[r->into];
    puts("\ntokens, metric less that of the prompt without them");
    for (size_t i = 0; i < run->n_tokens; i++)
        printf("%8zu %10.4f  %s\n", i, run->value - r->why->tokens[i], run->labels[i]);
}

static void print_segments(const struct report *r)
{
    const struct why *w = r->why;
    printf("\nsegments, Shapley values: together %.4f, of which the empty prompt has %.4f\n",
           w->coalitions[((size_t)1 << w->n_segments) - 1], w->coalitions[0]);
    for (size_t i = 0; i < w->n_segments; i++) {
        printf("%8zu %10.4f ", w->first[i], w->shapley[i]);
        for (size_t j = w->first[i]; j < w->first[i + 1]; j++)
            printf(" %s", r->runs[r->into].labels[j]);
        putchar('\n');
    }
}

int report_show(const struct report *r, const struct screen *screen)
{
    printf("metric   %10s  ", "");
    text_print_quoted(stdout, r->metric->text, strlen(r->metric->text));
    putchar('\n');
    int done = 1;
    if (r->pairs)
        printf("means over %zu pairs; the tokens are the first pair's\n", pairs_known(r->pairs));
    for (int i = 0; i < N_RUNS; i++)
        if (r->runs[i].tokens)
            print_run(r, i);
    if (r->why && r->why->tokens)
        print_token_values(r);
    if (r->why && r->why->coalitions)
        print_segments(r);
    for (size_t i = 0; i < arr_len(r->grids) && done; i++) {
        const struct sweep_grid *g = &r->grids[i];
        int many = arr_len(g->layers) * arr_len(g->heads) > SCREEN_LINES;
        const struct shown s = {r, g, g->has_heads && (many || g->positions[0] == SWEEP_EVERYWHERE),
                                r->pairs ? &r->pairs->grids[i] : NULL};
        print_title(&s);
        done = print_picture(&s, screen) && print_strongest_sites(&s);
    }
    return done;
}
