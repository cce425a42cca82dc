"""Makes the quantised golden models of this directory: GPTQ, AWQ and MLX.

    make_quant.py [--out DIR]      prints a table

The files are written here from the formats' definitions (AutoGPTQ and GPTQModel: qlinear_*.py pack; AutoAWQ:
gemm.py, packing_utils.py; MLX: mlx.core.quantize), number by number: no code of mgpt and none of those programs.
The numbers are random, as are the scales and zeros, so that every one matters. The reference (as in make_hf.py) is
what transformers computes, in float64, from a plain model with the weights s (q - z) or s q + b.

    NAME/config.json, model.safetensors, ref.npz   as in make_hf.py
    NAME/options                                   for mgpt convert
    NAME/plain/config.json, model.safetensors      the plain model
"""

import argparse
import json
import pathlib
import shutil
import tempfile

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file

import make_hf


def words(numbers, bits):
    """Along the last axis, little-endian 32-bit words: number i is bits i * bits to (i + 1) * bits - 1."""
    each = (numbers[..., None] >> np.arange(bits)) & 1
    stream = each.reshape(*numbers.shape[:-1], -1, 32).astype(np.uint64)
    return (stream << np.arange(32, dtype=np.uint64)).sum(-1).astype(np.uint32)


def f16(x):
    return np.asarray(x, np.float16)


