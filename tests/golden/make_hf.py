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

    make_hf.py [--out DIR] [NAME …]      no NAME: all. Prints facts of each and puts its row into DIR/table.md
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import torch
import transformers
from torch.overrides import TorchFunctionMode
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from hf_configs import models
from hf_shape import rope, shape  # noqa: F401: quality/ takes them from here

# transformers names the class for the whole of mllama alone.
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES["mllama_text_model"] = "MllamaForCausalLM"

T = 24  # positions of a reference


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
    kind = model.config.model_type
    centre = 0.0 if kind.startswith(("gemma", "nemotron", "vaultgemma")) and not kind.startswith("gemma4") else 1.0
    transposed = model.config.model_type in ("gpt2", "openai-gpt")
    for name, parameter in model.named_parameters():
        if kind.startswith("gemma4") and ("q_norm" in name or "k_norm" in name):  # scores are not divided
            parameter.data.uniform_(0.4, 1.1)
        elif "q_norm" in name or "k_norm" in name:
            parameter.data.uniform_(centre, centre + 0.9)
        elif parameter.dim() > 1:
            parameter.data.normal_(0.0, spread(name, parameter.shape, transposed))
        elif name.endswith(".weight"):
            parameter.data.uniform_(centre - 0.5, centre + 0.5)
        else:
            parameter.data.normal_(0.0, 0.3)
    for name, buffer in model.named_buffers():
        if name.endswith("layer_scalar"):  # Gemma 4
            buffer.data.uniform_(0.6, 1.1)
        if kind == "beam" and name.endswith("e_score_correction_bias"):
            buffer.data.normal_(0.0, 0.3)


# ---- what the model computes ----


def parts(model):
    """The list of layers and the final norm (None: there is none), by the names the families have for them."""
    inner = model.base_model
    inner = getattr(inner, "decoder", getattr(inner, "model", inner))
    layers = next(getattr(inner, name) for name in ("h", "blocks", "layers") if hasattr(inner, name))
    layers = [layer for layer in layers if not hasattr(layer, "cross_attn")]
    for name in ("ln_f", "norm", "final_layernorm", "final_layer_norm", "norm_f", "layer_norm", "layernorm", "embedding_norm", "final_norm"):
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
    head = getattr(getattr(model, "lm_head", None), "norm", None)  # ModernBERT
    if head is not None:
        head.register_forward_hook(keep("mlm_head.ln.hook_normalized"))


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
        attention = getattr(layer, "self_attn", None) or layer.attn
        head_dim = attention.head_dim
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
         qk=(), rewrite=None, what=""):
    """Writes a model and its reference (`patterns`: layers whose attention is kept, to save space; `qk`:
    those whose queries and keys are); returns its row of table.md and a line of facts."""
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
    largest, difference = f"{abs(logits).max():.2f}", f"{abs(plain - logits).max():.1e}"
    model_type = json.loads((directory / "config.json").read_text())["model_type"]
    return (f"| `{directory.name}` | `{model_type}` | {what} | {largest} | {focus(seen):.2f} | {difference} |",
            f"{directory.name:20} {size:7} bytes  logits std {logits.std():.2f} max {largest:>5}  "
            f"float32 differs by {difference}")


TABLE = """Written by make_hf.py: what the models are for, and, as [README.md](README.md) explains, their numbers.

| directory | model type | what it exercises | largest logit | attention | float32 differs by |
| --- | --- | --- | --- | --- | --- |
"""


def put_row(path, row):
    """Puts a row into the table, in the order of models()."""
    rows = {line.split("`")[1]: line for line in path.read_text().splitlines() if line.startswith("| `")} if path.exists() else {}
    rows[row.split("`")[1]] = row
    path.write_text(TABLE + "".join(rows[name] + "\n" for name in models() if name in rows))


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
            row, line = make(args.out / name, config, seed, **how)
            put_row(args.out / "table.md", row)
            print(line, flush=True)


if __name__ == "__main__":
    main()
