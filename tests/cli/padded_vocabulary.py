"""A padded vocabulary: what is drawn, and means over tokens, are those of the model without the padding.

padded_vocabulary.py MGPT WEIGHTS. Files often have more rows in the embedding and the head than the tokenizer has tokens.
The rows that are added here have larger logits than any token, so a draw that counts them gives another token. Or
padded_vocabulary.py IN OUT.gguf writes such a file.
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

from checks import check, failed
from split_gguf import padded, parse, string

ROWS = 9


def pad(source, target):
    """Appends rows 4 r and -4 r of the first rows r of embedding and head: one of them is above all tokens."""
    with open(source, 'rb') as f:
        n_kv, metadata, tensors, align = parse(f.read())
    head, body = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), n_kv), b''
    at = metadata.index(b'.vocab_size') + len(b'.vocab_size') + 4
    head += metadata[:at] + struct.pack('<I', struct.unpack_from('<I', metadata, at)[0] + 2 * ROWS) + metadata[at + 4:]
    for name, dims, kind, values in tensors:
        if name in (b'token_embd.weight', b'output.weight'):
            assert kind == 0
            rows = struct.unpack_from('<%df' % (ROWS * dims[0]), values)
            values += struct.pack('<%df' % (2 * ROWS * dims[0]), *[by * x for by in (4, -4) for x in rows])
            dims = [dims[0], dims[1] + 2 * ROWS]
        head += string(name) + struct.pack('<I%dQIQ' % len(dims), len(dims), *dims, kind, len(body))
        body += padded(values, align)
    with open(target, 'wb') as f:
        f.write(padded(head, align) + body)


# Options of generate, each with samples of its own. {} is the model, where a second one is wanted.
DRAWS = ['--temp 0', '--temp 1 --samples 9', '--samples 9 --batch 1', '--temp 2 --top-k 5 --samples 5', '--top-p 0.4 --samples 5', '--min-p 0.3 --samples 5',
         '--typical 0.4 --samples 5', '--top-nsigma 1 --temp 2 --samples 5', '--xtc 1:0.05 --temp 0.1 --samples 5', '--mirostat 2 --samples 5',
         '--repeat-penalty 1.5 --repeat-last 8 --samples 5', '--presence 1 --frequency 1 --samples 5', '--dry 2:1.5:1 --samples 5', '--bias a+2 --samples 5',
         '--ban an --samples 5', '--regex [aeiou]* --samples 5', '-p an --heal --samples 5', '-p an --temp 0 --lookup', '-p an --draft {} --samples 5',
         '--draft {} --temp 0 --lookup', '--rng python --samples 5', '--ids 26,0 --samples 5', '--slide -n 40', '--ignore-end --samples 3 --no-fused']
# Of numbers that a record has only these are about what is drawn; the model's own probabilities are of the whole row.
DRAWN = 'text', 'tokens', 'finish_reason'
# Lines for the repl: each is about the choices, or its output must not change.
TYPED = ['anna', '/dla', '/dla 2 b', '/dla 1 c d', '/g', '/b 4', '/set temp 1', '/g', '/b 3', '/s 2', '/heal', '/b 4', '/until "a"', '/branches']


def output(*command, stdin=b''):
    done = subprocess.run([MGPT, *command], input=stdin, capture_output=True, timeout=60)
    assert done.returncode == 0, (command, done.stderr.decode())
    return done.stdout


def test_generate(plain, other):
    for options in DRAWS:
        said = [output('generate', model, *options.format(model).split()) for model in (plain, other)]
        check('generate ' + options, said[1], said[0])
        said = [[json.loads(line) for line in output('generate', model, '--json', '--top', '2', *options.format(model).split()).splitlines()]
                for model in (plain, other)]
        check('... as records', *[[[r[key] for key in DRAWN] + [r['logprobs']['draw_probs']] for r in records] for records in reversed(said)])


def test_records(plain, other):
    lines = b''.join(b'{"prompt": "%s", "seed": %d, "temperature": %g}\n' % (p, seed, t) for seed, (p, t) in
                     enumerate([(b'a', 1), (b'an', 0), (b'', 0.7), (b'el', 2), (b'', 1)]))
    said = [[json.loads(line) for line in output('generate', model, '--records', '-', stdin=lines).splitlines()] for model in (plain, other)]
    check('records', *[[[r[key] for key in DRAWN] for r in records] for records in reversed(said)])


def test_repl(plain, other):
    said = [re.sub(rb'  p \S+ +rank +\d+ ', b'', output('repl', model, stdin='\n'.join(TYPED).encode())) for model in (plain, other)]
    check('repl', said[1].splitlines(), said[0].splitlines())
    if b'/why' in output('repl', plain, stdin=b'/help all\n'):  # a build without the laboratory has none
        said = [re.findall(rb'metric .*', output('repl', model, stdin=b'anna\n/why\n')) for model in (plain, other)]
        check('repl: /why is about the likeliest token that can be drawn', said[1], said[0])
    held = [[line.split() for line in output('repl', model, stdin=b'/set temp 0.7\n/g\n/tokens\n').decode().splitlines() if '"' in line]
            for model in (plain, other)]
    check('repl: probabilities with which tokens are drawn', *[[(row[1], row[3]) for row in rows[:-1] if len(row) > 4] for rows in reversed(held)])


def main():
    with tempfile.TemporaryDirectory() as folder:
        plain, other = os.path.join(sys.argv[2], 'names.gguf'), folder + '/padded.gguf'
        pad(plain, other)
        # The padding is above all tokens: without the choice of n_tokens it would be drawn.
        top = output('repl', other, stdin=b'anna\n/top 3\n').decode()
        check('the padding is the likeliest', top.count('(none)'), 3)
        test_generate(plain, other)
        test_records(plain, other)
        test_repl(plain, other)
    return bool(failed)


if sys.argv[2].endswith('.gguf'):
    pad(*sys.argv[1:3])
else:
    MGPT = sys.argv[1]
    sys.exit(main())
