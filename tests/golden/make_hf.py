"""Makes the golden models of this directory with Hugging Face transformers (README.md: versions).

Each is a random model of a few thousand weights, written by save_pretrained exactly as people's
checkpoints are, together with what transformers computes from those files:

    NAME/config.json, generation_config.json, model.safetensors (NAME/model-*.safetensors: sharded)
    NAME/ref.npz   tokens int64 [T]; logits float64 [T, V]; and float32 by TransformerLens names
                   blocks.0.hook_resid_pre, blocks.N.hook_resid_post [T, E], of a layer or two
                   blocks.N.attn.hook_pattern [H, T, T], and ln_final.hook_normalized [T, E];
                   of one layer of some, blocks.N.attn.hook_q, hook_rot_q [T, H, d], hook_k, hook_rot_k

The reference is float64 throughout: transformers' own code runs with every request for float32
(norms, softmax, rope tables) turned into float64, on the stored weights. Weights are drawn so that
mistakes show: gains and biases far from 1 and 0, peaked attention, logits of a few units.

    make_hf.py [--out DIR] [NAME …]      prints a table; no NAME: all
"""

import argparse
import pathlib
import sys

import numpy as np
import torch
import transformers
from torch.overrides import TorchFunctionMode

from renamed import as_exaone, as_minicpm

T = 24  # positions of a reference
NUMBERS = dict(n_layer=2, n_positions=32, vocab_size=33, bos_token_id=0, eos_token_id=0)  # of GPT-J's kind


