"""Configurations of models with gates of heads, and of Gemma 4, for fresh.py."""
import transformers as hf
from fresh_mixtures import experts


def afmoe(d):
    keys = dict(d.shape(wide_heads=True), **experts(d, 'num_experts'))
    types = d.of([None, d.layer_types(), ['sliding_attention'] * d.layers])
    return hf.AfmoeConfig(**keys, layer_types=types, moe_intermediate_size=d.r.randint(5, 40), sliding_window=d.r.randint(1, 30),
                          num_shared_experts=d.of([0, 1, 2]), num_dense_layers=d.r.randint(0, 2), route_scale=d.of([1.0, 2.8]),
                          global_attn_every_n_layers=d.of([2, 4]), mup_enabled=d.chance(0.7), rope_parameters=d.rope(),
                          **d.bias('attention_bias'))


def beam(d):
    """Two experts or more in a group; the growth of queries shows more the longer the text."""
    keys, groups, each = d.shape(wide_heads=True), d.of([1, 2, 4]), d.r.randint(2, 4)
    used = d.r.randint(1, groups)
    types = d.of([None, d.layer_types(), ['sliding_attention'] * d.layers, ['full_attention'] * d.layers])
    ropes = {'full_attention': None, 'sliding_attention': d.rope(kinds='default')}
    return hf.BeamConfig(**keys, num_experts=groups * each, num_experts_per_tok=d.r.randint(1, used * each),
                         n_group=groups, topk_group=used, norm_topk_prob=d.chance(0.7), routed_scaling_factor=d.of([1.0, 2.5]),
                         layer_types=types, mlp_layer_types=d.of([None, d.mlp_types()]), moe_intermediate_size=d.r.randint(5, 40),
                         sliding_window=d.r.randint(1, 30), final_logit_softcapping=d.of([None, 9.0, 30.0]),
                         rope_parameters=d.of([None, ropes, ropes]), **d.bias('attention_bias'))


def laguna(d):
    """Heads per layer are multiples of the KV heads; layers with a window have a rope of their own."""
    keys = dict(d.shape(wide_heads=True), **experts(d, 'num_experts'))
    kv, types = keys['num_key_value_heads'], d.of([None, d.layer_types(), ['sliding_attention'] * d.layers])
    heads = [kv * d.of([1, 2, 3, 5]) for _ in range(d.layers)]
    mlps = [d.of(['dense', 'sparse', 'sparse']) for _ in range(d.layers)]
    full = d.rope(kinds='default default yarn', rotated=d.of([None, 1.0]))
    ropes = {'full_attention': full, 'sliding_attention': d.rope(kinds='default')}
    return hf.LagunaConfig(**keys, layer_types=types, moe_intermediate_size=d.r.randint(5, 40), sliding_window=d.r.randint(1, 30),
                           shared_expert_intermediate_size=d.r.randint(5, 40), mlp_layer_types=d.of([None, mlps]),
                           num_attention_heads_per_layer=d.of([None, heads, heads]), moe_routed_scaling_factor=d.of([1.0, 2.5]),
                           gating=d.of([True, 'per-head', 'per-element']), rope_parameters=d.of([None, ropes, ropes, ropes]),
                           **d.bias('attention_bias'))


def mimo(d):
    """Layers with a window have twice the KV heads, sinks and a rope of their own; values have a width of their own."""
    n = d.r.randint(2, 12)
    keys = dict(d.shape(wide_heads=True), n_routed_experts=n, num_experts_per_tok=d.r.randint(1, n))
    if keys['num_attention_heads'] % (2 * keys['num_key_value_heads']):
        keys['num_attention_heads'] = 2 * keys['num_key_value_heads'] * d.of([1, 2])
    mlps = [d.of(['dense', 'sparse', 'sparse']) for _ in range(d.layers)]
    rotated = [d.of([0.5, 1.0]) for _ in range(2)]
    ropes = {'full_attention': d.rope(kinds='default default yarn', rotated=rotated[0]),
             'sliding_attention': d.rope(kinds='default', rotated=rotated[1])}
    return hf.MiMoV2FlashConfig(**keys, layer_types=d.of([None, d.layer_types()]), moe_intermediate_size=d.r.randint(5, 40),
                                v_head_dim=d.of([d.head_dim, 4, 12, 20]), sliding_window=d.r.randint(1, 30), mlp_layer_types=d.of([None, mlps]),
                                attention_value_scale=d.of([None, 0.707, 1.5]), rope_parameters=d.of([ropes, ropes, ropes, None]),
                                norm_topk_prob=d.of([True, True, False]), routed_scaling_factor=d.of([None, 1.0, 2.5]),
                                **d.bias('attention_bias'))


def lfm3(d):
    keys = dict(d.shape(), head_dim=d.head_dim, conv_L_cache=d.of([1, 3, 7]), sliding_window=d.r.randint(1, 30))
    types = [d.of(['conv', 'full_attention', 'sliding_attention']) for _ in range(d.layers)]
    full = d.rope(kinds='default linear llama3 yarn dynamic', rotated=d.of([None, 1.0]))
    if d.chance(0.4):
        full = {'rope_type': 'proportional', 'rope_theta': 1e6, 'partial_rotary_factor': d.of([0.25, 0.5, 1.0])}
    ropes = {'full_attention': full, 'sliding_attention': d.rope(kinds='default')}
    return hf.Lfm3Config(**keys, norm_eps=1e-5, layer_types=d.of([None, types, types]), rope_parameters=ropes,
                         use_sandwich_norm=d.chance(0.9), use_attention_gate=d.chance(0.9))


def gemma4(d, config=hf.Gemma4TextConfig):
    keys = d.shape(wide_heads=True)
    heads, layers = keys['num_attention_heads'], d.r.randint(2, 7)
    own = d.r.randint(2, layers)
    types = [d.of(['full_attention', 'sliding_attention', 'sliding_attention']) for _ in range(layers - 1)] + ['full_attention']
    if set(types[:own]) != set(types):
        own = layers
    width, kv = d.of([4, 8, 12, 24]), [k for k in (1, 2, 3, 4, 6) if heads % k == 0]
    inputs = d.of([0, 0, 5, 16])
    keys.update(num_hidden_layers=layers, layer_types=types, num_kv_shared_layers=layers - own)
    full = {**d.rope('proportional proportional default'), 'partial_rotary_factor': d.of([0.25, 0.5, 1.0])}
    if config is hf.Gemma4TextConfig:
        keys.update(hidden_size_per_layer_input=inputs, vocab_size_per_layer_input=keys['vocab_size'])
    return config(
        **keys, global_head_dim=width, attention_k_eq_v=d.chance(0.5), num_global_key_value_heads=d.of([None, *kv]),
        use_double_wide_mlp=d.chance(0.5),
        sliding_window=d.r.randint(1, 30), final_logit_softcapping=d.of([None, 5.0]), attention_bias=d.chance(0.2),
        rope_parameters={'full_attention': full, 'sliding_attention': d.rope('default')},
        hidden_activation=d.act('gelu_pytorch_tanh'))
