"""Makes tok_unigram*.txt: small Unigram vocabularies and texts with their ids. "hf" and "whole" are of Hugging Face's
tokenizers (Rust), "spm" is of Google's sentencepiece (C++); neither shares code with mgpt. "whole" does not split at
spaces, has scores of which sums are equal but for rounding, and replaces characters as the Rust program does; "spm"
replaces the same characters as sentencepiece does, and collapses spaces.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3 && python3 tests/vectors/tok_unigram.py tests/vectors
"""
import io
import json
import random
import sys
import tempfile

import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from tok_corpus import CORPUS, cases

# Characters, or sequences, to others: longer and shorter ones, to nothing, to spaces.
RULES = {"\t": " ", "\n": " ", "\r": "", "\u00a0": " ", "\u3000": " ", "\u00bd": "1/2", "\u2460": "1", "e\u0301": "\u00e9",
         "E": "e", "A": "aa", "\u65e5\u672c": "JP", "\u65e5": "\u66dc", "\u00a8": " \u0308", "\u200b": "", "\ufb03": "ffi",
         "\u1100\u1161": "\uac00", "ab": "ba"}
LINES = CORPUS.split("\n") * 3


def spm():
    """sentencepiece's model with the rules, as its protobuf."""
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for key, value in RULES.items():
            print(" ".join("%X" % ord(c) for c in key), " ".join("%X" % ord(c) for c in value), sep="\t", file=rules)
        rules.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(LINES), model_writer=model, model_type="unigram", vocab_size=240, minloglevel=2,
            character_coverage=0.98, normalization_rule_tsv=rules.name, num_threads=1, hard_vocab_limit=False)
    return model.getvalue()


def begin(path, program, *edits):
    out = open(path, "w")
    print("# made by tok_unigram.py with", program, "; texts are in hex", file=out)
    print("edit", "; ".join(edits), file=out)
    return out


def texts():
    rng = random.Random(2)
    odd = list(RULES) + ["e", "\u0301", " ", "  ", "a", "b", "\u2460\u0301", "\r\n", "\U0001f636\u200d\U0001f32b", "\u1161", "z"]
    return cases(120) + ["".join(rng.choice(odd) for _ in range(rng.randint(1, 12))) for _ in range(120)]


def write_hf(path, tok, charsmap, *edits):
    tok = Tokenizer.from_str(tok.to_str())  # reading rounds scores
    vocab = json.loads(tok.to_str())["model"]["vocab"]
    with begin(path, f"tokenizers {tokenizers.__version__}", "model t5", "exact", "bool add_eos_token 0",
               "u32 unknown_token_id 0", *edits) as out:
        if charsmap:
            print("u8s tokenizer.ggml.precompiled_charsmap", charsmap.hex(), file=out)
        added = tok.get_added_tokens_decoder()
        for id, (text, score) in enumerate(vocab):
            is_byte = len(text) == 6 and text.startswith("<0x")
            print("token", 6 if is_byte else 2 if id in added else 1, repr(score), text.encode().hex(), file=out)
        for text in texts():
            print("case", text.encode().hex(), *tok.encode(text, add_special_tokens=False).ids, file=out)


def write_spm(path, data, charsmap):
    sp = sentencepiece.SentencePieceProcessor(model_proto=data)
    with begin(path, f"sentencepiece {sentencepiece.__version__}", "model t5", "bool add_eos_token 0",
               "u32 unknown_token_id 0", "bool add_space_prefix 1", "bool remove_extra_whitespaces 1") as out:
        print("u8s tokenizer.ggml.precompiled_charsmap", charsmap.hex(), file=out)
        for i in range(sp.get_piece_size()):
            kind = 2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 1
            print("token", kind, repr(sp.get_score(i)), sp.id_to_piece(i).encode().hex(), file=out)
        for text in texts():
            print("case", text.encode().hex(), *sp.encode(text), file=out)


def trained():
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    tok.train_from_iterator(LINES, trainers.UnigramTrainer(
        vocab_size=300, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False))
    model = json.loads(tok.to_str())["model"]
    model["byte_fallback"] = True
    model["vocab"] += [["<0x%02X>" % b, -12.5] for b in range(256)]
    tok.model = models.Unigram([tuple(v) for v in model["vocab"]], 0, True)
    return tok


def ties(charsmap):
    rng = random.Random(3)
    words = list("abeinrst") + ["aa", "ab", "ba", "aaa", "aba", "abab", "\u2581", "\u2581a", "a\u2581", "\u2581ab", "ba\u2581a",
                                "the", "\u00e9", "1", "\u66dc", "JP", "J", "\u00bd\u00bd"]
    vocab = [("<unk>", 0.0)] + [(w, -rng.random() * 0.3 - len(w.encode()) * 1.1) for w in words]
    tok = Tokenizer(models.Unigram(vocab, 0, False))
    tok.normalizer = normalizers.Precompiled(charsmap)
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return tok


DATA = spm()
PROTO = sentencepiece_model_pb2.ModelProto()
PROTO.ParseFromString(DATA)
CHARSMAP = PROTO.normalizer_spec.precompiled_charsmap
FOLDER = sys.argv[1]
SPACES = ("bool add_space_prefix 1", "bool mgpt.tokenizer.space_missing 1")
write_hf(FOLDER + "/tok_unigram_hf.txt", trained(), None, *SPACES, "bool mgpt.tokenizer.space_alone 1")
write_hf(FOLDER + "/tok_unigram_whole.txt", ties(CHARSMAP), CHARSMAP, *SPACES, "bool mgpt.tokenizer.space_first 1",
         "bool mgpt.tokenizer.graphemes 1")
write_spm(FOLDER + "/tok_unigram_spm.txt", DATA, CHARSMAP)
