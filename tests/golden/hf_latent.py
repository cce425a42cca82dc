"""The golden models with latent attention (MLA). See hf_configs.py."""

import transformers

from hf_shape import rope, shape


def models():
    """As models of hf_configs.py."""
    hf = transformers
    return {
        "deepseek_v2": (90, hf.DeepseekV2Config(
            **shape(24, 3, 3, 18, layers=3), q_lora_rank=None, kv_lora_rank=10, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6,
            n_routed_experts=5, num_experts_per_tok=2, moe_intermediate_size=7, n_shared_experts=2, first_k_dense_replace=1,
            rms_norm_eps=1e-6, rope_parameters=rope(10000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=16,
                                                    mscale=0.707, mscale_all_dim=0.707)), dict(
            what="DeepSeek-V2-Lite: latent attention, queries of h, YaRN that multiplies scores", patterns=(0, 2))),
        "deepseek_v2_groups": (93, hf.DeepseekV2Config(
            **shape(20, 2, 2, 18), q_lora_rank=9, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8,
            n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=7, n_shared_experts=1, n_group=4, topk_group=2,
            topk_method="group_limited_greedy", first_k_dense_replace=0, rope_parameters=rope(10000.0)), dict(
            what="3 of 8 experts of the 2 of 4 groups with the largest one, by softmax", patterns=())),
        "deepseek_v3": (91, hf.DeepseekV3Config(
            **shape(20, 2, 2, 18, layers=3), q_lora_rank=8, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=9,
            n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=7, n_shared_experts=1, n_group=4, topk_group=2,
            first_k_dense_replace=1, attention_bias=True, rms_norm_eps=1e-6, rope_parameters=rope(10000.0)), dict(
            what="latent attention with a latent of queries, biases, DeepSeek-V3's router", patterns=(1,))),
        "minicpm3": (92, hf.MiniCPM3Config(
            **shape(20, 2, 2, 26, context=48), q_lora_rank=9, kv_lora_rank=11, qk_nope_head_dim=5, qk_rope_head_dim=6, v_head_dim=8,
            scale_emb=12, scale_depth=1.4, dim_model_base=8, rms_norm_eps=1e-3, tie_word_embeddings=True,
            rope_parameters=rope(10000.0, rope_type="longrope", original_max_position_embeddings=48,
                                 short_factor=[1.0, 1.5, 2.5], long_factor=[1.5, 3.0, 5.0])), dict(
            what="latent attention, rotated halves, LongRoPE, scaled branches, norms of latents with an eps of their own",
            patterns=())),
        "glm4_moe_lite": (94, hf.Glm4MoeLiteConfig(
            **shape(20, 2, 2, 18), q_lora_rank=9, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8,
            n_routed_experts=5, num_experts_per_tok=2, moe_intermediate_size=7, n_shared_experts=1,
            rope_parameters=rope(1e6)), dict(
            what="DeepSeek-V3's layers, the first one plain by a list", patterns=())),
        "deepseek_v32": (115, hf.DeepseekV32Config(
            **shape(20, 2, 2, 18, context=48), q_lora_rank=9, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8,
            n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=7, n_shared_experts=1, n_group=4, topk_group=2,
            first_k_dense_replace=1, index_topk=24, index_head_dim=6, index_n_heads=2, rope_parameters=rope(10000.0)), dict(
            what="DeepSeek-V3's layers; an indexer that is left out: it chooses 24 keys", patterns=())),
        "axk1": (95, hf.AXK1Config(
            **shape(20, 2, 2, 18), q_lora_rank=9, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8,
            n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=7, n_shared_experts=1, n_group=2, topk_group=1,
            rope_parameters=rope(10000.0)), dict(
            what="DeepSeek-V3's layers with a norm after mixtures", patterns=())),
        "youtu": (96, hf.YoutuConfig(
            **shape(20, 2, 2, 26), q_lora_rank=9, kv_lora_rank=11, qk_nope_head_dim=5, qk_rope_head_dim=6, v_head_dim=8,
            rms_norm_eps=1e-6, tie_word_embeddings=True, rope_parameters=rope(1e6)), dict(
            what="DeepSeek-V3's attention in a plain model, tied", patterns=())),
    }
