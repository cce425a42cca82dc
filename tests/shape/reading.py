#!/usr/bin/env python3
"""Numbers of lines that the documents state are true to within 5 %: the blocks of README.md's map, which has every folder
of tools, and the lists of files to read in tests/README.md. README.md is easy to read: its sentences have at most 14 words in
the mean, each table has a heading for every column."""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(os.environ.get('MGPT_SOURCE_ROOT') or pathlib.Path(__file__).parents[2])
CODE = ('.c', '.h', '.inc', '.js', '.css', '.html', '.py', '.sh')


def lines(path):
    """Lines of a file, or of the code in a folder."""
    files = [path] if path.is_file() else [p for p in path.rglob('*') if p.suffix in CODE]
    return sum(p.read_bytes().count(b'\n') for p in files)


def paths(words, base):
    """The files and folders among words: one without its folder is beside the last one that has it."""
    for word in words:
        if word.endswith('/') or '.' in word:
            path = ROOT / word if (ROOT / word).exists() else base / word
            if not path.exists():
                sys.exit('not ok: %s is not in the tree' % word)
            base = path.parent
            yield path


def blocks():
    """(what, stated lines, paths) of README.md's map: a line "NAME: N lines", then lines indented by two spaces."""
    text = (ROOT / 'README.md').read_text(encoding='utf-8').partition('## Map of the source')[2]
    for m in re.finditer(r'^(\w[^:\n]*): ([\d,]+) lines.*\n((?:  .*\n)+)', text, re.M):
        rows = [row[2:].partition('  ')[0].split() for row in m[3].splitlines() if row[2] != ' ']
        yield 'README.md: ' + m[1], m[2], [p for row in rows for p in paths(row, ROOT)]


def lists():
    """(what, stated lines, paths) of tests/README.md."""
    text = (ROOT / 'tests/README.md').read_text(encoding='utf-8').partition('## Build and test')[0]
    first, _, second = text.partition('\n| product |')
    files = [w for row in re.findall(r'^\| (`.*?) \|', first, re.M) for w in re.findall(r'`([^`]+)`', row)]
    yield 'tests/README.md: Read first', re.search(r'about ([\d,]+) lines', first)[1], list(paths(files, ROOT))
    for m in re.finditer(r'^\| (\w+) \| ([\d,]+) \| (.*?) \|', second, re.M):
        yield 'tests/README.md: ' + m[1], m[2], list(paths(re.findall(r'`([^`]+)`', m[3]), ROOT))


def sentence_lengths(text):
    """Words of each sentence outside code, tables and headings."""
    text = re.sub(r'```.*?```', '', text, flags=re.S)
    lines = [line for line in text.splitlines() if not line.startswith(('|', '#', '!', '<'))]
    text = re.sub(r'`[^`]*`', 'Code', re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', '\n'.join(lines)))
    for part in re.split(r'\n\s*\n|\n(?=- )', text):
        for sentence in re.split(r'(?<=[.!?:])\s+(?=[A-Z*"(])', ' '.join(part.split())):
            if sentence:
                yield len(re.findall(r"[\w'./%-]+", sentence))


def ease():
    """What is hard to read in README.md."""
    text = (ROOT / 'README.md').read_text(encoding='utf-8')
    lengths = list(sentence_lengths(text))
    if len(lengths) < 60 or sum(lengths) > 14 * len(lengths):
        yield '%d sentences of %.1f words in the mean, expected at most 14' % (len(lengths), sum(lengths) / len(lengths))
    for heading in re.findall(r'^(\|.*)\n\| ?---', text, re.M):
        if not all(cell.strip() for cell in heading.strip('|').split('|')):
            yield 'a column without a heading: ' + heading


def main():
    bad, rows = 0, [*blocks(), *lists()]
    for what, stated, files in rows:
        number, found = int(stated.replace(',', '')), sum(map(lines, files))
        wrong = not files or abs(number - found) > 0.05 * found
        bad += wrong
        print('%s %s: %s lines%s' % ('not ok' if wrong else 'ok', what, stated, ', found %d' % found if wrong else ''))
    named = {p for _, _, files in blocks() for p in files}
    missing = [p.name for p in sorted((ROOT / 'tools').iterdir()) if p.is_dir() and p not in named and p.name[0] not in '._']
    bad += bool(missing)
    print(*['not ok README.md: the map has not', *missing] if missing else ["ok README.md: the map has all folders of tools"])
    hard = list(ease())
    bad += bool(hard)
    print(*['not ok README.md: ' + line for line in hard] or ['ok README.md: sentences and headings of tables'], sep='\n')
    if len(rows) != 8:
        print('not ok: %d numbers, expected 3 blocks and 5 lists' % len(rows))
    return bad > 0 or len(rows) != 8


if __name__ == '__main__':
    sys.exit(main())
