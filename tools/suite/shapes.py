"""The models of the suite that are no golden models: configurations and weights, for reference.py.

A model is a golden model (tests/golden) in another shape: width 128 with heads of 64, two layers, 272 tokens, bfloat16, and
what its row below changes.
"""
import json
import math
import pathlib
import re

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / 'tests/golden'
WIDTHS = {'hidden_size': 128, 'n_embd': 128, 'd_model': 128, 'intermediate_size': 128, 'ffn_dim': 128,
          'moe_intermediate_size': 64, 'shared_expert_intermediate_size': 96, 'shared_intermediate_size': 96,
          'head_dim': 64, 'rotary_dim': 32, 'word_embed_proj_dim': 128, 'vocab_size': 272, 'window_size': 48,
          'sliding_window': 48, 'query_pre_attn_scalar': 64, 'num_hidden_layers': 2, 'n_layer': 2, 'n_layers': 2,
          'num_layers': 2, 'num_attention_heads': 2, 'n_head': 2, 'n_heads': 2, 'num_heads': 2, 'attention_heads': 2,
          'max_position_embeddings': 256, 'n_positions': 256, 'max_seq_len': 256, 'seq_length': 256}
EXPERTS = ('mixtral', 'olmoe', 'granitemoe', 'granitemoeshared') # whose intermediate_size is an expert's
DROPPED = ('architectures', 'ffn_hidden_size', 'attention_layers', 'no_rope_layers', 'mlp_only_layers', 'time_step_limit',
           'mamba_d_head')


def every(n):
    """n layers of which the last is full: what the published models have, and some engines take for granted."""
    return {'num_hidden_layers': n, 'layer_types': ['sliding_attention'] * (n - 1) + ['full_attention']}


# What a golden model's configuration needs at this shape.
OF_MODEL = {
    'cohere2': every(4), 'gemma3': every(6),
    'bloom': {'hidden_size': 192, 'n_head': 3},
    'codegen': {'n_embd': 256, 'n_head': 4, 'n_inner': 512},
    'cwm': {'layer_types': ['full_attention', 'sliding_attention']},
    'granite': {'attention_multiplier': 0.1}, 'granite_4': {'attention_multiplier': 0.1},
    'granitemoe': {'attention_multiplier': 0.08}, 'granitemoeshared': {'attention_multiplier': 0.1},
    'minicpm': {'attention_multiplier': 0.125},
    'mpt': {'attn_config': {'clip_qkv': 1.5, 'softmax_scale': 0.2}},
    'olmo3': {**every(4), 'rope_parameters': {'rope_type': 'default', 'rope_theta': 500000.0}},
    'opt_350m': {'word_embed_proj_dim': 64},
    'phi3_longrope': {'original_max_position_embeddings': 128},
    'qwen2_moe': {'mlp_only_layers': [1]},
    'smollm3': {'num_hidden_layers': 4, 'layer_types': ['full_attention'] * 4},
    'qwen2_window': {'max_window_layers': 1},
}


def rope_at_shape(rope):
    """rope_parameters of a golden model, for heads of 64."""
    if 'rope_type' not in rope:
        return {kind: rope_at_shape(part) for kind, part in rope.items()}
    rope = dict(rope)
    if 'original_max_position_embeddings' in rope:
        rope['original_max_position_embeddings'] = 64
    if 'partial_rotary_factor' in rope:
        rope['partial_rotary_factor'] = 0.25 if rope['partial_rotary_factor'] < 0.45 else 0.5
    if 'short_factor' in rope:
        n = int(64 * rope.get('partial_rotary_factor', 1)) // 2
        rope.update(original_max_position_embeddings=128, short_factor=[1 + i / 64 for i in range(n)],
                    long_factor=[1 + i / 4 for i in range(n)])
    return rope


def golden_keys(base):
    return json.loads((GOLDEN / base / 'config.json').read_text())


