#!/usr/bin/env python3
"""make_torch.py IN.safetensors OUT.bin: the same tensors (F32) as torch.save writes a state dict, without torch."""
import json
import struct
import sys
import zipfile


def text(s):
    return b"X" + struct.pack("<I", len(s)) + s.encode()


def numbers(values):
    return b"(" + b"".join(b"J" + struct.pack("<i", v) for v in values) + b"t"


def strides(shape):
    out = [1]
    for n in shape[:0:-1]:
        out.insert(0, out[0] * n)
    return out[:len(shape)]


with open(sys.argv[1], "rb") as f:
    data = f.read()
start = 8 + struct.unpack_from("<Q", data)[0]
header = json.loads(data[8:start])
header.pop("__metadata__", None)
pickle = b"\x80\x02}("
with zipfile.ZipFile(sys.argv[2], "w") as out:
    for key, (name, t) in enumerate(header.items()):
        begin, end = t["data_offsets"]
        storage = (b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(str(key)) + text("cpu") +
                   b"J" + struct.pack("<i", (end - begin) // 4) + b"tQ")
        pickle += (text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0" + numbers(t["shape"]) +
                   numbers(strides(t["shape"])) + b"\x89}tR")
        out.writestr("pytorch_model/data/%d" % key, data[start + begin:start + end])
    out.writestr("pytorch_model/data.pkl", pickle + b"u.")
