/* Tests: the tensors of random models, which follow from a spec and its architecture's row. See
 * build_model.h. */
#include "support/build_model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

/* Four uniform numbers, variance 1: near enough to a normal distribution, and no libm, so that the
 * models are the same everywhere. */
double toy_normal(uint64_t *state)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)(toy_random(state) >> 11) * 0x1p-53;
    return (sum - 2) * 1.7320508075688772;
}

/* The nearest value that the type can hold. Subnormal halves are flushed: encode_value stays
 * short. */
static float round_to(enum toy_type type, double v)
{
    int e, digits = type == TOY_F16 ? 11 : 8;
    if (type == TOY_F32)
        return (float)v;
    double m = frexp(v, &e);
    if (fabs(v) < 0x1p-14)
        return 0;
    return (float)ldexp(rint(ldexp(m, digits)), e - digits);
}

uint64_t toy_bytes(enum toy_type type, uint64_t n)
{
    struct toy_block block = toy_block(type);
    return n / block.n_values * block.n_bytes;
}

/* The type of a matrix with rows of n_in. */
static enum toy_type type_for(enum toy_type type, int n_in)
{
    if (toy_block(type).n_values == 256 && n_in % 256)
        type = TOY_Q8_0;
    return toy_block(type).n_values == 32 && n_in % 32 ? TOY_F16 : type;
}

/* ---- single tensors ---- */

struct toy_tensor *toy_find(const struct toy *m, const char *name)
{
    for (size_t i = 0; i < m->n_tensors; i++)
        if (strcmp(m->tensors[i].name, name) == 0)
            return &m->tensors[i];
    return NULL;
}

struct toy_tensor *toy_add(struct toy *m, const char *name, enum toy_type type, int n_in, int n_out,
                           double mean, double scale)
{
    m->tensors = realloc(m->tensors, (m->n_tensors + 1) * sizeof *m->tensors);
    assert_non_null(m->tensors);
    struct toy_tensor *t = &m->tensors[m->n_tensors++];
    uint64_t rows = n_out ? (uint64_t)n_out : 1;
    *t = (struct toy_tensor){.type = type_for(type, n_in),
                             .n_dims = n_out ? 2 : 1,
                             .dims = {(uint64_t)n_in, rows, 1, 1}};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->n = (size_t)(t->dims[0] * t->dims[1]);
    t->values = toy_alloc(t->n, sizeof *t->values);
    if (toy_block(t->type).n_values > 1)
        toy_quantise(t, mean, scale, &m->rng);
    for (size_t i = 0; toy_block(t->type).n_values == 1 && i < t->n; i++)
        t->values[i] = round_to(t->type, mean + scale * toy_normal(&m->rng));
    return t;
}

void toy_drop_tensor(struct toy *m, const char *name)
{
    struct toy_tensor *t = toy_find(m, name);
    assert_non_null(t);
    free(t->values);
    free(t->blocks);
    size_t after = m->n_tensors - 1 - (size_t)(t - m->tensors);
    memmove(t, t + 1, after * sizeof *t);
    m->n_tensors--;
}

/* ---- a model's tensors ---- */

int toy_window(const struct toy_spec *s, int layer)
{
    int full_every = s->full_every ? s->full_every : s->row->full_every;
    if (s->windows)
        return s->windows[layer];
    if (s->pattern)
        return s->pattern[layer] == 'w' ? s->window : 0;
    return full_every && (layer + 1) % full_every == s->row->full_first ? 0 : s->window;
}

int toy_gates(const struct toy_spec *s, int layer)
{
    int heads = toy_heads(s, layer), values = heads * toy_head_dim(s, layer);
    const int rows[] = {0, heads, values, s->value_gates ? values : heads};
    return rows[s->row->gates];
}

static void add_bias(struct toy *m, int layer, const char *role, int n_out)
{
    char name[80];
    snprintf(name, sizeof name, "blk.%d.%s.bias", layer, role);
    toy_add(m, name, TOY_F32, n_out, 0, 0, 0.2);
}

