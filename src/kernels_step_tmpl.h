/* Floor 1. The whole step of a narrow model in one call: what forward.c says, for the few dozen
 * numbers of a row at which a call per verb costs more than its arithmetic.
 *
 * Knows nothing of models: struct narrow (kernels_step.h) is pointers and widths. Every sum has the
 * order that kernels.h states, so the bits are the page's; tests/test_narrow.c holds it to the
 * page. It goes stage by stage over up to ROWS rows, whose chains of latency overlap and which
 * share the weights (kernels_step_linear.h, kernels_step_attend.h). step_of is compiled with the
 * widths of the canonical microgpt as constants, for one row and for several, and once for all
 * others.
 */
#ifndef MGPT_KERNELS_STEP_TMPL_H
#define MGPT_KERNELS_STEP_TMPL_H

#include "kernels_step_attend.h"
#include "kernels_step_linear.h"

enum {
    ROWS = LANES_ARE_VECTORS ? 12 : 1
}; /* a multiple of the tiles' rows; their caches fit in L1 */

struct step_widths {
    size_t E, H, G, d, F;
    int gated, relu, one_chain_up; /* relu: and no gate */
};

/* What stands between the stages; rows are as wide as the model, not as the array. */
struct step_buffers {
    float x[ROWS * NARROW], h[ROWS * NARROW], qkv[ROWS * 3 * NARROW], o[ROWS * NARROW];
    float ff[ROWS * 2 * NARROW_FF];
    float n_keys[ROWS * PANEL]; /* of each head of the rows, when all are short */
    const float *q[ROWS]; /* q, k and v of each row: in qkv or where they were found at open */
};

STEP_INLINE size_t step_qkv_width(const struct step_widths w)
{
    return (w.H + 2 * w.G) * w.d;
}

STEP_INLINE void step_add(float *x, const float *y, size_t E)
{
    for (size_t i = 0; i < E; i += PANEL)
        lanes_store(x + i, lanes_add(lanes_load(x + i), lanes_load(y + i)));
}

/* ---- the beginning ---- */

/* The first layer's input and its q, k and v. */
STEP_INLINE void step_begin(float *x, float *qkv, const struct narrow *m,
                            const struct narrow_row *row, const struct step_widths w)
{
    float h[NARROW];
    memcpy(x, row->token, w.E * sizeof *x);
    if (row->position)
        step_add(x, row->position, w.E);
    step_norms(x, &m->embd_norm, x, 1, w.E, m->eps);
    if (m->n_layer == 0)
        return;
    const float *normed = step_norms(h, &m->layers[0].attn_norm, x, 1, w.E, m->eps);
    step_linear(qkv, &m->layers[0].qkv, normed, 0, 1, w.E, step_qkv_width(w), 0, STEP_PUT);
}

/* The same for all rows, of most as it was found out at open: it depends on the token and its
 * position alone. */
STEP_INLINE void step_begin_all(struct step_buffers *b, const struct narrow *m,
                                const struct narrow_row *rows, size_t n, const struct step_widths w)
{
    for (size_t r = 0; r < n; r++) {
        float *x = b->x + r * w.E, *qkv = b->qkv + r * step_qkv_width(w);
        b->q[r] = qkv;
        if (!rows[r].begun) {
            step_begin(x, qkv, m, &rows[r], w);
            continue;
        }
        for (size_t i = 0; i < w.E; i += PANEL)
            lanes_store(x + i, lanes_load(rows[r].begun + i));
        b->q[r] = rows[r].begun + w.E;
    }
}

/* ---- a layer ---- */

STEP_INLINE void step_qkv(struct step_buffers *b, const struct narrow *m,
                          const struct narrow_layer *l, size_t n, const struct step_widths w)
{
    size_t width = step_qkv_width(w);
    const float *h = step_norms(b->h, &l->attn_norm, b->x, n, w.E, m->eps);
    step_linear(b->qkv, &l->qkv, h, w.E, n, w.E, width, 0, STEP_PUT);
    for (size_t r = 0; r < n; r++)
        b->q[r] = b->qkv + r * width;
}

/* Rows of one session in order: one that comes first does not see the keys of those behind it. */
STEP_INLINE void step_attention(struct step_buffers *b, const struct narrow *m, size_t il,
                                const struct narrow_row *rows, size_t n, int short_rows,
                                float *scores, size_t stride, const struct step_widths w)
{
    const struct step_heads heads = {w.H, w.d, w.H / w.G, m->attn_scale};
    size_t q = w.H * w.d, kv = w.G * w.d, cache = il * w.G, group = step_group(w.H);
    for (size_t r = 0; r < n; r++) {
        const float *key = b->q[r] + q, *value = key + kv;
        unsigned char *const *k = rows[r].k + cache, *const *v = rows[r].v + cache;
        size_t pos = rows[r].pos;
        for (size_t g = 0; g < w.G; g++)
            step_remember(step_cache(k[g]), step_cache(v[g]), key + g * w.d, value + g * w.d, pos,
                          w.d, n == 1);
    }
    for (size_t r = 0; r < n && !short_rows; r++)
        step_attend(b->o + r * q, b->q[r], rows[r].k + cache, rows[r].v + cache, rows[r].pos + 1,
                    scores, stride, heads);
    for (size_t r = 0; r < n && short_rows; r += group)
        step_attend_group(b->o + r * q, b->q + r, rows + r, n - r < group ? n - r : group, cache,
                          b->n_keys + r / group * PANEL, heads);
}

