#!/usr/bin/env python3
"""A Llama in plain Python, as its author brings it to the suite: toy_llama.py MODEL IDS OUT. It reads a Hugging Face
directory in float32, and forgets that a config can stretch the frequencies of RoPE."""
import array
import json
import math
import struct
import sys


class Model:
    def __init__(self, folder):
        with open(folder + "/config.json", encoding="utf-8") as file:
            self.config = json.load(file)
        if self.config["model_type"] != "llama":
            sys.exit(f"model_type {self.config['model_type']}: this is an engine for llama")
        with open(folder + "/model.safetensors", "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            header, data = json.loads(file.read(size)), file.read()
        self.tensors = {name: self.read(name, t, data) for name, t in header.items() if name != "__metadata__"}

    @staticmethod
    def read(name, tensor, data):
        if tensor["dtype"] != "F32":
            sys.exit(f"{name}: {tensor['dtype']}, expected F32")
        values = array.array("f", data[slice(*tensor["data_offsets"])])
        columns = tensor["shape"][-1]
        return [values[i:i + columns] for i in range(0, len(values), columns)]

    def weight(self, name, layer=None):
        return self.tensors[("model." if layer is None else f"model.layers.{layer}.") + name + ".weight"]


def matmul(weight, x):
    return [math.fsum(map(float.__mul__, map(float, row), x)) for row in weight]


def rms_norm(x, gain, eps):
    scale = 1 / math.sqrt(math.fsum(v * v for v in x) / len(x) + eps)
    return [v * scale * g for v, g in zip(x, gain[0])]


def rope(x, position, base):
    """Rotates the halves of a head."""
    half, out = len(x) // 2, list(x)
    for i in range(half):
        c, s = math.cos(position * base ** (-i / half)), math.sin(position * base ** (-i / half))
        out[i], out[half + i] = x[i] * c - x[half + i] * s, x[half + i] * c + x[i] * s
    return out


def heads(x, n):
    return [x[i:i + len(x) // n] for i in range(0, len(x), len(x) // n)]


def attend(q, keys, values):
    scores = [math.fsum(a * b for a, b in zip(q, k)) / math.sqrt(len(q)) for k in keys]
    weights = [math.exp(s - max(scores)) for s in scores]
    return [math.fsum(w * v[j] for w, v in zip(weights, values)) / math.fsum(weights) for j in range(len(q))]


def step(model, token, position, cache):
    """Logits after a token; cache: {layer: (keys, values)} of each position and head."""
    c = model.config
    n_head, n_kv, eps = c["num_attention_heads"], c["num_key_value_heads"], c["rms_norm_eps"]
    base = c["rope_parameters"]["rope_theta"] if "rope_parameters" in c else c["rope_theta"]
    x = list(model.weight("embed_tokens")[token])
    for layer in range(c["num_hidden_layers"]):
        h = rms_norm(x, model.weight("input_layernorm", layer), eps)
        q, k, v = (matmul(model.weight(f"self_attn.{p}_proj", layer), h) for p in "qkv")
        keys, values = cache.setdefault(layer, ([], []))
        keys.append([rope(head, position, base) for head in heads(k, n_kv)])
        values.append(heads(v, n_kv))
        mixed = []
        for i, head in enumerate(heads(q, n_head)):
            g = i * n_kv // n_head
            mixed += attend(rope(head, position, base), [k[g] for k in keys], [v[g] for v in values])
        x = list(map(float.__add__, x, matmul(model.weight("self_attn.o_proj", layer), mixed)))
        h = rms_norm(x, model.weight("post_attention_layernorm", layer), eps)
        gate, up = (matmul(model.weight(f"mlp.{p}_proj", layer), h) for p in ("gate", "up"))
        h = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
        x = list(map(float.__add__, x, matmul(model.weight("mlp.down_proj", layer), h)))
    x = rms_norm(x, model.weight("norm"), eps)
    return matmul(model.tensors.get("lm_head.weight") or model.weight("embed_tokens"), x)


def main(folder, ids, out):
    model, cache = Model(folder), {}
    with open(ids, encoding="ascii") as file, open(out, "wb") as output:
        for position, token in enumerate(map(int, file.read().split())):
            array.array("f", step(model, token, position, cache)).tofile(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
