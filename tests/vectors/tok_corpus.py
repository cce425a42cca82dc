"""The text that tok_bpe.py and tok_spm.py train on, and the texts whose ids they write down.

The English is from public-domain books (Carroll 1865, Melville 1851); the rest was written for this file.
"""
import random

CORPUS = """
Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do:
once or twice she had peeped into the book her sister was reading, but it had no pictures or
conversations in it, "and what is the use of a book," thought Alice "without pictures or conversations?"
So she was considering in her own mind (as well as she could, for the hot day made her feel very sleepy
and stupid), whether the pleasure of making a daisy-chain would be worth the trouble of getting up and
picking the daisies, when suddenly a White Rabbit with pink eyes ran close by her. There was nothing so
very remarkable in that; nor did Alice think it so very much out of the way to hear the Rabbit say to
itself, "Oh dear! Oh dear! I shall be late!"

Call me Ishmael. Some years ago - never mind how long precisely - having little or no money in my purse,
and nothing particular to interest me on shore, I thought I would sail about a little and see the watery
part of the world. It's a way I have of driving off the spleen and regulating the circulation. They've
said I'll go, I'd stay, we're late, he's there, don't, I'm.

int main(void)
{
    for (int i = 0; i < 100; i++)
        printf("%d %s\\n", i * 1234, "aaaa");
    return 0;
}

\tun peu de fran\u00e7ais : \u00e9t\u00e9, no\u00ebl, gar\u00e7on, \u00e0 la carte. Ein wenig Deutsch: \u00fcber, gr\u00f6\u00dfer, M\u00e4rchen.
\u041d\u0435\u043c\u043d\u043e\u0433\u043e \u043f\u043e-\u0440\u0443\u0441\u0441\u043a\u0438: \u043f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440. \u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002 2024 1999 3.14159 1,000,000
aaaaaaaaaaaaaaaa bbbbbbbb abababababab ==== ---- !!!!
"""

FIXED = [
    " ", "  ", "   ", "        ", "\n", "\n\n", " \n", "\n ", "\t\n", "\r\n", "\r\n\r\n  x",
    "a", " a", "a ", "Hello", " Hello", "Hello world", "Once upon a time ", "  two spaces  after",
    "I'M can't", "x  y   z ", "12345 6", "a\n\n  b\n", "foo(bar);\n\n\tbaz",
    "h\u00e9llo \u65e5\u672c \u2167\u00bd", " 'quoted'", "it's we'll I'd they've 'tis 's 'S 're'll'd",
    "\u00a0nbsp\u00a0\u00a0x", "a\u0085b", "\u3000\u3000wide", "zero\u200bwidth \u200b x", "\ufeffbom",
    "\u180emvs \u180e\u180e x", "e\u0301 combining", "\u0660\u0661\u0662 arabic digits",
    "\U0001f680 rocket \U0001f636\u200d\U0001f32b\ufe0f", "\U0001d400\U0001d401", "tab\tand\vvt\fff",
    "NUL \x00 inside\x00", "\x01\x02\x7f", "snake_case camelCase UPPER", "http://example.org/?q=1&r=2#x",
    "a" * 15, "a" * 16, "a" * 17, "a" * 18, "a" * 200, "ab" * 100, "aab" * 60, " " * 100 + "x", "=" * 33,
    "\n" * 50, "\u00e9" * 40, "\u65e5" * 30, "7" * 40, "the" * 30, "!?" * 25,
    "\u2581", "a\u2581b", "<s>", "</s>", "<0x41>", "<unk>", "\ufffd", "\U0010ffff", "\u0378",
]


def cases(n_random):
    """The fixed texts and n_random seeded mixtures of letters, corpus snippets and odd characters."""
    rng = random.Random(1)
    odd = [" ", "  ", "\n", "\t", "'", "\u00a0", "\u3000", "\u00e9", "\u65e5", "\u0301", "\u00bd", "1", "\u200b", "-"]
    texts = list(FIXED)
    for _ in range(n_random):
        parts = []
        for _ in range(rng.randint(1, 6)):
            kind = rng.randrange(3)
            if kind == 0:
                parts.append("".join(rng.choice("aaaabtheinsr ") for _ in range(rng.randint(1, 30))))
            elif kind == 1:
                at = rng.randrange(len(CORPUS))
                parts.append(CORPUS[at:at + rng.randint(1, 25)])
            else:
                parts.append("".join(rng.choice(odd) for _ in range(rng.randint(1, 5))))
        texts.append("".join(parts))
    return texts