class Float64(TorchFunctionMode):
    """Turns requests for float32 into float64 in whatever code runs inside."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        def widen(value):
            return torch.float64 if value is torch.float32 else value

        if func is torch.Tensor.float:
            func = torch.Tensor.double
        return func(*map(widen, args), **{k: widen(v) for k, v in (kwargs or {}).items()})

    def __enter__(self):
        torch.set_default_dtype(torch.float64)
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        torch.set_default_dtype(torch.float32)


# ---- random weights ----

def spread(name, shape, transposed):
    """Standard deviation of a matrix: rows that map unit variance to about the variance wanted."""
    if any(part in name for part in ("embed_tokens", "wte", "wpe", "embed_in", "embed_positions", "word_embeddings")):
        return 0.35
    n_in = shape[0] if transposed else shape[-1]
    for part, gain in (("lm_head", 1.5), ("mlp.gate.weight", 2), ("router", 2), ("experts.gate_up_proj", 1.2), ("embed_out", 1.5), ("attention.q_proj", 0.9),
                       ("attention.k_proj", 0.9), ("q_proj", 1.4), ("k_proj", 1.4),
                       ("c_attn", 1.5), ("query_key_value", 1.5)):
        if part in name:
            return gain / n_in**0.5
    return 1.0 / n_in**0.5


def randomise(model):
    """Draws every parameter. Gemma's and Nemotron's norms multiply by 1 + weight: centred on 0."""
    centre = 0.0 if model.config.model_type.startswith(("gemma", "nemotron", "vaultgemma")) else 1.0
    transposed = model.config.model_type in ("gpt2", "openai-gpt")
    for name, parameter in model.named_parameters():
        if "q_norm" in name or "k_norm" in name:
            parameter.data.uniform_(centre, centre + 0.9)
        elif parameter.dim() > 1:
            parameter.data.normal_(0.0, spread(name, parameter.shape, transposed))
        elif name.endswith(".weight"):
            parameter.data.uniform_(centre - 0.5, centre + 0.5)
        else:
            parameter.data.normal_(0.0, 0.3)


# ---- what the model computes ----


def parts(model):
    """The list of layers and the final norm (None: there is none), by the names the families have for them."""
    inner = model.base_model
    inner = getattr(inner, "decoder", inner)
    layers = next(getattr(inner, name) for name in ("h", "blocks", "layers") if hasattr(inner, name))
    for name in ("ln_f", "norm", "final_layernorm", "final_layer_norm", "norm_f", "layer_norm", "embedding_norm"):
        if hasattr(inner, name):
            return layers, getattr(inner, name)
    return layers, None


def watch(model, seen):
    """Hooks that store what flows between the layers under its TransformerLens name."""

    def tensor(value):
        return (value if torch.is_tensor(value) else value[0])[0].detach().numpy()

    def keep(name):
        return lambda module, args, out: seen.update({name: tensor(out)})

    def keep_input(module, args, kwargs):
        seen["blocks.0.hook_resid_pre"] = tensor(args[0] if args else kwargs["hidden_states"])

    layers, final = parts(model)
    layers[0].register_forward_pre_hook(keep_input, with_kwargs=True)
    for n, layer in enumerate(layers):
        layer.register_forward_hook(keep(f"blocks.{n}.hook_resid_post"))
    if final is not None:
        final.register_forward_hook(keep("ln_final.hook_normalized"))


def watch_qk(model, seen):
    """Queries and keys before and after their rotation (and norm), as [T, heads, d]."""
    code = sys.modules[type(model).__module__]
    rotate = code.apply_rotary_pos_emb
    layers, rotated = parts(model)[0], []

    def keep(name, heads_first=False):
        def hook(module, args, out):
            heads = out[0].transpose(0, 1) if heads_first else out[0]
            seen[name] = heads.reshape(len(heads), -1, head_dim).detach().numpy()
        return hook

    def watched(*args, **kwargs):
        n = rotated.pop(0)
        out = rotate(*args, **kwargs)
        for name, heads in zip(("q", "k"), out):
            seen[f"blocks.{n}.attn.hook_rot_{name}"] = heads[0].transpose(0, 1).numpy()
        return out

    for n, layer in enumerate(layers):
        attention, head_dim = layer.self_attn, layer.self_attn.head_dim
        for name in ("q", "k"):
            full = f"blocks.{n}.attn.hook_"
            getattr(attention, f"{name}_proj").register_forward_hook(keep(full + name))
            if model.config.model_type in ("nanochat", "hunyuan_v1_dense"):  # norms after the rotation
                norm = getattr(attention, {"nanochat": f"{name}_norm"}.get(
                    model.config.model_type, {"q": "query", "k": "key"}[name] + "_layernorm"))
                norm.register_forward_hook(keep(f"{full}rot_{name}", heads_first=True))
        if getattr(attention, "use_rope", True):
            rotated.append(n)
    code.apply_rotary_pos_emb = watched
    return lambda: setattr(code, "apply_rotary_pos_emb", rotate)


def run(directory, tokens, dtype, qk=()):
    """Logits [T, V] and intermediates of a saved model, computed in dtype."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=dtype, attn_implementation="eager", experts_implementation="eager").eval()
    seen = {}
    watch(model, seen)
    restore = watch_qk(model, seen) if qk else lambda: None
    with torch.no_grad():
        out = model(tokens[None], output_attentions=True, use_cache=False)
    restore()
    attending = [n for n, layer in enumerate(parts(model)[0]) if not hasattr(layer, "conv")]
    for n, pattern in zip(attending, out.attentions):
        seen[f"blocks.{n}.attn.hook_pattern"] = pattern[0].numpy()
    return out.logits[0].numpy(), seen


def focus(seen):
    """Entropy of attention over its entropy if it were uniform, averaged: 1 would test nothing."""
    ratios = []
    for name, pattern in seen.items():
        if name.endswith("hook_pattern"):
            visible = np.maximum((pattern > 0).sum(-1), 2)
            entropy = -(pattern * np.log(np.maximum(pattern, 1e-300))).sum(-1)
            ratios.append((entropy / np.log(visible))[:, 4:].mean())
    return float(np.mean(ratios))


# ---- one model ----


