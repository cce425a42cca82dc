/* One object: see the help of mgpt patch. Numbers have all their digits; what is not known or not
 * finite is null. */
#include "base/mem.h"
#include "common/json_read.h"
#include "common/text.h"
#include "patch/report.h"

#include <math.h>

static json_t *json_metric(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_metrics(const double *values, size_t n)
{
    json_t *list = json_array();
    int failed = !list;
    for (size_t i = 0; i < n && !failed; i++)
        failed = json_array_append_new(list, json_metric(values[i]));
    return list;
}

/* The values of a head, by position. */
static json_t *head_values(const struct sweep_grid *g, size_t layer, size_t head)
{
    size_t n = arr_len(g->positions);
    return json_metrics(g->values + (layer * arr_len(g->heads) + head) * n, n);
}

/* [layer][position], or [layer][head][position]. */
static json_t *grid_values(const struct sweep_grid *g)
{
    json_t *all = json_array();
    for (size_t layer = 0; layer < arr_len(g->layers); layer++) {
        json_t *heads = g->has_heads ? json_array() : head_values(g, layer, 0);
        for (size_t head = 0; g->has_heads && head < arr_len(g->heads); head++)
            json_array_append_new(heads, head_values(g, layer, head));
        json_array_append_new(all, heads);
    }
    return all;
}

static json_t *grid_object(const struct sweep_grid *g)
{
    json_t *o =
        json_pack("{s:s, s:o}", "over", g->name, "layers", json_ids(g->layers, arr_len(g->layers)));
    if (g->has_heads)
        json_object_set_new(o, "heads", json_ids(g->heads, arr_len(g->heads)));
    if (g->positions[0] != SWEEP_EVERYWHERE)
        json_object_set_new(o, "positions", json_ids(g->positions, arr_len(g->positions)));
    json_object_set_new(o, "values", grid_values(g));
    return o;
}

static json_t *run_object(const struct report_run *run)
{
    return json_pack("{s:o, s:o}", "tokens", json_ids(run->tokens, run->n_tokens), "value",
                     json_metric(run->value));
}

/* Values are the metric without a token, and of a coalition: bit i of its place is segment i. */
static void set_why(json_t *root, const struct why *w)
{
    json_t *segments = json_array();
    for (size_t i = 0; i < w->n_segments; i++)
        json_array_append_new(segments,
                              json_pack("{s:I, s:I, s:o}", "first", (json_int_t)w->first[i], "end",
                                        (json_int_t)w->first[i + 1], "shapley",
                                        json_metric(w->shapley[i])));
    if (w->tokens)
        json_object_set_new(root, "without_token", json_metrics(w->tokens, w->n_prompt));
    if (w->coalitions) {
        json_object_set(root, "segments", segments);
        json_object_set_new(root, "coalitions",
                            json_metrics(w->coalitions, (size_t)1 << w->n_segments));
    }
    json_decref(segments);
}

int report_json(const struct report *r)
{
    json_watch();
    json_t *root = json_pack("{s:s, s:s, s:s, s:s}", "model", r->path, "metric", r->metric->text,
                             "mode", r->mode, "into", report_runs[r->into]);
    json_t *grids = json_array();
    for (int i = 0; i < N_RUNS; i++)
        if (r->runs[i].tokens)
            json_object_set_new(root, report_runs[i], run_object(&r->runs[i]));
    if (r->why)
        set_why(root, r->why);
    for (size_t i = 0; i < arr_len(r->grids); i++)
        json_array_append_new(grids, grid_object(&r->grids[i]));
    json_object_set_new(root, "grids", grids);
    if (!json_has_lost())
        return text_json_line(root);
    json_decref(root);
    return text_json_line(NULL);
}
