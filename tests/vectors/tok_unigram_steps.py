"""Makes tok_unigram_steps.txt and tok/unigram-*.json: small tokenizers of Hugging Face whose model is Unigram and whose other
parts are not SentencePiece's. Results are as in tok_split.txt, for its texts and those of tok_steps.txt.

    pip install tokenizers==0.23.3 && python3 tests/vectors/tok_unigram_steps.py tests/vectors
"""
import json
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P, trainers

from tok_split import LINES, texts, write
from tok_steps import MORE


def charsmap(folder):
    """The map of tok_unigram.py."""
    with open(folder + "/tok_unigram_whole.txt") as f:
        line = next(line for line in f if line.startswith("u8s "))
    return N.Precompiled(bytes.fromhex(line.split()[2]))


def made(pre, normalizer, added=(), decoder=None, byte_fallback=False):
    t = Tokenizer(models.Unigram())
    t.normalizer, t.pre_tokenizer, t.decoder = N.Sequence(normalizer), P.Sequence(pre), decoder
    t.train_from_iterator(LINES[:20] + ["Caf\u00e9 foo bar the 123, don't."] * 4, trainers.UnigramTrainer(
        vocab_size=260, special_tokens=["<unk>", "<s>"], unk_token="<unk>", show_progress=False))
    t.add_tokens(list(added))
    data = json.loads(t.to_str())
    if byte_fallback:
        data["model"]["byte_fallback"] = True
        data["model"]["vocab"] += [["<0x%02X>" % b, -12.5] for b in range(256) if b not in (0xC4, 0xCD)]
    return data


def families(folder):
    yield "unigram-forms", made([P.Whitespace(), P.Digits(True)], [N.NFKC(), N.Lowercase()])
    yield "unigram-map", made([P.WhitespaceSplit(), P.Metaspace()], [charsmap(folder), N.Replace(Regex(r" {2,}"), " "), N.StripAccents()], [
        AddedToken("foo", single_word=True), AddedToken("AB"), AddedToken("<tool>", normalized=False, lstrip=True)], decoders.Metaspace())
    yield "unigram-bytes", made([P.Punctuation("merged_with_previous")], [N.NFD()], byte_fallback=True)


if __name__ == "__main__":
    write(sys.argv[1], "tok_unigram_steps", families(sys.argv[1]), list(texts()) + MORE)
