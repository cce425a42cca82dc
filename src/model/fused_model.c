/* Small models: rows of a few dozen numbers. Calling the page's operations one by one costs more
 * than their arithmetic. So the page is compiled a second time, as one call for the whole step
 * (fused.h), with the same bits (tests/page/test_fused.c).
 *
 * This file decides at open whether a model qualifies, and lays out its weights for that call: one
 * block in the order of use, gains and biases padded to panels, embeddings as floats. Models with
 * parallel branches, windows, rope, q/k norms, caps, experts, wide or integer matrices run through
 * forward.c, and so does every tapped token.
 */
#include "model/fused_model.h"

#include "base/error.h"
#include "base/mem.h"
#include "page/fused.h"

#include <string.h>

enum {
    FUSED_FLOATS = 1 << 19,    /* largest small model, in floats: 2 MiB */
    FIRST_QKV_FLOATS = 1 << 16 /* most floats of the first_qkv table: 256 KiB, a part of L2 */
};

/* ---- which ---- */

static int plain_matrix(const struct linear *l, size_t most)
{
    return l->w && l->type == WEIGHT_F32 && l->n_out % PANEL == 0 && l->n_out <= most;
}

static int plain_layer(const mgpt_model *m, const struct layer *l)
{
    int gated = m->layers[0].gate.w != NULL;
    return !l->experts && plain_matrix(&l->q, NARROW) && plain_matrix(&l->k, NARROW) &&
           plain_matrix(&l->v, NARROW) && plain_matrix(&l->o, NARROW) &&
           plain_matrix(&l->up, FUSED_FF) && plain_matrix(&l->down, NARROW) &&
           (gated ? plain_matrix(&l->gate, FUSED_FF) : !l->gate.w) && l->q_norm.kind == NORM_NONE &&
           l->k_norm.kind == NORM_NONE && l->post_attn_norm.kind == NORM_NONE &&
           l->post_ffn_norm.kind == NORM_NONE && l->mid_norm.kind == NORM_NONE &&
           l->end_norm.kind == NORM_NONE && !l->rope && l->window == 0 && !l->sinks &&
           !l->head_gate.w;
}

static size_t n_floats(const struct model_shape *d)
{
    size_t layer = d->n_embd * (2 * d->n_q + 2 * d->n_kv + 3 * d->n_ff + 4) + 3 * d->n_ff;
    return d->n_layer * layer + (3 * d->n_embd + PANEL + 1) * (d->n_vocab + d->n_ctx);
}

