"""GGUF files whose matrices are of one element type: random blocks with sound scales. Without any library.

A matrix is made of rows; a row is a slice of the stream of its type (made.py), of which each block's scales are then
set: d to f16 1.0 times 2^power, plus the low 6 bits of the block's first byte as bits 4 to 9 of the mantissa; a minimum to
-d or d times the number in MINIMUM, of which the blocks' mean is about 0. Codes of two bits that would move the mean, or
that no file of the type has, become others (CODES).
"""
import math
import struct

import made

# type: ggml's number, values and bytes of a block, bytes where f16 scales are (d first, then the minimum)
TYPES = {
    'F32': (0, 1, 4, ()), 'F16': (1, 1, 2, ()), 'BF16': (30, 1, 2, ()),
    'Q8_0': (8, 32, 34, (0,)), 'Q4_0': (2, 32, 18, (0,)), 'Q4_1': (3, 32, 20, (0, 2)), 'Q5_0': (6, 32, 22, (0,)),
    'Q5_1': (7, 32, 24, (0, 2)), 'Q2_K': (10, 256, 84, (80, 82)), 'Q3_K': (11, 256, 110, (108,)),
    'Q4_K': (12, 256, 144, (0, 2)), 'Q5_K': (13, 256, 176, (0, 2)), 'Q6_K': (14, 256, 210, (208,)),
    'IQ4_NL': (20, 32, 18, (0,)), 'IQ4_XS': (23, 256, 136, (0,)), 'IQ2_XXS': (16, 256, 66, (0,)),
    'IQ2_XS': (17, 256, 74, (0,)), 'IQ2_S': (22, 256, 82, (0,)), 'IQ3_XXS': (18, 256, 98, (0,)),
    'IQ3_S': (21, 256, 110, (0,)), 'IQ1_S': (19, 256, 50, (0,)), 'IQ1_M': (29, 256, 56, ()),
    'TQ1_0': (34, 256, 54, (52,)), 'TQ2_0': (35, 256, 66, (64,)), 'MXFP4': (39, 32, 17, ()), 'NVFP4': (40, 64, 36, ()),
    'Q1_0': (41, 128, 18, (0,)), 'Q2_0': (42, 64, 18, (0,))}
MINIMUM = {'Q4_1': -7.5, 'Q5_1': -15.5, 'Q2_K': 1.5, 'Q4_K': 7.5, 'Q5_K': 15.5}
CODES = {'TQ2_0': (0, 1, 2, 1), 'Q2_0': (0, 1, 0, 3)}
EMBD, HEADS, KV, FF, VOCAB, CONTEXT = 256, 4, 1, 256, 64, 64
SHAPES = {'output': (VOCAB, EMBD), 'blk.0.attn_q': (EMBD, EMBD), 'blk.0.attn_k': (64, EMBD), 'blk.0.attn_v': (64, EMBD),
          'blk.0.attn_output': (EMBD, EMBD), 'blk.0.ffn_gate': (FF, EMBD), 'blk.0.ffn_up': (FF, EMBD),
          'blk.0.ffn_down': (EMBD, FF)}


def other_codes(codes):
    """A table of bytes whose four codes of two bits become others."""
    return bytes(sum(codes[b >> at & 3] << at for at in (0, 2, 4, 6)) for b in range(256))


TABLES = {name: other_codes(codes) for name, codes in CODES.items()}


def with_scales(name, block, power):
    """A block of random bytes with the scales of its type."""
    block, vary = bytearray(block.translate(TABLES.get(name))), 1 + (block[0] & 63) / 64
    for number, at in enumerate(TYPES[name][3]):
        block[at:at + 2] = struct.pack('<e', vary * 2.0**power * (MINIMUM[name] if number else 1))
    if name == 'IQ1_M': # f16 in the high halves of the odd bytes of the last 8
        bits = struct.unpack('<H', struct.pack('<e', vary * 2.0**power))[0]
        for i in range(4):
            block[49 + 2 * i] = block[49 + 2 * i] & 15 | (bits >> 4 * i & 15) << 4
    elif name == 'MXFP4': # a power of two
        block[0] = 127 + power + (block[0] & 1)
    elif name == 'NVFP4': # four numbers of 4 exponent and 3 mantissa bits
        block[:4] = bytes((7 + power + (b >> 3 & 1)) << 3 | b & 7 for b in block[:4])
    return bytes(block)


