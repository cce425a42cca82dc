/* Hugging Face families with parallel branches: GPT-NeoX (Pythia) and Phi. See hf.h.
 *
 * LayerNorm, rotary positions on the first part of every head, a plain MLP, biases. GPT-NeoX stores
 * q, k, v as one matrix whose rows are grouped by head: [head][q, k, v][head_dim].
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/hf.h"

#include <stdio.h>
#include <stdlib.h>

/* clang-format off */
#define QKV(which)                                                                                 \
    {"layers.N.attention.query_key_value", "blk.N.attn_qkv", 'P', 'E',                             \
     STATE_GROUPED | HF_ATTENTION_BIAS | (which)}
/* clang-format on */

static const struct state_row neox_rows[] = {
    {"embed_in", "token_embd", 'V', 'E', 0},
    {"layers.N.input_layernorm", "blk.N.attn_norm", 0, 'E', STATE_BIAS},
    QKV(STATE_Q),
    QKV(STATE_K),
    QKV(STATE_V),
    {"layers.N.attention.dense", "blk.N.attn_output", 'E', 'Q', HF_ATTENTION_BIAS},
    {"layers.N.post_attention_layernorm", "blk.N.ffn_norm", 0, 'E', STATE_BIAS},
    {"layers.N.mlp.dense_h_to_4h", "blk.N.ffn_up", 'F', 'E', STATE_BIAS},
    {"layers.N.mlp.dense_4h_to_h", "blk.N.ffn_down", 'E', 'F', STATE_BIAS},
    {"final_layer_norm", "output_norm", 0, 'E', STATE_BIAS},
};

static const struct state_row phi_rows[] = {
    {"embed_tokens", "token_embd", 'V', 'E', 0},
    {"layers.N.input_layernorm", "blk.N.attn_norm", 0, 'E', STATE_BIAS},
    {"layers.N.self_attn.q_proj", "blk.N.attn_q", 'Q', 'E', STATE_BIAS},
    {"layers.N.self_attn.k_proj", "blk.N.attn_k", 'K', 'E', STATE_BIAS},
    {"layers.N.self_attn.v_proj", "blk.N.attn_v", 'K', 'E', STATE_BIAS},
    {"layers.N.self_attn.q_layernorm", "blk.N.attn_q_norm", 0, 'H', STATE_BIAS | HF_VARIANT},
    {"layers.N.self_attn.k_layernorm", "blk.N.attn_k_norm", 0, 'H', STATE_BIAS | HF_VARIANT},
    {"layers.N.self_attn.dense", "blk.N.attn_output", 'E', 'Q', STATE_BIAS},
    {"layers.N.mlp.fc1", "blk.N.ffn_up", 'F', 'E', STATE_BIAS},
    {"layers.N.mlp.fc2", "blk.N.ffn_down", 'E', 'F', STATE_BIAS},
    {"final_layernorm", "output_norm", 0, 'E', STATE_BIAS},
    {"lm_head.bias", "output.bias", 0, 'V', STATE_BARE},
};

static const struct state_row starcoder2_rows[] = {
    {"embed_tokens", "token_embd", 'V', 'E', 0},
    {"layers.N.input_layernorm", "blk.N.attn_norm", 0, 'E', STATE_BIAS},
    {"layers.N.self_attn.q_proj", "blk.N.attn_q", 'Q', 'E', HF_USE_BIAS},
    {"layers.N.self_attn.k_proj", "blk.N.attn_k", 'K', 'E', HF_USE_BIAS},
    {"layers.N.self_attn.v_proj", "blk.N.attn_v", 'K', 'E', HF_USE_BIAS},
    {"layers.N.self_attn.o_proj", "blk.N.attn_output", 'E', 'Q', HF_USE_BIAS},
    {"layers.N.post_attention_layernorm", "blk.N.ffn_norm", 0, 'E', STATE_BIAS},
    {"layers.N.mlp.c_fc", "blk.N.ffn_up", 'F', 'E', HF_USE_BIAS},
    {"layers.N.mlp.c_proj", "blk.N.ffn_down", 'E', 'F', HF_USE_BIAS},
    {"norm", "output_norm", 0, 'E', STATE_BIAS},
};

static const struct state_row stablelm_rows[] = {
    {"embed_tokens", "token_embd", 'V', 'E', 0},
    {"layers.N.input_layernorm", "blk.N.attn_norm", 0, 'E', STATE_BIAS},
    {"layers.N.self_attn.q_proj", "blk.N.attn_q", 'Q', 'E', HF_QKV_BIAS},
    {"layers.N.self_attn.k_proj", "blk.N.attn_k", 'K', 'E', HF_QKV_BIAS},
    {"layers.N.self_attn.v_proj", "blk.N.attn_v", 'K', 'E', HF_QKV_BIAS},
    {"layers.N.self_attn.o_proj", "blk.N.attn_output", 'E', 'Q', 0},
    {"layers.N.post_attention_layernorm", "blk.N.ffn_norm", 0, 'E', STATE_BIAS | HF_SEQUENTIAL},
    {"layers.N.mlp.gate_proj", "blk.N.ffn_gate", 'F', 'E', 0},
    {"layers.N.mlp.up_proj", "blk.N.ffn_up", 'F', 'E', 0},
    {"layers.N.mlp.down_proj", "blk.N.ffn_down", 'E', 'F', 0},
    {"norm", "output_norm", 0, 'E', STATE_BIAS},
};

