/* Tests of tools/patch/sweep.h: every number of a sweep has the bits of one run of the whole
 * prompt, token by token, in a session of its own with a tap of this file. All models, points and
 * modes. What the numbers should be is tested by cli/patch.py. */
#include "base/mem.h"
#include "engine/layers.h"
#include "patch/grid.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>

enum { N = 9 };
#define POSITIONS "0,2,4,5,8" /* some, for the time it takes */

struct swept {
    struct engine engine;
    struct metric metric;
    struct hook *hooks;
    struct patch_sweep sweep;
    struct sweep_grid *grids;
    int32_t other[N];
};

static void swept_open(struct swept *w, const struct subject *s)
{
    *w = (struct swept){.engine = {.model = s->model}};
    assert_int_equal(mgpt_get_info(s->model, &w->engine.info, NULL), MGPT_OK);
    assert_int_equal(engine_session(&w->engine), EXIT_OK);
    w->hooks = hooks_list(s->model, NULL);
    w->metric = (struct metric){.kind = METRIC_LOGPROB, .a = 1, .n_vocab = s->n_vocab};
    memcpy(w->other, s->tokens, sizeof w->other);
    w->other[2] = (s->tokens[2] + 1) % w->engine.info.n_vocab;
    w->other[4] = (s->tokens[4] + 1) % w->engine.info.n_vocab;
    w->sweep = (struct patch_sweep){
        .engine = &w->engine, .metric = &w->metric, .tokens = s->tokens, .n_tokens = N};
}

static void swept_close(struct swept *w)
{
    for (size_t i = 0; i < arr_len(w->grids); i++)
        sweep_grid_free(&w->grids[i]);
    arr_free(w->grids);
    arr_free(w->hooks);
    values_free(&w->sweep.own);
    values_free(&w->sweep.other);
    mgpt_session_free(w->engine.session);
}

/* The layers that are not short convolutions, have keys of their own and heads as the first of them, as an
 * option; returns the first, -1 if there is none. */
static int32_t attention_layers(const struct swept *w, char *text, size_t size)
{
    int32_t first = -1;
    size_t n = 0;
    mgpt_layer of = {0}, l;
    for (int32_t i = 0; i < w->engine.info.n_layer; i++) {
        assert_int_equal(mgpt_get_layer(w->engine.model, (size_t)i, &l, NULL), MGPT_OK);
        of = first < 0 ? l : of;
        if (l.n_conv || l.kv_from != i || l.head_dim != of.head_dim ||
            l.n_head_kv != of.n_head_kv ||
            (first >= 0 &&
             engine_heads(w->engine.model, i) != engine_heads(w->engine.model, first)))
            continue;
        n += (size_t)snprintf(text + n, size - n, "%s%d", n ? "," : "", (int)i);
        first = first < 0 ? i : first;
    }
    return first;
}

/* The points of the command that these layers have, in one mode. */
static void read_grids(struct swept *w, const char *mode)
{
    char layers[64];
    int32_t first = attention_layers(w, layers, sizeof layers);
    static const struct {
        const char *name;
        mgpt_point point;
    } points[] = {{"resid_pre", MGPT_RESID_PRE},
                  {"resid_mid", MGPT_RESID_MID},
                  {"attn_out", MGPT_ATTN_OUT},
                  {"mlp_out", MGPT_MLP_OUT},
                  {"z", MGPT_HEADS},
                  {"pattern", MGPT_WEIGHTS},
                  {"q", MGPT_Q},
                  {"k", MGPT_K},
                  {"v", MGPT_V}};
    for (size_t i = 0; i < COUNT(points); i++) {
        struct grid_request r = {
            .over = points[i].name, .mode = mode, .layers = layers, .positions = POSITIONS};
        int is_copy =
            w->engine.info.n_latent && (points[i].point == MGPT_K || points[i].point == MGPT_V);
        if (hooks_find(w->hooks, points[i].point, first) &&
            (strcmp(mode, "mean") != 0 || points[i].point != MGPT_WEIGHTS))
            assert_int_equal(grid_read(&r, &w->engine, w->hooks, N, &w->grids),
                             is_copy ? EXIT_USAGE : EXIT_OK);
    }
    struct grid_request parts = {
        .over = "heads,keys,values", .mode = mode, .layers = layers, .positions = POSITIONS};
    assert_int_equal(grid_read(&parts, &w->engine, w->hooks, N, &w->grids), EXIT_OK);
    assert_true(arr_len(w->grids) > 7);
}

static void run_sweep(struct swept *w)
{
    uint64_t points = MGPT_POINT_BIT(MGPT_RESID_PRE);
    mgpt_error err;
    for (size_t i = 0; i < arr_len(w->grids); i++)
        points |= MGPT_POINT_BIT(w->grids[i].point);
    int32_t n_layer = w->engine.info.n_layer;
    assert_int_equal(values_new(&w->sweep.other, w->hooks, points, n_layer, N, &err), MGPT_OK);
    assert_int_equal(values_new(&w->sweep.own, w->hooks, points, n_layer, N, &err), MGPT_OK);
    assert_int_equal(sweep_keep(&w->engine, w->other, N, &w->sweep.other, &err), MGPT_OK);
    assert_int_equal(sweep_keep(&w->engine, w->sweep.tokens, N, &w->sweep.own, &err), MGPT_OK);
    assert_int_equal(patch_sweep_run(&w->sweep, w->grids, arr_len(w->grids), &err), MGPT_OK);
}

