/* Hugging Face families that are Llama's with one or two parts exchanged. See hf.h.
 *
 * Plain MLP with ReLU²: Arcee (AFM), Nemotron and Jais 2, whose norms are LayerNorms. Rotation of
 * adjacent components in the program, too, so that no rows are reordered: ERNIE 4.5, Helium, and
 * GLM-4, whose gate and up are one matrix. Other biases: Seed-OSS. Norms of q and k: Hunyuan, which
 * rotates first, and EXAONE 4, whose other norms follow its branches. Other names: EXAONE 3. Other
 * multipliers: MiniCPM. Short convolutions in most layers: LFM2. An activation with weights: Apertus.
 */
#include "base/error.h"
#include "convert/families/hf_llama.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
#define PLAIN_MLP                                                                                  \
    {"layers.N.mlp.up_proj", "blk.N.ffn_up", 'F', 'E', HF_MLP_BIAS},                               \
    {"layers.N.mlp.down_proj", "blk.N.ffn_down", 'E', 'F', HF_MLP_BIAS}
#define GATE_UP_MLP                                                                                \
    {"layers.N.mlp.gate_up_proj", "blk.N.ffn_up", 'R', 'E', 0},                                    \
    {"layers.N.mlp.down_proj", "blk.N.ffn_down", 'E', 'F', 0}
/* clang-format on */

/* ---- tensors --------------------------------------------------------------------------------- */

static const struct state_row arcee_rows[] = {
    EMBD, PRE_NORMS, ATTENTION(STATE_PAIRS, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS), PLAIN_MLP,
    NORM(0)};

/* Nemotron's norms multiply by 1 + w. */
#define LAYERNORM_ROWS(flags)                                                                      \
    {                                                                                              \
        EMBD, POST_NORM("input", "attn_norm", flags),                                              \
            POST_NORM("post_attention", "ffn_norm", flags),                                        \
            ATTENTION(0, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS), PLAIN_MLP, NORM(flags)             \
    }
static const struct state_row nemotron_rows[] = LAYERNORM_ROWS(STATE_BIAS | STATE_PLUS_ONE);
static const struct state_row jais2_rows[] = LAYERNORM_ROWS(STATE_BIAS);

static const struct state_row ernie_rows[] = {
    EMBD, PRE_NORMS, ATTENTION(0, HF_USE_BIAS, HF_USE_BIAS), GATED_MLP(HF_USE_BIAS), NORM(0)};

static const struct state_row helium_rows[] = {EMBD, PRE_NORMS, ATTENTION(0, HF_ATTENTION_BIAS, 0),
                                               GATED_MLP(HF_MLP_BIAS), NORM(0)};

/* In GGUF the norm before the MLP has the name that it has in the program. */
static const struct state_row seed_oss_rows[] = {
    EMBD,
    POST_NORM("input", "attn_norm", 0),
    POST_NORM("post_attention", "post_attention_norm", 0),
    ATTENTION(0, HF_ATTENTION_BIAS, HF_OUT_BIAS),
    GATED_MLP(HF_MLP_BIAS),
    NORM(0)};

static const struct state_row glm_rows[] = {EMBD, PRE_NORMS, ATTENTION(0, HF_ATTENTION_BIAS, 0),
                                            GATE_UP_MLP, NORM(0)};

static const struct state_row glm4_rows[] = {EMBD,
                                             PRE_NORMS,
                                             ATTENTION(0, HF_ATTENTION_BIAS, 0),
                                             POST_NORM("post_self_attn", "post_attention_norm", 0),
                                             GATE_UP_MLP,
                                             POST_NORM("post_mlp", "post_ffw_norm", 0),
                                             NORM(0)};

static const struct state_row hunyuan_rows[] = {
    EMBD,
    PRE_NORMS,
    ATTENTION(0, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS),
    {"layers.N.self_attn.query_layernorm", "blk.N.attn_q_norm", 0, 'H', 0},
    {"layers.N.self_attn.key_layernorm", "blk.N.attn_k_norm", 0, 'H', 0},
    GATED_MLP(0),
    NORM(0)};

