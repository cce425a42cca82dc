"""Defaults that only models with more layers than the golden ones show, where config.json lacks the key.

many_layers.py MGPT GOLDEN. Qwen2's max_window_layers is 28: of 30 layers the last two have its window. EXAONE 4's
sliding_window_pattern is 4: every fourth layer has none. llama.cpp knows that of 64 layers only.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

MGPT, GOLDEN = sys.argv[1:3]


def deep(data, layers):
    """The safetensors file with layer 0 repeated."""
    n = struct.unpack('<Q', data[:8])[0]
    header, values, out = json.loads(data[8:8 + n]), data[8 + n:], {}
    for name, entry in header.items():
        if '.layers.0.' in name:
            out.update((name.replace('.0.', '.%d.' % i, 1), entry) for i in range(layers))
        elif '.layers.' not in name and name != '__metadata__':
            out[name] = entry
    body = b''
    for name, entry in out.items():
        first, end = entry['data_offsets']
        out[name] = {**entry, 'data_offsets': [len(body), len(body) + end - first]}
        body += values[first:end]
    text = json.dumps(out).encode()
    text += b' ' * (-len(text) % 8)
    return struct.pack('<Q', len(text)) + text + body


def converted(config, model):
    """The file that convert writes, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + '/config.json', 'w') as f:
            json.dump(config, f)
        with open(folder + '/model.safetensors', 'wb') as f:
            f.write(model)
        done = subprocess.run([MGPT, 'convert', folder, folder + '/out.gguf'], check=True, capture_output=True)
        with open(folder + '/out.gguf', 'rb') as f:
            return f.read(), done.stderr


def windows(config, model):
    """What the converted file says of each layer, and whether a note says that llama.cpp does not read it."""
    data, said = converted(config, model)
    key = b'mgpt.attention.windows'
    at = data.index(key) + len(key)
    kind, element, n = struct.unpack_from('<IIQ', data, at)
    assert kind == 9 and element == 5, (kind, element)
    return list(struct.unpack_from('<%di' % n, data, at + 16)), b'llama.cpp ignores mgpt.attention.windows' in said


def scale_of_46_layers():
    """llama.cpp has a scale of its own for Gemma 2 of 46 layers, by the width of all heads, and no note names the key then."""
    with open(GOLDEN + '/gemma2/config.json') as f:
        config = json.load(f) | {'num_hidden_layers': 46}
    del config['layer_types']
    with open(GOLDEN + '/gemma2/model.safetensors', 'rb') as f:
        model = deep(f.read(), 46)
    of_heads = config['hidden_size'] // config['num_attention_heads']
    told = [b'ignores attention.scale' in converted(config | {'query_pre_attn_scalar': n}, model)[1] for n in (of_heads, of_heads + 1)]
    return told == [False, True]


# Golden model, layers, changes of config.json (None: the key is not there), the window of each layer.
CASES = [
    ('qwen2_window', 30, {'use_sliding_window': True, 'max_window_layers': None}, [0] * 28 + [5] * 2),
    ('qwen2_window', 30, {'use_sliding_window': True, 'max_window_layers': 29}, [0] * 29 + [5]),
    ('exaone4', 9, {'sliding_window_pattern': None}, [7, 7, 7, 0, 7, 7, 7, 0, 7]),
    ('exaone4', 9, {'sliding_window_pattern': 3}, [7, 7, 0] * 3),
    ('exaone4', 64, {}, [7, 7, 7, 0] * 16),
]


def keys_and_values():
    """trace and patch keep them as float32, as references do, also for models that would have halves: a position of these takes 32 KB."""
    with open(GOLDEN + '/llama/config.json') as f:
        config = json.load(f) | {'num_hidden_layers': 400}
    with open(GOLDEN + '/llama/model.safetensors', 'rb') as f:
        model = deep(f.read(), 400)
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + '/config.json', 'w') as f:
            json.dump(config, f)
        with open(folder + '/model.safetensors', 'wb') as f:
            f.write(model)
        subprocess.run([MGPT, 'convert', folder, folder + '/deep', '--type', 'f16', '--no-tokenizer'], check=True, capture_output=True)
        shows = subprocess.run([MGPT, 'info', folder + '/deep'], check=True, capture_output=True, text=True).stdout
        said = {}
        for kv in [], ['--kv', 'f32'], ['--kv', 'f16']:
            patch = subprocess.run([MGPT, 'patch', folder + '/deep', '--clean', '3,1,4', '--metric', '5 - 6', '--mode', 'zero', '--layers', '9', '--json', *kv],
                                   check=True, capture_output=True)
            subprocess.run([MGPT, 'trace', folder + '/deep', '--ids', '3,1,4', '--hooks', 'logits', '-o', folder + '/x.npz', *kv], check=True, capture_output=True)
            with open(folder + '/x.npz', 'rb') as f:
                said[' '.join(kv)] = patch.stdout, f.read()
    return 'KV cache         19,200 bytes' in shows and said[''] == said['--kv f32'] and all(a != b for a, b in zip(said[''], said['--kv f16']))


def main():
    bad = 0
    for check in keys_and_values, scale_of_46_layers:
        right = check()
        print('ok' if right else 'not ok', check.__name__)
        bad += not right
    for name, layers, changes, want in CASES:
        folder = os.path.join(GOLDEN, name)
        with open(folder + '/config.json') as f:
            config = json.load(f) | {'num_hidden_layers': layers, 'layer_types': None} | changes
        with open(folder + '/model.safetensors', 'rb') as f:
            found, told = windows({k: v for k, v in config.items() if v is not None}, deep(f.read(), layers))
        right = found == want and told == (layers != 64)
        print('ok' if right else 'not ok', name, changes, found, told)
        bad += not right
    return bad != 0


sys.exit(main())
