/* Repl: /circuits, weights multiplied out over tokens. The factors are circuit.c's; this is the table in its own order and its
 * strongest cells. */
#include "common/interrupt.h"
#include "common/progress.h"
#include "engine/circuit.h"
#include "engine/layers.h"
#include "repl/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ORDERED = 100,   /* most tokens that are listed in order */
    PICTURED = 1000, /* most rows of a picture or a file */
    LISTED = 10      /* strongest cells of each sign */
};
/* Cells times their width that a search goes through (half a minute); beyond that rows are the timeline's tokens. */
static const double most_work = 3e11;

/* In the order of the command's words. */
static const struct circuit_words {
    enum circuit_kind kind;
    const char *title, *row, *col;
    int by_cols;       /* whose order is the table's own */
    const char *index; /* what its second number is; NULL: it has none */
    const char *note;
} circuit_words[] = {
    {CIRCUIT_QK, "which token looks for which, W_Q W_K", "query", "key", 1, "head",
     "scores of tokens alone: without places, at distance 0"},
    {CIRCUIT_PLACES, "which place looks for which, W_Q W_K", "query", "key", 1, "head",
     "scores of places alone: without tokens"},
    {CIRCUIT_OV, "what seeing a token makes likelier, W_V W_O W_U", "seen", "logit", 0, "head",
     "straight to the logits, before the last norm divides"},
    {CIRCUIT_DIRECT, "what a token itself makes likelier, W_E W_U", "token", "logit", 0, NULL,
     "straight to the logits, before the last norm divides"},
    {CIRCUIT_FIRES, "which token fires the neuron", "token", "neuron", 0, "neuron",
     "activations of tokens alone"},
    {CIRCUIT_PROMOTES, "what the neuron makes likelier", "neuron", "logit", 0, "neuron",
     "logits of an activation of 1, before the last norm divides"},
};

struct strong_cell {
    size_t row, col;
    float value;
};

struct circuits_view {
    struct view view;
    struct circuit c;
    const struct circuit_words *words;
    int32_t layer, index;
    size_t *order;                      /* [n_rows] the row, and the column, that is shown there */
    struct strong_cell list[2][LISTED]; /* above 0, below 0: strongest first */
    size_t n_list[2];
};

/* ---- the strongest cells --------------------------------------------------------------------- */

static void keep_strongest(struct circuits_view *a, size_t row, size_t col, float value)
{
    int sign = value < 0;
    struct strong_cell *list = a->list[sign];
    size_t i = a->n_list[sign];
    if (i == LISTED && !(fabsf(value) > fabsf(list[--i].value)))
        return;
    for (; i > 0 && fabsf(value) > fabsf(list[i - 1].value); i--)
        list[i] = list[i - 1];
    list[i] = (struct strong_cell){row, col, value};
    a->n_list[sign] += a->n_list[sign] < LISTED;
}

/* The rows to search: all, or where that takes too long those of the timeline. Returns their number. */
static size_t choose_rows(const struct circuits_view *a, size_t *rows, uint8_t *held)
{
    const struct circuit *c = &a->c;
    const int32_t *tokens = mgpt_tokens(a->view.repl->engine.session);
    int all = (double)c->n_rows * (double)c->n_cols * (double)c->stride <= most_work;
    size_t n = 0;
    for (size_t i = 0; i < a->view.n_pos && !all; i++) {
        size_t row = a->words->kind == CIRCUIT_PLACES ? i : (size_t)tokens[i];
        if (row < c->n_rows) /* ids beyond the vocabulary can be fed */
            held[row] = 1;
    }
    for (size_t i = 0; i < c->n_rows; i++)
        if (all || held[i])
            rows[n++] = i;
    if (!all)
        printf("rows: the %zu tokens of this timeline (all pairs of %zu would take minutes)\n", n,
               c->n_rows);
    return n;
}