static const struct state_row exaone4_rows[] = {
    EMBD,
    ATTENTION(0, 0, 0),
    QK_NORMS('H', 'H', 0),
    POST_NORM("post_attention", "post_attention_norm", 0),
    GATED_MLP(0),
    POST_NORM("post_feedforward", "post_ffw_norm", 0),
    NORM(0)};

static const struct state_row exaone_rows[] = {
    {"wte", "token_embd", 'V', 'E', 0},
    {"h.N.ln_1", "blk.N.attn_norm", 0, 'E', 0},
    {"h.N.attn.attention.q_proj", "blk.N.attn_q", 'Q', 'E', 0},
    {"h.N.attn.attention.k_proj", "blk.N.attn_k", 'K', 'E', 0},
    {"h.N.attn.attention.v_proj", "blk.N.attn_v", 'K', 'E', 0},
    {"h.N.attn.attention.out_proj", "blk.N.attn_output", 'E', 'Q', 0},
    {"h.N.ln_2", "blk.N.ffn_norm", 0, 'E', 0},
    {"h.N.mlp.c_fc_0", "blk.N.ffn_gate", 'F', 'E', 0},
    {"h.N.mlp.c_fc_1", "blk.N.ffn_up", 'F', 'E', 0},
    {"h.N.mlp.c_proj", "blk.N.ffn_down", 'E', 'F', 0},
    {"ln_f", "output_norm", 0, 'E', 0},
};

static const struct state_row minicpm_rows[] = {
    EMBD, PRE_NORMS, ATTENTION(STATE_PAIRS, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS), GATED_MLP(0),
    NORM(0)};

static const struct state_row lfm2_rows[] = {
    EMBD,
    {"layers.N.operator_norm", "blk.N.attn_norm", 0, 'E', 0},
    {"layers.N.self_attn.q_proj", "blk.N.attn_q", 'Q', 'E', STATE_ATTENTION},
    {"layers.N.self_attn.k_proj", "blk.N.attn_k", 'K', 'E', STATE_ATTENTION},
    {"layers.N.self_attn.v_proj", "blk.N.attn_v", 'K', 'E', STATE_ATTENTION},
    {"layers.N.self_attn.q_layernorm", "blk.N.attn_q_norm", 0, 'H', STATE_ATTENTION},
    {"layers.N.self_attn.k_layernorm", "blk.N.attn_k_norm", 0, 'H', STATE_ATTENTION},
    {"layers.N.self_attn.out_proj", "blk.N.attn_output", 'E', 'Q', STATE_ATTENTION},
    {"layers.N.conv.in_proj", "blk.N.shortconv.in_proj", 'B', 'E', STATE_CONVOLUTION},
    {"layers.N.conv.out_proj", "blk.N.shortconv.out_proj", 'E', 'E', STATE_CONVOLUTION},
    {"layers.N.ffn_norm", "blk.N.ffn_norm", 0, 'E', 0},
    {"layers.N.feed_forward.w1", "blk.N.ffn_gate", 'F', 'E', 0},
    {"layers.N.feed_forward.w3", "blk.N.ffn_up", 'F', 'E', 0},
    {"layers.N.feed_forward.w2", "blk.N.ffn_down", 'E', 'F', 0},
    {"embedding_norm", "token_embd_norm", 0, 'E', 0}};

/* ---- what only they have --------------------------------------------------------------------- */

/* "dynamic" with alpha is a base of its own, for texts of any length. */
static int hunyuan(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    double d = (double)state_size(hp, 'H');
    int norms;
    if (hf_flag(m->cfg.text, "use_qk_norm", 1, &norms, err) < 0 ||
        hf_must_be_off(m->cfg.text, "use_cla", err) < 0)
        return MGPT_EFILE;
    if (!norms)
        return hf_refuse("use_qk_norm", "false is not supported", err);
    if (m->rope.alpha > 0 && d <= 2)
        return hf_refuse("alpha", "heads of width 2 have no such base", err);
    if (m->rope.alpha > 0)
        hp->rope_base = (float)(m->rope.theta * pow(m->rope.alpha, d / (d - 2)));
    return MGPT_OK;
}

