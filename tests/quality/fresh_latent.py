"""Random configurations of latent attention, for fresh.py."""
from fresh_mixtures import routed


def latent(d, config, kinds, more):
    """Attention from a latent: DeepSeek's and MiniCPM3's."""
    keys = d.shape(kv=False)
    keys['num_key_value_heads'] = keys['num_attention_heads']
    d.head_dim = d.of([2, 4, 6, 10])  # what is rotated
    rope = d.rope(kinds)
    if rope['rope_type'] == 'yarn' and d.chance(0.7):
        rope['mscale_all_dim'] = d.of([0.707, 1.0, 0.4])
        rope['mscale'] = d.of([rope['mscale_all_dim'], 1.0])
    keys.update(q_lora_rank=d.of([None, d.r.randint(3, 40)]), kv_lora_rank=2 * d.r.randint(2, 45),
                qk_nope_head_dim=2 * d.r.randint(1, 10), qk_rope_head_dim=d.head_dim, v_head_dim=d.r.randint(1, 24),
                rms_norm_eps=d.of([1e-6, 1e-5, 1e-3]), rope_parameters=rope, **d.bias('attention_bias'))
    return config(**keys | more(d))


def deepseek_v2(d):
    keys = routed(d)
    for key in ('norm_topk_prob', 'attention_bias'):
        del keys[key]
    return dict(keys, topk_method=d.of(['greedy', 'group_limited_greedy']))


def deepseek_v3(d):
    keys = routed(d)
    del keys['attention_bias']
    return dict(keys, rope_interleave=d.chance(0.9))


def with_types(d):
    """DeepSeek-V3's, with a list of the layers that are mixtures."""
    keys = deepseek_v3(d)
    del keys['first_k_dense_replace']
    return dict(keys, mlp_layer_types=d.of([None, d.mlp_types()]))


def axk1(d):
    return dict(with_types(d), q_lora_rank=d.r.randint(3, 40))


def indexed(d):
    keys = with_types(d)
    del keys['rope_interleave']
    return dict(keys, q_lora_rank=d.r.randint(3, 40), index_topk=d.of([40, 44, 2048]), index_n_heads=d.of([1, 3]),
                index_head_dim=d.head_dim + d.of([0, 2]), first_k_dense_replace=d.r.randint(0, 2))


def youtu(d):
    return dict(rope_interleave=d.chance(0.9))


def minicpm3(d):
    return dict(scale_emb=d.real(0.5, 12), scale_depth=d.real(0.5, 2), dim_model_base=d.of([8, 16, 20]), **d.bias('mlp_bias'))
