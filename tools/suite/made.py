"""What `suite write` makes without any library: numbers from a hash, safetensors, NumPy's files, a vocabulary.

The weights of a model follow from its name. b is the output of SHAKE-128 for the text "MODEL", in bytes; tensor number t
(from 0, in the order of models.jsonl) has rows of n values,
    row r, column c:  bfloat16(centre + (2 b[start + c] - 255) * 2^power)
where centre and power belong to the tensor, and start is (r * step + first) mod (number of rows, but at least 64), with first and step from
SHAKE-128 of "MODEL/t": two numbers of 32 bits, little endian, step made prime to the modulus by adding 1 until it is. Rows of
a tensor thus differ, and the compression of the archive finds them again. A vector has bytes of its own: those of "MODEL/t" after the
first 8. bfloat16() rounds to nearest, ties to even, from float32.
"""
import hashlib
import json
import math
import struct


def stream(text, n):
    return hashlib.shake_128(text.encode()).digest(n)


def token_ids(name, n, n_vocab):
    """The text of a case: n ids below n_vocab, 2 bytes each; the last and the first id are in it."""
    data = stream(name + '/ids', 2 * n)
    ids = [int.from_bytes(data[2 * i:2 * i + 2], 'little') % n_vocab for i in range(n)]
    ids[1:3] = [n_vocab - 1, 0]
    return ids


def bf16(value):
    """The two bytes of a float as bfloat16."""
    bits = struct.unpack('<I', struct.pack('<f', value))[0]
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF).to_bytes(2, 'little')


def places_of(rows):
    """The number of places where rows begin."""
    return max(rows, 64)


def row_starts(name, number, rows):
    """Where each row begins in the stream."""
    places = places_of(rows)
    first, step = struct.unpack('<II', stream('%s/%d' % (name, number), 8))
    while math.gcd(step, places) != 1:
        step += 1
    return [(r * step + first) % places for r in range(rows)]


def tensor_bytes(name, number, shape, centre, power):
    """A tensor in bfloat16."""
    columns, rows = shape[-1] if shape else 1, math.prod(shape[:-1])
    values = [bf16(centre + (2 * b - 255) * 2.0**power) for b in range(256)]
    if rows == 1:
        return b''.join(values[b] for b in stream('%s/%d' % (name, number), 8 + columns)[8:])
    line = b''.join(values[b] for b in stream(name, columns + places_of(rows) - 1))
    return b''.join(line[2 * s:2 * (s + columns)] for s in row_starts(name, number, rows))


def model_tensors(model):
    """{name: (shape, bytes)} of a line of models.jsonl."""
    return {name: (shape, tensor_bytes(model['id'], number, shape, centre, power))
            for number, (name, shape, centre, power) in enumerate(model['tensors'])}


def widened(data):
    """float32 of bfloat16."""
    out = bytearray(2 * len(data))
    out[2::4], out[3::4] = data[0::2], data[1::2]
    return bytes(out)


def safetensors(tensors, dtype):
    """A safetensors file; dtype: bfloat16 or float32."""
    header, at, body = {'__metadata__': {'format': 'pt'}}, 0, []
    for name, (shape, data) in tensors.items():
        body.append(data if dtype == 'bfloat16' else widened(data))
        header[name] = {'dtype': 'BF16' if dtype == 'bfloat16' else 'F32', 'shape': shape, 'data_offsets': [at, at + len(body[-1])]}
        at += len(body[-1])
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    return struct.pack('<Q', len(text)) + text + b''.join(body)


def stored(path):
    """{name: (shape, bytes)} of a safetensors file, by name."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], 'little')
    header = json.loads(data[8:start])
    header.pop('__metadata__', None)
    body = memoryview(data)[start:]
    return {name: (header[name]['shape'], bytes(body[slice(*header[name]['data_offsets'])])) for name in sorted(header)}


def vocabulary(n_vocab):
    """The pieces of every model: three special ones, the 256 bytes if there is room for them, and w3, w4, ..."""
    pieces = ['<unk>', '<s>', '</s>'] + (['<0x%02X>' % b for b in range(256)] if n_vocab >= 259 else [])
    return pieces + ['w%d' % i for i in range(len(pieces), n_vocab)]


def sentencepiece(n_vocab):
    """The same as tokenizer.model: messages of (1: piece, 2: score, 3: type), and the kind, BPE."""
    out = b''
    for i, piece in enumerate(vocabulary(n_vocab)):
        text, kind = piece.encode(), 2 if i == 0 else 3 if i < 3 else 6 if piece.startswith('<0x') else 1
        line = b'\x0a' + bytes([len(text)]) + text + b'\x15' + struct.pack('<f', -float(i)) + b'\x18' + bytes([kind])
        out += b'\x0a' + bytes([len(line)]) + line
    return out + b'\x12\x02\x18\x02'
