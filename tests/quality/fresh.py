#!/usr/bin/env python3
"""Fresh random configurations of transformers' model classes: does mgpt run them, refuse them by name, or run them
wrongly?

    fresh.py MGPT [-n 200] [--seed 0] [--types opt,phi3] [--keep DIR] [-v]

Draws sizes (odd ones, too), tied and untied heads, F32 and BF16 weights, rope variants, windows, biases and
multipliers, saves each model as people do, computes its logits in float64 with transformers' own code
(../golden/make_hf.py), and compares them with those of `mgpt check`. Counts what ran with an NMSE of at most 1e-9,
what was refused by a line that names a key or type, and what is WRONG. The exit code is 1 when anything is.
It needs PyTorch and transformers (../golden/README.md: versions).
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
FAMILIES = ROOT / 'tools/convert/families'
sys.path[:0] = [str(ROOT / 'tests/golden'), str(FAMILIES)]
import make_hf  # noqa: E402
import models  # noqa: E402
import numpy as np  # noqa: E402
import renamed  # noqa: E402
import torch  # noqa: E402
import transformers as hf  # noqa: E402
from fresh_draw import Draw, some_rotated  # noqa: E402
from fresh_latent import axk1, deepseek_v2, deepseek_v3, indexed, latent, minicpm3, with_types, youtu  # noqa: E402
from fresh_gates import afmoe, beam, gemma4, laguna, lfm3, mimo  # noqa: E402
from fresh_mixtures import cohere2_moe, dbrx, ernie_moe, exaone_moe, experts, flint, granite_swa, kolibri, mellum, phimoe  # noqa: E402
from fresh_mixtures import routed, sparse, without  # noqa: E402
from fresh_more import cohere_compass, ctrl, modernbert  # noqa: E402
from fresh_neox import neox, neox_japanese  # noqa: E402
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES  # noqa: E402

LIMIT = 1e-9


def ministral3(d):
    rope = d.rope('yarn')
    rope.update(llama_4_scaling_beta=d.of([0.0, 0.1, 0.5]))
    if d.chance(0.6):
        rope.update(mscale=1.0, mscale_all_dim=d.of([1.0, 0.7]))
    return dict(rope_parameters=rope, sliding_window=d.of([None, None, 9]))


def gemma3(d):
    keys = d.shape(wide_heads=True)
    return hf.Gemma3TextConfig(**keys, query_pre_attn_scalar=d.of([d.head_dim, 9]), sliding_window=d.r.randint(1, 30),
                               layer_types=d.of([None, d.layer_types()]), final_logit_softcapping=d.of([None, 5.0]),
                               attn_logit_softcapping=d.of([None, None, 3.0]),
                               rope_parameters={'full_attention': d.rope('default default linear'),
                                                'sliding_attention': d.rope('default')})


def gemma2(d, config=hf.Gemma2Config):
    keys = d.shape(wide_heads=True)
    keys['hidden_size'] = keys['num_attention_heads'] * (keys['head_dim'] + d.of([0, 2]))
    return config(**keys, query_pre_attn_scalar=d.of([d.head_dim, 9]), sliding_window=d.r.randint(1, 30),
                           layer_types=d.of([None, d.layer_types()]), final_logit_softcapping=d.of([None, 5.0]),
                           attn_logit_softcapping=d.of([2.0, 7.0, None]), rope_parameters=d.rope('default linear'))


def olmo3(d):
    keys = d.shape()
    return hf.Olmo3Config(**keys, sliding_window=d.r.randint(1, 30), layer_types=d.of([None, d.layer_types()]),
                          attention_bias=d.chance(0.3),
                          rope_parameters={'full_attention': d.rope('default yarn'),
                                           'sliding_attention': d.rope('default')})


def gpt2(d):
    keys = d.shape(kv=False, even=False)
    return hf.GPT2Config(n_embd=keys['hidden_size'], n_head=keys['num_attention_heads'], n_layer=d.layers,
                         n_inner=d.of([None, 33]), n_positions=d.n_ctx, vocab_size=keys['vocab_size'],
                         activation_function=d.act('gelu_new'), scale_attn_weights=d.chance(0.8),
                         scale_attn_by_inverse_layer_idx=d.chance(0.1), reorder_and_upcast_attn=d.chance(0.1),
                         tie_word_embeddings=d.chance(0.7), bos_token_id=0, eos_token_id=0)


def gpt1(d):
    keys = d.shape(kv=False, even=False)
    return hf.OpenAIGPTConfig(n_embd=keys['hidden_size'], n_head=keys['num_attention_heads'], n_layer=d.layers,
                              n_positions=d.n_ctx, vocab_size=keys['vocab_size'], afn=d.of(['gelu', 'gelu', 'relu', 'swish']),
                              tie_word_embeddings=d.chance(0.7))


def gpt_neo(d):
    keys = d.shape(kv=False, even=False)
    return hf.GPTNeoConfig(hidden_size=keys['hidden_size'], num_heads=keys['num_attention_heads'], num_layers=d.layers,
                           attention_types=[[['global', 'local'], (d.layers + 1) // 2]] if d.layers % 2 == 0
                           else [[['local'], d.layers]], window_size=d.r.randint(1, 30),
                           max_position_embeddings=d.n_ctx, vocab_size=keys['vocab_size'],
                           activation_function=d.act('gelu_new'), bos_token_id=0, eos_token_id=0)


def gpt_bigcode(d):
    keys = d.shape(kv=False, even=False)
    return hf.GPTBigCodeConfig(n_embd=keys['hidden_size'], n_head=keys['num_attention_heads'], n_layer=d.layers,
                               n_inner=d.of([None, 33]), n_positions=d.n_ctx, vocab_size=keys['vocab_size'],
                               activation_function=d.act('gelu_pytorch_tanh'), multi_query=d.chance(0.7),
                               scale_attn_weights=d.chance(0.8), bos_token_id=0, eos_token_id=0)


def gptj(d, config=hf.GPTJConfig):
    keys = d.shape(kv=False)
    heads = d.of([1, 2, 4, 8]) if config is hf.GPTJConfig else 4
    return config(n_embd=heads * d.head_dim, n_head=heads, n_layer=d.layers, n_inner=d.of([None, 33]),
                  n_positions=d.n_ctx, vocab_size=keys['vocab_size'], rotary_dim=d.of([2, 4, d.head_dim]),
                  activation_function=d.act('gelu_new'), tie_word_embeddings=False, bos_token_id=0, eos_token_id=0)


def opt(d):
    keys = d.shape(kv=False, even=False)
    return hf.OPTConfig(hidden_size=keys['hidden_size'], num_attention_heads=keys['num_attention_heads'],
                        num_hidden_layers=d.layers, ffn_dim=keys['intermediate_size'], vocab_size=keys['vocab_size'],
                        max_position_embeddings=d.n_ctx, do_layer_norm_before=d.chance(0.6),
                        word_embed_proj_dim=d.of([None, None, 7]), enable_bias=d.chance(0.8),
                        layer_norm_elementwise_affine=d.chance(0.8), activation_function=d.act('relu'),
                        tie_word_embeddings=d.chance(0.7), bos_token_id=0, eos_token_id=1, pad_token_id=1,
                        _remove_final_layer_norm=d.chance(0.1))


def biogpt(d):
    keys = d.shape(kv=False, even=False)
    return hf.BioGptConfig(**keys | dict(pad_token_id=1), hidden_act=d.act('gelu'), scale_embedding=d.chance(0.9))


def xglm(d):
    keys = d.shape(kv=False, even=False)
    return hf.XGLMConfig(d_model=keys['hidden_size'], attention_heads=keys['num_attention_heads'], num_layers=d.layers,
                         ffn_dim=keys['intermediate_size'], vocab_size=keys['vocab_size'],
                         max_position_embeddings=d.n_ctx, activation_function=d.act('gelu'), pad_token_id=1,
                         tie_word_embeddings=d.chance(0.7), scale_embedding=d.chance(0.9))


def phi3(d):
    keys = d.shape()
    rotated = some_rotated(d, 0.75, 0.5, 1.0)
    rope = d.rope('default default longrope', rotated=rotated)
    original = rope.get('original_max_position_embeddings', d.n_ctx)
    return hf.Phi3Config(**keys, sliding_window=d.of([None, 7, 20]), rope_parameters=rope,
                         original_max_position_embeddings=original)


def bloom(d):
    keys = d.shape(kv=False, even=False)
    return hf.BloomConfig(hidden_size=keys['hidden_size'], n_head=keys['num_attention_heads'], n_layer=d.layers,
                          vocab_size=keys['vocab_size'], seq_length=d.n_ctx, bos_token_id=0, eos_token_id=0,
                          apply_residual_connection_post_layernorm=d.chance(0.1))


def mpt(d):
    keys = d.shape(kv=False, even=False)
    return hf.MptConfig(d_model=keys['hidden_size'], n_heads=keys['num_attention_heads'], n_layers=d.layers,
                        expansion_ratio=d.of([2, 4]), max_seq_len=d.n_ctx, vocab_size=keys['vocab_size'],
                        attn_config=dict(alibi=True, clip_qkv=d.of([None, None, 0.7]),
                                         softmax_scale=d.of([None, None, 0.4])),
                        bos_token_id=0, eos_token_id=0)


def falcon(d):
    keys = d.shape(kv=False)
    new = d.chance(0.5)
    return hf.FalconConfig(hidden_size=keys['hidden_size'], num_attention_heads=keys['num_attention_heads'],
                           num_hidden_layers=d.layers, vocab_size=keys['vocab_size'], new_decoder_architecture=new,
                           num_kv_heads=d.of([k for k in (1, 2, 3, 4, 6) if keys['num_attention_heads'] % k == 0]),
                           multi_query=d.chance(0.6), parallel_attn=d.chance(0.7), bias=d.chance(0.3),
                           alibi=d.chance(0.2), max_position_embeddings=d.n_ctx,
                           num_ln_in_parallel_attn=d.of([None, 1, 2]) if new else None,
                           ffn_hidden_size=keys['intermediate_size'], bos_token_id=0, eos_token_id=0,
                           rope_parameters=d.rope('default linear'))


def plain(config, rope=True, kinds='default default linear llama3 yarn dynamic', wide=False, more=None):
    """A family whose keys are Llama's, and `more`: what a function of the draw adds."""

    def make(d):
        keys = d.shape(wide_heads=wide)
        keys.update(more(d) if more else {})
        if rope and 'rope_parameters' not in keys:
            keys['rope_parameters'] = d.rope(kinds)
        return config(**keys)

    return make


