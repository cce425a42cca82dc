/* The page (page.inc) compiled for small models: the whole forward pass is one call. At widths of a
 * few dozen floats an operation costs less than a function call.
 *
 * The input, struct fused_model (fused.h), is pointers and widths. Every sum has the order that
 * kernels.h states, so the bits are those of forward.c (checked by tests/page/test_fused.c). Each
 * operation runs over up to ROWS rows, which share the weights and hide each other's latency
 * (fused_matmul_tmpl.h, fused_attend_tmpl.h). step_of is compiled three times: with the widths of
 * the canonical microgpt as constants, for one row and for several, and for all other widths.
 */
#ifndef MGPT_FUSED_TMPL_H
#define MGPT_FUSED_TMPL_H

#include "page/fused_attend_tmpl.h"
#include "page/fused_matmul_tmpl.h"

#if defined(__wasm__) /* the size of a page counts */
enum { ROWS = 1 };
#else
enum { ROWS = VEC_NATIVE ? 12 : 1 }; /* a multiple of the tiles' rows; their caches fit in L1 */
#endif

/* Floats of the buffers of ROWS rows: x and h, q k v, o, the MLP. */
#define ROOM(E, F) (ROWS * (2 * (E) + 3 * (E) + (E) + (F)))
enum { ROOM_MOST = ROOM(NARROW, 2 * FUSED_FF), ROOM_CANONICAL = ROOM(16, 64) };
_Static_assert(ROOM_MOST * sizeof(float) <= WORK_WEIGHTS, "kernels_work_bytes");

/* The buffers between operations. Rows are as wide as the model. */
struct step_buffers {
    float *x, *h, *qkv, *o, *ff;
    float n_keys[ROWS * PANEL]; /* per head and row, when all rows have at most 16 keys */
    const float *q[ROWS];       /* q, k and v of each row: in qkv, or in first_qkv */
    float *logits[ROWS];        /* outputs of the rows that compute logits */
};

/* ---- the page's types ---- */

/* n rows of cols floats, `apart` floats from row to row. A product into them replaces them
 * (STEP_PUT) or, if they are the residual stream, is added to them (STEP_ADD). */
typedef struct {
    float *at, *const *each;
    size_t n, cols, apart;
    enum step_end end;
    int one_chain;
} mat;

typedef struct fused_layer layer;

typedef struct {
    const struct fused_model *model;
    const struct fused_row *rows;
    struct step_buffers *b;
    struct fused_widths w;
    size_t n_layer, il;
    int short_rows, interleaved;
    struct step_weights scores;
    mat x, h, qkv, o, a, f, m, logits;
} pass;

VEC_INLINE size_t step_qkv_width(const struct fused_widths w)
{
    return (w.H + 2 * w.G) * w.d;
}

/* ---- the page's operations ---- */

#define PAGE VEC_INLINE
#define SEE(point, y) /* nothing: a pass with taps runs in forward.c */
#define stopped(p) 0
#define parallel(p) 0 /* is_fusible (fused_model.c) refuses models with any of these */
#define before_layer(p, l) (void)0
#define drop_rows(p) (void)0
#define gate_heads(p, l) (void)0
#define qk_norm_rope(p, l) (void)0
#define add_experts(p, l, h) (void)0
#define smear(p, x) (void)0
#define add_token_values(p, l, h) (void)0
#define after_layer(p, l) (void)0
#define norm_residual(p, norm) (void)0
#define post_norm(p, norm, y) (void)0
#define scale_and_cap(p) (void)0
#define head_input(p, h) (h)
#define add(p, x, y) step_add(x, y)

/* x += y. A product that ends in STEP_ADD has been added already. */
VEC_INLINE void step_add(mat x, mat y)
{
    if (y.end == STEP_ADD || !y.at)
        return;
    for (size_t i = 0; i < x.n * x.cols; i += PANEL)
        lanes_store(x.at + i, lanes_add(lanes_load(x.at + i), lanes_load(y.at + i)));
}

VEC_INLINE mat norm(const pass *p, mat y, const struct fused_norm *norm, mat x)
{
    y.at = step_norms(y.at, norm, x.at, x.n, x.cols, p->model->eps);
    y.n = x.n;
    return y;
}

VEC_INLINE void matmul(const pass *p, mat y, const struct fused_linear *l, mat x)
{
    (void)p;
    step_rows((struct step_product){y.at, y.each, l->w, l->bias, x.at, x.apart, x.cols,
                                    y.cols / PANEL, y.end},
              x.n, y.one_chain);
}

VEC_INLINE void token_rows(pass *p, mat x)
{
    for (size_t r = 0; r < x.n; r++)
        memcpy(x.at + r * x.cols, p->rows[r].token, x.cols * sizeof *x.at);
}

