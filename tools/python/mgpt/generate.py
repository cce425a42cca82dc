"""Drawing tokens."""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ._lib import CSampler, lib
from ._ranges import option

if TYPE_CHECKING:
    from .hooks import HookRow
    from .session import Session


class Sampler:
    """How the next token is chosen, with its random numbers: mgpt_sampler in include/mgpt.h."""

    def __init__(self, temperature: float = 0.8, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0,
                 seed: int = 0) -> None:
        """Temperature 0 takes the likeliest token; the same seed gives the same tokens."""
        self._sampler = CSampler(option("temperature", temperature), option("top_k", top_k), option("top_p", top_p),
                                 option("min_p", min_p), option("seed", seed))

    def __call__(self, logits: npt.NDArray[np.float32]) -> int:
        """Chooses one of the tokens whose logits are given."""
        row = np.ascontiguousarray(logits, np.float32)
        if row.ndim != 1 or not row.size:
            raise ValueError(f"logits: expected one row, found shape {row.shape}")
        return int(lib.mgpt_sample(c.byref(self._sampler), row.ctypes.data, row.size))


def generate(session: Session, tokens: npt.NDArray[np.int32], n: int | None, sampler: Sampler,
             hooks: list[HookRow]) -> Iterator[str]:
    """Pieces of text after `tokens`. The last token drawn needs no pass of its own."""
    from .model import Decoder

    model, n_choices = session.model, session.model.info.n_tokens
    logits, text = session.feed(tokens, hooks), Decoder(model)
    for token in tokens:
        text.put(int(token))
    drawn = 0
    while n is None or n < 0 or drawn < n:
        token = sampler(logits[:n_choices])
        if model.is_end(token):
            break
        yield text.put(token)
        drawn += 1
        if drawn == n or len(session) == session.n_ctx:
            break
        logits = session.step(token, hooks)
    yield text.end()
