#!/usr/bin/env python3
"""Seeds and dictionaries for the fuzz targets. Standard library only; equal input gives equal bytes.

    seeds.py MGPT OUT      (MGPT_SOURCE_ROOT is the repository)

makes OUT/<target>/* from the fixtures of the tests, from files that mgpt itself converts, and from a few
that are written here, and OUT/<target>.dict from the words in the source of the readers.
"""
import glob
import io
import json
import os
import re
import struct
import subprocess
import sys
import zipfile

ROOT = os.environ.get("MGPT_SOURCE_ROOT", ".")
MGPT, OUT = sys.argv[1], sys.argv[2]
FIXTURES = os.path.join(ROOT, "tests/fixtures")


def put(target, name, data):
    directory = os.path.join(OUT, target)
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "wb") as f:
        f.write(data)


def get(path):
    with open(path, "rb") as f:
        return f.read()


def parts(files):
    """Several files as one input: see fuzz_checkpoint.c."""
    out = b"PARTS"
    for name, data in files:
        out += bytes([len(name)]) + name.encode() + struct.pack("<I", len(data)) + data
    return out


def npy(descr, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (
        descr, "".join("%d," % n for n in shape))
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data


def npz(entries, how=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as z:
        for name, data in entries:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = how
            z.writestr(info, data)
    return buffer.getvalue()


def fixtures():
    for path in sorted(glob.glob(FIXTURES + "/convert/*") + glob.glob(FIXTURES + "/wild/*")):
        name, data = os.path.basename(path), get(path)
        kind = os.path.splitext(name)[1]
        if kind == ".json" and ".ref." not in name:
            put("microgpt_json", name, data)
        elif kind == ".pkl":
            put("pickle", name, data)
        elif kind == ".npy":
            put("npy", name, data)
        elif kind == ".npz":
            put("npz", name, data)
        elif name != "tokenizer.bin" and re.match(r"v\d.*\.bin", name):
            tokenizer = get(FIXTURES + "/convert/tokenizer.bin")
            put("llama2c", name, parts([("main", data), ("tokenizer.bin", tokenizer)]))
    for path in sorted(glob.glob(FIXTURES + "/torch/**/*", recursive=True)):
        if path.endswith((".pt", ".pth")):
            where = os.path.dirname(path)
            sides = [(os.path.basename(p), get(p)) for p in sorted(glob.glob(where + "/*"))
                     if p.endswith((".json", ".pkl")) and os.path.getsize(p) < 8192]
            name = os.path.relpath(path, FIXTURES + "/torch").replace("/", "-")
            put("torch", name, parts([("main", get(path))] + sides[:4]))


def tokenizer_json(n):
    """A byte-level tokenizer of n tokens."""
    letters = [chr(c) for c in range(33, 127)]
    tokens = (letters + [a + b for a in letters for b in letters])[:n]
    merges = ["%s %s" % (t[0], t[1]) for t in tokens if len(t) == 2]
    return json.dumps({
        "version": "1.0", "added_tokens": [
            {"id": 0, "content": tokens[0], "special": True, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False}],
        "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": merges},
    }).encode()


def golden():
    for directory in sorted(glob.glob(os.path.join(ROOT, "tests/golden/*/"))):
        name = os.path.basename(directory.rstrip("/"))
        config = os.path.join(directory, "config.json")
        weights = os.path.join(directory, "model.safetensors")
        if not os.path.exists(weights):
            continue
        n = json.loads(get(config)).get("vocab_size", 64)
        sides = [("tokenizer.json", tokenizer_json(n))]
        put("safetensors", name, parts([("model.safetensors", get(weights)),
                                        ("config.json", get(config))] + sides))
        put("hf_json", name, parts([("config.json", get(config)),
                                    ("model.safetensors", get(weights))] + sides))
        gguf(name, directory, "q8_0" if len(name) % 2 else "keep", ["--no-tokenizer"])


def tiny():
    """A whole Hugging Face llama in about two kilobytes: damage to it can be exhaustive."""
    square, layer = [4, 4], "model.layers.0."
    shapes = {"model.embed_tokens.weight": [8, 4], "model.norm.weight": [4],
              layer + "input_layernorm.weight": [4], layer + "post_attention_layernorm.weight": [4]}
    for name in ("self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down"):
        shapes[layer + name + "_proj.weight"] = square
    head, at = {}, 0
    for name, shape in shapes.items():
        n = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(head, separators=(",", ":")).encode()
    weights = struct.pack("<Q", len(text)) + text + b"\x80\x3e" * (at // 2)
    config = json.dumps({"model_type": "llama", "hidden_size": 4, "num_hidden_layers": 1,
                         "num_attention_heads": 1, "intermediate_size": 4, "vocab_size": 8,
                         "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
                         "hidden_act": "silu"}, separators=(",", ":")).encode()
    put("safetensors", "tiny", parts([("model.safetensors", weights), ("config.json", config)]))
    put("hf_json", "tiny", parts([("config.json", config), ("model.safetensors", weights)]))
    put("hf_json", "tiny-tokens", parts([("config.json", config), ("model.safetensors", weights),
                                         ("tokenizer.json", tokenizer_json(8))]))


def gguf(name, source, kind, more):
    path = os.path.join(OUT, "made.gguf")
    subprocess.run([MGPT, "convert", source, path, "--type", kind] + more, check=True,
                   stderr=subprocess.DEVNULL)
    put("gguf", name, get(path))
    put("model", name, get(path))
    os.remove(path)


def references():
    ids, logits = [1, 2, 3], [float(i % 7) / 4 for i in range(81)]
    rows = struct.pack("<81f", *logits)
    entries = [("tokens.npy", npy("<i8", [3], struct.pack("<3q", *ids))),
               ("logits.npy", npy("<f4", [3, 27], rows))]
    put("reference", "stored.npz", npz(entries))
    put("reference", "deflated.npz", npz(entries, zipfile.ZIP_DEFLATED))
    put("reference", "rows.npy", npy("<f4", [3, 27], rows))
    put("reference", "f64.npy", npy("<f8", [1, 3, 27], struct.pack("<81d", *logits)))
    record = {"input": ids, "logits": [logits[0:27], logits[27:54], logits[54:81]], "text": "abc"}
    put("reference", "one.json", json.dumps(record).encode())
    put("reference", "list.json", json.dumps([record, record]).encode())


def texts():
    samples = ["hello", "anna", "\u0130\u0301 x\u200by \U0001f600", "  a\n\n b\tc", "<|endoftext|>",
               "don't 12345 \u4f60\u597d\u3000"]
    for i, text in enumerate(samples):
        data = text.encode()
        for kind in (0, 1, 2, 0x81):
            put("text", "%d-%d" % (i, kind), bytes([kind]) + data)
        put("stream", str(i), data)
    put("stream", "cut", b"\xf0\x9f\x98 \xe4\xbd \xc3 \xff\xfe\x80")
    head = struct.pack("<fifffI", 0.8, 5, 0.9, 0.05, 0, 0)[:20]
    put("sample", "usual", head + b"\0" + struct.pack("<27f", *[i * 0.3 - 4 for i in range(27)]))
    put("sample", "odd", head + b"\1" + struct.pack("<6f", float("nan"), float("inf"), -0.0, 1e-45,
                                                     3e38, float("-inf")))


def dictionaries():
    sources = {"gguf": ["src/hyper*.c", "src/bind.c", "src/arch.c", "src/tok*.c"],
               "safetensors": ["tools/convert/hf*.c", "tools/convert/safetensors.c"],
               "torch": ["tools/convert/from_*.c", "tools/convert/pickle*.c"],
               "microgpt_json": ["tools/convert/microgpt*.c", "tools/convert/json*.c"],
               "reference": ["tools/check/reference*.c"], "npz": ["tools/np*.c"]}
    same = {"model": "gguf", "hf_json": "safetensors", "pickle": "torch", "npy": "npz"}
    for target in list(sources) + list(same):
        words = set()
        for pattern in sources[same.get(target, target)]:
            for path in glob.glob(os.path.join(ROOT, pattern)):
                words.update(re.findall(rb'"([\w.|<>-]{2,40})"', get(path)))
        with open(os.path.join(OUT, target + ".dict"), "wb") as f:
            for word in sorted(words):
                f.write(b'"' + word + b'"\n')


os.makedirs(OUT, exist_ok=True)
fixtures()
golden()
tiny()
for small in ("bigram", "flat", "nested"):
    gguf(small, os.path.join(FIXTURES, "convert", small + ".json"), "keep", [])
references()
texts()
dictionaries()
