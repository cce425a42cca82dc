/* See sweep.h. */
#include "patch/sweep.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"
#include "common/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- grids ---- */

size_t sweep_size(const struct sweep_grid *g)
{
    return arr_len(g->layers) * arr_len(g->heads) * arr_len(g->positions);
}

static size_t site_index(const struct sweep_grid *g, size_t layer, size_t head, size_t pos)
{
    return (layer * arr_len(g->heads) + head) * arr_len(g->positions) + pos;
}

double sweep_value(const struct sweep_grid *g, size_t layer, size_t head, size_t pos)
{
    return g->values[site_index(g, layer, head, pos)];
}

int sweep_grid_room(struct sweep_grid *g, mgpt_error *err)
{
    uint64_t n;
    if (!ck_mul(arr_len(g->layers), arr_len(g->heads), &n) ||
        !ck_mul(n, arr_len(g->positions), &n) || !(g->values = mem_new((size_t)n, sizeof(double))))
        return err_memory(err, "the values of a sweep", SIZE_MAX);
    for (size_t i = 0; i < n; i++)
        g->values[i] = NAN;
    return MGPT_OK;
}

void sweep_grid_free(struct sweep_grid *g)
{
    arr_free(g->layers);
    arr_free(g->heads);
    arr_free(g->positions);
    free(g->means);
    free(g->values);
    *g = (struct sweep_grid){0};
}

/* ---- one site ---- */

struct site {
    const struct sweep_grid *grid;
    int32_t layer, pos;
    size_t head;      /* the first of grid->group */
    size_t first;     /* the first position that is computed anew */
    size_t order;     /* in which sites are listed */
    const float *row; /* SWEEP_PATCH, SWEEP_MEAN: what to write */
    double *value;
};

static void change_values(const struct site *s, float *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s->grid->mode == SWEEP_SCALE)
            row[i] *= s->grid->factor;
        else
            row[i] = s->row ? s->row[i] : 0;
    }
}

/* Scores and pattern: a row of each head, of one query. */
static void change_attention(const struct site *s, const mgpt_value *value)
{
    float *row = value->data + s->head * value->stride;
    int is_column = s->grid->mode == SWEEP_KEY || s->grid->mode == SWEEP_VALUE;
    for (size_t h = 0; h < s->grid->group; h++, row += value->stride) {
        if (is_column && value->pos > s->pos)
            row[s->pos] = s->grid->mode == SWEEP_KEY ? -INFINITY : 0.0f;
        else if (!is_column && value->pos == s->pos)
            change_values(s, row, (size_t)value->cols);
    }
}

static void change_rows(const struct site *s, const mgpt_value *value)
{
    size_t width = s->grid->width;
    for (int32_t i = 0; i < value->rows; i++)
        if (s->pos == SWEEP_EVERYWHERE || value->pos + i == s->pos)
            change_values(s, value->data + (size_t)i * value->stride + s->head * width, width);
}

/* A mgpt_tap_fn. */
static int change_site(const mgpt_value *value, void *user)
{
    const struct site *s = user;
    if (value->point != s->grid->point || value->layer != s->layer)
        return 0;
    if (hook_is_attention(value->point))
        change_attention(s, value);
    else
        change_rows(s, value);
    return 0;
}

/* ---- what needs no run ---- */

/* In the last layer only keys and values reach other positions. */
static int is_late(mgpt_point point)
{
    return point == MGPT_Q || point == MGPT_ROT_Q || point >= MGPT_SCORES;
}

/* 1: the logits have the bits of the run without a change. */
static int changes_nothing(const struct patch_sweep *s, const struct site *site)
{
    const struct sweep_grid *g = site->grid;
    int is_column = g->mode == SWEEP_KEY || g->mode == SWEEP_VALUE;
    size_t n;
    if (site->first >= s->n_tokens)
        return 1;
    if (!is_column && site->pos >= 0 && (size_t)site->pos + 1 < s->n_tokens &&
        site->layer + 1 == s->engine->info.n_layer && is_late(g->point))
        return 1;
    if (g->mode != SWEEP_PATCH)
        return 0;
    const float *own =
        values_row(&s->own, g->point, site->layer, (size_t)site->pos, site->head, &n);
    return memcmp(own, site->row, n * sizeof *own) == 0;
}

/* ---- the list of runs ---- */

/* What goes to a site: the other run's row, or the mean of this run's. */
static const float *row_of(const struct patch_sweep *s, const struct site *site, size_t layer,
                           size_t head)
{
    const struct sweep_grid *g = site->grid;
    size_t n;
    if (g->mode == SWEEP_MEAN)
        return g->means + (layer * arr_len(g->heads) + head) * g->width;
    return g->mode == SWEEP_PATCH
               ? values_row(&s->other, g->point, site->layer, (size_t)site->pos, site->head, &n)
               : NULL;
}

