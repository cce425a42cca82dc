"""Files of other programs as bytes, for seeds.py and tests/cli/malformed.py. Standard library only."""
import io
import json
import os
import struct
import zipfile


def get(path):
    with open(path, "rb") as f:
        return f.read()


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


def steps_json():
    """BPE with normalizers, pre-tokenizers and decoders that are written as steps."""
    t = json.loads(tokenizer_json(8))
    t["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": False, "lowercase": False},
        {"type": "Replace", "pattern": {"Regex": "a+|\\s"}, "content": "b"}, {"type": "Prepend", "prepend": "x"},
        {"type": "Strip", "strip_left": True, "strip_right": True}]}
    t["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "(?i:'s)|[^\\r\\n\\p{L}]?\\p{L}+|^.{1,3}|\\b"}, "behavior": "MergedWithNext", "invert": True},
        {"type": "CharDelimiterSplit", "delimiter": ","}, {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": True},
        {"type": "ByteLevel", "add_prefix_space": True}]}
    t["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "BPEDecoder", "suffix": "/"}, {"type": "WordPiece", "prefix": "#", "cleanup": True}, {"type": "ByteLevel"}]}
    t["model"].update(continuing_subword_prefix="#", end_of_word_suffix="/", byte_fallback=True, fuse_unk=True, merges=[])
    t["added_tokens"].append({"id": 1, "content": list(t["model"]["vocab"])[1], "special": False, "single_word": True,
                              "lstrip": True, "rstrip": True, "normalized": True})
    return json.dumps(t).encode()


def words_json(kind):
    """WordPiece or WordLevel of 8 tokens."""
    model = {"type": kind, "unk_token": "[UNK]", "vocab": {t: i for i, t in enumerate(
        ["[UNK]", "[CLS]", "[SEP]", "a", "##b", "ab", "##", "##ba"])}}
    if kind == "WordPiece":
        model.update(continuing_subword_prefix="##", max_input_chars_per_word=9)
    return json.dumps({
        "added_tokens": [{"id": 1, "content": "[CLS]", "special": True}], "normalizer": {"type": "Strip", "strip_left": True},
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}, "model": model,
    }).encode()


def tiny_tensors(biases="", head=False):
    """Header and data of a whole llama in about two kilobytes, with biases of the projections in `biases`."""
    square, layer = [4, 4], "model.layers.0."
    shapes = {"model.embed_tokens.weight": [8, 4], "model.norm.weight": [4],
              layer + "input_layernorm.weight": [4], layer + "post_attention_layernorm.weight": [4]}
    for name in ("self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down"):
        shapes[layer + name + "_proj.weight"] = square
        if name[-1] in biases or biases == "all":
            shapes[layer + name + "_proj.bias"] = [4]
    if head:
        shapes["lm_head.weight"] = [8, 4]
    head, at = {}, 0
    for name, shape in shapes.items():
        n = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    return head, b"\x80\x3e" * (at // 2)


ADAPTER_CONFIG = {"peft_type": "LORA", "r": 2, "lora_alpha": 3, "use_rslora": True, "use_dora": False,
                  "init_lora_weights": True, "rank_pattern": {}, "alpha_pattern": {"k_proj": 2}, "bias": "none"}


def adapter_tensors(dora=False, more=()):
    """Header and data of a PEFT adapter for that llama; `more`: names and shapes of whole tensors, or factors."""
    shapes, layer = {}, "base_model.model.model.layers.0."
    for name in ("self_attn.q_proj", "self_attn.k_proj", "mlp.down_proj"):
        shapes[layer + name + ".lora_A.weight"], shapes[layer + name + ".lora_B.weight"] = [2, 4], [4, 2]
        if dora:
            shapes[layer + name + ".lora_magnitude_vector"] = [4]
    shapes.update(("base_model.model." + name, shape) for name, shape in more)
    head, at = {}, 0
    for name, shape in shapes.items():
        n = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    return head, b"\x00\x00\x80\x3e" * (at // 4)


def safetensors(head, data):
    text = head if isinstance(head, bytes) else json.dumps(head, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


TINY_CONFIG = {"model_type": "llama", "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1,
               "num_key_value_heads": 1, "intermediate_size": 4, "vocab_size": 8, "max_position_embeddings": 16, "rms_norm_eps": 1e-5,
               "tie_word_embeddings": True, "hidden_act": "silu"}


def piece(text, score, kind):
    """A field of SentencePiece's protobuf."""
    text = text.encode()
    body = b"\x0a" + bytes([len(text)]) + text + b"\x15" + struct.pack("<f", score) + b"\x18" + bytes([kind])
    return b"\x0a" + bytes([len(body)]) + body


def chat_templates(root):
    """(name, template) of tests/vectors/jinja.json: the short ones that Jinja runs as one, and each format."""
    rows = json.loads(get(os.path.join(root, "tests/vectors/jinja.json")))
    yield "language", "\n".join(r[0] for r in rows if not r[3] and r[4] is not None).encode()
    for i, template in enumerate(dict.fromkeys(r[0] for r in rows if r[3])):
        yield "format-%02d" % i, template.encode()
