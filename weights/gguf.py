"""GGUF version 3, F32 and F16 tensors: a writer and a reader, apart from the engine's.

Written from the format's description (FORMATS.md 1), not from the C code, so that a mistake in one
shows as a difference to the other. The writer is deterministic: equal input, equal bytes. The
reader accepts files whose tensor offsets are the running sum of the padded sizes, as the format's
reference reader does; it trusts its input otherwise no more than Python does: a damaged file raises
an exception. It does not map files and knows no quantised types.

Metadata is a dict. Python types choose the value type: bool BOOL, int UINT32, float FLOAT32,
str STRING, list of int INT32 array, of float FLOAT32 array, of str (or empty) STRING array.
"""

import struct

import numpy as np

MAGIC, VERSION, DEFAULT_ALIGNMENT = b"GGUF", 3, 32
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q",
           11: "<q", 12: "<d"}
TENSOR_TYPES = {0: np.dtype("<f4"), 1: np.dtype("<f2")}


def pack_string(text):
    raw = text.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def pack_array(values):
    if all(isinstance(v, str) for v in values):
        kind, body = STRING, b"".join(pack_string(v) for v in values)
    elif all(isinstance(v, float) for v in values):
        kind, body = FLOAT32, struct.pack(f"<{len(values)}f", *values)
    else:
        kind, body = INT32, struct.pack(f"<{len(values)}i", *values)
    return struct.pack("<IIQ", ARRAY, kind, len(values)) + body


def pack_value(value):
    if isinstance(value, bool):  # before int: a Python bool is an int
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", FLOAT32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + pack_string(value)
    return pack_array(value)


def padding(size, alignment):
    return bytes(-size % alignment)


def write(path, metadata, tensors):
    """Writes numpy arrays (float32 or float16, C order, shape [n_out, n_in]) in dict order."""
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    head = MAGIC + struct.pack("<IQQ", VERSION, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += pack_string(key) + pack_value(value)
    types = {dtype: kind for kind, dtype in TENSOR_TYPES.items()}
    data = b""
    for name, array in tensors.items():
        if len(name.encode()) > 63:
            raise ValueError(f"tensor name too long: {name}")
        dims = array.shape[::-1]  # dims[0] is the row length; the bytes keep their order
        head += pack_string(name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
        head += struct.pack("<IQ", types[array.dtype], len(data))
        data += array.tobytes()
        data += padding(len(data), alignment)
    with open(path, "wb") as out:
        out.write(head + padding(len(head), alignment) + data)


class Cursor:
    """A position in the file's bytes; a read past the end raises."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, n):
        if n > len(self.data) - self.at:
            raise ValueError(f"offset {self.at}: {n} bytes wanted, {len(self.data) - self.at} left")
        self.at += n
        return self.data[self.at - n:self.at]

    def scalar(self, fmt):
        return struct.unpack(fmt, self.bytes(struct.calcsize(fmt)))[0]

    def string(self):
        return self.bytes(self.scalar("<Q")).decode("utf-8")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            element, count = self.scalar("<I"), self.scalar("<Q")
            if element == ARRAY:
                raise ValueError(f"offset {self.at}: array of arrays")
            return [self.value(element) for _ in range(count)]
        return self.scalar(SCALARS[kind])


def read(path):
    """Returns (metadata dict, dict of numpy arrays of shape [n_out, n_in] in file order)."""
    with open(path, "rb") as file:
        cur = Cursor(file.read())
    if cur.bytes(4) != MAGIC or cur.scalar("<I") not in (2, 3):
        raise ValueError(f"{path}: not a GGUF file of version 2 or 3")
    n_tensors, n_kv = cur.scalar("<Q"), cur.scalar("<Q")
    metadata = {}
    for _ in range(n_kv):
        key = cur.string()
        metadata[key] = cur.value(cur.scalar("<I"))
    infos = []
    for _ in range(n_tensors):
        name = cur.string()
        dims = [cur.scalar("<Q") for _ in range(cur.scalar("<I"))]
        infos.append((name, dims, TENSOR_TYPES[cur.scalar("<I")], cur.scalar("<Q")))
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    cur.bytes(-cur.at % alignment)
    start, tensors = cur.at, {}
    for name, dims, dtype, offset in infos:
        if start + offset != cur.at or name in tensors:
            raise ValueError(f"tensor {name}: offset {offset}, expected {cur.at - start}")
        size = int(np.prod(dims, dtype=object)) * dtype.itemsize
        tensors[name] = np.frombuffer(cur.bytes(size), dtype).reshape(dims[::-1])
        cur.bytes(-size % alignment)
    return metadata, tensors
