/* Hugging Face models: which values of config.json are refused, by which words.
 *
 * The golden models are the good ones, with one value changed the bad ones (tests/cli/convert_hf.sh: logits).
 */
#include "support/hf_dir.h"
#include "support/unit.h"

/* ---- config.json ------------------------------------------------------------------------------- */

/* Removes a key. */
static void drop_key(struct dir *d, const char *key)
{
    json_t *root = get_config(d);
    assert_int_equal(json_object_del(root, key), 0);
    set_config(d, root);
    json_decref(root);
}

#define YARN(more) "{\"rope_type\":\"yarn\",\"factor\":4,\"rope_theta\":1e4" more "}"
#define ORIGINAL ",\"original_max_position_embeddings\":16"
#define LONG(more) "{\"rope_type\":\"longrope\",\"rope_theta\":1e4" ORIGINAL more "}"
#define GROWS(by) "{\"rope_theta\":1e4,\"llama_4_scaling_beta\":" by "}"
#define L3(more) "{\"rope_type\":\"llama3\",\"rope_theta\":1e4" more "}"

static const struct config_case {
    const char *model, *key, *json, *expected;
} config_cases[] = {
    {"llama", "model_type", "\"bert\"", "model_type bert is not supported; these are: gpt2"},
    {"llama", "model_type", "null", "config.json: model_type: missing"},
    {"llama", "model_type", "5", "config.json: model_type: expected a string"},
    {"llama", "hidden_size", "null", "config.json: hidden_size: missing"},
    {"llama", "hidden_size", "24.0", NULL},
    {"llama", "hidden_size", "24.5", "hidden_size: expected a whole number"},
    {"llama", "hidden_size", "\"24\"", "hidden_size: expected a whole number"},
    {"llama", "hidden_size", "0", "config.json: hidden_size is 0, expected 1 to"},
    {"llama", "hidden_size", "-24", "hidden_size: expected a number from 0 to"},
    {"llama", "hidden_size", "1e300", "hidden_size: expected a number from 0 to"},
    {"gpt2", "n_embd", "17", "config.json: n_head 3 does not divide n_embd 17"},
    {"llama", "hidden_size", "48", "tensor embed_tokens.weight: shape [33, 24], expected [33, 48]"},
    {"llama", "vocab_size", "34", "tensor embed_tokens.weight: shape [33, 24], expected [34, 24]"},
    {"llama", "vocab_size", "4294967297", "vocab_size: expected a number from"},
    {"llama", "num_attention_heads", "0", "num_attention_heads is 0, expected 1 to"},
    {"llama", "num_key_value_heads", "3", "num_key_value_heads 3 does not divide"},
    {"llama", "num_key_value_heads", "null", "self_attn.k_proj.weight: shape"},
    {"llama", "num_hidden_layers", "1", "no llama of 1 layers has it"},
    {"llama", "num_hidden_layers", "1025", "num_hidden_layers is 1025, expected 0 to 1024"},
    {"llama", "num_hidden_layers", "9", "input_layernorm.weight: missing"},
    {"llama", "head_dim", "7", "7 rotary components of 7 in a head: an even number"},
    {"llama", "head_dim", "1048577", "head_dim is 1048577, expected"},
    {"llama", "intermediate_size", "0", "intermediate_size is 0, expected 1 to"},
    {"llama", "max_position_embeddings", "0", "max_position_embeddings is 0"},
    {"llama", "hidden_act", "\"tanh\"", "hidden_act: tanh is not supported"},
    {"llama", "hidden_act", "\"gelu\"", NULL},
    {"llama", "rms_norm_eps", "null", "rms_norm_eps: missing"},
    {"llama", "rms_norm_eps", "2", "rms_norm_eps: expected a number from 0 to 1"},
    {"llama", "rms_norm_eps", "\"1e-5\"", "rms_norm_eps: expected a number"},
    {"llama", "rope_parameters", YARN(ORIGINAL), NULL},
    {"llama", "rope_parameters", YARN(""), "original_max_position_embeddings: missing"},
    {"llama", "rope_parameters", YARN(ORIGINAL ",\"truncate\":false"), NULL},
    {"llama", "rope_parameters", YARN(ORIGINAL ",\"mscale\":-9,\"mscale_all_dim\":1"),
     "do not make sense"},
    {"llama", "rope_parameters", YARN(ORIGINAL ",\"beta_slow\":40"), "do not make sense"},
    {"llama", "rope_parameters", "{\"rope_type\":\"proportional\"}", "rope_type proportional"},
    {"llama", "rope_parameters", "{\"rope_type\":\"dynamic\",\"factor\":2}", NULL},
    {"phi3_longrope", "rope_parameters", LONG(""), "short_factor and long_factor"},
    {"phi3_longrope", "rope_parameters",
     LONG(",\"short_factor\":[1,1,1,1],\"long_factor\":[1,1,1]"), "a factor for each rotary pair"},
    {"phi3_longrope", "rope_parameters",
     LONG(",\"short_factor\":[1,1,1,1],\"long_factor\":[1,1,1,0]"), "factors above 0"},
    {"phi3_longrope", "max_position_embeddings", "16", NULL},
    {"granite", "logits_scaling", "0", "logits_scaling: expected a number above 0"},
    {"granite", "residual_multiplier", "-1", "residual_multiplier: out of range"},
    {"gemma", "hidden_act", "\"gelu\"", NULL},
    {"gemma", "use_bidirectional_attention", "true", "use_bidirectional_attention: true is not"},
    {"gemma2", "attn_logit_softcapping", "null", NULL},
    {"gemma2", "final_logit_softcapping", "-1", "final_logit_softcapping: out of range"},
    {"stablelm", "qk_layernorm", "true",
     "tensor layers.0.self_attn.q_layernorm.norms.0.weight: missing"},
    {"stablelm_parallel", "qk_layernorm", "false", "k_layernorm.norms.0.weight: no "},
    {"stablelm", "use_qkv_bias", "false", "no stablelm"},
    {"opt", "do_layer_norm_before", "false", "final_layer_norm.bias: no opt"},
    {"opt_350m", "do_layer_norm_before", "true", "tensor final_layer_norm.weight: missing"},
    {"opt_350m", "word_embed_proj_dim", "11",
     "embed_tokens.weight: shape [33, 10], expected [33, 11]"},
    {"opt_350m", "word_embed_proj_dim", "0", "word_embed_proj_dim is 0, expected 1 to 1048576"},
    {"opt_350m", "tie_word_embeddings", "false", "lm_head.weight: missing"},
    {"gpt1", "afn", "\"tanh\"", "afn: tanh is not supported"},
    {"gpt1", "afn", "\"swish\"", NULL},
    {"opt", "layer_norm_elementwise_affine", "false",
     "layer_norm_elementwise_affine: false is not"},
    {"opt", "word_embed_proj_dim", "7", "embed_tokens.weight: shape [33, 18], expected [33, 7]"},
    {"opt", "_remove_final_layer_norm", "true", "_remove_final_layer_norm: true is not supported"},
    {"opt", "max_position_embeddings", "30", "embed_positions.weight: shape [34, 18], expected"},
    {"gptj", "rotary_dim", "null", "rotary_dim: null is not supported"},
    {"gptj", "rotary_dim", "12", "rotary_dim: expected an even number"},
    {"gptj", "rotary_dim", "3", "rotary_dim: expected an even number"},
    {"codegen", "n_head", "2", "n_head: expected a multiple of 4"},
    {"gpt_bigcode", "multi_query", "false",
     "h.0.attn.c_attn.weight: shape [30, 18], expected [54, 18]"},
    {"cohere", "use_qk_norm", "false", "self_attn.k_norm.weight: no cohere of 2"},
    {"cohere", "logit_scale", "0", "logit_scale: expected a number above 0"},
    {"cohere2", "sliding_window_pattern", "0", "sliding_window_pattern is 0, expected 1 or more"},
    {"cohere2", "layer_types", "[\"full_attention\"]", "layer_types: does not fit the layers"},
    {"falcon", "alibi", "true", "alibi: true is not supported: transformers rounds slope times"},
    {"falcon", "parallel_attn", "false", "parallel_attn: false is not supported"},
    {"falcon", "num_ln_in_parallel_attn", "2", "num_ln_in_parallel_attn is 2, expected 1"},
    {"falcon_new", "num_ln_in_parallel_attn", "1", "input_layernorm.weight: missing"},
    {"bloom", "apply_residual_connection_post_layernorm", "true", "true is not supported"},
    {"bloom", "seq_length", "null", NULL},
    {"mpt", "attn_config", "{\"alibi\":false}", "alibi: false is not supported"},
    {"mpt", "attn_config", "{\"alibi_bias_max\":16}", "alibi_bias_max: this value is not"},
    {"mpt", "attn_config", "{\"qk_ln\":true}", "qk_ln: true is not supported"},
    {"mpt", "attn_config", "{\"clip_qkv\":-1}", "clip_qkv: out of range"},
    {"mpt", "logit_scale", "0.5", "logit_scale: this value is not supported"},
    {"arcee", "mlp_bias", "true", "tensor layers.0.mlp.up_proj.bias: missing"},
    {"jais2", "mlp_bias", "null", NULL},
    {"jais2", "mlp_bias", "false", "no jais2"},
    {"nemotron", "hidden_act", "\"tanh\"", "hidden_act: tanh is not supported"},
    {"nemotron", "rope_parameters", "{\"rope_theta\":1e4}", NULL},
    {"ernie4_5", "use_bias", "true", "self_attn.q_proj.bias: missing"},
    {"helium", "attention_bias", "true", "self_attn.q_proj.bias: missing"},
    {"seed_oss", "attention_bias", "null", NULL},
    {"seed_oss", "attention_out_bias", "null", "no seed_oss"},
    {"glm4", "attention_bias", "false", "no glm4"},
    {"hunyuan", "use_qk_norm", "true", NULL},
    {"hunyuan", "use_qk_norm", "false", "use_qk_norm: false is not supported"},
    {"hunyuan", "use_cla", "true", "use_cla: true is not supported"},
    {"hunyuan", "rope_parameters", "{\"rope_type\":\"dynamic\",\"alpha\":-1}", "do not make sense"},
    {"exaone4", "sliding_window", "null", "sliding_window: expected 1 or more"},
    {"exaone4", "sliding_window", "64", NULL},
    {"exaone4", "layer_types", "[\"full_attention\",\"full_attention\"]",
     "layer_types: a sliding_window that no layer has is not supported"},
    {"exaone4_full", "sliding_window", "7", "a sliding_window that no layer has is not supported"},
    {"exaone4_full", "layer_types", "null", NULL},
    {"minicpm", "scale_emb", "0", "scale_emb: out of range"},
    {"minicpm", "sparse_config", "{\"topk\":64}", "sparse_config: this value is not supported"},
    {"exaone", "num_layers", "null", "num_layers: missing"},
    {"lfm2", "conv_bias", "true", "conv_bias: true is not supported"},
    {"lfm2", "conv_L_cache", "0", "conv_L_cache is 0, expected 1 to 64"},
    {"lfm2", "conv_L_cache", "65", "conv_L_cache is 65, expected 1 to 64"},
    {"lfm2", "conv_L_cache", "4", "conv.conv.weight: shape [20, 3], expected [20, 4]"},
    {"lfm2", "layer_types", "[\"conv\"]", "layer_types: does not fit the layers"},
    {"lfm2", "layer_types", "[\"conv\",\"sliding_attention\",\"conv\",\"conv\"]",
     "layer_types: expected full_attention or conv"},
    {"lfm2", "layer_types", "null", "layers.0.self_attn.q_proj.weight: missing"},
    {"lfm2", "layer_types", "[\"conv\",\"conv\",\"conv\",\"conv\"]",
     "layers.1.conv.in_proj.weight: missing"},
    {"lfm2", "block_multiple_of", "1", "w1.weight: shape [24, 20], expected [22, 20]"},
    {"lfm2", "block_multiple_of", "0", "block_multiple_of is 0, expected 1 to 1048576"},
    {"lfm2", "block_auto_adjust_ff_dim", "false", "w1.weight: shape [24, 20], expected [33, 20]"},
    {"lfm2", "block_ffn_dim_multiplier", "1.5", "w1.weight: shape [24, 20], expected [36, 20]"},
    {"lfm2", "block_ffn_dim_multiplier", "0", "block_ffn_dim_multiplier: out of range"},
    {"lfm2", "block_ff_dim", "99", "w1.weight: shape [24, 20], expected [66, 20]"},
    {"lfm2", "intermediate_size", "null", "intermediate_size: missing"},
    {"lfm2", "tie_embedding", "false", "tie_embedding: contradicts tie_word_embeddings"},
    {"lfm2", "tie_word_embeddings", "false", "lm_head.weight: missing"},
    {"lfm2", "head_dim", "12", "head_dim: heads that are not as wide as hidden_size"},
    {"lfm3", "head_dim", "12", "head_dim: heads that are not as wide as hidden_size"},
    {"lfm3", "use_sandwich_norm", "false", "use_sandwich_norm: false is not supported"},
    {"lfm3", "use_attention_gate", "false", "use_attention_gate: false is not supported"},
    {"lfm3", "attention_bias", "true", "attention_bias: true is not supported"},
    {"lfm3", "sliding_window", "0", "sliding_window is 0, expected 1 or more"},
    {"lfm3", "layer_types", "[\"conv\"]", "layer_types: does not fit the layers"},
    {"lfm3", "layer_types", "[\"conv\",\"conv\",\"conv\",\"conv\",\"conv\",\"conv\"]",
     "layer_types: does not fit the layers"},
    {"lfm3", "layer_types", "[\"conv\",\"conv\",\"conv\",\"conv\",\"mamba\"]",
     "layer_types: expected conv, sliding_attention or full_attention for every layer"},
    {"lfm3", "layer_types", "null", "layers.1.conv.in_proj.weight: missing"},
    {"afmoe", "score_func", "\"softmax\"", "score_func, route_norm: only sigmoid and true"},
    {"afmoe", "route_norm", "false", "score_func, route_norm: only sigmoid and true"},
    {"afmoe", "layer_types", "null", NULL},
    {"afmoe", "num_dense_layers", "2", "layers.1.mlp.gate_proj.weight: missing"},
    {"afmoe", "sliding_window", "null", "sliding_window: expected 1 or more"},
    {"dbrx", "attn_config", "{\"kv_n_heads\":1,\"clip_qkv\":-1}", "clip_qkv: out of range"},
    {"dbrx", "attn_config", "{\"kv_n_heads\":3}", "kv_n_heads is 3, expected 1 to 2"},
    {"dbrx", "attn_config", "{\"kv_n_heads\":1,\"rope_theta\":10000.0}",
     "attn_config: rope_theta is 10000, but 500000 in rope_parameters"},
    {"dbrx", "ffn_config", "{\"ffn_hidden_size\":9,\"moe_num_experts\":4}",
     "blocks.0.ffn.router.layer.weight: shape [5, 20], expected [4, 20]"},
    {"dbrx", "ffn_config", "{\"ffn_hidden_size\":8,\"moe_num_experts\":5}",
     "blocks.0.ffn.experts.mlp.w1: shape [45, 20], expected [40, 20]"},
    {"dbrx", "ffn_config", "{\"moe_normalize_expert_weights\":2.0}",
     "only 1 and null are supported"},
    {"dbrx", "ffn_config", "{\"ffn_act_fn\":{\"name\":\"gelu\"}}", "ffn_act_fn: name: only silu"},
    {"dbrx", "ffn_config", "{\"uniform_expert_assignment\":true}",
     "uniform_expert_assignment: true"},
    {"cwm", "layer_types", "null", "layer_types: missing"},
    {"cwm", "sliding_window", "null", "sliding_window: expected 1 or more"},
    {"vaultgemma", "attn_logit_softcapping", "null", NULL},
    {"biogpt", "scale_embedding", "false", NULL},
    {"xglm", "max_position_embeddings", "1000000000", "a table of positions that large"},
    {"starcoder2", "use_bias", "false", "no starcoder2"},
    {"ministral3", "rope_parameters", GROWS("0.1"), "only with rope_type yarn"},
    {"ministral3", "rope_parameters", GROWS("-1"), "beta: out of range"},
    {"mistral_yarn", "attn_logit_softcapping", "5", "attn_logit_softcapping: this value is not"},
    {"llama", "rope_parameters", "{\"rope_type\":\"linear\"}", "config.json: factor: missing"},
    {"llama", "rope_parameters", "{\"rope_theta\":0}", "rope_theta: out of range"},
    {"llama", "rope_parameters", "{\"rope_theta\":1e4,\"partial_rotary_factor\":2}",
     "out of range"},
    {"llama", "rope_parameters", "{\"rope_theta\":1e4,\"partial_rotary_factor\":0.5}",
     "partial_rotary_factor: only 1 is supported"},
    {"phi", "rope_parameters", "{\"rope_theta\":1e4,\"partial_rotary_factor\":0.01}",
     "0 rotary components"},
    {"llama", "rope_parameters", "{\"full_attention\":{}}", "settings per kind of layer"},
    {"llama", "rope_parameters", "5", "rope_parameters: expected an object"},
    {"llama", "rope_parameters", L3(",\"factor\":8"), "low_freq_factor: missing"},
    {"llama", "rope_parameters",
     L3(",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4,"
        "\"original_max_position_embeddings\":64"),
     "its numbers do not make sense"},
    {"llama", "attention_bias", "true", "tensor layers.0.self_attn.q_proj.bias: missing"},
    {"llama", "attention_bias", "1", "attention_bias: expected true or false"},
    {"phi3_longrope", "attention_bias", "true", NULL}, /* which these three do not read */
    {"phi", "attention_bias", "true", NULL},
    {"lfm2", "attention_bias", "true", NULL},
    {"llama", "new_switch", "true", NULL},
    {"minicpm", "new_switch", "true",
     "new_switch: true is not a switch of minicpm that mgpt knows"},
    {"llama", "new_switch", "false", NULL},
    {"llama", "_new_switch", "true", NULL},
    {"llama", "alibi", "true", "config.json: alibi: true is not a switch of llama that mgpt"},
    {"llama", "use_rope", "false", "config.json: use_rope is not a setting of llama that mgpt"},
    {"llama", "clip_qkv", "8.0", "config.json: clip_qkv is not a setting of llama that mgpt"},
    {"olmo", "clip_qkv", "8.0", NULL},
    {"llama", "logit_scale", "0.5", "config.json: logit_scale is not a setting of llama"},
    {"llama", "logit_scale", "1.0", NULL},
    {"llama", "layer_types", "[\"full_attention\",\"linear_attention\"]", "layer_types is not a"},
    {"gpt2", "position_embedding_type", "\"alibi\"", "position_embedding_type is not a setting"},
    {"gpt2", "rope_scaling", "{\"rope_type\":\"linear\"}", "rope_scaling is not a setting of"},
    {"llama", "unsloth_fixed", "true", NULL},
    {"llama", "rope_scaling", "{\"rope_type\":\"linear\",\"factor\":2}",
     "rope_scaling: there are also rope_parameters"},
    {"llama", "mlp_bias", "true", "tensor layers.0.mlp.gate_proj.bias: missing"},
    {"llama", "tie_word_embeddings", "true", NULL},
    {"llama3_rope", "tie_word_embeddings", "false", "tensor lm_head.weight: missing"},
    {"llama", "model_type", "\"bitnet\"", "model_type bitnet is not supported: its matrices"},
    {"llama", "model_type", "\"mamba\"",
     "mamba is not supported: a token overwrites the state of a"},
    {"llama", "model_type", "\"mamba2\"", "a layer, heads * head_dim * d_state floats, so that"},
    {"llama", "model_type", "\"rwkv7\"", "a layer, heads * head_dim * head_dim floats, so that"},
    {"llama", "model_type", "\"jamba\"",
     "jamba is not supported: a token overwrites the state of its"},
    {"llama", "model_type", "\"zamba3\"", "model_type zamba3 is not supported; these are: gpt2"},
    {"llama", "num_experts", "8", "num_experts: this value is not supported"},
    {"llama", "num_experts", "0", NULL},
    {"mixtral", "num_local_experts", "4", "layers.0.block_sparse_moe.gate.weight: shape [5, 20]"},
    {"mixtral", "num_local_experts", "null", "num_local_experts: missing"},
    {"mixtral", "num_local_experts", "1025", "num_local_experts is 1025, expected 1 to 1024"},
    {"mixtral", "num_experts_per_tok", "0", "num_experts_per_tok is 0, expected 1 to 5"},
    {"mixtral", "num_experts_per_tok", "6", "num_experts_per_tok is 6, expected 1 to 5"},
    {"mixtral", "num_experts_per_tok", "5", NULL},
    {"mixtral", "intermediate_size", "19",
     "experts.0.w1.weight: shape [18, 20], expected [19, 20]"},
    {"mixtral", "sliding_window", "9", NULL},
    {"olmoe", "clip_qkv", "8", NULL},
    {"olmoe", "clip_qkv", "-1", "clip_qkv: out of range"},
    {"olmoe", "norm_topk_prob", "1", "norm_topk_prob: expected true or false"},
    {"qwen2_moe", "qkv_bias", "false", "qkv_bias: false is not supported"},
    {"qwen2_moe", "mlp_only_layers", "[]", "layers.1.mlp.gate.weight: missing"},
    {"qwen2_moe", "mlp_only_layers", "[0, 1]", "layers.0.mlp.gate_proj.weight: missing"},
    {"qwen2_moe", "mlp_only_layers", "1", "mlp_only_layers: expected a list of layers"},
    {"qwen2_moe", "decoder_sparse_step", "0", "decoder_sparse_step is 0, expected 1 or more"},
    {"qwen2_moe", "decoder_sparse_step", "2", "layers.0.mlp.gate_proj.weight: missing"},
    {"qwen2_moe", "shared_expert_intermediate_size", "13", "shared_expert.gate_proj.weight: shape"},
    {"gpt_oss", "swiglu_alpha", "1.7", "swiglu_alpha: only 1.702 is supported"},
    {"gpt_oss", "swiglu_limit", "0", "swiglu_limit: out of range"},
    {"gpt_oss", "intermediate_size", "19", "experts.gate_up_proj: expected [5, 20, 38]"},
    {"gpt_oss_mxfp4", "intermediate_size", "32", "_blocks: expected contiguous U8 [3, 64, 1, 16]"},
    {"qwen3_moe", "moe_intermediate_size", "null", "moe_intermediate_size: missing"},
    {"granitemoe", "intermediate_size", "17", "expected a contiguous [4, 34, 20]"},
    {"granitemoeshared", "shared_intermediate_size", "0",
     "shared_mlp.input_linear.weight: no gran"},
    {"granitemoeshared", "shared_intermediate_size", "16", "shared_mlp.input_linear.weight: shape"},
    {"qwen3", "layer_types", "[\"full_attention\",\"sliding_attention\"]",
     "sliding_window: expected 1 or more"},
    {"qwen2_window", "layer_types", "[\"full_attention\",\"linear\",\"full_attention\"]",
     "layer_types: expected"},
    {"qwen2_window", "sliding_window", "null", "sliding_window: expected 1 or more"},
    {"qwen3", "head_dim", "4", "self_attn.q_proj.weight: shape"},
    {"smollm3", "no_rope_layers", "[1,1,1]", "no_rope_layers: expected one entry"},
    {"smollm3", "no_rope_layers", "[1,0,1,0,1,0,1,0]", "no_rope_layers: entry 1: only a 0 in"},
    {"gemma3", "layer_types", "[\"full_attention\"]", "layer_types: does not fit the layers"},
    {"gemma3", "attn_logit_softcapping", "50", "attn_logit_softcapping: this value is not"},
    {"gemma3", "use_bidirectional_attention", "true", "use_bidirectional_attention: true is not"},
    {"gemma3", "query_pre_attn_scalar", "0", "query_pre_attn_scalar: out of range"},
    {"gemma3", "sliding_window", "0", "sliding_window: expected 1 or more"},
    {"gemma3", "rope_parameters",
     "{\"full_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e6},"
     "\"sliding_attention\":{\"rope_type\":\"linear\",\"factor\":2}}",
     "windowed layers of another rope_type"},
    {"gpt2", "scale_attn_by_inverse_layer_idx", "true", "scale_attn_by_inverse_layer_idx: true"},
    {"gpt2", "add_cross_attention", "true", "add_cross_attention: true is not supported"},
    {"gpt2", "n_positions", "null", "config.json: n_positions: missing"},
    {"gpt2", "tie_word_embeddings", "null", NULL},
    {"gpt_neo", "attention_types", "[[[\"global\",\"local\"],2]]", "attention_types: expected"},
    {"gpt_neo", "attention_types", "[[[\"global\"],1]]", "attention_types: 1 kinds for 2 layers"},
    {"gpt_neo", "attention_types", "[[[\"global\"],1],[[\"local\"],1]]", NULL},
    {"gpt_neo", "attention_types", "[[[\"global\",\"other\"],1]]", "attention_types: expected"},
    {"gpt_neo", "attention_types", "[[[],9999999999]]", "attention_types: expected"},
    {"gpt_neo", "window_size", "0", "window_size is 0, expected 1 or more"},
    {"gpt_neox", "attention_bias", "false", "no gpt_neox"},
    {"phi", "qk_layernorm", "true", "self_attn.q_layernorm.weight: missing"},
    {"phi_norms", "qk_layernorm", "false", "self_attn.k_layernorm.bias: no phi"},
    {"olmo", "clip_qkv", "-1", "clip_qkv: out of range"},
    {"nanochat", "tie_word_embeddings", "true", "tie_word_embeddings: true is not supported"},
};

