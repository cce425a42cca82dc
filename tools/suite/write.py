#!/usr/bin/env python3
"""suite write DIR: writes the conformance suite from what is in the repository and `mgpt convert`.

usage: write.py DIR [--formats LIST] [--groups LIST] [--zip FILE] [--mgpt PATH]

DIR gets cases.jsonl, suite.json, SHA256SUMS and the files of the cases (README.md describes them). It must not exist yet, or
be empty. Two runs give the same bytes, of the zip as well. Exit codes: 0 ok, 2 usage, 3 a file is refused, 5 input/output.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import made

VERSION = '2026.12'
HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parents[1] / 'tests/golden'
DATA = HERE / 'data'
FORMATS = ('hf', 'hf4', 'gguf', 'pt', 'bin')
GROUPS = ('architectures',)


class Refused(Exception):
    """An error line and its exit code."""

    def __init__(self, line, code=3):
        super().__init__(line)
        self.code = code


class Suite:
    """The directory being written, and its cases."""

    def __init__(self, directory, formats, mgpt):
        self.directory, self.formats, self.mgpt, self.cases = directory, formats, mgpt, []

    def put(self, path, data):
        """Writes a file; returns its path as the cases have it."""
        full = self.directory / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def put_ids(self, name, ids):
        return self.put('ids/%s.txt' % name, ' '.join(map(str, ids)) + '\n')

    def convert(self, source, name):
        """The GGUF that mgpt makes of a directory of the suite."""
        out = self.directory / 'gguf' / (name + '.gguf')
        out.parent.mkdir(exist_ok=True)
        done = subprocess.run([self.mgpt, 'convert', str(source), str(out)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Refused('%s: mgpt convert exits %d: %s' % (name, done.returncode, done.stderr.strip().split('\n')[-1]))
        return 'gguf/%s.gguf' % name

    def model_files(self, name, source, n_vocab):
        """{format: path} of a model whose directory is `source` here, which other formats are made of."""
        files = {}
        vocabulary = source / 'tokenizer.model'
        vocabulary.write_bytes(made.sentencepiece(n_vocab))
        if 'hf' in self.formats:
            files['hf'] = 'hf/' + name
            shutil.copytree(source, self.directory / files['hf'])
        if 'gguf' in self.formats:
            files['gguf'] = self.convert(source, name)
        return files

    def add(self, case):
        if case['files']:
            self.cases.append(case)


def golden_notes():
    """{directory: what it exercises} of the first table of tests/golden/README.md."""
    notes = {}
    for names, _, what in re.findall(r'^\| (`.*?`) \| ([^|]+) \| ([^|]+) \|$', (GOLDEN / 'README.md').read_text(), re.M):
        notes.update((name, re.sub('`', '', what)) for name in re.findall(r'`(\w+)`', names))
    return notes


def npz_member(path, name):
    """The .npy file in a NumPy archive."""
    with zipfile.ZipFile(path) as archive:
        return archive.read(name + '.npy')


def npy_ids(data):
    """The numbers of a .npy file of int64."""
    start = 10 + int.from_bytes(data[8:10], 'little')
    assert b"'<i8'" in data[:start], 'ids are int64'
    return [int.from_bytes(data[i:i + 8], 'little', signed=True) for i in range(start, len(data), 8)]


def write_golden(suite):
    """Group architectures: the golden models of the tests, in float32 or as their programs packed them."""
    notes = golden_notes()
    for source in sorted(p.parent for p in GOLDEN.glob('*/ref.npz')):
        name = source.name
        with tempfile.TemporaryDirectory() as place:
            copy = pathlib.Path(place) / name
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns('ref.npz', 'plain'))
            config = json.loads((source / 'config.json').read_text())
            case = {'id': name, 'group': 'architectures', 'what': notes[name],
                    'files': suite.model_files(name, copy, config['vocab_size']),
                    'ids': suite.put_ids(name, npy_ids(npz_member(source / 'ref.npz', 'tokens'))),
                    'ref': suite.put('ref/%s.npy' % name, npz_member(source / 'ref.npz', 'logits'))}
        if 'quantization' in config or 'quantization_config' in config:
            case['integer'] = True
        suite.add(case)


WRITERS = {'architectures': write_golden}


def finish(suite):
    """The lists: cases, what made them, sums."""
    suite.put('cases.jsonl', ''.join(json.dumps(case) + '\n' for case in suite.cases))
    version = subprocess.run([suite.mgpt, '--version'], capture_output=True, text=True, check=True).stdout.split('\n')[0]
    made_with = {'mgpt': version.strip(), 'transformers': '5.24.0'}
    suite.put('suite.json', json.dumps({'version': VERSION, 'made_with': made_with}) + '\n')
    suite.put('LICENSE', (DATA / 'LICENSE').read_bytes())
    paths = sorted(p for p in suite.directory.rglob('*') if p.is_file())
    sums = ['%s  %s\n' % (hashlib.sha256(p.read_bytes()).hexdigest(), p.relative_to(suite.directory)) for p in paths]
    suite.put('SHA256SUMS', ''.join(sums))


def write_zip(directory, out):
    """A zip without dates, in order of names: gpt-suite-VERSION/..."""
    with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(p for p in directory.rglob('*') if p.is_file()):
            info = zipfile.ZipInfo('gpt-suite-%s/%s' % (VERSION, path.relative_to(directory)))
            info.external_attr, info.create_system = 0o644 << 16, 3
            archive.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)


def chosen(text, known, what):
    """The words of a list of an option; all if it was not given."""
    words = list(known) if text is None else text.split(',')
    for word in words:
        if word not in known:
            raise Refused('%s: "%s" is not one of %s' % (what, word, ', '.join(known)), 2)
    return words


def write(directory, formats, groups, mgpt, archive=None):
    """Writes the suite into a directory next to DIR first: DIR is whole or is not there."""
    directory = pathlib.Path(directory)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Refused('%s is there already and not empty: name a new directory' % directory, 2)
    if shutil.which(mgpt) is None:
        raise Refused('%s is no program: build it (ninja -C build) or name one with --mgpt' % mgpt, 2)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=directory.name + '.') as place:
        suite = Suite(pathlib.Path(place) / 'suite', formats, mgpt)
        suite.directory.mkdir()
        for group in groups:
            WRITERS[group](suite)
        finish(suite)
        if archive:
            write_zip(suite.directory, archive)
        if directory.exists():
            directory.rmdir()
        suite.directory.rename(directory)
    return suite.cases


def main(argv=None):
    parser = argparse.ArgumentParser(prog='suite write', description='Writes the conformance suite into a new directory.')
    parser.add_argument('directory', metavar='DIR')
    parser.add_argument('--formats', metavar='LIST', help='of %s; default: all' % ', '.join(FORMATS))
    parser.add_argument('--groups', metavar='LIST', help='of %s; default: all' % ', '.join(GROUPS))
    parser.add_argument('--zip', metavar='FILE', help='also the archive that is released')
    parser.add_argument('--mgpt', default=os.environ.get('MGPT', str(HERE.parents[1] / 'build/tools/mgpt')), metavar='PATH')
    args = parser.parse_args(argv)
    try:
        formats, groups = chosen(args.formats, FORMATS, '--formats'), chosen(args.groups, GROUPS, '--groups')
        cases = write(args.directory, formats, groups, args.mgpt, args.zip)
    except Refused as why:
        print('suite write: %s' % why, file=sys.stderr)
        return why.code
    except OSError as why:
        print('suite write: %s: %s' % (why.filename or args.directory, why.strerror), file=sys.stderr)
        return 5
    print('%d cases in %s' % (len(cases), args.directory))
    return 0


if __name__ == '__main__':
    sys.exit(main())
