"""Checkpoints, references and sessions for malformed.py that are wrong in one way. Standard library only."""
import copy
import io
import itertools
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import zipfile

ROOT, MGPT = os.environ["MGPT_SOURCE_ROOT"], os.path.abspath(os.environ["MGPT"])
sys.path.insert(0, os.path.join(ROOT, "tests/fuzz"))
from formats import TINY_CONFIG, get, npy, npz, safetensors, steps_json, tiny_tensors, tokenizer_json, words_json  # noqa: E402
from malformed_gguf import ODD, bad, cases, changed, good  # noqa: E402
from references import STORAGES, Tensor, references, torch  # noqa: E402

NAMES = os.path.abspath(os.path.join(ROOT, "weights/names.gguf"))
FIXTURES = os.path.join(ROOT, "tests/fixtures")

# ---- checkpoints ----

def hf(name, field, head=None, data=None, config=None, tokenizer=None, at=False):
    files = {"config.json": config if isinstance(config, bytes) else json.dumps(config or TINY_CONFIG).encode(),
             "model.safetensors": head if isinstance(head, bytes) and data is None else
             safetensors(head or tiny_tensors()[0], tiny_tensors()[1] if data is None else data)}
    if tokenizer is not None:
        files["tokenizer.json"] = tokenizer if isinstance(tokenizer, bytes) else json.dumps(tokenizer).encode()
    (bad if field else good)(*(("hf-" + name, files, "hf") + ((field, at) if field else ())))


