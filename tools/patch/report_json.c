/* One object: see the help of mgpt patch. Numbers have all their digits; what is not known or not
 * finite is null. */
#include "base/mem.h"
#include "common/text.h"
#include "patch/report.h"

static struct jtext *json_metrics(const double *values, size_t n)
{
    struct jtext *list = jtext("[]");
    for (size_t i = 0; i < n; i++)
        jtext_add(list, "f", values[i]);
    return list;
}

/* Values of a head, by position. */
static struct jtext *head_values(const struct sweep_grid *g, const double *values, size_t layer,
                                 size_t head)
{
    size_t n = arr_len(g->positions);
    return json_metrics(values + (layer * arr_len(g->heads) + head) * n, n);
}

/* [layer][position], or [layer][head][position]. */
static struct jtext *grid_values(const struct sweep_grid *g, const double *values)
{
    struct jtext *all = jtext("[]");
    for (size_t layer = 0; layer < arr_len(g->layers); layer++) {
        struct jtext *heads = g->has_heads ? jtext("[]") : head_values(g, values, layer, 0);
        for (size_t head = 0; g->has_heads && head < arr_len(g->heads); head++)
            jtext_add(heads, "o", head_values(g, values, layer, head));
        jtext_add(all, "o", heads);
    }
    return all;
}

static struct jtext *grid_object(const struct sweep_grid *g, const struct pairs_grid *pairs)
{
    struct jtext *o =
        jtext("{s:s, s:o}", "over", g->name, "layers", jtext_ids(g->layers, arr_len(g->layers)));
    if (g->has_heads)
        jtext_add(o, "s:o", "heads", jtext_ids(g->heads, arr_len(g->heads)));
    if (g->positions[0] != SWEEP_EVERYWHERE)
        jtext_add(o, "s:o", "positions", jtext_ids(g->positions, arr_len(g->positions)));
    jtext_add(o, "s:o", "values", grid_values(g, g->values));
    if (pairs)
        jtext_add(o, "s:o, s:o", "stderr", grid_values(g, pairs->stderrs), "p",
                  grid_values(g, pairs->p));
    return o;
}

/* Writes the metric without each token, and of each coalition. Bit i of a coalition's index is segment i. */
static void set_why(struct jtext *root, const struct why *w)
{
    if (w->tokens)
        jtext_add(root, "s:o", "without_token", json_metrics(w->tokens, w->n_prompt));
    if (!w->coalitions)
        return;
    struct jtext *segments = jtext("[]");
    for (size_t i = 0; i < w->n_segments; i++)
        jtext_add(segments, "{s:I, s:I, s:f}", "first", (int64_t)w->first[i], "end",
                  (int64_t)w->first[i + 1], "shapley", w->shapley[i]);
    jtext_add(root, "s:o, s:o", "segments", segments, "coalitions",
              json_metrics(w->coalitions, (size_t)1 << w->n_segments));
}

int report_json(const struct report *r)
{
    struct jtext *grids = jtext("[]");
    struct jtext *root = jtext("{s:s, s:s, s:s, s:s}", "model", r->path, "metric", r->metric->text,
                               "mode", r->mode, "into", report_runs[r->into]);
    if (r->pairs)
        jtext_add(root, "s:I", "pairs", (int64_t)pairs_known(r->pairs));
    for (int i = 0; i < N_RUNS; i++)
        if (r->runs[i].tokens)
            jtext_add(root, "s:{s:o, s:f}", report_runs[i], "tokens",
                      jtext_ids(r->runs[i].tokens, r->runs[i].n_tokens), "value", r->runs[i].value);
    if (r->why)
        set_why(root, r->why);
    for (size_t i = 0; i < arr_len(r->grids); i++)
        jtext_add(grids, "o", grid_object(&r->grids[i], r->pairs ? &r->pairs->grids[i] : NULL));
    jtext_add(root, "s:o", "grids", grids);
    return text_json_line(root);
}