/* 1 if the numbers that the fused page does not compute have no effect. */
static int numbers_are_plain(const mgpt_model *m)
{
#define NUMBER_IS_NEUTRAL(field, absent, kind, ...)                                                \
    (offsetof(mgpt_model, field) == offsetof(mgpt_model, embd_scale) ||                            \
     offsetof(mgpt_model, field) == offsetof(mgpt_model, attn_scale) ||                            \
     m->field == NUMBER_NEUTRAL_##kind) &&
    return MODEL_NUMBERS(NUMBER_IS_NEUTRAL) 1;
}

int fused_fits(const mgpt_model *m)
{
    const struct model_shape *d = &m->shape;
    int plain = fused_kernels(m->kernels.vectors) && d->n_embd % PANEL == 0 &&
                d->n_embd <= NARROW && d->head_dim % 4 == 0 && d->n_vocab < FUSED_FLOATS &&
                d->n_ctx < FUSED_FLOATS && d->n_layer < 256 && m->branches == BRANCHES_SEQUENTIAL &&
                !m->mixes_x0 && !m->smear_gate.w && m->backout == 0 && !d->n_conv && !d->n_latent &&
                numbers_are_plain(m) && !m->head_dense.w && m->head.w &&
                m->head.type == WEIGHT_F32 && !m->head.bias && d->n_ff <= FUSED_FF &&
                m->act != ACT_XIELU;
    for (size_t i = 0; plain && i < d->n_layer; i++)
        plain = plain_layer(m, &m->layers[i]);
    return plain && n_floats(d) <= FUSED_FLOATS;
}

/* ---- the block ---- */

/* The block of weights. Every part begins at a multiple of PANEL floats (64 bytes). */
struct fused_block {
    float *data; /* NULL while only the size is counted */
    size_t n;
};

static float *fused_take(struct fused_block *b, size_t n)
{
    float *p = b->data ? b->data + b->n : NULL;
    b->n += panels_of(n) * PANEL;
    return p;
}

static const float *fused_put(struct fused_block *b, const float *from, size_t n)
{
    float *p = from ? fused_take(b, n) : NULL;
    if (p)
        memcpy(p, from, n * sizeof *p);
    return p;
}

static struct fused_norm fused_put_norm(struct fused_block *b, const struct norm *norm)
{
    static const enum fused_kind kinds[] = {
        [NORM_NONE] = FUSED_NO_NORM, [NORM_RMS] = FUSED_RMSNORM, [NORM_LAYER] = FUSED_LAYERNORM};
    return (struct fused_norm){kinds[norm->kind], fused_put(b, norm->gain, norm->width),
                               fused_put(b, norm->bias, norm->width)};
}

/* Stores up to three matrices of one input consecutively. If one has a bias, the others get
 * zeros. */
static struct fused_linear fused_put_matrices(struct fused_block *b, const struct linear *const *l,
                                              size_t n)
{
    struct fused_linear to = {NULL, NULL};
    int biased = 0;
    for (size_t i = 0; i < n; i++) {
        const float *at = fused_put(b, l[i]->w, panels_of(l[i]->n_out) * PANEL * l[i]->n_in);
        to.w = i == 0 ? at : to.w;
        biased += l[i]->bias != NULL;
    }
    for (size_t i = 0; biased && i < n; i++) {
        float *at = fused_take(b, l[i]->n_out);
        if (at && l[i]->bias)
            memcpy(at, l[i]->bias, l[i]->n_out * sizeof *at);
        to.bias = i == 0 ? at : to.bias;
    }
    return to;
}

static const float *fused_put_table(struct fused_block *b, const mgpt_model *m,
                                    const struct gguf_tensor *table, float scale)
{
    size_t E = (size_t)table->dims[0], n = (size_t)table->dims[1];
    float *p = fused_take(b, n * E);
    if (!p)
        return NULL;
    for (size_t i = 0; i < n; i++)
        model_table_row(m, table, i, p + i * E);
    if (scale != 1)
        m->kernels.scale(p, scale, n * E);
    return p;
}

static void fused_put_layer(struct fused_block *b, struct fused_layer *to, const struct layer *l)
{
    const struct linear *qkv[] = {&l->q, &l->k, &l->v}, *o[] = {&l->o}, *down[] = {&l->down};
    const struct linear *up[] = {l->gate.w ? &l->gate : &l->up, &l->up};
    to->attn_norm = fused_put_norm(b, &l->attn_norm);
    to->qkv = fused_put_matrices(b, qkv, 3);
    to->o = fused_put_matrices(b, o, 1);
    to->ffn_norm = fused_put_norm(b, &l->ffn_norm);
    to->up = fused_put_matrices(b, up, l->gate.w ? 2 : 1);
    to->down = fused_put_matrices(b, down, 1);
}

/* Stores all weights in the order of use; with b->data NULL only counts b->n. */
static void fused_put_model(struct fused_block *b, struct fused_model *to, const mgpt_model *m)
{
    const struct linear *head[] = {&m->head};
    to->tokens = fused_put_table(b, m, m->token_embd, m->embd_scale);
    to->positions = m->position_embd ? fused_put_table(b, m, m->position_embd, 1) : NULL;
    to->embd_norm = fused_put_norm(b, &m->embd_norm);
    for (size_t i = 0; i < m->shape.n_layer; i++)
        fused_put_layer(b, &to->layers[i], &m->layers[i]);
    to->final_norm = fused_put_norm(b, &m->final_norm);
    to->head = fused_put_matrices(b, head, 1);
}

/* Precomputes x, q, k, v of layer 0 per token and position: a third of the work of a step. */
static void fill_first_qkv(const struct fused_model *fused, size_t n_vocab, float *first_qkv)
{
    for (size_t i = 0; i < n_vocab * fused->n_ctx; i++) {
        const struct fused_row row = {
            .token = fused->tokens + i / fused->n_ctx * fused->widths.E,
            .position =
                fused->positions ? fused->positions + i % fused->n_ctx * fused->widths.E : NULL};
        fused->kernels->first_qkv(fused, &row, first_qkv + i * fused->n_first_qkv);
    }
}

static struct fused_widths fused_widths_of(const mgpt_model *m)
{
    const struct model_shape *d = &m->shape;
    int gated = d->n_layer && m->layers[0].gate.w;
    return (struct fused_widths){d->n_embd,
                                 d->n_head,
                                 d->n_head_kv,
                                 d->head_dim,
                                 d->n_ff,
                                 gated,
                                 m->act == ACT_RELU && !gated,
                                 d->n_ff > NARROW};
}

static int is_canonical(struct fused_widths w)
{
    const struct fused_widths c = fused_canonical;
    return w.E == c.E && w.H == c.H && w.G == c.G && w.d == c.d && w.F == c.F && w.relu == c.relu;
}

static struct fused_model fused_facts(const mgpt_model *m, struct fused_layer *layers)
{
    const struct model_shape *d = &m->shape;
    struct fused_widths widths = fused_widths_of(m);
    const struct fused_kernels *kernels = fused_kernels(m->kernels.vectors);
    return (struct fused_model){.kernels = kernels,
                                .interleaved = fused_interleaves(kernels->interleaves, widths),
                                .widths = widths,
                                .is_canonical = is_canonical(widths),
                                .n_head_panels = panels_of(d->n_vocab),
                                .n_layer = d->n_layer,
                                .n_ctx = d->n_ctx,
                                .n_first_qkv = d->n_embd + (d->n_layer ? d->n_q + 2 * d->n_kv : 0),
                                .one_chain_head = d->n_vocab > NARROW,
                                .act = (int)m->act,
                                .activate = m->kernels.act[m->act],
                                .eps = m->eps,
                                .attn_scale = m->attn_scale,
                                .layers = layers};
}

/* Computes first_qkv if it is small enough. */
static int fused_first_qkv(mgpt_model *m, struct fused_model *to, mgpt_error *err)
{
    size_t n = m->shape.n_vocab * m->shape.n_ctx * to->n_first_qkv;
    if (n > FIRST_QKV_FLOATS)
        return MGPT_OK;
    float *first_qkv = model_own(m, mem_new(n, sizeof *first_qkv));
    if (!first_qkv)
        return err_memory(err, "a small model", 4 * FIRST_QKV_FLOATS);
    fill_first_qkv(to, m->shape.n_vocab, first_qkv);
    to->first_qkv = first_qkv;
    return MGPT_OK;
}

int fused_init(mgpt_model *m, mgpt_error *err)
{
    size_t n_layer = m->shape.n_layer;
    struct fused_model *to = model_own(m, mem_new(1, sizeof *to));
    struct fused_layer *layers = model_own(m, mem_new(n_layer, sizeof *layers));
    if (!to || !layers)
        return err_memory(err, "a small model", sizeof *to + n_layer * sizeof *layers);
    *to = fused_facts(m, layers);
    struct fused_block block = {NULL, 0};
    fused_put_model(&block, to, m);
    block.data = model_own(m, mem_new(block.n, sizeof *block.data));
    if (!block.data)
        return err_memory(err, "a small model", block.n * sizeof *block.data);
    block.n = 0;
    fused_put_model(&block, to, m);
    int status = fused_first_qkv(m, to, err);
    if (status == MGPT_OK)
        m->fused = to;
    return status;
}
