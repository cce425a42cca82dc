"""Trains tokenizers of random parts with Hugging Face's tokenizers: a model (BPE, Unigram, WordPiece, WordLevel) with random
options, normalizers, pre-tokenizers, a decoder, added tokens and a post-processor. Compares as tok_steps.py.

    python3 tests/quality/tok_random.py build/tools/mgpt [--tokenizers 40] [--texts 1000] [--seed 1] [--only I] [--kind Unigram]

Needs tokenizers, sentencepiece, protobuf. Prints what each is made of; exits with 1 if any id differs. Those that mgpt refuses are counted.
"""
import argparse
import json
import random
import re
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import tok_steps
import tok_ids  # puts a folder with another tok_steps first
from tok_model import Library, random_text

N, P, D = normalizers, pre_tokenizers, decoders
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
REGEXES = [r"\s+", r"\w+|[^\w\s]+", r"\p{L}+", r"\p{N}{1,3}", r"[aeiou]", r" ?\p{L}+| ?\p{N}+|\s+(?!\S)|\s+", r"(?=[A-Z])", r"\d",
           r"[.,!?]+", r" {2,}", r"\p{Han}|\p{Hiragana}+", r"'s|'t|[^\S\n]+", r"[[:alpha:]&&[^aeiou]]+", r"[^[:punct:]\s]+|[[:punct:]]", r"[a-f[\p{Lu}]]+", r"(\w)\1"]


CHARSMAP = tok_ids.charsmap()


def either(rng):
    return rng.random() < 0.5


def random_normalizer(rng):
    return rng.choice([
        N.NFC, N.NFD, N.NFKC, N.NFKD, N.Lowercase, N.StripAccents, N.Nmt, N.ByteLevel,
        lambda: CHARSMAP,
        lambda: N.Strip(left=either(rng), right=either(rng)),
        lambda: N.Prepend(rng.choice(["\u2581", "x", "> "])),
        lambda: N.Replace(rng.choice([" ", "''", "e", "ab", "$"]), rng.choice(["\u2581", "", "_", "aa"])),
        lambda: N.Replace(Regex(rng.choice(REGEXES)), rng.choice([" ", "", "-", "ab"])),
        lambda: N.BertNormalizer(clean_text=either(rng), handle_chinese_chars=either(rng),
                                 strip_accents=rng.choice([None, True, False]), lowercase=either(rng))])()


def random_pre_tokenizer(rng):
    return rng.choice([
        P.Whitespace, P.Whitespace, P.WhitespaceSplit, P.BertPreTokenizer,
        lambda: P.Metaspace(replacement=rng.choice(["\u2581", "\u2581", "_"]), split=either(rng),
                            prepend_scheme=rng.choice(["always", "first", "never"])),
        lambda: P.Digits(individual_digits=either(rng)),
        lambda: P.Punctuation(rng.choice(BEHAVIORS)),
        lambda: P.Split(rng.choice([" ", "e", ",", Regex(rng.choice(REGEXES)), Regex(rng.choice(REGEXES))]),
                        rng.choice(BEHAVIORS), invert=either(rng)),
        lambda: P.ByteLevel(add_prefix_space=either(rng), use_regex=either(rng)),
        lambda: P.CharDelimiterSplit(rng.choice([" ", "a", "."])),
        lambda: P.FixedLength(rng.randint(2, 7))])()


def random_decoder(rng, kind, parts):
    if "ByteLevel" in parts:
        return D.ByteLevel()
    if "Metaspace" in parts:
        return D.Metaspace()
    if kind == "WordPiece":
        return D.WordPiece(cleanup=either(rng))
    return rng.choice([None, D.Fuse(), D.BPEDecoder()])


def random_added(rng):
    words = rng.sample(["foo", "White Rabbit", "<tool>", "the", "Caf\u00e9", "aba", "e\u0301", "FOO", "<sep>"], rng.randint(0, 4))
    return [AddedToken(w, lstrip=rng.random() < 0.3, rstrip=rng.random() < 0.3, single_word=rng.random() < 0.3,
                       normalized=either(rng), special=rng.random() < 0.3) for w in words]


