"""Drawing tokens."""

from __future__ import annotations

import ctypes as c
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ._choose import Edits
from ._lib import EFILE, CCandidate, CStream, Error, lib
from ._ranges import near, number, option, shown
from ._rows import EDITS, Sampling
from ._sampling import SEED, SETTINGS, CSampler

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .hooks import HookRow
    from .model import Model
    from .session import Session

Ids = npt.NDArray[np.int32]


class Sampler:
    """How the next token is chosen, with its random numbers: mgpt_sampler in include/mgpt.h."""

    def __init__(self, *values: float, model: Model | None = None, **named: Unpack[Sampling]) -> None:
        """The arguments of Sampling, in its order or by name; without one the temperature is 0.8. Edits of logits
        (repeat_penalty, ban, ...) need the model: several numbers are a tuple, biases a dict, texts a list. The seed -1
        draws one and prints it; it is in `seed`."""
        rows = SETTINGS | {"seed": SEED}
        given = dict(zip(rows, values)) | cast("dict[str, float]", named)
        edits = {name: given.pop(name) for name in [*given] if name in EDITS and name not in rows}
        strange = sorted(set(given) - set(rows))
        if len(values) > len(rows) or strange:
            raise TypeError(f"Sampler: expected {', '.join([*rows, *EDITS])}, found {shown(values or strange)}"
                            + (near(strange[0], [*rows, *EDITS]) if strange else ""))
        if edits and model is None:
            raise TypeError(f"{next(iter(edits))}: expected a model as well: Sampler(model=..., {next(iter(edits))}=...)")
        self._edits = Edits(model, edits) if edits and model else None
        numbers = [option(name, given.get(name, row.default)) for name, row in rows.items()]
        if numbers[-1] == -1:  # the seed
            numbers[-1] = secrets.randbits(32)
            print(f"mgpt: seed {numbers[-1]}", file=sys.stderr)
        self.seed = numbers[-1]
        self._sampler = CSampler(*numbers)

    def __call__(self, logits: npt.NDArray[np.float32], tokens: Ids | None = None) -> int:
        """Chooses one of the tokens whose logits are given. `tokens` are the text so far, for edits."""
        row = np.ascontiguousarray(logits, np.float32)
        if row.ndim != 1 or not row.size:
            raise ValueError(f"logits: expected one row, found shape {row.shape}")
        if self._edits:
            self._edits.prepare(self._sampler, np.empty(0, np.int32) if tokens is None else tokens)
            return self._edits.draw(self._sampler, row)
        return int(lib.mgpt_sample(c.byref(self._sampler), row.ctypes.data, row.size))

    def edited(self, logits: npt.NDArray[np.float32], tokens: Ids) -> npt.NDArray[np.float32]:
        """What the edits make of logits after these tokens, without XTC, which a draw decides on."""
        row = np.array(logits, np.float32)
        if self._edits:
            self._edits.prepare(self._sampler, tokens)
            if self._sampler.edit:
                edit = c.CFUNCTYPE(None, c.c_void_p, c.c_size_t, c.c_void_p, c.c_size_t, c.c_void_p)(self._sampler.edit)
                edit(row.ctypes.data, row.size, self._sampler.tokens, self._sampler.n_tokens, self._sampler.edit_user)
        return row

    def probability(self, logits: npt.NDArray[np.float32], token: int) -> float:
        """The probability with which it chooses a token, after temperature and filters."""
        row = np.ascontiguousarray(logits, np.float32)
        return float(lib.mgpt_draw_prob(c.byref(self._sampler), row.ctypes.data, row.size, number("token", token, 0, row.size - 1)))


class Piece(str):
    """A piece of text and the token that was drawn for it: what `mgpt generate --json --top N` writes.

    `token` is its id; `logprob` the model's log-probability, before temperature and filters; `prob` that with which it
    was drawn; `top` the N likeliest in its place, (id, logprob). The last piece of a text may have no token: None.
    """

    token: int | None = None
    logprob: float = float("nan")
    prob: float = float("nan")
    top: list[tuple[int, float]] = []

    def with_text(self, text: str) -> Piece:
        """The numbers of this piece with another text."""
        piece = Piece(text)
        piece.token, piece.logprob, piece.prob, piece.top = self.token, self.logprob, self.prob, self.top
        return piece

    @classmethod
    def of(cls, text: str, token: int, sampler: Sampler, logits: npt.NDArray[np.float32], n_choices: int, n: int) -> Piece:
        """The numbers of a token that has been drawn from the first n_choices logits."""
        piece, top = cls(text), (CCandidate * n)()
        row = np.ascontiguousarray(logits, np.float32)
        piece.token, piece.prob = token, sampler.probability(row[:n_choices], token)
        piece.logprob = float(lib.mgpt_logprob(row.ctypes.data, row.size, token))
        n = lib.mgpt_top(row.ctypes.data, row.size, top, n) if n else 0
        piece.top = [(top[i].token, top[i].logprob) for i in range(n)]
        return piece


