/* Hugging Face families of Llama's kind: RMSNorm (or OLMo's bare LayerNorm), rotary positions, q,
 * k, v apart, a gated MLP. See hf.h.
 *
 * All of them store q and k for the half-split pairing of rotary components. GGUF's architectures
 * llama, smollm3 and olmo pair adjacent ones, so there the rows of q and k are reordered (FORMATS:
 * row order); nanochat rotates with the opposite sign, which swapping the halves undoes.
 */
#include "convert/families/hf_llama.h"

#include "base/error.h"
#include "base/mem.h"
#include "model/arch.h"

#include <math.h>
#include <string.h>

/* ---- tensors --------------------------------------------------------------------------------- */

static const struct state_row llama_rows[] = {
    EMBD, PRE_NORMS, ATTENTION(STATE_PAIRS, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS),
    GATED_MLP(HF_MLP_BIAS), NORM(0)};

static const struct state_row qwen2_rows[] = {EMBD, PRE_NORMS, ATTENTION(0, STATE_BIAS, 0),
                                              GATED_MLP(0), NORM(0)};

static const struct state_row qwen3_rows[] = {EMBD,
                                              PRE_NORMS,
                                              ATTENTION(0, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS),
                                              QK_NORMS('H', 'H', 0),
                                              GATED_MLP(0),
                                              NORM(0)};

/* Gemma's norms multiply by 1 + w. */
static const struct state_row gemma3_rows[] = {
    EMBD,
    POST_NORM("input", "attn_norm", STATE_PLUS_ONE),
    ATTENTION(0, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS),
    QK_NORMS('H', 'H', STATE_PLUS_ONE),
    POST_NORM("post_attention", "post_attention_norm", STATE_PLUS_ONE),
    POST_NORM("pre_feedforward", "ffn_norm", STATE_PLUS_ONE),
    GATED_MLP(0),
    POST_NORM("post_feedforward", "post_ffw_norm", STATE_PLUS_ONE),
    NORM(STATE_PLUS_ONE)};

static const struct state_row gemma_rows[] = {
    EMBD,
    POST_NORM("input", "attn_norm", STATE_PLUS_ONE),
    ATTENTION(0, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS),
    POST_NORM("post_attention", "ffn_norm", STATE_PLUS_ONE),
    GATED_MLP(0),
    NORM(STATE_PLUS_ONE)};

/* Gemma 2 without the norms after its branches. */
static const struct state_row vaultgemma_rows[] = {
    EMBD,
    POST_NORM("input", "attn_norm", STATE_PLUS_ONE),
    ATTENTION(0, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS),
    POST_NORM("pre_feedforward", "ffn_norm", STATE_PLUS_ONE),
    GATED_MLP(0),
    NORM(STATE_PLUS_ONE)};

static const struct state_row gemma2_rows[] = {
    EMBD,
    POST_NORM("input", "attn_norm", STATE_PLUS_ONE),
    ATTENTION(0, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS),
    POST_NORM("post_attention", "post_attention_norm", STATE_PLUS_ONE),
    POST_NORM("pre_feedforward", "ffn_norm", STATE_PLUS_ONE),
    GATED_MLP(0),
    POST_NORM("post_feedforward", "post_ffw_norm", STATE_PLUS_ONE),
    NORM(STATE_PLUS_ONE)};

/* q, k and v are one matrix, and so are gate and up. */
static const struct state_row phi3_rows[] = {
    EMBD,
    PRE_NORMS,
    {"layers.N.self_attn.qkv_proj", "blk.N.attn_qkv", 'P', 'E', 0},
    {"layers.N.self_attn.o_proj", "blk.N.attn_output", 'E', 'Q', 0},
    {"layers.N.mlp.gate_up_proj", "blk.N.ffn_up", 'R', 'E', 0},
    {"layers.N.mlp.down_proj", "blk.N.ffn_down", 'E', 'F', 0},
    NORM(0)};

