"""Checkpoints of programs that transformers does not have: those of another family with the same formulas, under the
program's names of keys and tensors. For make_hf.py and ../quality/fresh.py.
"""
import json

import safetensors.torch


def renamed(directory, keys, drop, names, **more):
    """Replaces keys of config.json, and parts of the names of tensors."""
    path = directory / "config.json"
    config = {keys.get(k, k): v for k, v in json.loads(path.read_text()).items() if k not in drop}
    path.write_text(json.dumps(config | more, indent=2, sort_keys=True) + "\n")
    path = directory / "model.safetensors"
    tensors = {}
    for name, tensor in safetensors.torch.load_file(path).items():
        for old, new in names:
            name = name.replace(old, new)
        tensors[name] = tensor
    safetensors.torch.save_file(tensors, path, {"format": "pt"})


def as_exaone(directory):
    """EXAONE 3 and 3.5 are Llama with GPT-2's names."""
    renamed(directory, {"num_hidden_layers": "num_layers", "rms_norm_eps": "layer_norm_epsilon",
                        "hidden_act": "activation_function"}, ("architectures", "attention_bias", "mlp_bias"),
            [("model.embed_tokens", "transformer.wte"), ("model.layers", "transformer.h"), ("model.norm", "transformer.ln_f"),
             ("self_attn.o_proj", "attn.attention.out_proj"), ("self_attn", "attn.attention"),
             ("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2"), ("gate_proj", "c_fc_0"),
             ("up_proj", "c_fc_1"), ("down_proj", "c_proj")], model_type="exaone")


def as_minicpm(directory):
    """MiniCPM 1, 2 and 4 are Granite whose multipliers are given by other numbers; attention's is the usual one."""
    config = json.loads((directory / "config.json").read_text())
    renamed(directory, {"embedding_multiplier": "scale_emb"},
            ("architectures", "attention_multiplier", "logits_scaling", "residual_multiplier", "mlp_bias"), [],
            model_type="minicpm", dim_model_base=config["hidden_size"] / config["logits_scaling"],
            scale_depth=config["residual_multiplier"] * config["num_hidden_layers"]**0.5)
