"""Models with large vocabularies and no layers, for choosing.py: random weights, so that each token is drawn at times.

large_vocab.py KIND FILE: `llama` has 128,256 made pieces as SentencePiece has them, with bytes, and a space that is dropped
before a text; `gpt2` is OpenAI's vocabulary of 50,257, from ../shared.
"""
import array
import json
import os
import random
import struct
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
sys.path.insert(0, os.path.join(ROOT, 'tests/fuzz'))
from tiny_models import entry, text  # noqa: E402

GPT2 = os.path.join(ROOT, '../shared/cases/gpt2-tokenizer')
WIDTH, CONTEXT = 16, 512
NORMAL, CONTROL, BYTE = 1, 3, 6


def llama_vocab(n=128256):
    rng, pieces = random.Random(5), ['<unk>', '<s>', '</s>'] + ['<0x%02X>' % i for i in range(256)]
    seen = set(pieces)
    letters = ['etaoinshrdlucmfwypvbgkqjxz'] * 6 + ['0123456789', '.,:;!?-()[]{}"\'\\/', 'éüñàßçø', '中文字日本語', '😀🙂🎉', 'абвгдежз', ' \n\t']
    while len(pieces) < n:
        kind = rng.choice(letters)
        piece = ''.join(rng.choice(kind[:1 + rng.randrange(len(kind))]) for _ in range(rng.randint(1, 8)))
        piece = rng.choice(['', '\u2581', '"', ', ']) + (piece.capitalize() if rng.random() < 0.2 else piece)
        piece = piece.replace(' ', '\u2581')
        if piece not in seen:
            seen.add(piece)
            pieces.append(piece)
    types = [CONTROL] * 3 + [BYTE] * 256 + [NORMAL] * (n - 259)
    return {'tokenizer.ggml.model': 'llama', 'tokenizer.ggml.tokens': tuple(pieces), 'tokenizer.ggml.token_type': tuple(types),
            'tokenizer.ggml.scores': tuple(-float(i) for i in range(n)), 'tokenizer.ggml.bos_token_id': 1, 'tokenizer.ggml.eos_token_id': 2,
            'tokenizer.ggml.add_space_prefix': True}


def gpt2_vocab():
    with open(GPT2 + '/encoder.json', encoding='utf-8') as file:
        vocab = json.load(file)
    with open(GPT2 + '/vocab.bpe', encoding='utf-8') as file:
        merges = file.read().split('\n')[1:-1]
    pieces = sorted(vocab, key=vocab.get)
    return {'tokenizer.ggml.model': 'gpt2', 'tokenizer.ggml.pre': 'gpt-2', 'tokenizer.ggml.tokens': tuple(pieces),
            'tokenizer.ggml.token_type': (NORMAL,) * (len(pieces) - 1) + (CONTROL,), 'tokenizer.ggml.merges': tuple(merges),
            'tokenizer.ggml.bos_token_id': len(pieces) - 1, 'tokenizer.ggml.eos_token_id': len(pieces) - 1}


def has_gpt2():
    return os.path.exists(GPT2 + '/encoder.json')


def write(vocab, path):
    n, rng = len(vocab['tokenizer.ggml.tokens']), random.Random(3)
    entries = {'general.architecture': 'llama', 'llama.block_count': 0, 'llama.embedding_length': WIDTH, 'llama.context_length': CONTEXT,
               'llama.feed_forward_length': 32, 'llama.attention.head_count': 1, 'llama.attention.head_count_kv': 1, 'llama.vocab_size': n,
               'llama.attention.layer_norm_rms_epsilon': 1e-5, **vocab}
    tensors = [('token_embd.weight', (WIDTH, n)), ('output_norm.weight', (WIDTH,)), ('output.weight', (WIDTH, n))]
    head = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(entries)) + b''.join(entry(k, v) for k, v in entries.items())
    data = b''
    for name, dims in tensors:
        head += text(name) + struct.pack('<I%dQIQ' % len(dims), len(dims), *dims, 0, len(data))
        size = WIDTH * n if len(dims) == 2 else WIDTH
        data += array.array('f', [1.0] * size if len(dims) == 1 else [rng.uniform(-1, 1) for _ in range(size)]).tobytes()
    with open(path, 'wb') as file:
        file.write(head + bytes(-len(head) % 32) + data)


if __name__ == '__main__':
    write(llama_vocab() if sys.argv[1] == 'llama' else gpt2_vocab(), sys.argv[2])