static const struct state_row cohere_rows[] = {
    EMBD,
    POST_NORM("input", "attn_norm", 0),
    ATTENTION(0, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS),
    {"layers.N.self_attn.q_norm", "blk.N.attn_q_norm", 'A', 'H', HF_VARIANT},
    {"layers.N.self_attn.k_norm", "blk.N.attn_k_norm", 'G', 'H', HF_VARIANT},
    GATED_MLP(0),
    NORM(0)};

static const struct state_row olmo_rows[] = {
    EMBD, ATTENTION(STATE_PAIRS, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS), GATED_MLP(0)};

static const struct state_row olmo2_rows[] = {EMBD,
                                              ATTENTION(0, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS),
                                              QK_NORMS('Q', 'K', 0),
                                              POST_NORM("post_attention", "post_attention_norm", 0),
                                              GATED_MLP(0),
                                              POST_NORM("post_feedforward", "post_ffw_norm", 0),
                                              NORM(0)};

static const struct state_row nanochat_rows[] = {
    EMBD,
    ATTENTION(STATE_SWAP, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS),
    {"layers.N.mlp.fc1", "blk.N.ffn_up", 'F', 'E', 0},
    {"layers.N.mlp.fc2", "blk.N.ffn_down", 'E', 'F', 0}};

/* ---- one family each ------------------------------------------------------------------------- */

/* Every n-th layer is not rotated. The list says the same with a 0. */
static int smollm3(struct hf_model *m, mgpt_error *err)
{
    const json_t *list = hf_value(m->cfg.text, "no_rope_layers");
    uint32_t every, n_layer = m->c->hp.n_layer;
    if (hf_size(m->cfg.text, "no_rope_layer_interval", 4, &every, err) < 0)
        return MGPT_EFILE;
    if (every < 1 || every > CKPT_MAX_LAYERS)
        return hf_refuse("no_rope_layer_interval", "out of range", err);
    if (list && json_array_size(list) < n_layer)
        return hf_refuse("no_rope_layers", "expected one entry for every layer", err);
    for (uint32_t i = 0; list && i < n_layer; i++) {
        const json_t *on = json_array_get(list, i);
        if (!json_is(on, JSON_INTEGER) || json_integer_value(on) != ((i + 1) % every != 0))
            return ckpt_refuse(err,
                               "config.json: no_rope_layers: entry %u: only a 0 in every "
                               "no_rope_layer_interval-th layer (%u) is supported",
                               i, every);
    }
    m->c->hp.no_rope_every = every == 4 ? 0 : every;
    if (!hf_value(m->cfg.text, "layer_types"))
        return hf_must_be_off(m->cfg.text, "use_sliding_window", err);
    return hf_used_windows(m, err);
}

int hf_number(struct hf_model *m, const char *key, double absent, float *to, mgpt_error *err)
{
    double v;
    if (hf_real(m->cfg.text, key, json_object_get(m->cfg.text, key) ? 0 : absent, &v, err) < 0)
        return MGPT_EFILE;
    if (!(v >= 0 && v < 1e30))
        return hf_refuse(key, "out of range", err);
    if (v == 0 && hf_value(m->cfg.text, key)) /* null is none; with 0 nothing is left */
        return hf_refuse(key, "expected a number above 0, or null", err);
    *to = (float)v;
    return MGPT_OK;
}

int hf_granite(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const struct {
        const char *key;
        float *to;
    } numbers[] = {{"embedding_multiplier", &hp->embd_scale},
                   {"residual_multiplier", &hp->residual_scale},
                   {"attention_multiplier", &hp->attn_scale},
                   {"logits_scaling", &hp->logit_scale}};
    for (size_t i = 0; i < HF_COUNT(numbers); i++)
        if (hf_number(m, numbers[i].key, 1, numbers[i].to, err) < 0)
            return MGPT_EFILE;
        else if (*numbers[i].to == 0) /* null */
            return hf_refuse(numbers[i].key, "expected a number above 0", err);
    return MGPT_OK;
}