def granite(d):
    return dict(embedding_multiplier=d.real(0.5, 12), logits_scaling=d.real(0.5, 8), residual_multiplier=d.real(0.2, 1),
                attention_multiplier=d.real(0.05, 0.5), **d.bias('attention_bias', 'mlp_bias'))


def partial(d, *names, choices=(0.25, 0.5, 1.0)):
    return dict(rope_parameters=d.rope('default default linear', rotated=some_rotated(d, *choices)), **d.bias(*names))


def hunyuan(d):
    rope = d.rope('default default dynamic linear')
    if rope['rope_type'] == 'dynamic' and d.chance(0.8):
        rope['alpha'] = d.of([1.5, 50.0, 1000.0])
    return dict(rope_parameters=rope, **d.bias('attention_bias'))


def exaone4(d):
    keys = d.shape(wide_heads=True)
    window = d.of([None, d.r.randint(1, 30)])
    types = d.of([None, d.layer_types()]) if window else ['full_attention'] * d.layers
    return hf.Exaone4Config(**keys, sliding_window=window, layer_types=types,
                            rope_parameters=d.rope('default default llama3 linear'))


# Programs that transformers does not have, as others' models under their names.
REWRITE = {'exaone': renamed.as_exaone, 'minicpm': renamed.as_minicpm}