def random_model(rng, kind, unk):
    """The model and its trainer."""
    special, size = [unk, "<s>", "</s>"], rng.randint(400 if kind == "Unigram" else 150, 900)
    common = dict(vocab_size=size, special_tokens=special, show_progress=False)
    if kind == "BPE":
        affixes = {}
        if rng.random() < 0.25:
            affixes = rng.choice([{"end_of_word_suffix": "</w>"}, {"continuing_subword_prefix": "##"}])
        how = dict(fuse_unk=either(rng), ignore_merges=rng.random() < 0.3, unk_token=rng.choice([unk, unk, None]), **affixes)
        alphabet = P.ByteLevel.alphabet() if either(rng) else []
        return models.BPE(**how), trainers.BpeTrainer(initial_alphabet=alphabet, **common, **affixes)
    if kind == "WordPiece":
        prefix = rng.choice(["##", "##", "@"])
        return (models.WordPiece(unk_token=unk, max_input_chars_per_word=rng.choice([100, 100, 7]), continuing_subword_prefix=prefix),
                trainers.WordPieceTrainer(continuing_subword_prefix=prefix, **common))
    if kind == "WordLevel":
        return models.WordLevel(unk_token=unk), trainers.WordLevelTrainer(**common)
    return models.Unigram(), trainers.UnigramTrainer(unk_token=unk, **common)


def with_byte_fallback(t):
    text = json.loads(t.to_str())
    model = text["model"]
    model["byte_fallback"] = True
    tokens = ["<0x%02X>" % b for b in range(256)]
    if model["type"] == "Unigram":
        model["vocab"] += [[token, -12.5] for token in tokens]
    else:
        first = max(model["vocab"].values()) + 1
        model["vocab"].update({token: first + b for b, token in enumerate(tokens)})
    rest = [text["decoder"]] if text["decoder"] else []
    text["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}] + rest}
    return Tokenizer.from_str(json.dumps(text))


def random_tokenizer(rng, kind):
    kind = kind or rng.choice(["BPE", "BPE", "Unigram", "WordPiece", "WordLevel"])
    norms = [random_normalizer(rng) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    pres = [random_pre_tokenizer(rng) for _ in range(rng.choice([0, 1, 1, 1, 2, 3]) if kind in ("BPE", "Unigram") else rng.choice([1, 1, 2, 3]))]
    unk = rng.choice(["<unk>", "[UNK]"])
    model, trainer = random_model(rng, kind, unk)
    t = Tokenizer(model)
    if norms:
        t.normalizer = norms[0] if len(norms) == 1 else N.Sequence(norms)
    if pres:
        t.pre_tokenizer = pres[0] if len(pres) == 1 else P.Sequence(pres)
    decoder = random_decoder(rng, kind, str(norms + pres))
    if decoder:
        t.decoder = decoder
    t.train_from_iterator(tok_steps.LINES, trainer)
    added = random_added(rng)
    t.add_tokens([a for a in added if not a.special])
    t.add_special_tokens([a for a in added if a.special])
    if kind in ("BPE", "Unigram") and not added and "ByteLevel" not in str(norms + pres) and rng.random() < 0.3:
        t = with_byte_fallback(t)
    if rng.random() < 0.3:
        t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    t = Tokenizer.from_str(t.to_str())  # as the file is read: scores are off by a bit then
    made = json.loads(t.to_str())
    return t, "%s norm %s pre %s added %s post %s" % (
        {k: v for k, v in made["model"].items() if k not in ("vocab", "merges")}, re.sub('(charsmap": ".{9})[^"]*', r"\1", json.dumps(made["normalizer"])),
        json.dumps(made["pre_tokenizer"]), [a for a in made["added_tokens"] if a["id"] > 2], bool(made["post_processor"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mgpt")
    parser.add_argument("--tokenizers", type=int, default=40)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--kind")
    options = parser.parse_args()
    library, bad, refused = Library(options.mgpt), 0, 0
    for i in range(options.tokenizers) if options.only is None else [options.only]:
        rng = random.Random(options.seed * 100003 + i)
        try:
            tokenizer, what = random_tokenizer(rng, options.kind)
        except Exception as e:  # the library cannot train some combinations
            print("%d: not trained: %s" % (i, e))
            continue
        print("%d: %s" % (i, what))
        result = tok_steps.compare(library, options.mgpt, str(i), [tok_steps.known(random_text(rng)) for _ in range(options.texts)], tokenizer)
        bad += result > 0
        refused += result < 0
        sys.stdout.flush()
    print("%d tokenizers, %d with differences, %d refused" % (options.tokenizers, bad, refused))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