/* Llama and Mistral whose layers differ in their windows. */
static int cwm(struct hf_model *m, mgpt_error *err)
{
    if (!hf_value(m->cfg.text, "layer_types"))
        return hf_refuse("layer_types", "missing", err);
    return hf_layer_windows(m, 0, 0, err);
}

static int ministral(struct hf_model *m, mgpt_error *err)
{
    int each = hf_value(m->cfg.text, "layer_types") != NULL;
    return each ? hf_layer_windows(m, 0, 0, err) : hf_one_window(m, err);
}

static int iquestcoder(struct hf_model *m, mgpt_error *err)
{
    if (hf_must_be_off(m->cfg.text, "clip_qkv", err) < 0)
        return MGPT_EFILE;
    return hf_must_be_off(m->cfg.text, "use_sliding_window", err);
}

static int cohere(struct hf_model *m, mgpt_error *err)
{
    uint32_t period;
    if (hf_number(m, "logit_scale", 0.0625, &m->c->hp.logit_scale, err) < 0 ||
        hf_size(m->cfg.text, "sliding_window_pattern", 4, &period, err) < 0)
        return MGPT_EFILE;
    if (!m->family->full_every && hf_flag(m->cfg.text, "use_qk_norm", 0, &m->variant, err) < 0)
        return MGPT_EFILE;
    if (m->c->hp.logit_scale == 0 || period == 0)
        return hf_refuse(period ? "logit_scale" : "sliding_window_pattern",
                         "expected a number above 0", err);
    return m->family->full_every ? hf_layer_windows(m, period, 0, err) : MGPT_OK;
}

/* The first files say "gelu" where the program computes the approximation by tanh. */
static int gemma(struct hf_model *m, mgpt_error *err)
{
    const char *name;
    if (hf_text(m->cfg.text, "hidden_act", "", &name, err) < 0)
        return MGPT_EFILE;
    if (strcmp(name, "gelu") == 0)
        m->c->hp.activation = NULL;
    return MGPT_OK;
}

/* Scale of scores and cap of logits in Gemma 2 and 3. */
static int gemma_scores(struct hf_model *m, double cap, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    double scalar;
    if (hf_number(m, "final_logit_softcapping", cap, &hp->logit_softcap, err) < 0 ||
        hf_real(m->cfg.text, "query_pre_attn_scalar", 256, &scalar, err) < 0)
        return MGPT_EFILE;
    if (!(scalar > 0 && scalar < 1e9))
        return hf_refuse("query_pre_attn_scalar", "out of range", err);
    const struct arch *arch = arch_find(hp->arch, strlen(hp->arch));
    if (scalar != hp->head_dim || hp->n_layer == arch->wide_scale)
        hp->attn_scale = (float)(1.0 / sqrt(scalar));
    return MGPT_OK;
}

static int gemma2(struct hf_model *m, mgpt_error *err)
{
    if (gemma_scores(m, 30, err) < 0 ||
        hf_number(m, "attn_logit_softcapping", 50, &m->c->hp.attn_softcap, err) < 0)
        return MGPT_EFILE;
    return hf_layer_windows(m, 2, 0, err);
}

static const struct hf_rope_keys gemma3_local = {"rope_local_base_freq", "partial_rotary_factor",
                                                 10000, 1};

static int gemma3(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    struct hf_rope local;
    uint32_t period;
    if (gemma_scores(m, 0, err) < 0 ||
        hf_size(m->cfg.text, "sliding_window_pattern", 6, &period, err) < 0 ||
        hf_rope_read(&m->cfg, &gemma3_local, "sliding_attention", &local, err) < 0)
        return MGPT_EFILE;
    if (period == 0)
        return hf_refuse("sliding_window_pattern", "expected 1 or more", err);
    if (strcmp(local.type, "default") != 0)
        return hf_refuse("rope_parameters", "windowed layers of another rope_type", err);
    hp->rope_base_local = (float)local.theta;
    return hf_layer_windows(m, period, 0, err);
}

