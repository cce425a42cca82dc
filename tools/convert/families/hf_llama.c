/* Hugging Face families of Llama's kind: RMSNorm (or OLMo's bare LayerNorm), rotary positions, q,
 * k, v apart, a gated MLP. See hf.h.
 *
 * All of them store q and k for the half-split pairing of rotary components. GGUF's architectures
 * llama, smollm3 and olmo pair adjacent ones, so there the rows of q and k are reordered (FORMATS:
 * row order); nanochat rotates with the opposite sign, which swapping the halves undoes.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/hf.h"

#include <math.h>
#include <string.h>

/* clang-format off */
#define EMBD {"embed_tokens", "token_embd", 'V', 'E', 0}
#define ATTENTION(qk, qkv_bias, o_bias)                                                            \
    {"layers.N.self_attn.q_proj", "blk.N.attn_q", 'Q', 'E', (qk) | (qkv_bias)},                    \
    {"layers.N.self_attn.k_proj", "blk.N.attn_k", 'K', 'E', (qk) | (qkv_bias)},                    \
    {"layers.N.self_attn.v_proj", "blk.N.attn_v", 'K', 'E', qkv_bias},                             \
    {"layers.N.self_attn.o_proj", "blk.N.attn_output", 'E', 'Q', o_bias}
#define QK_NORMS(q, k, flags)                                                                      \
    {"layers.N.self_attn.q_norm", "blk.N.attn_q_norm", 0, q, flags},                               \
    {"layers.N.self_attn.k_norm", "blk.N.attn_k_norm", 0, k, flags}
#define GATED_MLP(bias)                                                                            \
    {"layers.N.mlp.gate_proj", "blk.N.ffn_gate", 'F', 'E', bias},                                  \
    {"layers.N.mlp.up_proj", "blk.N.ffn_up", 'F', 'E', bias},                                      \
    {"layers.N.mlp.down_proj", "blk.N.ffn_down", 'E', 'F', bias}
#define PRE_NORMS                                                                                  \
    {"layers.N.input_layernorm", "blk.N.attn_norm", 0, 'E', 0},                                    \
    {"layers.N.post_attention_layernorm", "blk.N.ffn_norm", 0, 'E', 0}
#define POST_NORM(from, to, flags) {"layers.N." from "_layernorm", "blk.N." to, 0, 'E', flags}
#define NORM(flags) {"norm", "output_norm", 0, 'E', flags}
/* clang-format on */

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

/* ---- windows --------------------------------------------------------------------------------- */

/* Only layers that see everything are supported here: windows are refused where they would
 * matter. */
static int refuse_window(struct hf_model *m, mgpt_error *err)
{
    uint32_t window;
    if (hf_size(m->cfg.text, "sliding_window", 0, &window, err) < 0)
        return MGPT_EFILE;
    if (window && window < m->c->hp.n_ctx)
        return hf_refuse("sliding_window", "windows are not supported for this model type", err);
    return MGPT_OK;
}

/* Qwen's files state a window that is in use only when another key says so. */
static int refuse_used_window(struct hf_model *m, mgpt_error *err)
{
    const json_t *types = hf_value(m->cfg.text, "layer_types");
    int used;
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (!type || strcmp(type, "full_attention") != 0)
            return hf_refuse("layer_types", "only full_attention is supported", err);
    }
    if (hf_flag(m->cfg.text, "use_sliding_window", 0, &used, err) < 0)
        return MGPT_EFILE;
    return used && !types ? refuse_window(m, err) : MGPT_OK;
}

/* ---- one family each ------------------------------------------------------------------------- */

/* Llama 3's scaling of the rotary frequencies: divisors, the same numbers for every layer. */
static int put_divisors(struct hf_model *m, mgpt_error *err)
{
    const struct hf_rope *r = &m->rope;
    const double tau = 6.283185307179586;
    size_t n = m->c->hp.n_rot / 2;
    if (strcmp(r->type, "llama3") != 0)
        return MGPT_OK;
    float *divisors = ckpt_alloc(m->c, n, sizeof *divisors);
    if (!divisors)
        return err_memory(err, "rope_freqs.weight", n * sizeof *divisors);
    for (size_t i = 0; i < n; i++) {
        double wave = tau * pow(r->theta, 2.0 * (double)i / (double)m->c->hp.n_rot);
        double t = (r->context / wave - r->low) / (r->high - r->low);
        if (wave < r->context / r->high)
            divisors[i] = 1;
        else if (wave > r->context / r->low)
            divisors[i] = (float)r->factor;
        else
            divisors[i] = (float)(1.0 / ((1.0 - t) / r->factor + t));
    }
    struct ckpt_tensor from = {.bytes = (const uint8_t *)divisors};
    return ckpt_add(m->c, "rope_freqs.weight", n, 0, from, err);
}

