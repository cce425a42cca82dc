#!/usr/bin/env python3
"""Mixtures of types: mgpt convert --type q4_k_m and others choose for every tensor what llama-quantize chooses.

    mixtures.py MGPT WEIGHTS                   compares with tests/vectors/mixtures.txt
    mixtures.py MGPT WEIGHTS LLAMA_QUANTIZE    writes it; the program takes IN OUT TYPE --dry-run

The models have no values: their files are headers, and holes. Lines of mixtures.txt are
    SHAPE MIXTURE TYPE KIND LAYER LAYER ...    with - for what is in no layer, and without F32
made with release b11739 of llama.cpp.
"""
import collections
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

MIXTURES = dict(q2_k=10, q2_k_s=21, q3_k_s=11, q3_k_m=12, q3_k_l=13, q4_k_s=14, q4_k_m=15, q5_k_s=16, q5_k_m=17)
# name: architecture, layers, width, heads, KV heads, width of the MLP, tied, experts
SHAPES = dict(
    llama6=('llama', 6, 256, 8, 2, 768, 1, 0), llama7=('llama', 7, 256, 8, 4, 512, 0, 0),
    llama16=('llama', 16, 256, 8, 8, 256, 0, 0), llama22=('llama', 22, 256, 8, 1, 256, 1, 0),
    llama33=('llama', 33, 256, 4, 4, 256, 0, 0), llama80=('llama', 80, 256, 8, 1, 256, 0, 0),
    odd192=('llama', 9, 192, 6, 3, 320, 0, 0), odd160=('llama', 9, 160, 5, 5, 512, 1, 0),
    gpt2=('gpt2', 12, 256, 8, 8, 1024, 1, 0), falcon=('falcon', 32, 256, 4, 1, 256, 0, 0),
    falcon_tied=('falcon', 32, 256, 4, 1, 512, 1, 0), mixtral=('llama', 10, 256, 8, 2, 256, 0, 8),
    experts16=('llama', 9, 256, 8, 2, 256, 1, 16), qwen3moe=('qwen3moe', 24, 256, 8, 8, 256, 0, 8))
V = CTX = 64


def text(s):
    return struct.pack('<Q', len(s)) + s.encode()


def entry(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack('<I', 8) + text(value)
    return text(key) + (struct.pack('<If', 6, value) if isinstance(value, float) else struct.pack('<II', 4, value))


def tensors_of(arch, n_layer, n, heads, kv_heads, n_ff, tied, experts):
    """[(name, dims)] of a model."""
    has_bias, one = arch in ('gpt2', 'falcon'), n // heads
    norm = lambda name: [(name + '.weight', [n])] + ([(name + '.bias', [n])] if has_bias else [])
    tensors = [('token_embd.weight', [n, V])] + norm('output_norm') + ([] if tied else [('output.weight', [n, V])])
    tensors += [('position_embd.weight', [n, CTX])] if arch == 'gpt2' else []
    for i in range(n_layer):
        layer = [(name, dims) for name, dims in norm('attn_norm') + ([] if arch == 'falcon' else norm('ffn_norm'))]
        if has_bias:
            layer.append(('attn_qkv.weight', [n, (heads + 2 * kv_heads) * one]))
        else:
            layer += [('attn_%s.weight' % name, [n, rows * one]) for name, rows in zip('qkv', (heads, kv_heads, kv_heads))]
        layer += [('attn_%s_norm.weight' % name, [one]) for name in 'qk' if arch == 'qwen3moe']
        layer.append(('attn_output.weight', [n, n]))
        if experts:
            layer.append(('ffn_gate_inp.weight', [n, experts]))
        for name, dims in (('gate', [n, n_ff]), ('up', [n, n_ff]), ('down', [n_ff, n])):
            if experts:
                layer.append(('ffn_%s_exps.weight' % name, dims + [experts]))
            elif name != 'gate' or not has_bias:
                layer.append(('ffn_%s.weight' % name, dims))
        tensors += [('blk.%d.%s' % (i, name), dims) for name, dims in layer]
    return tensors


def write_model(path, shape):
    arch, n_layer, n, heads, kv_heads, n_ff, _, experts = shape
    numbers = dict(context_length=CTX, embedding_length=n, block_count=n_layer, feed_forward_length=n_ff, vocab_size=V)
    numbers |= {'attention.head_count': heads, 'attention.head_count_kv': kv_heads,
                'attention.layer_norm%s_epsilon' % ('' if arch in ('gpt2', 'falcon') else '_rms'): 1e-5}
    numbers |= dict(expert_count=experts, expert_used_count=2) if experts else {}
    numbers |= dict(expert_feed_forward_length=n_ff) if arch == 'qwen3moe' else {}
    numbers |= {'rope.dimension_count': n // heads} if arch != 'gpt2' else {}
    keys = {'general.architecture': arch, 'tokenizer.ggml.model': 'none'} | {arch + '.' + k: v for k, v in numbers.items()}
    infos, offset, tensors = b'', 0, tensors_of(*shape)
    for name, dims in tensors:
        infos += text(name) + struct.pack('<I%dQIQ' % len(dims), len(dims), *dims, 0, offset)
        size = 4
        for d in dims:
            size *= d
        offset += (size + 31) // 32 * 32
    head = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(keys)) + b''.join(entry(*kv) for kv in keys.items()) + infos
    with open(path, 'wb') as file:
        file.write(head + b'\0' * (-len(head) % 32))
        file.truncate(file.tell() + offset)


def lines_of(shape, mixture, types):
    """{tensor: type} as lines of mixtures.txt."""
    groups = collections.defaultdict(list)
    for name, of in types.items():
        layer = re.match(r'blk\.(\d+)\.(.*)', name)
        groups[of, layer[2] if layer else name].append(int(layer[1]) if layer else -1)
    return ['%s %s %s %s %s' % (shape, mixture, of, kind, ' '.join('-' if i < 0 else str(i) for i in sorted(layers)))
            for (of, kind), layers in sorted(groups.items()) if of != 'F32']


def ours(mgpt, path, mixture):
    run = subprocess.run([mgpt, 'convert', path, '--dry-run', '--type', mixture], capture_output=True, text=True)
    return dict(line.split()[:2] for line in run.stdout.splitlines() if '[' in line)


def theirs(program, path, mixture):
    run = subprocess.run([program, path, '/dev/null', str(MIXTURES[mixture]), '--dry-run'], capture_output=True, text=True)
    found = re.findall(r'\] (\S+) +- \[.*type = +(\w+),[^(\n]*(?:\((\w+)\))?$', run.stdout + run.stderr, re.M)
    return {name: (to or kept).upper() for name, kept, to in found}


def main():
    mgpt, weights, *program = sys.argv[1:]
    vectors, lines, n_tensors = pathlib.Path(weights).parent / 'tests/vectors/mixtures.txt', [], 0
    with tempfile.TemporaryDirectory() as folder:
        path = folder + '/model.gguf'
        for shape, numbers in SHAPES.items():
            write_model(path, numbers)
            for mixture in MIXTURES:
                types = theirs(program[0], path, mixture) if program else ours(mgpt, path, mixture)
                n_tensors += len(types)
                lines += lines_of(shape, mixture, types)
    if program:
        vectors.write_text('\n'.join(lines) + '\n')
        return 0
    wrong = sorted(set(lines) ^ set(vectors.read_text().splitlines()))
    for line in wrong[:20]:
        print('not ok:', line)
    print('%d types of tensors, %d lines differ from llama-quantize' % (n_tensors, len(wrong)))
    return bool(wrong) or n_tensors < 20000


if __name__ == '__main__':
    sys.exit(main())
