/* See grid.h. */
#include "patch/grid.h"

#include "base/error.h"
#include "base/mem.h"
#include "engine/layers.h"

#include <stdlib.h>
#include <string.h>

struct grid_point {
    const char *name;
    mgpt_point point;
    int mode; /* an enum sweep_mode, or AS_ASKED */
};

enum { AS_ASKED = -1 };

static const struct grid_point points[] = {
    {"resid_pre", MGPT_RESID_PRE, AS_ASKED},
    {"resid_mid", MGPT_RESID_MID, AS_ASKED},
    {"resid_post", MGPT_RESID_POST, AS_ASKED},
    {"attn_out", MGPT_ATTN_OUT, AS_ASKED},
    {"mlp_out", MGPT_MLP_OUT, AS_ASKED},
    {"z", MGPT_HEADS, AS_ASKED},
    {"pattern", MGPT_WEIGHTS, AS_ASKED},
    {"q", MGPT_Q, AS_ASKED},
    {"k", MGPT_K, AS_ASKED},
    {"v", MGPT_V, AS_ASKED},
    {"heads", MGPT_HEADS, SWEEP_ZERO}, /* at all positions */
    {"keys", MGPT_SCORES, SWEEP_KEY},
    {"values", MGPT_WEIGHTS, SWEEP_VALUE},
};
enum { N_GRID_POINTS = sizeof points / sizeof *points };

const char *grid_point_name(size_t i)
{
    return i < N_GRID_POINTS ? points[i].name : NULL;
}

static int grid_no_memory(void)
{
    cli_note("out of memory: the sites of a sweep");
    return EXIT_FULL;
}

/* ---- sets of numbers ---- */

/* A number of 0 .. n - 1, or of -n .. -1 from the end; *at moves past it. */
static int read_number(const char **at, size_t n, int32_t *number)
{
    char *end;
    long long x = strtoll(*at, &end, 10);
    int found = end > *at && x >= -(long long)n && x < (long long)n;
    *number = (int32_t)(x < 0 ? x + (long long)n : x);
    *at = end;
    return found;
}

static int read_range(const char **at, size_t n, int32_t *first, int32_t *last)
{
    if (!read_number(at, n, first))
        return 0;
    *last = *first;
    if (**at == '-') {
        ++*at;
        return read_number(at, n, last) && *last >= *first;
    }
    return 1;
}

int grid_read_set(const char *option, const char *text, size_t n, int32_t **set)
{
    int32_t first = 0, last = (int32_t)n - 1;
    const char *at = text;
    for (;; at++) {
        if (text && (!read_range(&at, n, &first, &last) || (*at && *at != ','))) {
            cli_note(
                "%s: expected numbers from 0 to %zu and ranges such as 0-3,7,-1, found '%.64s'",
                option, n - 1, text);
            return EXIT_USAGE;
        }
        for (int32_t i = first; i <= last; i++)
            if (!arr_push(*set, i))
                return grid_no_memory();
        if (!text || !*at)
            return EXIT_OK;
    }
}

/* ---- a grid ---- */

static int read_mode(const char *text, struct sweep_grid *g)
{
    static const char *const names[] = {"patch", "zero", "mean"};
    double factor;
    const struct cli_option scale = {.kind = CLI_REAL, .to = &factor, .min = -1e30, .max = 1e30};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            g->mode = (enum sweep_mode)i;
            return EXIT_OK;
        }
    g->mode = SWEEP_SCALE;
    if (strncmp(text, "scale:", 6) == 0 && cli_set_number(&scale, text + 6)) {
        g->factor = (float)factor;
        return EXIT_OK;
    }
    cli_note("--mode: expected patch, zero, mean or scale:X, found '%.64s'", text);
    return EXIT_USAGE;
}

/* The point with a name of n bytes. */
static const struct grid_point *find_point(const char *name, size_t n)
{
    char word[64];
    const char *names[N_GRID_POINTS];
    for (size_t i = 0; i < N_GRID_POINTS; i++) {
        names[i] = points[i].name;
        if (strlen(names[i]) == n && memcmp(names[i], name, n) == 0)
            return &points[i];
    }
    text_format(word, sizeof word, "%.*s", (int)n, name);
    const char *near = cli_nearest(word, names, N_GRID_POINTS);
    if (near)
        cli_note("--over: no point is called '%s', did you mean '%s'?", word, near);
    else
        cli_note("--over: no point is called '%s' (see mgpt patch --help)", word);
    return NULL;
}

