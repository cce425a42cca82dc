"""Everything that sessions of the repl print and write: seeded random lines through every command, with the edges of its arguments.

hashes/typed.txt has a hash of each session (hashes.py says how to look at a difference and how to write it again).
"""
import hashlib
import re
import sys
import zipfile

sys.dont_write_bytecode = True
from small_vocabularies import pairs_model, unigram_model  # noqa: E402
from transcript import MGPT, ROOT, compare, told  # noqa: E402

SESSIONS, LINES = 18, 40
# Values of types of commands.inc; those of a model's size are in `sizes`. Most are good ones, some are over an edge.
VALUES = {
    '[count]': ['', '', '1', '2', '3', '7', '0', '-1', '99', '2147483647', '2147483648', '1.5', '2 3', 'x'],
    'held': ['0', '1', '2', '3', '-1', '9', '99', ''], 'place': ['0', '1', '2', '3', '5', '-1', '16', '17', '999', ''],
    'query': ['-1', '0', '1', '2', '3', '99', '-2', ''], 'key': ['0', '-1', '1', '2', '99', ''], '[position]': ['', '-1', '0', '1', '2', '99', 'x'],
    'branch': ['main', 'a', 'b', 'none', ''], '[branch]': ['', 'main', 'a', 'b', 'none'], 'timeline': ['main', 'a', 'b', 'none', ''], 'name': ['a', 'b', 'a', 'main', 'x y', ''],
    'until': ['entropy > 1', 'entropy > 2.5', 'entropy > x', 'p < 0.2', 'p < 0', 'p > 1', 'token 3', 'token 99', 'token', '"e"', '"\\x65"', 'zzz', ''],
    'kind': ['zero', 'mean', 'off', 'half', ''], 'factor': ['0', '0.5', '1', '-2', '1e30', '1e31', 'nan', ''],
    'points': ['resid_pre,z', 'heads', 'mlp_out', 'attn_out,resid_mid', 'resid_post', 'pattern', 'q,k,v', 'none', ''],
    'command': ['', 'all', 'top', '/why', 'a', 'none'], 'something': ['', '', '', 'x'], 'text': ['a', '', '\\x61', '\\q', '\\u{65}b'],
    '=scores|log': ['', 'scores', 'log'], '=future': ['', 'future'], '=qk|places|ov|direct|fires|promotes': ['qk', 'places', 'ov', 'direct', 'fires', 'promotes', ''],
    'setting': ['', 'temp 0.9', 'temp -1', 'temp', 'top-k 4', 'top-k 1.5', 'top-p 0.7', 'top-p 2', 'min-p 0.05', 'seed 7', 'seed x', 'none 3', 'repeat-penalty 1.3', 'dry 1:1.5:1:9',
                'xtc 0.5:0.05', 'typical 0.8', 'top-nsigma 1.5', 'mirostat 2:3:0.2', 'mirostat off', 'xtc off', 'typical 1', 'dry 0', 'presence 0.4', 'bias 3+1', 'bias off', 'ban off',
                'frequency 0.2', 'repeat-last 2', 'temp 0', 'top-k 0', 'top-p 1', 'min-p 0', 'top-nsigma 0', 'repeat-penalty 1', 'regex [a-e]*', 'regex off']}
HOOKS = ['0.1[-1]', '0.0[0]', 'mlp.0[2]', 'mlp.9[0]', 'logits[3]', 'blocks.0.hook_resid_post[1]', 'blocks.0.attn.hook_z[1,2]', 'blocks.1.hook_mlp_out[99]', 'none[0]', '']
FILES = {'/save': ['one.session', 'two.session', 'none/x', ''], '/load': ['one.session', 'two.session', 'none', ''], '/with': ['off', 'none.gguf', '', 'ROOT/weights/names.gguf'],
         '/steer': ['off', '', 'none.npy', 'ROOT/tests/golden/llama/config.json'], '/trace': ['off', '', 'on *hook_z,logits seen.npz', 'on blocks.0.* seen.safetensors', 'on none x.npz', 'on logits', 'on']}


class Draw:
    """A generator that no version of Python changes."""
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def of(self, some):
        return some[self.below(len(some))]


def commands():
    """[(names, types)] of commands.inc."""
    source = (ROOT / 'tools/repl/commands.inc').read_text()
    found = re.findall(r'(?m)^COMMAND\(NAMES\(([^)]*)\),\s*"(?:[^"\\]|\\.)*",\s*"([^"]*)"', source)
    return [(re.findall(r'"([^"]*)"', names), types.split()) for names, types in found if '"/quit"' not in names]


def sizes(model):
    """Values of types that depend on a model: tokens, heads, tensors."""
    tokens = model['tokens']
    few = lambda n: [*map(str, range(n)), str(n), '-1', 'x', '']  # noqa: E731
    return {'token': [*tokens, '3', '0', '"', '99999', ''], '[token]': ['', *tokens, '2', '99999'], '[other]': ['', *tokens, '-1'], 'tokens': ['3', '3 1', tokens[0], '3,"', '99999', ''],
            'layer': few(model['layers']), 'head': few(model['heads']), 'kv_head': few(model['kv']), 'part': ['0.0', '0.1', 'mlp.0', '0.9', 'mlp.9', '1.0', 'mlp', 'x.y', ''],
            '[part]': ['', '0.0', '0.1', 'mlp.0', '0.9', '1.1'], 'circuit': ['0 1', '0 0', '1 1', '0', '9 9', '0 99', ''], 'tensor': ['output.weight', 'blk.0.attn_q.weight', 'token_embd.weight', 'none', '']}


