"""Drawing tokens."""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from ._lib import lib
from ._ranges import option, shown
from ._sampling import SEED, SETTINGS, CSampler, Sampling

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .hooks import HookRow
    from .session import Session


class Sampler:
    """How the next token is chosen, with its random numbers: mgpt_sampler in include/mgpt.h."""

    def __init__(self, *values: float, **named: Unpack[Sampling]) -> None:
        """Temperature (default 0.8; 0 takes the likeliest token), top_k (0: all), top_p (1: all), min_p (0: none), seed
        (0): in this order or by name. The same seed gives the same tokens."""
        rows = SETTINGS | {"seed": SEED}
        given = dict(zip(rows, values)) | cast("dict[str, float]", named)
        if len(values) > len(rows) or set(given) - set(rows):
            raise TypeError(f"Sampler: expected {', '.join(rows)}, found {shown(values or sorted(set(given) - set(rows)))}")
        self._sampler = CSampler(*(option(name, given.get(name, row.default)) for name, row in rows.items()))

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
