"""Makes tok_split.txt and tok/*.json: for each family of tokenizers that mgpt reads, a tiny tokenizer.json
with the family's pre-tokenizer, normalizer and flags, and what Hugging Face's tokenizers makes of texts in
many scripts. The texts are not repeated per family: each result is a line of hashes (FNV-1a, 64 bits, of the
ids as little-endian int32), in the order of the texts.

    pip install tokenizers==0.23.3 && python3 tests/vectors/tok_split.py tests/vectors
"""
import json
import os
import random
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, processors, trainers
from tokenizers import pre_tokenizers as pre

HERE = os.path.dirname(os.path.abspath(__file__))
LINES = open(HERE + "/tok_scripts.txt", encoding="utf8").read().split("\n")[:-1]

FIXED = [
    "", " ", "  ", "   ", "\n", "\n\n", "\n\n\n", "\t", "\t\n", "\r", "\r\n", "\r\n\r\n", " \r\n ", "\n ", " \n", "\n  \n",
    "I'M can't", "x  y   z ", "12345 6", "a\n\n  b\n", "foo(bar);\n\n\tbaz", "h\u00e9llo \u65e5\u672c \u2167\u00bd", " 'quoted'",
    "Hello\r\nworld\r\n\r\n  indented\r\n", "a!\r\n\r\nb?\n\n\nc", "end of text  \n", "end of text\n  ", "  \n  x", "x \t \n \t y",
    "!\n/\n//\n", "a/b/\n\nc", "word\n\n\n\n    word", "\u00a0nbsp\u00a0\u00a0x", "a\u0085b \u0085 c", "\u3000\u3000wide \u3000x",
    "thin\u2009hair\u200a em\u2003en\u2002 x", "ls\u2028ps\u2029 x", "zero\u200bwidth \u200b x", "\ufeffbom \ufeff", "\u180emvs \u180e\u180e x",
    "ogham\u1680x \u202f\u205f y", "\v\f\x1c\x1d\x1e\x1f x", "NUL \x00 inside\x00", "\x01\x02\x7f\x80\x9f", "e\u0301a\u0308 \u0301 x\u0301\u0301",
    "\u212b \u2126 \u212a k's K'S \u0345", "'\u017f 'S x'\u017fx I'\u212a", "\u0660\u0661\u0662\u0663 \u0be7\u0be8 1\u06612", "1\u20e32\ufe0f\u20e3",
    "\ud7b0\u1100\u1161\u11a8 \uac00\u11a8", "\ufb1d \u0958 \u2adc \U0001d15e", "\ufffd \U0010ffff \u0378 \ue000", "\u2581 \u2581a a\u2581b", "\u0120the \u010a",
    " " * 33 + "x" + " " * 33, "\n" * 40, " \n" * 20, "a" * 100, "aA" * 40, "1" * 40, "!" * 40, "\u00e9" * 40, "e\u0301" * 40, "\u65e5" * 40,
    "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> <|endoftext|>\n", "a  <|left|> b <|right|>  c\n<|both|>\n d",
    "x<|plain|>y<|plain|> z", "<|endoftext", "<s>Hello</s> <s> Hello", "<0x41><unk>", " strawberry Strawberry zyzzyva zyzzyvas",
]


def texts():
    rng = random.Random(3)
    yield from LINES
    yield from FIXED
    for line in LINES:
        nfd = unicodedata.normalize("NFD", line)
        if nfd != line:
            yield nfd
    everything = "\n".join(LINES)
    yield everything
    odd = [" ", "  ", "\n", "\r\n", "\t", "'", "\u00a0", "\u3000", "\u00e9", "\u65e5", "\u0301", "\u00bd", "1", "\u200b", "-", "/", "'s", "'LL"]
    for _ in range(60):
        parts = []
        for _ in range(rng.randint(1, 8)):
            if rng.randrange(2):
                at = rng.randrange(len(everything))
                parts.append(everything[at:at + rng.randint(1, 20)])
            else:
                parts.append("".join(rng.choice(odd) for _ in range(rng.randint(1, 6))))
        yield "".join(parts)


SUFFIXES = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"


def gpt4(digits, letters=r"\p{L}", other=r"\p{L}\p{N}"):
    return SUFFIXES + r"|[^\r\n\p{L}\p{N}]?%s+|%s| ?[^\s%s]+[\r\n]*" % (letters, digits, other) + TAIL


UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased(suffix, digits):
    word = r"[^\r\n\p{L}\p{N}]?"
    return (word + UPPER + "*" + LOWER + "+" + suffix + "|" + word + UPPER + "+" + LOWER + "*" + suffix
            + "|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL)


def byte_level(regex=True):
    return pre.ByteLevel(add_prefix_space=False, use_regex=regex)


def split(regex):
    return pre.Split(Regex(regex), "isolated")


def by_regex(regex):
    return pre.Sequence([split(regex), byte_level(False)])


NANOCHAT = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*"
            r"|\s*[\r\n]|\s+(?!\S)|\s+")
DEEPSEEK_V3 = (r"[!" + '"' + r"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^" + "\r\n" + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
               r"| ?[\p{P}\p{S}]+[" + "\r\n" + r"]*|\s*[" + "\r\n" + r"]+|\s+(?!\S)|\s+")