TEST(config)
{
    for (size_t i = 0; i < COUNT(config_cases); i++) {
        const struct config_case *k = &config_cases[i];
        char what[160];
        struct dir d = golden(k->model);
        snprintf(what, sizeof what, "%s with %s %.60s", k->model, k->key, k->json);
        set_key(&d, k->key, k->json);
        assert_read(&d, "config.json", what, k->expected);
        dir_free(&d);
    }
}

/* A window matters only where it is in use, and smaller than the context. */
TEST(qwen_window)
{
    struct dir d = golden("qwen3");
    set_key(&d, "layer_types", "null");
    set_key(&d, "sliding_window", "8");
    assert_read(&d, "config.json", "a window that is not in use", NULL);
    set_key(&d, "use_sliding_window", "true");
    set_key(&d, "max_window_layers", "1");
    struct checkpoint c;
    mgpt_error err;
    assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_OK);
    assert_int_equal(c.hp.window, 8);
    assert_int_equal(c.hp.windows[0], 0);
    assert_int_equal(c.hp.windows[1], 8);
    ckpt_free(&c);
    dir_free(&d);
}

/* Mistral's window applies to all layers. It is 4096 where the key is absent, none where it is
 * null, and none that matters where the context is shorter. */
TEST(mistral_window)
{
    static const struct {
        const char *window, *context;
        uint32_t expected;
    } cases[] = {{"9", "64", 9}, {"64", "64", 0}, {"null", "9000", 0}, {NULL, "9000", 4096}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden("mistral_yarn");
        struct checkpoint c;
        mgpt_error err;
        set_key(&d, "max_position_embeddings", cases[i].context);
        set_key(&d, "sliding_window", cases[i].window ? cases[i].window : "null");
        if (!cases[i].window)
            drop_key(&d, "sliding_window");
        assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_OK);
        assert_int_equal(c.hp.window, cases[i].expected);
        ckpt_free(&c);
        dir_free(&d);
    }
}