def safetensors_files():
    head, data = tiny_tensors()
    whole = safetensors(head, data)
    hf("control", None)
    for v in ODD + (len(whole), len(whole) - 8, len(whole) - 7, 10**8 + 1, 2):
        hf(f"header-{v:x}", "header|JSON|safetensors|tensor", struct.pack("<Q", v) + whole[8:])
    for n in sorted({0, 1, 7, 8, 9, len(whole) // 4, len(whole) // 2, len(whole) - 1, len(whole) - 17}):
        hf(f"cut-{n}", "header|JSON|tensor|bytes|safetensors|empty|ends", whole[:n])
    hf("more", "bytes|tensor|header", whole + b"x")
    for name in head:
        plain = re.escape(name)

        def lie(label, **entry):
            h = copy.deepcopy(head)
            h[name].update(entry)
            hf(f"{label}-{name}", plain, h, data)
        begin, end = head[name]["data_offsets"]
        shape = head[name]["shape"]
        lie("dtype", dtype="F77")
        lie("dtype-number", dtype=3)
        lie("wide", dtype="F64")
        lie("shape", shape=[2**62, 8])
        lie("shape-negative", shape=[-1] + shape[1:])
        lie("shape-text", shape="4")
        lie("shape-zero", shape=[0] + shape[1:])
        lie("offsets-beyond", data_offsets=[begin, 2**63 - 1])
        lie("offsets-turned", data_offsets=[end, begin])
        lie("offsets-one", data_offsets=[begin])
        lie("offsets-moved", data_offsets=[begin + 1, end + 1])
        h = copy.deepcopy(head)
        del h[name]["data_offsets"]
        hf(f"no-offsets-{name}", plain, h, data)
        h = copy.deepcopy(head)
        h["x" + name] = h.pop(name)
        hf(f"renamed-{name}", re.escape(name.replace("model.", "", 1)), h, data)
    text = json.dumps(head).encode()
    for i, junk in enumerate((b"", b"[]", b"{", b"null", b'{"a":', text[:-1], text.replace(b":", b";", 1),
                              text.replace(b'"', b"'"), b"[" * 5000, b'{"a":' * 5000, b'{"\xff":1}')):
        hf(f"json-{i}", "header|JSON|tensor|bytes|safetensors|architecture", safetensors(junk, data))
    hf("many", "more than 32768 entries", safetensors({f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
                                                       for i in range(40000)}, b""), at=True)
    twice = text[:-1] + b"," + text[1:]
    hf("twice", "tensor|JSON|duplicate|twice|object", safetensors(twice, data))


def config_files():
    for key, value in TINY_CONFIG.items():
        for i, other in enumerate(("x", -1, 2**40, 1.5, None, [], {"a": 1}, 0, True)):
            if (key, i) == ("num_key_value_heads", 4):
                continue  # null: one for each head
            if key in ("rms_norm_eps", "tie_word_embeddings", "hidden_act") and i in (2, 3, 4, 7, 8):
                continue  # may be, or means the default
            if (key, i) in (("rms_norm_eps", 8), ("num_attention_heads", 8), ("num_hidden_layers", 8)):
                continue
            if type(other) is type(value) and other == value or (other is True and value == 1):
                continue
            config = dict(TINY_CONFIG, **{key: other})
            hf(f"config-{key}-{i}", f"{key}|config|head|norm|tensor|embed|model_type|layers", config=config)
    hf("config-switch", "is_encoder_decoder", config=dict(TINY_CONFIG, is_encoder_decoder=True))
    hf("config-rope-twice", "rope_parameters", config=dict(TINY_CONFIG, rope_scaling={"type": "linear", "factor": 2.0},
                                                           rope_parameters={"rope_type": "default"}))
    for key in ("model_type", "hidden_size", "num_hidden_layers", "num_attention_heads"):
        hf(f"config-without-{key}", f"{key}|config|model_type|architecture",
           config={k: v for k, v in TINY_CONFIG.items() if k != key})
    for i, junk in enumerate((b"", b"{", b"[]", b"\xff\xfe", b"{}", b"[" * 9000, b'{"model_type":"llama",}', b"nul")):
        hf(f"config-json-{i}", "config|JSON|model_type", config=junk)
    for i, junk in enumerate((b"", b"{", b"[]", b"{}", b'{"model":3}', b'{"model":{"type":"BPE"}}', b"[" * 9000)):
        hf(f"tokenizer-json-{i}", "tokenizer|model|JSON", tokenizer=junk)
    base = json.loads(tokenizer_json(8))
    hf("tokenizer-control", None, tokenizer=base)
    for i, (path, value) in enumerate((
            (("model", "type"), "Unigram"), (("model", "type"), 3), (("model", "vocab"), []), (("model", "vocab"), 1),
            (("model", "vocab"), {"a": -1}), (("model", "vocab"), {"a": 2**40}), (("model", "vocab"), {"a": "b"}),
            (("model", "vocab"), {"a": 0, "b": 0}), (("model", "merges"), "a"), (("model", "merges"), ["ab"]),
            (("model", "merges"), [["a"]]), (("model", "merges"), [3]), (("model", "merges"), ["! zz"]),
            (("model", "merges"), ["zz !"]), (("model", "merges"), [["!", "!"]]),
            (("added_tokens",), 3), (("added_tokens",), [3]), (("added_tokens",), [{"id": -1, "content": "x"}]),
            (("added_tokens",), [{"id": 2**33, "content": "x"}]), (("added_tokens",), [{"id": 0}]),
            (("pre_tokenizer",), {"type": "Magic"}), (("pre_tokenizer",), {"type": "Split", "pattern": {"Regex": "("}}),
            (("normalizer",), {"type": "Nmt\x1b[31m"}), (("pre_tokenizer",), 4), (("normalizer",), []))):
        t = copy.deepcopy(base)
        at = t
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value
        hf(f"tokenizer-{i}", "tokenizer|token|merge|vocab|normalizer|id", tokenizer=t)
    unigram = dict(base, model={"type": "Unigram", "unk_id": 0, "vocab": [["!", 0], ["a", -1]]}, pre_tokenizer={"type": "Digits"})
    mapped = dict(unigram, normalizer={"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAABhAA=="}, {"type": "NFC"}]})
    for name, t in (("steps", json.loads(steps_json())), ("wordpiece", json.loads(words_json("WordPiece"))), ("unigram", unigram), ("map", mapped)):
        hf(f"tokenizer-control-{name}", None, tokenizer=t)
        for key in ("normalizer", "pre_tokenizer", "decoder"):
            for i, value in enumerate(({"type": "Sequence"}, {"type": 3}, {"type": "\x1b[2J"}, {"type": "Replace", "pattern": {"Regex": "(a"}},
                                       {"type": "Precompiled", "precompiled_charsmap": "BBBB"}, {"type": "Split", "pattern": 3})):
                if i > 0:
                    hf(f"tokenizer-{name}-{key}-{i}", "tokenizer|normalizer|decoder", tokenizer=dict(t, **{key: value}))
    for i, vocab in enumerate((3, [], [3], [["!"]], [["!", "a"]], [["!", 0, 0]], {"!": 0}, [["!", 0]] * 9)):
        hf(f"tokenizer-unigram-{i}", "vocab|tokenizer|embedding", tokenizer=dict(unigram, model=dict(unigram["model"], vocab=vocab)))


