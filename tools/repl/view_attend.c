/* Repl: attention as pictures. /a shows one head, /h all heads of a layer.
 *
 * The rows come one query at a time from a replay and go into cells or a file at once: a context of
 * any length needs no matrix. What a query does not see (the future, or keys before a sliding
 * window) has the score minus infinity and is shown as '·'. */
#include "common/interrupt.h"
#include "engine/layers.h"
#include "repl/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum what { WEIGHTS, SCORES, LOG_WEIGHTS }; /* as /a counts its words */

struct attention {
    struct view view;
    int32_t layer, head; /* head -1: all */
    size_t n_heads;
    enum what what;
    int future;
    size_t *first;      /* [n_pos] key that a query sees: its scores tell, the weights come later */
    struct heat *heats; /* of each head shown */
    size_t *top_key;    /* of each head, for the last query */
    double *top;
    double *row; /* [n_pos] */
};

/* ---- one row --------------------------------------------------------------------------------- */

/* Weights or scores of a query: keys [first, query] are seen. */
static void view_attend_put_row(struct attention *a, size_t shown, size_t query, size_t first,
                                size_t end)
{
    if (a->view.path) {
        if (a->head < 0)
            view_file_put(&a->view, "%zu\t%zu\t", shown, query);
        view_file_row(&a->view, a->row, a->view.n_pos);
        return;
    }
    for (size_t j = first; j < end; j++)
        heat_put(&a->heats[shown], query, j, a->row[j]);
}

static void keep_top(struct attention *a, size_t shown, size_t query)
{
    if (query + 1 < a->view.n_pos || !a->top)
        return;
    size_t first = a->first[query];
    for (size_t j = first; j <= query; j++)
        if (j == first || a->row[j] > a->top[shown]) {
            a->top[shown] = a->row[j];
            a->top_key[shown] = j;
        }
}

static int watch_attention(const mgpt_value *value, void *user)
{
    struct attention *a = user;
    size_t query = (size_t)value->pos;
    if (value->layer != a->layer)
        return 0;
    if (value->point == MGPT_SCORES)
        for (size_t *first = &a->first[query]; *first < query && value->data[*first] == -INFINITY;)
            ++*first;
    if ((value->point == MGPT_SCORES) != (a->what == SCORES))
        return 0;
    for (size_t h = 0; h < a->n_heads; h++) {
        const float *from = value->data + (a->head < 0 ? h : (size_t)a->head) * value->stride;
        for (size_t j = 0; j < a->view.n_pos; j++)
            a->row[j] = j <= query ? (double)from[j] : (a->what == SCORES ? -INFINITY : 0);
        view_attend_put_row(a, h, query, a->first[query], query + 1);
        keep_top(a, h, query);
    }
    return 0;
}

/* ---- the future ------------------------------------------------------------------------------ */

static void dots(struct attention *a, const float *q, const float *k)
{
    const struct engine *engine = &a->view.repl->engine;
    const mgpt_info *info = &engine->info;
    size_t d = (size_t)engine_head_dim(engine->model, a->layer);
    for (size_t i = 0; i < a->view.n_pos && !interrupted(); i++) {
        for (size_t j = 0; j < a->view.n_pos; j++) {
            double sum = 0;
            for (size_t e = 0; e < d; e++)
                sum += (double)q[i * d + e] * (double)k[j * d + e];
            a->row[j] = sum * (double)info->attn_scale;
        }
        view_attend_put_row(a, 0, i, 0, a->view.n_pos);
    }
}

