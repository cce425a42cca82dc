"""Makes tok_steps.txt and tok/steps-*.json: small BPE tokenizers of Hugging Face with normalizers, pre-tokenizers
and added tokens that GGUF has no names for. Results are as in tok_split.txt, for its texts and the ones here.

    pip install tokenizers==0.23.3 && python3 tests/vectors/tok_steps.py tests/vectors
"""
import json
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P, trainers

from tok_split import LINES, texts, write

MORE = [
    "Caf\u00e9 CAFE\u0301 \u1eb2\u1eb2 \u0130\u03a3\u03c3 \u00df \ufb01 \u2460 \u00bd \u3231 \uff21\uff42", "q\u0323\u0307 q\u0307\u0323 a\u0334\u0301\u0327\u0345 \u0301\u0334",
    "\uac01\u1100\u1161 \u1100\u1161\u11a8\u11a8 \u11a8", "\u0958 \u09cb\u0344 \u212b \U0001d15e \u2f00 \ufdfa", "foo food FOO foo,foo _foo e\u0301foo foo\u0301",
    "a<tool>b  <tool>  c <sep> d<sep>", "Ab ab AB cAb aba", "3.14, 42! 1a2b 12\u0663\u2163", "camelCaseHTTPServer x_1 don't -- ...", "\u200b\u00ad\ufffd\x00\x01 \u2028x\u1680",
    "\u4e2d\u6587abc\u65e5\u672c \U00020000", "_a _ b __c", "a,b , c,,", "\u2581\u2581a \u2581", "\u0904\u093c\u0940 \u0e01\u0e33", "\u1e9e\u01c5 \u2126\u03c9 \u10a0",
]


def ends_of(kind):
    """A text of the first and last characters of each run of a category, and their neighbours."""
    codes = [c for c in range(0x20000) if unicodedata.category(chr(c)).startswith(kind)]
    near = {c + d for c in codes for d in (-1, 0, 1) if {c - 1, c + 1} - set(codes)}
    return "a".join(chr(c) for c in sorted(near) if c >= 0 and not 0xD800 <= c < 0xE000)


MORE += ["1\u00c9 2\u00c0b 3A 4\u1eb2\u1eb2"] + [ends_of(kind) for kind in ("Cf", "Cc", "Mn", "P")]


def with_bytes(data):
    model = data["model"]
    model["byte_fallback"] = True
    n = max(model["vocab"].values()) + 1
    model["vocab"].update({"<0x%02X>" % b: n + i for i, b in enumerate(b for b in range(256) if b not in (0xC4, 0xCD))})


def made(pre, normalizer=None, decoder=None, added=(), options=None, unk="<unk>", edit=None, size=150):
    t = Tokenizer(models.BPE(unk_token=unk, **(options or {})))
    t.normalizer = N.Sequence(normalizer) if normalizer else None
    t.pre_tokenizer = P.Sequence(pre) if pre else None
    t.decoder = decoder
    affixes = {k: v for k, v in (options or {}).items() if k in ("continuing_subword_prefix", "end_of_word_suffix")}
    t.train_from_iterator(LINES[:20] + ["Caf\u00e9 foo bar the 123, don't."] * 4, trainers.BpeTrainer(
        vocab_size=size, limit_alphabet=90, special_tokens=["<unk>", "<s>"], show_progress=False, **affixes))
    t.add_tokens(list(added))
    if edit:
        data = json.loads(t.to_str())
        edit(data)
        t = Tokenizer.from_str(json.dumps(data))
    return t


FAMILIES = {
    "plain": lambda: made([P.Whitespace()]),
    "vanish": lambda: made([P.WhitespaceSplit(), P.Digits(True), P.Punctuation("merged_with_previous")], unk=None),
    "suffix": lambda: made([P.BertPreTokenizer()], [N.BertNormalizer()], decoders.BPEDecoder(), options={"end_of_word_suffix": "</w>"}),
    "prefix": lambda: made([P.Whitespace()], [N.NFKC(), N.Lowercase()], decoders.WordPiece(),
                           options={"continuing_subword_prefix": "##", "fuse_unk": True}),
    "forms": lambda: made([P.Metaspace(prepend_scheme="first")], [N.Nmt(), N.NFKD(), N.StripAccents(), N.Replace(Regex(r" +"), " "), N.Strip()],
                          decoders.Metaspace()),
    "composed": lambda: made([P.Split(Regex("(?=[A-Z\u0080-\uffff])|\\b\\d"), "isolated"), P.Split(" ", "merged_with_next")], [N.NFC()]),
    "fallback": lambda: made([P.Metaspace("_"), P.CharDelimiterSplit(",")], [N.NFD()], decoders.Metaspace("_"),
                             options={"ignore_merges": True, "fuse_unk": True}, edit=with_bytes),
    "fixed": lambda: made([P.FixedLength(3)], [N.Lowercase()], size=220),
    "added": lambda: made([P.ByteLevel(add_prefix_space=True)], [N.Lowercase()], decoders.ByteLevel(), size=250, added=[
        AddedToken("foo", single_word=True), AddedToken("AB"), AddedToken("<tool>", normalized=False, lstrip=True, rstrip=True),
        AddedToken("<sep>", normalized=True, rstrip=True), AddedToken("Ab", normalized=False)]),
}


if __name__ == "__main__":
    write(sys.argv[1], "tok_steps", (("steps-" + name, json.loads(make().to_str())) for name, make in FAMILIES.items()), list(texts()) + MORE, MORE)