/* A model with windows rotates only in layers that have one; a model without rotates in all. */
static int exaone4(struct hf_model *m, mgpt_error *err)
{
    int absent = !json_object_get(m->cfg.text, "sliding_window");
    int none = !absent && !hf_value(m->cfg.text, "sliding_window");
    uint32_t period = 1;
    if (!none && !hf_value(m->cfg.text, "layer_types") &&
        hf_size(m->cfg.text, "sliding_window_pattern", 4, &period, err) < 0)
        return MGPT_EFILE;
    int status = hf_layer_windows(m, period, 0, err);
    if (status == MGPT_OK && !none && !m->c->hp.window)
        return hf_refuse("layer_types", "a sliding_window that no layer has is not supported", err);
    return status;
}

static int minicpm(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    double embd, depth, base;
    if (hf_real(m->cfg.text, "scale_emb", 1, &embd, err) < 0 ||
        hf_real(m->cfg.text, "scale_depth", 1, &depth, err) < 0 ||
        hf_real(m->cfg.text, "dim_model_base", 1, &base, err) < 0 ||
        hf_must_be_off(m->cfg.text, "sparse_config", err) < 0)
        return MGPT_EFILE;
    if (!(embd > 0 && embd < 1e6 && depth > 0 && depth < 1e6 && base > 0 && base < 1e9))
        return ckpt_refuse(err, "config.json: scale_emb, scale_depth or dim_model_base is out of "
                                "range");
    hp->embd_scale = (float)embd;
    hp->residual_scale = hp->n_layer ? (float)(depth / sqrt((double)hp->n_layer)) : 1;
    hp->logit_scale = (float)((double)hp->n_embd / base);
    return MGPT_OK;
}

/* ---- LFM2 ------------------------------------------------------------------------------------ */

/* Whether layer i is attention: by layer_types, else by full_attn_idxs, else it is. */
static int lfm2_attention(const struct hf_model *m, uint32_t i, int *attention, mgpt_error *err)
{
    const json_t *types = hf_value(m->cfg.text, "layer_types");
    const json_t *list = hf_value(m->cfg.text, "full_attn_idxs");
    const char *type = types ? json_string_value(json_array_get(types, i)) : "";
    *attention = types ? type && strcmp(type, "full_attention") == 0 : !list;
    if (types && !*attention && (!type || strcmp(type, "conv") != 0))
        return hf_refuse("layer_types", "expected full_attention or conv for every layer", err);
    for (size_t k = 0; !types && k < json_array_size(list); k++)
        *attention |= json_integer_value(json_array_get(list, k)) == (json_int_t)i;
    return MGPT_OK;
}

/* The width of the MLP, which config.json states in the terms of a program for training. */
static int lfm2_mlp(struct hf_model *m, mgpt_error *err)
{
    const char *key = hf_value(m->cfg.text, "block_ff_dim") ? "block_ff_dim" : "intermediate_size";
    uint32_t n, multiple;
    double by;
    int adjusts;
    if (hf_size(m->cfg.text, key, -1, &n, err) < 0 ||
        hf_flag(m->cfg.text, "block_auto_adjust_ff_dim", 1, &adjusts, err) < 0 ||
        hf_real(m->cfg.text, "block_ffn_dim_multiplier", 1, &by, err) < 0 ||
        hf_size(m->cfg.text, "block_multiple_of", 256, &multiple, err) < 0)
        return MGPT_EFILE;
    if (!(by > 0 && by < 1e3) || multiple < 1 || multiple > 1 << 20 || n < 1 || n > 1 << 23)
        return hf_refuse(key, "the width of the MLP or what changes it is out of range", err);
    uint64_t width = adjusts ? (uint64_t)(by * (double)(2 * n / 3)) : n;
    width = adjusts ? (width + multiple - 1) / multiple * multiple : width;
    return ckpt_size(&m->c->hp.n_ff, key, width, err);
}