def config_keys(base, keys, changes):
    """The keys of a configuration: the golden model's at the suite's shape, with changes."""
    keys = dict(keys)
    heads = next(keys[k] for k in ('num_attention_heads', 'n_head', 'n_heads', 'num_heads', 'attention_heads') if k in keys)
    for name in [k for k in keys if k in DROPPED]:
        del keys[name]
    for name, value in keys.items():
        if name in WIDTHS and value:
            keys[name] = WIDTHS[name]
        elif name in ('num_key_value_heads', 'num_kv_heads'):
            keys[name] = 2 if value == heads else 1
        elif name == 'layer_types':
            kinds = sorted(set(value), key=value.index)
            keys[name] = (kinds * 2)[:2]
        elif name == 'rope_parameters':
            keys[name] = rope_at_shape(value)
    if base in EXPERTS:
        keys['intermediate_size'] = 64
    return {**keys, **OF_MODEL.get(base, {}), **changes}


# ---- weights ----

TABLES = ('embed_tokens', 'wte', 'wpe', 'embed_in', 'embed_positions', 'word_embeddings', 'tokens_embed', 'positions_embed')
STEP = 255 / math.sqrt(3)  # standard deviation of 2 b - 255


def power_of(spread):
    return round(math.log2(spread / STEP))


def numbers_of(name, shape, model_type, changes):
    """Centre and power of a tensor (made.py); `changes` are (pattern, centre, spread)."""
    for pattern, centre, spread in changes:
        if re.search(pattern, name):
            return centre, power_of(spread)
    zero = model_type.startswith(('gemma', 'nemotron', 'vaultgemma'))  # norms that multiply by 1 + weight
    if name.endswith(('act_fn.beta', 'act_fn.eps')):  # xIELU's constants
        return (0.5 if name.endswith('beta') else -1e-6), -100
    if re.search('[qk]_(layer)?norm|query_layernorm|key_layernorm', name) and not name.endswith('bias'):
        return (0.5 if zero else 1.5), -9
    if len(shape) == 1:
        return (0.0, -10) if name.endswith('bias') else (0.0 if zero or name.endswith(('alpha_p', 'alpha_n')) else 1.0, -9)
    if any(part in name for part in TABLES):
        return 0.0, -8
    if 'conv.conv' in name:
        return 0.0, -8
    if re.search('[qk]_proj', name):  # sharp scores would show float32's angles; gpt_neo's are not divided by the root
        return 0.0, -12 if model_type == 'gpt_neo' else -11
    return 0.0, -10 if shape[-1] <= 192 else -11  # deviations of 0.14 and 0.07; of tables above 0.6


# ---- the plan ----

ROWS_100 = [0, 1, 2, 23, 47, 48, 49, 63, 64, 65, 98, 99]


ROWS_1500 = [0, 47, 255, 256, 257, 511, 512, 1023, 1024, 1499]
WIDER = ('a window of w keys before the own, as in Mistral\'s own program and FlashAttention\'s (w, w)',
         {'sliding_window': 257})
ALLOCATED = 'LongRoPE by the context that is allocated, as in llama.cpp: the factors for long texts'


def entry(name, group, what, base, n=100, rows=None, changes=None, weights=(), also=(), bug=None, convert=(),
          dtype='bfloat16'):
    """A model. convert: options of mgpt convert; bug: keys of a configuration with which the logits must be wrong, beyond what half precision does."""
    return {'id': name, 'group': group, 'what': what, 'base': base, 'changes': changes or {}, 'weights': weights, 'n': n,
            'rows': rows or ROWS_100, 'also': also, 'bug': bug, 'convert': convert, 'dtype': dtype}


