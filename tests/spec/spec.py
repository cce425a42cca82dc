#!/usr/bin/env python3
"""The reference program and the library give the same hash for every shipped and every golden model.

    spec.py MGPT [EMULATOR ...] PASS      the program of mgpt, and pass.c compiled
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), '../..'))
MGPT, PASS = sys.argv[1], sys.argv[2:]
N = 16  # tokens, more than a window of the golden models


def output(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def self_tokens(model):
    """The tokens of check --self -n N."""
    info = json.loads(output(MGPT, 'info', model, '--json').splitlines()[0])
    return [str((7919 * i * i + 13 * i + 5) % info['n_tokens']) for i in range(N)]


def models(work):
    for name in ('names', 'shakespeare'):
        yield name, os.path.join(ROOT, 'weights', name + '.gguf')
    golden = os.path.join(ROOT, 'tests/golden')
    if '\n  convert ' not in output(MGPT, '--help'):
        return  # -Dconvert=disabled: only GGUF files are models
    step = 3 if os.environ.get('MGPT_SANITIZED') == '1' else 1
    for name in sorted(os.listdir(golden))[::step]:
        if os.path.exists(os.path.join(golden, name, 'config.json')):
            path = os.path.join(work, name + '.gguf')
            output(MGPT, 'convert', os.path.join(golden, name), path)
            yield name, path


def main():
    differ = 0
    with tempfile.TemporaryDirectory() as work:
        for name, path in models(work):
            ours = output(MGPT, 'check', '--self', '-n', str(N), path).splitlines()[-1].split()[0]
            theirs = output(*PASS, path, *self_tokens(path)).strip()
            print('%-16s check --self %s  pass.c %s' % (name, ours, theirs))
            differ += ours != theirs
    sys.exit(differ > 0)


main()