/* Scores of all keys, seen or not: q . k of a replay times the model's scale. */
static int all_scores(struct attention *a)
{
    struct repl *r = a->view.repl;
    size_t n = a->view.n_pos, d = (size_t)engine_head_dim(r->engine.model, a->layer);
    int32_t group = engine_group(r->engine.model, a->layer);
    float *q = view_new(n * d, sizeof *q), *k = q ? view_new(n * d, sizeof *k) : NULL;
    struct view_want wants[] = {{MGPT_Q, a->layer, 0, n, (size_t)a->head * d, d, q, 0},
                                {MGPT_ROT_Q, a->layer, 0, n, (size_t)a->head * d, d, q, 0}};
    struct view_wants all = {wants, 2};
    mgpt_session *s = k ? repl_replay_kept(r, view_points(&all), view_gather, &all) : NULL;
    mgpt_error err;
    int done = s && mgpt_read_kv(s, a->layer, a->head / group, 0, n, k, NULL, &err) == MGPT_OK;
    if (done)
        dots(a, q, k);
    else if (s)
        repl_failed(&err);
    mgpt_session_free(s);
    free(q);
    free(k);
    if (done && interrupted())
        repl_error("stopped");
    return done && !interrupted();
}

/* ---- making ---------------------------------------------------------------------------------- */

static int open_heats(struct attention *a, size_t max_rows, size_t max_cols)
{
    struct heat_axis queries = {a->view.n_pos, "query", view_token_label, &a->view, 0};
    struct heat_axis keys = queries;
    keys.name = "key";
    a->row = view_new(a->view.n_pos, sizeof *a->row);
    a->first = a->row ? view_new(a->view.n_pos, sizeof *a->first) : NULL;
    if (!a->first || a->view.path)
        return a->first != NULL;
    a->heats = view_new(a->n_heads, sizeof *a->heats);
    for (size_t h = 0; a->heats && h < a->n_heads; h++) {
        a->heats[h] =
            (struct heat){.rows = queries, .cols = keys, .logarithmic = a->what == LOG_WEIGHTS};
        if (!heat_open(&a->heats[h], max_rows, max_cols)) {
            repl_no_memory();
            return 0;
        }
    }
    return a->heats != NULL;
}

static void close_attention(struct attention *a)
{
    for (size_t h = 0; a->heats && h < a->n_heads; h++)
        heat_close(&a->heats[h]);
    outfile_discard(&a->view.file);
    free(a->heats);
    free(a->row);
    free(a->first);
    free(a->top);
    free(a->top_key);
}

static int view_attend_run(struct attention *a)
{
    uint64_t points = MGPT_POINT_BIT(MGPT_SCORES);
    if (a->what != SCORES)
        points |= MGPT_POINT_BIT(MGPT_WEIGHTS);
    int done = a->future ? all_scores(a) : repl_replay(a->view.repl, points, watch_attention, a);
    for (size_t h = 0; done && a->heats && h < a->n_heads; h++)
        heat_end(&a->heats[h]);
    return done;
}

/* ---- /a -------------------------------------------------------------------------------------- */

static void print_title(const struct attention *a)
{
    const char *what = a->what == SCORES || a->future ? "scores before softmax" : "weights";
    printf("layer %d, head %d: %s\n", (int)a->layer, (int)a->head, what);
    if (a->future)
        printf("with keys that the model does not see: q . k times %.6g\n",
               (double)a->view.repl->engine.info.attn_scale);
}

void view_attention(struct repl *r, struct repl_args *args)
{
    struct attention a = {.view = view_of(r, args),
                          .layer = args->layer,
                          .head = args->head,
                          .n_heads = 1,
                          .what = (enum what)args->words[0],
                          .future = args->words[1]};
    size_t rows, cols;
    if (a.future && a.what == LOG_WEIGHTS) {
        repl_error("log is of weights, and keys not seen have only scores: /a L H scores future");
        return;
    }
    if (!view_is_attention(&a.view, a.layer))
        return;
    heat_room(&a.view.screen, &rows, &cols);
    if (a.view.path &&
        !view_file_open(&a.view, "layer %d head %d %s [query][key], %zu tokens", (int)a.layer,
                        (int)a.head, a.what == SCORES || a.future ? "scores" : "weights",
                        a.view.n_pos))
        return;
    if (open_heats(&a, rows, cols) && view_attend_run(&a)) {
        if (a.view.path) {
            view_file_close(&a.view);
        } else {
            print_title(&a);
            heat_print(a.heats, &a.view.screen, stdout);
        }
    }
    close_attention(&a);
}