VEC_INLINE mat position_rows(pass *p, mat y)
{
    for (size_t r = 0; r < y.n && p->rows[r].position; r++)
        memcpy(y.at + r * y.cols, p->rows[r].position, y.cols * sizeof *y.at);
    if (!p->rows[0].position)
        y.at = NULL;
    return y;
}

/* Takes the first layer's x, q, k and v of all rows from the table, if there is one. */
VEC_INLINE int recall(pass *p)
{
    if (!p->rows->first_qkv)
        return 0;
    for (size_t r = 0; r < p->x.n; r++) {
        for (size_t i = 0; i < p->x.cols; i += PANEL)
            lanes_store(p->x.at + r * p->x.cols + i, lanes_load(p->rows[r].first_qkv + i));
        p->b->q[r] = p->rows[r].first_qkv + p->x.cols;
    }
    return 1;
}

VEC_INLINE void qkv_matmul(pass *p, const layer *l, mat h)
{
    matmul(p, p->qkv, &l->qkv, h);
    for (size_t r = 0; r < h.n; r++)
        p->b->q[r] = p->qkv.at + r * p->qkv.cols;
}

/* Appends the keys of all rows before any row attends. Rows of one session are in order, and a row
 * reads only the keys up to its own position. */
VEC_INLINE void kv_append(pass *p)
{
    const struct fused_widths w = p->w;
    for (size_t r = 0; r < p->x.n; r++) {
        const float *k = p->b->q[r] + w.H * w.d, *v = k + w.G * w.d;
        unsigned char *const *keys = p->rows[r].k + p->il * w.G, *const *values =
                                                                     p->rows[r].v + p->il * w.G;
        size_t pos = p->rows[r].pos;
        for (size_t g = 0; g < w.G && p->interleaved; g += 4)
            step_append_four((struct step_keys){keys + g, values + g, pos + 1}, k + g * w.d,
                             v + g * w.d, w.d);
        for (size_t g = 0; g < w.G && !p->interleaved; g++)
            step_kv_append(step_cache(keys[g]), step_cache(values[g]), k + g * w.d, v + g * w.d,
                           pos, w.d, p->x.n == 1);
    }
}

VEC_INLINE void attend(pass *p)
{
    const struct fused_widths w = p->w;
    const struct step_heads heads = {w.H, w.d, w.H / w.G, p->model->attn_scale};
    const struct fused_row *rows = p->rows;
    size_t n = p->x.n, cache = p->il * w.G, group = step_group(w.H);
    for (size_t r = 0; r < n && p->interleaved; r++)
        step_attend_fours(p->o.at + r * p->o.cols, p->b->q[r], step_keys(&rows[r], cache),
                          p->scores.at, heads);
    for (size_t r = 0; r < n && !p->interleaved && !p->short_rows; r++)
        step_attend(p->o.at + r * p->o.cols, p->b->q[r], step_keys(&rows[r], cache), p->scores,
                    heads);
    for (size_t r = 0; r < n && p->short_rows; r += group)
        step_attend_group(p->o.at + r * p->o.cols, p->b->q + r, rows + r,
                          n - r < group ? n - r : group, cache, p->b->n_keys + r / group * PANEL,
                          heads);
}

/* The activation, if it is not a ReLU without a gate: that one is part of the product. */
VEC_INLINE void step_activate(float *x, const struct fused_model *m, size_t F, int gated)
{
    int relu = m->act == ACT_RELU || m->act == ACT_RELU2;
    if (!relu)
        m->activate(x, F);
    for (size_t i = 0; i < F; i += PANEL) {
        lanes a = lanes_load(x + i);
        if (relu)
            a = lanes_max(lanes_of(0), a);
        if (m->act == ACT_RELU2)
            a = lanes_mul(a, a);
        if (gated)
            a = lanes_mul(a, lanes_load(x + F + i));
        lanes_store(x + i, a);
    }
}

VEC_INLINE void mlp_up(pass *p, const layer *l, mat h)
{
    const struct fused_widths w = p->w;
    mat both = p->f; /* per row gate, then up */
    both.cols = p->f.apart;
    both.end = w.relu ? STEP_RELU : STEP_PUT;
    both.one_chain = w.one_chain_up;
    matmul(p, both, &l->up, h);
    for (size_t r = 0; r < h.n && !w.relu; r++)
        step_activate(both.at + r * both.cols, p->model, w.F, w.gated);
}

/* Moves the rows that need logits to the front of x and returns them. */
VEC_INLINE mat logit_rows(pass *p)
{
    mat x = p->x;
    x.n = 0;
    for (size_t r = 0; r < p->x.n; r++) {
        if (!p->rows[r].logits)
            continue;
        if (x.n < r)
            memcpy(x.at + x.n * x.cols, x.at + r * x.cols, x.cols * sizeof *x.at);
        p->b->logits[x.n++] = p->rows[r].logits;
    }
    return x;
}

#include "page/page.inc"