/* A matrix y = Wx whose output has `gain` times the size of its input, and its bias. */
static void add_linear(struct toy *m, int layer, const char *role, int n_in, int n_out, double gain)
{
    char name[80];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, role);
    toy_add(m, name, m->spec.type, n_in, n_out, 0, gain / sqrt(n_in));
    if (m->spec.biases)
        add_bias(m, layer, role, n_out);
}

/* Gain and, for LayerNorm with biases, bias. */
static void add_norm(struct toy *m, const char *stem)
{
    char name[96];
    if (m->spec.row->bare)
        return;
    snprintf(name, sizeof name, "%s.weight", stem);
    toy_add(m, name, TOY_F32, m->spec.n_embd, 0, 1, 0.2);
    if (!m->spec.row->layer_norm || !m->spec.biases)
        return;
    snprintf(name, sizeof name, "%s.bias", stem);
    toy_add(m, name, TOY_F32, m->spec.n_embd, 0, 0, 0.2);
}

static void add_layer_norm(struct toy *m, int layer, const char *stem)
{
    char name[80];
    snprintf(name, sizeof name, "blk.%d.%s", layer, stem);
    add_norm(m, name);
}

/* Queries and keys of size 1.4 give scores of size 2: attention with preferences. */
static void add_qkv(struct toy *m, int layer)
{
    const struct toy_spec *s = &m->spec;
    int E = s->n_embd, d = toy_head_dim(s, layer);
    int q_width = toy_heads(s, layer) * d, kv_width = toy_heads_kv(s, layer) * d;
    int v_width = toy_heads_kv(s, layer) * toy_value_dim(s, layer);
    if (s->row->fused && !s->separate) {
        add_linear(m, layer, "attn_qkv", E, q_width + 2 * kv_width, 1.4);
        return;
    }
    add_linear(m, layer, "attn_q", E, q_width, 1.4);
    if (!toy_shares(s, layer))
        add_linear(m, layer, "attn_k", E, kv_width, 1.4);
    if (!toy_shares(s, layer) && !(s->keys_only && !toy_window(s, layer)))
        add_linear(m, layer, "attn_v", E, v_width, 1);
    if (!s->row->qkv_biases || s->biases)
        return;
    add_bias(m, layer, "attn_q", q_width);
    add_bias(m, layer, "attn_k", kv_width);
    add_bias(m, layer, "attn_v", v_width);
}

/* A matrix of each head in one tensor. */
static void add_head_matrices(struct toy *m, int layer, const char *role, int n_in, int n_out,
                              double gain)
{
    char name[80];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, role);
    int n = m->spec.n_head;
    struct toy_tensor *t = toy_add(m, name, m->spec.type, n_in, n_out * n, 0, gain / sqrt(n_in));
    t->n_dims = 3;
    t->dims[1] = (uint64_t)n_out;
    t->dims[2] = (uint64_t)n;
}

static void add_gain(struct toy *m, int layer, const char *stem, int n)
{
    char name[80];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, stem);
    toy_add(m, name, TOY_F32, n, 0, 1, 0.3);
}

/* Projections of latent attention. */
static void add_latent(struct toy *m, int layer)
{
    const struct toy_spec *s = &m->spec;
    int E = s->n_embd, R = s->n_latent, Q = s->n_q_latent, nope = s->head_dim - s->rope_dims;
    if (Q) {
        add_linear(m, layer, "attn_q_a", E, Q, 1.4);
        add_gain(m, layer, "attn_q_a_norm", Q);
    }
    const int biases = s->biases;
    add_linear(m, layer, "attn_kv_a_mqa", E, R + s->rope_dims, 1.4);
    add_gain(m, layer, "attn_kv_a_norm", R);
    m->spec.biases = 0;
    add_linear(m, layer, Q ? "attn_q_b" : "attn_q", Q ? Q : E, s->n_head * s->head_dim, 1.4);
    if (s->latent_apart) {
        add_head_matrices(m, layer, "attn_k_b", nope, R, 1.4);
        add_head_matrices(m, layer, "attn_v_b", R, s->value_dim, 1);
    } else {
        add_linear(m, layer, "attn_kv_b", R, s->n_head * (nope + s->value_dim), 1.2);
    }
    m->spec.biases = biases;
}