static int lfm2(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const json_t *types = hf_value(m->cfg.text, "layer_types");
    int tied, also, attention;
    if (hf_must_be_off(m->cfg.text, "conv_bias", err) < 0 ||
        hf_flag(m->cfg.text, "tie_word_embeddings", 1, &tied, err) < 0 ||
        hf_flag(m->cfg.text, "tie_embedding", tied, &also, err) < 0 ||
        hf_size(m->cfg.text, "conv_L_cache", 3, &hp->n_conv, err) < 0 || lfm2_mlp(m, err) < 0)
        return MGPT_EFILE;
    if (tied != also)
        return hf_refuse("tie_embedding", "contradicts tie_word_embeddings", err);
    if (hp->n_conv < 1 || hp->n_conv > 64)
        return hf_refuse("conv_L_cache", "expected 1 to 64", err);
    if (state_size(hp, 'Q') != hp->n_embd)
        return hf_refuse("head_dim", "heads that are not as wide as hidden_size", err);
    if (types && json_array_size(types) != hp->n_layer)
        return hf_refuse("layer_types", "does not fit the layers", err);
    int32_t *kv_heads = ckpt_alloc(m->c, hp->n_layer + 1, sizeof *kv_heads);
    if (!kv_heads)
        return err_memory(err, "the kinds of layers", hp->n_layer * sizeof *kv_heads);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        if (lfm2_attention(m, i, &attention, err) < 0)
            return MGPT_EFILE;
        kv_heads[i] = attention ? (int32_t)hp->n_head_kv : 0;
    }
    hp->kv_heads = kv_heads;
    return MGPT_OK;
}

/* Weights of the convolutions: [E, 1, n_conv] in PyTorch. */
static int put_convolutions(struct hf_model *m, mgpt_error *err)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    int status = MGPT_OK;
    for (uint32_t i = 0; status == MGPT_OK && i < hp->n_layer; i++) {
        char from[64], to[64];
        snprintf(from, sizeof from, "layers.%u.conv.conv.weight", i);
        snprintf(to, sizeof to, "blk.%u.shortconv.conv.weight", i);
        const struct state_tensor *t = hp->kv_heads[i] ? NULL : state_find(&m->state, from);
        if (hp->kv_heads[i])
            continue;
        if (!t)
            return state_missing(from, err);
        struct state_tensor flat = *t;
        if (t->n_dims == 3 && t->shape[1] == 1) {
            flat.n_dims = 2;
            flat.shape[1] = t->shape[2];
            flat.strides[1] = t->strides[2];
        }
        const struct state_part part = {.tensor = &flat, .n_rows = hp->n_embd};
        status = state_check_shape(&flat, hp->n_embd, hp->n_conv, err);
        if (status == MGPT_OK)
            status = state_put(m->c, to, hp->n_conv, &part, 1, 0, err);
    }
    return status;
}

/* Granite 4 with attention in every layer. It is Granite with a gate stacked on the up. */
static const struct state_row granite_4_rows[] = {
    EMBD,
    PRE_NORMS,
    ATTENTION(STATE_PAIRS, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS),
    {"layers.N.shared_mlp.output_linear", "blk.N.ffn_down", 'E', 'F', 0},
    NORM(0)};

static int granite_4(struct hf_model *m, mgpt_error *err)
{
    const char *positions;
    const json_t *types = hf_value(m->cfg.text, "layer_types");
    uint32_t n_experts;
    hf_value(m->cfg.text, "mamba_conv_bias"); /* read: no layer has it */
    if (hf_text(m->cfg.text, "position_embedding_type", "nope", &positions, err) < 0 ||
        hf_size(m->cfg.text, "num_local_experts", 8, &n_experts, err) < 0)
        return MGPT_EFILE;
    for (uint32_t i = 0; i < m->c->hp.n_layer; i++) {
        const char *name = json_string_value(json_array_get(types, i));
        if (!name || (strcmp(name, "attention") != 0 && strcmp(name, "full_attention") != 0))
            return hf_refuse("layer_types",
                             "expected attention in every layer: a token overwrites the state of "
                             "a Mamba layer, so that a session cannot go back",
                             err);
    }
    if (n_experts != 0)
        return hf_refuse("num_local_experts", "only 0 is supported", err);
    if (strcmp(positions, "rope") != 0)
        return hf_refuse("position_embedding_type", "only rope is supported", err);
    return hf_granite(m, err);
}