/* ---- /h -------------------------------------------------------------------------------------- */

enum { CAPTION = 18, GAP = 2, ZOOM_MAX = 3 };

/* "3 "n" 0.7026", padded or cut to `columns`. */
static void print_caption(const struct attention *a, size_t h, size_t columns)
{
    char text[HEAT_LABEL + 64], token[HEAT_LABEL];
    view_token_label(&a->view, a->top_key[h], 6, token);
    snprintf(text, sizeof text, "%zu %s %.4f", h, token, a->top[h]);
    screen_cut(text, columns);
    printf("%s%*s", text, (int)(columns - screen_columns(text)), "");
}

/* Heads [first, end) side by side. */
static void print_row_of_heads(const struct attention *a, size_t first, size_t end, size_t slot)
{
    const struct screen *s = &a->view.screen;
    for (size_t h = first; h < end; h++) {
        print_caption(a, h, slot - GAP);
        printf("%*s", h + 1 < end ? GAP : 0, "");
    }
    putchar('\n');
    for (size_t line = 0; line < heat_lines(a->heats, s); line++) {
        for (size_t h = first; h < end; h++) {
            heat_line(&a->heats[h], s, line, stdout);
            printf("%*s", h + 1 < end ? (int)(slot - heat_columns(&a->heats[h], s)) : 0, "");
        }
        putchar('\n');
    }
}

/* One scale for all, so that they can be compared. */
static void share_scale(struct attention *a)
{
    double high = 0;
    for (size_t h = 0; h < a->n_heads; h++)
        high = a->heats[h].high > high ? a->heats[h].high : high;
    for (size_t h = 0; h < a->n_heads; h++) {
        a->heats[h].low = 0;
        a->heats[h].high = high;
    }
}

static void print_heads(struct attention *a, size_t per_line, size_t slot)
{
    size_t fits = (slot - GAP) / a->heats->n_cols;
    share_scale(a);
    for (size_t h = 0; h < a->n_heads; h++)
        a->heats[h].zoom = fits < ZOOM_MAX ? fits : ZOOM_MAX;
    printf("layer %d: head, what the last token looks at most, weight\n", (int)a->layer);
    for (size_t h = 0; h < a->n_heads && !interrupted(); h += per_line)
        print_row_of_heads(a, h, h + per_line < a->n_heads ? h + per_line : a->n_heads, slot);
    heat_legend(a->heats, &a->view.screen, stdout);
}

void view_heads(struct repl *r, struct repl_args *args)
{
    struct attention a = {.view = view_of(r, args),
                          .layer = args->layer,
                          .head = -1,
                          .n_heads = (size_t)engine_heads(r->engine.model, args->layer)};
    size_t per_line = (a.view.screen.width + GAP) / (CAPTION + GAP);
    per_line = per_line < 1 ? 1 : per_line;
    per_line = per_line < a.n_heads ? per_line : a.n_heads;
    size_t slot = (a.view.screen.width + GAP) / per_line;
    if (!view_is_attention(&a.view, a.layer))
        return;
    if (a.view.path &&
        !view_file_open(&a.view, "layer %d: head, query, weight of each key", (int)a.layer))
        return;
    a.top = view_new(a.n_heads, sizeof *a.top);
    a.top_key = view_new(a.n_heads, sizeof *a.top_key);
    if (a.top && a.top_key && open_heats(&a, slot - GAP, slot - GAP) && view_attend_run(&a)) {
        if (a.view.path)
            view_file_close(&a.view);
        else
            print_heads(&a, per_line, slot);
    }
    close_attention(&a);
}
