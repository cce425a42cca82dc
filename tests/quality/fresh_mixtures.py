"""Random configurations of mixtures of experts, for fresh.py."""
import transformers as hf


def experts(d, key, norm=None):
    n = d.r.randint(1, 12)
    keys = {key: n, 'num_experts_per_tok': d.r.randint(1, n)}
    return dict(keys, **{norm: d.chance(0.5)}) if norm else keys


def sparse(d):
    """Qwen's mixtures: some layers may have a plain MLP."""
    return dict(experts(d, 'num_experts', 'norm_topk_prob'), moe_intermediate_size=d.r.randint(5, 70),
                decoder_sparse_step=d.of([1, 1, 2]),
                mlp_only_layers=[i for i in range(d.layers) if d.chance(0.2)])


def routed(d):
    """DeepSeek-V3's router."""
    groups = d.of([1, 1, 2, 3])
    used, each = d.r.randint(1, groups), d.r.randint(2, 5)
    return dict(n_routed_experts=groups * each, n_group=groups, topk_group=used, num_experts_per_tok=d.r.randint(1, used * each),
                moe_intermediate_size=d.r.randint(5, 40), n_shared_experts=d.of([1, 2]), first_k_dense_replace=d.r.randint(0, 2),
                norm_topk_prob=d.chance(0.7), routed_scaling_factor=d.of([1.0, 2.5]), **d.bias('attention_bias'))


def ernie_moe(d):
    n = d.r.randint(1, 8)
    return dict(moe_num_experts=n, moe_k=d.r.randint(1, n), moe_intermediate_size=d.r.randint(5, 40),
                moe_num_shared_experts=d.of([0, 1, 2]), moe_layer_start_index=d.r.randint(0, 2),
                moe_layer_end_index=d.of([-1, -1, 1]), moe_layer_interval=d.of([1, 1, 2]))


def without(keys, *names):
    return {k: v for k, v in keys.items() if k not in names}


def exaone_moe(d):
    keys = dict(d.shape(wide_heads=True), **without(routed(d), 'n_routed_experts', 'n_shared_experts', 'attention_bias', 'topk_group'))
    n = d.r.randint(2, 8)
    keys.update(num_experts=n, num_experts_per_tok=d.r.randint(1, n), num_shared_experts=d.of([1, 2]), n_group=1,
                mlp_layer_types=d.of([None, d.mlp_types()]), sliding_window=d.r.randint(1, 30),
                layer_types=d.of([None, d.layer_types()]))
    return hf.ExaoneMoeConfig(**keys, rope_parameters=d.rope('default default linear llama3'))


def mellum(d):
    keys = dict(d.shape(wide_heads=True), **experts(d, 'num_experts', 'norm_topk_prob'))
    return hf.MellumConfig(**keys, moe_intermediate_size=d.r.randint(5, 40), sliding_window=d.r.randint(1, 30),
                           layer_types=d.layer_types(), mlp_layer_types=d.of([None, d.mlp_types()]),
                           rope_parameters={'full_attention': d.rope('default yarn'), 'sliding_attention': d.rope('default')})


def dbrx(d):
    """Numbers of attention and of experts in objects of their own; the class asks for a clamp and for both rope bases."""
    keys, rope, n = d.shape(), d.rope('default default linear yarn'), d.r.randint(1, 12)
    attention = dict(clip_qkv=d.of([0.7, 8]), kv_n_heads=keys['num_key_value_heads'], rope_theta=rope['rope_theta'])
    experts_of = dict(ffn_hidden_size=keys['intermediate_size'], moe_num_experts=n, moe_top_k=d.r.randint(1, n),
                      moe_normalize_expert_weights=d.of([1.0, 1.0, None, 2.0]))
    return hf.DbrxConfig(d_model=keys['hidden_size'], n_heads=keys['num_attention_heads'], n_layers=d.layers, max_seq_len=d.n_ctx,
                         vocab_size=keys['vocab_size'], rope_parameters=rope, attn_config=attention, ffn_config=experts_of,
                         bos_token_id=0, eos_token_id=0)


def granite_swa(d):
    """Layers with windows; those of a kind have one rope base, or none."""
    types, full, local = d.layer_types(), d.of([10000.0, 5000.0]), d.of([10000.0, 300.0])
    keys = dict(layer_types=types, sliding_window=d.r.randint(1, 30))
    if d.chance(0.7):
        bases = [local if t == 'sliding_attention' else full for t in types]
        keys.update(layer_rope_theta=[0 if d.chance(0.3) else base for base in bases], rope_parameters=d.rope('default'))
    return keys


def flint(d):
    keys = dict(experts(d, 'num_experts', 'norm_topk_prob'), moe_intermediate_size=d.r.randint(5, 40),
                shared_expert_intermediate_size=d.r.randint(5, 40), layer_types=d.layer_types(),
                sliding_window=d.r.randint(1, 30))
    return dict(keys, mlp_only_layers=[i for i in range(d.layers) if d.chance(0.3)], **d.bias('attention_bias'))


def kolibri(d):
    keys = without(d.shape(wide_heads=True), 'intermediate_size')
    keys.update(experts(d, 'num_experts', 'norm_topk_prob'), moe_intermediate_size=d.r.randint(5, 40),
                shared_expert_intermediate_size=d.r.randint(5, 40), layer_types=d.layer_types(),
                sliding_window=d.r.randint(1, 30))
    return hf.Kolibri1Config(**keys, rope_parameters=d.rope())


def cohere2_moe(d):
    keys = dict(experts(d, 'num_experts', 'norm_topk_prob'), logit_scale=d.real(0.05, 1), sliding_window=9,
                num_shared_experts=d.of([0, 1, 2]), expert_selection_fn=d.of(['softmax', 'sigmoid']),
                mlp_layer_types=d.of([None, d.mlp_types()]), layer_types=d.layer_types(),
                shared_expert_combination_strategy=d.of(['average', 'average', 'average', 'sum']))
    return dict(keys, prefix_dense_intermediate_size=d.of([None, 23]), prefix_dense_sliding_window_pattern=d.of([1, 1, 1, 4]),
                rms_norm_eps=d.of([None] * 4 + [1e-5]), **d.bias('attention_bias'))


def phimoe(d):
    keys = dict(d.shape(), num_local_experts=d.r.randint(2, 8), num_experts_per_tok=2,
                router_jitter_noise=d.of([0.01, 0.01, 0.1, 0.4]), sliding_window=d.of([None, 9]),
                **d.bias('attention_bias', 'lm_head_bias'))
    rope = d.rope('default default longrope')
    if rope['rope_type'] == 'longrope':  # its class takes the short factors for long texts, too
        rope.update(short_mscale=d.real(1, 1.5), long_mscale=d.real(1, 1.5), original_max_position_embeddings=d.n_ctx)
    return hf.PhimoeConfig(**keys, rope_parameters=rope)
