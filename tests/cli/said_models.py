#!/usr/bin/env python3
"""What commands say about every golden model. A reference with one value of a hook and one logit changed: all that `check`
prints, in said_models.txt. References without a row and with rows one place further on, and what is longer (info, trace,
score, patch): a hash of each, in hashes/said_models.txt.

    said_models.py MGPT ROOT [MODEL...]

MGPT_WRITE=1 writes both again; look at the diff. MGPT_OLD=PROGRAM prints the lines in which a run whose hash differs
is not what that program prints. Standard library only.
"""
import difflib
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

sys.dont_write_bytecode = True
from hashes import Hashes, plain  # noqa: E402

MGPT, ROOT = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
GOLDEN, TEXTS = ROOT / 'tests/golden', ROOT / 'tests/cli/said_models.txt'
RECORDS = '{"ids": [3, 1, 4, 1, 5]}\n{"ids": [2, 7]}\n'
CHECK = 'check model.gguf value.npz --tokens 5'
RUNS = (  # their hashes; the file of the last column, too
    ('row', 'check model.gguf row.npz --tokens 3', None),
    ('moved', 'check model.gguf moved.npz --tokens 3 --tol q4', None),
    ('json', 'check model.gguf value.npz --json --tokens 3', None),
    ('info', 'info model.gguf --tensors --isa scalar', None),
    ('info --json', 'info model.gguf --json --tensors --isa scalar', None),
    ('hooks', 'trace model.gguf --list', None),
    ('trace', 'trace model.gguf --ids 3,1,4 -o seen.npz --quiet', 'seen.npz'),
    ('score', 'score model.gguf -f records --json --top 2', None),
    ('patch', 'patch model.gguf --clean 3,1,4 --corrupt 3,2,4 --metric 5\\ -\\ 6 --over resid_pre,mlp_out --json', None),
    ('why', 'patch model.gguf --clean 3,1,4 --metric logprob:2 --why --screen plain --width 80', None))


# ---- references ----

def read_npz(path):
    with zipfile.ZipFile(path) as z:
        return {name: bytearray(z.read(name)) for name in z.namelist()}


def write_npz(path, arrays):
    with zipfile.ZipFile(path, 'w') as z:
        for name, data in arrays.items():
            z.writestr(zipfile.ZipInfo(name), bytes(data))


def header(data):
    """Where the numbers begin, the shape, and the bytes of a number."""
    begin = 10 + struct.unpack_from('<H', data, 8)[0]
    head = bytes(data[10:begin]).decode()
    return begin, [int(x) for x in re.findall(r'\d+', re.search(r"'shape': \(([^)]*)\)", head)[1])], int(re.search(r"'<f(\d)'", head)[1])


def add(data, i, more):
    begin, _, width = header(data)
    kind, at = '<d' if width == 8 else '<f', begin + width * i
    struct.pack_into(kind, data, at, struct.unpack_from(kind, data, at)[0] + more)


def damage(folder, ref, seed):
    """The three references. Which hook and value differ follows from the model's name."""
    arrays = read_npz(ref)
    hooks = [name for name in arrays if name not in ('tokens.npy', 'logits.npy')]
    begin, shape, width = header(arrays['logits.npy'])
    value = {name: bytearray(data) for name, data in arrays.items()}
    if hooks:
        name = hooks[seed % len(hooks)]
        size = header(value[name])[1]
        add(value[name], 2 * size[-1] + seed % min(size[-1], 3), 0.5)
    add(value['logits.npy'], 4 * shape[-1] + seed % shape[-1], 0.25)
    write_npz(folder / 'value.npz', value)
    logits, row = arrays['logits.npy'], width * shape[-1]
    for name, rows in (('row', logits[:begin + row] + b'\0' * row + logits[begin + 2 * row:]), ('moved', logits[:begin] + logits[begin + row:] + logits[begin:begin + row])):
        write_npz(folder / (name + '.npz'), {'tokens.npy': arrays['tokens.npy'], 'logits.npy': rows})


# ---- runs ----

def run(program, folder, line, file=None):
    words = [word.replace('\\ ', ' ') for word in re.split(r'(?<!\\) ', line)]
    done = subprocess.run([program, *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors='replace')
    text = done.stdout + done.stderr + 'exit code %d\n' % done.returncode
    if file and (folder / file).exists():
        with zipfile.ZipFile(folder / file) as z:
            text += ''.join('%s %08x\n' % (name, zlib.crc32(z.read(name))) for name in z.namelist())
        (folder / file).unlink()
    return text


def prepare(folder, model):
    (folder / 'model.gguf').unlink(missing_ok=True)
    done = subprocess.run([MGPT, 'convert', str(GOLDEN / model), str(folder / 'model.gguf'), '--no-tokenizer'], capture_output=True, text=True)
    (folder / 'records').write_text(RECORDS)
    damage(folder, GOLDEN / model / 'ref.npz', zlib.crc32(model.encode()))
    if done.returncode:
        print(model, done.stderr)


def main():
    models = sorted(sys.argv[3:]) or sorted(path.parent.name for path in GOLDEN.glob('*/ref.npz'))
    hashes, texts = Hashes(ROOT / 'tests/cli/hashes/said_models.txt', models), ''
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        for model in models:
            prepare(folder, model)
            texts += '== %s\n%s' % (model, plain(run(MGPT, folder, CHECK)))
            for name, line, file in RUNS:
                hashes.note('%s %s' % (model, name), run(MGPT, folder, line, file), lambda program: run(program, folder, line, file))
    differ = hashes.end()
    if 'MGPT_WRITE' in os.environ:
        TEXTS.write_text(texts)
        return
    kept = ''.join('== ' + part for part in TEXTS.read_text().split('== ')[1:] if part.split('\n')[0] in models)
    for line in list(difflib.unified_diff(kept.splitlines(), texts.splitlines(), 'said_models.txt', 'said now', n=1, lineterm=''))[:40]:
        print(line)
    print('differs: ' + ', '.join(differ[:40]) if differ else 'all of %d models' % len(models))
    sys.exit(bool(differ or kept != texts))


main()
