"""Logits of whole texts, and log-probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from ._interrupt import run
from ._lib import POINT, CRun, CValue, TapFn, lib
from ._ranges import number
from .hooks import view

if TYPE_CHECKING:
    from .model import Model
    from .hooks import Floats
    from .session import Ints, Session, Tokens
    from .steering import Added

T = TypeVar("T")
WINDOW_TEXTS, WINDOW_TOKENS = 64, 2048


def add_in_order(values: npt.NDArray[np.float64]) -> float:
    """The sum from the first to the last value, as the program adds. Python's sum() compensates from 3.12 on."""
    return float(np.add.accumulate(values, dtype=np.float64)[-1]) if len(values) else 0.0


@dataclass(frozen=True)
class Score:
    """A text's tokens, the natural logarithms of the probabilities of all but the first, and in how many windows they
    were scored."""

    ids: list[int]
    logprobs: npt.NDArray[np.float64]
    windows: int

    @property
    def sum_logprob(self) -> float:
        """The log-probability of the whole text, added up token by token."""
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


def logits_of_rows(sessions: list[Session], rows: Ints) -> Floats:
    """Logits [rows, T, n_vocab], a session each, in common passes."""
    out = np.empty((*rows.shape, sessions[0].model.info.n_vocab), np.float32)

    def put(to: Floats) -> Callable[[CValue], None]:
        def see(v: CValue) -> None:
            to[v.pos : v.pos + v.rows] = view(v)

        return see

    for i in range(0, len(rows), len(sessions)):
        some = rows[i : i + len(sessions)]
        run_texts(sessions, list(some), POINT["LOGITS"], [put(to) for to in out[i : i + len(some)]])
    return out


def score(session: Session, texts: Iterable[str | Tokens], window: int | None, stride: int | None) -> list[Score]:
    """See Model.score. Texts that follow each other share passes over the weights, in forks of the session."""
    if isinstance(texts, str):
        raise TypeError("texts: expected several, found one str; give [text]")
    model, sessions, n_ctx = session.model, [session], session.n_ctx
    most = n_ctx if window is None else number("window", window, 1, n_ctx)
    step = most if stride is None else number("stride", stride, 1, most)
    rows: list[Score] = []
    for group in groups((_part(model, text, most, step) for text in texts), lambda text: len(text[0])):
        parts = [part for _, _, row in group for part in row]
        for first in range(0, len(parts), WINDOW_TEXTS):
            some = parts[first : first + WINDOW_TEXTS]
            while len(sessions) < len(some):
                sessions.append(sessions[0].fork())
            _run(sessions, some)
        rows += [Score(tokens.tolist() if len(out) else [], out, len(row)) for tokens, out, row in group]
    return rows


# The tokens of a window: all but the last are run. And the numbers of its last tokens, those that no window before has scored.
_Part = tuple["Ints", "npt.NDArray[np.float64]"]
_Text = tuple["Ints", "npt.NDArray[np.float64]", list[_Part]]


def _part(model: Model, text: str | Tokens, window: int, stride: int) -> _Text:
    """A text's tokens, room for their numbers, and its windows, as score_windows.h has them."""
    tokens = _document(model, text) if isinstance(text, str) else model._tokens(text)
    if len(tokens) and tokens.max() >= model.info.n_vocab:
        raise ValueError(f"tokens: expected ids below {model.info.n_vocab}, found {tokens.max()}")
    out: npt.NDArray[np.float64] = np.empty(max(len(tokens) - 1, 0))
    parts, done = [], 0
    while done < len(out):
        end = min(done + (stride if done else window), len(out))
        parts.append((tokens[max(end - window, 0) : end + 1], out[done:end]))
        done = end
    return tokens, out, parts


def groups(texts: Iterable[T], length: Callable[[T], int]) -> Iterator[list[T]]:
    """Texts in groups of at most WINDOW_TEXTS and about WINDOW_TOKENS."""
    group: list[T] = []
    for text in texts:
        group.append(text)
        if len(group) == WINDOW_TEXTS or sum(map(length, group)) >= WINDOW_TOKENS:
            yield group
            group = []
    if group:
        yield group


def _document(model: Model, text: str) -> Ints:
    tokens, info = model.encode(text, bos=False), model.info
    if info.bos >= 0 and tokens[:1] != [info.bos]:
        tokens = [info.bos, *tokens]
    return model._tokens([*tokens, info.eos] if info.eos >= 0 else tokens)


def _run(sessions: list[Session], parts: list[_Part]) -> None:
    """Feeds all but the last token of each part; the log-probabilities of its last ones go to its array."""
    run_texts(sessions, [tokens[:-1] for tokens, _ in parts], POINT["LOGITS"], [_tap(*part) for part in parts])


def run_texts(sessions: list[Session], texts: list[Ints], point: int, taps: list[Callable[[CValue], None]]) -> None:
    """Feeds texts, a session each, in common passes; taps[i] gets the values of texts[i] at a point."""
    runs = (CRun * len(texts))()
    handles = [session._open() for session in sessions[: len(texts)]]
    for run_of, session, handle, tokens in zip(runs, sessions, handles, texts, strict=False):
        session.rewind(0)
        run_of.session, run_of.tokens, run_of.n = handle.pointer, tokens.ctypes.data, len(tokens)
    try:
        for handle, tap in zip(handles, taps, strict=True):
            handle.watch(1 << point | handle.steering.points, TapFn(_steered(tap, point, handle.steering)))
        run(handles, "mgpt_feed_many", runs, len(runs), work=sessions[0]._work(sum(map(len, texts))))
    finally:
        for handle in handles:
            handle.watch()


def _steered(tap: Callable[[CValue], None], point: int, steering: Added) -> Callable[[Any, object], int]:
    def see(value: Any, user: object) -> int:
        stop = steering.add(value[0])
        if value[0].point == point:
            tap(value[0])
        return stop

    return see


def _tap(tokens: Ints, out: npt.NDArray[np.float64]) -> Callable[[CValue], None]:
    seen = len(tokens) - 1 - len(out)  # positions before the first whose logits count

    def see(v: CValue) -> None:
        for i in range(max(seen - v.pos, 0), v.rows):
            out[v.pos + i - seen] = lib.mgpt_logprob(v.data + i * v.stride * 4, v.cols, int(tokens[v.pos + i + 1]))

    return see