/* OLMo 2 with windows: all layers but every fourth, which alone may have another rope base or
 * scaling. */
static int olmo3(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    struct hf_rope local;
    if (hf_rope_read(&m->cfg, m->family->rope, "sliding_attention", &local, err) < 0)
        return MGPT_EFILE;
    if (strcmp(local.type, "default") != 0)
        return hf_refuse("rope_parameters", "windowed layers of another rope_type", err);
    if (local.theta != m->rope.theta || strcmp(m->rope.type, "default") != 0)
        hp->rope_base_local = (float)local.theta;
    return hf_layer_windows(m, 4, 0, err);
}

static int olmo(struct hf_model *m, mgpt_error *err)
{
    m->c->hp.norm_eps = 1e-5F; /* of the program: not in the file */
    return hf_number(m, "clip_qkv", 0, &m->c->hp.qkv_clamp, err);
}

static int nanochat(struct hf_model *m, mgpt_error *err)
{
    if (hf_must_be_off(m->cfg.text, "tie_word_embeddings", err) < 0)
        return MGPT_EFILE;
    return hf_number(m, "final_logit_softcapping", 15, &m->c->hp.logit_softcap, err);
}

/* ---- the families ---------------------------------------------------------------------------- */

const struct hf_keys hf_llama_keys = LLAMA_KEYS("rms_norm_eps", "hidden_act");
static const struct hf_keys cohere_keys = LLAMA_KEYS("layer_norm_eps", "hidden_act");
static const struct hf_keys gemma2_keys = LLAMA_KEYS("rms_norm_eps", "hidden_activation");
static const struct hf_keys olmo_keys = LLAMA_KEYS(NULL, "hidden_act");

const struct hf_rope_keys hf_rope_10000 = {"rope_theta", "partial_rotary_factor", 10000, 1};
/* No theta is assumed: classes take another one, or a scaling too, or do not agree. */
const struct hf_rope_keys hf_rope_stated = {"rope_theta", "partial_rotary_factor", NAN, 1};
const struct hf_rope_keys hf_rope_500000 = {"rope_theta", "partial_rotary_factor", 500000, 1};
const struct hf_rope_keys hf_rope_1e6 = {"rope_theta", "partial_rotary_factor", 1e6, 1};

/* The last two are of models that also see. */
const char *const hf_llama_prefixes[] = {"model.", "language_model.", "text_model.", NULL};

