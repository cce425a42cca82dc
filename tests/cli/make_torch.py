#!/usr/bin/env python3
"""make_torch.py IN.safetensors OUT.bin: the same tensors as torch.save writes a state dict, without torch.

    make_torch.py IN OUT ORDER [GAP]       as views: ORDER says which permutation of its dimensions a tensor is stored in,
                                           GAP how many values more each stored dimension has
"""
import itertools
import json
import math
import struct
import sys
import zipfile

# Of a safetensors type the storage of PyTorch and the bytes of a value.
STORAGES = {"F32": ("FloatStorage", 4), "F16": ("HalfStorage", 2), "BF16": ("BFloat16Storage", 2), "I64": ("LongStorage", 8),
            "I32": ("IntStorage", 4), "I8": ("CharStorage", 1), "U8": ("ByteStorage", 1)}


def text(s):
    return b"X" + struct.pack("<I", len(s)) + s.encode()


def numbers(values):
    return b"(" + b"".join(b"J" + struct.pack("<i", v) for v in values) + b"t"


def strides(shape):
    out = [1]
    for n in shape[:0:-1]:
        out.insert(0, out[0] * n)
    return out[:len(shape)]


def view(data, shape, each, order, gap):
    """The tensor's bytes as a larger one holds them whose dimensions are permuted: bytes, place of the first value, strides."""
    permutations = list(itertools.permutations(range(len(shape))))
    stored = permutations[order % len(permutations)]
    steps = strides([shape[d] + gap for d in stored])
    to = [steps[stored.index(d)] for d in range(len(shape))]
    first = sum(to) if gap else 0
    out = bytearray(b"\x3c" * (each * math.prod(n + gap for n in shape)))
    for i, at in enumerate(itertools.product(*map(range, shape))):
        place = each * (first + sum(a * t for a, t in zip(at, to)))
        out[place:place + each] = data[each * i:each * (i + 1)]
    return bytes(out), first, to


def as_torch(source, target, order=0, gap=0):
    """Returns 0 for types that no storage has."""
    with open(source, "rb") as f:
        data = f.read()
    start = 8 + struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    if any(t["dtype"] not in STORAGES for t in header.values()):
        return 0
    pickle = b"\x80\x02}("
    with zipfile.ZipFile(target, "w") as out:
        for key, (name, t) in enumerate(header.items()):
            begin, end = t["data_offsets"]
            kind, each = STORAGES[t["dtype"]]
            stored, first, steps = data[start + begin:start + end], 0, strides(t["shape"])
            if order or gap:
                stored, first, steps = view(stored, t["shape"], each, order, gap)
            storage = (b"(" + text("storage") + b"ctorch\n" + kind.encode() + b"\n" + text(str(key)) + text("cpu") +
                       b"J" + struct.pack("<i", len(stored) // each) + b"tQ")
            pickle += (text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"J" + struct.pack("<i", first) +
                       numbers(t["shape"]) + numbers(steps) + b"\x89}tR")
            out.writestr("pytorch_model/data/%d" % key, stored)
        out.writestr("pytorch_model/data.pkl", pickle + b"u.")
    return 1


if __name__ == "__main__":
    sys.exit(0 if as_torch(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])) else "a type without a storage")
