"""Everything that mgpt convert says and writes: told lines and, of the file, keys, tensors, types, shapes and data.

Runs: every golden model and fixture with other options, adapters, and tokenizers with one value changed at a time.
hashes/converted.txt has a hash of each run (hashes.py says how to look at a difference and how to write it again).
"""
import copy
import hashlib
import itertools
import json
import math
import shutil
import struct
import sys

sys.dont_write_bytecode = True
from transcript import ROOT, compare, told  # noqa: E402

sys.path.insert(0, str(ROOT / 'tests/fuzz'))
from formats import piece, safetensors, steps_json, words_json  # noqa: E402

TYPES = 'f32 f16 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k bf16 q2_k_s q3_k_s q3_k_m q3_k_l q4_k_s q4_k_m q5_k_s q5_k_m'.split()
PROGRAMS = ('ng-video-lecture ng-video-lecture-2022 freecodecamp nanogpt nanogpt-2022 mingpt mingpt-2020 llms-from-scratch gpt1 encoder-layer '
            'llama').split()
FORMATS = 'BbHhIifB?'  # of the types of GGUF's values before strings
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84), 11: (256, 110), 12: (256, 144),
          13: (256, 176), 14: (256, 210), 30: (1, 2), 39: (32, 17)}


# ---- what is in a file ----

class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        value, = struct.unpack_from('<' + form, self.data, self.at)
        self.at += struct.calcsize('<' + form)
        return value

    def text(self):
        n = self.number('Q')
        self.at += n
        return self.data[self.at - n:self.at]

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            kind, n = self.number('I'), self.number('Q')
            return ['of %d' % kind] + [self.value(kind) for _ in range(n)]
        return self.number({10: 'Q', 11: 'q', 12: 'd'}.get(kind) or FORMATS[kind])


def contents(path):
    """Lines: keys with their types and values, then tensors with a hash of their data."""
    r = Reader(path.read_bytes())
    magic, version, n_tensors, n_keys = r.number('I'), r.number('I'), r.number('Q'), r.number('Q')
    lines, alignment = ['%x %d %d %d, %d bytes' % (magic, version, n_tensors, n_keys, len(r.data))], 32
    for _ in range(n_keys):
        key, kind = r.text().decode(), r.number('I')
        value = r.value(kind)
        alignment = value if key == 'general.alignment' else alignment
        lines.append('%s %d %r' % (key, kind, value))
    tensors = []
    for _ in range(n_tensors):
        name = r.text().decode()
        shape = [r.number('Q') for _ in range(r.number('I'))]
        tensors.append((name, shape, r.number('I'), r.number('Q')))
    begin = r.at + -r.at % alignment
    for name, shape, kind, offset in tensors:
        per, size = BLOCKS[kind]
        n = math.prod(shape) // per * size
        assert begin + offset + n <= len(r.data), name
        lines.append('%s %s %d at %d %s' % (name, shape, kind, offset, hashlib.sha256(r.data[begin + offset:][:n]).hexdigest()))
    return '\n'.join(lines)


def converted(source, *options):
    """A run: the file's whole contents after what was said."""
    def run(mgpt, folder):
        text = told(['convert', source, 'out.gguf', *options], folder, mgpt=mgpt)
        out = folder / 'out.gguf'
        return text + contents(out) if out.exists() else text
    return run


# ---- models ----

def golden():
    for i, folder in enumerate(sorted(p.parent for p in (ROOT / 'tests/golden').glob('*/config.json'))):
        own = (folder / 'options').read_text().split() if (folder / 'options').exists() else []
        yield 'golden ' + folder.name, converted(folder, *own)
        yield 'golden %s json' % folder.name, converted(folder, '--json', '--type', TYPES[i % len(TYPES)], '--no-tokenizer')
        yield 'golden %s mixed' % folder.name, converted(folder, '--type', TYPES[(i + 7) % len(TYPES)], '--type-of', 'ffn_|exps=q8_0', '--bos', '3',
                                                         '--context', '20')


