#!/usr/bin/env python3
"""Makes tests/fixtures/convert: tiny checkpoints in every layout that mgpt convert reads, and what must
come out of them. Run from the repository root: python3 tests/cli/make_convert.py

One microgpt (V 5, E 4, T 3, L 2, F 16) in all JSON layouts, so all must give the tensors of
microgpt.want; one llama2.c model (dim 4, hidden 6, 2 layers, 2 heads, 1 kv head, V 7, seq 5) in
versions 0, 1 and 2. A .want file has one line per tensor: name, dims with the row length first, and
the float32 bits in hex. It is computed here, by other code than the converter's.
"""
import json
import os
import random
import struct

OUT = "tests/fixtures/convert"
V, E, T, L, F = 5, 4, 3, 2, 16
CHARS = ["a", "b", "é", "€"]
rng = random.Random(2)


def matrix(rows, cols):
    return [[round(rng.gauss(0, 0.5), 4) for _ in range(cols)] for _ in range(rows)]


def bits(x):  # double to float32, rounded to nearest even
    try:
        return "%08x" % struct.unpack("<I", struct.pack("<f", x))[0]
    except OverflowError:
        return "7f800000" if x > 0 else "ff800000"


def save(name, data):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def save_json(name, obj):
    save(name, json.dumps(obj, ensure_ascii=False, separators=(",", ":")) + "\n")


def want(name, tensors):
    lines = []
    for tensor, dims, values in tensors:
        lines.append(" ".join([tensor, str(len(dims)), *map(str, dims), *map(bits, values)]))
    save(name, "\n".join(lines) + "\n")


def flat(m):
    return [x for row in m for x in row]


# ---- microgpt ----

wte, wpe, lm_head = matrix(V, E), matrix(T, E), matrix(V, E)
# Numbers that a wrong path would change: an integer, minus zero, a tie and a near-tie of float32, a
# subnormal, 17 digits.
wte[0] = [1, -0.0, 16777217.0, 0.10000000149011613]
wte[1] = [1e-40, 0.13046401841953903, -3, 3.4e38]
ROLES = ["wq", "wk", "wv", "wo", "fc1", "fc2"]
SHAPE = {"wq": (E, E), "wk": (E, E), "wv": (E, E), "wo": (E, E), "fc1": (F, E), "fc2": (E, F)}
layers = [{r: matrix(*SHAPE[r]) for r in ROLES} for _ in range(L)]
LONG = {r: ("mlp_" if r[0] == "f" else "attn_") + r for r in ROLES}
GGUF = {"wq": "attn_q", "wk": "attn_k", "wv": "attn_v", "wo": "attn_output", "fc1": "ffn_up",
        "fc2": "ffn_down"}


def named(template, names):
    d = {"wte": wte, "wpe": wpe, "lm_head": lm_head}
    for i, layer in enumerate(layers):
        for r in ROLES:
            d[template.format(i=i, r=names[r])] = layer[r]
    return d


SHORT = {r: r for r in ROLES}
CONFIG = {"n_embd": E, "n_head": 2, "n_layer": L, "block_size": T, "vocab_size": V}
ordered = [wte, wpe, lm_head] + [layer[r] for layer in layers for r in ROLES]
everything = [x for m in ordered for x in flat(m)]
shaped = {k: {"shape": [len(m), len(m[0])], "data": flat(m)}
          for k, m in named("layer{i}.{r}", LONG).items()}
per_layer = [{LONG[r]: layer[r] for r in ROLES} for layer in layers]

save_json("flat.json", {**named("layer{i}.{r}", LONG), "_vocab": CHARS, "_bos_id": V - 1,
                        "_vocab_size": V})
save_json("wrapped.json", {"config": {**CONFIG, "dropout": 0.1}, "chars": CHARS,
                           "weights": named("{r}_{i}", LONG)})
save_json("state_dict.json", {"uchars": "".join(CHARS),
                              "state_dict": named("layer{i}.{r}", SHORT)})
save_json("params.json", {"params": everything, "config": {**CONFIG, "uchars": CHARS, "BOS": V - 1}})
save_json("list.json", everything)
save_json("matrices.json", ordered)
save_json("shaped.json", {**shaped, "stoi": {c: i for i, c in enumerate(CHARS)}, "BOS": V - 1,
                          "steps": 1000})
save_json("nested.json", {"wte": wte, "wpe": wpe, "lm_head": lm_head, "layers": per_layer,
                          "itos": {str(i): c for i, c in enumerate(CHARS + ["<BOS>"])}})
save_json("first.json", {"config": CONFIG, "chars": ["<BOS>"] + CHARS,
                         "weights": named("layer{i}.{r}", LONG)})
tied = named("layer{i}.{r}", LONG)
del tied["lm_head"]
save_json("tied.json", {**tied, "vocab": CHARS, "bos": V - 1})
save_json("bigram.json", {"wte": wte, "wpe": wpe, "lm_head": lm_head, "chars": CHARS})

