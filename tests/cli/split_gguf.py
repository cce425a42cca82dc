"""Splits a GGUF file as llama.cpp's gguf-split does, without any code of mgpt.

split_gguf.py IN PREFIX N [first-empty] writes PREFIX-00001-of-0000N.gguf and so on. The first part
has all metadata, then split.no and split.count (u16) and split.tensors.count (i32); the others have
these three keys alone. With first-empty the first part has no tensors.
"""
import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
BLOCKS = {0: (1, 4), 1: (1, 2), 30: (1, 2), 2: (32, 18), 8: (32, 34), 12: (256, 144), 14: (256, 210)}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, form):
        return struct.unpack('<' + form, self.take(struct.calcsize(form)))[0]

    def string(self):
        return self.take(self.number('Q'))

    def skip_value(self, kind):
        if kind == 8:
            self.string()
        elif kind == 9:
            element, n = self.number('I'), self.number('Q')
            for _ in range(n):
                self.skip_value(element)
        else:
            self.take(SIZES[kind])


def padded(data, to=32):
    return data + b'\0' * (-len(data) % to)


def parse(data):
    """(metadata entries as bytes, [(name, dims, type, bytes)])"""
    r = Reader(data)
    assert r.take(4) == b'GGUF' and r.number('I') == 3
    n_tensors, n_kv = r.number('Q'), r.number('Q')
    start, align = r.at, 32
    for _ in range(n_kv):
        key, kind = r.string(), r.number('I')
        value = r.at
        r.skip_value(kind)
        if key == b'general.alignment':
            align = struct.unpack('<I', data[value:r.at])[0]
    metadata, infos = data[start:r.at], []
    for _ in range(n_tensors):
        name = r.string()
        dims = [r.number('Q') for _ in range(r.number('I'))]
        infos.append((name, dims, r.number('I'), r.number('Q')))
    base, tensors = r.at + -r.at % align, []
    for name, dims, kind, offset in infos:
        n = 1
        for d in dims:
            n *= d
        size = n // BLOCKS[kind][0] * BLOCKS[kind][1]
        tensors.append((name, dims, kind, data[base + offset:base + offset + size]))
    return n_kv, metadata, tensors, align


def string(text):
    return struct.pack('<Q', len(text)) + text


def key(name, kind, form, value):
    return string(name) + struct.pack('<I' + form, kind, value)


def part(n_kv, metadata, tensors, align, no, count, total):
    if no > 0:
        n_kv, metadata, align = 0, b'', 32
    metadata += key(b'split.no', 2, 'H', no) + key(b'split.count', 2, 'H', count)
    metadata += key(b'split.tensors.count', 5, 'i', total)
    head = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), n_kv + 3) + metadata
    body = b''
    for name, dims, kind, values in tensors:
        head += string(name) + struct.pack('<I%dQIQ' % len(dims), len(dims), *dims, kind, len(body))
        body += padded(values, align)
    return padded(head, align) + body


def split(data, count, first_empty=False):
    n_kv, metadata, tensors, align = parse(data)
    filled = count - first_empty
    cuts = [len(tensors) * i // filled for i in range(filled + 1)]
    groups = [[]] * first_empty + [tensors[a:b] for a, b in zip(cuts, cuts[1:])]
    return [part(n_kv, metadata, g, align, i, count, len(tensors)) for i, g in enumerate(groups)]


def name(prefix, i, count):
    return '%s-%05d-of-%05d.gguf' % (prefix, i + 1, count)


if __name__ == '__main__':
    source, prefix, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(source, 'rb') as f:
        parts = split(f.read(), count, 'first-empty' in sys.argv[4:])
    for i, data in enumerate(parts):
        with open(name(prefix, i, count), 'wb') as f:
            f.write(data)
