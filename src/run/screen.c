/* Logits of one token where only the top_k largest are needed (mgpt_model_params.top_k).
 *
 * The int8 copy of the head gives an estimate of each logit and a bound that it cannot exceed
 * (struct int8_screen in kernels.h). The k panels with the largest bounds are multiplied; the k-th
 * largest of their logits is a threshold that the k largest of all logits reach. Then all panels
 * whose bounds reach it are multiplied. What is left are estimates below the threshold.
 */
#include "run/ops.h"

#include <math.h>

enum {
    SCREEN_UNITS = 4, /* panels a thread takes at a time */
    PAUSE = 16 /* tokens without the screen: the first, and those after one for which it excluded
                * little. Filling it takes the time that it saves in 6 (F32) to 20 tokens (F16) */
};

struct screening {
    const pass *p;
    const struct linear *l;
    float *y;
    const float *x;
    size_t n; /* ids that are chosen from */
    struct screen_x bound;
    size_t n_multiplied;
    float from, below; /* panels whose bounds are in [from, below) are multiplied */
};

static void screen_multiply(const struct screening *s, const struct matmul *of, int worker,
                            enum weight_type type)
{
    const struct scratch *scratch = s->p->s;
    struct matmul m = *of;
    m.y = s->y;
    m.ldy = m.n_out = s->l->n_out;
    m.n = 1;
    m.n_in = s->l->n_in;
    m.work = scratch->work + (size_t)worker * scratch->work_bytes;
    m.streaming = model_streaming(s->p->model);
    s->p->kernels->matmul[type](&m);
}

/* An upper bound of the logits of panel p. INFINITY: nothing is known. */
static float panel_bound(const struct screening *s, size_t p)
{
    const struct int8_screen *screen = &s->p->model->screen;
    float most = -INFINITY;
    for (size_t r = p * PANEL; r < p * PANEL + PANEL && r < s->n; r++) {
        float error = screen->rest[r] * s->bound.rest_by + screen->norm[r] * s->bound.norm_by;
        float bound = s->y[r] + (error + SCREEN_TINY);
        if (!(screen->norm[r] * s->bound.norm < SCREEN_HUGE) || !(bound <= FLT_MAX))
            return INFINITY;
        most = bound > most ? bound : most;
    }
    return most;
}

static void estimate_part(void *ctx, int worker, size_t p0, size_t p1)
{
    const struct screening *s = ctx;
    const struct scratch *scratch = s->p->s;
    screen_multiply(
        s, &(struct matmul){.w = s->p->model->screen.w, .x = scratch->screen_x, .p0 = p0, .p1 = p1},
        worker, WEIGHT_Q8_0);
    for (size_t p = p0; p < p1; p++)
        scratch->bounds[p] = panel_bound(s, p);
}

static void exact_part(void *ctx, int worker, size_t p0, size_t p1)
{
    const struct screening *s = ctx;
    const float *bounds = s->p->s->bounds;
    for (size_t p = p0; p < p1; p++)
        if (bounds[p] >= s->from && !(bounds[p] >= s->below))
            screen_multiply(s, &(struct matmul){.w = s->l->w, .x = s->x, .p0 = p, .p1 = p + 1},
                            worker, s->l->type);
}

/* fn for panels [0, n), of which `bytes` bytes are read. */
static void deal_panels(struct pool *pool, size_t bytes, size_t n, pool_units_fn *fn, void *ctx)
{
    pool_deal(pool, &(struct pool_units){
                        .bytes = bytes, .n = n, .least = SCREEN_UNITS, .fn = fn, .ctx = ctx});
}

/* Multiplies the panels whose bounds reach `from` and not `below`. */
static void multiply_reached(struct screening *s, float from, float below)
{
    size_t n = 0, panels = panels_of(s->l->n_out);
    s->from = from;
    s->below = below;
    for (size_t p = 0; p < panels; p++)
        n += s->p->s->bounds[p] >= from && !(s->p->s->bounds[p] >= below);
    deal_panels(s->p->pool, n * s->l->panel_bytes, panels, exact_part, s);
    s->n_multiplied += n;
}

/* The k-th largest logit of the k panels with the largest bounds. *least: the smallest of these. */
static float screen_threshold(struct screening *s, size_t k, float *least)
{
    mgpt_candidate top[SCREEN_TOP], best[SCREEN_TOP];
    float logits[SCREEN_TOP * PANEL];
    size_t n = 0;
    mgpt_top(s->p->s->bounds, panels_of(s->l->n_out), top, k);
    *least = top[k - 1].logit;
    multiply_reached(s, *least, NAN);
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0, r = (size_t)top[i].token * PANEL; j < PANEL && r + j < s->n; j++)
            logits[n++] = s->y[r + j];
    if (mgpt_top(logits, n, best, k) < k || isnan(best[k - 1].logit))
        return -INFINITY;
    return best[k - 1].logit;
}

static void fill_part(void *ctx, int worker, size_t p0, size_t p1)
{
    const mgpt_model *m = ctx;
    const struct linear *l = &m->head;
    (void)worker;
    for (size_t p = p0; p < p1; p++)
        m->kernels.screen(&m->screen, l->type,
                          &(struct matmul){.w = l->w, .n_in = l->n_in, .n_out = l->n_out}, p);
}

/* 1: the screen is full. 0: another session is filling it. */
static int fill_screen(const pass *p)
{
    const mgpt_model *m = p->model;
    int state = SCREEN_EMPTY;
    if (atomic_load_explicit(m->screen_state, memory_order_acquire) == SCREEN_FULL)
        return 1;
    if (!atomic_compare_exchange_strong(m->screen_state, &state, SCREEN_BEGUN))
        return state == SCREEN_FULL;
    size_t panels = panels_of(m->head.n_out);
    deal_panels(p->pool, panels * m->head.panel_bytes, panels, fill_part, (void *)m);
    atomic_store_explicit(m->screen_state, SCREEN_FULL, memory_order_release);
    return 1;
}

/* 1: this pass is to use the screen. */
static int is_screened(pass *p, const struct linear *l, mat x)
{
    const mgpt_model *m = p->model;
    if (l != &m->head || !m->screen.w || x.n != 1 || p->n_segments != 1 || p->points & OUT_POINTS)
        return 0;
    if (p->s->unscreened++ < PAUSE)
        return 0;
    return fill_screen(p);
}

int screened_matmul(pass *p, mat y, const struct linear *l, mat x)
{
    const mgpt_model *m = p->model;
    struct scratch *scratch = p->s;
    struct screening s = {.p = p, .l = l, .y = y.at, .x = x.at, .n = m->n_choices};
    float least;
    if (!is_screened(p, l, x))
        return 0;
    p->kernels->quantize(scratch->screen_x, x.at, l->n_in);
    s.bound = kernels_screen_x(x.at, scratch->screen_x, l->n_in);
    size_t panels = panels_of(l->n_out), bytes = kernels_panel_bytes(WEIGHT_Q8_0, l->n_in);
    deal_panels(p->pool, panels * bytes, panels, estimate_part, &s);
    float threshold = screen_threshold(&s, m->top_k, &least);
    multiply_reached(&s, threshold, least);
    if (s.n_multiplied > panels / 2)
        scratch->unscreened = 0;
    return 1;
}