static void add_qk_norms(struct toy *m, int layer)
{
    const struct toy_spec *s = &m->spec;
    int per_head = s->row->qk == QK_PER_HEAD || s->head_gains || s->qk_norms;
    char name[80];
    int d = toy_head_dim(s, layer);
    double mean = s->row->unscaled ? 0.8 : 1.4; /* scores are not divided */
    int gains[] = {s->head_gains ? s->n_head : 0, s->head_gains ? s->n_head_kv : 0};
    if (!s->head_gains && !s->qk_norms && (s->row->qk == QK_PLAIN || s->row->qk == QK_BARE))
        return;
    snprintf(name, sizeof name, "blk.%d.attn_q_norm.weight", layer);
    toy_add(m, name, TOY_F32, d * (per_head ? 1 : s->n_head), gains[0], mean, 0.3);
    snprintf(name, sizeof name, "blk.%d.attn_k_norm.weight", layer);
    if (!toy_shares(s, layer))
        toy_add(m, name, TOY_F32, d * (per_head ? 1 : s->n_head_kv), gains[1], mean, 0.3);
    if (!s->qk_norms)
        return;
    add_bias(m, layer, "attn_q_norm", s->head_dim);
    add_bias(m, layer, "attn_k_norm", s->head_dim);
}

/* A row of values for each token, and a gate for each KV head. */
static void add_value_embd(struct toy *m, int layer)
{
    const struct toy_spec *s = &m->spec;
    char name[80];
    snprintf(name, sizeof name, "blk.%d.attn_value_embd.weight", layer);
    toy_add(m, name, s->type, s->n_head_kv * s->head_dim, s->n_vocab, 0, 0.7);
    snprintf(name, sizeof name, "blk.%d.attn_value_gate.weight", layer);
    toy_add(m, name, TOY_F32, s->value_gate, s->n_head_kv, 0, 1.4 / sqrt(s->value_gate));
}

/* The matrices of all experts in one tensor. */
static void add_expert_matrices(struct toy *m, int layer, const char *role, int n_in, int n_out,
                                double gain)
{
    char name[80];
    int n = m->spec.n_expert;
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, role);
    struct toy_tensor *t = toy_add(m, name, m->spec.type, n_in, n_out * n, 0, gain / sqrt(n_in));
    t->n_dims = 3;
    t->dims[1] = (uint64_t)n_out;
    t->dims[2] = (uint64_t)n;
    snprintf(name, sizeof name, "blk.%d.%s.bias", layer, role);
    if (m->spec.row->expert_biases)
        toy_add(m, name, TOY_F32, n_out, n, 0, 0.4);
}