/* Every layer of the grid must have the hook; *hook is that of the last one. */
static int find_hook(const struct sweep_grid *g, const struct hook *hooks, const struct hook **hook)
{
    char name[64];
    const struct hook *first = NULL;
    for (size_t i = 0; i < arr_len(g->layers); i++) {
        *hook = hooks_find(hooks, g->point, g->layers[i]);
        first = first ? first : *hook;
        if (*hook && memcmp((*hook)->dims, first->dims, sizeof first->dims) == 0)
            continue;
        mgpt_point_name(g->point, g->layers[i], name, sizeof name);
        if (*hook)
            cli_note("--over %s: %s is not as wide as in layer %d: choose --layers of one kind",
                     g->name, name, (int)g->layers[0]);
        else
            cli_note("--over %s: the model has no %s", g->name, name);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static size_t count_heads(const struct engine *e, const struct sweep_grid *g,
                          const struct hook *hook)
{
    if (!g->has_heads)
        return 1;
    if (g->mode == SWEEP_KEY || g->mode == SWEEP_VALUE)
        return (size_t)engine_kv_heads(e->model, hook->layer);
    return (size_t)hook->dims[hook_is_attention(g->point) ? 0 : 1];
}

static int read_positions(const struct grid_request *r, size_t n_tokens, int everywhere,
                          struct sweep_grid *g)
{
    const int32_t all = SWEEP_EVERYWHERE;
    if (everywhere)
        return arr_push(g->positions, all) ? EXIT_OK : grid_no_memory();
    return grid_read_set("--positions", r->positions, n_tokens, &g->positions);
}

static int read_grid(const struct grid_request *r, const struct grid_point *point,
                     const struct engine *e, const struct hook *hooks, size_t n_tokens,
                     struct sweep_grid *g)
{
    const struct hook *hook = NULL;
    int code = read_mode(r->mode, g);
    g->mode = point->mode == AS_ASKED ? g->mode : (enum sweep_mode)point->mode;
    if (code == EXIT_OK && g->mode == SWEEP_MEAN && hook_is_attention(g->point)) {
        cli_note("--mode mean: the rows of %s have different lengths", g->name);
        return EXIT_USAGE;
    }
    if (code == EXIT_OK)
        code = grid_read_set("--layers", r->layers, (size_t)e->info.n_layer, &g->layers);
    if (code == EXIT_OK)
        code = find_hook(g, hooks, &hook);
    if (code != EXIT_OK)
        return code;
    g->has_heads = hook->n_dims == 3;
    g->width = (size_t)hook->dims[hook->n_dims - 1];
    size_t n_heads = count_heads(e, g, hook);
    if (g->mode == SWEEP_KEY || g->mode == SWEEP_VALUE)
        g->group = (size_t)hook->dims[0] / n_heads;
    code = grid_read_set("--heads", g->has_heads ? r->heads : NULL, n_heads, &g->heads);
    return code == EXIT_OK ? read_positions(r, n_tokens, strcmp(g->name, "heads") == 0, g) : code;
}

/* 1: the word, n bytes, is not a point but a part of --why. */
static int take_part(struct grid_request *r, const char *word, size_t n)
{
    int tokens = n == strlen("tokens") && memcmp(word, "tokens", n) == 0;
    int segments = n == strlen("segments") && memcmp(word, "segments", n) == 0;
    if (!r->why)
        return 0;
    r->tokens |= tokens;
    r->segments |= segments;
    return tokens || segments;
}

static int add_grid(const struct grid_request *r, const struct grid_point *point,
                    const struct engine *e, const struct hook *hooks, size_t n_tokens,
                    struct sweep_grid **grids)
{
    const struct sweep_grid empty = {.name = point->name, .point = point->point, .group = 1};
    mgpt_error err;
    if (e->info.n_layer == 0) {
        cli_note("--over %s: the model has no layers", point->name);
        return EXIT_USAGE;
    }
    if (e->info.n_latent && (point->point == MGPT_K || point->point == MGPT_V)) {
        cli_note("--over %s: latent attention keeps no %s of heads: they cannot be changed",
                 point->name, point->point == MGPT_K ? "keys" : "values");
        return EXIT_USAGE;
    }
    if (!arr_push(*grids, empty))
        return grid_no_memory();
    struct sweep_grid *g = &(*grids)[arr_len(*grids) - 1];
    int code = read_grid(r, point, e, hooks, n_tokens, g);
    return code == EXIT_OK && sweep_grid_room(g, &err) < 0 ? cli_fail(NULL, &err) : code;
}

int grid_read(struct grid_request *r, const struct engine *e, const struct hook *hooks,
              size_t n_tokens, struct sweep_grid **grids)
{
    int code = EXIT_OK;
    for (const char *at = r->over;; at++) {
        size_t n = strcspn(at, ",");
        if (!take_part(r, at, n)) {
            const struct grid_point *point = find_point(at, n);
            code = point ? add_grid(r, point, e, hooks, n_tokens, grids) : EXIT_USAGE;
        }
        at += n;
        if (code != EXIT_OK || !*at)
            return code;
    }
}
