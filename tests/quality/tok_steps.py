"""Trains BPE, WordPiece and WordLevel tokenizers with Hugging Face's tokenizers, of many normalizers, pre-tokenizers, decoders and added
tokens, converts a tiny model with each, and compares the ids of random Unicode texts, and what they decode to.

    python3 tests/quality/tok_steps.py build/tools/mgpt [NAME...] [--texts 1000] [--seed 1]

Needs tokenizers. Prints a line for each tokenizer; exits with 1 if any id differs. Texts have no characters that are
newer than Unicode 14, which PCRE2 may not know.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors"))
from tok_corpus import CORPUS  # noqa: E402
from tok_model import compare_all, random_text, write_model  # noqa: E402

N, P, D = normalizers, pre_tokenizers, decoders
PARSE_SPECIAL = 2
LINES = [line for line in CORPUS.split("\n") if line] * 2
GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,4}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")


def bpe(pre=None, normalizer=None, decoder=None, added=(), special=("<unk>", "<s>", "</s>"), unk="<unk>", options=None,
        post=None, alphabet=(), vocab_size=500, model=None, edit=None):
    """A trained BPE; `options` are of the model, `edit` changes the JSON."""
    t = Tokenizer(models.BPE(unk_token=unk, **(options or {})))
    if normalizer:
        t.normalizer = N.Sequence(normalizer) if isinstance(normalizer, list) else normalizer
    if pre:
        t.pre_tokenizer = P.Sequence(pre) if isinstance(pre, list) else pre
    if decoder:
        t.decoder = decoder
    affixes = {k: v for k, v in (options or {}).items() if k in ("continuing_subword_prefix", "end_of_word_suffix")}
    t.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=list(special),
                                                     initial_alphabet=list(alphabet), show_progress=False, **affixes))
    t.add_tokens([a for a in added if not a.special])
    t.add_special_tokens([a for a in added if a.special])
    if post:
        t.post_processor = post
    if edit:
        text = json.loads(t.to_str())
        edit(text)
        t = Tokenizer.from_str(json.dumps(text))
    return t


def words(model, pre=None, normalizer=None, decoder=D.WordPiece(), added=(), unk="[UNK]", special=("[UNK]", "[CLS]", "[SEP]"), post=None,
          edit=None, vocab_size=600, prefix="##"):
    """A trained WordPiece or WordLevel."""
    t = Tokenizer(model)
    t.normalizer = N.Sequence(normalizer) if isinstance(normalizer, list) else normalizer
    t.pre_tokenizer = P.Sequence(pre) if isinstance(pre, list) else pre
    t.decoder = decoder
    if isinstance(model, models.WordPiece):
        trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, special_tokens=list(special), show_progress=False,
                                            continuing_subword_prefix=prefix)
    else:
        trainer = trainers.WordLevelTrainer(vocab_size=vocab_size, special_tokens=list(special), show_progress=False)
    t.train_from_iterator(LINES, trainer)
    t.add_tokens(list(added))
    if post:
        t.post_processor = post
    if edit:
        text = json.loads(t.to_str())
        edit(text["model"])
        t = Tokenizer.from_str(json.dumps(text))
    return t


def piece(unk="[UNK]", **options):
    return models.WordPiece(unk_token=unk, **options)


def hard_words(model):
    """Tokens that end in a prefix of others, tokens with another text before "##", and a vocabulary without most letters."""
    vocab = {t: None for t in model["vocab"] if len(t.removeprefix("##")) != 1 or t[-1] in "abeto. "}
    for text in ("##", "#", "###a", "##abab", "##aba", "##b", "aba", "abab", "abaB", "##aB", "\u1100", "##\u1161", "\u65e5\u672c"):
        vocab.setdefault(text)
    model["vocab"] = {t: i for i, t in enumerate(vocab)}


def with_bytes(text):
    """byte_fallback, which the trainer does not make."""
    model = text["model"]
    model["byte_fallback"] = True
    n = max(model["vocab"].values()) + 1
    model["vocab"].update({"<0x%02X>" % b: n + b for b in range(256)})


def without_some_bytes(text):
    with_bytes(text)
    for b in range(0xC4, 0xE0):
        del text["model"]["vocab"]["<0x%02X>" % b]
    text["model"]["fuse_unk"] = True
    left = sorted(text["model"]["vocab"], key=text["model"]["vocab"].get)
    text["model"]["vocab"] = {token: i for i, token in enumerate(left)}


LLAMA = D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
BYTES = P.ByteLevel.alphabet()
TOKENIZERS = {
    # the five lines of the documentation
    "whitespace": lambda: bpe(P.Whitespace()),
    "whitespace-no-unk": lambda: bpe(P.Whitespace(), unk=None),
    "nothing": lambda: bpe(vocab_size=300),
    "bytes-untrained": lambda: bpe(P.ByteLevel(), decoder=D.ByteLevel(), unk=None),
    "bytes-prefix": lambda: bpe(P.ByteLevel(add_prefix_space=True), decoder=D.ByteLevel(), alphabet=BYTES, unk=None),
    "bytes-no-regex": lambda: bpe(P.ByteLevel(add_prefix_space=False, use_regex=False), decoder=D.ByteLevel(),
                                  alphabet=BYTES, vocab_size=700),
    "bytes-plain": lambda: bpe(P.ByteLevel(add_prefix_space=False), decoder=D.ByteLevel(), alphabet=BYTES, unk=None),
    # pre-tokenizers
    "whitespace-split": lambda: bpe(P.WhitespaceSplit()),
    "digits": lambda: bpe([P.Whitespace(), P.Digits(False)]),
    "digits-each": lambda: bpe([P.WhitespaceSplit(), P.Digits(True)]),
    "punctuation": lambda: bpe([P.WhitespaceSplit(), P.Punctuation()]),
    "punctuation-removed": lambda: bpe(P.Punctuation("removed")),
    "punctuation-previous": lambda: bpe(P.Punctuation("merged_with_previous")),
    "punctuation-next": lambda: bpe(P.Punctuation("merged_with_next")),
    "punctuation-contiguous": lambda: bpe(P.Punctuation("contiguous")),
    "bert": lambda: bpe(P.BertPreTokenizer(), N.BertNormalizer(), unk="[UNK]", special=("[UNK]", "[CLS]", "[SEP]")),
    "delimiter": lambda: bpe(P.CharDelimiterSplit(" "), decoder=D.BPEDecoder()),
    "fixed-length": lambda: bpe(P.FixedLength(5)),
    "split-string": lambda: bpe(P.Split(" ", "merged_with_previous")),
    "split-next": lambda: bpe(P.Split(Regex(r"\s"), "merged_with_next")),
    "split-contiguous": lambda: bpe(P.Split(Regex(r"[aeiou.]"), "contiguous")),
    "split-invert": lambda: bpe(P.Split(Regex(r"\w+|[^\w\s]+"), "removed", invert=True)),
    "split-invert-next": lambda: bpe(P.Split(Regex(r"\p{L}+"), "merged_with_next", invert=True)),
    "split-invert-contiguous": lambda: bpe(P.Split(Regex(r"\d\d?|\s"), "contiguous", invert=True)),
    "split-lines": lambda: bpe([P.Split(Regex(r"^.|.$"), "isolated"), P.Split(Regex(r"(?=[A-Z])"), "isolated")]),
    "split-word-edge": lambda: bpe(P.Split(Regex(r"\b|(?<=\d)(?=\D)"), "isolated")),
    "split-scripts": lambda: bpe(P.Split(Regex(r"\p{Han}|[\p{Greek}\p{Cyrillic}]+|[^\S\n]{2,}"), "isolated")),
    "gpt4-digits": lambda: bpe([P.Split(Regex(GPT4), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)],
                               decoder=D.ByteLevel(), alphabet=BYTES, unk=None, vocab_size=700),
    "metaspace-always": lambda: bpe(P.Metaspace(), decoder=D.Metaspace()),
    "metaspace-first": lambda: bpe(P.Metaspace(prepend_scheme="first"), decoder=D.Metaspace(prepend_scheme="first")),
    "metaspace-never": lambda: bpe(P.Metaspace(prepend_scheme="never", split=False), decoder=D.Metaspace(prepend_scheme="never")),
    "metaspace-other": lambda: bpe([P.Metaspace("_"), P.Punctuation()], decoder=D.Metaspace("_")),
    # normalizers
    "nfc": lambda: bpe(P.Whitespace(), N.NFC()),
    "nfd": lambda: bpe(P.Whitespace(), N.NFD(), vocab_size=300),
    "nfkc": lambda: bpe(P.Whitespace(), N.NFKC()),
    "nfkd-strip": lambda: bpe(P.Whitespace(), [N.NFKD(), N.StripAccents(), N.Lowercase()]),
    "lowercase": lambda: bpe(P.Metaspace(), [N.Lowercase(), N.Strip()], decoder=D.Metaspace()),
    "strip-first": lambda: bpe(P.Metaspace(prepend_scheme="first"), [N.Strip(), N.NFD(), N.StripAccents()],
                               decoder=D.Metaspace()),
    "replace": lambda: bpe(P.Metaspace(), [N.Replace(Regex(r"\s+"), " "), N.Replace("''", '"'), N.Replace("$", "USD")],
                           decoder=D.Metaspace()),
    "llama": lambda: bpe(None, [N.Prepend("\u2581"), N.Replace(" ", "\u2581")], decoder=LLAMA, edit=with_bytes),
    "llama-some-bytes": lambda: bpe(None, [N.Prepend("\u2581"), N.Replace(" ", "\u2581")], decoder=LLAMA,
                                    edit=without_some_bytes),
    "nmt": lambda: bpe(P.WhitespaceSplit(), [N.Nmt(), N.NFKC()]),
    "bert-cased": lambda: bpe(P.BertPreTokenizer(), N.BertNormalizer(lowercase=False)),
    "bert-accents": lambda: bpe(P.BertPreTokenizer(), N.BertNormalizer(strip_accents=False, handle_chinese_chars=False)),
    "bytes-normalizer": lambda: bpe(None, [N.NFC(), N.ByteLevel()], decoder=D.ByteLevel(), alphabet=BYTES),
    # the model
    "suffix": lambda: bpe(P.Whitespace(), N.Lowercase(), options={"end_of_word_suffix": "</w>"}, decoder=D.BPEDecoder()),
    "prefix": lambda: bpe(P.Whitespace(), options={"continuing_subword_prefix": "##"}, decoder=D.WordPiece()),
    "fuse-unk": lambda: bpe(P.Metaspace(), options={"fuse_unk": True}, decoder=D.Metaspace()),
    "ignore-merges": lambda: bpe(P.WhitespaceSplit(), options={"ignore_merges": True}, vocab_size=900),
    "byte-fallback": lambda: bpe(P.Metaspace(), options={"fuse_unk": True}, decoder=D.Sequence([D.ByteFallback(), D.Metaspace()]),
                                 edit=with_bytes),
    "some-bytes": lambda: bpe(P.Whitespace(), decoder=D.ByteFallback(), edit=without_some_bytes),
    "template": lambda: bpe(P.Whitespace(), post=processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])),
    # WordPiece and WordLevel
    "wp-bert": lambda: words(piece(), P.BertPreTokenizer(), N.BertNormalizer()),
    "wp-cased": lambda: words(piece(), P.BertPreTokenizer(), N.BertNormalizer(lowercase=False), D.WordPiece(cleanup=False)),
    "wp-whitespace": lambda: words(piece(), P.Whitespace()),
    "wp-nothing": lambda: words(piece(max_input_chars_per_word=7), decoder=None),
    "wp-short": lambda: words(piece(max_input_chars_per_word=3), P.WhitespaceSplit(), N.NFD()),
    "wp-zero": lambda: words(piece(max_input_chars_per_word=0), P.WhitespaceSplit()),
    "wp-prefix": lambda: words(piece("<unk>", continuing_subword_prefix="@@ "), P.WhitespaceSplit(), [N.NFKC(), N.Lowercase()],
                               D.WordPiece("@@ "), unk="<unk>", special=("<s>", "<unk>"), prefix="@@ "),
    "wp-no-prefix": lambda: words(piece(continuing_subword_prefix=""), P.Whitespace(), decoder=None, prefix=""),
    "wp-metaspace": lambda: words(piece(), P.Metaspace(), decoder=D.Metaspace()),
    "wp-hard": lambda: words(piece(max_input_chars_per_word=30), P.Split(Regex(r"\s+"), "removed"), edit=hard_words),
    "wp-added": lambda: words(piece(), P.BertPreTokenizer(), N.BertNormalizer(), added=[
        AddedToken("foo", single_word=True), AddedToken("White Rabbit"), AddedToken("<tool>", normalized=False, lstrip=True), AddedToken("##zz")]),
    "wp-cls": lambda: words(piece(), P.BertPreTokenizer(), N.BertNormalizer(), post=processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))),
    "wl-whitespace": lambda: words(models.WordLevel(unk_token="[UNK]"), P.Whitespace(), decoder=None),
    "wl-lowercase": lambda: words(models.WordLevel(unk_token="[UNK]"), [P.WhitespaceSplit(), P.Punctuation(), P.Digits(True)],
                                  [N.NFD(), N.StripAccents(), N.Lowercase()]),
    "wl-characters": lambda: words(models.WordLevel(unk_token="<unk>"), P.Split(Regex("."), "isolated"), decoder=None, vocab_size=80,
                                   special=("<s>", "<unk>")),
    "wl-added": lambda: words(models.WordLevel(unk_token="[UNK]"), P.Metaspace(), decoder=D.Metaspace(),
                              added=[AddedToken("foo", single_word=True), AddedToken("the")]),
    # added tokens
    "added": lambda: bpe(P.Whitespace(), added=[AddedToken("foo"), AddedToken("White Rabbit"), AddedToken("<tool>", normalized=False)]),
    "added-words": lambda: bpe(P.Whitespace(), added=[AddedToken("foo", single_word=True), AddedToken("the", single_word=True),
                                                      AddedToken("e\u0301", single_word=True, normalized=False)]),
    "added-strips": lambda: bpe(P.ByteLevel(add_prefix_space=False), decoder=D.ByteLevel(), alphabet=BYTES, added=[
        AddedToken("<tool>", lstrip=True, normalized=False), AddedToken("foo", rstrip=True), AddedToken("<sep>", special=True, lstrip=True, rstrip=True)]),
    "added-normalized": lambda: bpe(P.Metaspace(), [N.NFD(), N.StripAccents(), N.Lowercase()], decoder=D.Metaspace(), added=[
        AddedToken("Caf\u00e9"), AddedToken("FOO", single_word=True), AddedToken("ABA", normalized=False), AddedToken("ab")]),
    "added-prepend": lambda: bpe(None, [N.Prepend("\u2581"), N.Replace(" ", "\u2581")], decoder=LLAMA,
                                 added=[AddedToken("foo"), AddedToken("<tool>", normalized=False)], edit=with_bytes),
}


def known(text):
    return "".join(c for c in text if unicodedata.category(c) != "Cn")


def compare(library, mgpt, name, texts, tokenizer=None):
    """Returns the number of texts with other ids; -1 if mgpt refuses the tokenizer."""
    tokenizer = tokenizer or TOKENIZERS[name]()
    folder = tempfile.mkdtemp()
    try:
        write_model(folder, max(tokenizer.get_vocab().values()) + 1, tokenizer)
        done = subprocess.run([mgpt, "convert", folder, folder + "/model.gguf"], capture_output=True, text=True)
        if done.returncode:
            print("%-24s refused: %s" % (name, done.stderr.strip().split("\n")[-1]))
            return -1
        library.open(folder + "/model.gguf")
    finally:
        shutil.rmtree(folder) if not os.environ.get("KEEP") else print(folder)
    wrong = n_decoded = 0
    before = tokenizer.encode("e", add_special_tokens=False).ids[:1]
    # Not skip_special_tokens: Hugging Face shows special tokens whose normalized text is another.
    special = [i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special]
    bos = tokenizer.post_processor and tokenizer.num_special_tokens_to_add(False) and tokenizer.decode(
        tokenizer.encode("").ids[:1], skip_special_tokens=False)
    for text in texts:
        if bos and text.startswith(bos):
            continue  # mgpt adds no second BOS
        want, ours = tokenizer.encode(text).ids, library.encode(text, PARSE_SPECIAL)
        if want != ours:
            wrong += 1
            if wrong <= 3:
                print("%s: %r\n  expected %s\n  found    %s" % (name, text, want, ours))
            continue
        shown = [i for i in before + want if i not in special]
        decoded = tokenizer.decode(shown, skip_special_tokens=False)
        found = library.decode(before + want)
        if decoded.rstrip(" ") != found.removeprefix(" ").rstrip(" ") and decoded.rstrip(" ") != found.rstrip(" "):
            n_decoded += 1
            if n_decoded <= 1:
                print("%s: %r decodes\n  expected %r\n  found    %r" % (name, text, decoded, found))
    library.close()
    print("%-24s %d tokens, %d texts, %d wrong, %d decoded otherwise" % (
        name, tokenizer.get_vocab_size(), len(texts), wrong, n_decoded))
    return wrong


if __name__ == "__main__":
    sys.exit(compare_all(TOKENIZERS, compare, lambda rng: known(random_text(rng))))
