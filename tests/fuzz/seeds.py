#!/usr/bin/env python3
"""Seeds and dictionaries for the fuzz targets. Standard library only; equal input gives equal bytes.

    seeds.py MGPT OUT      (MGPT_SOURCE_ROOT is the repository)

makes OUT/<target>/* from the fixtures of the tests, from files that mgpt itself converts, and from a few
that are written here, and OUT/<target>.dict from the words in the source of the readers.
"""
import base64
import glob
import itertools
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile

import commands
import references as programs
import tiny_models
from adapters import adapters
from formats import TINY_CONFIG, chat_templates, get, npy, npz, piece, safetensors, steps_json, tiny_tensors, tokenizer_json, words_json

ROOT = os.environ.get("MGPT_SOURCE_ROOT", ".")
MGPT, OUT = sys.argv[1:]
FIXTURES = os.path.join(ROOT, "tests/fixtures")


def put(target, name, data):
    directory = os.path.join(OUT, target)
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "wb") as f:
        f.write(data)


def parts(files):
    """Several files as one input: see fuzz_checkpoint.c."""
    out = b"PARTS"
    for name, data in files:
        out += bytes([len(name)]) + name.encode() + struct.pack("<I", len(data)) + data
    return out


OPTIONS = ("heads", "vocab_size", "embd", "layers", "context", "activation", "eps", "bos", "no_embedding_norm",
           "final_norm", "chars", "tokenizer", "no_tokenizer", "rope", "softcap", "qk_scale", "window",
           "embedding_norm", "positions", "raw", "head_last")


def options(raw=0, **given):
    """The command line as a part: see read_options in fuzz_checkpoint.c."""
    bits = sum(1 << i for i, name in enumerate(OPTIONS) if name in given)
    sizes = [given.get(name, 0) for name in ("heads", "vocab_size", "embd", "layers", "context", "bos", "window")]
    reals = [given.get(name, 0) for name in ("eps", "rope", "softcap", "qk_scale")]
    return "options", struct.pack("<8IB4f", bits, *sizes, raw << 4, *reals)


# What a file may leave to its user, as options of mgpt convert.
ASKED = {"heads": 4, "activation": "relu", "eps": 0.5, "positions": "half", "rope": 100.0}


def asked(name, data):
    """The fewest of ASKED with which a file converts, as a part."""
    for n in range(len(ASKED) + 1):
        for chosen in itertools.combinations(ASKED, n):
            more = [word for key in chosen for word in ("--" + key, str(ASKED[key]))]
            if converts([(name, data)], more)[0]:
                return [options(**{key: ASKED[key] for key in chosen})] if chosen else []
    return []


CHARS = "ab\u00e9\u20ac\n".encode()  # of the fixtures that have no vocabulary
SIZES = {"embd": 4, "layers": 2, "context": 3, "heads": 4}


