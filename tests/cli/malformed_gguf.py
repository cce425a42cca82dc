"""GGUF files for malformed.py that are wrong in one way, and the lists of all files. Standard library only."""
import copy
import re
import struct

ODD = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)

cases = []  # (name, {file: bytes}, kind, what the line must match, whether it must name a byte)
controls = []


def bad(name, files, kind, field, at=False):
    cases.append((name, files, kind, field, at))


def good(name, files, kind):
    controls.append((name, files, kind))


# ---- GGUF: parsed, and written again with one thing wrong ----

WIDTH = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


class Gguf:
    """keys: [name, type, payload]; tensors: [name, dims, type, data]. fields: (offset, width, what)."""

    def __init__(self, data):
        self.data, self.at, self.fields, self.keys, self.tensors = data, 4, [], [], []
        self.number(4, "GGUF version")
        n_tensors, n_keys = self.number(8, "tensors"), self.number(8, "metadata entries")
        for _ in range(n_keys):
            name = self.string("key")
            kind = self.number(4, name)
            start = self.at
            self.value(kind, name)
            self.keys.append([name, kind, data[start:self.at]])
        infos = []
        for _ in range(n_tensors):
            name = self.string("tensor")
            dims = [self.number(8, name) for _ in range(self.number(4, name))]
            infos.append((name, dims, self.number(4, name), self.number(8, name)))
        self.alignment = next((int.from_bytes(k[2], "little") for k in self.keys if k[0] == "general.alignment"), 32)
        self.start = -(-self.at // self.alignment) * self.alignment
        ends = sorted(o for _, _, _, o in infos) + [len(data) - self.start]
        for name, dims, kind, offset in infos:
            end = ends[ends.index(offset) + 1]
            self.tensors.append([name, dims, kind, data[self.start + offset:self.start + end]])

    def number(self, width, what):
        self.fields.append((self.at, width, what))
        self.at += width
        return int.from_bytes(self.data[self.at - width:self.at], "little")

    def string(self, what):
        n = self.number(8, what)
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind, name):
        if kind == STRING:
            self.string(name)
        elif kind == ARRAY:
            element, n = self.number(4, name), self.number(8, name)
            for i in range(n):
                if element == STRING and i in (0, n - 1):
                    self.string(name)
                elif element == STRING:
                    self.at += 8 + int.from_bytes(self.data[self.at:self.at + 8], "little")
                else:
                    self.at += WIDTH[element]
        else:
            self.at += WIDTH[kind]

    def bytes(self):
        alignment = self.alignment

        def text(s):
            s = s if isinstance(s, bytes) else s.encode()
            return struct.pack("<Q", len(s)) + s
        out = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.keys))
        for name, kind, payload in self.keys:
            out += text(name) + struct.pack("<I", kind) + payload
        offset, body = 0, b""
        for name, dims, kind, data in self.tensors:
            out += text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
            out += struct.pack("<IQ", kind, offset)
            body += data + bytes(-len(data) % alignment)
            offset = len(body)
        return out + bytes(-len(out) % alignment) + body

    def key(self, end):
        return next(k for k in self.keys if k[0].endswith(end))


def changed(data, at, width, value):
    return data[:at] + (value % 2**(8 * width)).to_bytes(width, "little") + data[at + width:]


def gguf_fields(label, data, every):
    """Every count, length, type, dim and offset set to every odd number."""
    g = Gguf(data)
    for i, (at, width, what) in enumerate(g.fields):
        old = int.from_bytes(data[at:at + width], "little")
        values = {v % 2**(8 * width) for v in ODD} | {old + 1, old - 1 if old else 5}
        for k, v in enumerate(sorted(values)):
            if v == old or (i + k) % every:
                continue
            if (what == "GGUF version" and v == 2 or what == "tensors" and v == old - 1 or
                    width == 4 and old == 4 and v == 5 or width == 4 and old in (0, 30) and v in (0, 1) or
                    what.endswith("merges") and width == 4):
                continue  # the same layout; a tensor less; i32 for u32; floats that fit; of an empty list
            bad(f"{label}-field-{at}-{v:x}", {"m.gguf": changed(data, at, width, v)}, "gguf",
                "key|token|tensor|header|GGUF|vocabulary", True)
    used = len(data) - len(g.tensors[-1][3]) + g.tensors[-1][1][0] * 2  # less than that: an element type's least
    for at in sorted({f[0] for f in g.fields} | {g.start, g.start - 1, used}):
        if at % every == 0 or at < 24:
            bad(f"{label}-cut-{at}", {"m.gguf": data[:at]}, "gguf",
                "key|tensor|header|GGUF|file|ends|empty", at >= 4)