/* The engine leaves every fourth layer without rotation: so must the file. 1 means rotation. */
static int smollm3(struct hf_model *m, mgpt_error *err)
{
    const json_t *list = hf_value(m->cfg.text, "no_rope_layers");
    uint32_t interval, n_layer = m->c->hp.n_layer;
    if (hf_size(m->cfg.text, "no_rope_layer_interval", 4, &interval, err) < 0)
        return MGPT_EFILE;
    if (!list && interval != 4)
        return hf_refuse("no_rope_layer_interval", "only 4 is supported", err);
    if (list && json_array_size(list) < n_layer)
        return hf_refuse("no_rope_layers", "expected one entry for every layer", err);
    for (uint32_t i = 0; list && i < n_layer; i++) {
        const json_t *on = json_array_get(list, i);
        if (!json_is(on, JSON_INTEGER) || json_integer_value(on) != ((i + 1) % 4 != 0))
            return ckpt_refuse(
                err,
                "config.json: no_rope_layers: entry %u: only a 0 in every fourth layer "
                "is supported",
                i);
    }
    return refuse_used_window(m, err);
}

/* Which layers are windowed: layer_types, or all but every `period`-th. *usual: as without
 * layer_types. */
static int read_windows(struct hf_model *m, uint32_t period, int32_t *windows, int *usual,
                        mgpt_error *err)
{
    const json_t *types = hf_value(m->cfg.text, "layer_types");
    const struct ckpt_hparams *hp = &m->c->hp;
    *usual = 1;
    if (period == 0 || (types && json_array_size(types) != hp->n_layer))
        return hf_refuse(types ? "layer_types" : "sliding_window_pattern",
                         "does not fit the layers", err);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const char *by_period = (i + 1) % period ? "sliding_attention" : "full_attention";
        const char *type = types ? json_string_value(json_array_get(types, i)) : by_period;
        int windowed = type && strcmp(type, "sliding_attention") == 0;
        if (!type || (!windowed && strcmp(type, "full_attention") != 0))
            return hf_refuse("layer_types", "expected sliding_attention or full_attention", err);
        windows[i] = windowed ? (int32_t)hp->window : 0;
        *usual &= strcmp(type, by_period) == 0;
    }
    return MGPT_OK;
}

/* Only another pattern than every sixth needs a key. */
static int gemma3_windows(struct hf_model *m, mgpt_error *err)
{
    uint32_t period;
    int usual;
    if (hf_size(m->cfg.text, "sliding_window_pattern", 6, &period, err) < 0)
        return MGPT_EFILE;
    int32_t *windows = hf_windows(m, err);
    if (!windows)
        return MGPT_EMEM;
    int status = read_windows(m, period, windows, &usual, err);
    if (status == MGPT_OK && usual && period == 6)
        m->c->hp.windows = NULL;
    return status;
}

static const struct hf_rope_keys gemma3_local = {"rope_local_base_freq", "partial_rotary_factor",
                                                 10000, 1};

static int gemma3(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    struct hf_rope local;
    double scalar, cap;
    if (hf_real(m->cfg.text, "query_pre_attn_scalar", 256, &scalar, err) < 0 ||
        hf_real(m->cfg.text, "final_logit_softcapping", 0, &cap, err) < 0 ||
        hf_size(m->cfg.text, "sliding_window", 4096, &hp->window, err) < 0 ||
        hf_rope_read(&m->cfg, &gemma3_local, "sliding_attention", &local, err) < 0)
        return MGPT_EFILE;
    if (!(scalar > 0 && scalar < 1e9))
        return hf_refuse("query_pre_attn_scalar", "out of range", err);
    if (strcmp(local.type, "default") != 0)
        return hf_refuse("rope_parameters", "windowed layers of another rope_type", err);
    if (hp->window == 0)
        return hf_refuse("sliding_window", "expected 1 or more", err);
    if (scalar != hp->head_dim)
        hp->attn_scale = (float)(1.0 / sqrt(scalar));
    hp->logit_softcap = (float)cap;
    hp->rope_base_local = (float)local.theta;
    return gemma3_windows(m, err);
}

/* OLMo 2 with windows: all layers but every fourth, which alone may have another rope base or
 * scaling. */
static int olmo3(struct hf_model *m, mgpt_error *err)
{
    struct ckpt_hparams *hp = &m->c->hp;
    struct hf_rope local;
    int usual;
    if (hf_size(m->cfg.text, "sliding_window", 4096, &hp->window, err) < 0 ||
        hf_rope_read(&m->cfg, m->family->rope, "sliding_attention", &local, err) < 0)
        return MGPT_EFILE;
    if (strcmp(local.type, "default") != 0)
        return hf_refuse("rope_parameters", "windowed layers of another rope_type", err);
    if (hp->window == 0)
        return hf_refuse("sliding_window", "expected 1 or more", err);
    if (local.theta != m->rope.theta || hp->rope_factor > 0)
        hp->rope_base_local = (float)local.theta;
    int32_t *windows = hf_windows(m, err);
    return windows ? read_windows(m, 4, windows, &usual, err) : MGPT_EMEM;
}

