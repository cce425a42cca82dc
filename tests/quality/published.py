#!/usr/bin/env python3
"""config.json with the keys that published files have: does mgpt run the model that transformers' class makes of it?

    published.py MGPT

The configurations here are small and ours; their keys are those of files of 2019 to 2026: spellings, switches and gaps
of other years, and models that also see. Weights are random, saved by the class, and lie beside the config.json as it
stands here; logits are compared with the class's in float64. With ../shared/cases/published the published files there
are tried, too, with their sizes shrunk: all right, or refused for a reason that changes logits. It needs PyTorch and
transformers (../golden/README.md: versions); exit code 1 when anything is wrong.
"""
import copy
import importlib.util
import json
import os
import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / 'golden'))
import make_hf  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers as hf  # noqa: E402
from fresh import verdict  # noqa: E402

SHARED = pathlib.Path(__file__).resolve().parents[3] / 'shared' / 'cases' / 'published'
# Refusals of the published files: they change logits, or which tensors there are.
REASONS = ('quant_method', 'attention_chunk_size', 'there are also rope_parameters', 'rope_scaling is not a setting of gptj',
           'model_type chatglm')

GPT2 = dict(model_type='gpt2', architectures=['GPT2LMHeadModel'], n_embd=24, n_head=3, n_layer=2, n_positions=64, n_ctx=64,
            vocab_size=40, layer_norm_epsilon=1e-5, activation_function='gelu_new', bos_token_id=0, eos_token_id=0)
LLAMA = dict(model_type='llama', architectures=['LlamaForCausalLM'], hidden_size=32, num_attention_heads=4,
             num_hidden_layers=2, intermediate_size=44, vocab_size=40, rms_norm_eps=1e-6, hidden_act='silu',
             max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=None)
QWEN_VL = dict(hidden_size=32, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, intermediate_size=44,
               vocab_size=40, rms_norm_eps=1e-6, hidden_act='silu', max_position_embeddings=64, rope_theta=1e6)
SIGHT = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
TOKENS = dict(image_token_id=39, video_token_id=38, vision_start_token_id=37, vision_end_token_id=36)
MROPE = dict(type='mrope', mrope_section=[2, 1, 1])


def less(config, *keys, **more):
    """A configuration without some keys, with others."""
    return {k: v for k, v in config.items() if k not in keys} | more