def smaller_json(data):
    """microgpt's JSON with short numbers, or llm-viz' with a third of each size."""
    if b'"torch.float32"' not in data:
        return re.sub(rb"(?<=[\[,])-?\d\.\d{2,}(?:e-?\d+)?(?=[,\]])", b"1", data)
    root = json.loads(data)
    for value in root.values():
        if "shape" in value:
            value["shape"] = [-(-n // 3) for n in value["shape"]]
            value["data"] = base64.b64encode(b"\0\0\x80\x3e" * math.prod(value["shape"])).decode()
        else:
            value.update({k: -(-value[k] // 3) for k in ("n_embd", "vocab_size", "block_size") if k in value})
    return json.dumps(root, separators=(",", ":")).encode()


def fixtures():
    for path in sorted(glob.glob(FIXTURES + "/convert/*") + glob.glob(FIXTURES + "/wild/*") +
                       glob.glob(FIXTURES + "/shapes/*")):
        name, data = os.path.basename(path), get(path)
        kind = os.path.splitext(name)[1]
        data = smaller_json(data) if kind == ".json" and ".ref." not in name else data
        if kind in (".json", ".pkl", ".npy", ".npz") and ".ref." not in name:
            target = {".json": "microgpt_json", ".pkl": "pickle"}.get(kind, kind[1:])
            put(target, "%s-%s-asked" % (os.path.basename(os.path.dirname(path)), name),
                parts([("main", data)] + asked(name, data)))
        if kind == ".json" and ".ref." not in name:
            put("microgpt_json", "%s-%s" % (os.path.basename(os.path.dirname(path)), name), data)
        elif kind == ".safetensors":
            put("safetensors", name, data)
        elif kind == ".pkl":
            put("pickle", name, data)
        elif kind == ".npy":
            put("npy", name, data)
        elif kind == ".npz":
            put("npz", name, data)
        elif name != "tokenizer.bin" and re.match(r"v\d.*\.bin", name):
            tokenizer = get(FIXTURES + "/convert/tokenizer.bin")
            put("llama2c", name, parts([("main", data), ("tokenizer.bin", tokenizer)]))
        elif name.startswith("raw."):
            kind = {".f32": 0, ".f64": 1}[kind]
            put("raw", name, parts([("main", data), ("--chars", CHARS), options(raw=kind, **SIZES, head_last=1)]))
        elif name.startswith("microgpt-c."):
            put("microgpt_c", name, parts([("main", data), options(**SIZES)]))
        elif name == "microgpt.bin":
            put("mgpt_bin", name, data)
        if name.startswith("flat") and kind == ".npy":
            put("npy", name + "-sizes", parts([("main", data), ("--chars", CHARS), options(**SIZES)]))
    for path in sorted(glob.glob(FIXTURES + "/llmc/*.bin")):
        if not path.endswith("gpt2_tokenizer.bin"):
            tokenizer = get(FIXTURES + "/llmc/gpt2_tokenizer.bin")
            put("llmc", os.path.basename(path), parts([("main", get(path)), ("gpt2_tokenizer.bin", tokenizer)]))
    for path in sorted(glob.glob(FIXTURES + "/torch/**/*", recursive=True)):
        if path.endswith((".pt", ".pth", ".ckpt")):
            name = os.path.relpath(path, FIXTURES + "/torch").replace("/", "-")
            put("torch", name, parts(smaller_torch(path)))


def smaller_torch(path):
    """A checkpoint and its side files, with the smallest sizes that still convert. Options are as a part."""
    data, sides = get(path), []
    for side in sorted(glob.glob(os.path.dirname(path) + "/*")):
        if side.endswith((".json", "meta.pkl", ".yaml")):
            sides.append((os.path.basename(side), get(side)))
    if not data.startswith(b"PK"):
        return [("main", data)] + sides[:4]
    for by, heads in ((4, []), (3, []), (2, []), (2, ["--heads", "2"]), (1, [])):
        files = [(os.path.basename(path), tiny_models.torch_model(data, by))]
        files += [(n, d if n.endswith(".pkl") else tiny_models.smaller_text(d, by)) for n, d in sides]
        if converts(files, ["--no-tokenizer"] + heads)[0]:
            break
    return files[:5] + ([options(heads=2)] if heads else [])


def golden():
    """The models of tests/golden with smaller sizes."""
    for directory in sorted(glob.glob(os.path.join(ROOT, "tests/golden/*/"))):
        name = os.path.basename(directory.rstrip("/"))
        if not os.path.exists(directory + "config.json"):
            continue
        config, weights = tiny_models.hf_files(directory)
        put("safetensors", name, parts([("model.safetensors", weights), ("config.json", config)]))
        put("hf_json", name, parts([("config.json", config), ("model.safetensors", weights)]))
        gguf(name, [("config.json", config), ("model.safetensors", weights)])


def models():
    """Every architecture, every tensor that it may have, every type, each key."""
    for name, data in tiny_models.gguf_models(ROOT):
        put_gguf(name, data)


def tiny():
    """A whole Hugging Face llama: damage to it can be exhaustive."""
    weights = safetensors(*tiny_tensors())
    config = json.dumps(TINY_CONFIG, separators=(",", ":")).encode()
    put("safetensors", "tiny", parts([("model.safetensors", weights), ("config.json", config)]))
    put("hf_json", "tiny", parts([("config.json", config), ("model.safetensors", weights)]))
    put("hf_json", "tiny-tokens", parts([("config.json", config), ("model.safetensors", weights),
                                         ("tokenizer.json", tokenizer_json(8))]))
    gguf("steps", [("config.json", config), ("model.safetensors", weights), ("tokenizer.json", steps_json())], [])
    gguf("wordpiece", [("config.json", config), ("model.safetensors", weights), ("tokenizer.json", words_json("WordPiece"))], [])


def mlx():
    """The tensors of that llama as mx.savez writes them."""
    head, data = tiny_tensors()
    config = json.dumps(TINY_CONFIG, separators=(",", ":")).encode()
    entries = [(k + ".npy", npy("<V2", e["shape"], data[e["data_offsets"][0]:e["data_offsets"][1]]))
               for k, e in head.items()]
    put("npz", "mlx", parts([("weights.npz", npz(entries)), ("config.json", config)]))


# What a llama's config.json may say otherwise, also as older versions of transformers wrote it.
VARIANTS = {
    "linear": {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 500.0},
    "llama3": {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                "original_max_position_embeddings": 8}, "rope_theta": 5e5},
    "mistral": {"model_type": "mistral", "sliding_window": None, "head_dim": 4},
    "qwen2": {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 3, "max_window_layers": 0},
    "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4,
                              "attention_factor": 1.25, "beta_fast": 16}},
    "longrope": {"rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 9],
                                  "original_max_position_embeddings": 4}},
    "windows": {"model_type": "mistral", "sliding_window": 3},
    "granite": {"model_type": "granite", "logits_scaling": 4.0, "residual_multiplier": 0.25, "attention_multiplier": 0.5},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "untied": {"tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": [2, 3]},
    "smollm3": {"model_type": "smollm3", "no_rope_layers": [1], "layer_types": ["full_attention"], "rope_theta": 5e6},
    "nested": {},
}


def variants():
    for name, says in VARIANTS.items():
        config = dict(TINY_CONFIG, **says)
        if name == "nested":
            config = {"model_type": "llava", "text_config": config}
        head, data = tiny_tensors({"biases": "all", "qwen2": "qkv"}.get(name, ""), name == "untied")
        config, weights = json.dumps(config, separators=(",", ":")).encode(), safetensors(head, data)
        files = [("config.json", config), ("model.safetensors", weights)]
        put("safetensors", "says-" + name, parts(files[::-1]))
        put("hf_json", "says-" + name, parts(files))
        gguf("says-" + name, files)


def sharded():
    """The same in two files with an index."""
    head, data = tiny_tensors()
    config = json.dumps(TINY_CONFIG, separators=(",", ":")).encode()
    names, shards, where = sorted(head), [], {}
    for i, chosen in enumerate((names[:5], names[5:])):
        file, own, body = "model-0000%d-of-00002.safetensors" % (i + 1), {}, b""
        for name in chosen:
            begin, end = head[name]["data_offsets"]
            own[name] = dict(head[name], data_offsets=[len(body), len(body) + end - begin])
            body += data[begin:end]
            where[name] = file
        shards.append((file, safetensors(own, body)))
    index = json.dumps({"metadata": {"total_size": len(data)}, "weight_map": where}).encode()
    sides = [("config.json", config)] + shards
    put("hf_json", "index", parts([("model.safetensors.index.json", index)] + sides))
    put("hf_json", "config-index", parts([("config.json", config), ("model.safetensors.index.json", index)] + shards))


def tokenizers():
    for n in (8, 200, 512):
        put("tokenizer_json", str(n), tokenizer_json(n))
    spm = {"added_tokens": [{"id": i, "content": t, "special": True} for i, t in enumerate(("<unk>", "<s>", "</s>"))],
           "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                          {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
           "pre_tokenizer": None, "post_processor": {"type": "TemplateProcessing", "single": [
               {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
               "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
           "decoder": {"type": "Sequence", "decoders": [
               {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
               {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
           "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
                     "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "\u2581": 3, "a": 4, "\u2581a": 5},
                     "merges": [["\u2581", "a"]]}}
    put("tokenizer_json", "spm", json.dumps(spm).encode())
    put("tokenizer_json", "steps", steps_json())
    for kind in ("WordPiece", "WordLevel"):
        put("tokenizer_json", kind.lower(), words_json(kind))
    # a trie of one unit and a text
    unigram = {"added_tokens": spm["added_tokens"], "post_processor": spm["post_processor"],
               "normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAABhAA=="},
               "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False},
               "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": [
                   ["<unk>", 0.0], ["<s>", 0], ["</s>", 0], ["\u2581", -2.5], ["a", -1.1234567890123457], ["<0x41>", -3e-7]]}}
    steps = dict(unigram, pre_tokenizer={"type": "Digits"}, normalizer={"type": "Sequence", "normalizers": [
        unigram["normalizer"], {"type": "Lowercase"}]})
    for name, data in (("unigram", unigram), ("unigram-steps", steps)):
        data = json.dumps(data).encode()
        put("tokenizer_json", name, data)
        gguf(name, [("config.json", json.dumps(TINY_CONFIG).encode()), ("model.safetensors", safetensors(*tiny_tensors())),
                    ("tokenizer.json", data)], [])
    sides = [("tokenizer_config.json", json.dumps({
        "bos_token": "!", "eos_token": {"content": "#"}, "add_bos_token": True, "tokenizer_class": "LlamaTokenizer",
        "chat_template": [{"name": "default", "template": "{{ x }}"}]}).encode()),
        ("generation_config.json", b'{"bos_token_id": 0, "eos_token_id": [1, 2]}'),
        ("special_tokens_map.json", b'{"bos_token": "!"}'), ("chat_template.jinja", b"{% if x %}{% endif %}")]
    put("tokenizer_json", "sides", parts([("tokenizer.json", tokenizer_json(8))] + sides))
    vocab = {"a": 0, "b": 1, "ab": 2, "\u0120": 3}
    put("tokenizer_json", "lists", parts([("vocab.json", json.dumps(vocab).encode()),
                                          ("merges.txt", b"#version: 0.2\na b\n"),
                                          ("added_tokens.json", b'{"<x>": 4}')] + sides[:1]))
    pieces = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3)
    pieces += b"".join(piece("<0x%02X>" % i, 0, 6) for i in range(256))
    pieces += piece("\u2581", -1, 1) + piece("a", -2, 1) + piece("\u2581a", -3, 1) + piece("\u2581\u2581", 0, 4)
    trainer = b"\x12\x08\x18\x02\xc0\x02\x00\xc8\x02\x01"
    put("sentencepiece", "bpe", pieces + trainer + b"\x1a\x04\x18\x01\x28\x01")
    put("sentencepiece", "unigram", pieces + b"\x12\x02\x18\x01" + b"\x1a\x0d\x12\x09\x04\0\0\0\0\0\0\0a\x18\x01")
    put("sentencepiece", "short", piece("<unk>", 0, 2) + piece("a", -2, 1) + b"\x12\x02\x18\x02")
    put("sentencepiece", "sides", parts([("tokenizer.model", pieces + trainer)] + sides))
    put("tiktoken", "ranks", b"\x04Ath\nAthe\nAan\nBx\n@yy\nAand the\n")
    put("tiktoken", "file", b"\x1dIQ== 0\nIg== 1\nAAE= 2\nAAEC 3\n")
    put("tiktoken", "specials", b"\x2cAth\nA<|x|>\n")


def lines():
    """Each command's own example, and scripts that use several."""
    source = get(os.path.join(ROOT, "tools/repl/commands.inc")).decode()
    examples = re.findall(r'"(/[a-z]+ ?(?:[^"\\]|\\.)*)"\)$', source, re.M)
    examples = [e.replace('\\"', '"').replace("\\\\", "\\") for e in examples]
    for i, example in enumerate(examples):
        put("repl", "example-%02d" % i, ("anna\n/branch try\n/b\n%s\n" % example).encode())
        put("repl", "file-%02d" % i, ("anna\n%s -o x\n/load x\n" % example).encode())
    put("repl", "trace", b"ann\n/trace on * t.npz\n/s 2\n/trace off\n/trace on blocks.*.hook_q t.safetensors\nx\n")
    put("repl", "branches", b"ann\n/branch b\n/edit 1 \"b\"\n/sw 0\n/diff b\n/save f\n/reset\n/load f\n/goto 2\n")
    put("repl", "edits", b"/set temp 0.8\n/g\n/ab 0.0 zero\n/ab mlp.0 mean\n/scale 0.1 -2\n/ab\n/s\n/ab off\n")
    names = os.path.join(ROOT, "weights/names.gguf")
    for prompt in ("", "ann", "abcdefghijklmno"):
        path = os.path.join(OUT, "made.state")
        subprocess.run([MGPT, "generate", names, "-p", prompt, "-n", "0", "--session", path],
                       stdout=subprocess.DEVNULL, check=True)
        put("state", "after-" + prompt, get(path))
        os.remove(path)
    scripts = {"plain": "anna\n/b 2\n", "edits": "ann\n/ab 0.1 mean\n/scale mlp.0 0.5\n/branch x\n/s 2\n"}
    for name, script in scripts.items():
        for rng in ("splitmix", "python"):
            path = os.path.join(OUT, "made.session")
            subprocess.run([MGPT, "repl", names, "--rng", rng], input=("%s/save %s\n" % (script, path)).encode(),
                           stdout=subprocess.DEVNULL, check=True)
            put("session", name + "-" + rng, get(path))
            os.remove(path)


def put_gguf(name, data):
    """A seed that does not open reaches nothing."""
    path = os.path.join(OUT, "made.gguf")
    with open(path, "wb") as f:
        f.write(data)
    subprocess.run([MGPT, "info", path], check=True, stdout=subprocess.DEVNULL)
    os.remove(path)
    for target in ("gguf", "model", "gguf_copy"):
        put(target, name, data)


def converts(files, more):
    """Runs mgpt convert on the first of `files` (name, bytes): whether it succeeds, and what it makes."""
    made = os.path.join(OUT, "made", "made.gguf")
    for file, data in files:
        put("made", file, data)
    run = subprocess.run([MGPT, "convert", os.path.join(OUT, "made", files[0][0]), made] + more,
                         stderr=subprocess.PIPE, text=True)
    data = get(made) if run.returncode == 0 else run.stderr
    shutil.rmtree(os.path.join(OUT, "made"))
    return run.returncode == 0, data


def gguf(name, files, more=["--no-tokenizer"]):
    ok, data = converts(files, more)
    if not ok:
        sys.exit("seeds.py: %s: %s" % (name, data))
    put_gguf("converted-" + name, data)


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
    choices = [{"%d" % i: -0.5 * i for i in range(3)}] * 3
    put("reference", "partial.json", json.dumps({"tokens": ids, "top_logprobs": choices}).encode())
    hooks = [("blocks.0.hook_resid_pre.npy", npy("<f4", [3, 2], bytes(24))),
             ("blocks.1.attn.hook_pattern.npy", npy("<f4", [1, 2, 3, 3], bytes(72)))]
    put("reference", "hooks.npz", npz(entries + hooks))
    head = {"tokens": {"dtype": "I64", "shape": [3], "data_offsets": [0, 24]},
            "logits": {"dtype": "BF16", "shape": [1, 3, 27], "data_offsets": [24, 186]}}
    put("reference", "some.safetensors", safetensors(head, struct.pack("<3q", *ids) + bytes(162)))
    row = struct.pack("<ff27HH", 1e-4, -9.0, *range(27), 0)
    put("reference", "kld", b"_logits_" + struct.pack("<3i5i", 5, 27, 1, 1, 2, 3, 4, 5) + 2 * row)
    for name, data, _, _ in programs.references(ids, [logits[0:27], logits[27:54], logits[54:81]]):
        put("reference", name, data)
    debug = struct.pack("<4i", 20240327, 2, 1, 3) + bytes(1008) + struct.pack("<6i", *(ids + ids))
    put("reference", "llmc", debug + rows + bytes(8))


def texts():
    samples = ["hello", "anna", "\u0130\u0301 x\u200by \U0001f600", "  a\n\n b\tc", "<|endoftext|>",
               "don't 12345 \u4f60\u597d\u3000"]
    for i, text in enumerate(samples):
        data = text.encode()
        for kind in (*range(15), 0x81, 0x8b):
            put("text", "%d-%d" % (i, kind), bytes([kind]) + data)
        put("stream", str(i), data)
    put("stream", "cut", b"\xf0\x9f\x98 \xe4\xbd \xc3 \xff\xfe\x80")
    head = struct.pack("<fifffI", 0.8, 5, 0.9, 0.05, 0, 0)[:20]
    put("sample", "usual", head + b"\0" + struct.pack("<27f", *[i * 0.3 - 4 for i in range(27)]))
    put("sample", "odd", head + b"\1" + struct.pack("<6f", float("nan"), float("inf"), -0.0, 1e-45,
                                                     3e38, float("-inf")))


def importance():
    """Both forms of an importance matrix, for the tensors of fuzz_imatrix.c."""
    tensors, old = [], struct.pack("<i", 3)
    for name, n in (("blk.0.attn_q.weight", 1), ("blk.0.ffn_down_exps.weight", 3), ("blk.0.attn_v.weight", 1)):
        tensors += [(name + ".in_sum2", [32, n], "f32"), (name + ".counts", [1, n], "f32")]
        old += struct.pack("<i", len(name)) + name.encode() + struct.pack("<2i%df" % (32 * n), 2, 32 * n, *[i % 7 / 4 for i in range(32 * n)])
    put("imatrix", "new", tiny_models.gguf({"general.type": "imatrix"}, tensors))
    put("imatrix", "old", old + struct.pack("<2i", 2, 4) + b"text")


def dictionaries():
    sources = {"gguf": ["hyper*", "positions", "bind", "arch", "tok*"],
               "safetensors": ["hf*", "*safetensors", "microgpt_facts"],
               "torch": ["from_*", "gpt_names", "pickle*"], "microgpt_json": ["microgpt*", "json*"],
               "lora": ["peft*", "lora*"], "reference": ["reference*"], "npz": ["np*"], "tokenizer_json": ["hf_tok*"],
               "sentencepiece": ["sentencepiece"], "repl": ["repl*", "view*"], "session": ["repl_load"],
               "score": ["score_json"], "steer": ["steer", "npy"], "choose": ["edit_rules", "schema", "schema_write"], "attest": ["attest"], "imatrix": ["importance"]}
    same = {"model": "gguf", "gguf_copy": "gguf", "hf_json": "safetensors", "pickle": "torch", "npy": "npz"}
    for target in list(sources) + list(same):
        words = set()
        for pattern in sources[same.get(target, target)]:
            paths = [p for folder in ("src", "tools") for p in
                     glob.glob(os.path.join(ROOT, folder, "**", pattern + ".c"), recursive=True)]
            if not paths:
                sys.exit("seeds.py: no source is called %s.c" % pattern)
            for path in paths:
                words.update(re.findall(rb'"([\w.|<>/-]{2,40})"', get(path)))
        with open(os.path.join(OUT, target + ".dict"), "wb") as f:
            for word in sorted(words):
                f.write(b'"' + word + b'"\n')


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    fixtures()
    golden()
    models()
    tiny()
    for name, files in adapters(lambda files: converts(files, ["--no-tokenizer"])[1]):
        put("lora", name, parts(files))
    mlx()
    variants()
    sharded()
    tokenizers()
    list(map(lambda seed: put("template", *seed), chat_templates(ROOT)))
    lines()
    for small in ("bigram", "flat", "nested"):
        gguf(small, [("model.json", get(os.path.join(FIXTURES, "convert", small + ".json")))], ["--heads", "4"])
    references()
    texts()
    importance()
    commands.put_all(put, parts, MGPT, ROOT, OUT)
    dictionaries()
