"""Hashes of texts that a test sees run by run, in a file of lines "name hash". They show that something changed; with
MGPT_OLD=PROGRAM a test prints the first lines that are not what that program prints. MGPT_WRITE=1 writes the file."""
import difflib
import os
import pathlib
import re
import sys
import zlib

OLD = os.environ.get('MGPT_OLD')


ROOT = pathlib.Path(__file__).resolve().parents[2]
# What is the machine's: lines, and values in JSON.
LINES = re.compile(r'(?m)^.*(^cosine |^wrote \d+ bytes|^threads |^kernels |"threads"|tokens/s|tok/s| GB/s|seconds| ms\b|compiler|version).*\n')
VALUES = re.compile(r'"(isa|seconds|file|path)":("[^"]*"|[-\d.e]+)')
# Runs whose output is the machine's, the C library's error, the size of a page, or a path that is shortened where it is long.
RUNS = re.compile(r'ROOT/LICENSE|bench|--self|--attest|--isa|--version|^info\b|^lab .*-o|^$|machine')


def plain(text, whole=False):
    """Numbers with five digits, none of those that are rounding alone; without what is the machine's, or whole."""
    def digits(found):
        value = float(found[0])
        return '~0' if abs(value) < 1e-11 else '%.5g' % value
    text = (text if whole else VALUES.sub(r'"\1"', LINES.sub('', text))).replace(' 0 nats', ' ~0 nats').replace('at most 0 at', 'at most ~0 at')
    return re.sub(r'(?<![\w.])\d+(\.\d+(e[-+]?\d+)?|e[-+]?\d+)(?![\w])', digits, text)


class Hashes:
    def __init__(self, path, only=None, whole=False):
        """only: the first words of the names that this run has. whole: nothing in the texts is the machine's."""
        self.path, self.whole, self.made, self.differ = pathlib.Path(path), whole, {}, []
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.was = {name: value for name, value in (line.rsplit(' ', 1) for line in lines) if not only or name.split(' ')[0] in only}

    def note(self, name, text, again=None):
        """again(PROGRAM): the same text of another program."""
        name = name.replace('\n', ' ')
        while name in self.made:
            name += '*'
        self.made[name] = '%08x' % zlib.crc32(plain(text, self.whole).encode())
        if self.made[name] == self.was.get(name):
            return
        self.differ.append(name)
        if OLD and again:
            print('# ' + name)
            pair = [plain(t, self.whole).splitlines() for t in (again(OLD), text)]
            found = [x for x in difflib.unified_diff(*pair, 'old', 'new', n=0, lineterm='') if x[0] in '+-'][2:]
            print('\n'.join('#   ' + x[:300] for x in found[:6]))

    def end(self):
        """The names of runs whose texts differ, or that are no longer run."""
        if 'MGPT_WRITE' in os.environ:
            self.path.write_text(''.join('%s %s\n' % pair for pair in self.made.items()))
            return []
        return self.differ + [name for name in self.was if name not in self.made]


def main():
    """hashes.py FILE RUNS FOLDER: the runs of a shell test, \\1 before each; FOLDER is its temporary one."""
    path, runs, folder = sys.argv[1:]
    if not os.path.exists(runs):
        return
    text = pathlib.Path(runs).read_bytes().decode('latin-1').replace(folder, 'TMP').replace(str(ROOT), 'ROOT')
    hashes = Hashes(path)
    for part in text.split('\1')[1:]:
        words, printed = part.split('\n', 1)
        if not RUNS.search(words) and not printed.endswith('exit code 5\n'):
            hashes.note(words[:90], printed)
    differ = [run for run in hashes.end() if run in hashes.made]  # some are skipped on some machines
    print('\n'.join('differs: ' + run for run in differ[:20]))
    sys.exit(bool(differ))


if __name__ == '__main__':
    main()