/* ---- what only they have --------------------------------------------------------------------- */

static int neox(struct hf_model *m, mgpt_error *err)
{
    return hf_flag(m->cfg.text, "use_parallel_residual", 1, &m->c->hp.parallel, err);
}

static int stablelm(struct hf_model *m, mgpt_error *err)
{
    if (hf_flag(m->cfg.text, "qk_layernorm", 0, &m->variant, err) < 0)
        return MGPT_EFILE;
    return hf_flag(m->cfg.text, "use_parallel_residual", 0, &m->c->hp.parallel, err);
}

/* The gains of a norm of each head of q or k: one tensor each, one in GGUF. */
static int put_head_gains(struct hf_model *m, uint32_t layer, char which, uint32_t heads,
                          mgpt_error *err)
{
    char name[80];
    uint32_t head_dim = (uint32_t)state_size(&m->c->hp, 'H');
    struct state_part *parts = mem_new(heads, sizeof *parts);
    int status = parts ? MGPT_OK : err_memory(err, "gains of heads", heads * sizeof *parts);
    for (uint32_t i = 0; status == MGPT_OK && i < heads; i++) {
        snprintf(name, sizeof name, "layers.%u.self_attn.%c_layernorm.norms.%u.weight", layer,
                 which, i);
        const struct state_tensor *t = state_find(&m->state, name);
        parts[i] = (struct state_part){.tensor = t, .n_rows = head_dim};
        status = t ? state_check_shape(t, 0, head_dim, err) : state_missing(name, err);
    }
    snprintf(name, sizeof name, "blk.%u.attn_%c_norm.weight", layer, which);
    if (status == MGPT_OK)
        status = state_put(m->c, name, 0, parts, heads, 0, err);
    free(parts);
    if (status == MGPT_OK) {
        struct ckpt_tensor *t = &m->c->tensors[arr_len(m->c->tensors) - 1];
        t->n_dims = 2;
        t->dims[0] = head_dim;
        t->dims[1] = heads;
    }
    return status;
}

static int stablelm_gains(struct hf_model *m, mgpt_error *err)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    int status = MGPT_OK;
    for (uint32_t i = 0; m->variant && status == MGPT_OK && i < hp->n_layer; i++) {
        status = put_head_gains(m, i, 'q', (uint32_t)state_size(hp, 'A'), err);
        if (status == MGPT_OK)
            status = put_head_gains(m, i, 'k', (uint32_t)state_size(hp, 'G'), err);
    }
    return status;
}

static int phi(struct hf_model *m, mgpt_error *err)
{
    return hf_flag(m->cfg.text, "qk_layernorm", 0, &m->variant, err);
}

/* ---- the families ---------------------------------------------------------------------------- */

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

static const struct hf_keys starcoder2_keys = {.n_embd = "hidden_size",
                                               .n_layer = "num_hidden_layers",
                                               .n_head = "num_attention_heads",
                                               .n_head_kv = "num_key_value_heads",
                                               .n_ff = "intermediate_size",
                                               .n_ctx = "max_position_embeddings",
                                               .eps = "norm_epsilon",
                                               .activation = "hidden_act"};

static const struct hf_rope_keys starcoder2_rope = {"rope_theta", "partial_rotary_factor", 10000,
                                                    1};
static const struct hf_rope_keys stablelm_rope = {"rope_theta", "partial_rotary_factor", 10000,
                                                  0.25};
static const struct hf_rope_keys neox_rope = {"rotary_emb_base", "rotary_pct", 10000, 0.25};
static const struct hf_rope_keys phi_rope = {"rope_theta", "partial_rotary_factor", 10000, 0.5};

static const char *const neox_prefixes[] = {"gpt_neox.", NULL};
static const char *const phi_prefixes[] = {"model.", NULL};

const struct hf_family hf_neox_families[] = {
    {"gpt_neox", "gptneox", &neox_keys, "gelu_erf", neox_prefixes, "embed_out.weight",
     .rope = &neox_rope, HF_ROWS(neox_rows), .biases = HF_ATTENTION_BIAS, .configure = neox},
    {"phi", "phi2", &phi_keys, "gelu_tanh", phi_prefixes, "lm_head.weight", .rope = &phi_rope,
     HF_ROWS(phi_rows), .configure = phi},
    {"starcoder2", "starcoder2", &starcoder2_keys, "gelu_tanh", phi_prefixes, "lm_head.weight",
     .tied = 1, .rope = &starcoder2_rope, HF_ROWS(starcoder2_rows), .biases = HF_USE_BIAS,
     .configure = hf_one_window},
    {"stablelm", "stablelm", &phi_keys, "silu", phi_prefixes, "lm_head.weight",
     .rope = &stablelm_rope, HF_ROWS(stablelm_rows), .configure = stablelm, .put = stablelm_gains},
};
const size_t hf_n_neox_families = HF_COUNT(hf_neox_families);
