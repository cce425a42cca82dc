"""Makes tok_spm.txt and tok_spm_loose.txt: small SentencePiece BPE vocabularies and texts with their
ids, by Google's sentencepiece (C++), which shares no code with mgpt. "loose" was trained without
splitting at spaces, so that its tokens hold spaces in the middle.

    pip install sentencepiece==0.2.3 && python3 tests/vectors/tok_spm.py tests/vectors
"""
import io
import sys

import sentencepiece

from tok_corpus import CORPUS, cases


def write(path, split_by_whitespace):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.split("\n") * 3), model_writer=model, model_type="bpe",
        vocab_size=520, byte_fallback=True, character_coverage=0.98, minloglevel=2,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True,
        split_by_whitespace=split_by_whitespace, max_sentencepiece_length=12, num_threads=1,
        hard_vocab_limit=False)
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    with open(path, "w") as out:
        print("# made by tok_spm.py with sentencepiece", sentencepiece.__version__,
              "; texts are in hex", file=out)
        for i in range(sp.get_piece_size()):
            kind = 2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1
            print("token", kind, repr(sp.get_score(i)), sp.id_to_piece(i).encode().hex(), file=out)
        for text in cases(120):
            print("case", text.encode().hex(), *sp.encode(text), file=out)


write(sys.argv[1] + "/tok_spm.txt", True)
write(sys.argv[1] + "/tok_spm_loose.txt", False)