static void find_strongest(struct circuits_view *a)
{
    struct progress progress;
    size_t *rows = view_new(a->c.n_rows, sizeof *rows);
    uint8_t *held = view_new(a->c.n_rows, 1);
    size_t n = rows && held ? choose_rows(a, rows, held) : 0;
    progress_begin(&progress);
    for (size_t i = 0; i < n && !interrupted(); i++) {
        for (size_t j = 0; j < a->c.n_cols; j++)
            keep_strongest(a, rows[i], j, circuit_cell(&a->c, rows[i], j));
        progress_show(&progress, i, n);
    }
    progress_end(&progress);
    free(rows);
    free(held);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void circuit_label(const void *user, size_t i, size_t columns, char *out)
{
    const struct circuits_view *a = user;
    if (a->words->kind == CIRCUIT_PLACES)
        snprintf(out, HEAT_LABEL, "%zu", i);
    else
        view_token(a->view.repl, (int32_t)i, columns, out);
}

static void ordered_label(const void *user, size_t i, size_t columns, char *out)
{
    const struct circuits_view *a = user;
    circuit_label(a, a->order[i], columns, out);
}

static double ordered_cell(const void *user, size_t row, size_t col)
{
    const struct circuits_view *a = user;
    return (double)circuit_cell(&a->c, a->order[row], a->order[col]);
}

static double plain_cell(const void *user, size_t row, size_t col)
{
    const struct circuits_view *a = user;
    return (double)circuit_cell(&a->c, row, col);
}

static void print_found(const struct circuits_view *a, const struct strong_cell *f)
{
    char row[HEAT_LABEL] = "", col[HEAT_LABEL] = "";
    if (a->c.n_rows > 1)
        circuit_label(a, f->row, 16, row);
    if (a->c.n_cols > 1)
        circuit_label(a, f->col, 16, col);
    printf("  %-10s %-10s %+9.4f", *row ? row : col, *row ? col : "", (double)f->value);
}

static void print_strongest_cells(struct circuits_view *a)
{
    find_strongest(a);
    size_t most = a->n_list[0] > a->n_list[1] ? a->n_list[0] : a->n_list[1];
    if (a->c.n_rows > 1 && a->c.n_cols > 1)
        printf("strongest (%s, %s)\n", a->words->row, a->words->col);
    else
        puts("strongest");
    for (size_t i = 0; i < most; i++) {
        for (int sign = 0; sign < 2; sign++)
            if (i < a->n_list[sign])
                print_found(a, &a->list[sign][i]);
        putchar('\n');
    }
}

/* ---- the own order --------------------------------------------------------------------------- */

struct placed {
    double along;
    size_t i;
};

static int by_direction(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->along != y->along)
        return x->along < y->along ? 1 : -1;
    return x->i < y->i ? -1 : x->i > y->i;
}

/* Tokens without text, which are of another kind, come last. Places stay as they are. */
static int sort_own(struct circuits_view *a, struct placed *ranked, double *along, uint8_t *skip)
{
    size_t n = a->c.n_rows, length;
    int places = a->words->kind == CIRCUIT_PLACES;
    for (size_t i = 0; i < n && !places; i++) {
        mgpt_piece(a->view.repl->engine.model, (int32_t)i, &length);
        skip[i] = length == 0;
    }
    if (!places && !circuit_order(&a->c, a->words->by_cols, skip, along))
        return 0;
    for (size_t i = 0; i < n; i++)
        ranked[i] = (struct placed){skip[i] ? -INFINITY : along[i], i};
    qsort(ranked, n, sizeof *ranked, by_direction);
    for (size_t i = 0; i < n; i++)
        a->order[i] = ranked[i].i;
    return 1;
}

