"""Makes cli_names.txt: what weights/names.gguf writes and how it scores, by the float64 reference in
weights/reference.py and CPython's own random. Run again when the weights change:

    python3 tests/vectors/cli_names.py > tests/vectors/cli_names.txt

python  a sample of microgpt's loop: random.seed(42), 1000 words skipped, random.choices on
        softmax(logits / 0.5), at most one token per position of the context
greedy  a prompt and its likeliest continuation, a tab between
nll     a text, the tokens scored (its end is one of them), -log p of all of them
"""

import math
import os
import random
import sys

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "weights"))
from reference import Model, encode, softmax  # noqa: E402

model = Model(os.path.join(ROOT, "weights", "names.gguf"))
BOS, N_CTX = model.key("vocab_size") - 1, model.key("context_length")


def text(ids):
    return "".join(model.meta["tokenizer.ggml.tokens"][i] for i in ids)


def continued(ids, choose):
    start = len(ids)
    while len(ids) <= N_CTX:
        token = choose(model.forward(ids)["logits"][-1])
        if token == BOS:
            break
        ids = ids + [token]
    return text(ids[start:])


def drawn(logits):
    return random.choices(range(len(logits)), weights=softmax(logits / 0.5))[0]


def nll(ids):
    rows = model.forward(ids[:-1])["logits"]
    return -sum(math.log(softmax(row)[after]) for row, after in zip(rows, ids[1:]))


random.seed(42)
for _ in range(1000):
    random.getrandbits(32)
for _ in range(20):
    print("python", continued([BOS], drawn), sep="\t")
for prompt in ("", "a", "jo", "emm", "z", "abcdefghijklmno"):
    print("greedy", prompt, continued(encode(model.meta, prompt), lambda x: int(np.argmax(x))), sep="\t")
for word in ("emma", "mgpt", "maximiliana", "q"):
    ids = encode(model.meta, word) + [BOS]
    print("nll", word, len(ids) - 1, repr(nll(ids)), sep="\t")
