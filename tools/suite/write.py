#!/usr/bin/env python3
"""suite write DIR: writes the conformance suite from what is in the repository and `mgpt convert`.

usage: write.py DIR [--formats LIST] [--groups LIST] [--archive FILE] [--mgpt PATH]

DIR gets cases.jsonl, suite.json, SHA256SUMS and the files of the cases (README.md describes them). It must not exist yet, or
be empty. Two runs give the same bytes, of the archive as well. Exit codes: 0 ok, 2 usage, 3 a file is refused, 5 input/output.
"""
import argparse
import functools
import hashlib
import io
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

sys.dont_write_bytecode = True

import dialect  # noqa: E402
import gguf_file  # noqa: E402
import made  # noqa: E402
import other_formats  # noqa: E402
import tokenizer_cases  # noqa: E402

VERSION = '2026.12'
HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parents[1] / 'tests/golden'
DATA = HERE / 'data'
FORMATS = ('hf', 'hf4', 'gguf', 'pt', 'bin', 'llmc')
GROUPS = ('architectures', 'shapes', 'types', 'positions', 'precision', 'behaviours', 'tokenizers', 'hooks')


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

    def convert(self, source, name, options=()):
        """The GGUF that mgpt makes of a directory of the suite."""
        out = self.directory / 'gguf' / (name + '.gguf')
        out.parent.mkdir(exist_ok=True)
        done = subprocess.run([self.mgpt, 'convert', str(source), str(out), *options], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Refused('%s: mgpt convert exits %d: %s' % (name, done.returncode, done.stderr.strip().split('\n')[-1]))
        return 'gguf/%s.gguf' % name

    def model_files(self, name, source, options=()):
        """{format: path} of a model whose directory is `source` here, which other formats are made of."""
        files = {}
        if 'hf' in self.formats:
            files['hf'] = 'hf/' + name
            shutil.copytree(source, self.directory / files['hf'])
        if 'gguf' in self.formats:
            files['gguf'] = self.convert(source, name, options)
        return files

    def hf4_files(self, name, config, weights):
        """{hf4: path} of the same model with the configuration of transformers 4."""
        config = dialect.config_of_4(config)
        if config is None or 'hf4' not in self.formats:
            return {}
        self.put('hf4/%s/config.json' % name, json.dumps(config, indent=2) + '\n')
        self.put('hf4/%s/model.safetensors' % name, weights)
        self.put('hf4/%s/tokenizer.model' % name, made.sentencepiece(config['vocab_size']))
        return {'hf4': 'hf4/' + name}

    def other_files(self, name, config, weights):
        """{format: path} in files of other programs; weights: the safetensors file."""
        makers = {'bin': other_formats.llama2c} if other_formats.is_llama2c(config) else {}
        if config['model_type'] == 'gpt2':
            makers = {'pt': other_formats.nanogpt} if config['activation_function'] == 'gelu' else {'llmc': other_formats.llm_c}
        files = {}
        for kind in [kind for kind in makers if kind in self.formats]:
            tensors = {key: data if len(data) == 4 * math.prod(shape) else made.widened(data)
                       for key, (shape, data) in made.stored(weights).items()}
            if kind == 'bin':
                n_vocab = config['vocab_size']
                self.put('bin/tok%d.bin' % n_vocab, other_formats.llama2c_tokenizer(made.vocabulary(n_vocab)))
            ends = {'pt': '.pt', 'bin': '.bin', 'llmc': '.bin'}
            files[kind] = self.put('%s/%s%s' % (kind, name, ends[kind]), makers[kind](config, tensors))
        return files

    def add(self, case):
        if case['files']:
            self.cases.append(case)


def golden_notes():
    """{directory: what it exercises} of tests/golden: table.md, and README.md for quantised models."""
    notes = {}
    tables = (GOLDEN / 'table.md').read_text() + (GOLDEN / 'README.md').read_text()
    for names, _, what in re.findall(r'^\| (`.*?`) \| (`[^|]+) \| ([^|]+) \|', tables, re.M):
        notes.update((name, re.sub('`', '', what)) for name in re.findall(r'`(\w+)`', names))
    return notes


def npz_member(path, name):
    """The .npy file in a NumPy archive."""
    with zipfile.ZipFile(path) as archive:
        return archive.read(name + '.npy')


def npz(members):
    """An archive of .npy files, without dates."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w') as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name + '.npy'), data)
    return out.getvalue()


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
            (copy / 'tokenizer.model').write_bytes(made.sentencepiece(config['vocab_size']))
            case = {'id': name, 'group': 'architectures', 'what': notes[name],
                    'files': suite.model_files(name, copy),
                    'ids': suite.put_ids(name, npy_ids(npz_member(source / 'ref.npz', 'tokens'))),
                    'ref': suite.put('ref/%s.npy' % name, npz_member(source / 'ref.npz', 'logits'))}
            case['files'].update(suite.other_files(name, config, source / 'model.safetensors'))
        if 'quantization' in config or 'quantization_config' in config:
            case['integer'] = True
        if config.get('dtype') == 'bfloat16':
            case['bfloat16'] = True
        suite.add(case)


def lines_of(name):
    """The objects of a file of JSON Lines in data/."""
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def write_made(suite, group):
    """A group of models whose weights are made from a hash, in bfloat16."""
    models = {model['id']: model for model in lines_of('models.jsonl')}
    for line in lines_of('cases.jsonl'):
        if line['group'] == group:
            write_made_case(suite, line, models[line['id']])


def write_made_case(suite, line, model):
    name, config, options = line['id'], model['config'], line.pop('convert', ())
    weights = made.safetensors(made.model_tensors(model), model['config']['dtype'])
    with tempfile.TemporaryDirectory() as place:
        source = pathlib.Path(place) / name
        source.mkdir()
        (source / 'config.json').write_text(json.dumps(config, indent=2) + '\n')
        (source / 'model.safetensors').write_bytes(weights)
        (source / 'tokenizer.model').write_bytes(made.sentencepiece(config['vocab_size']))
        files = suite.model_files(name, source, options)
        files.update(suite.other_files(name, config, source / 'model.safetensors'))
    files.update({} if options else suite.hf4_files(name, config, weights))
    refs = [suite.put('ref/' + path.name, path.read_bytes())
            for path in [DATA / 'ref' / (name + end + '.npy') for end in
                         ['', *('.%d' % (i + 1) for i in range(len(line.get('also', ()))))]]]
    ids = made.token_ids(name, line.pop('n'), config['vocab_size'])
    case = {**line, 'files': files, 'ids': suite.put_ids(name, ids), 'ref': refs[0]}
    if config['dtype'] == 'bfloat16':
        case['bfloat16'] = True
    if 'also' in line:
        case['also'] = [{'ref': ref, 'why': why} for ref, why in zip(refs[1:], line['also'])]
    suite.add(case)


def write_types(suite):
    """Group types: every matrix of a Llama in one element type, whose reference is NumPy's (reference_types.py)."""
    for line in lines_of('types.jsonl'):
        name, files = line['id'], {}
        if 'gguf' in suite.formats:
            files['gguf'] = suite.put('gguf/%s.gguf' % name, gguf_file.type_model(name, line['type'], line['power']))
        case = {'id': name, 'group': 'types', 'what': 'every matrix is ' + line['type'], 'files': files,
                'ids': suite.put_ids(name, made.token_ids(name, line['n'], gguf_file.VOCAB)),
                'ref': suite.put('ref/%s.npy' % name, (DATA / 'ref' / (name + '.npy')).read_bytes())}
        if line['type'] not in ('F32', 'F16', 'BF16'):
            case['integer'] = True
        if line['type'] == 'BF16':
            case['bfloat16'] = True
        suite.add(case)


# Models whose behaviours are cases: full layers, windows, learned positions, ALiBi, experts, short convolutions.
BEHAVING = ('llama_64', 'gpt2_64', 'gemma3_64', 'cohere2_64', 'qwen2_window_64', 'olmo2_64', 'gpt_neox_64', 'falcon_64',
            'mixtral_64', 'bloom_64', 'nanochat_64', 'lfm2_64')
HOW = {'--step': 'token by token', '--chunk 5': 'five tokens at a time', '--batch 3': 'next to two other texts',
       '--rewind': 'after a wrong half that is taken back', '--fork': 'the second half in a copy of the session'}
FAR_BEHAVING = {'far_window': '--chunk 64', 'far_gemma3': '--chunk 64', 'far_lfm2': '--chunk 64', 'far_longrope': '--chunk 64'}


def write_behaviours(suite):
    """Group behaviours: the same logits by another way."""
    plain = {case['id']: case for case in suite.cases}
    for name, how in [*((name, how) for name in BEHAVING for how in HOW), *FAR_BEHAVING.items()]:
        if name not in plain:
            raise Refused('--groups: behaviours has models of shapes and positions: name these groups, too', 2)
        case = {**plain[name], 'id': '%s%s' % (name, how.replace('--', '.').replace(' ', '_')), 'group': 'behaviours',
                'kind': 'behaviour', 'how': how, 'like': name}
        case['what'] = '%s: %s' % (HOW.get(how, '64 tokens at a time'), plain[name]['what'])
        case['files'] = {kind: path for kind, path in case['files'].items() if kind in ('hf', 'hf4', 'gguf')}
        suite.add(case)


# Inner values that the golden references hold: the end of a case's name, the ends of their names.
INNER = {'stream': ('.hook_resid_pre', '.hook_resid_post', '.hook_out'), 'pattern': ('.hook_pattern',),
         'qk': ('.hook_q', '.hook_k', '.hook_rot_q', '.hook_rot_k')}


def write_hooks(suite):
    """Group hooks: inner values of the golden models. Their references call the output of the last norm, with its gain,
    ln_final.hook_normalized; in TransformerLens that name has no gain."""
    golden = [case for case in suite.cases if case['group'] == 'architectures']
    if not golden:
        raise Refused('--groups: hooks has models of architectures: name this group, too', 2)
    for plain in golden:
        with zipfile.ZipFile(GOLDEN / plain['id'] / 'ref.npz') as archive:
            arrays = {entry[:-4].replace('normalized', 'out'): archive.read(entry) for entry in archive.namelist()}
        for end, kinds in INNER.items():
            names = sorted((name for name in arrays if name.endswith(kinds)), key=lambda name: name.startswith('ln_final'))
            if names:
                name, files = '%s.%s' % (plain['id'], end), {kind: path for kind, path in plain['files'].items() if kind in ('hf', 'gguf')}
                suite.add({**plain, 'id': name, 'group': 'hooks', 'kind': 'hooks', 'files': files, 'names': names,
                           'ref': suite.put('ref/%s.npz' % name, npz({name: arrays[name] for name in names}))})


WRITERS = {'hooks': write_hooks, 'architectures': write_golden, 'types': write_types, 'behaviours': write_behaviours,
           'tokenizers': lambda suite: tokenizer_cases.write_tokenizers(suite, DATA / 'tok'),
           **{group: functools.partial(write_made, group=group) for group in ('shapes', 'positions', 'precision')}}


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


def write_archive(directory, out):
    """gpt-suite-VERSION/... as .tar.xz, without dates and owners. Files of a model are together: xz finds what they share."""
    def entry(info):
        info.mtime, info.uid, info.gid, info.uname, info.gname, info.mode = 0, 0, 0, '', '', 0o644
        return info

    def place(path):
        return path.relative_to(directory).parts[1:2], str(path)

    with tarfile.open(out, 'w:xz', format=tarfile.USTAR_FORMAT, preset=6) as archive:
        for path in sorted((p for p in directory.rglob('*') if p.is_file()), key=place):
            archive.add(path, 'gpt-suite-%s/%s' % (VERSION, path.relative_to(directory)), filter=entry)


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
        for group in sorted(groups, key=GROUPS.index):
            WRITERS[group](suite)
        finish(suite)
        if archive:
            write_archive(suite.directory, archive)
        if directory.exists():
            directory.rmdir()
        suite.directory.rename(directory)
    return suite.cases


def main(argv=None):
    parser = argparse.ArgumentParser(prog='suite write', description='Writes the conformance suite into a new directory.')
    parser.add_argument('directory', metavar='DIR')
    parser.add_argument('--formats', metavar='LIST', help='of %s; default: all' % ', '.join(FORMATS))
    parser.add_argument('--groups', metavar='LIST', help='of %s; default: all' % ', '.join(GROUPS))
    parser.add_argument('--archive', metavar='FILE', help='also the .tar.xz that is released')
    parser.add_argument('--mgpt', default=os.environ.get('MGPT', str(HERE.parents[1] / 'build/tools/mgpt')), metavar='PATH')
    args = parser.parse_args(argv)
    try:
        formats, groups = chosen(args.formats, FORMATS, '--formats'), chosen(args.groups, GROUPS, '--groups')
        cases = write(args.directory, formats, groups, args.mgpt, args.archive)
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