def weights():
    for kind in TYPES:
        yield 'weights ' + kind, converted(ROOT / 'weights/names.gguf', '--type', kind, '--json')
    yield 'weights other', converted(ROOT / 'weights/names.gguf', '--type', 'f16', '--bos', '2')
    yield 'weights none', converted(ROOT / 'weights/names.gguf', '--no-tokenizer', '--dry-run')


def fixtures():
    ends = '.json .bin .pkl .npy .npz .safetensors .pt .pth .ckpt .f32 .f64 .float .model'.split()
    skip = ('ref', 'tokenizer', 'out.')
    paths = [p for kind in ('convert', 'llmc', 'shapes', 'wild', 'torch', 'mlx') for p in sorted((ROOT / 'tests/fixtures' / kind).rglob('*'))
             if (p.suffix in ends and not any(word in p.name for word in skip)) or (p.is_dir() and kind in ('torch', 'mlx'))]
    for i, path in enumerate(paths):
        name = 'fixture %s' % path.relative_to(ROOT / 'tests/fixtures')
        yield name, converted(path)
        yield name + ' json', converted(path, '--json', '--heads', '2', '--chars', ROOT / 'tests/README.md')
        for program in PROGRAMS[i % 6::6]:
            yield '%s %s' % (name, program), converted(path, '--heads', '2', '--assume', program, '--type', TYPES[(i + 1) % len(TYPES)])


def adapters():
    for folder in sorted((ROOT / 'tests/fixtures/lora').iterdir()):
        base = ROOT / 'tests/golden' / next((folder.name[:n] for n in range(len(folder.name), 2, -1) if (ROOT / 'tests/golden' / folder.name[:n]).is_dir()), 'qwen2_window')
        for how in ('', ':0.5') if folder.is_dir() else ():
            yield 'adapter %s%s' % (folder.name, how), converted(base, '--lora', '%s%s' % (folder, how), '--no-tokenizer')
        for file in folder.glob('*.gguf'):
            yield 'adapter %s as GGUF' % folder.name, converted(base, '--lora', file, '--type', 'q8_0', '--json')


# ---- tokenizers ----

