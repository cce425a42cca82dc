"""Split GGUF files: every part names the model, and what does not fit together is refused.

split.py MGPT WEIGHTS. The parts are made by split_gguf.py.
"""
import os
import struct
import subprocess
import sys
import tempfile

import split_gguf
from checks import finish, holds

MGPT, WEIGHTS = sys.argv[1:3]


def run(*arguments):
    done = subprocess.run([MGPT, *arguments], capture_output=True, timeout=60)
    return done.returncode, done.stdout, done.stderr.decode()


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def write(folder, parts):
    """Writes the parts that are not None; the path of the first."""
    count = len(parts)
    for i, data in enumerate(parts):
        if data is not None:
            with open(split_gguf.name(folder + '/m', i, count), 'wb') as f:
                f.write(data)
    return split_gguf.name(folder + '/m', 0, count)


def same(model, count, first_empty):
    whole = WEIGHTS + '/%s.gguf' % model
    with tempfile.TemporaryDirectory() as folder:
        write(folder, split_gguf.split(read(whole), count, first_empty))
        def trace(path):
            code, _, err = run('trace', path, '--ids', '1,2,3,0', '-o', folder + '/out.npz')
            values = read(folder + '/out.npz') if code == 0 else err
            os.unlink(folder + '/out.npz')
            return values

        expected = trace(whole)
        for i in range(count):
            found = trace(split_gguf.name(folder + '/m', i, count))
            holds('%s from part %d of %d' % (model, i + 1, count), found == expected, found[:200])
        merged = folder + '/merged.gguf'
        code, _, err = run('convert', split_gguf.name(folder + '/m', count - 1, count), merged)
        run('convert', whole, folder + '/whole.gguf')
        holds('%s merged' % model, code == 0 and read(merged) == read(folder + '/whole.gguf'), err)
        os.unlink(folder + '/whole.gguf')
        os.unlink(merged)
        holds('%s, a directory of parts' % model, run('info', folder)[0] == 0, run('info', folder))
        part = split_gguf.name(folder + '/m', 1, count)
        code, _, err = run('convert', split_gguf.name(folder + '/m', 0, count), part)
        holds('%s, a part is not replaced' % model, code == 2 and 'input' in err, (code, err))


def refused(what, parts, line, code=3):
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, parts)
        found = run('info', path)
        holds(what, found[0] == code and line in found[2] and found[2].count('\n') == 1, found)


def alone(what, data, line):
    with tempfile.TemporaryDirectory() as folder:
        path = folder + '/alone.gguf'
        with open(path, 'wb') as f:
            f.write(data)
        found = run('info', path)
        holds(what, found[0] == 3 and line in found[2], found)


def number(data, name, form, value):
    """The part with another value of a key split.*"""
    at = data.index(name) + len(name) + 4
    return data[:at] + struct.pack('<' + form, value) + data[at + struct.calcsize(form):]


def refusals():
    data = read(WEIGHTS + '/names.gguf')
    a, b, c = split_gguf.split(data, 3)
    n_kv, metadata, tensors, align = split_gguf.parse(data)
    total = len(tensors)
    refused('missing part', [a, b, None], 'part 3 of 3, ', 5)
    refused('missing part, named', [a, b, None], 'm-00003-of-00003.gguf: cannot open: No such', 5)
    refused('wrong order', [a, c, b], 'part 2 of 3: key split.no: 2, expected 1')
    refused('first part last', [b, c, a], 'key split.no: 1, expected 0')
    refused('a part twice', [a, b, number(c, b'split.no', 'H', 1)], 'part 3 of 3: key split.no: 1, expected 2')
    refused('of 2 parts', [a, b, number(c, b'split.count', 'H', 2)], 'part 3 of 3: key split.count: 2, expected 3')
    refused('of 4 parts', [a, split_gguf.split(data, 4)[1], c],
            'part 2 of 3: key split.count: 4, expected 3')
    refused('names say more', [a, b, c, c], "key split.count: 3, the file's name says 4 parts")
    refused('another model', [a, split_gguf.split(read(WEIGHTS + '/shakespeare.gguf'), 3)[1], c],
            'part 2 of 3: key split.tensors.count: ')
    refused('cut', [a[:-1], b, c], 'data ends at byte')
    refused('cut in the last', [a, b, c[:-1]], 'part 3 of 3: tensor ')
    refused('empty part', [a, b'', c], 'part 2 of 3: not a GGUF file')
    refused('text', [a, b'hello, this is text', c], 'part 2 of 3: not a GGUF file')
    refused('a tensor twice', [a, b, split_gguf.part(n_kv, metadata, tensors[:2], align, 2, 3, total)],
            'occurs twice')
    refused('fewer tensors', [a, b, split_gguf.part(n_kv, metadata, [], align, 2, 3, total)],
            'key split.tensors.count: %d, the parts have' % total)
    later = split_gguf.part(0, b'', tensors[-1:], 32, 2, 3, total)
    extra = split_gguf.key(b'general.name', 4, 'I', 7)
    later = later[:16] + struct.pack('<Q', 4) + extra + later[24:]
    refused('a key of its own', [a, b, split_gguf.padded(later)], 'part 3 of 3: ')
    refused('no number of tensors', [a.replace(b'split.tensors.count', b'split.tensors.coun_'), b, c],
            'key split.tensors.count: missing')
    alone('first part alone', a, 'key split.count: part 1 of 3, alone')
    alone('second part alone', b, 'key split.count: part 2 of 3, alone')
    alone('too many', number(a, b'split.count', 'H', 1025), '1025 parts, the limit is 1024')
    # The reader looks for the key in pieces of 8192 bytes: the key may be at any place of one, or in two.
    for at in (8191, 8192, 8195, 8203, 8204):
        note = split_gguf.string(b'general.note') + struct.pack('<IQ', 8, 0)
        first = split_gguf.part(n_kv + 1, metadata + note, tensors[:3], align, 0, 3, total)
        fill = b'x' * (at - first.index(b'split.count'))
        note = note[:-8] + struct.pack('<Q', len(fill)) + fill
        first = split_gguf.part(n_kv + 1, metadata + note, tensors[:total // 3], align, 0, 3, total)
        with tempfile.TemporaryDirectory() as folder:
            path = write(folder, [first, b, c])
            holds('split.count at byte %d' % first.index(b'split.count'), run('info', path)[0] == 0, run('info', path))
    with tempfile.TemporaryDirectory() as folder:
        for count, line in ((1024, 'm-00002-of-01024.gguf: '), (1025, '1025 parts, the limit is 1024')):
            path = split_gguf.name(folder + '/m', 0, count)
            with open(path, 'wb') as f:
                f.write(a)
            holds('%d parts' % count, line in run('info', path)[2], run('info', path))
    # A whole file may have a part's name.
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, [data, None])
        holds('whole file with such a name', run('info', path)[0] == 0, run('info', path))


same('names', 3, False)
same('names', 4, True)
same('shakespeare', 2, False)
refusals()
finish()
