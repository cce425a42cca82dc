"""Checkpoints of OpenAI's GPT-2 in TensorFlow as bytes, for seeds.py and tests/cli/malformed_tf.py. Standard library
only; written from the definition of the format (tools/convert/containers/sstable.h and families/from_tensorflow.c)."""
import json
import struct

MAGIC = 0xdb4775248b80fb57
HPARAMS = {"n_vocab": 8, "n_ctx": 4, "n_embd": 4, "n_head": 2, "n_layer": 1}
MATRICES = {"attn/c_attn": (4, 12), "attn/c_proj": (4, 4), "mlp/c_fc": (4, 16), "mlp/c_proj": (16, 4)}


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """A protobuf's number, or bytes."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def masked_crc(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def block(entries, every=16, compression=0, restarts=None):
    """Entries with keys shortened by what they share, and the trailer; every n-th key is whole."""
    out, places, before = b"", [], b""
    for i, (key, value) in enumerate(entries):
        shared = 0
        if i % every == 0:
            places.append(len(out))
        else:
            while shared < min(len(key), len(before)) and key[shared] == before[shared]:
                shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    places = places or [0]
    out += struct.pack("<%dI" % len(places), *places) + struct.pack("<I", len(places) if restarts is None else restarts)
    return trailed(out, compression)


def trailed(data, compression=0):
    data += bytes([compression])
    return data + struct.pack("<I", masked_crc(data))


def table(entries, per_block=9, make=block):
    """A sorted table of several blocks."""
    out, handles = b"", []
    for i in range(0, len(entries), per_block):
        one = make(entries[i:i + per_block])
        handles.append((entries[min(i + per_block, len(entries)) - 1][0], varint(len(out)) + varint(len(one) - 5)))
        out += one
    return ended(out, handles)


def ended(out, handles):
    """Blocks, the index of these handles, and the footer."""
    empty, index = block([]), block(handles, 1)
    footer = varint(len(out)) + varint(len(empty) - 5) + varint(len(out) + len(empty)) + varint(len(index) - 5)
    return out + empty + index + footer.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def entry(shape, offset, data, dtype=1, shard=0, size=None, crc=None, more=b""):
    dims = b"".join(field(2, field(1, n)) for n in shape)
    return (field(1, dtype) + field(2, dims) + (field(3, shard) if shard else b"") + (field(4, offset) if offset else b"")
            + field(5, len(data) if size is None else size)
            + b"\x35" + struct.pack("<I", masked_crc(data) if crc is None else crc) + more)


def tensors():
    """{name: shape} of a model of HPARAMS."""
    shapes = {"model/wte": (8, 4), "model/wpe": (4, 4), "model/ln_f/g": (4,), "model/ln_f/b": (4,)}
    for name, (n_in, n_out) in MATRICES.items():
        shapes[f"model/h0/{name}/w"] = (1, n_in, n_out)
        shapes[f"model/h0/{name}/b"] = (n_out,)
    for name in ("ln_1", "ln_2"):
        shapes[f"model/h0/{name}/g"] = shapes[f"model/h0/{name}/b"] = (4,)
    return shapes


HEADER = field(1, 1) + field(3, field(1, 1))


def entries(changes=None, header=HEADER):
    """Entries of the index and the data of that model; changes: {name: bytes of its entry, or function of (shape,
    offset, data), or None to leave it out}."""
    changes = changes or {}
    out, data = {b"": header}, b""
    shapes = tensors()
    for name in sorted(set(shapes) | set(changes)):
        shape, n = shapes.get(name, (2,)), 1
        for size in shape:
            n *= size
        own = struct.pack("<f", 0.25) * n
        change = changes.get(name, entry)
        if change is not None:
            out[name.encode()] = change if isinstance(change, bytes) else change(shape, len(data), own)
            data += own
    return sorted(out.items()), data


def hparams(**changes):
    return json.dumps({k: v for k, v in {**HPARAMS, **changes}.items() if v is not None}).encode()