def small_model(folder, n, files):
    """A Llama of n tokens with these files next to it: {name: bytes, text or what is JSON}."""
    shapes, layer = {'model.embed_tokens': [n, 4], 'model.norm': [4]}, 'model.layers.0.'
    shapes.update({layer + 'input_layernorm': [4], layer + 'post_attention_layernorm': [4]})
    shapes.update({layer + w + '_proj': [4, 4] for w in 'self_attn.q self_attn.k self_attn.v self_attn.o mlp.gate mlp.up mlp.down'.split()})
    head, at = {}, 0
    for name, shape in shapes.items():
        head[name + '.weight'] = {'dtype': 'BF16', 'shape': shape, 'data_offsets': [at, at + 2 * math.prod(shape)]}
        at += 2 * math.prod(shape)
    config = {'model_type': 'llama', 'hidden_size': 4, 'num_hidden_layers': 1, 'num_attention_heads': 1, 'num_key_value_heads': 1, 'intermediate_size': 4,
              'vocab_size': n, 'max_position_embeddings': 16, 'rms_norm_eps': 1e-5, 'tie_word_embeddings': True, 'hidden_act': 'silu'}
    (folder / 'm').mkdir()
    for name, data in {'model.safetensors': safetensors(head, b'\x80\x3e' * (at // 2)), **files, 'config.json': {**config, **files.get('config.json', {})}}.items():
        data = data if isinstance(data, str | bytes) else json.dumps(data)
        (folder / 'm' / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return 'm'


def with_tokenizer(n, *files, options=()):
    """A run for each dictionary of files, all in one text: those that are told apart share a line."""
    def run(mgpt, folder):
        texts = []
        for one in files:
            texts.append(converted(small_model(folder, n, one), *options)(mgpt, folder))
            shutil.rmtree(folder / 'm')
            (folder / 'out.gguf').unlink(missing_ok=True)
        return '\n'.join(texts)
    return run


def merged(base, changes):
    return {**base, **{k: merged(base[k], v) if isinstance(v, dict) and isinstance(base.get(k), dict) and k == 'model' else v for k, v in changes.items()}}


def stated():
    """hf_tokenizers.json: rows of what differs from a tokenizer."""
    with open(ROOT / 'tests/tools/convert/hf_tokenizers.json', encoding='utf-8') as file:
        for i, block in enumerate(json.load(file)):
            for j, row in enumerate(block['rows']):
                sides = {k: v for k, v in row[0].items() if '.' in k}
                own = {} if 'vocab.json' in sides else {'tokenizer.json': merged(block['tokenizer'] or {}, {k: v for k, v in row[0].items() if k not in sides})}
                yield 'tokenizer %d.%d' % (i, j), with_tokenizer(16, {**own, **sides})


SIDES = {'tokenizer_config.json': {'bos_token': 'a', 'eos_token': {'content': 'b'}, 'add_bos_token': True, 'add_eos_token': False, 'tokenizer_class': 'LlamaTokenizer',
                                   'chat_template': [{'name': 'tool_use', 'template': '{{ 1 }}'}, {'name': 'default', 'template': '{{ x }}'}], 'legacy': True,
                                   'add_prefix_space': True, 'added_tokens_decoder': {'2': {'content': 'ab', 'special': True}}},
         'generation_config.json': {'bos_token_id': 0, 'eos_token_id': [1, 2], 'temperature': 0.5, 'top_k': 7, 'top_p': 0.75, 'min_p': 0.125, 'typical_p': 0.5,
                                    'repetition_penalty': 1.25, 'do_sample': True, 'suppress_tokens': [3], 'bad_words_ids': [[1, 2]], 'no_repeat_ngram_size': 2},
         'special_tokens_map.json': {'bos_token': 'a', 'eos_token': {'content': 'b'}, 'pad_token': 'ab', 'additional_special_tokens': ['b']},
         'chat_template.jinja': '{% if x %}y{% endif %}'}


def shortened(path):
    """A tokenizer of tests/vectors/tok with at most 24 pieces (and the bytes' where it has them) and what of merges they leave."""
    t = json.loads(path.read_text())
    kept = [added['id'] for added in t.get('added_tokens', [])]
    pieces = t['model']['vocab']
    names = [p for p, _ in pieces] if isinstance(pieces, list) else sorted(pieces, key=pieces.get)
    chosen = [i for i, name in enumerate(names) if i in kept or i < 4 or name.startswith('<0x4') or i % max(1, len(names) // 20) == 0 or len(name) == 1][:60]
    new = {old: i for i, old in enumerate(chosen)}
    words = {names[i] for i in chosen}
    t['model']['vocab'] = [pieces[i] for i in chosen] if isinstance(pieces, list) else {names[i]: new[i] for i in chosen}
    if 'merges' in t['model']:
        pairs = [m.split(' ') if isinstance(m, str) else m for m in t['model']['merges']]
        t['model']['merges'] = [m for m, p in zip(t['model']['merges'], pairs, strict=True) if set(p) | {''.join(p)} <= words]
    t['added_tokens'] = [{**a, 'id': new[a['id']]} for a in t.get('added_tokens', []) if a['id'] in new]
    return t


def places(value, at=()):
    """Paths to every value of a JSON tree; of lists and vocabularies the first ones."""
    items = list(value.items())[:2 if at[-1:] in (('vocab',), ('special_tokens',)) else 30] if isinstance(value, dict) else list(enumerate(value))[:2] if isinstance(value, list) else []
    for key, inner in items:
        yield (*at, key)
        yield from places(inner, (*at, key))


def changed(tree, path, *value):
    tree = copy.deepcopy(tree)
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    if value:
        inner[path[-1]] = value[0]
    else:
        del inner[path[-1]]
    return tree


def others(tree, path):
    """The tree with other values at one place: none, a near one, one of another kind."""
    old = tree
    for key in path:
        old = old[key]
    near = not old if isinstance(old, bool) else old + 1 if isinstance(old, int | float) else old + 'a' if isinstance(old, str) else []
    yield changed(tree, path)
    for value in near, 3 if isinstance(old, str) else 'a':
        yield changed(tree, path, value)


def changes():
    """One value changed at a time, of tokenizers of every kind and of the files next to them."""
    for path in sorted((ROOT / 'tests/vectors/tok').glob('*.json')):
        t, whole = shortened(path), json.loads(path.read_text())
        yield 'tokenizer %s' % path.stem, with_tokenizer(700, {'tokenizer.json': whole}, {'tokenizer.json': whole, **SIDES})
    trees = {p: shortened(ROOT / 'tests/vectors/tok' / (p + '.json')) for p in ('gpt2', 'llama2', 'llama3', 'unigram-map', 'wordpiece-bert', 'steps-composed', 'wordlevel-words')}
    trees.update(steps=json.loads(steps_json()), words=json.loads(words_json('WordPiece')))
    for name, t in trees.items():
        for where in places(t):
            yield 'tokenizer %s %s' % (name, '.'.join(map(str, where))), with_tokenizer(90, *({'tokenizer.json': one} for one in others(t, where)))
    for file, where in ((file, where) for file, tree in SIDES.items() if isinstance(tree, dict) for where in places(tree)):
        rest = {'tokenizer.json': trees['gpt2'], **SIDES}
        yield '%s %s' % (file, '.'.join(map(str, where))), with_tokenizer(90, *({**rest, file: one} for one in others(SIDES[file], where)))


def other_files():
    """SentencePiece's models, lists of words, ranks of tiktoken."""
    head = [piece('<unk>', 0, 2), piece('<s>', 0, 3), piece('</s>', 0, 3)]
    own = [*(piece('<0x%02X>' % i, 0, 6) for i in range(256)), piece('\u2581', -1, 1), piece('a', -2, 1), piece('\u2581a', -3, 1), piece('b', -1.5, 5), piece('\u2581\u2581', 0, 4)]
    trainers = [b'\x12\x08\x18\x02\xc0\x02\x00\xc8\x02\x01', b'\x12\x02\x18\x02', b'\x12\x02\x18\x01', b'\x12\x02\x18\x03', b'\x12\x0b\x18\x01\xd8\x02\x00\xe0\x02\x02\xe8\x02\x01', b'']
    normals = [b'', b'\x1a\x04\x18\x01\x28\x01', b'\x1a\x04\x18\x00\x20\x00', b'\x1a\x0d\x12\x09\x04\0\0\0\0\0\0\0a\x18\x01', b'\x1a\x06\x18\x01\x20\x01\x28\x00']
    for (i, trainer), (j, normal) in itertools.product(enumerate(trainers), enumerate(normals)):
        for bytes_too in (0, 256):
            data = b''.join(head + own[256 - bytes_too:]) + trainer + normal
            yield 'sentencepiece %d.%d.%d' % (i, j, bytes_too), with_tokenizer(270 if bytes_too else 12, {'tokenizer.model': data}, {'tokenizer.model': data, **SIDES})
    vocab = {'a': 0, 'b': 1, 'ab': 2, '\u0120': 3, '<|endoftext|>': 4}
    for name in ('tokenizer.json', 'special_tokens_map.json', 'generation_config.json', 'tokenizer_config.json'):
        sides = {k: v for k, v in SIDES.items() if k != name}
        yield 'words without %s' % name, with_tokenizer(9, *({'vocab.json': vocab, 'merges.txt': merges, 'added_tokens.json': {'<x>': 6, '  ': 5}, **sides} for merges in ('#version: 0.2\na b\n', 'a b\r\n', 'a x\n')))
    for i, ranks in enumerate(('IQ== 0\nIg== 1\nISI= 2\n', 'IQ== 0\nIg== 2\nISI= 3\n', 'IQ== 0\n\nIg== 1', 'IQ== 0\nIQ== 1\n', 'I 0\n')):
        for name in ('tokenizer.model', 'qwen.tiktoken', 'tiktoken.model'):
            yield 'ranks %d %s' % (i, name), with_tokenizer(6, {name: ranks}, {name: ranks, **SIDES})


compare('converted', [run for group in (golden, weights, fixtures, adapters, stated, changes, other_files) for run in group()])