/* Scores of size 2 make weights that differ. */
static void add_mixture(struct toy *m, int layer)
{
    const struct toy_spec *s = &m->spec;
    int E = s->n_embd, F = s->n_ff_expert;
    char name[80];
    snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", layer);
    toy_add(m, name, TOY_F32, E, s->n_expert, 0, 2 / sqrt(E));
    if (s->row->expert_biases)
        add_bias(m, layer, "ffn_gate_inp", s->n_expert);
    snprintf(name, sizeof name, "blk.%d.exp_probs_b.bias", layer);
    if (s->expert_bias)
        toy_add(m, name, TOY_F32, s->n_expert, 0, 0, 0.3);
    if (!s->stacked)
        add_expert_matrices(m, layer, "ffn_gate_exps", E, F, 1.4);
    add_expert_matrices(m, layer, s->stacked ? "ffn_gate_up_exps" : "ffn_up_exps", E,
                        s->stacked ? 2 * F : F, 1);
    add_expert_matrices(m, layer, "ffn_down_exps", F, E, 1);
    if (!s->n_ff_shared)
        return;
    const struct toy_spec kept = *s;
    m->spec.biases = 0;
    if (!s->stacked)
        add_linear(m, layer, "ffn_gate_shexp", E, s->n_ff_shared, 1.4);
    add_linear(m, layer, "ffn_up_shexp", E, s->n_ff_shared << s->stacked, 1);
    add_linear(m, layer, "ffn_down_shexp", s->n_ff_shared, E, 1);
    m->spec = kept;
    snprintf(name, sizeof name, "blk.%d.ffn_gate_inp_shexp.weight", layer);
    if (s->row->shared_gate)
        toy_add(m, name, TOY_F32, E, 0, 0, 1 / sqrt(E));
}

static void add_mlp(struct toy *m, int layer)
{
    const struct toy_spec *s = &m->spec;
    int F = toy_n_ff(s, layer);
    if (s->row->gated && !s->row->gate_up)
        add_linear(m, layer, "ffn_gate", s->n_embd, F, 1.4);
    add_linear(m, layer, "ffn_up", s->n_embd, F * (s->row->gate_up ? 2 : 1), 1);
    add_linear(m, layer, "ffn_down", F, s->n_embd, 1);
}

/* A short convolution in place of attention. */
static void add_convolution(struct toy *m, int layer)
{
    const struct toy_spec *s = &m->spec;
    char name[80];
    add_linear(m, layer, "shortconv.in_proj", s->n_embd, 3 * s->n_embd, 1);
    snprintf(name, sizeof name, "blk.%d.shortconv.conv.weight", layer);
    toy_add(m, name, TOY_F32, s->n_conv, s->n_embd, 0.3, 0.5);
    add_linear(m, layer, "shortconv.out_proj", s->n_embd, s->n_embd, 1);
}

static void add_layer(struct toy *m, int layer)
{
    const struct toy_spec *s = &m->spec;
    enum toy_norms norms = s->row->norms;
    int E = s->n_embd;
    char name[80];
    if (norms != NORMS_AFTER && norms != NORMS_RESIDUAL && !(s->row->dense_head && layer == 0))
        add_layer_norm(m, layer, "attn_norm");
    if (toy_convolves(s, layer)) {
        add_convolution(m, layer);
    } else {
        (s->n_latent ? add_latent : add_qkv)(m, layer);
        if (s->value_gate && layer % 2 != s->n_layer % 2)
            add_value_embd(m, layer);
        add_qk_norms(m, layer);
        snprintf(name, sizeof name, "blk.%d.attn_sinks.weight", layer);
        if (toy_has_sinks(s, layer))
            toy_add(m, name, TOY_F32, s->n_head, 0, 1, 1.5);
        snprintf(name, sizeof name, "blk.%d.attn_gate.weight", layer);
        if (s->row->gates)
            toy_add(m, name, s->type, E, toy_gates(s, layer), 0, 2 / sqrt(E));
        if (s->row->gate_biases)
            add_bias(m, layer, "attn_gate", toy_gates(s, layer));
        add_linear(m, layer, "attn_output", toy_heads(s, layer) * toy_value_dim(s, layer), E, 1);
    }
    if (norms == NORMS_AFTER || norms == NORMS_AROUND)
        add_layer_norm(m, layer, "post_attention_norm");
    if (s->two_norms)
        add_layer_norm(m, layer, "attn_norm_2");
    if (norms == NORMS_BEFORE || norms == NORMS_AROUND)
        add_layer_norm(m, layer, s->row->mlp_norm ? s->row->mlp_norm : "ffn_norm");
    if (norms == NORMS_RESIDUAL) {
        add_layer_norm(m, layer, "attn_output_norm");
        add_layer_norm(m, layer, "layer_output_norm");
    }
    if (s->n_expert && !(s->dense >> layer & 1))
        add_mixture(m, layer);
    else
        add_mlp(m, layer);
    if (norms == NORMS_AFTER || norms == NORMS_AROUND)
        add_layer_norm(m, layer, "post_ffw_norm");
    if (s->n_input) {
        add_linear(m, layer, "inp_gate", E, s->n_input, 1.4);
        add_linear(m, layer, "proj", s->n_input, E, 1);
        add_layer_norm(m, layer, "post_norm");
    }
    snprintf(name, sizeof name, "blk.%d.layer_output_scale.weight", layer);
    if (s->out_scales)
        toy_add(m, name, TOY_F32, 1, 0, 0.8, 0.1);
}

