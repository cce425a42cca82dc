"""CTranslate2 in float32: pip install ctranslate2 transformers torch. suite.py run DIR --serve 'python3 ctranslate2_cpu.py' --format hf4,hf
Its converter wants a tokenizer: it gets one whose tokens are numbers."""
import json
import os
import tempfile

import ctranslate2
import ctranslate2.converters
import numpy
import transformers
from adapter import main, refuse_ways


class Numbers:
    bos_token, eos_token, unk_token, pad_token = "0", "1", "2", None
    bos_token_id, eos_token_id, unk_token_id, added_tokens_decoder, all_special_ids = 0, 1, 2, {}, []

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def get_vocab(self):
        return {str(i): i for i in range(self.n)}


def logits(model, ids, how):
    refuse_ways(how)
    with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
        numbers = Numbers(json.load(file)["vocab_size"])
    transformers.AutoTokenizer.from_pretrained = lambda *words, **options: numbers
    with tempfile.TemporaryDirectory() as folder:
        ctranslate2.converters.TransformersConverter(model).convert(folder + "/model")
        found = ctranslate2.Generator(folder + "/model", device="cpu", compute_type="float32", intra_threads=1)
    return numpy.array(found.forward_batch([ids])).astype(numpy.float32)[0]


main(logits)
