"""A default that only deep models show: Qwen2's max_window_layers is 28 where config.json lacks it.

many_layers.py MGPT GOLDEN. The golden qwen2_window with 30 layers: the last two have its window.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

MGPT, GOLDEN = sys.argv[1:3]
LAYERS = 30


def deep(data):
    """The safetensors file with layer 0 repeated."""
    n = struct.unpack('<Q', data[:8])[0]
    header, values, out = json.loads(data[8:8 + n]), data[8 + n:], {}
    for name, entry in header.items():
        if '.layers.0.' in name:
            out.update((name.replace('.0.', '.%d.' % i, 1), entry) for i in range(LAYERS))
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


def windows(config, model):
    """What the converted file says of each layer."""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + '/config.json', 'w') as f:
            json.dump(config, f)
        with open(folder + '/model.safetensors', 'wb') as f:
            f.write(model)
        subprocess.run([MGPT, 'convert', folder, folder + '/out.gguf'], check=True, capture_output=True)
        with open(folder + '/out.gguf', 'rb') as f:
            data = f.read()
    key = b'mgpt.attention.windows'
    at = data.index(key) + len(key)
    kind, element, n = struct.unpack_from('<IIQ', data, at)
    assert kind == 9 and element == 5, (kind, element)
    return list(struct.unpack_from('<%di' % n, data, at + 16))


def main():
    folder = os.path.join(GOLDEN, 'qwen2_window')
    with open(folder + '/config.json') as f:
        config = json.load(f)
    with open(folder + '/model.safetensors', 'rb') as f:
        model = deep(f.read())
    config.update(num_hidden_layers=LAYERS, use_sliding_window=True)
    del config['layer_types']
    bad = 0
    for first, given in ((28, {}), (29, {'max_window_layers': 29})):
        del config['max_window_layers']
        config.update(given)
        found = windows(config, model)
        right = found == [0] * first + [config['sliding_window']] * (LAYERS - first)
        print('ok' if right else 'not ok', given or 'without max_window_layers', found)
        bad += not right
        config['max_window_layers'] = first
    return bad != 0


sys.exit(main())
