/* Tensors that are no rows of models.txt ("put NAME"): they are made of more than one tensor, or computed. See
 * hf_special.h. */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/hf_special.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct state_tensor *hf_tensor(struct hf_model *m, const char *fmt, ...)
{
    char name[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    const struct state_tensor *t = state_find(&m->state, name);
    if (!t)
        state_missing(m->c, name);
    return t;
}

const struct state_tensor *hf_shaped(struct hf_model *m, const struct state_tensor *t,
                                     uint64_t n_out, uint64_t n_in)
{
    state_check_shape(m->c, t, n_out, n_in);
    return t;
}

struct ckpt_tensor *hf_add(struct hf_model *m, int64_t layer, const char *stem, uint64_t n_in,
                           const struct state_part *parts, size_t n_parts)
{
    char name[CKPT_MAX_NAME + 1];
    if (layer < 0)
        snprintf(name, sizeof name, "%s", stem);
    else
        snprintf(name, sizeof name, "blk.%d.%s.weight", (int)layer, stem);
    state_put(m->c, name, n_in, parts, n_parts, 0);
    return &m->c->tensors[arr_len(m->c->tensors) - 1];
}

/* Weights of LFM2's convolutions: [E, 1, n_conv] in PyTorch. */
void hf_put_convolutions(struct hf_model *m)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        if (hp->kv_heads[i])
            continue;
        struct state_tensor flat = *hf_tensor(m, "layers.%u.conv.conv.weight", i);
        if (flat.n_dims == 3 && flat.shape[1] == 1) {
            flat.n_dims = 2;
            flat.shape[1] = flat.shape[2];
            flat.strides[1] = flat.strides[2];
        }
        const struct state_part part = {.tensor = hf_shaped(m, &flat, hp->n_embd, hp->n_conv),
                                        .n_rows = hp->n_embd};
        hf_add(m, i, "shortconv.conv", hp->n_conv, &part, 1);
    }
}

void hf_put_gate_up(struct hf_model *m, uint32_t layer, uint64_t F, const char *gate,
                    const char *up)
{
    const struct state_tensor *t = hf_tensor(m, "layers.%u.shared_mlp.input_linear.weight", layer);
    struct state_part part = {.tensor = hf_shaped(m, t, 2 * F, m->c->hp.n_embd), .n_rows = F};
    hf_add(m, layer, gate, m->c->hp.n_embd, &part, 1);
    part.first = F;
    hf_add(m, layer, up, m->c->hp.n_embd, &part, 1);
}

void hf_put_granite_4(struct hf_model *m)
{
    if (m->c->hp.n_expert)
        hf_put_mlps(m);
}

/* The weights of xIELU, which GGUF has as keys. The ranges are the engine's. */
void hf_put_xielu_weights(struct hf_model *m)
{
    static const struct {
        const char *name;
        float min, max;
    } weights[] = {{"alpha_p", -80, 80}, {"alpha_n", -80, 80}, {"beta", -80, 80}, {"eps", -1, 0}};
    struct ckpt_hparams *hp = &m->c->hp;
    for (size_t k = 0; !hp->activation && k < HF_COUNT(weights); k++) {
        float *values = ckpt_new(m->c, hp->n_layer + 1, sizeof *values);
        hp->xielu[k] = values;
        for (uint32_t i = 0; i < hp->n_layer; i++) {
            const struct state_tensor *t =
                hf_tensor(m, "layers.%u.mlp.act_fn.%s", i, weights[k].name);
            struct ckpt_tensor from = {0};
            state_source(m->c, t->n_dims ? hf_shaped(m, t, 0, 1) : t, &from);
            ckpt_values(&from, 0, 1, &values[i]);
            if (!(values[i] >= weights[k].min && values[i] <= weights[k].max))
                ckpt_must(m->c, ckpt_refuse_tensor(m->c->err, t->name, "%g, expected %g to %g",
                                                   (double)values[i], (double)weights[k].min,
                                                   (double)weights[k].max));
        }
    }
}

/* Position i is row i + 2. */
void hf_put_opt_positions(struct hf_model *m)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    const struct state_tensor *t = hf_tensor(m, "embed_positions.weight");
    const struct state_part part = {.tensor = hf_shaped(m, t, (uint64_t)hp->n_ctx + 2, hp->n_embd),
                                    .first = 2,
                                    .n_rows = hp->n_ctx};
    hf_add(m, -1, "position_embd.weight", hp->n_embd, &part, 1);
}

