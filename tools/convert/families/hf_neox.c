/* Hugging Face families with parallel branches: GPT-NeoX (Pythia) and Phi. See hf.h.
 *
 * LayerNorm, rotary positions on the first part of every head, a plain MLP, biases. GPT-NeoX stores
 * q, k, v as one matrix whose rows are grouped by head: [head][q, k, v][head_dim].
 */
#include "base/error.h"
#include "convert/families/hf.h"

#define BOTH(from, to, n)                                                                          \
    {from ".weight", to ".weight", 0, n, 0},                                                       \
    {                                                                                              \
        from ".bias", to ".bias", 0, n, 0                                                          \
    }
#define LINEAR(from, to, n_out, n_in)                                                              \
    {from ".weight", to ".weight", n_out, n_in, 0},                                                \
    {                                                                                              \
        from ".bias", to ".bias", 0, n_out, 0                                                      \
    }

/* q, k and v out of rows that are grouped by head. */
#define FUSED(end, n_out, n_in)                                                                    \
    {QKV end, "blk.N.attn_qkv" end, n_out, n_in, STATE_Q | STATE_GROUPED},                         \
        {QKV end, "blk.N.attn_qkv" end, n_out, n_in, STATE_K | STATE_GROUPED},                     \
    {                                                                                              \
        QKV end, "blk.N.attn_qkv" end, n_out, n_in, STATE_V | STATE_GROUPED                        \
    }
#define QKV "layers.N.attention.query_key_value"

static const struct state_row neox_rows[] = {
    {"embed_in.weight", "token_embd.weight", 'V', 'E', 0},
    BOTH("layers.N.input_layernorm", "blk.N.attn_norm", 'E'),
    FUSED(".weight", 'P', 'E'),
    {"layers.N.attention.dense.weight", "blk.N.attn_output.weight", 'E', 'Q', 0},
    BOTH("layers.N.post_attention_layernorm", "blk.N.ffn_norm", 'E'),
    LINEAR("layers.N.mlp.dense_h_to_4h", "blk.N.ffn_up", 'F', 'E'),
    LINEAR("layers.N.mlp.dense_4h_to_h", "blk.N.ffn_down", 'E', 'F'),
    BOTH("final_layer_norm", "output_norm", 'E'),
};
static const struct state_row neox_biases[] = {
    FUSED(".bias", 0, 'P'), {"layers.N.attention.dense.bias", "blk.N.attn_output.bias", 0, 'E', 0}};

static const struct state_row phi_rows[] = {
    {"embed_tokens.weight", "token_embd.weight", 'V', 'E', 0},
    BOTH("layers.N.input_layernorm", "blk.N.attn_norm", 'E'),
    LINEAR("layers.N.self_attn.q_proj", "blk.N.attn_q", 'Q', 'E'),
    LINEAR("layers.N.self_attn.k_proj", "blk.N.attn_k", 'K', 'E'),
    LINEAR("layers.N.self_attn.v_proj", "blk.N.attn_v", 'K', 'E'),
    LINEAR("layers.N.self_attn.dense", "blk.N.attn_output", 'E', 'Q'),
    LINEAR("layers.N.mlp.fc1", "blk.N.ffn_up", 'F', 'E'),
    LINEAR("layers.N.mlp.fc2", "blk.N.ffn_down", 'E', 'F'),
    BOTH("final_layernorm", "output_norm", 'E'),
    {"lm_head.bias", "output.bias", 0, 'V', 0},
};

/* ---- what only they have ----------------------------------------------------------------------- */

static int neox(struct hf_model *m, mgpt_error *err)
{
    return hf_flag(m->cfg.text, "use_parallel_residual", 1, &m->c->hp.parallel, err);
}

static int phi(struct hf_model *m, mgpt_error *err)
{
    return hf_must_be_off(m->cfg.text, "qk_layernorm", err);
}

/* ---- the families ------------------------------------------------------------------------------ */

static const struct hf_keys neox_keys = {.n_embd = "hidden_size",
                                         .n_layer = "num_hidden_layers",
                                         .n_head = "num_attention_heads",
                                         .n_ff = "intermediate_size",
                                         .n_ctx = "max_position_embeddings",
                                         .eps = "layer_norm_eps",
                                         .activation = "hidden_act"};
static const struct hf_keys phi_keys = {.n_embd = "hidden_size",
                                        .n_layer = "num_hidden_layers",
                                        .n_head = "num_attention_heads",
                                        .n_head_kv = "num_key_value_heads",
                                        .n_ff = "intermediate_size",
                                        .n_ctx = "max_position_embeddings",
                                        .eps = "layer_norm_eps",
                                        .activation = "hidden_act"};

static const struct hf_rope_keys neox_rope = {"rotary_emb_base", "rotary_pct", 10000, 0.25};
static const struct hf_rope_keys phi_rope = {"rope_theta", "partial_rotary_factor", 10000, 0.5};

static const struct hf_group neox_groups[] = {HF_ALWAYS(neox_rows),
                                              HF_WHEN("attention_bias", 1, neox_biases)};
static const struct hf_group phi_groups[] = {HF_ALWAYS(phi_rows)};
static const char *const neox_prefixes[] = {"gpt_neox.", NULL};
static const char *const phi_prefixes[] = {"model.", NULL};

const struct hf_family hf_neox_families[] = {
    {"gpt_neox", "gptneox", &neox_keys, "gelu_erf", neox_prefixes, "embed_out.weight",
     .rope = &neox_rope, .groups = neox_groups, .n_groups = HF_COUNT(neox_groups),
     .configure = neox},
    {"phi", "phi2", &phi_keys, "gelu_tanh", phi_prefixes, "lm_head.weight", .rope = &phi_rope,
     .groups = phi_groups, .n_groups = HF_COUNT(phi_groups), .configure = phi},
};
const size_t hf_n_neox_families = HF_COUNT(hf_neox_families);
