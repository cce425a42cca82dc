#!/usr/bin/env python3
"""check --explain of a file with one changed weight: its tensor, row, column and both values, in text and JSON.

    one_weight.py MGPT ROOT
"""
import json
import math
import os
import random
import re
import struct
import sys
import tempfile

from checks import finish, hash_runs, holds, run_text
from split_gguf import parse

mgpt, root = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
PLACES = r'"(?P<tensor>[^"]+)"(?: row (?P<row>\d+))?(?: column (?P<column>\d+))?'
LINE = re.compile(r'^(?P<what>cause|hint) +' + PLACES + r'(?:: (?P<ours>\S+) here, (?P<theirs>\S+) in the reference)?(?P<rest>.*)$', re.M)


def run(*args):
    return run_text(mgpt, *args)


def tensors_of(data):
    """{tensor: (offset in the file, columns, rows)}"""
    return {name.decode(): (data.index(values), dims[0], math.prod(dims[1:])) for name, dims, _, values in parse(data)[2]}


def near(a, b):
    if math.isnan(b):
        return a in (None, 'nan')
    return abs(float(a) - b) < 1e-4 * max(1, abs(b))


def one(path, name, place, row, column, value, reference):
    """Changes a weight, and compares what is named."""
    offset, columns, rows = place
    data = bytearray(open(path, 'rb').read())
    at = offset + 4 * (row * columns + column)
    before, = struct.unpack_from('<f', data, at)
    after, = struct.unpack('<f', struct.pack('<f', before + value))
    struct.pack_into('<f', data, at, after)
    open('changed.gguf', 'wb').write(data)
    what = '%s[%d][%d] + %g' % (name, row, column, value)
    r, j = run('check', 'changed.gguf', reference, '--explain'), run('check', 'changed.gguf', reference, '--explain', '--json')
    found, weight = LINE.search(r.stdout), json.loads(j.stdout.splitlines()[-1])['weight']
    line = found[0] if found else r.stdout[-700:] + r.stderr
    holds(what + ': exit code', r.returncode == j.returncode == 1, r.returncode)
    holds(what + ': its place', found and [found[x] for x in ('tensor', 'row', 'column')] == [name, str(row), str(column)], line)
    holds(what + ': its place in JSON', weight and (weight['tensor'], weight['row'], weight['column']) == (name, row, column), weight)
    if math.isnan(after) and found and found['what'] == 'hint':  # its input is 0 in all rows
        holds(what + ': it is NaN', found['rest'] == ' is nan' and weight['ours'] is None, line)
    elif found and weight:
        holds(what + ': its values', found['what'] == 'cause' and near(found['ours'], after) and near(found['theirs'], before), line)
        holds(what + ': its values in JSON', near(weight['ours'], after) and near(weight['reference'], before), weight)


def model(path, prompt, names):
    rng = random.Random(os.path.basename(path))
    run('trace', path, *prompt, '-o', 'reference.npz')
    tensors = tensors_of(open(path, 'rb').read())
    for i, name in enumerate(names):
        _, columns, rows = tensors[name]
        one(path, name, tensors[name], rng.randrange(rows), rng.randrange(columns), math.nan if i % 4 == 3 else (0.5, -0.75, 1.25)[i % 4], 'reference.npz')


hash_runs('one_weight')
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    model(root + '/weights/names.gguf', ('-p', 'annabelkarenoli'), ['output.weight', 'blk.0.attn_v.weight', 'blk.0.attn_output.weight', 'blk.0.ffn_down.weight',
                                                                    'blk.0.ffn_up.weight', 'blk.0.attn_q.weight'])
    for name in 'llama', 'granite', 'minicpm', 'gpt2', 'phi':
        path = name + '.gguf'
        run('convert', root + '/tests/golden/' + name, path, '--no-tokenizer')
        kinds = re.compile(r'(blk\.1\.(ffn_gate|attn_qkv|attn_v|attn_k|attn_output|ffn_down|ffn_up)|output)\.weight')
        model(path, ('--ids', '1,5,2,9,14,7,3,11'), list(filter(kinds.fullmatch, tensors_of(open(path, 'rb').read()))))
    os.chdir('/')
finish()
