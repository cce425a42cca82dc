"""Trains small tokenizers with Hugging Face's tokenizers and with sentencepiece, converts a tiny model with
each, and compares the ids of random Unicode texts, and what they decode to.

    python3 tests/quality/tok_ids.py build/tools/mgpt [NAME...] [--texts 1000] [--seed 1]

Needs tokenizers, sentencepiece. Prints a line for each tokenizer; exits with 1 if any id differs.
"""
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors"))
from tok_corpus import CORPUS  # noqa: E402
from tok_model import compare_all, write_model  # noqa: E402

PARSE_SPECIAL = 2
LINES = [line for line in CORPUS.split("\n") if line] * 3


# ---- tokenizers ----------------------------------------------------------------------------------

def unigram(prepend="always", split=True, normalizer=None, post=False, added=(), **train):
    """Hugging Face's Unigram with Metaspace."""
    t = Tokenizer(models.Unigram())
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend, split=split)
    t.decoder = decoders.Metaspace(prepend_scheme=prepend, split=split)
    t.train_from_iterator(LINES, trainers.UnigramTrainer(
        vocab_size=train.pop("vocab_size", 400), unk_token="<unk>", show_progress=False,
        special_tokens=["<unk>", "<s>", "</s>"], **train))
    if added:
        t.add_tokens(list(added))
    if post:
        t.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return t


def unigram_bytes(**how):
    """The same with byte_fallback, which the trainer does not set."""
    t = json.loads(unigram(**how).to_str())
    model = t["model"]
    model["byte_fallback"] = True
    model["vocab"] += [["<0x%02X>" % b, -12.5] for b in range(256)]
    t["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}]}
    return Tokenizer.from_str(json.dumps(t))


def ties():
    """Scores of which sums are equal but for rounding."""
    rng = random.Random(3)
    words = ["a", "b", "aa", "ab", "ba", "aaa", "aba", "abab", "\u2581", "\u2581a", "\u2581b", "\u2581ab"]
    vocab = [("<unk>", 0.0)] + [(w, -rng.random() * 0.3 - len(w.encode()) * 1.1) for w in words]
    t = Tokenizer(models.Unigram(vocab, 0, False))
    t.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    t.decoder = decoders.Metaspace(split=False)
    return t


def spm(kind, **how):
    """A sentencepiece model, as bytes."""
    model = io.BytesIO()
    options = dict(vocab_size=520 if how.get("byte_fallback") else 300, hard_vocab_limit=False, minloglevel=2, num_threads=1)
    options.update(how)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, model_type=kind, **options)
    return model.getvalue()


def charsmap():
    """nmt_nfkc, as sentencepiece has it."""
    from sentencepiece import sentencepiece_model_pb2
    m = sentencepiece_model_pb2.ModelProto()
    m.ParseFromString(spm("unigram"))
    return normalizers.Precompiled(m.normalizer_spec.precompiled_charsmap)


