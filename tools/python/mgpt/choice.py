"""One of several texts that goes on after another."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os.path import commonprefix
from typing import TYPE_CHECKING, Any

import numpy as np

from ._lib import Error, lib
from ._ranges import shown
from ._sampling import SETTINGS
from .generate import Sampler
from .score import add_in_order
from .session import Floats, Session, Tokens, ids

if TYPE_CHECKING:
    from .model import Model


@dataclass(frozen=True)
class Choice:
    """The text that was taken, its index, and of each choice the tokens that are scored, their log-probability, and its
    probability among the choices, before temperature: the fields of `mgpt generate --choices --json`."""

    text: str
    index: int
    tokens: list[list[int]]
    logprobs: list[float]
    probs: list[float]


def choose(model: Model, session: Session, text: str | Tokens, choices: Iterable[str], author: Mapping[str, Any],
           sampling: Mapping[str, Any]) -> Choice:
    """See Model.choose. The session is a fork, and may hold the text."""
    if session.model is not model:
        raise ValueError(f"text: expected a session of this model, found {session!r}")
    texts = [choices] if isinstance(choices, str) else list(choices)
    if isinstance(choices, str) or not texts:
        raise TypeError(f"choices: expected several texts, found {shown(choices)}")
    for word in texts:
        if not isinstance(word, str) or not word:
            raise ValueError(f"choices: expected texts with characters, found {shown(word)}")
    sampler = Sampler(**{name: value for name, value in author.items() if name in SETTINGS} | dict(sampling))
    tokens = model._tokens(text).tolist()
    words, read = (text, model.encode) if isinstance(text, str) else _spelt(model, tokens)
    is_own = isinstance(text, str) or _is_read(words, read, tokens)
    wholes = [read(words + word) if is_own else tokens + model.encode(word, bos=False) for word in texts]
    common = len(commonprefix([tokens, *wholes]))
    for i, whole in enumerate(wholes):
        if whole in wholes[:i]:
            raise ValueError(f"choices: {shown(texts[i])} is {shown(texts[wholes.index(whole)])} again: their tokens are the same")
        if not 0 < common < len(whole):
            raise ValueError(f"choices: {shown(texts[i])} has no token of its own after the text" if common else
                             f"choices: {shown(texts[i])} changes the first token, before which nothing is")
    rows: dict[tuple[int, ...], Floats] = {}
    logprobs = [0.0] * len(wholes)
    for i in sorted(range(len(wholes)), key=wholes.__getitem__):
        of_tokens = []
        rows = {held: row for held, row in rows.items() if (*wholes[i][: len(held)],) == held}  # others come no more
        for at in range(common, len(wholes[i])):
            held = tuple(wholes[i][:at])
            row = rows[held] = rows[held] if held in rows else session.sync(ids(held))
            of_tokens.append(lib.mgpt_logprob(row.ctypes.data, row.size, wholes[i][at]))
        logprobs[i] = add_in_order(np.array(of_tokens))
    relative = np.array(logprobs) - max(logprobs)
    taken, probs = sampler(relative.astype(np.float32)), np.exp(relative) / np.exp(relative).sum()
    return Choice(texts[taken], taken, [whole[common:] for whole in wholes], logprobs, probs.tolist())


def _spelt(model: Model, tokens: list[int]) -> tuple[str, Callable[[str], list[int]]]:
    """The text of tokens, in which control tokens are their names, and what reads it: `mgpt generate --choices` does so."""
    from .model import Decoder

    front, stream, n = model.encode(""), Decoder(model), c.c_size_t()
    bos = tokens[: len(front)] == front
    words, special = "", False
    for token in tokens[len(front) if bos else 0 :]:
        lib.mgpt_piece(model._open().pointer, model._id(token), c.byref(n))
        words += stream.put(token) if n.value else model.token_text(token)
        special = special or not n.value
    return words, lambda text: model.encode(text, bos=bos, special=special)


def _is_read(words: str, read: Callable[[str], list[int]], tokens: list[int]) -> bool:
    try:
        return read(words) == tokens
    except Error:  # the vocabulary lacks a character of them
        return False