static int put_gates_and_ups(struct hf_model *m, mgpt_error *err)
{
    static const char *const stems[] = {"ffn_gate", "ffn_up"};
    int status = MGPT_OK;
    for (uint32_t i = 0; status == MGPT_OK && i < m->c->hp.n_layer; i++)
        status = hf_put_gate_up(m, i, m->c->hp.n_ff, stems, err);
    return status;
}

static const struct state_row apertus_rows[] = {
    EMBD,
    {"layers.N.attention_layernorm", "blk.N.attn_norm", 0, 'E', 0},
    {"layers.N.feedforward_layernorm", "blk.N.ffn_norm", 0, 'E', 0},
    ATTENTION(0, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS),
    QK_NORMS('H', 'H', 0),
    PLAIN_MLP,
    NORM(0)};

static int read_one_value(struct hf_model *m, const char *name, float *to, mgpt_error *err)
{
    const struct state_tensor *t = state_find(&m->state, name);
    struct ckpt_tensor from = {0};
    if (!t)
        return state_missing(name, err);
    if ((t->n_dims > 0 && state_check_shape(t, 0, 1, err) < 0) ||
        state_source(m->c, t, &from, err) < 0)
        return MGPT_EFILE;
    ckpt_values(&from, 0, 1, to);
    return MGPT_OK;
}

/* The weights of xIELU, which GGUF has as keys. The ranges are the engine's. */
static int put_xielu_weights(struct hf_model *m, mgpt_error *err)
{
    static const struct {
        const char *name;
        float min, max;
    } weights[] = {{"alpha_p", -80, 80}, {"alpha_n", -80, 80}, {"beta", -80, 80}, {"eps", -1, 0}};
    struct ckpt_hparams *hp = &m->c->hp;
    for (size_t k = 0; !hp->activation && k < HF_COUNT(weights); k++) {
        float *values = ckpt_alloc(m->c, hp->n_layer + 1, sizeof *values);
        if (!values)
            return err_memory(err, "the weights of xIELU", hp->n_layer * sizeof *values);
        hp->xielu[k] = values;
        for (uint32_t i = 0; i < hp->n_layer; i++) {
            char name[64];
            snprintf(name, sizeof name, "layers.%u.mlp.act_fn.%s", i, weights[k].name);
            if (read_one_value(m, name, &values[i], err) < 0)
                return MGPT_EFILE;
            if (!(values[i] >= weights[k].min && values[i] <= weights[k].max))
                return ckpt_refuse_tensor(err, name, "%g, expected %g to %g", (double)values[i],
                                          (double)weights[k].min, (double)weights[k].max);
        }
    }
    return MGPT_OK;
}

/* ---- the families ---------------------------------------------------------------------------- */

static const struct hf_keys nemotron_keys = LLAMA_KEYS("norm_eps", "hidden_act");
static const struct hf_keys jais2_keys = LLAMA_KEYS("layer_norm_eps", "hidden_act");

static const struct hf_rope_keys half_rotated = {"rope_theta", "partial_rotary_factor", 10000, 0.5};
static const struct hf_rope_keys rope_100000 = {"rope_theta", "partial_rotary_factor", 100000, 1};

static const struct hf_keys exaone_keys = {.n_embd = "hidden_size",
                                           .n_layer = "num_layers",
                                           .n_head = "num_attention_heads",
                                           .n_head_kv = "num_key_value_heads",
                                           .head_dim = "head_dim",
                                           .n_ff = "intermediate_size",
                                           .n_ctx = "max_position_embeddings",
                                           .eps = "layer_norm_epsilon",
                                           .activation = "activation_function"};