# name: pre-tokenizer, NFC, ignore_merges
BYTES = {
    "gpt2": (byte_level(), False, False),
    "neox": (byte_level(), True, False),
    "smollm": (pre.Sequence([pre.Digits(individual_digits=True), byte_level()]), False, False),
    "llama3": (by_regex(gpt4(r"\p{N}{1,3}")), False, True),
    "olmo2": (by_regex(gpt4(r"\p{N}{1,3}")), False, False),
    "qwen2": (by_regex(gpt4(r"\p{N}")), True, False),
    "qwen35": (by_regex(gpt4(r"\p{N}", r"[\p{L}\p{M}]", r"\p{L}\p{M}\p{N}")), True, False),
    "nanochat": (by_regex(NANOCHAT), False, False),
    "gpt4o": (by_regex(cased(SUFFIXES + "?", r"\p{N}{1,3}")), False, False),
    "tekken": (by_regex(cased("", r"\p{N}")), False, True),
    "falcon": (pre.Sequence([pre.Punctuation("contiguous"), byte_level(), pre.Digits(individual_digits=False),
                             split("[0-9][0-9][0-9]")]), False, False),
    "deepseek-coder": (pre.Sequence([
        split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
        pre.Digits(individual_digits=True), byte_level(False)]), False, False),
    "deepseek-v3": (pre.Sequence([
        split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(DEEPSEEK_V3), byte_level(False)]),
        False, False),
}

ESCAPE = normalizers.Replace(" ", "\u2581")
# name: normalizer, pre-tokenizer
SPACES = {
    "llama2": (normalizers.Sequence([normalizers.Prepend("\u2581"), ESCAPE]), None),
    "llama2-first": (None, pre.Metaspace("\u2581", "first", split=False)),
    "llama2-always": (None, pre.Metaspace("\u2581", "always", split=False)),
    "words": (None, pre.Metaspace("\u2581", "always", split=True)),
    "gemma": (ESCAPE, pre.Split(" ", "merged_with_previous")),
}

ADDED = [
    AddedToken("<|endoftext|>", special=True, normalized=False),
    AddedToken("<|left|>", special=True, lstrip=True, normalized=False),
    AddedToken("<|right|>", special=True, rstrip=True, normalized=False),
    AddedToken("<|both|>", special=False, lstrip=True, rstrip=True, normalized=False),
    AddedToken("<|plain|>", special=False, normalized=False),
]


def train_bytes(name, n_merges=200):
    pre_tokenizer, nfc, ignore_merges = BYTES[name]
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizer
    if nfc:
        tok.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(vocab_size=256 + n_merges, initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False)
    tok.train_from_iterator(LINES, trainer)
    data = json.loads(tok.to_str())["model"]
    vocab = data["vocab"]
    if ignore_merges:  # tokens that no merge makes
        for piece in ("\u0120zyzzyva", "zyzzyva", "\u0120strawberry"):
            vocab[piece] = len(vocab)
    tok.model = models.BPE(vocab=vocab, merges=[tuple(m) for m in data["merges"]], ignore_merges=ignore_merges)
    tok.decoder = decoders.ByteLevel()
    return tok


def train_spaces(name, n_merges=250):
    tok = Tokenizer(models.BPE(unk_token="<unk>"))
    tok.normalizer, tok.pre_tokenizer = SPACES[name]
    if SPACES[name][0] is None:
        tok.normalizer = normalizers.Sequence([])
    trainer = trainers.BpeTrainer(vocab_size=120 + n_merges, limit_alphabet=100, max_token_length=12, show_progress=False)
    tok.train_from_iterator(LINES, trainer)
    data = json.loads(tok.to_str())["model"]
    pieces = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    for piece in sorted(data["vocab"], key=data["vocab"].get):
        pieces += [piece] if piece not in pieces else []
    tok.model = models.BPE(vocab={p: i for i, p in enumerate(pieces)}, merges=[tuple(m) for m in data["merges"]],
                           unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    tok.normalizer = SPACES[name][0]
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tok


def fnv(ids):
    h = 0xCBF29CE484222325
    for byte in struct.pack("<%di" % len(ids), *ids):
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


def families():
    """(name, tokenizer.json) of each."""
    for name in list(BYTES) + list(SPACES):
        tok = train_bytes(name) if name in BYTES else train_spaces(name)
        for added in ADDED:
            (tok.add_special_tokens if added.special else tok.add_tokens)([added])
        data = json.loads(tok.to_str())
        if name in ("gpt2", "llama2"):  # as files before tokenizers 0.20 have them
            data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
        if name == "olmo2":
            del data["model"]["ignore_merges"]
        yield name, data


def write(folder, script, made, cases, own=()):
    """FOLDER/SCRIPT.txt: the texts that are its own, the hashes of all cases by each tokenizer; tok/NAME.json of (NAME, data)."""
    os.makedirs(folder + "/tok", exist_ok=True)
    with open("%s/%s.txt" % (folder, script), "w") as out:
        print("# made by %s.py with tokenizers" % script, tokenizers.__version__, *["; texts are in hex"] * bool(own), file=out)
        for text in own:
            print("text", text.encode().hex(), file=out)
        for name, data in made:
            with open("%s/tok/%s.json" % (folder, name), "w") as f:
                json.dump(data, f, separators=(",", ":"), ensure_ascii=False)
                f.write("\n")
            tok = Tokenizer.from_str(json.dumps(data))
            print("family", name, *["%016x" % fnv(tok.encode(text, add_special_tokens=False).ids) for text in cases], file=out)


if __name__ == "__main__":
    write(sys.argv[1], "tok_split", families(), list(texts()), list(texts()))