void toy_add_tensors(struct toy *m)
{
    const struct toy_spec *s = &m->spec;
    toy_add(m, "token_embd.weight", s->type, s->n_embd, s->n_vocab, 0, 1);
    if (s->row->embd_gain)
        add_norm(m, "token_embd_norm");
    if (s->row->place == PLACE_LEARNED)
        toy_add(m, "position_embd.weight", TOY_F32, s->n_embd, s->n_ctx, 0, 0.5);
    for (int layer = 0; layer < s->n_layer; layer++)
        add_layer(m, layer);
    if (s->final_norm != TOY_NO)
        add_norm(m, s->row->last_norm ? s->row->last_norm : "output_norm");
    if (s->row->dense_head) {
        toy_add(m, "cls.weight", s->type, s->n_embd, s->n_embd, 0, 1.5 / sqrt(s->n_embd));
        if (s->biases)
            toy_add(m, "cls.bias", TOY_F32, s->n_embd, 0, 0, 0.5);
        add_norm(m, "cls.norm");
    }
    if (!s->tied)
        toy_add(m, "output.weight", s->type, s->n_embd, s->n_vocab, 0, 1.5 / sqrt(s->n_embd));
    if (s->head_bias)
        toy_add(m, "output.bias", TOY_F32, s->n_vocab, 0, 0, 0.5);
    if (s->divisors)
        toy_add(m, "rope_freqs.weight", TOY_F32, s->rope_dims / 2, 0, 4, 0.8);
    for (int i = 0; i < s->divisors - 1; i++)
        toy_find(m, "rope_freqs.weight")->values[s->rope_dims / 2 - 1 - i] = 1e30F;
    if (s->n_input) {
        int all = s->n_layer * s->n_input;
        toy_add(m, "per_layer_token_embd.weight", s->type, all, s->n_vocab, 0, 0.3);
        toy_add(m, "per_layer_model_proj.weight", s->type, s->n_embd, all, 0, 1 / sqrt(s->n_embd));
        toy_add(m, "per_layer_proj_norm.weight", TOY_F32, s->n_input, 0, 1, 0.2);
    }
    if (s->longrope) {
        toy_add(m, "rope_factors_long.weight", TOY_F32, s->rope_dims / 2, 0, 9, 1.5);
        toy_add(m, "rope_factors_short.weight", TOY_F32, s->rope_dims / 2, 0, 4, 0.8);
    }
    if (s->lambdas) {
        toy_add(m, "resid_lambdas", TOY_F32, s->n_layer, 0, 0.9, 0.2);
        toy_add(m, "x0_lambdas", TOY_F32, s->n_layer, 0, 0.3, 0.2);
    }
    if (s->smear_gate) {
        toy_add(m, "smear_gate.weight", TOY_F32, s->smear_gate, 1, 0, 1.4 / sqrt(s->smear_gate));
        toy_add(m, "smear_lambda", TOY_F32, 1, 0, 0.9, 0.1);
    }
    if (s->backout)
        toy_add(m, "backout_lambda", TOY_F32, 1, 0, 0.4, 0.1);
}