static const struct hf_keys granite_4_keys = {.n_embd = "hidden_size",
                                              .n_layer = "num_hidden_layers",
                                              .n_head = "num_attention_heads",
                                              .n_head_kv = "num_key_value_heads",
                                              .head_dim = "head_dim",
                                              .n_ff = "shared_intermediate_size",
                                              .n_ctx = "max_position_embeddings",
                                              .eps = "rms_norm_eps",
                                              .activation = "hidden_act"};
static const struct hf_keys lfm2_keys = {.n_embd = "hidden_size",
                                         .n_layer = "num_hidden_layers",
                                         .n_head = "num_attention_heads",
                                         .n_head_kv = "num_key_value_heads",
                                         .head_dim = "head_dim",
                                         .n_ctx = "max_position_embeddings",
                                         .eps = "norm_eps"};
static const char *const exaone_prefixes[] = {"transformer.", NULL};

const struct hf_family hf_variant_families[] = {
    {"arcee", "arcee", &hf_llama_keys, "relu2", COMMON, .rope = &hf_rope_10000,
     HF_ROWS(arcee_rows)},
    {"nemotron", "nemotron", &nemotron_keys, "relu2", COMMON, .rope = &half_rotated,
     HF_ROWS(nemotron_rows)},
    {"jais2", "jais2", &jais2_keys, "relu2", COMMON, .rope = &hf_rope_10000, HF_ROWS(jais2_rows),
     .biases = HF_ATTENTION_BIAS | HF_MLP_BIAS},
    {"ernie4_5", "ernie4_5", &hf_llama_keys, "silu", COMMON, .tied = 1, .rope = &hf_rope_500000,
     HF_ROWS(ernie_rows)},
    {"helium", "helium", &hf_llama_keys, "silu", COMMON, .rope = &rope_100000,
     HF_ROWS(helium_rows)},
    {"seed_oss", "seed_oss", &hf_llama_keys, "silu", COMMON, .rope = &hf_rope_10000,
     HF_ROWS(seed_oss_rows), .biases = HF_ATTENTION_BIAS},
    {"glm", "chatglm", &hf_llama_keys, "silu", COMMON, .rope = &half_rotated, HF_ROWS(glm_rows),
     .biases = HF_ATTENTION_BIAS},
    {"glm4", "glm4", &hf_llama_keys, "silu", COMMON, .rope = &half_rotated, HF_ROWS(glm4_rows),
     .biases = HF_ATTENTION_BIAS},
    {"hunyuan_v1_dense", "hunyuan-dense", &hf_llama_keys, "silu", COMMON, .states_head_dim = 1,
     .knows = "use_qk_norm", .rope = &hf_rope_10000, HF_ROWS(hunyuan_rows), .configure = hunyuan},
    {"exaone", "exaone", &exaone_keys, "silu", exaone_prefixes, "lm_head.weight", .tied = 1,
     .rope = &hf_rope_stated, HF_ROWS(exaone_rows)},
    {"exaone4", "exaone4", &hf_llama_keys, "silu", COMMON, .states_head_dim = 1,
     .rope = &hf_rope_10000, HF_ROWS(exaone4_rows), .configure = exaone4, .window = 4096},
    {"minicpm", "minicpm", &hf_llama_keys, "silu", COMMON, .tied = 1, .rope = &hf_rope_10000,
     HF_ROWS(minicpm_rows), .configure = minicpm},
    {"lfm2", "lfm2", &lfm2_keys, "silu", COMMON, .tied = 1, .rope = &hf_rope_1e6,
     HF_ROWS(lfm2_rows), .configure = lfm2, .put = put_convolutions},
    {"granitemoehybrid", "granite", &granite_4_keys, "silu", COMMON, .rope = &hf_rope_10000,
     HF_ROWS(granite_4_rows), .configure = granite_4, .put = put_gates_and_ups},
    {"apertus", "apertus", &hf_llama_keys, "xielu", COMMON, .rope = &hf_rope_stated,
     HF_ROWS(apertus_rows), .put = put_xielu_weights},
};
const size_t hf_n_variant_families = HF_COUNT(hf_variant_families);