def shape_entries(notes):
    """Every golden model at the suite's shape."""
    for base in sorted(p.parent.name for p in GOLDEN.glob('*/ref.npz')):
        if (GOLDEN / base / 'plain').exists():
            continue
        also = []
        if base in ('mistral_yarn', 'qwen2_window', 'starcoder2', 'phi3_longrope'):
            also.append((WIDER[0], {'sliding_window': 49}))
        if base == 'phi3_longrope':
            rope = rope_at_shape(golden_keys(base)['rope_parameters'])
            also.append((ALLOCATED, {'rope_parameters': {**rope, 'short_factor': rope['long_factor']}}))
        yield entry(base + '_64', 'shapes', 'heads of 64, bfloat16: ' + notes[base], base, also=also)


    yield entry('gpt2_erf_64', 'shapes', 'heads of 64, bfloat16: GPT-2 with erf GELU, as nanoGPT since 2023', 'gpt2',
                changes={'activation_function': 'gelu'})


def rope(kind, theta, **more):
    return {'rope_parameters': {'rope_type': kind, 'rope_theta': theta, **more}}


NO_WINDOW = {'sliding_window': 1536}
# id, base, keys that it changes, what, second answers, a bug
FAR = (
    ('rope', 'llama', {}, 'rope base 10000', (), rope('default', 5e5)),
    ('base_1e6', 'llama', rope('default', 1e6), 'rope base 1000000', (), rope('default', 1e4)),
    ('linear', 'llama', rope('linear', 10000.0, factor=4.0), 'linear scaling of rope', (), rope('default', 1e4)),
    ('llama3', 'llama3_rope', rope('llama3', 500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                   original_max_position_embeddings=256), 'Llama-3 frequency scaling', (), rope('default', 500000.0)),
    ('yarn', 'mistral_yarn', {**rope('yarn', 10000.0, factor=4.0, original_max_position_embeddings=512), 'sliding_window': None},
     'YaRN', (), rope('default', 10000.0)),
    ('window', 'mistral_yarn', {**rope('default', 10000.0), 'sliding_window': 256}, 'a window of 256 in all layers', (WIDER,), NO_WINDOW),
    ('longrope', 'phi3_longrope', {'sliding_window': None}, 'LongRoPE past the original context: factors for long texts', (), None),
    ('qwen2_window', 'qwen2_window', {'sliding_window': 256}, 'a window of 256 in the second layer', (WIDER,), NO_WINDOW),
    ('starcoder2', 'starcoder2', {'sliding_window': 256}, 'LayerNorm, biases, a window of 256', (WIDER,), NO_WINDOW),
    ('gemma2', 'gemma2', {'sliding_window': 256}, 'caps of scores, a window of 256 in the first layer', (), NO_WINDOW),
    ('gemma3', 'gemma3', {'sliding_window': 256}, 'a window of 256 with a rope base of its own, and a full layer', (), NO_WINDOW),
    ('cohere2', 'cohere2', {**every(2), 'sliding_window': 256}, 'a window of 256 with rope, every second layer full and without', (), NO_WINDOW),
    ('olmo3', 'olmo3', {'sliding_window': 256}, 'a window of 256 and a full layer', (), NO_WINDOW),
    ('exaone4', 'exaone4', {'sliding_window': 256}, 'a window of 256 with rope, a full layer without', (), NO_WINDOW),
    ('gpt_neo', 'gpt_neo', {'window_size': 256}, 'learned positions, a window of 256 in the second layer', (), {'window_size': 1536}),
    ('gpt2', 'gpt2', {}, 'learned positions', (), None),
    ('opt', 'opt', {}, 'learned positions from row 2 on', (), None),
    ('xglm', 'xglm', {}, 'sines and cosines as positions', (), None),
    ('bloom', 'bloom', {}, 'ALiBi of 3 heads', (), None),
    ('mpt', 'mpt', {}, 'ALiBi of 2 heads', (), None),
    ('gptj', 'gptj', {}, 'adjacent pairs of half of a head rotated', (), None),
    ('gpt_neox', 'gpt_neox', {}, 'a quarter of each head rotated', (), rope('default', 10000.0, partial_rotary_factor=0.5)),
    ('glm', 'glm', {}, 'half of each head in adjacent pairs', (), rope('default', 10000.0, partial_rotary_factor=1.0)),
    ('hunyuan', 'hunyuan', {}, 'a rope base that alpha stretches', (), rope('default', 10000.0)),
    ('smollm3', 'smollm3', {'num_hidden_layers': 2, 'layer_types': ['full_attention'] * 2, 'no_rope_layer_interval': 2}, 'every second layer without rope', (), {'no_rope_layer_interval': 3}),
    ('nanochat', 'nanochat', {}, 'the negative angle', (), None),
    ('lfm2', 'lfm2', {}, 'a short convolution and attention', (), None),
)
# Scores less sharp where float32's angles would show, sharper where a window would not.
FAR_WEIGHTS = {'rope': (('[qk]_proj', 0.0, 0.036),), 'longrope': (('qkv_proj', 0.0, 0.07),), 'window': (('[qk]_proj', 0.0, 0.14),),
               'olmo3': (('[qk]_norm', 1.0, 0.29),)}