TOKENIZERS = {
    "unigram-always": lambda: unigram(),
    "unigram-first": lambda: unigram("first"),
    "unigram-never": lambda: unigram("never"),
    "unigram-whole": lambda: unigram(split=False),
    "unigram-first-whole": lambda: unigram("first", split=False),
    "unigram-post": lambda: unigram(post=True),
    "unigram-added": lambda: unigram(added=[AddedToken("<tool>", normalized=False), AddedToken("foo", normalized=False)]),
    "unigram-bytes": lambda: unigram_bytes(),
    "unigram-bytes-whole": lambda: unigram_bytes(split=False),
    "unigram-nmt": lambda: unigram(normalizer=charsmap()),
    "unigram-ties": ties,
    "spm-unigram": lambda: spm("unigram"),
    "spm-unigram-identity": lambda: spm("unigram", normalization_rule_name="identity", remove_extra_whitespaces=False),
    "spm-unigram-bytes": lambda: spm("unigram", byte_fallback=True),
    "spm-unigram-nfkc-cf": lambda: spm("unigram", normalization_rule_name="nmt_nfkc_cf", add_dummy_prefix=False),
    "spm-unigram-user-runs": lambda: spm("unigram", user_defined_symbols=["\u2581" * n for n in (2, 3, 4)] + ["\u00e9\u00e9", "\u00e9" * 3, "aa"]),
    "spm-unigram-user": lambda: spm("unigram", user_defined_symbols=["<sep>", "foo", "White Rabbit"]),
    "spm-unigram-loose": lambda: spm("unigram", split_by_whitespace=False, vocab_size=400, max_sentencepiece_length=24),
    "spm-bpe": lambda: spm("bpe"),
    "spm-bpe-loose": lambda: spm("bpe", split_by_whitespace=False, max_sentencepiece_length=24),
    "spm-bpe-user": lambda: spm("bpe", user_defined_symbols=["<sep>", "foo", "\u2581\u2581", "ab", "aba", "\u2581U"]),
    "spm-bpe-user-bytes": lambda: spm("bpe", byte_fallback=True, add_dummy_prefix=False, normalization_rule_name="identity",
                                      remove_extra_whitespaces=False, user_defined_symbols=["\u2581\u2581", "\u2581\u2581\u2581", "foo", "\n\n"]),
    "spm-bpe-user-spaces": lambda: spm("bpe", user_defined_symbols=["White Rabbit", "a b"]),
    "spm-unigram-user-spaces": lambda: spm("unigram", user_defined_symbols=["\u2581\u2581", "a b", "\u2581U"]),
    "spm-bpe-nmt": lambda: spm("bpe", byte_fallback=True),
    "spm-bpe-collapse": lambda: spm("bpe", normalization_rule_name="identity", byte_fallback=True),
}


# ---- comparing -----------------------------------------------------------------------------------

def reference(tokenizer):
    """(number of ids, encode, decode) of a tokenizer; the decoder is None where texts are normalised."""
    if isinstance(tokenizer, bytes):
        sp = sentencepiece.SentencePieceProcessor(model_proto=tokenizer)
        return sp.get_piece_size(), sp.encode, None
    t = Tokenizer.from_str(tokenizer.to_str())  # as the file is read
    t.encode_special_tokens = False
    return t.get_vocab_size(), lambda text: t.encode(text).ids, lambda ids: t.decode(ids, skip_special_tokens=True)


def compare(library, mgpt, name, texts):
    tokenizer = TOKENIZERS[name]()
    n_vocab, encode, decode = reference(tokenizer)
    folder = tempfile.mkdtemp()
    try:
        write_model(folder, n_vocab, tokenizer)
        done = subprocess.run([mgpt, "convert", folder, folder + "/model.gguf"], capture_output=True, text=True)
        if done.returncode:
            print("%-24s refused: %s" % (name, done.stderr.strip().split("\n")[-1]))
            return 1
        library.open(folder + "/model.gguf")
    finally:
        shutil.rmtree(folder) if not os.environ.get("KEEP") else print(folder)
    wrong = n_decoded = 0
    before = [i for i in encode("e 7a") if library.decode([i]) in ("a", "e")][:1]  # Hugging Face drops spaces of a first token, also inside of it
    flags = 0 if isinstance(tokenizer, bytes) else PARSE_SPECIAL  # sentencepiece knows none in texts
    for text in texts:
        if name == "unigram-post" and text.startswith("<s>"):
            continue  # mgpt adds no second BOS
        want, ours = encode(text), library.encode(text, flags)
        if want != ours:
            wrong += 1
            if wrong <= 3:
                print("%s: %r\n  expected %s\n  found    %s" % (name, text, want, ours))
        elif decode and decode(before + want) != library.decode(before + want):
            n_decoded += 1
            if n_decoded <= 3:
                print("%s: %r decodes\n  expected %r\n  found    %r" % (
                    name, text, decode(before + want), library.decode(before + want)))
    library.close()
    print("%-24s %d tokens, %d texts, %d wrong, %d decoded wrong" % (name, n_vocab, len(texts), wrong, n_decoded))
    return wrong + n_decoded


if __name__ == "__main__":
    sys.exit(compare_all(TOKENIZERS, compare, more=lambda rng: [
        "".join(rng.choice(LINES) for _ in range(1500)), "\u00e9" * 9 + "a" * 9, "x     y    \u00e9     z"]))  # the first has great sums