def gguf_meaning(label, data):
    """Well-formed files that make no model: keys and tensors missing, twice, of other types and shapes."""
    def build(change, name, field, at=False):
        g = copy.deepcopy(base)
        bad(f"{label}-{name}", {"m.gguf": change(g) or g.bytes()}, "gguf", field, at)

    base = Gguf(data)
    for i, (key, kind, payload) in enumerate(base.keys):
        wanted = re.search(r"(architecture|_length|_count|_size|ggml\.model|tokens|scores|merges|"
                           r"token_type|epsilon|token_id|freq_base|add_bos|activation|\.norm)", key)
        plain = re.escape(key)
        if key.endswith("merges"):
            continue  # these vocabularies merge nothing
        build(lambda g: g.keys.append(g.keys[i]), f"twice-{key}", f"{plain}: occurs twice", True)
        if not wanted:
            continue
        if re.search(r"architecture|context_length|embedding_length|block_count|feed_forward|"
                     r"head_count$|ggml\.model", key):
            build(lambda g: g.keys.pop(i) and None, f"without-{key}", f"{plain}.*missing|{plain}")
        other = (6, struct.pack("<f", 1.5)) if kind != 6 else (STRING, struct.pack("<Q", 1) + b"x")
        build(lambda g: g.keys[i].__setitem__(slice(1, 3), other), f"type-{key}", plain)
        if kind in (4, 5) and not key.endswith("_id"):
            for v in (0, 2**31 - 1, 2**31, 2**32 - 1):
                if struct.pack("<I", v) != payload and not (v == 0 and "dimension" in key):
                    build(lambda g: g.keys[i].__setitem__(2, struct.pack("<I", v)), f"{key}-{v}",
                          "key|tensor|layers|heads|shape")
        if kind == 6:
            for v in ("nan", "inf", "-1", "-inf"):
                build(lambda g: g.keys[i].__setitem__(2, struct.pack("<f", float(v))), f"{key}-{v}",
                      plain)
        if kind == ARRAY:
            build(lambda g: g.keys[i].__setitem__(2, payload[:4] + bytes(8)), f"empty-{key}", "tokenizer.ggml|vocab")
    for i, (name, dims, kind, values) in enumerate(base.tensors):
        plain = re.escape(name)
        if name not in ("output.weight", "position_embd.weight"):  # absent: the embedding, and no positions
            build(lambda g: g.tensors.pop(i) and None, f"without-{name}", plain)
        build(lambda g: g.tensors.append(g.tensors[i]), f"twice-{name}", f"{plain}: occurs twice", True)
        build(lambda g: g.tensors[i].__setitem__(0, name + "x"), f"name-{name}", plain)
        half = len(values) // 2
        build(lambda g: g.tensors[i].__setitem__(slice(1, 4), [dims[:-1] + [dims[-1] // 2], kind, values[:half]]),
              f"half-{name}", "tensor|rows|positions|layers")
        if len(dims) == 2 and dims[0] != dims[1]:
            build(lambda g: g.tensors[i].__setitem__(1, dims[::-1]), f"turned-{name}", plain)
        build(lambda g: g.tensors[i].__setitem__(1, dims + [1, 1, 1, 1]), f"dims-{name}", plain, True)
    for kind in (24, 25, 27, 28, 4, 5, 31, 99):
        build(lambda g: g.tensors[0].__setitem__(2, kind), f"elements-{kind}", re.escape(base.tensors[0][0]))
    for n in (0, 1, 3, 4, 24, 2**17, 2**31, 2**32 - 1):
        build(lambda g: g.keys.append(["general.alignment", 4, struct.pack("<I", n)]),
              f"alignment-{n}", "general.alignment", True)
    build(lambda g: g.keys.append(["general.alignment", 10, struct.pack("<Q", 32)]), "alignment-u64",
          "general.alignment", True)
    build(lambda g: g.keys.append(["k", ARRAY, struct.pack("<IQ", ARRAY, 1)]), "array-of-arrays", "key k", True)
    build(lambda g: g.keys.append(["k", 7, b"\2"]), "bool-2", "key k", True)
    build(lambda g: g.keys.append(["split.count", 2, b"\3\0"]), "split", "split.no", True)
    build(lambda g: g.keys.append(["", 4, bytes(4)]), "no-name", "key", True)
    build(lambda g: g.keys.append(["k\x1b[31m\n" * 30, 99, b""]), "wild-key", "key k", True)
    build(lambda g: g.tensors.append(["t\x1b]0;x\7\n", [32], 0, bytes(128)]), "wild-tensor", "tensor", True)
    build(lambda g: g.tensors.append(["\u202e\u0085evil", [32], 0, bytes(128)]), "hidden-tensor", "tensor")
    build(lambda g: g.tensors.append(["n" * 64, [32], 0, bytes(128)]), "long-tensor", "tensor", True)
    build(lambda g: g.tensors.append(["n" * 63, [32], 0, bytes(128)]), "unknown-tensor", "n" * 20)
    build(lambda g: b"GGUF" + struct.pack(">IQQ", 3, 1, 1) + bytes(64), "big-endian", "big-endian", True)
    for name in ("", "mamba", "\x1b[2J"):
        payload = struct.pack("<Q", len(name)) + name.encode()
        build(lambda g: g.key("architecture").__setitem__(2, payload), f"architecture-{len(name)}", "architecture", True)