/* The first files of LFM2 state the layers of attention and the width of the MLP in other keys. */
TEST(lfm2_first_files)
{
    struct dir d = golden("lfm2");
    struct checkpoint c;
    mgpt_error err;
    drop_key(&d, "layer_types");
    drop_key(&d, "intermediate_size");
    drop_key(&d, "tie_word_embeddings");
    set_key(&d, "full_attn_idxs", "[1]");
    set_key(&d, "block_ff_dim", "33");
    set_key(&d, "tie_embedding", "true");
    set_key(&d, "block_use_swiglu", "true");
    set_key(&d, "conv_use_xavier_init", "true");
    set_key(&d, "use_pos_enc", "true");
    assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_OK);
    assert_int_equal(c.hp.n_ff, 24); /* 2/3 of 33, in whole sixes */
    assert_int_equal(c.hp.n_conv, 3);
    for (uint32_t i = 0; i < c.hp.n_layer; i++)
        assert_int_equal(c.hp.kv_heads[i], i == 1 ? 1 : 0);
    ckpt_free(&c);
    set_key(&d, "full_attn_idxs", "[1,3]");
    assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_EFILE);
    assert_non_null(strstr(err.text, "layers.3.self_attn.q_proj.weight: missing"));
    ckpt_free(&c);
    dir_free(&d);
}