static int olmo(struct hf_model *m, mgpt_error *err)
{
    double clip;
    if (hf_real(m->cfg.text, "clip_qkv", 0, &clip, err) < 0)
        return MGPT_EFILE;
    if (!(clip >= 0 && clip < 1e30))
        return hf_refuse("clip_qkv", "out of range", err);
    m->c->hp.qkv_clamp = (float)clip;
    m->c->hp.norm_eps = 1e-5F; /* of the program: not in the file */
    return MGPT_OK;
}

static int nanochat(struct hf_model *m, mgpt_error *err)
{
    double cap;
    if (hf_must_be_off(m->cfg.text, "tie_word_embeddings", err) < 0 ||
        hf_real(m->cfg.text, "final_logit_softcapping", 15, &cap, err) < 0)
        return MGPT_EFILE;
    if (!(cap >= 0 && cap < 1e30))
        return hf_refuse("final_logit_softcapping", "out of range", err);
    m->c->hp.logit_softcap = (float)cap;
    return MGPT_OK;
}

/* ---- the families ---------------------------------------------------------------------------- */

#define LLAMA_KEYS(eps_key, act_key)                                                               \
    {                                                                                              \
        .n_embd = "hidden_size", .n_layer = "num_hidden_layers", .n_head = "num_attention_heads",  \
        .n_head_kv = "num_key_value_heads", .head_dim = "head_dim", .n_ff = "intermediate_size",   \
        .n_ctx = "max_position_embeddings", .eps = eps_key, .activation = act_key                  \
    }

static const struct hf_keys llama_keys = LLAMA_KEYS("rms_norm_eps", "hidden_act");
static const struct hf_keys gemma3_keys = LLAMA_KEYS("rms_norm_eps", "hidden_activation");
static const struct hf_keys olmo_keys = LLAMA_KEYS(NULL, "hidden_act");

static const struct hf_rope_keys rope_10000 = {"rope_theta", "partial_rotary_factor", 10000, 1};
static const struct hf_rope_keys rope_stated = {"rope_theta", "partial_rotary_factor", NAN, 1};
static const struct hf_rope_keys rope_500000 = {"rope_theta", "partial_rotary_factor", 500000, 1};
static const struct hf_rope_keys rope_1e6 = {"rope_theta", "partial_rotary_factor", 1e6, 1};

static const char *const prefixes[] = {"model.", "language_model.", NULL};

#define COMMON .prefixes = prefixes, .head = "lm_head.weight"

const struct hf_family hf_llama_families[] = {
    {"llama", "llama", &llama_keys, "silu", COMMON, .rope = &rope_10000, HF_ROWS(llama_rows),
     .put = put_divisors},
    {"mistral", "llama", &llama_keys, "silu", COMMON, .rope = &rope_10000, HF_ROWS(llama_rows),
     .configure = refuse_window},
    {"qwen2", "qwen2", &llama_keys, "silu", COMMON, .rope = &rope_10000, HF_ROWS(qwen2_rows),
     .configure = refuse_used_window},
    {"qwen3", "qwen3", &llama_keys, "silu", COMMON, .states_head_dim = 1, .rope = &rope_stated,
     HF_ROWS(qwen3_rows), .configure = refuse_used_window},
    {"smollm3", "smollm3", &llama_keys, "silu", COMMON, .tied = 1, .rope = &rope_stated,
     HF_ROWS(llama_rows), .configure = smollm3},
    {"gemma3_text", "gemma3", &gemma3_keys, "gelu_tanh", COMMON, .tied = 1, .states_head_dim = 1,
     .rope = &rope_1e6, HF_ROWS(gemma3_rows), .configure = gemma3, .windowed = 1},
    {"olmo", "olmo", &olmo_keys, "silu", COMMON, .rope = &rope_10000, HF_ROWS(olmo_rows),
     .configure = olmo},
    {
        "olmo2",
        "olmo2",
        &llama_keys,
        "silu",
        COMMON,
        .rope = &rope_10000,
        HF_ROWS(olmo2_rows),
    },
    {"olmo3", "olmo2", &llama_keys, "silu", COMMON, .rope = &rope_500000, HF_ROWS(olmo2_rows),
     .configure = olmo3, .windowed = 1},
    {"nanochat", "nanochat", &llama_keys, "relu2", COMMON, .rope = &rope_10000,
     HF_ROWS(nanochat_rows), .configure = nanochat},
};
const size_t hf_n_llama_families = HF_COUNT(hf_llama_families);
