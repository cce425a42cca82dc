"""Whole outputs of many runs against a stored file of hashes (hashes.py)."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

from hashes import Hashes

ROOT = pathlib.Path(os.environ['MGPT_SOURCE_ROOT'])
MGPT = os.environ['MGPT']


def told(words, folder, typed='', mgpt=MGPT):
    """Exit code and both outputs, without the folder's name."""
    link = pathlib.Path(folder) / 'ROOT'  # messages shorten long paths
    link.symlink_to(ROOT)
    done = subprocess.run([mgpt, *(str(word).replace(str(ROOT), 'ROOT') for word in words)], input=typed.replace(str(ROOT), 'ROOT'),
                          capture_output=True, text=True, errors='replace', cwd=folder, check=False)
    link.unlink()
    text = 'exit code %d\n%s--\n%s' % (done.returncode, done.stdout, done.stderr)
    return text.replace(str(folder), 'FOLDER').replace(str(ROOT), 'ROOT')


def text_of(run, mgpt=MGPT):
    with tempfile.TemporaryDirectory() as folder:
        return run(mgpt, pathlib.Path(folder).resolve())


def compare(name, runs):
    """Runs all, [(name, function of a program and a new folder that gives a text)], and ends the test: its exit code says
    whether every text is that of hashes/NAME.txt."""
    hashes = Hashes(pathlib.Path(__file__).parent / 'hashes' / (name + '.txt'), whole=True)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(text_of, [run for _, run in runs]))
    for (words, run), text in zip(runs, texts):
        hashes.note(words, text, lambda old, run=run: text_of(run, old))
    differ = hashes.end()
    print('%d runs, %d not as in hashes/%s.txt' % (len(runs), len(differ), name))
    print('\n'.join('FAILED: ' + words for words in differ[:20]))
    if differ and differ[0] in hashes.made:
        print('\n'.join(line[:200] for line in texts[list(hashes.made).index(differ[0])].split('\n')[:30]))
    sys.exit(bool(differ))
