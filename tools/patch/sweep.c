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

/* 1: one key or value is left out, for the queries after it. */
static int is_column(const struct sweep_grid *g)
{
    return g->mode == SWEEP_KEY || g->mode == SWEEP_VALUE;
}

static void change_values(const struct sweep_site *s, float *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s->grid->mode == SWEEP_SCALE)
            row[i] *= s->grid->factor;
        else
            row[i] = s->row ? s->row[i] : 0;
    }
}

/* Scores and pattern: a row of each head, of one query. */
static void change_attention(const struct sweep_site *s, const mgpt_value *value)
{
    float *row = value->data + s->head * value->stride;
    int column = is_column(s->grid);
    for (size_t h = 0; h < s->grid->group; h++, row += value->stride) {
        if (column && value->pos > s->pos)
            row[s->pos] = s->grid->mode == SWEEP_KEY ? -INFINITY : 0.0f;
        else if (!column && value->pos == s->pos)
            change_values(s, row, (size_t)value->cols);
    }
}

static void change_rows(const struct sweep_site *s, const mgpt_value *value)
{
    size_t width = s->grid->width;
    for (int32_t i = 0; i < value->rows; i++)
        if (s->pos == SWEEP_EVERYWHERE || value->pos + i == s->pos)
            change_values(s, value->data + (size_t)i * value->stride + s->head * width, width);
}