def simple_files():
    flat = {"_n_head": 4, **json.loads(get(FIXTURES + "/convert/flat.json"))}
    good("json-control", {"m.json": json.dumps(flat).encode()}, "ckpt")
    for key, value in flat.items():
        for i, other in enumerate(("x", None, [], [[]], [["x"]], 7, {}, [[1, 2], [3]])):
            if key in ("_bos_id", "_vocab_size") or key == "_vocab" and i in (1, 2):
                continue  # said to be ignored
            if key == "lm_head" and i == 1:
                continue  # null: the head is the embedding
            bad(f"json-{key}-{i}", {"m.json": json.dumps(dict(flat, **{key: other})).encode()}, "ckpt", ".")
        if not key.startswith("_"):
            rest = {k: v for k, v in flat.items() if k != key}
            if key not in ("lm_head",):
                bad(f"json-without-{key}", {"m.json": json.dumps(rest).encode()}, "ckpt", ".")
            short = dict(flat, **{key: value[:-1]})
            if key != "wpe":  # a shorter context
                bad(f"json-short-{key}", {"m.json": json.dumps(short).encode()}, "ckpt", ".")
    for name, value, n in (("lists", b"[\n],", 600000), ("objects", b"{},", 400000), ("numbers", b"0,", 1040000)):
        bad("json-many-" + name, {"m.json": b"[" + value * n + value[:-1] + b"]"}, "ckpt", "matrices|numbers")
    bad("ref-json-many", {"r.json": b"[]" * 500000}, "ref", "empty", True)
    text = json.dumps(flat).encode()
    for n in range(1, len(text), len(text) // 24):
        bad(f"json-cut-{n}", {"m.json": text[:n]}, "ckpt", "JSON|byte|expected|end", True)
    for i, junk in enumerate((b"{" * 99999, b"[" * 99999, b'{"wte":[[1e999]]}', b'{"wte":[[NaN]]}', b"{}", b"[]", b"")):
        bad(f"json-junk-{i}", {"m.json": junk}, "ckpt", ".")
    for source in ("v0.bin", "v1.bin", "v2.bin"):
        data, tokens = get(f"{FIXTURES}/convert/{source}"), get(FIXTURES + "/convert/tokenizer.bin")
        good(source, {"m.bin": data, "tokenizer.bin": tokens}, "ckpt")
        first = 0 if source == "v0.bin" else 8
        for field in range(7):
            at = first + 4 * field
            for v in (0, -1, 2**31 - 1, -2**31, 2**16):
                if field == 6 and v == 2**16 and first:
                    continue  # a longer context takes no room in these
                bad(f"{source}-{field}-{v}", {"m.bin": changed(data, at, 4, v), "tokenizer.bin": tokens}, "ckpt", ".")
        for n in (3, 4, 27, 28, 100, 255, 256, 300, len(data) - 1, len(data) - 4):
            if n < len(data):
                bad(f"{source}-cut-{n}", {"m.bin": data[:n], "tokenizer.bin": tokens}, "ckpt", ".")
        bad(f"{source}-more", {"m.bin": data + b"1234", "tokenizer.bin": tokens}, "ckpt", ".")
    llmc()
    data, tokens = get(FIXTURES + "/convert/v0.bin"), get(FIXTURES + "/convert/tokenizer.bin")
    for n in range(0, len(tokens), 7):
        bad(f"tokenizer-cut-{n}", {"m.bin": data, "tokenizer.bin": tokens[:n]}, "ckpt", "token")
    for at in (8, 20, len(tokens) - 10):
        for v in (0, -1, 2**31 - 1, -2**31):
            if at == 8:
                bad(f"tokenizer-{at}-{v}", {"m.bin": data, "tokenizer.bin": changed(tokens, at, 4, v)}, "ckpt", "token")


def llmc():
    tokens = get(FIXTURES + "/llmc/gpt2_tokenizer.bin")
    for source in ("v1.bin", "v4.bin", "v5.bin"):
        data = get(f"{FIXTURES}/llmc/{source}")

        def one(name, model, field, own=tokens, at=False):
            bad(f"llmc-{source}-{name}", {"m.bin": model, "gpt2_tokenizer.bin": own}, "ckpt", field, at)
        good("llmc-" + source, {"m.bin": data, "gpt2_tokenizer.bin": tokens}, "ckpt")
        for i, field in enumerate(("version", "max_seq_len", "vocab_size", "num_layers", "num_heads", "channels")):
            for v in (0, -1, 2**31 - 1, -2**31, 2**16):
                one(f"{field}-{v}", changed(data, 4 + 4 * i, 4, v), "llm.c: (" + field + "|the file has|num_heads|padded)",
                    at=True)
        for n in (4, 8, 31, 1023, 1024, len(data) - 1, len(data) // 2):
            one(f"cut-{n}", data[:n], "llm.c|first bytes", at=True)
        one("more", data + b"1234", "llm.c: the file has", at=True)
        if source == "v4.bin":
            one("padded", changed(data, 28, 4, 200), "padded_vocab_size is 200", at=True)
        for n in range(0, len(tokens), 101):
            one(f"tokens-cut-{n}", data, "token|empty", tokens[:n])
        for at, v in ((4, 3), (8, 0), (8, -1), (8, 2**31 - 1), (8, 300), (12, -1), (12, 261 * 2), (1024, 255)):
            one(f"tokens-{at}-{v}", data, "token", changed(tokens, at, 4, v))


def entries_of(archive):
    """Where the directory's entries begin."""
    return [m.start() for m in re.finditer(b"PK\1\2", archive)]


def name_of(archive, entry):
    return archive[entry + 46:entry + 46 + int.from_bytes(archive[entry + 28:entry + 30], "little")].decode()


def damaged(archive, name):
    """A bit of the last byte of a member's data."""
    entry = next(e for e in entries_of(archive) if name_of(archive, e).endswith(name))
    size, at = struct.unpack_from("<I", archive, entry + 20)[0], struct.unpack_from("<I", archive, entry + 42)[0]
    at += 30 + sum(struct.unpack_from("<HH", archive, at + 26)) + size - 1
    return changed(archive, at, 1, archive[at] ^ 1)


def pickles():
    matrices = get(FIXTURES + "/wild/params.pkl")
    good("pickle", {"m.pkl": matrices}, "ckpt")
    for n in range(3, len(matrices), max(1, len(matrices) // 40)):
        bad(f"pickle-cut-{n}", {"m.pkl": matrices[:n]}, "ckpt", ".", True)
    evil = {"system": b"cposix\nsystem\n(S'touch pwned'\ntR.", "reduce": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x01x\x85R.",
            "inst": b"(S'x'\nios\nsystem\n.", "ext": b"\x80\x02\x82\x01.", "build": b"\x80\x02}}b.",
            "many": b"\x80\x02(" + b"N" * 2000000 + b"t.", "memo": b"\x80\x02h\x07.", "long": b"\x80\x02\x8b\xff\xff\xff\x7f.", "frame": b"\x80\x04\x95" + b"\xff" * 8 + b".",
            "bytes8": b"\x80\x04\x8e" + b"\xff" * 8 + b".", "mark": b"\x80\x02t.", "pop": b"\x80\x020.", "empty": b"\x80\x02.",
            "tuple": b"\x80\x02\x87.", "opcode": b"\x80\x02\xfe.", "protocol": b"\x80\x63N.", "deep": b"\x80\x02" + b"]" * 9999 + b".",
            "nest": b"\x80\x02" + b"(" * 50000 + b".", "persid": b"\x80\x02\x8c\x01aQ.", "none": pickle.dumps(None),
            "list": pickle.dumps([1, "a"]), "memoise": b"\x80\x04" + b"\x94" * 9 + b".", "get": b"\x80\x04j\xff\xff\xff\xff."}
    for name, data in evil.items():
        bad(f"pickle-{name}", {"m.pkl": data}, "ckpt", ".")
    torch = get(FIXTURES + "/torch/slm4096/ckpt.pt")
    meta = get(FIXTURES + "/torch/nanogpt/meta.pkl")
    good("torch", {"m.pt": torch, "meta.pkl": meta}, "ckpt")
    for n in (4, 30, 100, len(torch) // 2, len(torch) - 1, len(torch) - 22, len(torch) - 60):
        bad(f"torch-cut-{n}", {"m.pt": torch[:n], "meta.pkl": meta}, "ckpt", ".")
    end = torch.rindex(b"PK\6\6")  # PyTorch writes zip64's, which counts
    for at, width in ((32, 8), (40, 8), (48, 8)):
        for v in (0, 1, 2**16 - 1, 2**31, 2**63, 2**64 - 1):
            bad(f"torch-end-{at}-{v}", {"m.pt": changed(torch, end + at, width, v), "meta.pkl": meta}, "ckpt", ".")
    unsaid = bytearray(torch)  # as after set_crc32_options(False)
    for entry in entries_of(torch):
        unsaid[entry + 16:entry + 20] = bytes(4)
    good("torch-no-crc", {"m.pt": bytes(unsaid), "meta.pkl": meta}, "ckpt")
    for name in ("data.pkl", "data/0", "data/1"):
        bad(f"torch-crc-{name}", {"m.pt": damaged(torch, name), "meta.pkl": meta}, "ckpt", name + ".*checksum", True)
    for source in ("params.npz", "rotated.npz"):
        model = get(FIXTURES + "/wild/" + source)
        entries = [(i.filename, zipfile.ZipFile(io.BytesIO(model)).read(i))
                   for i in zipfile.ZipFile(io.BytesIO(model)).infolist()]
        if source == "rotated.npz":
            entries += [(key + ".npy", npy("<U8", [], text.ljust(8, "\0").encode("utf-32-le"))) for key, text in (
                ("positions", "half"), ("rope_theta", "1e4"), ("activation", "silu"), ("rms_eps", "1e-5"))]
        model = npz(entries)
        good(source, {"m.npz": model}, "ckpt")
        for name in sorted(name_of(model, entry) for entry in entries_of(model)):
            bad(f"npz-crc-{name}", {"m.npz": damaged(model, name)}, "ckpt", name + ".*(CRC|checksum)")
    first = torch.index(b"PK\1\2")
    for at, width, values in ((10, 2, (8, 12, 99)), (20, 4, (0, 2**31, 2**32 - 1)), (24, 4, (0, 2**31, 2**32 - 2)),
                              (28, 2, (0, 2**16 - 1)), (42, 4, (1, 2**31, 2**32 - 2))):
        for v in values:
            bad(f"torch-entry-{at}-{v}", {"m.pt": changed(torch, first + at, width, v), "meta.pkl": meta}, "ckpt", ".")
    bad("zip-empty", {"m.pt": npz([])}, "ckpt", ".")
    bad("zip-no-data", {"m.pt": npz([("archive/version", b"3\n")])}, "ckpt", ".")
    bad("zip-slip", {"m.npz": npz([("../../x.npy", npy("<f4", [1], bytes(4)))])}, "ckpt", ".")


def arrays():
    ids, logits = struct.pack("<3q", 1, 2, 3), bytes(4 * 81)
    tokens, rows = npy("<i8", [3], ids), npy("<f4", [3, 27], logits)
    good("npz", {"r.npz": npz([("tokens.npy", tokens), ("logits.npy", rows)])}, "ref")

    def both(name, logits_npy, field="."):
        bad(f"npz-{name}", {"r.npz": npz([("tokens.npy", tokens), ("logits.npy", logits_npy)])}, "ref", field)
    for descr in (">f4", "|O", "<f3", "<c8", "|S4", "<M8[ns]", "<f99999999999", "", "<i8"):
        both(f"descr-{re.sub('[^a-z0-9]', '_', descr)}", npy(descr, [3, 27], logits))
    for i, shape in enumerate(([3, 28], [2**62, 4], [0, 27], [3], [], [1, 1, 1, 3, 27], [2**64, 1], [27, 3], [4, 27])):
        both(f"shape-{i}", npy("<f4", shape, logits))
    for old, new in ((b"'descr'", b"'xescr'"), (b"False", b"Maybe"), (b"(3,", b"(-3"), (b"{", b"["), (b"}", b" "),
                     (b"\x93NUMPY\x01", b"\x93NUMPY\x09"), (b"\x93NUMPY\x01\0", b"\x93NUMPY\x01\1"), (b"NUMPY", b"NUMPX"), (b"'shape'", b"'descr'"), (b"27", b"2x")):
        both("head-" + re.sub(r"\W", "", new.decode("latin-1")) + str(len(cases)), rows.replace(old, new, 1))
    for n in (0, 5, 9, 10, 60, 127, 128, len(rows) - 1):
        both(f"cut-{n}", rows[:n])
    for v in (0, 1, 2**16 - 1):
        both(f"length-{v}", changed(rows, 8, 2, v))
    both("longer", rows + b"1234")
    for i, t in enumerate((struct.pack("<3q", 1, 2, 27), struct.pack("<3q", -1, 2, 3), struct.pack("<3q", 1, 2, 2**40))):
        bad(f"npz-tokens-{i}", {"r.npz": npz([("tokens.npy", npy("<i8", [3], t)), ("logits.npy", rows)])}, "ref", "token")
    bad("npz-no-tokens", {"r.npz": npz([("logits.npy", rows)])}, "ref", "token")
    bad("npz-no-logits", {"r.npz": npz([("tokens.npy", tokens)])}, "ref", "logits")
    bad("npz-two", {"r.npz": npz([("tokens.npy", npy("<i8", [2], ids[:16])), ("logits.npy", rows)])}, "ref", ".")
    whole = npz([("tokens.npy", tokens), ("logits.npy", rows)])
    for n in range(4, len(whole), len(whole) // 12):
        bad(f"npz-file-cut-{n}", {"r.npz": whole[:n]}, "ref", ".")
    for name in ("tokens.npy", "logits.npy"):
        bad(f"npz-ref-crc-{name}", {"r.npz": damaged(whole, name)}, "ref", name[:-4] + ".*(CRC|checksum)")
    record = {"input": [1, 2, 3], "logits": [[0.5] * 27] * 3}
    good("ref-json", {"r.json": json.dumps(record).encode()}, "ref")
    for i, (key, value) in enumerate((("input", []), ("input", "x"), ("input", [1, 2]), ("input", [1, 2, 27]), ("input", [1, 2, -1]),
                                      ("input", [1, 2, 2.5]), ("input", [1, 2, 2**70]), ("logits", []), ("logits", [[]] * 3),
                                      ("logits", 3), ("logits", [[0.5] * 26] * 3), ("logits", [["x"] * 27] * 3),
                                      ("logits", [[None] * 27] * 3), ("logits", [[0.5] * 27, [0.5] * 27, 3]))):
        bad(f"ref-json-{i}", {"r.json": json.dumps(dict(record, **{key: value})).encode()}, "ref", ".")
    text = json.dumps(record).encode()
    for n in range(1, len(text), len(text) // 12):
        bad(f"ref-json-cut-{n}", {"r.json": text[:n]}, "ref", ".")
    for key in record:
        bad(f"ref-json-without-{key}", {"r.json": json.dumps({k: v for k, v in record.items() if k != key}).encode()}, "ref", ".")
    head = {"tokens": {"dtype": "I64", "shape": [3], "data_offsets": [0, 24]},
            "logits": {"dtype": "F32", "shape": [3, 27], "data_offsets": [24, 348]}}
    good("ref-st", {"r.safetensors": safetensors(head, ids + logits)}, "ref")
    for i, (name, entry) in enumerate(itertools.product(head, (
            {"dtype": "F77"}, {"shape": [2**62, 8]}, {"data_offsets": [0, 2**63]}, {"data_offsets": [9, 1]}, {"shape": [4]}))):
        h = copy.deepcopy(head)
        h[name].update(entry)
        bad(f"ref-st-{i}", {"r.safetensors": safetensors(h, ids + logits)}, "ref", ".")
    for magic in (b"_logits_", struct.pack("<II", 20240327, 2)):
        for n in (len(magic), len(magic) + 4, 64, 2000):
            for fill in (b"\xff", b"\0", b"\1"):
                bad(f"ref-{magic[:4].hex()}-{n}-{fill.hex()}", {"r.bin": magic + fill * (n - len(magic))}, "ref", ".")
    programs()


def programs():
    """References of other programs: .pt with a lie in each part, JSON of servers cut and with every value exchanged."""
    ids, rows = [1, 2, 3], [[0.5] * 27] * 3
    files = {name: data for name, data, needs, _ in references(ids, rows) if not needs}
    for name, data in files.items():
        good("ref-" + name, {name: data}, "ref")
        for n in range(4, len(data), len(data) // 6):
            bad(f"ref-{name}-cut-{n}", {name: data[:n]}, "ref", ".")
    tensors = {"tokens": Tensor("i8", [3], struct.pack("<3q", *ids)), "logits": Tensor("f4", [3, 27], bytes(324))}
    for name, t in tensors.items():
        lies = [dict(shape=shape) for shape in ([], [2], [2**31 - 1] * 2, [1] * 9, [0, 27], [2, 3, 27])]
        lies += [dict(strides=strides) for strides in ([], [2**31 - 1] * len(t.shape), [1] * 9, [30] * len(t.shape))]
        lies += [dict(data=t.data[:-8]), dict(data=b"")]
        for i, lie in enumerate(lies):
            bad(f"ref-pt-{name}-{i}", {"r.pt": torch(dict(tensors, **{name: t._replace(**lie)}))}, "ref", ".")
    for i, tree in enumerate(({}, (), None, (None, tensors["logits"]), {"logits": (tensors["logits"],)}, {"logits": None, "tokens": None})):
        bad(f"ref-pt-tree-{i}", {"r.pt": torch(tree)}, "ref", "array|token|logits")
    whole = torch(tensors)
    for old in [kind.encode() + b"Storage" for kind in (STORAGES["f4"], STORAGES["i8"])] + [b"_rebuild_tensor_v2", b"OrderedDict", b"storage", b"cpu"]:
        bad(f"ref-pt-word-{old.decode()}", {"r.pt": whole.replace(old, old[::-1])}, "ref", ".")
    for name in ("vllm.json", "sglang.json", "completions.json"):
        text = files[name].decode()
        for i, (old, new) in enumerate(((": [", ": {"), ("null, {", "7, {"), ("[null, ", "["), ("-3.2", "3.2"), ("token_id:1", "token_id:99"),
                                        ("[1, 2, 3]", "[1, 2]"), (", 1, null", ", -1, null"), ('"26"', '"27"'))):
            if old in text and name + new != "completions.json[":
                bad(f"ref-{name}-{i}", {name: text.replace(old, new).encode()}, "ref", ".")


def sessions(scratch):
    path = os.path.join(scratch, "s.session")
    subprocess.run([MGPT, "repl", NAMES], input=f"anna\n/save {path}\n".encode(), stdout=subprocess.DEVNULL, check=True)
    text = get(path)
    whole = json.loads(text)
    good("session", {"s.session": text}, "session")
    for n in range(0, len(text) - 2, 17):
        bad(f"session-cut-{n}", {"s.session": text[:n]}, "session", ".")
    for key in whole:
        for i, other in enumerate((None, "x", -1, 2**40, 1.5, [], {}, [3], [{}])):
            if key == "edits" and i == 5:
                continue
            bad(f"session-{key}-{i}", {"s.session": json.dumps(dict(whole, **{key: other})).encode()}, "session", ".")
        bad(f"session-without-{key}", {"s.session": json.dumps({k: v for k, v in whole.items() if k != key}).encode()},
            "session", ".")
    for i, branch in enumerate(({"name": "a b"}, {"name": ""}, {"name": "x" * 99}, {"name": 3}, {"position": -1}, {"position": 6},
                                {"position": 2**40}, {"tokens": [27]}, {"tokens": [-1]}, {"tokens": ["a"]}, {"tokens": 5},
                                {"tokens": [1] * 17}, {"tokens": [0.5]})):
        w = copy.deepcopy(whole)
        w["branches"][0].update(branch)
        bad(f"session-branch-{i}", {"s.session": json.dumps(w).encode()}, "session", ".")
