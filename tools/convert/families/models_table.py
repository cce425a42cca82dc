#!/usr/bin/env python3
"""Writes the READMEs' tables of what mgpt runs, from models.txt (`models`) and the readers' tables in C.

    models_table.py            the lines between <!-- models --> and <!-- end of models --> of README.md, and those between
                               <!-- architectures --> and <!-- end of architectures --> of tools/convert/README.md
    models_table.py --check    writes nothing; ends with 1 where the lines are others
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import models  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def read(*parts):
    """The text of a file of the repository."""
    return ROOT.joinpath(*parts).read_text(encoding='utf-8')


def listed(folder, file, table):
    """What is between the braces of a C table."""
    return re.search(r'\b%s\[\] = \{\n(.*?)\n?\};' % table, read('tools', 'convert', folder, file), re.S)[1]


def containers():
    """Names of the readers (core/readers.c)."""
    source = read('tools', 'convert', 'core', 'readers.c')
    words = dict(re.findall(r'^#define (\w+) "(.*)"$', source, re.M))
    rows = re.findall(r'^    \{(?:"([^"]+)"|(\w+)),', listed('core', 'readers.c', 'ckpt_readers') + '\n', re.M)
    return [name or words[word] for name, word in rows]


def programs():
    """Names of the programs whose tensors are known (from_torch.c), but the one that models.txt describes."""
    sources = '\n'.join(p.read_text(encoding='utf-8') for p in sorted(HERE.glob('*.c')))
    names = dict(re.findall(r'struct torch_mapping (\w+) = \{\s*"([^"]+)"', sources))
    order = re.findall(r'&(\w+)', listed('families', 'from_torch.c', 'mappings'))
    return [names[word] for word in order if word != 'hf_mapping']


def sections():
    """[title of a part of models.txt, names of its models]; a type without names belongs to a wrapper."""
    types = models.parse(HERE / 'models.txt')
    named = {t.line: ' '.join(t.values['models']).split(', ') for t in models.claimed(types) if 'models' in t.values}
    wrapped = {like.strip('"') for _, like, _, _, _ in models.WRAPPERS}
    unnamed = [t.name for t in models.claimed(types) if 'models' not in t.values and t.name not in wrapped]
    if unnamed:
        sys.exit('models.txt: no "models" of ' + ', '.join(unnamed))
    found = []
    for number, line in enumerate(read('tools', 'convert', 'families', 'models.txt').splitlines(), 1):
        wraps = re.search(r' wraps \S+; models ([^;]+);', line)
        if line.startswith('# ---- '):
            found.append((line[7:].partition(':')[0], []))
        elif number in named or wraps:
            found[-1][1].extend(named.get(number) or wraps[1].split(', '))
    return [(title, names) for title, names in found if names]


def table():
    """The lines."""
    rows = [('files', containers()), ('programs, known by the names of their tensors', programs())]
    rows += [('Hugging Face: ' + title, names) for title, names in sections()]
    return '| from | what mgpt reads |\n| --- | --- |\n' + ''.join('| %s | %s |\n' % (title, ', '.join(names)) for title, names in rows)


def architectures():
    """The lines of the other table: GGUF's architectures, in the order of models.txt, and their models."""
    named = {}
    for t in models.claimed(models.parse(HERE / 'models.txt')):
        named.setdefault(t.values['arch'][0], []).extend([' '.join(t.values['models'])] if 'models' in t.values else [])
    rows = ''.join('| `%s` | %s |\n' % (name, ', '.join(texts)) for name, texts in named.items())
    return '| architecture (GGUF name) | models |\n| --- | --- |\n' + rows


def put(path, name, lines, check):
    """Writes the lines between the two marks of a file, or ends where they are others."""
    text = path.read_text(encoding='utf-8')
    begin, end = '<!-- %s -->\n' % name, '<!-- end of %s -->\n' % name
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        sys.exit('%s: expected the lines %s and %s' % (path, begin.strip(), end.strip()))
    wanted = before + begin + lines + end + after
    if check and wanted != text:
        sys.exit('%s: another table of %s than models.txt and the readers make: run models_table.py' % (path, name))
    if not check:
        path.write_text(wanted, encoding='utf-8')


def main():
    check = sys.argv[1:] == ['--check']
    put(ROOT / 'README.md', 'models', table(), check)
    put(ROOT / 'tools/convert/README.md', 'architectures', architectures(), check)


if __name__ == '__main__':
    main()