/* The factors for short texts, unless --context asks for a longer one. */
TEST(longrope_context)
{
    struct dir d = golden("phi3_longrope");
    struct checkpoint c;
    mgpt_error err;
    assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_OK);
    assert_int_equal(c.hp.n_ctx, 32);
    assert_int_equal(c.hp.rope_context, 32);
    assert_string_equal(c.hp.rope_scaling, "longrope");
    ckpt_free(&c);
    dir_free(&d);
}

/* Spellings before Transformers 5 give the same model. */
TEST(old_spelling)
{
    struct dir d = golden("llama3_rope");
    struct checkpoint a, b;
    mgpt_error err;
    assert_int_equal(read_dir(&a, &d, "config.json", &err), MGPT_OK);
    set_key(&d, "rope_parameters", "null");
    set_key(&d, "rope_theta", "500000");
    set_key(&d, "rope_scaling",
            "{\"type\":\"llama3\",\"factor\":32,\"low_freq_factor\":1,\"high_freq_factor\":4.0,"
            "\"original_max_position_embeddings\":64}");
    assert_int_equal(read_dir(&b, &d, "config.json", &err), MGPT_OK);
    assert_true(a.hp.rope_base == b.hp.rope_base);
    const struct ckpt_tensor *x = &a.tensors[arr_len(a.tensors) - 1];
    const struct ckpt_tensor *y = &b.tensors[arr_len(b.tensors) - 1];
    float u[6], v[6];
    assert_string_equal(x->name, "rope_freqs.weight");
    assert_string_equal(y->name, "rope_freqs.weight");
    assert_int_equal(x->n_values, 6);
    ckpt_values(x, 0, 6, u);
    ckpt_values(y, 0, 6, v);
    assert_memory_equal(u, v, sizeof u);
    assert_true(u[0] == 1 && u[5] == 32); /* the fastest is kept, the slowest divided */
    ckpt_free(&a);
    ckpt_free(&b);
    dir_free(&d);
}

TEST(json)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{\"model_type\":\"llama\",\"model_type\":\"llama\"}", "config.json: line 1"},
        {"{\"model_type\":\"llama\"} x", "end of file expected"},
        {"{\"model_type\":\"llama\"", "config.json: line 1"},
        {"{\"model_type\":\"some_vl\",\"text_config\":{}}", "model_type: missing"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden("llama");
        set_file(&d, "config.json", copy_of(cases[i].text, strlen(cases[i].text)));
        assert_read(&d, "config.json", cases[i].text, cases[i].expected);
        dir_free(&d);
    }
}