static int find_order(struct circuits_view *a)
{
    size_t n = a->c.n_rows;
    struct placed *ranked = view_new(n, sizeof *ranked);
    double *along = view_new(n, sizeof *along);
    uint8_t *skip = view_new(n, 1);
    a->order = view_new(n, sizeof *a->order);
    int done = ranked && along && skip && a->order && sort_own(a, ranked, along, skip);
    free(ranked);
    free(along);
    free(skip);
    return done;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void title_of(const struct circuits_view *a, char *out, size_t cap)
{
    if (a->words->index)
        snprintf(out, cap, "layer %d, %s %d: %s", (int)a->layer, a->words->index, (int)a->index,
                 a->words->title);
    else
        snprintf(out, cap, "%s", a->words->title);
}

static void put_circuit_file(struct circuits_view *a)
{
    char text[4 * HEAT_LABEL];
    struct view_matrix table = {.heat = {.rows = {.n = a->c.n_rows}, .cols = {.n = a->c.n_cols}},
                                .value = plain_cell,
                                .user = a};
    title_of(a, text, sizeof text);
    if (view_file_open(&a->view, "%s [%s][%s]", text, a->words->row, a->words->col))
        view_file_matrix(&a->view, &table);
}

/* The labels, where columns of the picture are too narrow for them. */
static void print_order(const struct circuits_view *a)
{
    char label[HEAT_LABEL];
    fputs("in this order:", stdout);
    for (size_t i = 0; i < a->c.n_rows && i < ORDERED; i++) {
        ordered_label(a, i, 8, label);
        printf(" %s", label);
    }
    puts(a->c.n_rows > ORDERED ? " ..." : "");
}

static void print_circuit(struct circuits_view *a)
{
    char text[4 * HEAT_LABEL];
    struct view_matrix table = {.heat = {.rows = {a->c.n_rows, a->words->row, ordered_label, a, 1},
                                         .cols = {a->c.n_cols, a->words->col, ordered_label, a, 1},
                                         .cell = HEAT_LARGEST_SIZE},
                                .value = ordered_cell,
                                .user = a};
    title_of(a, text, sizeof text);
    puts(text);
    if (a->c.n_rows <= PICTURED && a->c.n_rows == a->c.n_cols && find_order(a)) {
        view_picture(&a->view, &table);
        print_order(a);
    }
    print_strongest_cells(a);
    puts(a->words->note);
    if (a->layer > 0)
        puts("this layer reads more than tokens: what the layers before it add is left out");
}

/* Which head or neuron of which layer. */
static int read_where(struct repl_args *args, const struct circuit_words *words)
{
    const struct engine *e = &args->repl->engine;
    int neuron = words->kind == CIRCUIT_FIRES || words->kind == CIRCUIT_PROMOTES;
    args->layer = args->head = 0;
    if (!words->index)
        return 1;
    if (!repl_next_index(args, "layer", (size_t)e->info.n_layer, &args->layer))
        return 0;
    mgpt_layer l = engine_layer(e->model, args->layer);
    return repl_next_index(args, words->index, (size_t)(neuron ? l.n_ff : l.n_head), &args->head);
}

static void show_circuit(struct repl *r, struct repl_args *args, const struct circuit_words *words)
{
    struct circuits_view a = {.view = view_of(r, args),
                              .c = {.stopped = interrupted},
                              .words = words,
                              .layer = args->layer,
                              .index = args->head};
    mgpt_error err;
    int status = circuit_read(&a.c, r->engine.model, words->kind, a.layer, a.index, &err);
    if (status < 0)
        repl_failed(&err);
    else if (a.view.path && (a.c.n_rows > 1 && a.c.n_cols > PICTURED))
        repl_error(
            "%zu x %zu numbers are too many for a file: m.circuits of the Python package has "
            "the factors",
            a.c.n_rows, a.c.n_cols);
    else if (a.view.path)
        put_circuit_file(&a);
    else
        print_circuit(&a);
    circuit_free(&a.c);
    free(a.order);
}

void view_circuits(struct repl *r, struct repl_args *args)
{
    int word = args->words[0];
    if (!word) {
        repl_error("which circuit? %s %s", args->command->names[0], args->command->usage);
        return;
    }
    const struct circuit_words *words = &circuit_words[word - 1];
    if (read_where(args, words) && repl_args_end(args))
        show_circuit(r, args, words);
}