#undef PAGE
#undef SEE
#undef stopped
#undef parallel
#undef before_layer
#undef drop_rows
#undef gate_heads
#undef qk_norm_rope
#undef add_experts
#undef smear
#undef add_token_values
#undef after_layer
#undef norm_residual
#undef post_norm
#undef scale_and_cap
#undef head_input
#undef add

/* ---- the step ---- */

VEC_INLINE pass step_pass(const struct fused_model *m, const struct fused_row *rows, size_t n,
                          struct step_buffers *b, float *x, float *qkv, const struct fused_widths w)
{
    size_t q = w.H * w.d, width = step_qkv_width(w);
    mat stream = {.at = x, .n = n, .cols = w.E, .apart = w.E};
    mat branch = {.at = x, .n = n, .cols = w.E, .apart = w.E, .end = STEP_ADD};
    return (pass){.model = m,
                  .rows = rows,
                  .b = b,
                  .w = w,
                  .n_layer = m->n_layer,
                  .x = stream,
                  .a = branch,
                  .m = branch,
                  .h = {.at = b->h, .n = n, .cols = w.E, .apart = w.E},
                  .qkv = {.at = qkv, .n = n, .cols = width, .apart = width},
                  .o = {.at = b->o, .n = n, .cols = q, .apart = q},
                  .f = {.at = b->ff, .n = n, .cols = w.F, .apart = w.F << w.gated},
                  .logits = {.each = b->logits,
                             .cols = m->n_head_panels * PANEL,
                             .one_chain = m->one_chain_head}};
}

/* Places the buffers in ROOM(E, F) floats; E is at least n_embd, n_q and n_kv. */
VEC_INLINE void step_buffers_at(struct step_buffers *b, float *room, size_t E)
{
    b->x = room;
    b->h = room + ROWS * E;
    b->qkv = room + ROWS * 2 * E;
    b->o = room + ROWS * 5 * E;
    b->ff = room + ROWS * 6 * E;
    b->q[0] = NULL; /* recall or qkv_matmul set it; compilers do not see that */
    lanes_store(b->n_keys, lanes_of(1)); /* nor that step_count_keys sets what is read */
}

VEC_INLINE void step_of(const struct fused_model *m, const struct fused_row *rows, size_t n,
                        const struct step_weights scores, float *room, size_t E,
                        const struct fused_widths w)
{
    struct step_buffers b;
    step_buffers_at(&b, room, E);
    pass p = step_pass(m, rows, n, &b, b.x, b.qkv, w);
    p.scores = scores;
    p.interleaved = fused_interleaves(INTERLEAVES, w);
    p.short_rows = n > 1 && w.H <= PANEL && !p.interleaved;
    for (size_t r = 0; r < n; r++)
        p.short_rows = p.short_rows && rows[r].pos < PANEL;
    if (p.short_rows)
        step_count_keys(b.n_keys, rows, n, w.H);
    forward(&p);
}

static void fused_first_qkv(const struct fused_model *m, const struct fused_row *row,
                            float *first_qkv)
{
    float h[NARROW];
    struct step_buffers b;
    b.h = h;
    b.o = b.ff = NULL; /* not used by embed and qkv */
    pass p = step_pass(m, row, 1, &b, first_qkv, first_qkv + m->widths.E, m->widths);
    embed(&p);
    if (m->n_layer > 0)
        qkv(&p, &m->layers[0]);
}

/* Separate functions: inlined together, every call would pay for the setup of all three. */
#define STEP_APART static __attribute__((noinline)) void

STEP_APART step_any(const struct fused_model *m, const struct fused_row *rows, size_t n,
                    float *scores, size_t stride, float *room)
{
    step_of(m, rows, ROWS == 1 ? 1 : n, (struct step_weights){scores, stride, 1}, room, NARROW,
            m->widths);
}

STEP_APART step_canonical_one(const struct fused_model *m, const struct fused_row *row,
                              float *scores, size_t stride)
{
    _Alignas(64) float room[ROOM_CANONICAL];
    step_of(m, row, 1, (struct step_weights){scores, stride, 1}, room, 16, fused_canonical);
}

STEP_APART step_canonical(const struct fused_model *m, const struct fused_row *rows, size_t n,
                          float *scores, size_t stride)
{
    _Alignas(64) float room[ROOM_CANONICAL];
    step_of(m, rows, n, (struct step_weights){scores, stride, 1}, room, 16, fused_canonical);
}

static void fused_step(const struct fused_model *m, const struct fused_row *rows, size_t n,
                       float *scores, size_t stride, void *work)
{
    for (size_t done = 0; done < n; done += ROWS) {
        size_t some = n - done < ROWS ? n - done : ROWS;
        if (!m->is_canonical)
            step_any(m, rows + done, some, scores, stride, work);
        else if (ROWS == 1 || some == 1)
            step_canonical_one(m, rows + done, scores, stride);
        else
            step_canonical(m, rows + done, some, scores, stride);
    }
}

#undef STEP_APART

#endif
