"""What convert writes the engine opens: numbers of config.json of golden models, one at a time.

numbers_open.py MGPT GOLDEN [all]. A converted file opens; a refusal is exit code 3, one line, and no
file. Without "all" only the numbers and models below, which had 18 files that did not open.
"""
import copy
import json
import os
import subprocess
import sys
import tempfile

MGPT, GOLDEN = sys.argv[1:3]
ALL = sys.argv[3:] == ['all']
MODELS = 'cohere2 falcon gemma2 gemma3 granitemoe hunyuan minicpm mistral_yarn mpt nanochat olmo'
WORDS = 'eps epsilon soft scal theta mult clip alpha factor base emb depth'.split()
VALUES = [0, 1, -1, 1e-40, 1e-7, 1e7, 1e13, 0.5] if ALL else [0, 1e-40, 1e13]


def numbers(value, at=()):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, at + (key,))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if ALL or (isinstance(value, float) and any(word in at[-1] for word in WORDS)):
            yield at


def changed(config, at, value):
    config = copy.deepcopy(config)
    place = config
    for key in at[:-1]:
        place = place[key]
    place[at[-1]] = value
    return config


def run(*arguments):
    done = subprocess.run([MGPT, *arguments], capture_output=True, timeout=60)
    return done.returncode, done.stderr.decode()


def check(model, folder, config, at, value):
    out = folder + '/out.gguf'
    with open(folder + '/config.json', 'w') as f:
        json.dump(changed(config, at, value), f)
    code, lines = run('convert', folder, out)
    if code == 0:
        code, lines = run('info', out)
        os.unlink(out)
    elif code == 3 and lines.count('\n') == 1 and not os.path.exists(out):
        return 1, 0
    if code:
        print('%s: %s = %g: exit %d: %s' % (model, '.'.join(at), value, code, lines))
    return 0, code != 0


def main():
    refused = wrong = n = 0
    for model in sorted(os.listdir(GOLDEN)) if ALL else MODELS.split():
        source = os.path.abspath(os.path.join(GOLDEN, model))
        if not os.path.exists(source + '/config.json'):
            continue
        with open(source + '/config.json') as f:
            config = json.load(f)
        with tempfile.TemporaryDirectory() as folder:
            for name in os.listdir(source):
                if name not in ('config.json', 'ref.npz'):
                    os.symlink(source + '/' + name, folder + '/' + name)
            for at in numbers(config):
                if at[0] not in ('initializer_range', 'transformers_version'):
                    for value in VALUES:
                        found = check(model, folder, config, at, value)
                        refused, wrong, n = refused + found[0], wrong + found[1], n + 1
    print('%d changes, %d refused, %d wrong' % (n, refused, wrong))
    return 1 if wrong or n < 50 or refused < 20 else 0


sys.exit(main())