class Stops:
    """A text that is drawn in pieces ends before the first stop text that is complete: `mgpt generate --stop`."""

    def __init__(self, stop: str | Iterable[str]) -> None:
        """One text or several; all must have characters."""
        texts = [stop] if isinstance(stop, str) else list(stop)
        for text in texts:
            if not isinstance(text, str) or not text:
                raise ValueError(f"stop: expected a text with characters, found {shown(text)}")
        self._texts = sorted(texts, key=len, reverse=True)
        self._held, self.found = "", False

    def put(self, piece: str) -> str:
        """What is known not to be of a stop text; nothing is once one has been found."""
        before, text = len(self._held), self._held + piece
        for end in range(before + 1, len(text) + 1):
            for stop in self._texts:
                if text.endswith(stop, 0, end):
                    self._held, self.found = "", True
                    return text[:end - len(stop)]
        held = next((k for k in range(min(len(text), len(self._texts[0]) - 1 if self._texts else 0), 0, -1)
                     if any(len(stop) > k and text.endswith(stop[:k]) for stop in self._texts)), 0)
        self._held = text[len(text) - held:]
        return text[:len(text) - held]

    def end(self) -> str:
        """What has been held."""
        held, self._held = self._held, ""
        return held


def generate(session: Session, tokens: npt.NDArray[np.int32], n: int | None, sampler: Sampler,
             hooks: list[HookRow], stops: Stops, ignore_end: bool, logprobs: int | None, heal: bool = False) -> Iterator[str]:
    """Pieces of text after `tokens`, with numbers if logprobs says of how many. The last token drawn needs no pass of its own."""
    from .model import Decoder

    model, n_choices, edits = session.model, session.model.info.n_tokens, sampler._edits
    if heal and n != 0:
        edits = sampler._edits = edits or Edits(model, {})
    n_kept = edits.heal(tokens) if heal and n != 0 and edits else len(tokens)
    logits, text, history = session.feed(tokens[:n_kept], hooks), Decoder(model), np.array(tokens[:n_kept], np.int32)
    if edits and n_kept < len(tokens):
        edits.heal_with(lambda path: (session.fork().feed(path, hooks) if len(path) else logits)[:n_choices])
    begin = put = n_text = n_kept  # of the history: tokens that were given; tokens in the text; all
    repeats = 0  # drawn tokens that n does not count
    numbers: list[Piece] = []
    for token in tokens[:n_kept]:
        text.put(int(token))
    stream = CStream.from_buffer_copy(text._stream)
    again = sum(len(text.put(int(token))) for token in tokens[n_kept:])  # characters that were given and are drawn again
    text._stream = stream
    if edits:
        edits.begin(begin)

    def pieces(end: int) -> Iterator[str]:
        nonlocal put, again
        for put in range(put + 1, end + 1):
            piece = text.put(int(history[put - 1]))
            piece, again = stops.put(piece[again:]), max(0, again - len(piece))
            yield piece if logprobs is None else numbers[put - 1 - begin].with_text(piece)
            if stops.found:
                return

    while n is None or n < 0 or n_text - begin - repeats < n:
        token = sampler(logits[:n_choices], history[:n_text])
        if not ignore_end and model.is_end(token):
            break
        if n_text == len(history):
            history = np.append(history, np.zeros(n_text + 16, np.int32))
        history[n_text] = token
        n_text += 1
        repeats = edits.repeats(history[begin:n_text]) if edits else 0
        if logprobs is not None:
            numbers[n_text - 1 - begin:] = [Piece.of("", token, sampler, logits, n_choices, logprobs)]
        kept = edits.back(history[:n_text]) if edits else n_text
        if kept < n_text:
            if kept < n_text - 1:
                session.rewind(kept - 1)
                logits = session.step(int(history[kept - 1]), hooks)
            n_text = kept
            continue
        yield from pieces(edits.final(history[:n_text]) if edits else n_text)
        whole = edits is not None and edits.complete(history[:n_text])
        if stops.found or whole or n_text - begin - repeats == n or len(session) == session.n_ctx:
            break
        logits = session.step(token, hooks)
    if not stops.found:
        yield from pieces(n_text)
    if not stops.found:
        yield Piece(stops.put(text.end()) + stops.end())


# Options of `mgpt generate` by argument; a setting of the sampler has its own.
_OPTIONS = {"n": "-n", "batch": "--batch", "n_ctx": "-c", "threads": "-t", "logprobs": "--top", "seed": "-s",
            "heal": "--heal", "ignore_author": "--ignore-author", "ignore_end": "--ignore-end", "no_prompt": "--no-prompt"}


def generate_many(model: str, prompts: Iterable[Any], options: dict[str, Any]) -> list[dict[str, Any]]:
    """See Model.generate_many."""
    from . import _tool
    from ._choose import texts_of

    if isinstance(prompts, (str, dict)):
        raise TypeError("prompts: expected several, found one; give [prompt]")
    words: list[str] = []
    for name, value in options.items():
        row = SETTINGS.get(name)
        if name in EDITS:
            words += [f"{EDITS[name].option}={text}" for text in texts_of(name, value)]
            continue
        if row is None and name not in _OPTIONS:
            raise TypeError(f"generate_many: unexpected argument {shown(name)}{near(name, [*_OPTIONS, *SETTINGS, *EDITS])}")
        if isinstance(value, bool):
            words += [_OPTIONS[name]] * value
        elif value is not None and not (name in ("batch", "n_ctx", "threads") and value == 0):
            words += [row.option if row else _OPTIONS[name], str(option(name, value) if row else value)]
    import json

    records = [{"prompt": p} if isinstance(p, str) else dict(p) if isinstance(p, Mapping)
               else {"ids": [int(token) for token in p]} for p in prompts]
    typed = "".join(json.dumps(record) + "\n" for record in records)
    done = _tool.run("generate", "-m", model, "--records", "-", *words, ok=(0, 3), typed=typed)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if len(rows) != len(records):
        raise Error(done.stderr.strip().removeprefix("mgpt: "), EFILE)
    return rows