def floats_row(name, data, power):
    """A row of F32, F16 or BF16 from bytes."""
    values = [(2 * b - 255) * 2.0**power for b in data]
    return b''.join(map(made.bf16, values)) if name == 'BF16' else struct.pack('<%d%s' % (len(values), 'f' if name == 'F32' else 'e'), *values)


def matrix(case, name, number, shape, power):
    """A matrix of a type, as it is in the file."""
    _, values, size, _ = TYPES[name]
    n = shape[1] // values * (1 if values == 1 else size)
    stream = made.stream('types/' + name, made.places_of(shape[0]) + n - 1)
    rows = [stream[s:s + n] for s in made.row_starts(case, number, shape[0])]
    if values == 1:
        return b''.join(floats_row(name, row, power) for row in rows)
    return b''.join(with_scales(name, row[at:at + size], power) for row in rows for at in range(0, n, size))


def type_tensors(case, name, power):
    """{tensor: (type, shape, bytes)} of a Llama of one layer."""
    tensors = {'token_embd.weight': ('F32', (VOCAB, EMBD), matrix(case, 'F32', 100, (VOCAB, EMBD), -9))}
    for number, norm in enumerate(('output_norm', 'blk.0.attn_norm', 'blk.0.ffn_norm')):
        row = made.stream('%s/%s' % (case, norm), EMBD)
        tensors[norm + '.weight'] = 'F32', (EMBD,), struct.pack('<%df' % EMBD, *(1 + (2 * b - 255) / 512 for b in row))
    for number, (tensor, shape) in enumerate(SHAPES.items()):
        tensors[tensor + '.weight'] = name, shape, matrix(case, name, number, shape, power)
    return tensors


def text(value):
    return struct.pack('<Q', len(value.encode())) + value.encode()


def value_bytes(value):
    """A value with its type: unsigned 32 bits, float 32, text, or a list of one of these or of signed 32 bits (`list of tuple`)."""
    if isinstance(value, int):
        return struct.pack('<II', 4, value)
    if isinstance(value, float):
        return struct.pack('<If', 6, value)
    if isinstance(value, str):
        return struct.pack('<I', 8) + text(value)
    kind = {int: 5, float: 6, str: 8}[type(value[0])]
    items = b''.join(text(v) if kind == 8 else struct.pack('<i' if kind == 5 else '<f', v) for v in value)
    return struct.pack('<IIQ', 9, kind, len(value)) + items


def gguf(keys, tensors):
    """A GGUF file, version 3."""
    out = struct.pack('<4sIQQ', b'GGUF', 3, len(tensors), len(keys))
    out += b''.join(text(key) + value_bytes(value) for key, value in keys.items())
    at, body = 0, b''
    for name, (kind, shape, data) in tensors.items():
        out += text(name) + struct.pack('<I', len(shape)) + struct.pack('<%dQ' % len(shape), *reversed(shape))
        out += struct.pack('<IQ', TYPES[kind][0], at)
        data += bytes(-len(data) % 32)
        at, body = at + len(data), body + data
    return out + bytes(-len(out) % 32) + body


def type_model(case, name, power):
    """The GGUF file of a case of element types."""
    pieces = made.vocabulary(VOCAB)
    keys = {'general.architecture': 'llama', 'general.name': case, 'llama.context_length': CONTEXT,
            'llama.embedding_length': EMBD, 'llama.block_count': 1, 'llama.feed_forward_length': FF,
            'llama.attention.head_count': HEADS, 'llama.attention.head_count_kv': KV,
            'llama.attention.layer_norm_rms_epsilon': 1e-5, 'llama.rope.freq_base': 10000.0,
            'llama.rope.dimension_count': EMBD // HEADS, 'llama.vocab_size': VOCAB, 'tokenizer.ggml.model': 'llama',
            'tokenizer.ggml.tokens': pieces, 'tokenizer.ggml.scores': [-float(i) for i in range(VOCAB)],
            'tokenizer.ggml.token_type': [2, 3, 3] + [1] * (VOCAB - 3)}
    return gguf(keys, type_tensors(case, name, power))
