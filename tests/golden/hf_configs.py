"""The golden models of this directory: shapes, seeds, and what each is for. make_hf.py makes them."""

import torch
import transformers

import hf_gates as gates
import hf_latent as latent
from hf_shape import rope, shape, without
from renamed import as_exaone, as_minicpm

NUMBERS = dict(n_layer=2, n_positions=32, vocab_size=33, bos_token_id=0, eos_token_id=0)  # of GPT-J's kind
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def models():
    """name: (seed, config, keyword arguments of make). Shapes differ from each other on purpose."""
    hf = transformers
    return {
        "gpt2": (0, hf.GPT2Config(
            n_embd=18, n_head=3, n_layer=2, n_positions=32, vocab_size=33, bos_token_id=0, eos_token_id=0), dict(
            what="transposed \"Conv1D\" matrices, fused q‖k‖v, learned positions, tanh GELU, tied head")),
        "gpt_neo": (1, hf.GPTNeoConfig(
            hidden_size=18, num_heads=3, num_layers=2, attention_types=[[["global", "local"], 1]],
            window_size=7, max_position_embeddings=32, vocab_size=33, bos_token_id=0, eos_token_id=0), dict(
            what="scores not scaled, layers alternating full and window (7 keys), no q/k/v bias")),
        "llama": (2, hf.LlamaConfig(
            **shape(24, 4, 2, 28), rms_norm_eps=1e-5, tie_word_embeddings=False,
            rope_parameters=rope(10000.0)), dict(
            what="half-split rope (rows are permuted for GGUF), 4 heads on 2 KV heads, untied", qk=(1,))),
        "llama3_rope": (3, hf.LlamaConfig(
            **shape(24, 2, 1, 30, context=128), rms_norm_eps=1e-5, tie_word_embeddings=True,
            rope_parameters=LLAMA3), dict(
            what="Llama-3 frequency scaling: one frequency unchanged, one in the smooth band, the others "
                 "divided; tied", patterns=(), qk=(0,))),
        "smollm2_bf16": (4, hf.LlamaConfig(
            **shape(30, 3, 1, 44, vocab=37), rms_norm_eps=1e-5, tie_word_embeddings=True,
            rope_parameters=rope(100000.0)), dict(
            what="BF16 weights, 3 heads on 1, rope base 100000, tied", dtype=torch.bfloat16, patterns=())),
        "qwen2_sharded": (5, hf.Qwen2Config(
            **shape(24, 4, 2, 26), rms_norm_eps=1e-6, tie_word_embeddings=True,
            rope_parameters=rope(1e6)), dict(
            what="q/k/v biases; three shards with an index", shard="20KB", patterns=())),
        "qwen3": (6, hf.Qwen3Config(
            **shape(24, 3, 1, 26), head_dim=10, rms_norm_eps=1e-6, tie_word_embeddings=True,
            rope_parameters=rope(1e6)), dict(
            what="head width 10 where width / heads is 8, norms of q and k per head", qk=(1,))),
        "gemma3": (7, hf.Gemma3TextConfig(
            **shape(14, 2, 1, 14, layers=6, vocab=35), head_dim=8, rms_norm_eps=1e-6,
            query_pre_attn_scalar=11, sliding_window=9, tie_word_embeddings=True,
            rope_parameters={"full_attention": rope(1e6), "sliding_attention": rope(10000.0)}), dict(
            what="norms with 1 + weight before and after each branch, five layers of window 9 with their own "
                 "rope base and one full, score scale and embedding factor of its own, gated tanh GELU",
            patterns=(0, 5))),
        "mixtral": (8, hf.MixtralConfig(
            **shape(20, 2, 1, 18), num_local_experts=5, num_experts_per_tok=2, rms_norm_eps=1e-5,
            tie_word_embeddings=False, rope_parameters=rope(1e6)), dict(
            what="2 of 5 experts, weights divided by their sum", patterns=(), qk=(1,))),
        "olmoe": (9, hf.OlmoeConfig(
            **shape(20, 2, 2, 11), num_experts=8, num_experts_per_tok=3, norm_topk_prob=False, clip_qkv=1.1, rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=rope(10000.0)), dict(
            what="3 of 8 experts, weights not divided; norms of q and k over the whole projection, then a clamp "
                 "(v's too)", patterns=())),
        "qwen2_moe": (10, hf.Qwen2MoeConfig(
            **shape(20, 2, 1, 22, layers=3), num_experts=4, num_experts_per_tok=2, moe_intermediate_size=9, shared_expert_intermediate_size=14, mlp_only_layers=[1],
            norm_topk_prob=False, rms_norm_eps=1e-6, tie_word_embeddings=False, rope_parameters=rope(1e6)), dict(
            what="2 of 4 experts and a shared one with a gate; the second layer has a plain MLP", patterns=())),
        "qwen3_moe": (11, hf.Qwen3MoeConfig(
            **shape(20, 2, 1, 30), num_experts=6, num_experts_per_tok=2, moe_intermediate_size=11,
            norm_topk_prob=True, head_dim=12, rms_norm_eps=1e-6, tie_word_embeddings=False, rope_parameters=rope(1e6)), dict(
            what="2 of 6 experts, BF16", dtype=torch.bfloat16, patterns=())),
        "granitemoe": (12, hf.GraniteMoeConfig(
            **shape(20, 2, 1, 18), num_local_experts=4, num_experts_per_tok=2, rms_norm_eps=1e-6,
            tie_word_embeddings=True, rope_parameters=rope(10000.0), embedding_multiplier=3.0,
            residual_multiplier=0.4, attention_multiplier=0.25, logits_scaling=0.7), dict(
            what="fused tensors of 4 experts; a shared one without a gate; four multipliers", patterns=())),
        "granitemoeshared": (13, hf.GraniteMoeSharedConfig(
            **shape(20, 2, 1, 12), num_local_experts=4, num_experts_per_tok=3, shared_intermediate_size=17, rms_norm_eps=1e-6, tie_word_embeddings=True,
            rope_parameters=rope(10000.0), embedding_multiplier=2.0, residual_multiplier=0.5,
            attention_multiplier=0.3, logits_scaling=0.6), dict(
            what="fused tensors of 4 experts; a shared one without a gate; four multipliers", patterns=())),
        "flex_olmo": (68, hf.FlexOlmoConfig(
            **shape(20, 2, 1, 14), num_experts=4, num_experts_per_tok=2, rms_norm_eps=1e-6, tie_word_embeddings=False,
            rope_parameters=rope(500000.0)), dict(what="OLMo 2 with 2 of 4 experts", patterns=())),
        "dots1": (69, hf.Dots1Config(
            **shape(20, 2, 1, 18, layers=3), n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=9, n_shared_experts=1,
            n_group=2, topk_group=1, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.7, sliding_window=None,
            rms_norm_eps=1e-6, rope_parameters=rope(10000.0)), dict(
            what="sigmoids, 2 of 6 experts of one of 2 groups and a shared one, norms of q and k; the first layer is plain", patterns=())),
        "glm4_moe": (70, hf.Glm4MoeConfig(
            **shape(24, 2, 1, 18, layers=3), n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=7, n_shared_experts=2,
            n_group=4, topk_group=2, first_k_dense_replace=1, routed_scaling_factor=2.5, use_qk_norm=True, attention_bias=True,
            rms_norm_eps=1e-5, rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), dict(
            what="sigmoids and a bias, 3 of 8 experts of 2 of 4 groups and a shared one, half of each head rotated", patterns=())),
        **latent.models(), **gates.models(),
        "dbrx": (111, hf.DbrxConfig(
            d_model=20, n_heads=2, n_layers=2, max_seq_len=48, vocab_size=33, bos_token_id=0, eos_token_id=1,
            attn_config=dict(clip_qkv=1.1, kv_n_heads=1, rope_theta=500000.0), rope_parameters=rope(500000.0),
            ffn_config=dict(ffn_hidden_size=9, moe_num_experts=5, moe_top_k=2)), dict(
            what="LayerNorm without biases, q, k and v as one and clamped, 2 of 5 experts, whose down is transposed", patterns=())),
        "ernie4_5_moe": (71, hf.Ernie4_5_MoeConfig(
            **shape(20, 2, 1, 18, layers=4), moe_num_experts=5, moe_k=2, moe_intermediate_size=8, moe_num_shared_experts=2,
            moe_layer_start_index=1, moe_layer_interval=2, rms_norm_eps=1e-5, tie_word_embeddings=True,
            rope_parameters=rope(500000.0)), dict(
            what="softmax and a bias, 2 of 5 experts and a shared one in every other layer", patterns=())),
        "hunyuan_moe": (72, hf.HunYuanMoEV1Config(
            **shape(20, 2, 1, 14), num_experts=4, moe_topk=2, head_dim=12, rms_norm_eps=1e-5, tie_word_embeddings=True,
            rope_parameters=rope(10000.0)), dict(
            what="2 of 4 experts and a shared one, norms of q and k after rope", patterns=())),
        "lfm2_moe": (73, hf.Lfm2MoeConfig(
            **shape(20, 2, 1, 22, layers=4), moe_intermediate_size=9, num_experts=5, num_experts_per_tok=2, num_dense_layers=1,
            norm_eps=1e-5, conv_L_cache=3, layer_types=["conv", "full_attention", "conv", "conv"],
            rope_parameters=rope(1e6)), dict(
            what="short convolutions; sigmoids and a bias, 2 of 5 experts; the first layer is plain", patterns=())),
        "gpt_neox": (8, neox(True, 24, 0.34), dict(
            what="parallel branches with two norms, q‖k‖v grouped by head, 4 of 12 components rotated, erf "
                 "GELU, untied")),
        "gpt_neox_serial": (9, neox(False, 20, 0.4), dict(
            what="`use_parallel_residual` false", patterns=())),
        "phi": (10, hf.PhiConfig(**shape(24, 2, 2, 30), layer_norm_eps=1e-5, tie_word_embeddings=False,
                             rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), dict(
            what="parallel branches with one norm, 6 of 12 components rotated, a bias on the head")),
        "olmo": (11, hf.OlmoConfig(**shape(24, 3, 3, 26), tie_word_embeddings=True, rope_parameters=rope(10000.0)), dict(
            what="LayerNorm without gain and bias", patterns=(), qk=(1,))),
        "olmo2": (12, hf.Olmo2Config(
            **shape(24, 3, 3, 24), rms_norm_eps=1e-6, tie_word_embeddings=False, rope_parameters=rope(500000.0)), dict(
            what="norms after the branches only; norms of q and k over the whole projection")),
        "olmo3": (13, hf.Olmo3Config(
            **shape(24, 3, 1, 24, layers=5), rms_norm_eps=1e-6, tie_word_embeddings=False, sliding_window=7,
            rope_parameters={"full_attention": rope(500000.0), "sliding_attention": rope(10000.0)}), dict(
            what="OLMo 2 with windows of 7, every fourth layer full, with a rope base of its own",
            patterns=(0, 3))),
        "smollm3": (13, hf.SmolLM3Config(
            **shape(16, 2, 1, 24, layers=4), rms_norm_eps=1e-6, tie_word_embeddings=True,
            no_rope_layer_interval=4, rope_parameters=rope(5e6)), dict(
            what="the fourth layer without rope", patterns=(3,), qk=(2, 3))),
        "nanochat": (14, hf.NanoChatConfig(
            **shape(24, 2, 1, 48), rms_norm_eps=1e-6, final_logit_softcapping=15.0,
            tie_word_embeddings=False, rope_parameters=rope(10000.0)), dict(
            what="norms without gain, also after the embedding; the negative angle; ReLU²; soft cap 15; 2 heads "
                 "on 1", qk=(1,))),
        "mistral_yarn": (16, hf.MistralConfig(
            **shape(24, 3, 1, 28), rms_norm_eps=1e-5, tie_word_embeddings=True, sliding_window=9,
            rope_parameters={"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0,
                             "original_max_position_embeddings": 16}), dict(
            what="YaRN (one frequency unchanged, one in the ramp), a window of 9 in all layers",
            patterns=(), qk=(1,))),
        "qwen2_window": (17, hf.Qwen2Config(
            **shape(16, 2, 1, 20, layers=3), rms_norm_eps=1e-6, tie_word_embeddings=True,
            use_sliding_window=True, sliding_window=5, max_window_layers=1,
            rope_parameters=rope(1e6)), dict(
            what="a window of 5 from layer 1 on", patterns=(2,))),
        "ministral3": (67, hf.Ministral3Config(
            **shape(24, 3, 1, 28), head_dim=10, rms_norm_eps=1e-5, tie_word_embeddings=True,
            rope_parameters={"rope_type": "yarn", "rope_theta": 500.0, "factor": 16.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                             "original_max_position_embeddings": 12, "llama_4_scaling_beta": 0.4}), dict(
            what="YaRN whose factors cancel; queries that grow every 12 positions", patterns=(0,))),
        "starcoder2": (18, hf.Starcoder2Config(
            **shape(24, 3, 1, 30), norm_epsilon=1e-5, tie_word_embeddings=True, sliding_window=9,
            rope_parameters=rope(10000.0)), dict(
            what="LayerNorm, biases, tied, a window of 9")),
        "granite": (19, hf.GraniteConfig(
            **shape(24, 3, 1, 26), rms_norm_eps=1e-5, tie_word_embeddings=True,
            embedding_multiplier=3.5, residual_multiplier=0.4, attention_multiplier=0.3,
            logits_scaling=0.7, rope_parameters=rope(10000.0)), dict(
            what="four multipliers: embedding, residual branches, scores, logits", qk=(1,))),
        "gemma": (20, hf.GemmaConfig(
            **shape(18, 2, 1, 22), head_dim=10, rms_norm_eps=1e-6, rope_parameters=rope(10000.0)), dict(
            what="norms with 1 + weight, embedding factor, heads wider than their share")),
        "gemma2": (21, hf.Gemma2Config(
            **shape(18, 2, 1, 20, layers=3), head_dim=8, rms_norm_eps=1e-6, sliding_window=7,
            query_pre_attn_scalar=11, attn_logit_softcapping=2.0, final_logit_softcapping=4.0,
            rope_parameters=rope(10000.0)), dict(
            what="caps of scores and logits, norms around each branch, every other layer a window of 7",
            patterns=(0, 1))),
        "phi3_longrope": (22, hf.Phi3Config(
            **shape(24, 3, 1, 26), rms_norm_eps=1e-5, tie_word_embeddings=False,
            original_max_position_embeddings=32, sliding_window=20,
            rope_parameters=rope(10000.0, partial_rotary_factor=0.75) | {
                "rope_type": "longrope", "original_max_position_embeddings": 32,
                "short_factor": [1.0, 1.25, 1.5], "long_factor": [1.0, 3.0, 6.0]}), dict(
            what="q‖k‖v and gate‖up as one, 6 of 8 components rotated, LongRoPE's factors for short texts, a "
                 "window of 20")),
        "stablelm": (23, hf.StableLmConfig(
            **shape(24, 3, 1, 26), layer_norm_eps=1e-5, tie_word_embeddings=False, use_qkv_bias=True,
            rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), dict(
            what="LayerNorm, gated, part of a head rotated; biases of q, k, v; parallel branches with one norm, "
                 "norms of q and k with gains of each head")),
        "stablelm_parallel": (30, hf.StableLmConfig(
            **shape(20, 2, 2, 24), layer_norm_eps=1e-5, tie_word_embeddings=False, use_parallel_residual=True,
            qk_layernorm=True, rope_parameters=rope(10000.0, partial_rotary_factor=0.4)), dict(
            what="LayerNorm, gated, part of a head rotated; biases of q, k, v; parallel branches with one norm, "
                 "norms of q and k with gains of each head", patterns=())),
        "opt": (25, hf.OPTConfig(
            hidden_size=18, num_attention_heads=3, num_hidden_layers=2, ffn_dim=26, vocab_size=33, bos_token_id=0,
            max_position_embeddings=32, eos_token_id=1), dict(
            what="positions from row 2 on, ReLU")),
        "opt_350m": (32, hf.OPTConfig(
            hidden_size=18, num_attention_heads=3, num_hidden_layers=2, ffn_dim=26, vocab_size=33, bos_token_id=0,
            word_embed_proj_dim=10, do_layer_norm_before=False, max_position_embeddings=32, eos_token_id=1), dict(
            what="the residual normalised after each branch, no final norm, embeddings of 10 projected to 18")),
        "gpt1": (33, hf.OpenAIGPTConfig(n_embd=20, n_head=2, n_layer=2, n_positions=32, vocab_size=33), dict(
            what="the residual normalised after each branch, matrices transposed", patterns=())),
        "gptj": (26, hf.GPTJConfig(n_embd=20, n_head=2, rotary_dim=4, **NUMBERS), dict(
            what="adjacent pairs of 4 components rotated, parallel branches with one norm; q, v, k by fourths "
                 "of the heads")),
        "codegen": (27, hf.CodeGenConfig(n_embd=24, n_head=4, rotary_dim=4, **NUMBERS), dict(
            what="adjacent pairs of 4 components rotated, parallel branches with one norm; q, v, k by fourths "
                 "of the heads", patterns=())),
        "gpt_bigcode": (28, hf.GPTBigCodeConfig(n_embd=18, n_head=3, **NUMBERS), dict(
            what="plain matrices, one KV head; q, k, v of each head together")),
        "bigcode_heads": (34, hf.GPTBigCodeConfig(n_embd=18, n_head=3, multi_query=False, **NUMBERS), dict(
            what="plain matrices, one KV head; q, k, v of each head together", patterns=())),
        "cohere": (38, hf.CohereConfig(
            **shape(24, 3, 1, 26), layer_norm_eps=1e-5, logit_scale=0.6, use_qk_norm=True,
            rope_parameters=rope(10000.0)), dict(
            what="adjacent pairs, one norm without bias, gated, scaled logits, gains of each head in norms of q "
                 "and k; windows of 7 with rope, full layers without")),
        "cohere2": (30, hf.Cohere2Config(
            **shape(16, 2, 1, 20, layers=4), layer_norm_eps=1e-5, logit_scale=0.6, sliding_window=7,
            rope_parameters=rope(10000.0)), dict(
            what="adjacent pairs, one norm without bias, gated, scaled logits, gains of each head in norms of q "
                 "and k; windows of 7 with rope, full layers without", patterns=(0, 3))),
        "falcon": (31, hf.FalconConfig(
            hidden_size=24, num_attention_heads=3, num_hidden_layers=2, vocab_size=33,
            max_position_embeddings=64, bos_token_id=0, eos_token_id=0, rope_parameters=rope(10000.0)), dict(
            what="one norm, one KV head; two norms, grouped heads, biases")),
        "falcon_new": (32, hf.FalconConfig(
            hidden_size=24, num_attention_heads=4, num_kv_heads=2, num_hidden_layers=2, vocab_size=33,
            max_position_embeddings=64, new_decoder_architecture=True, bias=True, bos_token_id=0,
            eos_token_id=0, rope_parameters=rope(10000.0)), dict(
            what="one norm, one KV head; two norms, grouped heads, biases", patterns=())),
        "bloom": (33, hf.BloomConfig(
            hidden_size=18, n_head=3, n_layer=2, vocab_size=33, seq_length=48, bos_token_id=0, eos_token_id=0), dict(
            what="ALiBi of 3 heads, a norm of the embedding")),
        "mpt": (34, hf.MptConfig(
            d_model=24, n_heads=6, n_layers=2, max_seq_len=48, vocab_size=33, bos_token_id=0,
            eos_token_id=0, attn_config=dict(clip_qkv=1.5, softmax_scale=0.6)), dict(
            what="ALiBi of 6 heads, no biases, clamp, scale of scores")),
        "arcee": (35, hf.ArceeConfig(**shape(24, 3, 1, 34), rms_norm_eps=1e-5, rope_parameters=rope(10000.0)), dict(
            what="ReLU² without a gate, rows permuted", qk=(1,))),
        "nemotron": (36, hf.NemotronConfig(
            **shape(20, 2, 1, 34), head_dim=12, norm_eps=1e-5,
            rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), dict(
            what="LayerNorm with 1 + weight, half of each head rotated", patterns=())),
        "jais2": (37, hf.Jais2Config(
            **shape(24, 3, 3, 30), layer_norm_eps=1e-5, rope_parameters=rope(500000.0)), dict(
            what="LayerNorm, biases, ReLU²", patterns=())),
        "ernie4_5": (38, hf.Ernie4_5Config(
            **shape(20, 2, 1, 28), head_dim=12, rms_norm_eps=1e-5, tie_word_embeddings=True,
            rope_parameters=rope(500000.0)), dict(
            what="adjacent pairs in transformers, too", qk=(1,))),
        "helium": (39, hf.HeliumConfig(
            **shape(24, 3, 1, 26), head_dim=8, rms_norm_eps=1e-8, rope_parameters=rope(100000.0)), dict(
            what="adjacent pairs in transformers, too", patterns=())),
        "seed_oss": (40, hf.SeedOssConfig(
            **shape(20, 2, 1, 26), head_dim=12, rms_norm_eps=1e-6, attention_out_bias=True,
            rope_parameters=rope(10000.0)), dict(
            what="biases of q, k, v and of the output by keys of their own", patterns=())),
        "glm": (41, hf.GlmConfig(
            **shape(24, 3, 1, 26), head_dim=8, rms_norm_eps=1.5625e-7,
            rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), dict(
            what="half of each head in adjacent pairs, gate‖up as one; norms around each branch", patterns=())),
        "glm4": (42, hf.Glm4Config(
            **shape(20, 2, 1, 28), head_dim=12, rms_norm_eps=1e-5,
            rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), dict(
            what="half of each head in adjacent pairs, gate‖up as one; norms around each branch")),
        "hunyuan": (43, hf.HunYuanDenseV1Config(
            **shape(20, 2, 1, 28), head_dim=12, rms_norm_eps=1e-5, tie_word_embeddings=True,
            rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 50.0, "factor": 1.0}), dict(
            what="norms of q and k after the rotation, whose base alpha stretches", qk=(1,))),
        "exaone": (44, hf.LlamaConfig(
            **shape(24, 3, 1, 28), rms_norm_eps=1e-5, rope_parameters=rope(500000.0) | LLAMA3), dict(
            what="Llama and Granite under the names of programs that transformers does not have (`renamed.py`)",
            rewrite=as_exaone, patterns=())),
        "exaone4": (45, hf.Exaone4Config(
            **shape(18, 3, 1, 22, layers=2), rms_norm_eps=1e-5, sliding_window=7,
            layer_types=["sliding_attention", "full_attention"], rope_parameters=rope(1e6)), dict(
            what="norms after the branches, norms of q and k; a window of 7 with rope and a full layer without; "
                 "no window and rope in all", patterns=(0, 1))),
        "exaone4_full": (46, hf.Exaone4Config(
            **shape(18, 3, 1, 20), rms_norm_eps=1e-5, tie_word_embeddings=True, sliding_window=None,
            layer_types=["full_attention"] * 2, rope_parameters=rope(1e6)), dict(
            what="norms after the branches, norms of q and k; a window of 7 with rope and a full layer without; "
                 "no window and rope in all", patterns=())),
        "minicpm": (47, hf.GraniteConfig(
            **shape(24, 3, 1, 28), rms_norm_eps=1e-5, tie_word_embeddings=True, embedding_multiplier=3.0,
            residual_multiplier=1.4 / 2**0.5, attention_multiplier=8**-0.5, logits_scaling=1.5,
            rope_parameters=rope(10000.0)), dict(
            what="Llama and Granite under the names of programs that transformers does not have (`renamed.py`)",
            rewrite=as_minicpm, patterns=())),
        "vaultgemma": (48, hf.VaultGemmaConfig(
            **shape(18, 2, 1, 20), head_dim=8, rms_norm_eps=1e-6, sliding_window=7, query_pre_attn_scalar=11,
            attn_logit_softcapping=2.0, final_logit_softcapping=4.0, rope_parameters=rope(10000.0)), dict(
            what="Gemma 2 without norms after the branches", patterns=(0,))),
        "cwm": (49, hf.CwmConfig(
            **shape(24, 3, 1, 26, layers=3), head_dim=8, rms_norm_eps=1e-5, sliding_window=7,
            layer_types=["full_attention", "sliding_attention", "sliding_attention"], rope_parameters=LLAMA3), dict(
            what="Llama whose layers differ in windows", patterns=(0, 1))),
        "biogpt": (50, hf.BioGptConfig(
            hidden_size=18, num_attention_heads=3, num_hidden_layers=2, intermediate_size=26, vocab_size=33,
            max_position_embeddings=32, bos_token_id=0, eos_token_id=1), dict(
            what="embeddings times the root of their width, erf GELU; sines and cosines as positions",
            patterns=())),
        "xglm": (51, hf.XGLMConfig(
            d_model=18, attention_heads=3, num_layers=2, ffn_dim=26, vocab_size=33, max_position_embeddings=32,
            bos_token_id=0, eos_token_id=1), dict(
            what="embeddings times the root of their width, erf GELU; sines and cosines as positions",
            patterns=())),
        "lfm2": (58, hf.Lfm2Config(
            **shape(20, 2, 1, 33, layers=4), norm_eps=1e-5, conv_L_cache=3, block_multiple_of=6,
            layer_types=["conv", "full_attention", "conv", "conv"], rope_parameters=rope(1e6)), dict(
            what="short convolutions of 3 tokens in three layers, attention with norms of q and k in one")),
        "apertus": (62, hf.ApertusConfig(**shape(20, 2, 1, 33), rms_norm_eps=1e-5, rope_parameters=rope(12e6) | LLAMA3), dict(
            what="xIELU with weights in each layer, norms of q and k, Llama-3 frequency scaling")),
        "granite_4": (63, hf.GraniteMoeHybridConfig(
            **shape(24, 3, 1, 28), rms_norm_eps=1e-5, tie_word_embeddings=True, embedding_multiplier=3.0,
            residual_multiplier=0.7, attention_multiplier=0.3, logits_scaling=1.5, num_local_experts=0,
            shared_intermediate_size=33, layer_types=["attention"] * 2, position_embedding_type="rope",
            mamba_n_heads=2, mamba_d_head="auto", rope_parameters=rope(10000.0)), dict(
            what="Granite with attention in all layers and gate‖up as one", qk=(1,))),
        "phi_norms": (64, hf.PhiConfig(**shape(24, 3, 1, 30), layer_norm_eps=1e-5, tie_word_embeddings=False, qk_layernorm=True,
                                   rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), dict(
            what="LayerNorm of each head of q and k, with biases; 3 heads on 1", patterns=())),
        "granite_4_moe": (74, hf.GraniteMoeHybridConfig(
            **shape(20, 2, 1, 9), rms_norm_eps=1e-5, tie_word_embeddings=True, embedding_multiplier=3.0,
            residual_multiplier=0.7, attention_multiplier=0.3, logits_scaling=1.5, num_local_experts=4, num_experts_per_tok=2,
            shared_intermediate_size=11, layer_types=["attention"] * 2, position_embedding_type="rope",
            mamba_n_heads=2, mamba_d_head="auto", rope_parameters=rope(10000.0)), dict(
            what="Granite's mixture with a shared expert, attention in all layers", patterns=())),
        "minimax_m2": (75, hf.MiniMaxM2Config(
            **shape(20, 4, 2, 9), head_dim=6, num_local_experts=5, num_experts_per_tok=2, rms_norm_eps=1e-6,
            rope_parameters=rope(5e6, partial_rotary_factor=2 / 3)), dict(
            what="sigmoids and a bias, norms of all of q and k, two thirds of each head rotated", patterns=())),
        "exaone_moe": (76, hf.ExaoneMoeConfig(
            **shape(18, 3, 1, 20, layers=4), num_experts=4, num_experts_per_tok=2, moe_intermediate_size=7,
            num_shared_experts=1, rms_norm_eps=1e-5, sliding_window=7, rope_parameters=rope(1e6)), dict(
            what="sigmoids and a bias, windows of 7 with rope and a full layer without; the first layer is plain",
            patterns=(0, 3))),
        "solar_open": (77, hf.SolarOpenConfig(
            **without(shape(20, 2, 1, 0), "intermediate_size"), head_dim=8, n_routed_experts=5, num_experts_per_tok=2,
            moe_intermediate_size=7, n_shared_experts=1, norm_topk_prob=True, routed_scaling_factor=1.5,
            rope_parameters=rope(1e6)), dict(
            what="GLM-4.5's mixture in all layers, whole heads rotated, no norms of q and k", patterns=())),
        "sarvam_moe": (78, hf.SarvamMoEConfig(
            **shape(20, 4, 2, 18), head_dim=6, n_routed_experts=5, num_experts_per_tok=2, moe_intermediate_size=7,
            n_shared_experts=1, first_k_dense_replace=1, attention_bias=True, rope_parameters=rope(8e6)), dict(
            what="q‖k‖v as one under GLM-4.5's arithmetic", patterns=())),
        "hy_v3": (79, hf.HYV3Config(
            **shape(20, 4, 2, 18), head_dim=6, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=7,
            num_shared_experts=2, router_scaling_factor=2.0, rms_norm_eps=1e-5, rope_parameters=rope(1e6)), dict(
            what="sigmoids and a bias, norms of q and k; the first layer is plain", patterns=())),
        "mellum": (80, hf.MellumConfig(
            **shape(20, 2, 1, 18, layers=3), head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=7,
            rms_norm_eps=1e-6, sliding_window=7, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            mlp_layer_types=["sparse", "dense", "sparse"], rope_parameters={
                "full_attention": {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0,
                                   "original_max_position_embeddings": 16}, "sliding_attention": rope(10000.0)}), dict(
            what="windows of 7 with a rope of their own, YaRN elsewhere; the second layer is plain", patterns=(0, 1))),
        "phimoe": (81, hf.PhimoeConfig(
            **shape(24, 4, 2, 14), num_local_experts=5, num_experts_per_tok=2, router_jitter_noise=0.2, rms_norm_eps=1e-5,
            attention_bias=True, lm_head_bias=True, rope_parameters=rope(10000.0)), dict(
            what="the sparse mixer, LayerNorms, a bias of the head", patterns=())),
        "persimmon": (82, hf.PersimmonConfig(
            **without(shape(24, 3, 0, 33), "num_key_value_heads"), rope_parameters=rope(25000.0, partial_rotary_factor=0.5)), dict(
            what="LayerNorms of q and k with biases, ReLU², half of each head rotated, q‖k‖v by heads", patterns=())),
        "hyperclovax": (83, hf.HyperCLOVAXConfig(
            **shape(24, 3, 1, 28), rms_norm_eps=1e-5, tie_word_embeddings=True, embedding_multiplier=3.0,
            residual_multiplier=0.7, attention_multiplier=0.3, logits_scaling=0.6, rope_parameters=rope(10000.0)), dict(
            what="Granite's scales, which multiply the logits, norms around the branches", patterns=())),
        "granite_swa": (97, hf.GraniteSWAConfig(
            **shape(24, 4, 2, 28, layers=4), rms_norm_eps=1e-5, tie_word_embeddings=True, embedding_multiplier=3.0,
            residual_multiplier=0.7, attention_multiplier=0.3, logits_scaling=1.5, sliding_window=7,
            layer_rope_theta=[0, 10000.0, 10000.0, 10000.0], rope_parameters=rope(10000.0)), dict(
            what="Granite with a sink for each head, windows of 7, a full layer without rope", patterns=())),
        "granitemoe_swa": (98, hf.GraniteMoeSWAConfig(
            **shape(20, 2, 1, 18), rms_norm_eps=1e-5, num_local_experts=5, num_experts_per_tok=2, shared_intermediate_size=13,
            embedding_multiplier=3.0, residual_multiplier=0.7, attention_multiplier=0.3, logits_scaling=1.5, sliding_window=7,
            layer_rope_theta=[10000.0, 500.0], rope_parameters=rope(10000.0)), dict(
            what="the same with 2 of 5 experts and a shared one, another rope base in windowed layers", patterns=())),
        "flint": (99, hf.FlintConfig(
            **shape(20, 4, 2, 18, layers=4), head_dim=6, rms_norm_eps=1e-6, num_experts=5, num_experts_per_tok=2,
            moe_intermediate_size=7, shared_expert_intermediate_size=11, norm_topk_prob=True, sliding_window=7,
            layer_types=["full_attention", "sliding_attention"] * 2, mlp_only_layers=[0], rope_parameters=rope(10000.0)), dict(
            what="a sink for each head, rope in windowed layers alone, 2 of 5 experts by sigmoids and a shared one",
            patterns=(0, 1))),
        "kolibri1": (100, hf.Kolibri1Config(
            **without(shape(20, 2, 1, 0, layers=3), "intermediate_size"), head_dim=8, rms_norm_eps=1e-6, num_experts=6,
            num_experts_per_tok=3, moe_intermediate_size=7, shared_expert_intermediate_size=9, norm_topk_prob=True,
            sliding_window=7, layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            rope_parameters=rope(10000.0)), dict(
            what="experts by scores and a bias, weighed by sigmoids; norms around the branches", patterns=())),
        "cohere2_moe": (101, hf.Cohere2MoeConfig(
            **shape(24, 4, 2, 9, layers=4), head_dim=8, layer_norm_eps=1e-5, tie_word_embeddings=True, logit_scale=0.5,
            num_experts=5, num_experts_per_tok=2, num_shared_experts=2, expert_selection_fn="sigmoid", norm_topk_prob=True,
            prefix_dense_intermediate_size=18, mlp_layer_types=["dense"] + ["sparse"] * 3, sliding_window=7,
            layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
            rope_parameters=rope(10000.0)), dict(
            what="Cohere's layers with half of shared experts and 2 of 5; the plain first layer is rotated", patterns=())),
        "aria": (113, hf.AriaTextConfig(
            **shape(20, 2, 1, 9), rms_norm_eps=1e-6, moe_num_experts=5, moe_topk=2, moe_num_shared_experts=3, rope_parameters=rope(5e6)), dict(
            what="2 of 5 experts by softmax, stored [in, out], and three shared ones", patterns=(), qk=(1,))),
        "ctrl": (114, hf.CTRLConfig(n_embd=18, n_head=3, n_layer=2, dff=22, n_positions=32, vocab_size=33), dict(
            what="sines, then cosines as positions, a factor of the embedding, ReLU, a bias of the tied head")),
        "mllama": (116, hf.MllamaTextConfig(
            **shape(20, 2, 1, 18, layers=4), cross_attention_layers=[1, 3], rms_norm_eps=1e-5, rope_parameters=LLAMA3), dict(what="layers of cross attention that are left out, a table that is longer than the head", patterns=(), qk=(0,))),
        "cohere_compass": (112, hf.CohereCompassTextConfig(
            **shape(24, 4, 2, 18, layers=4), layer_norm_eps=1e-5, tie_word_embeddings=True, logit_scale=0.5, sliding_window=7,
            layer_types=["sliding_attention"] * 3 + ["full_attention"],
            rope_parameters=dict(full_attention=None, sliding_attention=rope(10000.0, mrope_section=[1, 1, 1]))), dict(what="Cohere 2 with rope of halves, of layers with a window alone", patterns=(), qk=(1,))),
        "gpt_neox_japanese": (102, hf.GPTNeoXJapaneseConfig(
            **without(shape(24, 3, 3, 0), "intermediate_size", "num_key_value_heads"), layer_norm_eps=1e-5,
            rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), dict(
            what="Pythia's layers without biases, but for attention's in the last layer, one branch after the other",
            patterns=())),
        "gpt_oss": (66, hf.GptOssConfig(
            **shape(20, 4, 2, 18), head_dim=6, num_local_experts=5, num_experts_per_tok=2, rms_norm_eps=1e-5,
            sliding_window=7, swiglu_limit=1.5, rope_parameters={
                "rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "beta_fast": 4.0, "beta_slow": 1.0,
                "truncate": False, "original_max_position_embeddings": 16}), dict(
            what="a sink for each head, every other layer a window of 7, YaRN whose bounds are fractions of pairs; "
                 "2 of 5 experts with biases and limits", patterns=(0, 1), qk=(1,))),
        "gemma4": (80, gemma4(
            20, 4, 4, num_key_value_heads=2, head_dim=6, global_head_dim=12, num_global_key_value_heads=1,
            attention_k_eq_v=True, final_logit_softcapping=6.0, hidden_size_per_layer_input=0,
            layer_types=["sliding_attention", "full_attention"] * 2), dict(
            what="full layers with wider heads, fewer of keys, values that are keys and a quarter of the pairs rotated; "
                 "norms of values, a factor after each layer", patterns=(0, 1))),
        "gemma4_e": (81, gemma4(
            16, 2, 7, num_key_value_heads=1, head_dim=10, global_head_dim=8, hidden_size_per_layer_input=6,
            num_kv_shared_layers=4, use_double_wide_mlp=True,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2 + ["full_attention"]), dict(
            what="Gemma 4 E: an input of each layer, four layers that read keys and values of two, with MLPs twice as wide",
            patterns=(2, 6))),
    }


def gemma4(embd, heads, layers, **more):
    return transformers.Gemma4TextConfig(
        **shape(embd, heads, 1, 18, layers=layers, vocab=41) | more, vocab_size_per_layer_input=41, rms_norm_eps=1e-6,
        sliding_window=7, tie_word_embeddings=True, rope_parameters={
            "full_attention": dict(rope_type="proportional", rope_theta=1e6, partial_rotary_factor=0.5),
            "sliding_attention": rope(10000.0)})


def neox(parallel, embd, rotated):
    return transformers.GPTNeoXConfig(
        hidden_size=embd, num_attention_heads=2, intermediate_size=34, num_hidden_layers=2,
        vocab_size=33, max_position_embeddings=64, layer_norm_eps=1e-5, hidden_act="gelu",
        use_parallel_residual=parallel, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0,
        rope_parameters=rope(10000.0, partial_rotary_factor=rotated))
