"""tinygrad's llm: pip install tinygrad. suite.py run DIR --serve 'CPU=1 python3 tinygrad_llm.py' --format gguf"""
import pathlib

from adapter import main, refuse_ways
from tinygrad import Tensor
from tinygrad.llm.model import Transformer


def logits(model, ids, how):
    refuse_ways(how)
    found = Transformer.from_gguf(pathlib.Path(model), max_context=len(ids))[0]
    x = found.token_embd(Tensor([ids], dtype="int32")).float()
    for block in found.blk:
        x = block(x, 0)
    return found.output(found.output_norm(x)).float().numpy()[0]


main(logits)
