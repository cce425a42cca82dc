#!/usr/bin/env python3
"""One name, one thing, in src, tools and tests: no static function is defined in more than two files, no struct in
two. No file has more than 450 lines."""
import collections
import os
import re
import sys

ROOT = os.environ.get('MGPT_SOURCE_ROOT', os.path.join(os.path.dirname(__file__), '../..'))
LINES_MOST = 450
FUNCTION = re.compile(r'^static [^;={}()]*?\b(\w+)\([^;{}]*\)\s*\{', re.M)
STRUCT = re.compile(r'^struct (\w+)\s*\{', re.M)


def sources():
    """(path below the root, text) of every file of code."""
    for part in ('src', 'tools', 'tests'):
        for folder, _, names in os.walk(os.path.join(ROOT, part)):
            for name in sorted(names):
                if name.endswith(('.c', '.h', '.inc', '.py', '.sh')):
                    path = os.path.join(folder, name)
                    with open(path, encoding='utf-8') as f:
                        yield os.path.relpath(path, ROOT), f.read()


def main():
    found = {'static function': (FUNCTION, 2, collections.defaultdict(set)),
             'struct': (STRUCT, 1, collections.defaultdict(set))}
    wrong = []
    for path, text in sources():
        n_lines = text.count('\n')
        if n_lines > LINES_MOST:
            wrong.append('%s: %d lines, at most %d' % (path, n_lines, LINES_MOST))
        if path.endswith(('.c', '.h', '.inc')):
            for pattern, _, files in found.values():
                for name in pattern.findall(text):
                    files[name].add(path)
    for kind, (_, most, files) in found.items():
        wrong += ['%s %s: in %d files, at most %d: %s' % (kind, name, len(paths), most, ' '.join(sorted(paths)))
                  for name, paths in sorted(files.items()) if len(paths) > most]
    for line in wrong:
        print('not ok', line)
    print('%d wrong' % len(wrong))
    return bool(wrong)


if __name__ == '__main__':
    sys.exit(main())
