"""The golden models with gates of heads, and of ModernBERT. See hf_configs.py."""

import transformers

from hf_shape import rope, shape, without


def models():
    """As models of hf_configs.py."""
    hf = transformers
    return {
        "afmoe": (103, hf.AfmoeConfig(
            **shape(20, 4, 2, 18, layers=4), head_dim=6, moe_intermediate_size=7, num_experts=5, num_experts_per_tok=2,
            num_shared_experts=2, num_dense_layers=1, route_scale=2.8, sliding_window=7, global_attn_every_n_layers=4,
            mup_enabled=True, route_norm=True, score_func="sigmoid", tie_word_embeddings=False, rms_norm_eps=1e-5,
            rope_parameters=rope(10000.0)), dict(
            what="a gate for each value that heads mix; full layers without rope, norms around the branches, 2 of 5 "
                 "experts by sigmoids and a bias", patterns=(0, 3), qk=(1,))),
        "beam": (114, hf.BeamConfig(
            **shape(20, 4, 2, 18, layers=4), head_dim=6, rms_norm_eps=1e-5, attention_bias=True, num_experts=8,
            num_experts_per_tok=3, moe_intermediate_size=7, n_group=4, topk_group=2, norm_topk_prob=True,
            routed_scaling_factor=2.5, final_logit_softcapping=9.0, sliding_window=7,
            layer_types=["sliding_attention", "full_attention"] * 2, mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
            rope_parameters={"sliding_attention": rope(500.0), "full_attention": None}), dict(
            what="a residual scaled by depth, queries that grow where nothing is rotated, gates with a bias for each head",
            patterns=(0, 1))),
        "modernbert_decoder": (117, hf.ModernBertDecoderConfig(
            **without(shape(24, 3, 3, 17, layers=4), "num_key_value_heads", "pad_token_id"), pad_token_id=2, norm_eps=1e-5, norm_bias=True, mlp_bias=True, classifier_bias=True,
            local_attention=14, rope_parameters=dict(full_attention=rope(500.0), sliding_attention=rope(10000.0))), dict(
            what="a matrix, GELU and a norm before the head; no norm before the first attention; every third layer without a window of 7 and with another rope",
            patterns=(0, 1), qk=(1,))),
        "laguna": (105, hf.LagunaConfig(
            **shape(20, 4, 2, 18, layers=5), head_dim=8, moe_intermediate_size=7, num_experts=5, num_experts_per_tok=2,
            shared_expert_intermediate_size=11, moe_routed_scaling_factor=2.5, sliding_window=7, rms_norm_eps=1e-5,
            layer_types=["full_attention", *["sliding_attention"] * 3, "full_attention"],
            num_attention_heads_per_layer=[4, 6, 6, 6, 4], mlp_layer_types=["dense", *["sparse"] * 4],
            rope_parameters={"full_attention": rope(500000.0, rope_type="yarn", factor=4.0, partial_rotary_factor=0.5,
                                                    original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0),
                             "sliding_attention": rope(10000.0, partial_rotary_factor=1.0)}), dict(
            what="a softplus gate for each head; six heads in layers with a window, which have a rope of their own, four in "
                 "the others, half of them rotated with YaRN; 2 of 5 experts by sigmoids and a bias", patterns=(0, 1), qk=(1,))),
        "laguna_values": (106, hf.LagunaConfig(
            **shape(18, 3, 1, 14), head_dim=6, gating="per-element", moe_intermediate_size=11, num_experts=4, num_experts_per_tok=2,
            shared_expert_intermediate_size=8, attention_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-6,
            rope_parameters={"full_attention": rope(500000.0, partial_rotary_factor=1.0)}), dict(
            what="a softplus gate for each value that heads mix, biases, no windows", patterns=())),
        "mimo_v2_flash": (107, hf.MiMoV2FlashConfig(
            **shape(22, 4, 1, 18, layers=5), head_dim=10, v_head_dim=7, moe_intermediate_size=13, n_routed_experts=6, num_experts_per_tok=2,
            n_group=2, topk_group=1, routed_scaling_factor=1.5, norm_topk_prob=True, sliding_window=6, rms_norm_eps=1e-5,
            layer_types=["full_attention", *["sliding_attention"] * 2, "full_attention", "sliding_attention"],
            attention_value_scale=0.7, mlp_layer_types=["dense", *["sparse"] * 4],
            rope_parameters={"full_attention": rope(5e6, partial_rotary_factor=0.4),
                             "sliding_attention": rope(10000.0, partial_rotary_factor=0.6)}), dict(
            what="values narrower than keys, times 0.7; two KV heads, sinks and a rope of their own in layers with a window, one KV "
                 "head in the others; 2 of 6 experts in groups by sigmoids and a bias", patterns=(0, 1), qk=(1,))),
        "lfm3": (104, hf.Lfm3Config(
            **shape(18, 3, 1, 31, layers=5), head_dim=6, conv_L_cache=4, sliding_window=6, norm_eps=1e-5,
            layer_types=["conv", "full_attention", "sliding_attention", "conv", "sliding_attention"],
            rope_parameters={"full_attention": rope(1e6, rope_type="proportional", partial_rotary_factor=0.5),
                             "sliding_attention": rope(10000.0)}), dict(
            what="a gate for each head; short convolutions of 4 tokens, windows with a rope of their own, half of the "
                 "pairs rest in the full layer, norms around the branches", patterns=(1, 2))),
    }
