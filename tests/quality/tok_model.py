"""Random Unicode texts, a tiny model with a given tokenizer, and the library's encoder: what the comparisons of
tokenizers share."""
import argparse
import ctypes
import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors"))
from tok_corpus import CORPUS, cases  # noqa: E402

# ---- texts ---------------------------------------------------------------------------------------

SCRIPTS = [(0x20, 0x7E), (0xA0, 0x17F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x6FF), (0x900, 0x97F),
           (0xAC00, 0xD7A3), (0x1100, 0x11FF), (0x2000, 0x206F), (0x2150, 0x24FF), (0x3000, 0x30FF), (0x4E00, 0x4FFF),
           (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFFEF), (0x1D400, 0x1D7FF), (0x1F300, 0x1F9FF), (0, 0x1F)]


def random_text(rng):
    parts = []
    for _ in range(rng.randint(1, 12)):
        kind = rng.randrange(6)
        if kind == 0:
            lo, hi = rng.choice(SCRIPTS)
            parts.append("".join(chr(rng.randint(lo, hi)) for _ in range(rng.randint(1, 8))))
        elif kind == 1:
            code = rng.randrange(0x110000)
            parts.append(chr(code) if not 0xD800 <= code < 0xE000 else "?")
        elif kind == 2:
            at = rng.randrange(len(CORPUS))
            parts.append(CORPUS[at:at + rng.randint(1, 30)])
        elif kind == 3:
            parts.append(rng.choice([" ", "  ", "   ", "\n", "\t", "\u3000", "\u00a0", "\u2581", "\u2581\u2581", " \u2581"]))
        elif kind == 4:
            parts.append("".join(rng.choice("abAB ") for _ in range(rng.randint(1, 20))))
        else:
            parts.append(rng.choice(["<s>", "</s>", "<unk>", "<tool>", "foo", "<sep>", "White Rabbit", "<0x41>", "\r\n", "e\u0301",
                                     "\u2460\u0301", "\u1100\u1161\u11a8", "don't", "U.S.A.", "3.14", "[UNK]", "[CLS]", "##a"]))
    return "".join(parts)


# ---- mgpt ----------------------------------------------------------------------------------------

class Library:
    def __init__(self, mgpt):
        path = os.path.join(os.path.dirname(os.path.abspath(mgpt)), "..", "src", "libmgpt.so")
        self.lib = ctypes.CDLL(path)
        self.lib.mgpt_open.restype = ctypes.c_void_p
        self.lib.mgpt_encode.restype = ctypes.c_int64
        self.lib.mgpt_encode.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint,
                                         ctypes.POINTER(ctypes.c_int32), ctypes.c_size_t, ctypes.c_void_p]
        self.lib.mgpt_piece.restype = ctypes.c_void_p
        self.lib.mgpt_piece.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_size_t)]
        self.lib.mgpt_close.argtypes = [ctypes.c_void_p]

    def open(self, path):
        self.model = self.lib.mgpt_open(path.encode(), None, None)
        if not self.model:
            raise RuntimeError("mgpt_open failed: " + path)

    def encode(self, text, flags):
        data = text.encode()
        ids = (ctypes.c_int32 * (20 * len(data) + 16))()  # NFKC makes 33 bytes of U+FDFA
        n = self.lib.mgpt_encode(self.model, data, len(data), flags, ids, len(ids), None)
        return list(ids[:n]) if n >= 0 else "error %d" % n

    def decode(self, ids):
        out = b""
        for i in ids:
            n = ctypes.c_size_t()
            p = self.lib.mgpt_piece(self.model, i, ctypes.byref(n))
            out += ctypes.string_at(p, n.value)
        return out.decode(errors="replace")

    def close(self):
        self.lib.mgpt_close(self.model)


def write_model(path, n_vocab, tokenizer):
    """A llama of one layer and width 4 with its tokenizer."""
    square, layer = [4, 4], "model.layers.0."
    shapes = {"model.embed_tokens.weight": [n_vocab, 4], "model.norm.weight": [4],
              layer + "input_layernorm.weight": [4], layer + "post_attention_layernorm.weight": [4]}
    for name in ("self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down"):
        shapes[layer + name + "_proj.weight"] = square
    head, at = {}, 0
    for name, shape in shapes.items():
        n = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(head).encode()
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4, "num_attention_heads": 1,
              "num_hidden_layers": 1, "intermediate_size": 4, "vocab_size": n_vocab, "max_position_embeddings": 64,
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True, "hidden_act": "silu"}
    with open(path + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"\x80\x3f" * (at // 2))
    with open(path + "/config.json", "w") as f:
        json.dump(config, f)
    if isinstance(tokenizer, bytes):
        with open(path + "/tokenizer.model", "wb") as f:
            f.write(tokenizer)
        with open(path + "/tokenizer_config.json", "w") as f:
            json.dump({"add_bos_token": False, "add_eos_token": False}, f)
    else:
        tokenizer.save(path + "/tokenizer.json")


def compare_all(tokenizers, compare, text=random_text, more=lambda rng: []):
    """The command line of a comparison: compare(library, mgpt, name, texts) is not 0 where a tokenizer differs. Returns an
    exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mgpt")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    texts = cases(100) + [text(rng) for _ in range(options.texts)] + more(rng)
    library = Library(options.mgpt)
    names = [n for n in tokenizers if not options.names or any(n.startswith(p) for p in options.names)]
    bad = sum(compare(library, options.mgpt, name, texts) != 0 for name in names)
    print("%d tokenizers, %d with differences" % (len(names), bad))
    return 1 if bad else 0
