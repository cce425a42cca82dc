"""mgpt: a small GPT engine with everything inside visible.

    import mgpt
    m = mgpt.Model("weights/names.gguf")     # or a checkpoint directory or file
    s = m.session()
    logits = s.feed(m.encode("anna"))        # float32 [n_vocab]
    logits, cache = m.run_with_cache("anna") # TransformerLens' names and shapes

Logits depend on the weights file and the tokens only: any number of threads, chunks, forks and hooks that change
nothing give the same bits. Every pass releases the GIL.
"""

from ._choose import schema_regex
from ._lib import EARG, EFILE, EFULL, EIO, EMEM, ESTOP, ETEXT, ROLES, Error, lib
from ._rows import Info
from .analysis import Attribution, HeadScores, Lens, MaxText
from .cache import Cache
from .check import CheckResult, check
from .choice import Choice
from .circuits import Circuit
from .factored import FactoredMatrix
from .generate import Piece, Sampler
from .hooks import Hook
from .model import Decoder, Model
from .patching import Grid, Patched
from .score import Score
from .session import Session, step_many
from .steering import Steering

__version__: str = lib.mgpt_version().decode()
__all__ = ["EARG", "EFILE", "EFULL", "EIO", "EMEM", "ESTOP", "ETEXT", "ROLES", "Attribution", "Cache", "CheckResult", "Choice", "Circuit", "Decoder",
           "Error", "FactoredMatrix", "Grid", "HeadScores", "Hook", "Info", "Lens", "MaxText", "Model", "Patched", "Piece", "Sampler", "Score", "Session", "Steering",
           "check", "schema_regex", "step_many"]