const struct hf_family hf_llama_families[] = {
    {"llama", "llama", &hf_llama_keys, "silu", COMMON, .rope = &hf_rope_10000, HF_ROWS(llama_rows)},
    {"mistral", "llama", &hf_llama_keys, "silu", COMMON, .rope = &hf_rope_10000,
     HF_ROWS(llama_rows), .configure = hf_one_window, .window = 4096},
    {"cwm", "llama", &hf_llama_keys, "silu", COMMON, .rope = &hf_rope_stated, HF_ROWS(llama_rows),
     .configure = cwm, .window = 8192},
    {"ministral", "llama", &hf_llama_keys, "silu", COMMON, .rope = &hf_rope_10000,
     HF_ROWS(llama_rows), .configure = ministral, .window = 4096},
    {"iquestcoder", "llama", &hf_llama_keys, "silu", COMMON, .rope = &hf_rope_10000,
     HF_ROWS(llama_rows), .configure = iquestcoder},
    {"granite", "granite", &hf_llama_keys, "silu", COMMON, .rope = &hf_rope_10000,
     HF_ROWS(llama_rows), .configure = hf_granite},
    {"cohere", "command-r", &cohere_keys, "silu", COMMON, .tied = 1, .rope = &hf_rope_stated,
     HF_ROWS(cohere_rows), .configure = cohere, .knows = "use_qk_norm"},
    {"cohere2", "cohere2", &cohere_keys, "silu", COMMON, .tied = 1, .rope = &hf_rope_stated,
     HF_ROWS(cohere_rows), .configure = cohere, .window = 4096, .full_every = 4},
    {"phi3", "phi3", &hf_llama_keys, "silu", COMMON, .rope = &hf_rope_10000, .partial_rope = 1,
     HF_ROWS(phi3_rows), .configure = hf_one_window},
    {"gemma", "gemma", &hf_llama_keys, "gelu_tanh", COMMON, .tied = 1, .states_head_dim = 1,
     .rope = &hf_rope_10000, HF_ROWS(gemma_rows), .configure = gemma},
    {"gemma2", "gemma2", &gemma2_keys, "gelu_tanh", COMMON, .tied = 1, .states_head_dim = 1,
     .rope = &hf_rope_10000, HF_ROWS(gemma2_rows), .configure = gemma2,
     .knows = "attn_logit_softcapping", .window = 4096, .full_every = 2},
    {"vaultgemma", "vaultgemma", &gemma2_keys, "gelu_tanh", COMMON, .tied = 1, .states_head_dim = 1,
     .rope = &hf_rope_10000, HF_ROWS(vaultgemma_rows), .configure = gemma2,
     .knows = "attn_logit_softcapping", .window = 4096, .full_every = 2},
    {"qwen2", "qwen2", &hf_llama_keys, "silu", COMMON, .rope = &hf_rope_10000, HF_ROWS(qwen2_rows),
     .configure = hf_used_windows, .window = 4096},
    {"qwen3", "qwen3", &hf_llama_keys, "silu", COMMON, .states_head_dim = 1,
     .rope = &hf_rope_stated, HF_ROWS(qwen3_rows), .configure = hf_used_windows, .window = 4096},
    {"qwen2_vl_text", "qwen2", &hf_llama_keys, "silu", COMMON, .rope = &hf_rope_stated,
     HF_ROWS(qwen2_rows), .configure = hf_used_windows, .window = 4096},
    {"qwen2_5_vl_text", "qwen2", &hf_llama_keys, "silu", COMMON, .rope = &hf_rope_stated,
     HF_ROWS(qwen2_rows), .configure = hf_used_windows, .window = 4096},
    {"qwen3_vl_text", "qwen3", &hf_llama_keys, "silu", COMMON, .states_head_dim = 1,
     .rope = &hf_rope_stated, HF_ROWS(qwen3_rows)},
    {"smollm3", "smollm3", &hf_llama_keys, "silu", COMMON, .tied = 1, .rope = &hf_rope_stated,
     HF_ROWS(llama_rows), .configure = smollm3},
    {"gemma3_text", "gemma3", &gemma2_keys, "gelu_tanh", COMMON, .tied = 1, .states_head_dim = 1,
     .rope = &hf_rope_1e6, HF_ROWS(gemma3_rows), .configure = gemma3, .windowed = 1, .window = 4096,
     .full_every = 6},
    {"olmo", "olmo", &olmo_keys, "silu", COMMON, .rope = &hf_rope_10000, HF_ROWS(olmo_rows),
     .configure = olmo},
    {
        "olmo2",
        "olmo2",
        &hf_llama_keys,
        "silu",
        COMMON,
        .rope = &hf_rope_10000,
        HF_ROWS(olmo2_rows),
    },
    {"olmo3", "olmo2", &hf_llama_keys, "silu", COMMON, .rope = &hf_rope_500000, HF_ROWS(olmo2_rows),
     .configure = olmo3, .windowed = 1, .window = 4096},
    {"nanochat", "nanochat", &hf_llama_keys, "relu2", COMMON, .rope = &hf_rope_10000,
     HF_ROWS(nanochat_rows), .configure = nanochat},
};
const size_t hf_n_llama_families = HF_COUNT(hf_llama_families);
