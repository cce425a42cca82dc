"""Makes tok_regex.txt and tok/regex.json: what Hugging Face's tokenizers removes from texts by patterns in Oniguruma's
syntax. The tokens are single characters, so that the ids are the characters that no match holds. A result is a line of
hashes as in tok_split.txt, for the texts here; patterns and texts are in hex.

    pip install tokenizers==0.23.3 && python3 tests/vectors/tok_regex.py tests/vectors
"""
import json
import sys

import tokenizers
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from tok_split import fnv

TEXTS = [
    "", "a", "foo bar\nbaz\r\n\tqux  ", "ab aB Ab AB abab aab", "0x1F ff 9 \u0663 \u00bd \u2167", "x_1 y\u00e9 \u00c9t\u00e9 \u01c5",
    "\u4e2d\u6587 \u3072\u3089\u304c\u306a \u30ab\u30bf \ud55c\uae00 \u03b1\u03b2\u0393 \u0436\u0416", "a.b-c{d}e(f)[g]^h$i|j*k+l?m\\n",
    "a\n\nb\n", "line one\nline two\r\nend", "aaa aaaa {2} a{,2} aa", "\u180e \u2003\u00a0\u0085\u2028\u3000z", "\u00b2\u00b3\u00b9\u00bc \u24b6\u24e9 \U0001f130x",
    "\v\f\a\x1b \x7f", "e\u0301 a\u0308o \u0301", "foofoobar barfoo", "don't I'LL we'Re",
]

PATTERNS = [
    r"\s+", r"\S+", r"\w+", r"\W+", r"\d", r"\D+", r"\h+", r"\H", r"[\s\d]", r"[\S]", r"[\D]+", r"[\w.]+", r"[\h]", r"[^\s\p{L}]+",
    r"\n|\r\n", r"\t", r"\v", r"\f", r"\a|\e", r"[\n\v]", r"\x41", r"\x{4e2d}", r"\u00e9", r"[\x61-\x63\u0436]", r"\x{1f130}",
    r"\p{Lu}", r"\P{L}", r"\p{^L}+", r"\P{^L}+", r"\p{Han}+", r"\p{Greek}|\p{Hiragana}", r"[\p{Cyrillic}\p{N}]", r"\p{M}", r"\p{Common}+", r"[^\s]\P{M}+\P{N}", r"\p{^Lu}{1,}\P{Ll}",
    r"(?i)ab", r"(?i:ab)b?", r"(?i:a(?:b))", r"(?i:a)b", r"(?i:'ll|'re)", r"(?i)[a-c]+",
    r"(?<=a)b", r"(?<!a)b", r"b(?=\s)", r"a(?!b)", r"(?>a+)b", r"(?:fo)+", r"(foo)+", r"fo{2}", r"a{2,}", r"a{,2}b", r"a{1,2}", r"c{d}", r"a{", r"\{d\}",
    r"a|ab", r"ab|a", r"^.", r".$", r"\Aa", r"\s\z", r"\n\Z", r"\bfoo", r"foo\b", r"\Bo\B", r".", r"a.b", r"\.|\-|\\", r"[\]\[^]", r"[-a]", r"o*?b",
    r"a+?", r"o++", r"(?:a|b)*b", r"[^\n]+\n", r"$", r"^",
    # POSIX brackets, classes in classes, intersections
    *("[[:%s:]]+" % name for name in "alnum alpha ascii blank cntrl digit lower punct space upper xdigit word".split()),
    r"[[:^alpha:]]", r"[^[:alpha:]\s]", r"[[:^punct:]b]+", r"[a[b-d]]+", r"[^a[b-d]\s]+", r"[a[^\s\p{L}]]", r"[a-z&&[^aeiou]]+", r"[^a-z&&[^aeiou]]",
    r"[\p{L}&&[^a-f]&&\p{Ll}]+", r"[a-f&&b-z&&^c]", r"[[\W]&&[. ]]+", r"[\W\d]", r"[\H]+", r"[a&b]", r"[a[-b]-]", r"[[a-c][^d-z&&\w]]+", r"[[[a]b]c]{2,}",
    # ... that are negated, with a class inside that is more than its members
    r"[^a[^b-d]]", r"[^[^\s\p{L}]b]+", r"[^a[b-z&&[^c]]]+", r"[^\s[^a-f&&\w]]", r"[^[^a][^b]]", r"[^a-c[^[^d]e]]+", r"[^a[^b-d]&&[^f]]+",
    # back references
    r"(a)\1", r"(\w)\1+", r"(o+)\w*?\1", r"(?:(a)|b)*\1", r"(.)(.)\2\1", r"(?<q>[a-f])[^\s]*\k<q>", r"(foo)?\1b", r"([[:alpha:]&&[^b]])[[:alpha:]]*\1",
]


def pattern_json(pattern):
    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(set("".join(TEXTS))))}, merges=[]))
    t.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed")
    return t


if __name__ == "__main__":
    folder = sys.argv[1]
    with open(folder + "/tok/regex.json", "w") as f:
        json.dump(json.loads(pattern_json("a").to_str()), f, separators=(",", ":"))
        f.write("\n")
    with open(folder + "/tok_regex.txt", "w") as f:
        f.write("# made by tok_regex.py with tokenizers %s; texts and patterns are in hex\n" % tokenizers.__version__)
        for text in TEXTS:
            f.write("text %s\n" % text.encode().hex())
        for pattern in PATTERNS:
            t = pattern_json(pattern)
            f.write("regex %s %s\n" % (pattern.encode().hex(), " ".join("%016x" % fnv(t.encode(x).ids) for x in TEXTS)))
