"""Makes tok_bpe.txt: a small byte-level BPE vocabulary and texts with their ids, by Hugging Face's
tokenizers (Rust), which shares no code with mgpt.

    pip install tokenizers==0.23.3 && python3 tests/vectors/tok_bpe.py > tests/vectors/tok_bpe.txt
"""
import json

import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tok_corpus import CORPUS, cases

tok = Tokenizer(models.BPE())
tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
tok.train_from_iterator([CORPUS], trainers.BpeTrainer(
    vocab_size=600, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
model = json.loads(tok.to_str())["model"]

print(f"# made by tok_bpe.py with tokenizers {tokenizers.__version__}; texts are in hex")
for text, _ in sorted(model["vocab"].items(), key=lambda item: item[1]):
    print("token 1 0", text.encode().hex())
for left, right in model["merges"]:
    print("merge", f"{left} {right}".encode().hex())
for text in cases(120):
    print("case", text.encode().hex(), *tok.encode(text, add_special_tokens=False).ids)
