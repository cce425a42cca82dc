#!/usr/bin/env python3
"""Makes data/tok: small tokenizers of every kind, 300 texts, and their ids by Hugging Face's tokenizers.

usage: reference_tokenizers.py [--check]     with tokenizers 0.23.3; --check compares what is there (exit code 1: differs)
"""
import json
import random
import sys

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P, processors, trainers

import write

# ---- texts: pieces that tokenizers treat differently, drawn by a fixed sequence ----

WORDS = ('the small engine reads every token of a text and writes its number into one line with care about spaces numbers names '
         'Paris Berlin Tokyo river stone winter Window HTTPServer camelCase snake_case isn\'t we\'ll I\'m they\'ve it\'s DON\'T '
         'été naïve Straße größer señor Łódź привет мир Ελλάδα שלום سلام हिन्दी ไทย 日本語 中文 한국어 ﬁ ① ½ Å Ⅷ ǆ').split()
SIGNS = ('.', ',', '!', '?', ' - ', '--', '...', ';', ':', '(', ')', '"', '\'', '/', '\\', '@', '#', '$', '%', '&', '*', '+', '=', '_',
         '{', '}', '[', ']', '<', '>', '|', '~', '`', '^', '€', '…', '—', '「', '」', '。', '\u200b', '\u00a0', '\ufeff', '\u2581')
SPACES = (' ', ' ', ' ', ' ', '  ', '   ', '\n', '\n\n', '\t', ' \n', '\r\n', '\u3000', '')
NUMBERS = ('0', '7', '12', '123', '1234', '12345', '3.14', '1,000,000', '2026-12-01', '0x1F', '٣٤', '１２')
OTHERS = ('e\u0301', 'A\u030a', '\u1100\u1161\u11a8', '👍🏽', '👨\u200d👩\u200d👧', '🇫🇷', '\U00020000', 'ℌ', 'aaaaaaaaaaaa', 'ab' * 9, 'x' * 30)
FIXED = ('', ' ', '  ', '\n', '\t', 'a', ' a', 'a ', '  a  ', 'Hello', ' Hello', 'Hello world', '\n\na', 'a\n\nb', '\r\n\r\n', 'I\'M can\'T',
         '\'s \'t', '12345678901', 'a1b2', '...', '!!??', '\u0301', 'é é', 'ＡＢＣ', '\u00ad', '\u200d')


def texts():
    """300 texts."""
    rng, out = random.Random(20261201), list(FIXED)
    while len(out) < 300:
        parts = []
        for _ in range(rng.randrange(1, 7)):
            kind = rng.choice((WORDS, WORDS, WORDS, SIGNS, NUMBERS, OTHERS))
            parts += [rng.choice(kind), rng.choice(SPACES)]
        out.append(''.join(parts))
    return out


def training():
    """Lines of words, from which the tokenizers learn their merges."""
    rng = random.Random(7)
    return [' '.join(rng.choice(WORDS[:60]) for _ in range(12)) + rng.choice(SIGNS[:12]) for _ in range(200)] + list(NUMBERS) * 3


# ---- tokenizers ----

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace('{1,3}', '')
SPECIAL = ['<unk>', '<s>', '</s>']
BYTES = ['<0x%02X>' % b for b in range(256)]


