"""Makes tok_wordpiece.txt, tok/wordpiece-*.json and tok/wordlevel-*.json: small tokenizers of Hugging Face whose models are
WordPiece and WordLevel. Results are as in tok_split.txt, for its texts and those of tok_steps.txt.

    pip install tokenizers==0.23.3 && python3 tests/vectors/tok_wordpiece.py tests/vectors
"""
import json
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P, trainers

from tok_split import LINES, texts, write
from tok_steps import MORE


def made(model, pre, normalizer=None, prefix="##", added=(), size=200, decoder=None):
    t = Tokenizer(model)
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre, decoder
    special = ["[UNK]", "[CLS]", "[SEP]"]
    trainer = (trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False, limit_alphabet=60,
                                         continuing_subword_prefix=prefix)
               if isinstance(model, models.WordPiece) else
               trainers.WordLevelTrainer(vocab_size=size, special_tokens=special, show_progress=False))
    t.train_from_iterator(LINES[:20] + ["Caf\u00e9 foo bar the 123, don't."] * 4, trainer)
    t.add_tokens(list(added))
    return t


def piece(**options):
    return models.WordPiece(unk_token="[UNK]", **options)


FAMILIES = {
    "wordpiece-bert": lambda: made(piece(), P.BertPreTokenizer(), N.BertNormalizer(), decoder=decoders.WordPiece()),
    "wordpiece-short": lambda: made(piece(max_input_chars_per_word=4), P.WhitespaceSplit(), N.NFD(), added=[
        AddedToken("foo", single_word=True), AddedToken("<tool>", normalized=False, lstrip=True), AddedToken("##zz")]),
    "wordpiece-empty": lambda: made(piece(continuing_subword_prefix=""), P.Whitespace(), prefix=""),
    "wordlevel-words": lambda: made(models.WordLevel(unk_token="[UNK]"), P.Sequence([P.WhitespaceSplit(), P.Punctuation()]), N.Lowercase()),
    "wordlevel-characters": lambda: made(models.WordLevel(unk_token="[UNK]"), P.Split(Regex("."), "isolated"), size=60),
}


if __name__ == "__main__":
    write(sys.argv[1], "tok_wordpiece", ((name, json.loads(make().to_str())) for name, make in FAMILIES.items()), list(texts()) + MORE)
