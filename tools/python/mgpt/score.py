"""Log-probabilities of texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._lib import POINT, TapFn, call, lib

if TYPE_CHECKING:
    from .model import Model
    from .session import Tokens


@dataclass(frozen=True)
class Score:
    """A text's tokens, and the natural logarithms of the probabilities of all but the first."""

    ids: list[int]
    logprobs: npt.NDArray[np.float64]
    truncated: bool

    @property
    def sum_logprob(self) -> float:
        """Of the whole text, added up token by token."""
        return sum(self.logprobs.tolist(), 0.0)

    @property
    def n_tokens(self) -> int:
        """The number of tokens that are scored."""
        return len(self.logprobs)

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability; NaN for nothing."""
        return float(np.exp(-self.sum_logprob / self.n_tokens)) if self.n_tokens else float("nan")


def score(model: Model, texts: Iterable[str | Tokens], threads: int) -> list[Score]:
    """See Model.score."""
    if isinstance(texts, str):
        raise TypeError("texts: expected several, found one str; give [text]")
    session, rows = model.session(threads=threads), []
    for text in texts:
        tokens = _document(model, text) if isinstance(text, str) else model._tokens(text)
        n = min(max(len(tokens) - 1, 0), session.n_ctx)
        logprobs = np.empty(n)
        session.rewind(0)
        with session._open() as pointer:
            _run(pointer, tokens, logprobs)
        rows.append(Score(tokens[: n + 1].tolist() if n else [], logprobs, len(tokens) - 1 > n))
    return rows


def _document(model: Model, text: str) -> npt.NDArray[np.int32]:
    tokens, info = model.encode(text, bos=False), model.info
    if info.bos >= 0 and tokens[:1] != [info.bos]:
        tokens = [info.bos, *tokens]
    return model._tokens([*tokens, info.eos] if info.eos >= 0 else tokens)


def _run(session: int, tokens: npt.NDArray[np.int32], out: npt.NDArray[np.float64]) -> None:
    """Feeds all but the last token; the log-probability of each next one goes to out."""

    def see(value: Any, user: object) -> int:
        v = value[0]
        for i in range(v.rows):
            at = v.data + i * v.stride * 4
            out[v.pos + i] = lib.mgpt_logprob(at, v.cols, int(tokens[v.pos + i + 1]))
        return 0

    callback = TapFn(see)
    call("mgpt_tap", session, 1 << POINT["LOGITS"], callback, None)
    try:
        call("mgpt_feed", session, tokens.ctypes.data, len(out))
    finally:
        call("mgpt_tap", session, 0, TapFn(), None)