int sweep_change(const mgpt_value *value, void *user)
{
    const struct sweep_site *s = user;
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
static int changes_nothing(const struct patch_sweep *s, const struct sweep_site *site)
{
    const struct sweep_grid *g = site->grid;
    size_t n;
    if (site->first >= s->n_tokens)
        return 1;
    if (!is_column(g) && site->pos >= 0 && (size_t)site->pos + 1 < s->n_tokens &&
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
static const float *row_of(const struct patch_sweep *s, const struct sweep_site *site, size_t layer,
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

struct sweep_site sweep_site(const struct patch_sweep *s, const struct sweep_grid *g, size_t index)
{
    size_t n_pos = arr_len(g->positions), n_head = arr_len(g->heads);
    size_t layer = index / n_pos / n_head, head = index / n_pos % n_head;
    struct sweep_site site = {.grid = g,
                              .layer = g->layers[layer],
                              .pos = g->positions[index % n_pos],
                              .head = (size_t)g->heads[head] * g->group,
                              .value = &g->values[index]};
    site.first = site.pos == SWEEP_EVERYWHERE ? 0 : (size_t)site.pos;
    site.first += (size_t)is_column(g);
    site.row = row_of(s, &site, layer, head);
    return site;
}

/* Appends the sites of a grid that need a run, and fills in the others. */
static int list_sites(const struct patch_sweep *s, const struct sweep_grid *g,
                      struct sweep_site **sites)
{
    for (size_t i = 0; i < sweep_size(g); i++) {
        struct sweep_site site = sweep_site(s, g, i);
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
    const struct sweep_site *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? 1 : -1;
    return (x->order > y->order) - (x->order < y->order);
}

/* The mean row of each head, summed in float64. */
static int find_means(const struct patch_sweep *s, struct sweep_grid *g)
{
    size_t n_head = arr_len(g->heads), row = s->own.cols[g->point], n;
    g->means = mem_new(arr_len(g->layers) * n_head, g->width * sizeof *g->means);
    for (size_t i = 0; g->means && i < arr_len(g->layers) * n_head; i++) {
        const float *first = values_row(&s->own, g->point, g->layers[i / n_head], 0,
                                        (size_t)g->heads[i % n_head], &n);
        for (size_t j = 0; j < g->width; j++) {
            double sum = 0;
            for (size_t pos = 0; pos < s->n_tokens; pos++)
                sum += (double)first[pos * row + j];
            g->means[i * g->width + j] = (float)(sum / (double)s->n_tokens);
        }
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

/* Where a site runs: a fork of the engine's session. */
struct slot {
    mgpt_session *session;
    struct watcher change, steering;
};

/* Most sites and rows of a pass, and most bytes of keys and values of all forks. */
enum { MOST_SLOTS = 128, MOST_ROWS = 512 };
static const uint64_t MOST_KV_BYTES = (uint64_t)512 << 20;

struct sweep_batch {
    struct slot *slots;
    mgpt_run *runs; /* at most two of a slot */
    size_t n_slots, n_runs, n_rows;
};

static size_t count_slots(const struct patch_sweep *s, size_t n_sites)
{
    uint64_t most = MOST_KV_BYTES / (engine_kv_bytes(s->engine) * s->n_tokens + 1) + 1;
    most = most < MOST_SLOTS ? most : MOST_SLOTS;
    return n_sites < most ? n_sites : (size_t)most;
}

static int batch_open(struct sweep_batch *b, const struct patch_sweep *s, size_t n_sites,
                      mgpt_error *err)
{
    size_t n = count_slots(s, n_sites);
    *b = (struct sweep_batch){.slots = mem_new(n, sizeof *b->slots),
                              .runs = mem_new(2 * n, sizeof *b->runs)};
    if (!b->slots || !b->runs)
        return err_memory(err, "the runs of a pass", n * sizeof *b->slots);
    for (; b->n_slots < n; b->n_slots++) {
        struct slot *slot = &b->slots[b->n_slots];
        slot->session = engine_fork(s->engine, s->engine->session, err);
        if (!slot->session)
            return MGPT_EMEM;
    }
    return MGPT_OK;
}

static void batch_close(struct sweep_batch *b)
{
    for (size_t i = 0; i < b->n_slots; i++)
        mgpt_session_free(b->slots[i].session);
    free(b->slots);
    free(b->runs);
}

/* Adds a run of n tokens from token `first` on, which begins in a layer. */
static void add_run(struct sweep_batch *b, const struct patch_sweep *s, const struct slot *slot,
                    int32_t layer, size_t first, size_t n)
{
    size_t width;
    b->runs[b->n_runs++] =
        (mgpt_run){.session = slot->session,
                   .tokens = s->tokens + first,
                   .n = n,
                   .resid = values_row(&s->own, MGPT_RESID_PRE, layer, first, 0, &width),
                   .clean = s->engine->session,
                   .layer = layer};
    b->n_rows += n;
}

/* What attention and MLP compute at a position changes no other row of the layer: those begin in
 * the next one. */
static int add_site(struct sweep_batch *b, const struct patch_sweep *s, struct slot *slot,
                    struct sweep_site *site, mgpt_error *err)
{
    const struct sweep_grid *g = site->grid;
    size_t first = site->first, n = s->n_tokens - first;
    int alone = is_late(g->point) && !is_column(g) && site->pos != SWEEP_EVERYWHERE;
    slot->change = (struct watcher){MGPT_POINT_BIT(g->point), sweep_change, site, NULL};
    add_run(b, s, slot, site->layer, first, alone ? 1 : n);
    if (alone && n > 1) {
        add_run(b, s, slot, site->layer + 1, first + 1, n - 1);
        b->runs[b->n_runs - 1].untapped = !engine_watches(s->engine);
    }
    int status = mgpt_rewind(slot->session, first, err);
    if (status == MGPT_OK)
        status = engine_watch(s->engine, slot->session, &slot->change, &slot->steering, err);
    return status;
}

/* Runs the next sites in one pass. */
static int run_batch(struct sweep_batch *b, struct patch_sweep *s, size_t most_rows,
                     mgpt_error *err)
{
    struct sweep_site *sites = s->sites + s->n_done;
    size_t n = 0, left = arr_len(s->sites) - s->n_done;
    int status = MGPT_OK;
    b->n_runs = b->n_rows = 0;
    for (; n < left && n < b->n_slots && status == MGPT_OK && b->n_rows < most_rows; n++)
        status = add_site(b, s, &b->slots[n], &sites[n], err);
    if (status == MGPT_OK)
        status = engine_feed_many(s->engine, b->runs, b->n_runs, err);
    for (size_t i = 0; i < n && status == MGPT_OK; i++)
        *sites[i].value = metric_value(s->metric, mgpt_logits(b->slots[i].session));
    s->n_done += status == MGPT_OK ? n : 0;
    return status;
}

/* ---- a sweep ---- */

static int prepare_sites(struct patch_sweep *s, struct sweep_grid *grids, size_t n, mgpt_error *err)
{
    int done = 1;
    s->base = metric_value(s->metric, mgpt_logits(s->engine->session));
    for (size_t i = 0; i < n && done; i++)
        done = (grids[i].mode != SWEEP_MEAN || find_means(s, &grids[i])) &&
               list_sites(s, &grids[i], &s->sites);
    if (!done || !(s->batch = mem_new(1, sizeof *s->batch)))
        return err_memory(err, "the list of runs", SIZE_MAX);
    size_t n_sites = arr_len(s->sites);
    if (n_sites == 0)
        return MGPT_OK;
    qsort(s->sites, n_sites, sizeof *s->sites, later_first);
    return batch_open(s->batch, s, n_sites, err);
}

int patch_sweep_begin(struct patch_sweep *s, struct sweep_grid *grids, size_t n, mgpt_error *err)
{
    int status = prepare_sites(s, grids, n, err);
    if (status < 0)
        patch_sweep_end(s);
    return status;
}

size_t patch_sweep_left(const struct patch_sweep *s)
{
    return arr_len(s->sites) - s->n_done;
}

int patch_sweep_step(struct patch_sweep *s, size_t most_rows, mgpt_error *err)
{
    return run_batch(s->batch, s, most_rows < MOST_ROWS ? most_rows : MOST_ROWS, err);
}

void patch_sweep_end(struct patch_sweep *s)
{
    if (s->batch)
        batch_close(s->batch);
    free(s->batch);
    arr_free(s->sites);
    s->batch = NULL;
    s->sites = NULL;
    s->n_done = 0;
}

int patch_sweep_run(struct patch_sweep *s, struct sweep_grid *grids, size_t n, mgpt_error *err)
{
    struct progress progress;
    int status = patch_sweep_begin(s, grids, n, err);
    if (status < 0)
        return status;
    progress_begin(&progress);
    while (patch_sweep_left(s) > 0 && status == MGPT_OK && !interrupted()) {
        status = patch_sweep_step(s, MOST_ROWS, err);
        progress_show(&progress, s->n_done, arr_len(s->sites));
    }
    progress_end(&progress);
    patch_sweep_end(s);
    return status == MGPT_ESTOP && interrupted() ? MGPT_OK : status;
}