# What configurations of each type have; types of models.txt without a row here have Llama's keys.
TYPES = {
    'llama': plain(hf.LlamaConfig, wide=True, more=lambda d: d.bias('attention_bias', 'mlp_bias')),
    'mistral': plain(hf.MistralConfig, wide=True, more=lambda d: dict(sliding_window=d.of([None, 5, 23]))),
    'ministral': plain(hf.MinistralConfig, wide=True, more=lambda d: dict(
        sliding_window=d.of([5, 23]), layer_types=d.of([None, d.layer_types()]))),
    'ministral3': plain(hf.Ministral3Config, wide=True, more=ministral3),
    'cwm': plain(hf.CwmConfig, wide=True, more=lambda d: dict(
        sliding_window=9, layer_types=d.of([None, d.layer_types()]))),
    'vaultgemma': lambda d: gemma2(d, hf.VaultGemmaConfig),
    'qwen2': plain(hf.Qwen2Config, more=lambda d: d.windows()),
    'qwen3': plain(hf.Qwen3Config, wide=True, more=lambda d: dict(d.windows(), **d.bias('attention_bias'))),
    'smollm3': plain(hf.SmolLM3Config, more=lambda d: dict(
        no_rope_layer_interval=d.of([4, 4, 2]), use_sliding_window=d.chance(0.3), sliding_window=9,
        **d.bias('attention_bias', 'mlp_bias'))),
    'gemma': plain(hf.GemmaConfig, wide=True, more=lambda d: d.bias('attention_bias')),
    'gemma2': gemma2, 'gemma3_text': gemma3, 'gemma4_text': gemma4,
    'gemma4_unified_text': lambda d: gemma4(d, hf.Gemma4UnifiedTextConfig),
    'apertus1p5_text': plain(hf.Apertus1p5TextConfig, more=lambda d: dict(
        hidden_act=d.of(['xielu', 'xielu', 'relu2']), output_vocab_size=d.of([None, None, 14, 17]))),
    'openai-gpt': gpt1, 'gpt2': gpt2, 'gpt_neo': gpt_neo, 'gpt_neox': neox, 'gpt_bigcode': gpt_bigcode, 'gptj': gptj,
    'codegen': lambda d: gptj(d, hf.CodeGenConfig),
    'phi': plain(hf.PhiConfig, more=lambda d: partial(d, 'qk_layernorm')),
    'phi3': phi3,
    'olmo': plain(hf.OlmoConfig, more=lambda d: dict(clip_qkv=d.of([None, 0.8]), **d.bias('attention_bias'))),
    'olmo2': plain(hf.Olmo2Config, more=lambda d: d.bias('attention_bias')), 'olmo3': olmo3,
    'nanochat': plain(hf.NanoChatConfig, kinds='default yarn linear', more=lambda d: dict(
        tie_word_embeddings=False, final_logit_softcapping=d.of([15.0, 4.0]), **d.bias('attention_bias'))),
    'granite': plain(hf.GraniteConfig, more=granite),
    'starcoder2': plain(hf.Starcoder2Config, more=lambda d: dict(
        use_bias=d.chance(0.7), sliding_window=d.of([None, 9]))),
    'stablelm': plain(hf.StableLmConfig, more=lambda d: partial(
        d, 'use_qkv_bias', 'qk_layernorm', 'use_parallel_residual')),
    'opt': opt, 'biogpt': biogpt, 'xglm': xglm, 'ctrl': ctrl, 'bloom': bloom, 'mpt': mpt, 'falcon': falcon,
    'cohere': plain(hf.CohereConfig, more=lambda d: dict(
        logit_scale=d.real(0.05, 1), **d.bias('attention_bias', 'use_qk_norm'))),
    'cohere2': plain(hf.Cohere2Config, more=lambda d: dict(
        logit_scale=d.real(0.05, 1), sliding_window=9, layer_types=d.of([None, d.layer_types()]))),
    'aria_text': plain(hf.AriaTextConfig, more=lambda d: dict(
        moe_num_experts=d.of([2, 5, 8]), moe_topk=d.of([1, 2]), moe_num_shared_experts=d.of([1, 2]),
        hidden_act=d.of(['silu'] * 9 + ['gelu']), **d.bias('attention_bias'))),
    'mllama_text_model': plain(hf.MllamaTextConfig, more=lambda d: dict(
        cross_attention_layers=d.of([None, [], [1], [0, 2]]), tie_word_embeddings=False)),
    'cohere_compass_text': cohere_compass, 'modernbert-decoder': modernbert,
    'arcee': plain(hf.ArceeConfig, more=lambda d: dict(
        hidden_act=d.act('relu2'), **d.bias('attention_bias', 'mlp_bias'))),
    'nemotron': plain(hf.NemotronConfig, wide=True, more=lambda d: partial(d, 'attention_bias', 'mlp_bias')),
    'jais2': plain(hf.Jais2Config, wide=True, more=lambda d: d.bias('attention_bias', 'mlp_bias')),
    'ernie4_5': plain(hf.Ernie4_5Config, wide=True, more=lambda d: d.bias('use_bias')),
    'helium': plain(hf.HeliumConfig, more=lambda d: dict(
        head_dim=d.head_dim, **d.bias('attention_bias', 'mlp_bias'))),
    'seed_oss': plain(hf.SeedOssConfig, wide=True, more=lambda d: d.bias(
        'attention_bias', 'attention_out_bias', 'mlp_bias')),
    'glm': plain(hf.GlmConfig, wide=True, more=lambda d: partial(d, 'attention_bias')),
    'glm4': plain(hf.Glm4Config, wide=True, more=lambda d: partial(d, 'attention_bias')),
    'hunyuan_v1_dense': plain(hf.HunYuanDenseV1Config, wide=True, more=hunyuan),
    'exaone4': exaone4,
    'exaone': plain(hf.LlamaConfig),
    'minicpm': plain(hf.GraniteConfig, more=lambda d: dict(
        granite(d), mlp_bias=False, attention_multiplier=d.head_dim**-0.5)),
    'mixtral': plain(hf.MixtralConfig, wide=True, more=lambda d: dict(
        experts(d, 'num_local_experts'), sliding_window=d.of([None, 9]))),
    'olmoe': plain(hf.OlmoeConfig, more=lambda d: dict(
        experts(d, 'num_experts', 'norm_topk_prob'), clip_qkv=d.of([None, None, None, 0.8]), **d.bias('attention_bias'))),
    'qwen2_moe': plain(hf.Qwen2MoeConfig, more=lambda d: dict(
        sparse(d), shared_expert_intermediate_size=d.r.randint(5, 70), qkv_bias=d.chance(0.9), **d.windows())),
    'qwen3_moe': plain(hf.Qwen3MoeConfig, wide=True, more=lambda d: dict(
        sparse(d), **d.windows(), **d.bias('attention_bias'))),
    'granitemoe': plain(hf.GraniteMoeConfig, more=lambda d: dict(granite(d), **experts(d, 'num_local_experts'))),
    'granitemoeshared': plain(hf.GraniteMoeSharedConfig, more=lambda d: dict(
        granite(d), **experts(d, 'num_local_experts'), shared_intermediate_size=d.of([0, 13, 40]))),
    'gpt_oss': plain(hf.GptOssConfig, wide=True, kinds='yarn yarn default linear', more=lambda d: dict(
        experts(d, 'num_local_experts'), sliding_window=d.r.randint(1, 30), layer_types=d.of([None, d.layer_types()]),
        swiglu_limit=d.of([7.0, 0.4, 1.5]), attention_bias=d.chance(0.7))),
    'lfm2': plain(hf.Lfm2Config, more=lambda d: dict(
        layer_types=d.of([None, *3 * [[d.of(['conv', 'conv', 'full_attention']) for _ in range(d.layers)]]]),
        full_attn_idxs=[0], conv_L_cache=d.of([1, 2, 3, 3, 4, 9]), norm_eps=d.of([1e-5, 1e-6]),
        block_auto_adjust_ff_dim=d.chance(0.7), block_multiple_of=d.of([1, 8, 256]),
        block_ffn_dim_multiplier=d.of([1.0, 1.3, 2]), conv_bias=d.chance(0.1))),
    'flex_olmo': plain(hf.FlexOlmoConfig, more=lambda d: dict(
        experts(d, 'num_experts', 'norm_topk_prob'), **d.bias('attention_bias'))),
    'dots1': plain(hf.Dots1Config, wide=True, more=lambda d: dict(
        routed(d), sliding_window=d.of([None, 9]), max_window_layers=d.of([0, 1, 62]))),
    'glm4_moe': plain(hf.Glm4MoeConfig, wide=True, more=lambda d: dict(partial(d, 'use_qk_norm'), **routed(d))),
    'deepseek_v2': lambda d: latent(d, hf.DeepseekV2Config, 'default default linear yarn yarn', deepseek_v2),
    'deepseek_v3': lambda d: latent(d, hf.DeepseekV3Config, 'default default linear yarn yarn', deepseek_v3),
    'deepseek_v32': lambda d: latent(d, hf.DeepseekV32Config, 'default default linear yarn yarn', indexed),
    'glm_moe_dsa': lambda d: latent(d, hf.GlmMoeDsaConfig, 'default default linear yarn', lambda d: dict(
        indexed(d), indexer_types=['full'] + [d.of(['full', 'shared']) for _ in range(d.layers - 1)])),
    'sarvam_mla': lambda d: latent(d, hf.SarvamMLAConfig, 'default default linear yarn yarn', deepseek_v3),
    'glm4_moe_lite': lambda d: latent(d, hf.Glm4MoeLiteConfig, 'default default linear yarn', with_types),
    'axk1': lambda d: latent(d, hf.AXK1Config, 'default default yarn', axk1),
    'youtu': lambda d: latent(d, hf.YoutuConfig, 'default default linear yarn', youtu),
    'minicpm3': lambda d: latent(d, hf.MiniCPM3Config, 'default default linear yarn longrope', minicpm3),
    'ernie4_5_moe': plain(hf.Ernie4_5_MoeConfig, wide=True, more=ernie_moe),
    'hunyuan_v1_moe': plain(hf.HunYuanMoEV1Config, wide=True, more=lambda d: dict(
        hunyuan(d), num_experts=d.r.randint(2, 6), moe_topk=d.of([1, 2]))),
    'lfm2_moe': plain(hf.Lfm2MoeConfig, more=lambda d: dict(
        experts(d, 'num_experts', 'norm_topk_prob'), moe_intermediate_size=d.r.randint(5, 40), num_dense_layers=d.r.randint(0, 2),
        layer_types=[d.of(['conv', 'conv', 'full_attention']) for _ in range(d.layers)], conv_L_cache=d.of([1, 3, 4]),
        use_expert_bias=d.chance(0.7), routed_scaling_factor=d.of([1.0, 1.5]), norm_eps=1e-5)),
    'minimax_m2': plain(hf.MiniMaxM2Config, wide=True, more=lambda d: dict(
        partial(d), **experts(d, 'num_local_experts'))),
    'exaone_moe': exaone_moe,
    'solar_open': plain(hf.SolarOpenConfig, wide=True, more=lambda d: without(routed(d), 'first_k_dense_replace')),
    'sarvam_moe': plain(hf.SarvamMoEConfig, wide=True, more=lambda d: dict(routed(d), use_qk_norm=d.chance(0.7))),
    'hy_v3': plain(hf.HYV3Config, wide=True, more=lambda d: dict(
        experts(d, 'num_experts'), moe_intermediate_size=d.r.randint(5, 40), num_shared_experts=d.of([1, 2]),
        router_scaling_factor=d.of([1.0, 2.8]), mlp_layer_types=d.of([None, d.mlp_types()]), **d.bias('attention_bias', 'mlp_bias'))),
    'mellum': mellum,
    'phimoe': phimoe,
    'granite_swa': plain(hf.GraniteSWAConfig, more=lambda d: dict(granite(d), **granite_swa(d))),
    'granitemoe_swa': plain(hf.GraniteMoeSWAConfig, more=lambda d: dict(
        granite(d), **experts(d, 'num_local_experts'), shared_intermediate_size=d.of([0, 13, 40]), **granite_swa(d))),
    'flint': plain(hf.FlintConfig, wide=True, more=flint),
    'kolibri1': kolibri,
    'afmoe': afmoe,
    'beam': beam,
    'laguna': laguna,
    'mimo_v2_flash': mimo,
    'lfm3': lfm3,
    'dbrx': dbrx,
    'cohere2_moe': plain(hf.Cohere2MoeConfig, wide=True, more=cohere2_moe),
    'gpt_neox_japanese': neox_japanese,
    'persimmon': plain(hf.PersimmonConfig, more=lambda d: dict(partial(d), hidden_act=d.act('relu2'), qk_layernorm=d.chance(0.6))),
    'hyperclovax': plain(hf.HyperCLOVAXConfig, more=lambda d: dict(
        granite(d), use_post_norm=d.chance(0.9), attention_multiplier=d.of([None, 0.2, 0.4]))),
    'internlm3': plain(hf.InternLM3Config, wide=True, more=lambda d: dict.fromkeys(('attention_bias', 'mlp_bias'), d.chance(0.4))),
    'apertus': plain(hf.ApertusConfig, more=lambda d: dict(
        hidden_act=d.of(['xielu', 'xielu', 'xielu', 'relu2']), **d.bias('attention_bias'))),
    'granitemoehybrid': plain(hf.GraniteMoeHybridConfig, more=lambda d: dict(
        granite(d), num_local_experts=d.of([0, 0, 3, 5]), num_experts_per_tok=d.of([1, 2]), shared_intermediate_size=d.r.randint(5, 70),
        position_embedding_type='rope',
        mamba_n_heads=2, mamba_d_head='auto', layer_types=['attention'] * d.layers)),
}
for claimed in models.claimed(models.parse(FAMILIES / 'models.txt')):
    if claimed.name not in TYPES and claimed.name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        TYPES[claimed.name] = plain(hf.CONFIG_MAPPING[claimed.name])