OURS = {
    'gpt2 of 2019': less(GPT2, predict_special_tokens=True, output_past=True, n_special=0),
    'gpt2, n_ctx alone': less(GPT2, 'n_positions', n_ctx=1024),
    'llama of spring 2023': less(LLAMA, 'max_position_embeddings', max_sequence_length=64,
                                 architectures=['LLaMAForCausalLM']),
    'llama with flash attention': less(LLAMA, use_flash_attention_2=True, pretraining_tp=1),
    'llama, a context of its class': less(LLAMA, 'max_position_embeddings', 'hidden_act'),
    'bloom of 2022': dict(model_type='bloom', architectures=['BloomForCausalLM'], n_embed=24, num_attention_heads=3,
                          n_layer=2, vocab_size=40, layer_norm_epsilon=1e-5, skip_bias_add=True, masked_softmax_fusion=True),
    'mpt': dict(model_type='mpt', architectures=['MptForCausalLM'], d_model=32, n_heads=4, n_layers=2, vocab_size=40,
                max_seq_len=64, verbose=0, no_bias=True),
    'starcoder': dict(model_type='gpt_bigcode', architectures=['GPTBigCodeForCausalLM'], n_embd=24, n_head=3, n_layer=2,
                      n_positions=64, vocab_size=40, layer_norm_epsilon=1e-5, activation_function='gelu_pytorch_tanh',
                      pad_key_length=True, validate_runner_input=True, multi_query=True, bos_token_id=0, eos_token_id=0),
    'falcon of RefinedWeb': dict(model_type='falcon', architectures=['FalconForCausalLM'], hidden_size=32,
                                 num_attention_heads=4, num_hidden_layers=2, vocab_size=40, bias=False, alibi=False,
                                 multi_query=True, parallel_attn=True, new_decoder_architecture=False),
    'command-r7b': dict(model_type='cohere2', architectures=['Cohere2ForCausalLM'], hidden_size=32, num_attention_heads=4,
                        num_key_value_heads=2, num_hidden_layers=4, intermediate_size=44, vocab_size=40, rope_theta=5e4,
                        position_embedding_type='rope_gptj', use_parallel_block=True, use_embedding_sharing=True,
                        use_gated_activation=True, rotary_pct=1.0, logit_scale=0.25, layer_norm_eps=1e-5, sliding_window=9,
                        sliding_window_pattern=4, hidden_act='silu', max_position_embeddings=64, bos_token_id=0,
                        eos_token_id=1, pad_token_id=None),
    'gemma 3 of six keys': dict(model_type='gemma3', architectures=['Gemma3ForConditionalGeneration'],
                                image_token_index=39, mm_tokens_per_image=4, vision_config=SIGHT,
                                text_config=dict(model_type='gemma3_text', hidden_size=24, intermediate_size=44,
                                                 num_hidden_layers=2, vocab_size=40, sliding_window=9,
                                                 rope_scaling=dict(factor=8.0, rope_type='linear'))),
    'smolvlm': dict(model_type='smolvlm', architectures=['SmolVLMForConditionalGeneration'], image_token_id=39,
                    scale_factor=1, vision_config=SIGHT,
                    text_config=less(LLAMA, architectures=['VLlama3ForCausalLM'], is_llama_config=True,
                                     use_resampler=False, rope_theta=1e5, _flash_attn_2_enabled=True)),
    'llava': dict(model_type='llava', architectures=['LlavaForConditionalGeneration'], image_token_index=39,
                  vision_config=SIGHT | dict(model_type='clip_vision_model', projection_dim=8, num_hidden_layers=2),
                  text_config=less(LLAMA, 'hidden_act')),
    'mistral 3': dict(model_type='mistral3', architectures=['Mistral3ForConditionalGeneration'], image_token_index=39,
                      spatial_merge_size=1, vision_config=SIGHT | dict(model_type='pixtral', head_dim=8),
                      text_config=less(LLAMA, 'architectures', model_type='mistral', head_dim=8, num_key_value_heads=2,
                                       rope_theta=1e6, sliding_window=None)),
    'ministral 3': dict(model_type='mistral3', architectures=['Mistral3ForConditionalGeneration'], image_token_index=39,
                        spatial_merge_size=1, vision_config=SIGHT | dict(model_type='pixtral', head_dim=8),
                        text_config=less(LLAMA, 'architectures', model_type='ministral3', head_dim=8, num_key_value_heads=2,
                                         sliding_window=None, rope_parameters=dict(
                                             beta_fast=32.0, beta_slow=1.0, factor=16.0, llama_4_scaling_beta=0.1, mscale=1.0,
                                             mscale_all_dim=1.0, original_max_position_embeddings=12, rope_theta=1e6,
                                             rope_type='yarn', type='yarn'))),
    'gemma 4 12b': dict(model_type='gemma4_unified', architectures=['Gemma4UnifiedForConditionalGeneration'],
                        image_token_id=39, video_token_id=38, audio_token_id=37, audio_config=dict(audio_embed_dim=8),
                        vision_config=dict(patch_size=4, mm_embed_dim=16, mm_posemb_size=8, output_proj_dims=16),
                        text_config=dict(model_type='gemma4_unified_text', hidden_size=24, intermediate_size=44, vocab_size=40,
                                         num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
                                         global_head_dim=12, attention_k_eq_v=True, num_global_key_value_heads=1,
                                         max_position_embeddings=64, sliding_window=9, final_logit_softcapping=5.0,
                                         layer_types=['sliding_attention', 'full_attention', 'full_attention'],
                                         use_bidirectional_attention='vision')),
    'emu3': dict(model_type='emu3', architectures=['Emu3ForConditionalGeneration'], vocabulary_map={'<image>': 39},
                 vq_config=dict(codebook_size=8, embed_dim=4, latent_channels=4, base_channels=32, channel_multiplier=[1],
                                num_res_blocks=1, attn_resolutions=[], hidden_size=32, num_attention_heads=1),
                 text_config=less(LLAMA, 'architectures', model_type='emu3_text_model', num_key_value_heads=2,
                                  pad_token_id=1, rope_theta=1e6)),
    'fuyu': dict(model_type='fuyu', architectures=['FuyuForCausalLM'], image_token_id=39, patch_size=4,
                 text_config=less(LLAMA, 'architectures', 'rms_norm_eps', model_type='persimmon', hidden_act='relu2',
                                  qk_layernorm=True, layer_norm_eps=1e-5, rope_theta=25000.0, partial_rotary_factor=0.5)),
    'got-ocr 2': dict(model_type='got_ocr2', architectures=['GotOcr2ForConditionalGeneration'], image_token_index=39,
                      vision_config=dict(hidden_size=16, output_channels=8, num_hidden_layers=1, num_attention_heads=2,
                                         image_size=32, patch_size=16, mlp_dim=16, global_attn_indexes=[0], window_size=2),
                      text_config=dict(QWEN_VL, model_type='qwen2', use_sliding_window=False, tie_word_embeddings=True)),
    'moss-transcribe': dict(model_type='moss_transcribe_diarize', audio_token_id=39,
                            architectures=['MossTranscribeDiarizeForConditionalGeneration'],
                            audio_config=dict(num_mel_bins=8, num_hidden_layers=1, num_attention_heads=2,
                                              intermediate_size=16, hidden_size=16, max_source_positions=20),
                            text_config=dict(QWEN_VL, model_type='qwen3', head_dim=8, tie_word_embeddings=True)),
    'phi-4 multimodal': less(LLAMA, model_type='phi4_multimodal', architectures=['Phi4MultimodalForCausalLM'],
                             vision_config=SIGHT | dict(image_token_id=39, crop_size=28, num_hidden_layers=2),
                             audio_config=dict(hidden_size=16, intermediate_size=16, num_blocks=1, num_attention_heads=2,
                                               ext_pw_out_channel=16, depthwise_separable_out_channel=16, input_size=8,
                                               nemo_conv_channels=16, audio_token_id=38, feature_layer=0),
                             rope_scaling=dict(type='longrope', short_factor=[1.0, 1.5, 2.0], long_factor=[1.0, 3.0, 9.0]),
                             original_max_position_embeddings=48, partial_rotary_factor=0.75, num_key_value_heads=2,
                             embd_pdrop=0.0, resid_pdrop=0.0),
    'aria': dict(model_type='aria', architectures=['AriaForConditionalGeneration'], image_token_index=39,
                 projector_patch_to_query_dict={4: 2}, vision_config=SIGHT | dict(model_type='idefics3_vision'),
                 text_config=less(LLAMA, 'architectures', 'rms_norm_eps', model_type='aria_text', moe_intermediate_size=44, rope_theta=5e6,
                                  moe_num_experts=4, moe_topk=2, moe_num_shared_experts=2, num_key_value_heads=2)),
    'llama 3.2 vision': dict(model_type='mllama', architectures=['MllamaForConditionalGeneration'], image_token_index=40,
                             vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_global_layers=1, attention_heads=2,
                                                image_size=28, patch_size=14, vision_output_dim=32, intermediate_layers_indices=[0]),
                             text_config=less(LLAMA, 'architectures', model_type='mllama_text_model', num_hidden_layers=5, pad_token_id=1,
                                              cross_attention_layers=[1, 3], num_key_value_heads=2, rope_theta=5e5,
                                              rope_scaling=dict(rope_type='llama3', factor=8.0, low_freq_factor=1.0,
                                                                high_freq_factor=4.0, original_max_position_embeddings=16))),
    'north micro vision': dict(model_type='cohere_compass', architectures=['CohereCompassForConditionalGeneration'], tie_word_embeddings=True,
                               **TOKENS, vision_config=dict(depth=1, hidden_size=16, out_hidden_size=32, num_heads=2, intermediate_size=16,
                                                            num_position_embeddings=16, deepstack_visual_indexes=[0]),
                               text_config=less(QWEN_VL, 'rms_norm_eps', 'rope_theta', model_type='cohere_compass_text', sliding_window=9,
                                                layer_types=['sliding_attention', 'full_attention'], logit_scale=0.25,
                                                rope_parameters=dict(full_attention=None, rope_theta=1e4, rope_type='default',
                                                                     sliding_attention=dict(rope_type='default', rope_theta=5e4,
                                                                                            mrope_section=[2, 1, 1])))),
    'ettin of 2025': dict(model_type='modernbert-decoder', architectures=['ModernBertDecoderForCausalLM'], hidden_size=32, num_attention_heads=4,
                          num_hidden_layers=5, intermediate_size=44, vocab_size=40, norm_eps=1e-5, layer_norm_eps=1e-5, norm_bias=False,
                          hidden_activation='gelu', classifier_activation='gelu', classifier_pooling='mean', classifier_bias=False, decoder_bias=True,
                          local_attention=16, global_attn_every_n_layers=3, global_rope_theta=160000.0, local_rope_theta=160000.0,
                          max_position_embeddings=64, bos_token_id=0, cls_token_id=0, eos_token_id=1, sep_token_id=1, pad_token_id=2,
                          position_embedding_type='sans_pos', deterministic_flash_attn=False, embedding_dropout=0.0, mlp_bias=False,
                          attention_bias=False, tie_word_embeddings=True),
    'internvl': dict(model_type='internvl', architectures=['InternVLForConditionalGeneration'], image_token_id=39,
                     vision_config=SIGHT | dict(model_type='internvl_vision', image_size=[28, 28], patch_size=[14, 14]),
                     text_config=dict(QWEN_VL, model_type='qwen2', use_sliding_window=False)),
    'qwen2-vl of 2024': dict(QWEN_VL, **TOKENS, model_type='qwen2_vl', rope_scaling=MROPE, use_sliding_window=False,
                             architectures=['Qwen2VLForConditionalGeneration'],
                             vision_config=dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2, mlp_ratio=1)),
    'qwen2.5-vl': dict(QWEN_VL, **TOKENS, model_type='qwen2_5_vl', rope_scaling=MROPE, tie_word_embeddings=True,
                       architectures=['Qwen2_5_VLForConditionalGeneration'],
                       vision_config=dict(depth=1, hidden_size=16, out_hidden_size=32, num_heads=2, intermediate_size=16,
                                          fullatt_block_indexes=[0])),
    'qwen3-vl': dict(**TOKENS, model_type='qwen3_vl', architectures=['Qwen3VLForConditionalGeneration'],
                     vision_config=dict(depth=1, hidden_size=16, out_hidden_size=32, num_heads=2, intermediate_size=16,
                                        num_position_embeddings=16, deepstack_visual_indexes=[0]),
                     text_config=dict(QWEN_VL, model_type='qwen3_vl_text', head_dim=8, attention_bias=False,
                                      rope_scaling=dict(mrope_interleaved=True, mrope_section=[2, 1, 1],
                                                        rope_type='default'))),
}