class Gptq:
    def __init__(self, rng, bits, group, symmetric=False, version=1, act_order=False, bias=False):
        self.__dict__.update(rng=rng, bits=bits, group=group, symmetric=symmetric, version=version,
                             act_order=act_order, bias=bias)

    def config(self):
        return {"quantization_config": {
            "quant_method": "gptq", "bits": self.bits, "group_size": self.group, "desc_act": self.act_order,
            "sym": self.symmetric, "checkpoint_format": "gptq" if self.version == 1 else "gptq_v2",
            "true_sequential": True, "damp_percent": 0.01}}

    def matrix(self, name, w):
        n_out, n_in = w.shape
        group = n_in if self.group == -1 else self.group
        top = 1 << self.bits
        q = self.rng.integers(0, top, (n_in, n_out))
        z = self.rng.integers(1, top, (n_in // group, n_out))
        if self.symmetric:
            z[:] = top // 2
        s = f16(self.rng.uniform(0.5, 1.5, z.shape) * w.std() / (0.3 * top))
        g = np.arange(n_in) // group
        if self.act_order:
            g = self.rng.permutation(g)
        stored = z - 1 if self.version == 1 else z
        files = {"qweight": words(q.T, self.bits).T.view(np.int32), "scales": s,
                 "qzeros": words(stored, self.bits).view(np.int32)}
        if self.act_order or self.version == 1:
            files["g_idx"] = g.astype(np.int32)
        if self.bias: # AutoGPTQ writes zeros for layers without one
            files["bias"] = np.zeros(n_out, np.float16)
        return files, (s.astype(np.float64)[g] * (q - z[g])).T

    def takes(self, name):
        return "_proj" in name


class Awq:
    def __init__(self, rng, group):
        self.rng, self.group = rng, group

    def config(self):
        return {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": self.group, "version": "gemm",
                                        "zero_point": True, "modules_to_not_convert": None}}

    @staticmethod
    def pack(q):
        order = [0, 2, 4, 6, 1, 3, 5, 7]
        eights = q.reshape(q.shape[0], -1, 8)[..., order].astype(np.uint32)
        return (eights << (4 * np.arange(8, dtype=np.uint32))).sum(-1).astype(np.uint32).view(np.int32)

    def matrix(self, name, w):
        n_out, n_in = w.shape
        q = self.rng.integers(0, 16, (n_in, n_out))
        z = self.rng.integers(0, 16, (n_in // self.group, n_out))
        s = f16(self.rng.uniform(0.5, 1.5, z.shape) * w.std() / 5)
        g = np.arange(n_in) // self.group
        return {"qweight": self.pack(q), "qzeros": self.pack(z), "scales": s}, \
            (s.astype(np.float64)[g] * (q - z[g])).T

    def takes(self, name):
        return "_proj" in name


class Mlx:
    """`own`: bits of single matrices."""

    def __init__(self, rng, group, bits, own=()):
        self.rng, self.group, self.bits, self.own = rng, group, bits, dict(own)

    def config(self):
        q = {"group_size": self.group, "bits": self.bits, "mode": "affine"}
        q.update({name: {"group_size": self.group, "bits": bits} for name, bits in self.own.items()})
        return {"quantization": q, "quantization_config": q}

    def matrix(self, name, w):
        n_out, n_in = w.shape
        bits = self.own.get(name, self.bits)
        q = self.rng.integers(0, 1 << bits, w.shape)
        s = f16(self.rng.uniform(0.5, 1.5, (n_out, n_in // self.group)) * w.std() / (0.3 * (1 << bits)))
        b = f16(-s.astype(np.float64) * (1 << (bits - 1)) * self.rng.uniform(0.8, 1.2, s.shape))
        each = lambda v: v.astype(np.float64).repeat(self.group, 1)
        return {"weight": words(q, bits), "scales": s, "biases": b}, each(s) * q + each(b)

    def takes(self, name):
        return "_proj" in name or "embed" in name or "lm_head" in name


def make(directory, config, scheme, seed):
    torch.manual_seed(seed)
    config.dtype = torch.float32
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    make_hf.randomise(model)
    with tempfile.TemporaryDirectory() as plain:
        plain = pathlib.Path(plain)
        model.save_pretrained(plain)
        stored, exact = {}, {}
        for name, w in load_file(plain / "model.safetensors").items():
            base = name.removesuffix(".weight")
            if w.ndim == 2 and scheme.takes(name):
                parts, value = scheme.matrix(base, w)
                stored.update({f"{base}.{k}": np.ascontiguousarray(v) for k, v in parts.items()})
                exact[name] = np.ascontiguousarray(value, np.float32) # exact, or (MLX) rounded once
            else:
                stored[name] = exact[name] = w
        save_file(exact, plain / "model.safetensors", {"format": "pt"})
        tokens = torch.randint(0, config.vocab_size, (make_hf.T,))
        with make_hf.Float64():
            logits, seen = make_hf.run(plain, tokens, torch.float64)
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "plain").mkdir(parents=True)
        for name in ("config.json", "model.safetensors"):
            shutil.copy(plain / name, directory / "plain" / name)
        save_file(stored, directory / "model.safetensors", {"format": "mlx" if isinstance(scheme, Mlx) else "pt"})
        text = json.loads((plain / "config.json").read_text())
        (directory / "config.json").write_text(json.dumps({**text, **scheme.config()}, indent=1) + "\n")
    keep = {k: v.astype(np.float32) for k, v in seen.items() if k.endswith("hook_resid_post")}
    np.savez(directory / "ref.npz", tokens=tokens.numpy(), logits=logits, **keep)
    (directory / "options").write_text("--no-tokenizer --type f32\n")
    size = sum(f.stat().st_size for f in directory.rglob("*"))
    return f"{directory.name:16} {size:7} bytes  logits std {logits.std():.2f} max {abs(logits).max():.2f}"


def models():
    sizes = make_hf.shape(32, 2, 1, 64, layers=1, head_dim=32)
    llama = lambda: transformers.LlamaConfig(rope_parameters=make_hf.rope(1e4), **sizes)
    qwen = lambda: transformers.Qwen2Config(rope_parameters=make_hf.rope(1e4), **sizes)
    rng = np.random.default_rng
    return {
        "gptq_sym": (llama(), Gptq(rng(1), 4, 32, symmetric=True, bias=True)),
        "gptq_order": (qwen(), Gptq(rng(2), 4, 32, act_order=True)),
        "gptq_v2": (llama(), Gptq(rng(4), 3, -1, version=2)),
        "gptq_8bit": (llama(), Gptq(rng(5), 8, 32, symmetric=True)),
        "awq": (qwen(), Awq(rng(6), 32)),
        "mlx": (llama(), Mlx(rng(8), 32, 4, {"lm_head": 6, "model.layers.0.mlp.up_proj": 3, "model.layers.0.mlp.gate_proj": 5,
                                             "model.layers.0.self_attn.o_proj": 2, "model.layers.0.mlp.down_proj": 8})),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for seed, (name, (config, scheme)) in enumerate(models().items()):
        print(make(args.out / name, config, scheme, seed), flush=True)


if __name__ == "__main__":
    main()
