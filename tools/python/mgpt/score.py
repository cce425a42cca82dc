"""Logits of whole texts, and log-probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._interrupt import run
from ._lib import POINT, CRun, TapFn, lib
from .hooks import view

if TYPE_CHECKING:
    from .model import Model
    from .hooks import Floats
    from .session import Ints, Session, Tokens
    from .steering import Added

WINDOW_TEXTS, WINDOW_TOKENS = 64, 2048


def add_in_order(values: npt.NDArray[np.float64]) -> float:
    """The sum from the first to the last value, as the program adds. Python's sum() compensates from 3.12 on."""
    return float(np.add.accumulate(values, dtype=np.float64)[-1]) if len(values) else 0.0


@dataclass(frozen=True)
class Score:
    """A text's tokens, and the natural logarithms of the probabilities of all but the first."""

    ids: list[int]
    logprobs: npt.NDArray[np.float64]
    truncated: bool

    @property
    def sum_logprob(self) -> float:
        """Of the whole text, added up token by token."""
        return add_in_order(self.logprobs)

    @property
    def n_tokens(self) -> int:
        """The number of tokens that are scored."""
        return len(self.logprobs)

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability; NaN for nothing."""
        return float(np.exp(-self.sum_logprob / self.n_tokens)) if self.n_tokens else float("nan")


def all_logits(session: Session, tokens: Ints) -> Floats:
    """See Model.logits: of an empty session."""
    handle = session._open()
    out = np.empty((len(tokens), session.model.info.n_vocab), np.float32)

    def see(value: Any, user: object) -> int:
        v = value[0]
        if v.point != POINT["LOGITS"]:
            return handle.steering.add(v)
        out[v.pos : v.pos + v.rows] = view(v)
        return 0

    with handle as pointer:
        try:
            handle.watch(1 << POINT["LOGITS"] | handle.steering.points, TapFn(see))
            run([handle], "mgpt_feed", pointer, tokens.ctypes.data, len(tokens), work=session._work(len(tokens)))
        finally:
            handle.watch()
    return out


def score(session: Session, texts: Iterable[str | Tokens]) -> list[Score]:
    """See Model.score. Texts that follow each other share passes over the weights, in forks of the session."""
    if isinstance(texts, str):
        raise TypeError("texts: expected several, found one str; give [text]")
    model, sessions, rows = session.model, [session], []
    for window in _windows(_document(model, text) if isinstance(text, str) else model._tokens(text) for text in texts):
        while len(sessions) < len(window):
            sessions.append(sessions[0].fork())
        for tokens in window:
            if len(tokens) and tokens.max() >= model.info.n_vocab:
                raise ValueError(f"tokens: expected ids below {model.info.n_vocab}, found {tokens.max()}")
        counts = [min(max(len(tokens) - 1, 0), model.info.n_ctx) for tokens in window]
        logprobs = [np.empty(n) for n in counts]
        _run(sessions, window, logprobs)
        rows += [Score(tokens[: n + 1].tolist() if n else [], out, len(tokens) - 1 > n)
                 for tokens, n, out in zip(window, counts, logprobs, strict=True)]
    return rows


def _windows(texts: Iterable[Ints]) -> Iterator[list[Ints]]:
    """Texts in groups of at most WINDOW_TEXTS and about WINDOW_TOKENS."""
    window: list[Ints] = []
    for tokens in texts:
        window.append(tokens)
        if len(window) == WINDOW_TEXTS or sum(map(len, window)) >= WINDOW_TOKENS:
            yield window
            window = []
    if window:
        yield window


def _document(model: Model, text: str) -> Ints:
    tokens, info = model.encode(text, bos=False), model.info
    if info.bos >= 0 and tokens[:1] != [info.bos]:
        tokens = [info.bos, *tokens]
    return model._tokens([*tokens, info.eos] if info.eos >= 0 else tokens)


def _run(sessions: list[Session], window: list[Ints], logprobs: list[npt.NDArray[np.float64]]) -> None:
    """Feeds all but the last token of each text; the log-probability of each next one goes to logprobs."""
    runs = (CRun * len(window))()
    handles = [session._open() for session in sessions[: len(window)]]
    for part, session, handle, tokens, out in zip(runs, sessions, handles, window, logprobs, strict=False):
        session.rewind(0)
        part.session, part.tokens, part.n = handle.pointer, tokens.ctypes.data, len(out)
    try:
        for handle, tokens, out in zip(handles, window, logprobs, strict=True):
            handle.watch(1 << POINT["LOGITS"] | handle.steering.points, TapFn(_tap(tokens, out, handle.steering)))
        run(handles, "mgpt_feed_many", runs, len(runs), work=sessions[0]._work(sum(map(len, window))))
    finally:
        for handle in handles:
            handle.watch()


def _tap(tokens: Ints, out: npt.NDArray[np.float64], steering: Added) -> Callable[[Any, object], int]:
    def see(value: Any, user: object) -> int:
        v = value[0]
        if v.point != POINT["LOGITS"]:
            return steering.add(v)
        for i in range(v.rows):
            out[v.pos + i] = lib.mgpt_logprob(v.data + i * v.stride * 4, v.cols, int(tokens[v.pos + i + 1]))
        return 0

    return see