def argument(draw, command, kind, own):
    if command in FILES and kind in ('file', 'on', 'hooks'):
        return draw.of(FILES[command]) if kind != 'hooks' and (kind == 'on' or command != '/trace') else ''
    if kind == '-o':
        return '' if draw.below(6) else '-o ' + draw.of(['seen.txt', 'other.txt', 'none/x', ''])
    if kind == 'hooks':
        return draw.of(HOOKS)
    values = own.get(kind) or VALUES[kind]
    return draw.of(values[:len(values) // 2 + 1] if draw.below(5) else values)


def script(seed, model):
    draw, own, known, lines = Draw(seed), sizes(model), commands(), list(model['begin'])
    for _ in range(LINES):
        kind = draw.below(10)
        if kind == 0:
            lines.append(draw.of(model['texts']))
        elif kind == 1:
            lines.append('')
        else:
            names, types = draw.of(known)
            line = ' '.join([draw.of(names) if draw.below(4) == 0 else names[0], *filter(None, (argument(draw, names[0], t, own) for t in types))])
            lines.append(line.replace('ROOT', str(ROOT)) + draw.of(['', '', '', '', '', ' ', '  x']))
    return '\n'.join(lines) + '\n'


def files_in(folder):
    """What a session wrote: names, and of an archive its members' bytes."""
    for path in sorted(folder.rglob('*')):
        data = path.read_bytes()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as z:
                data = b'\n'.join(name.encode() + z.read(name) for name in z.namelist() if 'meta' not in name)
        elif path.suffix in ('.safetensors', '.session'):
            data = data[data.index(b'}}') if b'}}' in data else 0:]
        yield '%s %d %s' % (path.name, len(data), hashlib.sha256(data).hexdigest() if b'\0' in data else data.decode(errors='replace'))


def session(seed, model, more):
    def run(mgpt, folder):
        path = model['path'] if isinstance(model['path'], str) else model['path'](mgpt, str(ROOT), str(folder))
        work = folder / 'work'
        work.mkdir()
        text = told(['repl', path, '--width', '90', '--screen', 'plain', *more], work, script(seed, model), mgpt)
        return '\n'.join([text.replace(str(folder), 'FOLDER'), *files_in(work)])
    return run


LETTERS = {'texts': ['an', 'e', 'mary', 'zq', '//x', 'A', '  '], 'tokens': ['a', 'n', '"e"'], 'begin': ['anna', '/branch a', '/edit 2 "m"', '/sw main']}
IDS = {'texts': ['/ids 5', '/ids 7 2', 'text'], 'tokens': ['3', '7', '11'], 'begin': ['/ids 3 1 4 1', '/branch a', '/edit 2 7', '/sw main']}
MODELS = {'names': {**LETTERS, 'path': str(ROOT / 'weights/names.gguf'), 'layers': 1, 'heads': 4, 'kv': 4},
          'pairs': {**LETTERS, 'path': pairs_model, 'layers': 2, 'heads': 4, 'kv': 2, 'texts': ['hello', 'the  old', 'yes\\x', 'l', '\u00e9', 'q'], 'tokens': ['he', '"\\x20h"', 'yes'],
                    'begin': ['hello th', '/branch a', '/edit 1 "he"', '/sw main']},
          'unigram': {**LETTERS, 'path': unigram_model, 'layers': 2, 'heads': 4, 'kv': 2, 'texts': ['hello', 'the  old', 'world', 'q'], 'tokens': ['he', 'lo', 'th'],
                      'begin': ['hello th', '/branch a', '/edit 1 "he"', '/sw main']},
          **{name: {**IDS, 'path': str(ROOT / 'tests/golden' / name), 'layers': 2, 'heads': 3, 'kv': 2} for name in ('gpt2', 'gemma2', 'deepseek_v3', 'mixtral', 'bloom', 'lfm2')}}
OPTIONS = [[], ['--seed', '3', '--temp', '1.1'], ['-c', '12'], ['--kv', 'q8_0', '--top-p', '0.9', '--temp', '0.8'], ['--no-fused', '--rng', 'python', '--temp', '1'], ['--temp', '2', '--min-p', '0.1']]

if __name__ == '__main__':
    if sys.argv[1:]:  # MODEL NUMBER: prints its lines and what they give
        print(script(int(sys.argv[2]), MODELS[sys.argv[1]]))
    else:
        compare('typed', [('%s %d' % (name, seed), session(seed, model, OPTIONS[seed % len(OPTIONS)]))
                                                  for name, model in MODELS.items() for seed in range(SESSIONS * (2 if 'n' == name[0] else 1))])