/* What is left of the activation when ReLU without a gate was taken with the product. */
STEP_INLINE void step_activate(float *x, const struct narrow *m, size_t F, int gated)
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

STEP_INLINE void step_mlp(struct step_buffers *b, const struct narrow *m,
                          const struct narrow_layer *l, size_t n, const struct step_widths w)
{
    size_t width = w.F << w.gated;
    const float *h = step_norms(b->h, &l->ffn_norm, b->x, n, w.E, m->eps);
    step_linear(b->ff, &l->up, h, w.E, n, w.E, width, w.one_chain_up,
                w.relu ? STEP_RELU : STEP_PUT);
    for (size_t r = 0; r < n && !w.relu; r++)
        step_activate(b->ff + r * width, m, w.F, w.gated);
    step_linear(b->x, &l->down, b->ff, width, n, w.F, w.E, 0, STEP_ADD);
}

/* ---- the step ---- */

/* Logits of the rows that want them: of all, or of the last. */
STEP_INLINE void step_head(struct step_buffers *b, const struct narrow *m,
                           const struct narrow_row *rows, size_t n, const struct step_widths w)
{
    float *logits[ROWS];
    size_t n_out = 0;
    for (size_t r = 0; r < n; r++) {
        if (!rows[r].logits)
            continue;
        if (n_out < r)
            memcpy(b->x + n_out * w.E, b->x + r * w.E, w.E * sizeof *b->x);
        logits[n_out++] = rows[r].logits;
    }
    if (n_out == 0)
        return;
    const float *h = step_norms(b->h, &m->final_norm, b->x, n_out, w.E, m->eps);
    step_rows((struct step_product){NULL, logits, m->head.w, m->head.bias, h, w.E, w.E,
                                    m->n_head_panels, STEP_PUT},
              n_out, m->one_chain_head);
}

STEP_INLINE void step_of(const struct narrow *m, const struct narrow_row *rows, size_t n,
                         float *scores, size_t stride, const struct step_widths w)
{
    struct step_buffers b;
    int short_rows = n > 1 && w.H <= PANEL;
    for (size_t r = 0; r < n; r++)
        short_rows = short_rows && rows[r].pos < PANEL;
    if (short_rows)
        step_count_keys(b.n_keys, rows, n, w.H);
    step_begin_all(&b, m, rows, n, w);
    for (size_t il = 0; il < m->n_layer; il++) {
        const struct narrow_layer *l = &m->layers[il];
        if (il > 0)
            step_qkv(&b, m, l, n, w);
        step_attention(&b, m, il, rows, n, short_rows, scores, stride, w);
        step_linear(b.x, &l->o, b.o, w.H * w.d, n, w.H * w.d, w.E, 0, STEP_ADD);
        step_mlp(&b, m, l, n, w);
    }
    step_head(&b, m, rows, n, w);
}

static struct step_widths step_widths_of(const struct narrow *m)
{
    return (struct step_widths){.E = m->n_embd,
                                .H = m->n_head,
                                .G = m->n_head_kv,
                                .d = m->head_dim,
                                .F = m->n_ff,
                                .gated = m->gated,
                                .relu = m->act == ACT_RELU && !m->gated,
                                .one_chain_up = m->one_chain_up};
}

static void narrow_begin(const struct narrow *m, const struct narrow_row *row, float *begun)
{
    step_begin(begun, begun + m->n_embd, m, row, step_widths_of(m));
}

/* Each of its own: in one function compilers compute for every token what only the others need. */
#define STEP_APART static __attribute__((noinline)) void

STEP_APART step_any(const struct narrow *m, const struct narrow_row *rows, size_t n, float *scores,
                    size_t stride)
{
    step_of(m, rows, ROWS == 1 ? 1 : n, scores, stride, step_widths_of(m));
}

static const struct step_widths canonical = {16, 4, 4, 4, 64, 0, 1, 0};

STEP_APART step_canonical_one(const struct narrow *m, const struct narrow_row *row, float *scores,
                              size_t stride)
{
    step_of(m, row, 1, scores, stride, canonical);
}

STEP_APART step_canonical(const struct narrow *m, const struct narrow_row *rows, size_t n,
                          float *scores, size_t stride)
{
    step_of(m, rows, n, scores, stride, canonical);
}

static void narrow_step(const struct narrow *m, const struct narrow_row *rows, size_t n,
                        float *scores, size_t stride)
{
    int is_canonical = m->n_embd == canonical.E && m->n_head == canonical.H &&
                       m->n_head_kv == canonical.G && m->head_dim == canonical.d &&
                       m->n_ff == canonical.F && m->act == ACT_RELU && !m->gated;
    for (size_t done = 0; done < n; done += ROWS) {
        size_t some = n - done < ROWS ? n - done : ROWS;
        if (!is_canonical)
            step_any(m, rows + done, some, scores, stride);
        else if (ROWS == 1 || some == 1)
            step_canonical_one(m, rows + done, scores, stride);
        else
            step_canonical(m, rows + done, some, scores, stride);
    }
}

#undef STEP_APART

#endif
