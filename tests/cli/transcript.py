"""Whole outputs of many runs against a stored file of hashes: a line per run, its name and the hash of all that it told.

MGPT_WRITE=1 writes the file again. MGPT_OLD=PROGRAM runs another program too and prints the first line that differs.
"""
import concurrent.futures
import difflib
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ['MGPT_SOURCE_ROOT'])
MGPT = os.environ['MGPT']
TINY = re.compile(r'\d(?:\.\d+)?e-1[2-9]')
LONG = re.compile(r'(\d\.\d{5})\d+')


def told(words, folder, typed='', mgpt=MGPT):
    """Exit code, both outputs, without the folder's name and with numbers that have five digits after the point."""
    link = pathlib.Path(folder) / 'ROOT'  # messages shorten long paths
    link.symlink_to(ROOT)
    done = subprocess.run([mgpt, *(str(word).replace(str(ROOT), 'ROOT') for word in words)], input=typed.replace(str(ROOT), 'ROOT'),
                          capture_output=True, text=True, errors='replace', cwd=folder, check=False)
    link.unlink()
    text = 'exit code %d\n%s--\n%s' % (done.returncode, done.stdout, done.stderr)
    return LONG.sub(r'\1', TINY.sub('~0', text)).replace(str(folder), 'FOLDER').replace(str(ROOT), 'ROOT')


def hashed(text):
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def first_difference(old, new):
    lines = [line for line in difflib.unified_diff(old.split('\n'), new.split('\n'), 'old', 'new', 'now', 'now', 0) if line[:2] not in ('--', '++')]
    return '\n'.join(line[:300] for line in lines[:6])


def made_by(runs, mgpt):
    """[(name, text)] of runs: (name, function of a program and a new folder that gives a text)."""
    def one(run):
        with tempfile.TemporaryDirectory() as folder:
            return run[0], run[1](mgpt, pathlib.Path(folder).resolve())
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, runs))


def compare(path, runs):
    """Runs all, and ends the test: its exit code says whether every text is that of the file."""
    made = made_by(runs, MGPT)
    lines = ['%s: %s' % (name, hashed(text)) for name, text in made]
    if os.environ.get('MGPT_WRITE'):
        path.write_text('\n'.join(lines) + '\n')
    want = path.read_text().splitlines()
    wrong = [i for i, line in enumerate(lines) if line not in want]
    print('%d runs, %d of them as in %s' % (len(lines), len(lines) - len(wrong), path.name))
    for i in wrong[:20]:
        print('FAILED:', lines[i])
        if 'MGPT_OLD' in os.environ:
            print(first_difference(made_by([runs[i]], os.environ['MGPT_OLD'])[0][1], made[i][1]))
        elif i == wrong[0]:
            print('\n'.join(line[:200] for line in made[i][1].split('\n')[:30]))
    if set(want) - set(lines):
        print('no run gives', sorted(set(want) - set(lines))[:5])
    sys.exit(lines != want)
