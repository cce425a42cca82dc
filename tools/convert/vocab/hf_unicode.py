"""Makes hf_unicode.inc: sets of characters of Hugging Face's tokenizers, found by asking it about every character.

    pip install tokenizers==0.23.3 && python3 tools/convert/vocab/hf_unicode.py > tools/convert/vocab/hf_unicode.inc

Its Rust crates hold tables of several versions of Unicode (8 for punctuation, 17 for lower case), so no library has
these sets. What utf8proc of any version has right is not listed.
"""
import unicodedata

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

CHARACTERS = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
LIMIT = '14.0.0'
assert unicodedata.unidata_version == LIMIT, f'needs a Python with Unicode {LIMIT}'


def removed(normalizer):
    return {c for c in CHARACTERS if normalizer.normalize_str(chr(c)) == ''}


def bert(**options):
    off = {'clean_text': False, 'handle_chinese_chars': False, 'strip_accents': False, 'lowercase': False}
    return normalizers.BertNormalizer(**{**off, **options})


def wrong_classes():
    """Combining marks of Unicode 14 that are ordered as if they were none."""
    nfd, wrong = normalizers.NFD(), set()
    for c in CHARACTERS:
        if unicodedata.combining(chr(c)):
            for text in ('x' + chr(c) + '\u0334', 'x\u0345' + chr(c)):
                if nfd.normalize_str(text) != unicodedata.normalize('NFD', text):
                    wrong.add(c)
    return wrong


def category(c):
    return unicodedata.category(chr(c))


def ranges(characters):
    out = []
    for c in sorted(characters):
        if out and c == out[-1][1] + 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def put(name, characters, why):
    print(f'/* {why} */')
    print(f'static const uint32_t {name}[][2] = {{')
    cells, line = [f'{{0x{a:X}, 0x{b:X}}},' for a, b in ranges(characters)], '   '
    for cell in cells:
        if len(line) + 1 + len(cell) > 100:
            print(line)
            line = '   '
        line += ' ' + cell
    print(line + '\n};\n')


lower = normalizers.Lowercase()
words = pre_tokenizers.Whitespace()
punctuation = pre_tokenizers.Punctuation('removed')
digits = pre_tokenizers.Digits(True)
in_word = {c for c in CHARACTERS if words.pre_tokenize_str('a' + chr(c)) == [('a' + chr(c), (0, 2))]}

print(f'/* Made by hf_unicode.py with tokenizers {tokenizers.__version__}. Not edited by hand. */\n')
put('hf_marks', removed(normalizers.StripAccents()), 'StripAccents removes these.')
put('hf_nonspacing', removed(bert(strip_accents=True)), 'BertNormalizer removes these accents.')
put('hf_control', removed(bert(clean_text=True)), 'BertNormalizer cleans a text of these.')
put('hf_punctuation', {c for c in CHARACTERS if not punctuation.pre_tokenize_str(chr(c))},
    'Punctuation and BertPreTokenizer.')
put('hf_no_class', wrong_classes() | set(range(0x10D69, 0x10D6E)) | set(range(0x10EFD, 0x10F00)) | {
    0x897, 0x1E08F, 0x11241, 0x11F41, 0x11F42, 0x113CE, 0x113CF, 0x113D0, 0x113E1, 0x113E2, 0x1612F, 0x1E5EE, 0x1E5EF}
    | set(range(0x1E4EC, 0x1E4F0)), 'Marks of Unicode 12 and later are not sorted by class.')
put('hf_new_words', {c for c in in_word if category(c) not in ('Lu', 'Ll', 'Lt', 'Lm', 'Lo', 'Mn', 'Mc', 'Me', 'Nd',
                                                              'Nl', 'Pc')},
    'Characters of words that Unicode 14 has in no such category.')
put('hf_new_numbers', {c for c in CHARACTERS if len(digits.pre_tokenize_str('a' + chr(c))) == 2
                       and category(c)[0] != 'N'}, 'Numbers that Unicode 14 has not.')
put('hf_words', in_word, 'What an added token that is a single word may not touch.')
print('/* Lower case that Unicode 14 has not: from, to. */')
print('static const uint32_t hf_new_lower[][2] = {')
for c in CHARACTERS:
    if lower.normalize_str(chr(c)) != chr(c).lower() and c != 0x130:
        print(f'    {{0x{c:X}, 0x{ord(lower.normalize_str(chr(c))):X}}},')
print('};')
