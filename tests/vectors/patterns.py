#!/usr/bin/env python3
"""Which texts match which regular expressions, by Python's re: `python3 patterns.py > patterns.txt`

Rows: pattern, text, 1 or 0 (re.fullmatch, \\d \\w \\s of ASCII), 1 or 0 (some of the texts that match begin with it: known by
trying all that are listed). Pattern and text are in hexadecimal, - is empty.
"""
import itertools
import re

PATTERNS = ['a', 'ab|cd', 'a*', 'a+b?', '(ab)*c', '(?:a|b){2,3}', 'a{0}b', 'a{2}', 'a{1,}b{0,2}', '[a-c]x', '[^a]', '[^a-cx]b', '.', '..', 'a.b',
            r'\d+', r'\w\s\w', r'\D', r'[\d.]+', r'a\.b', r'\x41\n', 'é', '[à-ÿ]+', '[^é]', '[а-я]{1,2}', '€|ü', '.é', '(a|ab)(c|bc)', '(a*)*b',
            '(|a)b', '^a$', '[]a]+', '[a-]+', r'[\]x]', 'a??b', '((a|b)*c){2}', '[一-鿿]', '\U0001F600', '[\U0001F300-\U0001F6FF]', '', 'x{0,3}y', r'\S', r'\W+', r'[\S]x', r'[^\W]', r'[\w-]+', '[a-b-]+', r'[^\d\s]', r'\u00e9|\x61|\n', 'a{2}?b']
PARTS = ['', 'a', 'b', 'c', 'x', 'y', 'é', 'ü', '€', 'я', '中', '\U0001F600', '\n', ' ', '1', '.', '-', ']', 'A']


def row(text):
    return text.encode().hex() or '-'


def main():
    print('# Made by patterns.py.')
    texts = sorted({''.join(p) for n in (1, 2) for p in itertools.product(PARTS, repeat=n)} |
                   {'abc', 'aab', 'abab', 'ababc', 'abcabc', 'acbc', 'aaab', 'bbb', 'aba', 'aabb', 'A\n', '12.5', 'a b', 'xxy', 'xxxy', 'xxxxy', 'àéÿ', 'a.b', 'axb'})
    for pattern in PATTERNS:
        compiled = re.compile(pattern, re.ASCII)
        whole = {t for t in texts if compiled.fullmatch(t)}
        begins = {t[:i] for t in whole for i in range(len(t) + 1)}
        for text in texts:
            if text in begins or len(text) == 1 or hash_of(pattern + text) % 12 == 0:
                print(row(pattern), row(text), int(text in whole), int(text in begins))


def hash_of(text):
    return sum(ord(c) * 31 ** i for i, c in enumerate(text)) >> 2


if __name__ == '__main__':
    main()
