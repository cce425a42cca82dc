/* Rows and keys that Hugging Face families of Llama's kind share (hf_llama.c, hf_variants.c). See hf.h. */
#ifndef MGPT_CONVERT_HF_LLAMA_H
#define MGPT_CONVERT_HF_LLAMA_H

#include "convert/families/hf.h"

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

#define LLAMA_KEYS(eps_key, act_key)                                                               \
    {                                                                                              \
        .n_embd = "hidden_size", .n_layer = "num_hidden_layers", .n_head = "num_attention_heads",  \
        .n_head_kv = "num_key_value_heads", .head_dim = "head_dim", .n_ff = "intermediate_size",   \
        .n_ctx = "max_position_embeddings", .eps = eps_key, .activation = act_key                  \
    }

#define COMMON .prefixes = hf_llama_prefixes, .head = "lm_head.weight"

extern const struct hf_keys hf_llama_keys;
extern const struct hf_rope_keys hf_rope_10000, hf_rope_500000, hf_rope_1e6, hf_rope_stated;
extern const char *const hf_llama_prefixes[];

#endif