def save(directory, config, d):
    """A random model of the configuration and its logits in float64; None: transformers itself cannot."""
    dtype = torch.bfloat16 if d.chance(0.3) else torch.float32
    n = d.n_tokens = d.r.randint(8, min(40, d.n_ctx))
    config.dtype = dtype
    model = hf.AutoModelForCausalLM.from_config(config, attn_implementation='eager')
    make_hf.randomise(model)
    model.to(dtype).save_pretrained(directory)
    rows = getattr(config, 'output_vocab_size', None) or config.vocab_size
    tokens = torch.tensor([d.r.randrange(rows) for _ in range(n)])
    with make_hf.Float64():
        model = hf.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float64,
                                                        attn_implementation='eager',
                                                        experts_implementation='eager').eval()
        with torch.no_grad():
            logits = model(tokens[None], use_cache=False).logits[0].numpy()
    np.savez(directory / 'ref.npz', tokens=tokens.numpy(), logits=logits)


def verdict(mgpt, directory, context):
    """'run', 'refused' or 'WRONG', and why. context: positions to convert for, or None."""
    model = directory
    if context:
        model = directory / 'model.gguf'
        subprocess.run([mgpt, 'convert', directory, model, '--context', str(context)], check=False,
                       stderr=subprocess.DEVNULL)
    out = subprocess.run([mgpt, 'check', model, directory / 'ref.npz', '--tol', '1'], text=True, capture_output=True,
                         check=False)
    found = re.search(r'^NMSE +(\S+)', out.stdout, re.M)
    if found and float(found.group(1)) <= LIMIT:
        return 'run', found.group(1)
    if found or out.returncode != 3:
        return 'WRONG', found.group(1) if found else f'exit code {out.returncode}: {out.stderr.strip()[-200:]}'
    return 'refused', out.stderr.strip().rsplit('config.json: ', 1)[-1][:150]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('mgpt')
    parser.add_argument('-n', type=int, default=200)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--types', default=','.join(TYPES))
    parser.add_argument('--keep', type=pathlib.Path, help='where what is WRONG is kept')
    parser.add_argument('-v', action='store_true', help='a line for each model')
    args = parser.parse_args()
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    types, counts, lines = args.types.split(','), collections.defaultdict(collections.Counter), collections.Counter()
    for i in range(args.n):
        name = types[i % len(types)]
        d = Draw(args.seed * 1000003 + i)
        torch.manual_seed(args.seed * 1000003 + i)
        with tempfile.TemporaryDirectory(dir=args.keep) as work:
            work = pathlib.Path(work)
            try:
                config = TYPES[name](d)
                save(work, config, d)
                REWRITE.get(name, lambda directory: None)(work)
            except Exception as e:  # what transformers refuses is not a model that people have
                counts[name]['not a model'] += 1
                if args.v:
                    print(f'{i:4} {name:12} not a model: {type(e).__name__} {str(e)[:100]!r}')
                continue
            rope = getattr(config, 'rope_parameters', None) or {}
            is_long = rope.get('rope_type') == 'longrope' and d.n_tokens > rope['original_max_position_embeddings']
            what, why = verdict(args.mgpt, work, d.n_ctx if is_long else None)
            counts[name][what] += 1
            if what == 'refused':
                lines[why.split('; these')[0]] += 1
            if what == 'WRONG' and args.keep:
                os.rename(work, args.keep / f'{name}-{i}')
                work.mkdir()
            if args.v or what == 'WRONG':
                print(f'{i:4} {name:12} {what}: {why}', flush=True)
    total = collections.Counter()
    for name, count in counts.items():
        total += count
        print(f'{name:18}', '  '.join(f'{what} {n}' for what, n in count.items()))
    for line, n in lines.most_common():
        print(f'  refused {n:3}: {line}')
    print('total:', ', '.join(f'{what} {n}' for what, n in total.items()))
    sys.exit(1 if total['WRONG'] else 0)


if __name__ == '__main__':
    main()