static struct site make_site(const struct patch_sweep *s, const struct sweep_grid *g, size_t index)
{
    size_t n_pos = arr_len(g->positions), n_head = arr_len(g->heads);
    size_t layer = index / n_pos / n_head, head = index / n_pos % n_head;
    struct site site = {.grid = g,
                        .layer = g->layers[layer],
                        .pos = g->positions[index % n_pos],
                        .head = (size_t)g->heads[head] * g->group,
                        .value = &g->values[index]};
    site.first = site.pos == SWEEP_EVERYWHERE ? 0 : (size_t)site.pos;
    site.first += g->mode == SWEEP_KEY || g->mode == SWEEP_VALUE;
    site.row = row_of(s, &site, layer, head);
    return site;
}

/* Appends the sites of a grid that need a run, and fills in the others. */
static int list_sites(const struct patch_sweep *s, const struct sweep_grid *g, struct site **sites)
{
    for (size_t i = 0; i < sweep_size(g); i++) {
        struct site site = make_site(s, g, i);
        site.order = arr_len(*sites);
        if (changes_nothing(s, &site))
            *site.value = s->base;
        else if (!arr_push(*sites, site))
            return 0;
    }
    return 1;
}

/* Last positions first: the session's rows before `first` are then those of the run without a
 * change. */
static int later_first(const void *a, const void *b)
{
    const struct site *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? 1 : -1;
    return (x->order > y->order) - (x->order < y->order);
}

/* The mean row of each head, summed in float64. */
static int find_means(const struct patch_sweep *s, struct sweep_grid *g)
{
    size_t n_head = arr_len(g->heads), n;
    g->means = mem_new(arr_len(g->layers) * n_head, g->width * sizeof *g->means);
    for (size_t i = 0; g->means && i < arr_len(g->layers) * n_head; i++)
        for (size_t j = 0; j < g->width; j++) {
            double sum = 0;
            for (size_t pos = 0; pos < s->n_tokens; pos++)
                sum += (double)values_row(&s->own, g->point, g->layers[i / n_head], pos,
                                          (size_t)g->heads[i % n_head], &n)[j];
            g->means[i * g->width + j] = (float)(sum / (double)s->n_tokens);
        }
    return g->means != NULL;
}

/* ---- runs ---- */

int sweep_keep(struct engine *e, const int32_t *tokens, size_t n, struct run_values *values,
               mgpt_error *err)
{
    struct watcher keep = {values->points, values_keep, values, NULL};
    int status = mgpt_rewind(e->session, 0, err);
    if (status == MGPT_OK)
        status = engine_feed(e, e->session, tokens, n, &keep, err);
    return status == MGPT_OK ? engine_check(e, mgpt_logits(e->session), n - 1, err) : status;
}

static int run_site(struct patch_sweep *s, struct site *site, mgpt_error *err)
{
    struct watcher change = {MGPT_POINT_BIT(site->grid->point), change_site, site, NULL};
    mgpt_session *session = s->engine->session;
    int status = mgpt_rewind(session, site->first, err);
    if (status == MGPT_OK)
        status = engine_feed(s->engine, session, s->tokens + site->first, s->n_tokens - site->first,
                             &change, err);
    if (status == MGPT_OK)
        *site->value = metric_value(s->metric, mgpt_logits(session));
    s->n_run += status == MGPT_OK;
    return status;
}

static int run_sites(struct patch_sweep *s, struct site *sites, mgpt_error *err)
{
    struct progress progress;
    size_t n = arr_len(sites);
    int status = MGPT_OK;
    if (n > 1)
        qsort(sites, n, sizeof *sites, later_first);
    progress_begin(&progress);
    for (size_t i = 0; i < n && status == MGPT_OK && !interrupted(); i++) {
        status = run_site(s, &sites[i], err);
        progress_show(&progress, i + 1, n);
    }
    progress_end(&progress);
    return status == MGPT_ESTOP && interrupted() ? MGPT_OK : status;
}

int patch_sweep_run(struct patch_sweep *s, struct sweep_grid *grids, size_t n, mgpt_error *err)
{
    struct site *sites = NULL;
    int done = 1;
    s->base = metric_value(s->metric, mgpt_logits(s->engine->session));
    for (size_t i = 0; i < n && done; i++)
        done = (grids[i].mode != SWEEP_MEAN || find_means(s, &grids[i])) &&
               list_sites(s, &grids[i], &sites);
    int status = done ? run_sites(s, sites, err) : err_memory(err, "the list of runs", SIZE_MAX);
    arr_free(sites);
    return status;
}
