"""tinygrad's llm: pip install tinygrad. suite.py run DIR --serve 'env DEV=CPU python3 tinygrad_llm.py' --format gguf"""
import importlib.util
import pathlib
import sys
import types

from adapter import main, refuse_ways
from tinygrad import Tensor, nn

if not importlib.util.find_spec("tinygrad.llm.kernels"):  # the wheel of 0.14.0 lacks the kernels for AMD's GPUs
    amd = types.SimpleNamespace(Linear=nn.Linear, gated_delta_prefill=None, flash_attention=None,
                                amd_custom_kernels_supported=lambda device: False)
    sys.modules["tinygrad.llm.kernels"] = sys.modules["tinygrad.llm.kernels.amd"] = amd

from tinygrad.llm.model import Transformer  # noqa: E402


def logits(model, ids, how):
    refuse_ways(how)
    found = Transformer.from_gguf(pathlib.Path(model), max_context=len(ids))[0]
    x = found.token_embd(Tensor([ids], dtype="int32")).float()
    for block in found.blk:
        x = block(x, 0)
    return found.output(found.output_norm(x)).float().numpy()[0]


main(logits)