def make(directory, config, seed):
    """The class's model with random weights beside config.json as it stands, and float64 logits."""
    torch.manual_seed(seed)
    path = directory / 'config.json'
    path.write_text(json.dumps(config))
    cfg = hf.AutoConfig.from_pretrained(directory)
    sees = config['model_type'] != 'phi4_multimodal' and {'vision_config', 'vq_config'} & config.keys()
    kind = hf.AutoModelForImageTextToText if sees else hf.AutoModelForCausalLM
    model = kind.from_config(cfg, attn_implementation='eager', experts_implementation='eager', dtype=torch.float32).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            wide = p.dim() >= 2
            p.copy_(torch.randn(p.shape) * (p.shape[-1] ** -0.5 if wide else 0.2) + (0 if wide else p))
    model.tie_weights()
    model.save_pretrained(directory)
    path.write_text(json.dumps(config))
    tokens = torch.randint(0, 36, (1, 40))
    with torch.no_grad():
        logits = model.double()(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits[0]
    np.savez(directory / 'ref.npz', tokens=tokens[0].numpy(), logits=logits.numpy())


def ours(mgpt):
    """The lines of what does not run."""
    wrong = []
    for i, (name, config) in enumerate(OURS.items()):
        with tempfile.TemporaryDirectory() as work:
            work = pathlib.Path(work)
            make(work, copy.deepcopy(config), i)
            what, why = verdict(mgpt, work, None)
        print(f'{name:30} {what} {why}', flush=True)
        if what != 'run':
            wrong.append(name)
    return wrong


def published(mgpt):
    """The same of the published files, by the program that lies beside them."""
    os.environ['MGPT'] = str(mgpt)
    spec = importlib.util.spec_from_file_location('testcfg', SHARED / 'testcfg.py')
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    wrong, counts = [], {}
    with tempfile.NamedTemporaryFile('w+') as out:
        for path in sorted(SHARED.glob('files/*/config.json')):
            config = json.loads(path.read_text())
            if config.get('model_type') not in program.ROWS:
                continue
            try:
                program.run(path.parent.name, config, out)
            except Exception as e:  # what the class refuses
                out.write(json.dumps(dict(name=path.parent.name, result='make', line=str(e)[:100])) + '\n')
        out.seek(0)
        for result in map(json.loads, out):
            said = result['result']
            counts[said] = counts.get(said, 0) + 1
            old = [v for k, v in result.items() if k.startswith('old_') and not k.endswith('_line')]
            refused = said == 'refused' and any(r in result['line'] for r in REASONS)
            if said != 'make' and not refused and (said != 'right' or any(v != 'right' for v in old)):
                wrong.append(result['name'])
    print('published:', ', '.join(f'{n} {what}' for what, n in sorted(counts.items())))
    return wrong


def main():
    mgpt = pathlib.Path(sys.argv[1]).resolve()
    random.seed(0)
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    wrong = ours(mgpt)
    if SHARED.is_dir():
        wrong += published(mgpt)
    print('not ok: ' + ', '.join(wrong) if wrong else 'ok: all run, or are refused for what changes logits')
    return bool(wrong)


if __name__ == '__main__':
    sys.exit(main())