CONTEXT_KEYS = ('max_position_embeddings', 'n_positions', 'max_seq_len', 'seq_length')


def far_entries():
    """Texts of 1,500 tokens."""
    for name, base, changes, what, also, bug in FAR:
        context = {key: 1536 for key in CONTEXT_KEYS if key in golden_keys(base)}
        yield entry('far_' + name, 'positions', '1,500 tokens: ' + what, base, 1500, ROWS_1500, {**context, **changes},
                    FAR_WEIGHTS.get(name, ()), also, bug, ('--context', '1536') if name == 'longrope' else ())


def small(tables, outputs, spread):
    """Weights that keep the residual as small as the epsilon's root: tables and outputs of the branches, with biases."""
    return (tables, 0.0, spread), (outputs, 0.0, spread / 12)


# Inputs below 0, where the forms of GELU differ by 15 %, and outputs that count. The sum 1 + erf(x) would show float32 there:
# where erf is right, inputs are nearer to 0, and the forms differ by 1 %.
BELOW = (('(c_fc|h_to_4h|fc1).bias', -2.15, 0.1), ('c_fc|h_to_4h|fc1', 0.0, 0.01), ('(mlp.c_proj|4h_to_h|fc2).w', 0.0, 40.0))
BELOW_FALCON = (('h_to_4h.bias', -2.45, 0.1), ('h_to_4h', 0.0, 0.01), ('4h_to_h.w', 0.0, 2.5))
FAR_BELOW = (('(c_fc|h_to_4h|fc1).bias', -3.2, 0.4), ('c_fc|h_to_4h|fc1', 0.0, 0.03), ('(mlp.c_proj|4h_to_h|fc2).w', 0.0, 20.0))
LLAMA_OUT = '(o|down)_proj'
# id, base, weights, keys that it changes, what, a bug
PRECISE = (
    ('eps_llama', 'llama', small('embed', LLAMA_OUT, 3e-3), {}, 'RMSNorm of values near the root of its epsilon, 1e-5',
     {'rms_norm_eps': 1e-6}),
    ('eps_qwen2', 'qwen2_sharded', small('embed', LLAMA_OUT, 1e-3), {}, 'RMSNorm of values near the root of its epsilon, 1e-6',
     {'rms_norm_eps': 1e-5}),
    ('eps_glm', 'glm', small('embed', LLAMA_OUT, 4e-4), {}, 'RMSNorm of values near the root of its epsilon, 1.5625e-7',
     {'rms_norm_eps': 1e-5}),
    ('eps_helium', 'helium', small('embed', LLAMA_OUT, 1e-4), {}, 'RMSNorm of values near the root of its epsilon, 1e-8',
     {'rms_norm_eps': 1e-6}),
    ('eps_gpt2', 'gpt2', small('wte|wpe', 'c_proj', 3e-3), {}, 'LayerNorm of values near the root of its epsilon, 1e-5',
     {'layer_norm_epsilon': 1e-6}),
    ('eps_gpt_neox', 'gpt_neox', small('embed_in', 'dense', 3e-3), {}, 'LayerNorms of values near the root of their epsilon, 1e-5',
     {'layer_norm_eps': 1e-6}),
    ('eps_cohere', 'cohere', small('embed', LLAMA_OUT, 3e-3), {}, 'LayerNorm without bias of values near the root of its epsilon',
     {'layer_norm_eps': 1e-6}),
    ('eps_olmo', 'olmo', small('embed', LLAMA_OUT, 3e-3), {}, 'LayerNorm without gain of values near the root of 1e-5',
     None),
    ('eps_olmo2', 'olmo2', ((LLAMA_OUT, 0.0, 1e-4), ('[qk]_proj', 0.0, 1e-3)), {}, 'norms of q, k and outputs near the root of 1e-6',
     {'rms_norm_eps': 1e-5}),
    ('eps_qwen3', 'qwen3', (('[qk]_proj', 0.0, 1e-4),), {}, 'norms of q and k of values near the root of their epsilon, 1e-6',
     {'rms_norm_eps': 1e-5}),
    ('eps_gemma2', 'gemma2', small('embed', LLAMA_OUT, 1e-4), {}, 'norms around the branches near the root of their epsilon, 1e-6',
     {'rms_norm_eps': 1e-5}),
    ('eps_lfm2', 'lfm2', small('embed', 'out_proj|w2', 3e-3), {}, 'norms of values near the root of their epsilon, 1e-5',
     {'norm_eps': 1e-6}),
    ('gelu_gpt2', 'gpt2', FAR_BELOW, {}, 'tanh GELU far below 0',
     {'activation_function': 'gelu'}),
    ('gelu_gpt2_erf', 'gpt2', BELOW,
     {'activation_function': 'gelu'}, 'erf GELU below 0',
     {'activation_function': 'gelu_new'}),
    ('gelu_gpt_neox', 'gpt_neox', BELOW, {},
     'erf GELU below 0',
     {'hidden_act': 'gelu_new'}),
    ('gelu_starcoder2', 'starcoder2', FAR_BELOW, {'sliding_window': None},
     'tanh GELU far below 0',
     {'hidden_act': 'gelu'}),
    ('gelu_bloom', 'bloom', FAR_BELOW, {},
     'tanh GELU far below 0',
     None),
    ('gelu_falcon', 'falcon_new', BELOW_FALCON, {},
     'erf GELU below 0',
     {'activation': 'gelu_new'}),
    ('gelu_phi', 'phi', FAR_BELOW, {}, 'tanh GELU far below 0',
     {'hidden_act': 'gelu'}),
    ('gelu_gemma', 'gemma', (('embed', 0.2, 0.14), ('gate_proj', -0.03, 0.02), ('down_proj', 0.0, 20.0)), {},
     'gated tanh GELU far below 0',
     {'hidden_act': 'gelu_python'}),
    ('range_llama', 'llama', (('embed', 0.0, 3e4), ('down_proj', 0.0, 9e4)), {}, 'a residual of 10^6, more than float16 holds',
     None),
    ('range_gpt2', 'gpt2', (('mlp.c_proj', 0.0, 9e4),), {}, 'a residual of 10^6, more than float16 holds',
     None),
    ('range_olmo2', 'olmo2', (('[vo]_proj', 0.0, 3e-6),), {}, 'weights of 10^-6, which float16 rounds to few digits',
     None),
)


def precise_entries():
    """Weights that show what half precision hides."""
    for name, base, weights, changes, what, bug in PRECISE:
        yield entry(name, 'precision', what, base, changes=changes, weights=weights, bug=bug,
                    dtype='float32' if name.startswith('gelu') else 'bfloat16') # the narrow band: forms of GELU differ by 5 %


def plan(notes):
    """Every model that reference.py makes; `notes` are the golden models' lines."""
    yield from shape_entries(notes)
    yield from far_entries()
    yield from precise_entries()