def byte_level(pattern=None, normalizer=None, digits=False, ignore_merges=False):
    """BPE over bytes, as GPT-2 and its successors."""
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    steps = [P.Digits(individual_digits=True)] if digits else []
    if pattern:
        steps.append(P.Split(Regex(pattern), 'isolated'))
    steps.append(P.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
    t.normalizer, t.pre_tokenizer = normalizer, P.Sequence(steps) if len(steps) > 1 else steps[0]
    t.decoder, t.post_processor = decoders.ByteLevel(), processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(training(), trainers.BpeTrainer(vocab_size=420, show_progress=False, special_tokens=SPECIAL[1:],
                                                          initial_alphabet=P.ByteLevel.alphabet()))
    return t


def sentence_pieces(prefix):
    """BPE over characters with bytes for the others, as Llama 2 (prefix: a space before the text) and Gemma."""
    t = Tokenizer(models.BPE(unk_token='<unk>', byte_fallback=True, fuse_unk=True))
    replace = N.Replace(' ', '\u2581')
    t.normalizer = N.Sequence([N.Prepend('\u2581'), replace]) if prefix else replace
    back = [decoders.Replace('\u2581', ' '), decoders.ByteFallback(), decoders.Fuse()]
    t.decoder = decoders.Sequence(back + ([decoders.Strip(' ', 1, 0)] if prefix else []))
    t.pre_tokenizer = P.Split('\u2581', 'merged_with_next') # no merges over spaces
    t.train_from_iterator(training(), trainers.BpeTrainer(vocab_size=600, show_progress=False, special_tokens=SPECIAL + BYTES))
    data = json.loads(t.to_str())
    data['pre_tokenizer'] = None
    data['added_tokens'] = data['added_tokens'][:len(SPECIAL)] # bytes are no special tokens
    return Tokenizer.from_str(json.dumps(data))


def unigram():
    """Unigram with spaces as pieces, as XLM-R."""
    t = Tokenizer(models.Unigram())
    t.normalizer = N.Sequence([N.NFKC(), N.Replace(Regex(' {2,}'), ' ')])
    t.pre_tokenizer, t.decoder = P.Metaspace(), decoders.Metaspace()
    t.train_from_iterator(training(), trainers.UnigramTrainer(vocab_size=260, show_progress=False, special_tokens=SPECIAL,
                                                              unk_token='<unk>'))
    return t


def word_pieces():
    """WordPiece, as BERT."""
    t = Tokenizer(models.WordPiece(unk_token='[UNK]'))
    t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(lowercase=True), P.BertPreTokenizer(), decoders.WordPiece()
    t.train_from_iterator(training(), trainers.WordPieceTrainer(vocab_size=400, show_progress=False,
                                                                special_tokens=['[UNK]', '[CLS]', '[SEP]']))
    return t


def words():
    """A word is a token."""
    t = Tokenizer(models.WordLevel(unk_token='<unk>'))
    t.pre_tokenizer = P.Whitespace()
    t.train_from_iterator(training(), trainers.WordLevelTrainer(vocab_size=100, show_progress=False, special_tokens=SPECIAL))
    return t


KINDS = {
    'tok_gpt2': (byte_level, 'byte-level BPE with GPT-2\'s expression'),
    'tok_llama3': (lambda: byte_level(LLAMA3, ignore_merges=True), 'byte-level BPE with Llama 3\'s expression, whole words first'),
    'tok_qwen2': (lambda: byte_level(QWEN2, N.NFC()), 'byte-level BPE with Qwen2\'s expression, after NFC'),
    'tok_starcoder': (lambda: byte_level(digits=True), 'byte-level BPE, each digit by itself'),
    'tok_llama2': (lambda: sentence_pieces(True), 'BPE over characters, bytes for those it lacks, a space before the text'),
    'tok_gemma': (lambda: sentence_pieces(False), 'BPE over characters, bytes for those it lacks'),
    'tok_unigram': (unigram, 'Unigram over words with spaces, after NFKC'),
    'tok_bert': (word_pieces, 'WordPiece, lower case'),
    'tok_words': (words, 'a word is a token'),
}


def lines(values):
    return ''.join(json.dumps(value, separators=(',', ':')) + '\n' for value in values)


def main():
    check, top = '--check' in sys.argv, write.DATA / 'tok'
    top.mkdir(exist_ok=True)
    files = {'texts.jsonl': lines(texts()), 'kinds.jsonl': lines({'id': name, 'what': what} for name, (_, what) in KINDS.items())}
    for name, (make, _) in KINDS.items():
        path = top / (name + '.json')
        model = path.read_text() if check else json.dumps(json.loads(make().to_str()), ensure_ascii=False, separators=(',', ':')) + '\n'
        tokenizer = Tokenizer.from_str(model)
        ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts()]
        files.update({name + '.json': model, name + '.ids': lines(ids)})
        used = {i for line in ids for i in line}
        print('%-14s %d tokens, %d of them used, %d ids' % (name, tokenizer.get_vocab_size(), len(used), sum(map(len, ids))))
    wrong = [name for name, text in files.items() if check and (top / name).read_text() != text]
    for name, text in files.items():
        if not check:
            (top / name).write_text(text)
    print('differ: ' + ' '.join(wrong) if wrong else 'tokenizers %s: %d files' % (tokenizers.__version__, len(files)))
    return bool(wrong)


if __name__ == '__main__':
    sys.exit(main())