trunk = [("token_embd.weight", (E, V), flat(wte)), ("position_embd.weight", (E, T), flat(wpe))]
blocks = [("blk.%d.%s.weight" % (i, GGUF[r]), SHAPE[r][::-1], flat(layer[r]))
          for i, layer in enumerate(layers) for r in ROLES]
head = [("output.weight", (E, V), flat(lm_head))]
want("microgpt.want", trunk + blocks + head)
want("tied.want", trunk + blocks)
want("bigram.want", trunk + head)

# ---- llama2.c ----

D, H, NL, NH, KV, NV, S = 4, 6, 2, 2, 1, 7, 5
KD = D // NH * KV


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def values(n):
    return [f32(rng.gauss(0, 0.5)) for _ in range(n)]


KINDS = {"emb": NV * D, "attn_norm": D, "wq": D * D, "wk": KD * D, "wv": KD * D, "wo": D * D,
         "ffn_norm": D, "w1": H * D, "w2": D * H, "w3": H * D, "norm": D, "head": NV * D}
GLOBAL = ("emb", "norm", "head")
model = {k: [values(n) for _ in range(1 if k in GLOBAL else NL)] for k, n in KINDS.items()}
V0 = ["emb", "attn_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w1", "w2", "w3", "norm", "rope",
      "head"]
V1 = ["attn_norm", "ffn_norm", "norm", "emb", "wq", "wk", "wv", "wo", "w1", "w2", "w3", "head"]
NORMS = ("attn_norm", "ffn_norm", "norm")
NAMES = {"attn_norm": ("attn_norm", (D,)), "wq": ("attn_q", (D, D)), "wk": ("attn_k", (D, KD)),
         "wv": ("attn_v", (D, KD)), "wo": ("attn_output", (D, D)), "ffn_norm": ("ffn_norm", (D,)),
         "w1": ("ffn_gate", (D, H)), "w2": ("ffn_down", (H, D)), "w3": ("ffn_up", (D, H))}


def pack(v):
    return struct.pack("<%df" % len(v), *v)


def version0(shared):
    out = struct.pack("<7i", D, H, NL, NH, KV, NV if shared else -NV, S)
    for k in V0:
        if k == "rope":
            out += pack([0.25] * (S * (D // NH)))
        elif k != "head" or not shared:
            out += b"".join(pack(v) for v in model[k])
    return out


def header(version, shared, extra=b""):
    h = struct.pack("<Ii7iB", 0x616B3432, version, D, H, NL, NH, KV, NV, S, shared) + extra
    return h + bytes(256 - len(h))


def version1(shared):
    out = header(1, shared)
    for k in V1:
        if k != "head" or not shared:
            out += b"".join(pack(v) for v in model[k])
    return out


def quantise(v, group):
    q, scales, back = [], [], []
    for i in range(0, len(v), group):
        scale = f32(max(abs(x) for x in v[i:i + group]) / 127) or 1.0
        for x in v[i:i + group]:
            q.append(max(-127, min(127, round(x / scale))))
            back.append(f32(q[-1] * scale))  # exact product, rounded once: what float32 gives
        scales.append(scale)
    return struct.pack("<%db" % len(q), *q) + pack(scales), back


def version2(shared, group):
    out, back = header(2, shared, struct.pack("<i", group)), {}
    for k in V1:
        if k == "head" and shared:
            continue
        if k in NORMS:
            out += b"".join(pack(v) for v in model[k])
            back[k] = model[k]
            continue
        packed = [quantise(v, group) for v in model[k]]
        out += b"".join(p for p, _ in packed)
        back[k] = [b for _, b in packed]
    return out, back


def llama_want(name, m, shared):
    tensors = [("token_embd.weight", (D, NV), m["emb"][0])]
    for i in range(NL):
        tensors += [("blk.%d.%s.weight" % (i, n), dims, m[k][i]) for k, (n, dims) in NAMES.items()]
    tensors.append(("output_norm.weight", (D,), m["norm"][0]))
    if not shared:
        tensors.append(("output.weight", (D, NV), m["head"][0]))
    want(name, tensors)


save("v0.bin", version0(True))
save("v0-own-head.bin", version0(False))
save("v1.bin", version1(True))
save("v1-own-head.bin", version1(False))
data, back = version2(True, 4)
save("v2.bin", data)
llama_want("llama.want", model, True)
llama_want("llama-own-head.want", model, False)
llama_want("v2.want", back, True)

TOKENS = [(b"<unk>", 0), (b"\n<s>\n", 0), (b"\n</s>\n", 0), (b"<0x41>", 0), (b" ", -1e9),
          (b"a", -1.5), (b" a a", -2.25)]
assert len(TOKENS) == NV
save("tokenizer.bin", struct.pack("<I", 8) + b"".join(
    struct.pack("<fI", score, len(t)) + t for t, score in TOKENS))