def make(directory, config, seed, dtype=torch.float32, shard="5GB", n_tokens=T, patterns=(1,),
         qk=(), rewrite=None):
    """Writes a model and its reference (`patterns`: layers whose attention is kept, to save space; `qk`:
    those whose queries and keys are); returns a line of facts about them."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    torch.manual_seed(seed)
    config.dtype = dtype
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    randomise(model)
    model.to(dtype).save_pretrained(directory, max_shard_size=shard)

    tokens = torch.randint(0, config.vocab_size, (n_tokens,))
    tokens[1], tokens[2] = config.vocab_size - 1, 0
    with Float64():
        logits, seen = run(directory, tokens, torch.float64, qk)
    if logits.dtype != np.float64 or any(v.dtype != np.float64 for v in seen.values()):
        raise SystemExit(f"{directory.name}: the reference is not float64")
    keep = {k: v.astype(np.float32) for k, v in seen.items()
            if ".attn." not in k or int(k.split(".")[1]) in qk and not k.endswith("pattern")
            or int(k.split(".")[1]) in patterns and k.endswith("pattern")}
    np.savez(directory / "ref.npz", tokens=tokens.numpy(), logits=logits, **keep)

    plain = run(directory, tokens, torch.float32)[0]
    size = sum(f.stat().st_size for f in directory.iterdir())
    if rewrite:
        rewrite(directory)
    return (f"{directory.name:20} {size:7} bytes  logits std {logits.std():.2f} max "
            f"{abs(logits).max():5.2f}  attention entropy {focus(seen):.2f}  "
            f"float32 differs by {abs(plain - logits).max():.1e}")


# ---- the models ----

LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def rope(theta, **more):
    return {"rope_type": "default", "rope_theta": theta, **more}


def shape(embd, head, kv, ff, layers=2, vocab=33, context=64, **more):
    """The keys that the llama family shares."""
    return dict(hidden_size=embd, num_attention_heads=head, num_key_value_heads=kv,
                intermediate_size=ff, num_hidden_layers=layers, vocab_size=vocab,
                max_position_embeddings=context, bos_token_id=0, eos_token_id=1,
                pad_token_id=None, **more)


def models():
    """name: (seed, config, keyword arguments of make). Shapes differ from each other on purpose."""
    hf = transformers
    return {
        "gpt2": (0, hf.GPT2Config(
            n_embd=18, n_head=3, n_layer=2, n_positions=32, vocab_size=33, bos_token_id=0, eos_token_id=0), {}),
        "gpt_neo": (1, hf.GPTNeoConfig(
            hidden_size=18, num_heads=3, num_layers=2, attention_types=[[["global", "local"], 1]],
            window_size=7, max_position_embeddings=32, vocab_size=33, bos_token_id=0, eos_token_id=0), {}),
        "llama": (2, hf.LlamaConfig(
            **shape(24, 4, 2, 28), rms_norm_eps=1e-5, tie_word_embeddings=False,
            rope_parameters=rope(10000.0)), dict(qk=(1,))),
        "llama3_rope": (3, hf.LlamaConfig(
            **shape(24, 2, 1, 30, context=128), rms_norm_eps=1e-5, tie_word_embeddings=True,
            rope_parameters=LLAMA3), dict(patterns=(), qk=(0,))),
        "smollm2_bf16": (4, hf.LlamaConfig(
            **shape(30, 3, 1, 44, vocab=37), rms_norm_eps=1e-5, tie_word_embeddings=True,
            rope_parameters=rope(100000.0)), dict(dtype=torch.bfloat16, patterns=())),
        "qwen2_sharded": (5, hf.Qwen2Config(
            **shape(24, 4, 2, 26), rms_norm_eps=1e-6, tie_word_embeddings=True,
            rope_parameters=rope(1e6)), dict(shard="20KB", patterns=())),
        "qwen3": (6, hf.Qwen3Config(
            **shape(24, 3, 1, 26), head_dim=10, rms_norm_eps=1e-6, tie_word_embeddings=True,
            rope_parameters=rope(1e6)), dict(qk=(1,))),
        "gemma3": (7, hf.Gemma3TextConfig(
            **shape(14, 2, 1, 14, layers=6, vocab=35), head_dim=8, rms_norm_eps=1e-6,
            query_pre_attn_scalar=11, sliding_window=9, tie_word_embeddings=True,
            rope_parameters={"full_attention": rope(1e6), "sliding_attention": rope(10000.0)}), dict(patterns=(0, 5))),
        "mixtral": (8, hf.MixtralConfig(
            **shape(20, 2, 1, 18), num_local_experts=5, num_experts_per_tok=2, rms_norm_eps=1e-5,
            tie_word_embeddings=False, rope_parameters=rope(1e6)), dict(patterns=(), qk=(1,))),
        "olmoe": (9, hf.OlmoeConfig(
            **shape(20, 2, 2, 11), num_experts=8, num_experts_per_tok=3, norm_topk_prob=False, clip_qkv=1.1, rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=rope(10000.0)), dict(patterns=())),
        "qwen2_moe": (10, hf.Qwen2MoeConfig(
            **shape(20, 2, 1, 22, layers=3), num_experts=4, num_experts_per_tok=2, moe_intermediate_size=9, shared_expert_intermediate_size=14, mlp_only_layers=[1],
            norm_topk_prob=False, rms_norm_eps=1e-6, tie_word_embeddings=False, rope_parameters=rope(1e6)), dict(patterns=())),
        "qwen3_moe": (11, hf.Qwen3MoeConfig(
            **shape(20, 2, 1, 30), num_experts=6, num_experts_per_tok=2, moe_intermediate_size=11,
            norm_topk_prob=True, head_dim=12, rms_norm_eps=1e-6, tie_word_embeddings=False, rope_parameters=rope(1e6)), dict(dtype=torch.bfloat16, patterns=())),
        "granitemoe": (12, hf.GraniteMoeConfig(
            **shape(20, 2, 1, 18), num_local_experts=4, num_experts_per_tok=2, rms_norm_eps=1e-6,
            tie_word_embeddings=True, rope_parameters=rope(10000.0), embedding_multiplier=3.0,
            residual_multiplier=0.4, attention_multiplier=0.25, logits_scaling=0.7), dict(patterns=())),
        "granitemoeshared": (13, hf.GraniteMoeSharedConfig(
            **shape(20, 2, 1, 12), num_local_experts=4, num_experts_per_tok=3, shared_intermediate_size=17, rms_norm_eps=1e-6, tie_word_embeddings=True,
            rope_parameters=rope(10000.0), embedding_multiplier=2.0, residual_multiplier=0.5,
            attention_multiplier=0.3, logits_scaling=0.6), dict(patterns=())),
        "gpt_neox": (8, neox(True, 24, 0.34), {}),
        "gpt_neox_serial": (9, neox(False, 20, 0.4), dict(patterns=())),
        "phi": (10, hf.PhiConfig(**shape(24, 2, 2, 30), layer_norm_eps=1e-5, tie_word_embeddings=False,
                             rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), {}),
        "olmo": (11, hf.OlmoConfig(**shape(24, 3, 3, 26), tie_word_embeddings=True, rope_parameters=rope(10000.0)),
                 dict(patterns=(), qk=(1,))),
        "olmo2": (12, hf.Olmo2Config(
            **shape(24, 3, 3, 24), rms_norm_eps=1e-6, tie_word_embeddings=False, rope_parameters=rope(500000.0)), {}),
        "olmo3": (13, hf.Olmo3Config(
            **shape(24, 3, 1, 24, layers=5), rms_norm_eps=1e-6, tie_word_embeddings=False, sliding_window=7,
            rope_parameters={"full_attention": rope(500000.0), "sliding_attention": rope(10000.0)}),
            dict(patterns=(0, 3))),
        "smollm3": (13, hf.SmolLM3Config(
            **shape(16, 2, 1, 24, layers=4), rms_norm_eps=1e-6, tie_word_embeddings=True,
            no_rope_layer_interval=4, rope_parameters=rope(5e6)), dict(patterns=(3,), qk=(2, 3))),
        "nanochat": (14, hf.NanoChatConfig(
            **shape(24, 2, 1, 48), rms_norm_eps=1e-6, final_logit_softcapping=15.0,
            tie_word_embeddings=False, rope_parameters=rope(10000.0)), dict(qk=(1,))),
        "mistral_yarn": (16, hf.MistralConfig(
            **shape(24, 3, 1, 28), rms_norm_eps=1e-5, tie_word_embeddings=True, sliding_window=9,
            rope_parameters={"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0,
                             "original_max_position_embeddings": 16}), dict(patterns=(), qk=(1,))),
        "qwen2_window": (17, hf.Qwen2Config(
            **shape(16, 2, 1, 20, layers=3), rms_norm_eps=1e-6, tie_word_embeddings=True,
            use_sliding_window=True, sliding_window=5, max_window_layers=1,
            rope_parameters=rope(1e6)), dict(patterns=(2,))),
        "starcoder2": (18, hf.Starcoder2Config(
            **shape(24, 3, 1, 30), norm_epsilon=1e-5, tie_word_embeddings=True, sliding_window=9,
            rope_parameters=rope(10000.0)), {}),
        "granite": (19, hf.GraniteConfig(
            **shape(24, 3, 1, 26), rms_norm_eps=1e-5, tie_word_embeddings=True,
            embedding_multiplier=3.5, residual_multiplier=0.4, attention_multiplier=0.3,
            logits_scaling=0.7, rope_parameters=rope(10000.0)), dict(qk=(1,))),
        "gemma": (20, hf.GemmaConfig(
            **shape(18, 2, 1, 22), head_dim=10, rms_norm_eps=1e-6, rope_parameters=rope(10000.0)), {}),
        "gemma2": (21, hf.Gemma2Config(
            **shape(18, 2, 1, 20, layers=3), head_dim=8, rms_norm_eps=1e-6, sliding_window=7,
            query_pre_attn_scalar=11, attn_logit_softcapping=2.0, final_logit_softcapping=4.0,
            rope_parameters=rope(10000.0)), dict(patterns=(0, 1))),
        "phi3_longrope": (22, hf.Phi3Config(
            **shape(24, 3, 1, 26), rms_norm_eps=1e-5, tie_word_embeddings=False,
            original_max_position_embeddings=32, sliding_window=20,
            rope_parameters=rope(10000.0, partial_rotary_factor=0.75) | {
                "rope_type": "longrope", "original_max_position_embeddings": 32,
                "short_factor": [1.0, 1.25, 1.5], "long_factor": [1.0, 3.0, 6.0]}), {}),
        "stablelm": (23, hf.StableLmConfig(
            **shape(24, 3, 1, 26), layer_norm_eps=1e-5, tie_word_embeddings=False, use_qkv_bias=True,
            rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), {}),
        "stablelm_parallel": (30, hf.StableLmConfig(
            **shape(20, 2, 2, 24), layer_norm_eps=1e-5, tie_word_embeddings=False, use_parallel_residual=True,
            qk_layernorm=True, rope_parameters=rope(10000.0, partial_rotary_factor=0.4)), dict(patterns=())),
        "opt": (25, hf.OPTConfig(
            hidden_size=18, num_attention_heads=3, num_hidden_layers=2, ffn_dim=26, vocab_size=33, bos_token_id=0,
            max_position_embeddings=32, eos_token_id=1), {}),
        "opt_350m": (32, hf.OPTConfig(
            hidden_size=18, num_attention_heads=3, num_hidden_layers=2, ffn_dim=26, vocab_size=33, bos_token_id=0,
            word_embed_proj_dim=10, do_layer_norm_before=False, max_position_embeddings=32, eos_token_id=1), {}),
        "gpt1": (33, hf.OpenAIGPTConfig(n_embd=20, n_head=2, n_layer=2, n_positions=32, vocab_size=33), dict(patterns=())),
        "gptj": (26, hf.GPTJConfig(n_embd=20, n_head=2, rotary_dim=4, **NUMBERS), {}),
        "codegen": (27, hf.CodeGenConfig(n_embd=24, n_head=4, rotary_dim=4, **NUMBERS), dict(patterns=())),
        "gpt_bigcode": (28, hf.GPTBigCodeConfig(n_embd=18, n_head=3, **NUMBERS), {}),
        "bigcode_heads": (34, hf.GPTBigCodeConfig(n_embd=18, n_head=3, multi_query=False, **NUMBERS), dict(patterns=())),
        "cohere": (38, hf.CohereConfig(
            **shape(24, 3, 1, 26), layer_norm_eps=1e-5, logit_scale=0.6, use_qk_norm=True,
            rope_parameters=rope(10000.0)), {}),
        "cohere2": (30, hf.Cohere2Config(
            **shape(16, 2, 1, 20, layers=4), layer_norm_eps=1e-5, logit_scale=0.6, sliding_window=7,
            rope_parameters=rope(10000.0)), dict(patterns=(0, 3))),
        "falcon": (31, hf.FalconConfig(
            hidden_size=24, num_attention_heads=3, num_hidden_layers=2, vocab_size=33,
            max_position_embeddings=64, bos_token_id=0, eos_token_id=0, rope_parameters=rope(10000.0)), {}),
        "falcon_new": (32, hf.FalconConfig(
            hidden_size=24, num_attention_heads=4, num_kv_heads=2, num_hidden_layers=2, vocab_size=33,
            max_position_embeddings=64, new_decoder_architecture=True, bias=True, bos_token_id=0,
            eos_token_id=0, rope_parameters=rope(10000.0)), dict(patterns=())),
        "bloom": (33, hf.BloomConfig(
            hidden_size=18, n_head=3, n_layer=2, vocab_size=33, seq_length=48, bos_token_id=0, eos_token_id=0), {}),
        "mpt": (34, hf.MptConfig(
            d_model=24, n_heads=6, n_layers=2, max_seq_len=48, vocab_size=33, bos_token_id=0,
            eos_token_id=0, attn_config=dict(clip_qkv=1.5, softmax_scale=0.6)), {}),
        "arcee": (35, hf.ArceeConfig(**shape(24, 3, 1, 34), rms_norm_eps=1e-5, rope_parameters=rope(10000.0)), dict(qk=(1,))),
        "nemotron": (36, hf.NemotronConfig(
            **shape(20, 2, 1, 34), head_dim=12, norm_eps=1e-5,
            rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), dict(patterns=())),
        "jais2": (37, hf.Jais2Config(
            **shape(24, 3, 3, 30), layer_norm_eps=1e-5, rope_parameters=rope(500000.0)), dict(patterns=())),
        "ernie4_5": (38, hf.Ernie4_5Config(
            **shape(20, 2, 1, 28), head_dim=12, rms_norm_eps=1e-5, tie_word_embeddings=True,
            rope_parameters=rope(500000.0)), dict(qk=(1,))),
        "helium": (39, hf.HeliumConfig(
            **shape(24, 3, 1, 26), head_dim=8, rms_norm_eps=1e-8, rope_parameters=rope(100000.0)), dict(patterns=())),
        "seed_oss": (40, hf.SeedOssConfig(
            **shape(20, 2, 1, 26), head_dim=12, rms_norm_eps=1e-6, attention_out_bias=True,
            rope_parameters=rope(10000.0)), dict(patterns=())),
        "glm": (41, hf.GlmConfig(
            **shape(24, 3, 1, 26), head_dim=8, rms_norm_eps=1.5625e-7,
            rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), dict(patterns=())),
        "glm4": (42, hf.Glm4Config(
            **shape(20, 2, 1, 28), head_dim=12, rms_norm_eps=1e-5,
            rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), {}),
        "hunyuan": (43, hf.HunYuanDenseV1Config(
            **shape(20, 2, 1, 28), head_dim=12, rms_norm_eps=1e-5, tie_word_embeddings=True,
            rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 50.0, "factor": 1.0}),
            dict(qk=(1,))),
        "exaone": (44, hf.LlamaConfig(
            **shape(24, 3, 1, 28), rms_norm_eps=1e-5, rope_parameters=rope(500000.0) | LLAMA3),
            dict(rewrite=as_exaone, patterns=())),
        "exaone4": (45, hf.Exaone4Config(
            **shape(18, 3, 1, 22, layers=2), rms_norm_eps=1e-5, sliding_window=7,
            layer_types=["sliding_attention", "full_attention"], rope_parameters=rope(1e6)), dict(patterns=(0, 1))),
        "exaone4_full": (46, hf.Exaone4Config(
            **shape(18, 3, 1, 20), rms_norm_eps=1e-5, tie_word_embeddings=True, sliding_window=None,
            layer_types=["full_attention"] * 2, rope_parameters=rope(1e6)), dict(patterns=())),
        "minicpm": (47, hf.GraniteConfig(
            **shape(24, 3, 1, 28), rms_norm_eps=1e-5, tie_word_embeddings=True, embedding_multiplier=3.0,
            residual_multiplier=1.4 / 2**0.5, attention_multiplier=8**-0.5, logits_scaling=1.5,
            rope_parameters=rope(10000.0)), dict(rewrite=as_minicpm, patterns=())),
        "vaultgemma": (48, hf.VaultGemmaConfig(
            **shape(18, 2, 1, 20), head_dim=8, rms_norm_eps=1e-6, sliding_window=7, query_pre_attn_scalar=11,
            attn_logit_softcapping=2.0, final_logit_softcapping=4.0, rope_parameters=rope(10000.0)),
            dict(patterns=(0,))),
        "cwm": (49, hf.CwmConfig(
            **shape(24, 3, 1, 26, layers=3), head_dim=8, rms_norm_eps=1e-5, sliding_window=7,
            layer_types=["full_attention", "sliding_attention", "sliding_attention"], rope_parameters=LLAMA3),
            dict(patterns=(0, 1))),
        "biogpt": (50, hf.BioGptConfig(
            hidden_size=18, num_attention_heads=3, num_hidden_layers=2, intermediate_size=26, vocab_size=33,
            max_position_embeddings=32, bos_token_id=0, eos_token_id=1), dict(patterns=())),
        "xglm": (51, hf.XGLMConfig(
            d_model=18, attention_heads=3, num_layers=2, ffn_dim=26, vocab_size=33, max_position_embeddings=32,
            bos_token_id=0, eos_token_id=1), dict(patterns=())),
        "lfm2": (58, hf.Lfm2Config(
            **shape(20, 2, 1, 33, layers=4), norm_eps=1e-5, conv_L_cache=3, block_multiple_of=6,
            layer_types=["conv", "full_attention", "conv", "conv"], rope_parameters=rope(1e6)), {}),
        "apertus": (62, hf.ApertusConfig(**shape(20, 2, 1, 33), rms_norm_eps=1e-5, rope_parameters=rope(12e6) | LLAMA3), {}),
        "granite_4": (63, hf.GraniteMoeHybridConfig(
            **shape(24, 3, 1, 28), rms_norm_eps=1e-5, tie_word_embeddings=True, embedding_multiplier=3.0,
            residual_multiplier=0.7, attention_multiplier=0.3, logits_scaling=1.5, num_local_experts=0,
            shared_intermediate_size=33, layer_types=["attention"] * 2, position_embedding_type="rope",
            mamba_n_heads=2, mamba_d_head="auto", rope_parameters=rope(10000.0)), dict(qk=(1,))),
        "phi_norms": (64, hf.PhiConfig(**shape(24, 3, 1, 30), layer_norm_eps=1e-5, tie_word_embeddings=False, qk_layernorm=True,
                                   rope_parameters=rope(10000.0, partial_rotary_factor=0.5)), dict(patterns=())),
    }


def neox(parallel, embd, rotated):
    return transformers.GPTNeoXConfig(
        hidden_size=embd, num_attention_heads=2, intermediate_size=34, num_hidden_layers=2,
        vocab_size=33, max_position_embeddings=64, layer_norm_eps=1e-5, hidden_act="gelu",
        use_parallel_residual=parallel, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0,
        rope_parameters=rope(10000.0, partial_rotary_factor=rotated))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(f"# Python {sys.version.split()[0]}, torch {torch.__version__}, transformers "
          f"{transformers.__version__}, numpy {np.__version__}")
    for name, (seed, config, how) in models().items():
        if not args.names or name in args.names:
            print(make(args.out / name, config, seed, **how), flush=True)


if __name__ == "__main__":
    main()
