#!/usr/bin/env python3
"""Makes the references of group types: a Llama in NumPy, float64, from gguf-py's values of the blocks; nothing of mgpt.

usage: reference_types.py [--check]     with numpy and gguf 0.19. Writes data/types.jsonl and data/ref/type_*.npy
"""
import json
import math
import sys

import gguf
import numpy as np

import gguf_file
import made
import write


def unpack(name, data):
    """float64 values of a tensor's bytes."""
    raw = np.frombuffer(data, np.uint8)
    if name in ('F32', 'F16'):
        return raw.view(name.lower().replace('f', '<f')[:2] + {'F32': '4', 'F16': '2'}[name]).astype(np.float64)
    if name in ('Q1_0', 'Q2_0'): # gguf-py has no decoder: f16 d; a bit is -d or d, two bits are -d, 0, d or 2 d
        bits, blocks = (1 if name == 'Q1_0' else 2), raw.reshape(-1, 18)
        codes = blocks[:, 2:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & (2**bits - 1)
        levels = codes.reshape(len(blocks), -1).astype(np.float64) * (2 if bits == 1 else 1) - 1
        return (levels * blocks[:, :2].copy().view('<f2').astype(np.float64)).ravel()
    return gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[name]).astype(np.float64).ravel()


def rms(x, gain):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + float(np.float32(1e-5))) * gain


def rotate(x):
    """Adjacent pairs of [T, heads, d], base 10000."""
    d = x.shape[-1]
    angle = np.arange(len(x))[:, None, None] * 10000.0**(-np.arange(0, d, 2) / d)
    pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)


def forward(weights, ids):
    """Logits [T, V]."""
    w = {name.replace('.weight', '').replace('blk.0.', ''): value for name, value in weights.items()}
    heads, n = gguf_file.HEADS, len(ids)
    x = w['token_embd'][ids]
    h = rms(x, w['attn_norm'])
    q, k, v = ((h @ w['attn_' + part].T).reshape(n, -1, gguf_file.EMBD // heads) for part in 'qkv')
    q, k = rotate(q), np.repeat(rotate(k), heads // gguf_file.KV, 1)
    scores = np.einsum('ihd,jhd->hij', q, k) / math.sqrt(q.shape[-1])
    scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
    share = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = np.einsum('hij,jhd->ihd', share / share.sum(-1, keepdims=True), np.repeat(v, heads // gguf_file.KV, 1))
    x = x + mixed.reshape(n, -1) @ w['attn_output'].T
    h = rms(x, w['ffn_norm'])
    gate = h @ w['ffn_gate'].T
    x = x + (gate / (1 + np.exp(-gate)) * (h @ w['ffn_up'].T)) @ w['ffn_down'].T
    return rms(x, w['output_norm']) @ w['output'].T


def make(name):
    """The line of types.jsonl and the reference."""
    case = 'type_' + name.lower()
    trial = unpack(name, gguf_file.matrix(case, name, 1, gguf_file.SHAPES['blk.0.attn_q'], 0))
    power = round(math.log2(1.5 / gguf_file.EMBD**0.5 / trial.std()))
    tensors = gguf_file.type_tensors(case, name, power)
    weights = {tensor: unpack(kind, data).reshape(shape) for tensor, (kind, shape, data) in tensors.items()}
    spread = weights['blk.0.attn_q.weight']
    logits = forward(weights, made.token_ids(case, 24, gguf_file.VOCAB))
    print('%-14s power %3d, weights mean %6.3f std %.3f, logits std %.2f' % (case, power, spread.mean(), spread.std(), logits.std()))
    return {'id': case, 'type': name, 'power': power, 'n': 24}, logits.astype(np.float32)


def main():
    check, wrong, lines = '--check' in sys.argv, 0, []
    for name in gguf_file.TYPES:
        line, logits = make(name)
        path = write.DATA / 'ref' / (line['id'] + '.npy')
        if check:
            wrong += abs(np.load(path) - logits).max() > 1e-6 * logits.std()
        else:
            np.save(path, logits)
        lines.append(json.dumps(line) + '\n')
    if not check:
        (write.DATA / 'types.jsonl').write_text(''.join(lines))
    print('%d references differ' % wrong if check else '%d references' % len(lines))
    return wrong > 0 or check and (write.DATA / 'types.jsonl').read_text() != ''.join(lines)


if __name__ == '__main__':
    sys.exit(main())