/* ---- the oracle ---- */

struct lone {
    const struct swept *swept;
    const struct sweep_grid *grid;
    int32_t layer, head, pos;
};

static void lone_write(const struct lone *l, float *row, size_t i, size_t at)
{
    const struct run_values *other = &l->swept->sweep.other, *own = &l->swept->sweep.own;
    mgpt_point p = l->grid->point;
    size_t cols = other->cols[p];
    double sum = 0;
    for (size_t t = 0; t < N; t++)
        sum += (double)own->at[p][((size_t)l->layer * N + t) * cols + at];
    if (l->grid->mode == SWEEP_PATCH)
        row[i] = other->at[p][((size_t)l->layer * N + (size_t)l->pos) * cols + at];
    else if (l->grid->mode == SWEEP_SCALE)
        row[i] *= l->grid->factor;
    else
        row[i] = l->grid->mode == SWEEP_MEAN ? (float)(sum / N) : 0;
}

/* Sessions of this file step: a value has the row of one position, or of each head. */
static int lone_tap(const mgpt_value *v, void *user)
{
    const struct lone *l = user;
    int column = l->grid->mode == SWEEP_KEY || l->grid->mode == SWEEP_VALUE;
    size_t head = (size_t)l->head, cols = (size_t)v->cols;
    if (v->layer != l->layer || v->point != l->grid->point)
        return 0;
    for (size_t h = 0; column && h < (size_t)v->rows; h++)
        if (v->pos > l->pos && h / l->grid->group == head)
            v->data[h * v->stride + (size_t)l->pos] = l->grid->mode == SWEEP_KEY ? -INFINITY : 0.0f;
    if (column || (v->pos != l->pos && l->pos != SWEEP_EVERYWHERE))
        return 0;
    if (hook_is_attention(v->point))
        for (size_t i = 0; i < cols; i++)
            lone_write(l, v->data + head * v->stride, i, head * N + i);
    else
        for (size_t i = 0; i < l->grid->width; i++)
            lone_write(l, v->data, head * l->grid->width + i, head * l->grid->width + i);
    return 0;
}

static double lone_value(struct lone *l)
{
    const struct swept *w = l->swept;
    mgpt_session *session = mgpt_session_new(w->engine.model, NULL, NULL);
    assert_int_equal(mgpt_tap(session, MGPT_POINT_BIT(l->grid->point), lone_tap, l, NULL), 0);
    for (int i = 0; i < N; i++)
        assert_non_null(mgpt_step(session, w->sweep.tokens[i], NULL));
    double value = metric_value(&w->metric, mgpt_logits(session));
    mgpt_session_free(session);
    return value;
}

static void check_swept_grid(const struct swept *w, const struct sweep_grid *g, const char *label)
{
    size_t n_pos = arr_len(g->positions), n_head = arr_len(g->heads);
    for (size_t i = 0; i < sweep_size(g); i++) {
        struct lone l = {w, g, g->layers[i / n_pos / n_head], g->heads[i / n_pos % n_head],
                         g->positions[i % n_pos]};
        double want = lone_value(&l), got = g->values[i];
        if (memcmp(&want, &got, sizeof want) != 0)
            fail_msg("%s, %s, mode %d, layer %d, head %d, position %d: %.17g, alone %.17g", label,
                     g->name, (int)g->mode, (int)l.layer, (int)l.head, (int)l.pos, got, want);
    }
}

static void check_sweep(const struct subject *s)
{
    static const char *const modes[] = {"patch", "zero", "mean", "scale:-0.5"};
    for (size_t i = 0; i < COUNT(modes) && s->m->spec.n_layer > 0; i++) {
        struct swept w;
        char layers[64];
        swept_open(&w, s);
        if (attention_layers(&w, layers, sizeof layers) < 0) {
            swept_close(&w);
            return;
        }
        read_grids(&w, modes[i]);
        run_sweep(&w);
        for (size_t j = 0; j < arr_len(w.grids); j++)
            check_swept_grid(&w, &w.grids[j], s->m->spec.label);
        swept_close(&w);
    }
}

TEST(each_value_is_that_of_a_run_alone)
{
    subject_each(check_sweep);
}

/* ---- sets of numbers ---- */

TEST(sets)
{
    int32_t *set = NULL;
    assert_int_equal(grid_read_set("--x", "0-2,7,-1,-3--2,3-3", 10, &set), EXIT_OK);
    const int32_t want[] = {0, 1, 2, 7, 9, 7, 8, 3};
    assert_int_equal(arr_len(set), COUNT(want));
    assert_memory_equal(set, want, sizeof want);
    arr_free(set);
    const char *const bad[] = {"", "10", "-11", "3-2", "1,", "1;2", "x", "1-", "0x1"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        set = NULL;
        assert_int_equal(grid_read_set("--x", bad[i], 10, &set), EXIT_USAGE);
        arr_free(set);
    }
}