void hf_put_opt(struct hf_model *m)
{
    hf_put_opt_positions(m);
    if (m->projected)
        hf_put_projected(m);
}

enum { MAX_SINUSOIDS = 1 << 26 };

/* Positions: the sines of all frequencies, then the cosines. The first `used` of `width` columns are not 0; row 0 is position
 * `first`, and frequencies fall by 10000 in `span` columns. */
struct sinusoids {
    uint64_t width, sines, used, first;
    double span;
};

static void sinusoid_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const struct sinusoids *s = t->source;
    for (size_t i = 0; i < n; i++) {
        uint64_t row = (first + i) / s->width, column = (first + i) % s->width;
        double turn = exp(-(double)(column % s->sines) * log(10000) / s->span);
        double angle = (double)(row + s->first) * turn;
        out[i] = (float)(column < s->sines ? sin(angle) : cos(angle));
        if (column >= s->used)
            out[i] = 0;
    }
}

static void put_sinusoids(struct hf_model *m, struct sinusoids s)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    struct sinusoids *kept = ckpt_new(m->c, 1, sizeof *kept);
    if (s.width < 4 || s.width * hp->n_ctx > MAX_SINUSOIDS)
        hf_stop(m, "%s: a table of positions that large or narrow is not supported",
                m->family->keys->n_ctx);
    *kept = s;
    struct ckpt_tensor from = {.values = sinusoid_values, .source = kept};
    ckpt_add(m->c, "position_embd.weight", s.width, hp->n_ctx, from);
}

/* XGLM counts positions as OPT. */
void hf_put_sinusoids(struct hf_model *m)
{
    uint64_t width = m->c->hp.n_embd, half = width / 2;
    put_sinusoids(m, (struct sinusoids){width, half, 2 * half, 2, (double)half - 1});
}

void hf_put_ctrl_sinusoids(struct hf_model *m)
{
    uint64_t width = m->c->hp.n_embd;
    put_sinusoids(m, (struct sinusoids){width, (width + 1) / 2, width, 0, (double)width / 2});
}

/* q, v and k of a fourth of the heads, then of the next: "attn.qkv_proj". */
void hf_put_codegen_qkv(struct hf_model *m)
{
    static const char *const to[] = {"attn_q", "attn_v", "attn_k"};
    uint64_t width = m->c->hp.n_embd, fourth = width / 4;
    if (m->c->hp.n_head % 4)
        hf_stop(m, "n_head: expected a multiple of 4");
    for (uint32_t i = 0; i < m->c->hp.n_layer; i++) {
        const struct state_tensor *t =
            hf_shaped(m, hf_tensor(m, "h.%u.attn.qkv_proj.weight", i), 3 * width, width);
        struct state_part rows = {
            .tensor = t, .n_rows = width, .block = fourth, .step = 3 * fourth};
        for (size_t k = 0; k < HF_COUNT(to); k++, rows.first += fourth)
            hf_add(m, i, to[k], width, &rows, 1);
    }
}

/* StableLM's gains of a norm of each head of q or k: one tensor each, one in GGUF. */
static void put_head_gains(struct hf_model *m, uint32_t layer, char which, uint32_t heads)
{
    uint32_t head_dim = (uint32_t)state_size(&m->c->hp, 'H');
    struct state_part *parts = ckpt_new(m->c, heads, sizeof *parts);
    char stem[] = "attn_q_norm";
    for (uint32_t i = 0; i < heads; i++) {
        const struct state_tensor *t =
            hf_tensor(m, "layers.%u.self_attn.%c_layernorm.norms.%u.weight", layer, which, i);
        parts[i] = (struct state_part){.tensor = hf_shaped(m, t, 0, head_dim), .n_rows = head_dim};
    }
    stem[5] = which;
    struct ckpt_tensor *t = hf_add(m, layer, stem, 0, parts, heads);
    t->n_dims = 2;
    t->dims[0] = head_dim;
    t->dims[1] = heads;
}

void hf_put_stablelm_gains(struct hf_model *m)
{
    for (uint32_t i = 0; m->variant && i < m->c->hp.n_layer; i++) {
        put_head_gains(m, i, 'q', (uint32_t)state_size(&m->c->hp, 'A'));
        put_head_gains(m, i, 'k', (uint32_t)state_size(&m->c->hp, 'G'));
    }
}
