"""Makes the quantised golden models of this directory: GPTQ, AWQ, MLX and MXFP4.

    make_quant.py [--out DIR]      prints a table

The files are written here from the formats' definitions (AutoGPTQ and GPTQModel: qlinear_*.py pack; AutoAWQ:
gemm.py, packing_utils.py; MLX: mlx.core.quantize; FP8 with scales of blocks: DeepSeek-V3's config.json;
compressed-tensors: pack_to_int32; bitsandbytes: QuantState; NVFP4: Model Optimizer and compressed-tensors; HQQ: bitpack.py; transformers: integrations/mxfp4.py), number by number: no
code of mgpt and none of those programs.
The numbers are random, as are the scales and zeros, so that every one matters. The reference (as in make_hf.py) is
what transformers computes, in float64, from a plain model with the weights s (q - z), s q + b or 2^(e - 127) times one of 16 numbers.

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
from safetensors.torch import save_file as save_torch

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


class Coded:
    """Codes with scales: matrices take the forms in turn, so that one model has all of a method."""

    def __init__(self, rng, method, forms, **settings):
        self.rng, self.forms, self.settings, self.n = rng, forms, {"quant_method": method, **settings}, 0

    def config(self):
        return {"quantization_config": self.settings}

    def matrix(self, name, w):
        form = self.forms[self.n % len(self.forms)]
        self.n += 1
        return getattr(self, form[0])(w, *form[1:])

    def takes(self, name):
        return "_proj" in name

    def scales(self, shape, w, top):
        return np.float32(self.rng.uniform(0.5, 1.5, shape) * w.std() * 3 / top)

    def fp8(self, w, part, rows, columns):
        """E4M3: 1 sign, 4 exponent (bias 7), 3 fraction bits. Blocks of the edges may be smaller."""
        down, across = -(-w.shape[0] // rows), -(-w.shape[1] // columns)
        codes = self.rng.integers(0, 254, w.shape).astype(np.uint8)
        codes[codes == 127] = 126 # not a number, as 255
        e, m = codes >> 3 & 15, (codes & 7).astype(np.float64)
        values = np.where(e > 0, (8 + m) * 2.0 ** (e.astype(int) - 10), m * 2.0 ** -9) * np.where(codes > 127, -1, 1)
        s = self.scales((down, across), w, 448)
        each = s.repeat(rows, 0)[:w.shape[0]].repeat(columns, 1)[:, :w.shape[1]].astype(np.float64)
        s = s.reshape(()) if s.size == 1 and part == "weight_scale_inv" else s
        return {"weight": torch.from_numpy(codes).view(torch.float8_e4m3fn), part: s}, values * each

    def int8(self, w, zero=False):
        q = self.rng.integers(-128, 128, w.shape)
        s, z = self.scales((len(w), 1), w, 127), self.rng.integers(-9, 9, (len(w), 1)) * zero
        parts = {"weight": q.astype(np.int8), "weight_scale": s, "input_scale": np.ones(1, np.float32)}
        return {**parts, **({"weight_zero_point": z.astype(np.int8)} if zero else {})}, s.astype(np.float64) * (q - z)

    def scb(self, w):
        # Two roundings, as bitsandbytes dequantises.
        q, s = self.rng.integers(-127, 128, w.shape), self.scales(len(w), w, 1)
        return {"weight": q.astype(np.int8), "SCB": s, "weight_format": np.uint8(0)}, np.float32(q) * s[:, None] * np.float32(1 / 127)

    def packed(self, w, bits, group, zero=False, order=False):
        q, g = self.rng.integers(0, 1 << bits, w.shape), np.arange(w.shape[1]) // group
        z = np.full((len(w), w.shape[1] // group), 1 << bits - 1)
        z = self.rng.integers(0, 1 << bits, z.shape) if zero else z
        s = self.scales(z.shape, w, 1 << bits - 1)
        parts = {"weight_packed": words(q, bits).view(np.int32), "weight_scale": s, "weight_shape": np.int64(w.shape)}
        if zero:
            parts["weight_zero_point"] = words(z.T, bits).T.view(np.int32)
        if order:
            g = self.rng.permutation(g)
            parts["weight_g_idx"] = g.astype(np.int32)
        return parts, s.astype(np.float64)[:, g] * (q - z[:, g])

    def nibbles(self, w, kind, nested=False, block=64):
        """Blocks of 64 run on over rows; the first code of a byte is in its high half."""
        book = np.float32(np.sort(self.rng.uniform(-1, 1, 16)))
        q = self.rng.integers(0, 16, w.size)
        n, facts = w.size // block, {"quant_type": kind, "blocksize": block, "dtype": "bfloat16", "shape": list(w.shape)}
        absmax = self.scales(n, w, 1)
        parts = {"weight": (q[::2] << 4 | q[1::2]).astype(np.uint8)[:, None], "weight.quant_map": book}
        if nested:
            codes, map_, each = self.rng.integers(0, 256, n), np.float32(self.rng.uniform(0, 1, 256)), self.scales(-(-n // 256), w, 1)
            parts.update({"weight.nested_quant_map": map_, "weight.nested_absmax": each})
            facts.update(nested_blocksize=256, nested_dtype="float32", nested_offset=0.046875)
            absmax = map_[codes] * each[np.arange(n) // 256] + np.float32(0.046875)
        parts["weight.absmax"] = codes.astype(np.uint8) if nested else absmax
        parts[f"weight.quant_state.bitsandbytes__{kind}"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        return parts, (book.astype(np.float64)[q] * absmax.astype(np.float64)[np.arange(w.size) // block]).reshape(w.shape)


    def nvfp4(self, w, divides):
        """E2M1 with a scale in E4M3 for each 16, times one for all (ModelOpt), or divided by it (compressed-tensors)."""
        q = self.rng.integers(0, 16, w.shape)
        codes = self.rng.integers(40, 90, (len(w), w.shape[1] // 16)).astype(np.uint8)
        each = np.float32((8 + (codes & 7)) * 2.0 ** ((codes >> 3).astype(int) - 10))
        one = np.float32(self.rng.uniform(0.1, 0.2) * w.std())
        s = each / (1 / one) if divides else each * one
        size = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[q & 7] * np.where(q & 8, -1, 1)
        parts = {"weight_packed" if divides else "weight": (q[:, ::2] | q[:, 1::2] << 4).astype(np.uint8),
                 "weight_scale": torch.from_numpy(codes).view(torch.float8_e4m3fn)}
        parts.update({"weight_global_scale": np.float32([1 / one])} if divides else {"weight_scale_2": one, "input_scale": one})
        return parts, size * s.astype(np.float64).repeat(16, 1)

    def hqq(self, w, bits, axis, group):
        """A grid of groups; parts of its rows are next to each other in a byte, or word."""
        grid = (-1, group) if axis else (group, -1)
        q = self.rng.integers(0, 1 << bits, w.shape).reshape(grid)
        s = f16(self.scales((len(q), 1) if axis else (1, q.shape[1]), w, 1 << bits))
        z = f16(self.rng.uniform(0, 1 << bits, s.shape))
        each, kind, top = (10, np.uint32, 27) if bits == 3 else (8 // bits, np.uint8, 8 - bits)
        step = -(-len(q) // each)
        rows = np.zeros((step * each, q.shape[1]), np.int64)
        rows[:len(q)] = q
        codes = sum(part << top - bits * i for i, part in enumerate(rows.reshape(each, step, -1)))
        number = lambda v: np.array(v, np.int32)
        return {"W_q": codes.astype(kind).view(np.int32 if bits == 3 else kind), "scale": s, "zero": z, "shape": np.int64(w.shape),
                "axis": number(axis), "nbits": number(bits), "group_size": number(group), "quant_zero": np.uint8(0),
                "packing": np.frombuffer(b"4bit_u8", np.uint8), "stores_quant_config": np.uint8(1)}, \
            ((q - z.astype(np.float64)) * s.astype(np.float64)).reshape(w.shape)


def tensor(v):
    return v if isinstance(v, torch.Tensor) else torch.from_numpy(np.array(v, order="C"))


class Mxfp4:
    """The experts of gpt-oss, [X, n_in, n_out] in the plain model: blocks of 32 numbers of four bits, and a power of two."""
    between = "_"

    def __init__(self, rng):
        self.rng = rng

    def config(self):
        return {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}}

    def matrix(self, name, w):
        rows = w.transpose(0, 2, 1).shape
        q = self.rng.integers(0, 16, rows)
        e = self.rng.integers(122, 127, (*rows[:2], rows[2] // 32))
        size = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[q & 7] * np.where(q & 8, -1, 1)
        blocks = (q[..., ::2] | q[..., 1::2] << 4).astype(np.uint8).reshape(*e.shape, 16)
        return {"blocks": blocks, "scales": e.astype(np.uint8)}, \
            (size * 2.0 ** (e.repeat(32, -1) - 127)).transpose(0, 2, 1)

    def takes(self, name):
        return name.endswith(("gate_up_proj", "down_proj"))


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
            if w.ndim > 1 and scheme.takes(name):
                parts, value = scheme.matrix(base, w)
                stored.update({base + getattr(scheme, "between", ".") + k: tensor(v) for k, v in parts.items()})
                exact[name] = np.ascontiguousarray(value, np.float32) # exact, or (MLX) rounded once
            else:
                stored[name], exact[name] = tensor(w), w
        save_file(exact, plain / "model.safetensors", {"format": "pt"})
        tokens = torch.randint(0, config.vocab_size, (make_hf.T,))
        with make_hf.Float64():
            logits, seen = make_hf.run(plain, tokens, torch.float64)
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "plain").mkdir(parents=True)
        for name in ("config.json", "model.safetensors"):
            shutil.copy(plain / name, directory / "plain" / name)
        save_torch(stored, directory / "model.safetensors", {"format": "mlx" if isinstance(scheme, Mlx) else "pt"})
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
        "fp8": (llama(), Coded(rng(9), "fp8", [("fp8", "weight_scale_inv", 24, 24), ("fp8", "weight_scale_inv", 64, 64)],
                               weight_block_size=[24, 24], activation_scheme="dynamic")),
        "compressed": (llama(), Coded(rng(10), "compressed-tensors", [
            ("packed", 4, 16), ("packed", 4, 16, True), ("packed", 8, 32), ("packed", 4, 16, False, True), ("int8",),
            ("int8", True), ("fp8", "weight_scale", 1, 64)], format="pack-quantized")),
        "bitsandbytes": (qwen(), Coded(rng(11), "bitsandbytes", [
            ("nibbles", "nf4", True), ("nibbles", "fp4"), ("scb",)], load_in_4bit=True)),
        "gpt_oss_mxfp4": (transformers.GptOssConfig(
            rope_parameters=make_hf.rope(1e4), num_local_experts=3, num_experts_per_tok=2, sliding_window=7,
            **sizes), Mxfp4(rng(9))),
        "nvfp4": (llama(), Coded(rng(12), "modelopt", [("nvfp4", False), ("nvfp4", True)], quant_algo="NVFP4")),
        "hqq": (llama(), Coded(rng(13), "hqq", [
            ("hqq", 4, 1, 16), ("hqq", 8, 0, 32), ("hqq", 3, 1, 32), ("hqq", 2, 0, 64), ("hqq", 1, 1, 64), ("hqq", 4, 0, 64),
            ("hqq", 3, 0, 64)], quant_config={})),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    parser.add_argument("names", nargs="*", help="of the models to make (default: all)")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for seed, (name, (config, scheme)) in enumerate(models().items()):
        if args.names and name not in args.names:
            continue
        print(make(args.out / name, config, scheme, seed), flush=True)


if __name__ == "__main__":
    main()
