"""Questions about a model that one call answers: Model.lens, attribution, head_scores, max_texts."""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._lib import EARG, ETEXT, CValue, Error, lib
from ._ranges import number, shown
from .hooks import UNSEEN, choose, view
from .score import groups, run_texts

if TYPE_CHECKING:
    from .hooks import Floats
    from .model import Model
    from .session import Ints, Tokens
    from .show import Heatmap
    from .steering import Steering, Vectors

Doubles = npt.NDArray[np.float64]


# ---- the logit lens ----


@dataclass(frozen=True)
class Lens:
    """What the model would say after each half layer: arrays [rows, T], a row for each name."""

    names: list[str]  # names of the values of the residual stream
    labels: list[str]  # the tokens
    final: Ints  # [T]: the token that the model finds likeliest in the end
    tokens: Ints  # the likeliest so far
    ranks: Ints  # of `final`: 1 for the likeliest
    logprobs: Doubles  # of `final`

    def show(self) -> Heatmap:
        """A heatmap for a notebook: log-probabilities of what is said in the end."""
        from .show import Heatmap

        return Heatmap("log-probability of the final token", [self.logprobs], self.names, self.labels, [""])

    def _repr_html_(self) -> str:
        return self.show()._repr_html_()


def lens(model: Model, text: str | Tokens, steer: Steering | Vectors | None) -> Lens:
    """See Model.lens. A layer that begins with what the one before it left has no row for that."""
    tokens = model._tokens(text)
    halves = [n for n in model.hook_names if n.endswith(("hook_resid_pre", "hook_resid_mid", "hook_resid_post"))]
    if not halves:
        raise ValueError("lens: the model has no layers")
    logits, cache = model.run_with_cache(tokens, halves, remove_batch_dim=True, steer=steer)
    final, session = logits[0].argmax(1), model.session(n_ctx=1)
    names = [n for i, n in enumerate(halves) if i == 0 or not np.array_equal(cache[n], cache[halves[i - 1]])]
    rows = np.array([[_said(session.unembed(x), t) for x, t in zip(cache[n], final, strict=True)] for n in names])
    return Lens(names, cache.labels, final.astype(np.int32), rows[..., 0].astype(np.int32), rows[..., 1].astype(np.int32),
                rows[..., 2])


def _said(row: Floats, token: Any) -> tuple[int, int, float]:
    """The likeliest; rank and log-probability of a token. Among equals the lowest id comes first."""
    rank = 1 + (row > row[token]).sum() + (row[:token] == row[token]).sum()
    return int(row.argmax()), int(rank), lib.mgpt_logprob(row.ctypes.data, len(row), int(token))


# ---- direct logit attribution ----


@dataclass(frozen=True)
class Attribution:
    """A logit, or the difference of two, as a sum over what wrote to the residual stream, with norms as they were."""

    what: str  # which logits, after which token
    heads: Doubles  # [n_layer, n_head]
    mlps: Doubles  # [n_layer]
    embedding: float
    position: float
    biases: float
    rounding: float
    total: float  # of all of these: the engine's own number, before a cap

    def show(self) -> Heatmap:
        """A heatmap for a notebook: layers by heads, the MLP last."""
        from .show import Heatmap

        parts = np.concatenate([self.heads, self.mlps[:, None]], 1)
        return Heatmap(self.what, [parts], [f"layer {n}" for n in range(len(parts))],
                       [*map(str, range(self.heads.shape[1])), "mlp"], [""])

    def _repr_html_(self) -> str:
        return self.show()._repr_html_()


def attribution(model: Model, text: str | Tokens, token: int | str | None, other: int | str | None,
                position: int) -> Attribution:
    """See Model.attribution: the repl's /dla."""
    import tempfile

    from ._tool import run

    tokens = model._tokens(text)
    if not len(tokens):
        raise ValueError("text: nothing to look at: the text is empty and the model has no BOS")
    if token is None and other is not None:
        raise ValueError("attribution: other goes with token")
    at = int(number("position", position, -len(tokens), len(tokens) - 1)) % len(tokens)
    names = [str(_one(model, t)) for t in (token, other) if t is not None]
    with tempfile.TemporaryDirectory(prefix="mgpt-") as folder:
        out = os.path.join(folder, "dla.txt")
        typed = f"/ids {' '.join(map(str, tokens.tolist()))}\n/dla {at} {' '.join(names)} -o {out}\n"
        run("repl", "-m", model._run_on(), typed=typed)
        with open(out, encoding="utf-8") as table:
            _, title, *rows = table.read().splitlines()
    found = re.search(r"(.*) \[layer\].*; embedding (\S+), position (\S+), biases (\S+), rounding (\S+), sum (\S+)$", title)
    assert found is not None
    parts = np.array([row.split("\t") for row in rows], np.float64).reshape(model.info.n_layer, -1)
    return Attribution(found[1].removeprefix("# "), parts[:, :-1], parts[:, -1], *map(float, found.groups()[1:]))


def _one(model: Model, token: int | str) -> int:
    """A token by id, or by its text."""
    if not isinstance(token, str):
        return model._id(token)
    found = model.encode(token, bos=False, special=True)
    if len(found) != 1:
        raise ValueError(f"{shown(token)} is {len(found)} tokens, expected one")
    return found[0]


# ---- scores of heads ----


@dataclass(frozen=True)
class HeadScores:
    """What heads look at in a random text that is repeated: mean weights, [n_layer, n_head] each; NaN without attention, or that head."""

    induction: Doubles  # the token after the one that was the same
    previous: Doubles  # the token before
    duplicate: Doubles  # the token that was the same

    def show(self) -> Heatmap:
        """Heatmaps for a notebook: layers by heads."""
        from .show import Heatmap

        maps = [getattr(self, f.name) for f in fields(self)]
        return Heatmap("scores of heads", maps, [f"layer {n}" for n in range(len(maps[0]))], None,
                       [f.name for f in fields(self)])

    def _repr_html_(self) -> str:
        return self.show()._repr_html_()


def head_scores(model: Model, n: int, texts: int, seed: int) -> HeadScores:
    """See Model.head_scores."""
    info, rng = model.info, np.random.default_rng(seed)
    first = [info.bos] if info.bos >= 0 else []
    n = min(int(number("n", n, 2, 2**20)), (info.n_ctx - len(first)) // 2)
    words = [t for t in range(info.n_tokens) if model.decode([t])] or list(range(info.n_vocab))
    sums = np.full((3, info.n_layer, info.n_head), np.nan)
    for _ in range(int(number("texts", texts, 1, 2**20))):
        half = rng.choice(words, n, replace=n > len(words)).tolist()
        _, cache = model.run_with_cache([*first, *half, *half], lambda name: name.endswith("hook_pattern"))
        for name, pattern in cache.items():
            weights = [_diagonal(pattern[0], len(first) + n, back) for back in (n - 1, 1, n)]
            place = sums[:, int(name.split(".")[1]), :len(pattern[0])]
            place[:] = np.where(np.isnan(place), 0, place) + np.array(weights) / texts
    return HeadScores(*sums)


def _diagonal(pattern: Floats, first: int, back: int) -> Doubles:
    """The mean weight, by head, of the key that is `back` before the query, for queries from `first` on."""
    queries = np.arange(first, pattern.shape[1])
    mean: Doubles = pattern[:, queries, queries - back].mean(1, dtype=np.float64)
    return mean


# ---- texts that drive a neuron ----


@dataclass(frozen=True)
class MaxText:
    """A line of a file, or a part of it that fits the context, and what a neuron does at each of its tokens."""

    value: float  # the largest
    position: int  # where that is
    line: int  # of the file, from 1
    labels: list[str]  # the tokens
    values: Floats  # [T]

    def __str__(self) -> str:
        before, here, after = (self.labels[:self.position], self.labels[self.position], self.labels[self.position + 1:])
        return f"{self.value:.4f} {''.join(before)}[{here}]{''.join(after)}"

    def _repr_html_(self) -> str:
        from .show import Heatmap

        return Heatmap(str(self), [self.values[None]], [""], self.labels, [f"line {self.line}"])._repr_html_()


def max_texts(model: Model, neuron: str | tuple[int, int], file: str | os.PathLike[str], k: int) -> list[MaxText]:
    """See Model.max_texts."""
    point, layer, column = _neuron(model, neuron)
    best: list[tuple[float, int, int, Ints, Floats]] = []
    sessions, serial, k = [model.session()], 0, int(number("k", k, 1, 2**31 - 1))
    for group in groups(_parts(model, file), lambda part: len(part[1])):
        while len(sessions) < len(group):
            sessions.append(sessions[0].fork())
        values = [np.zeros(len(tokens), np.float32) for _, tokens in group]
        run_texts(sessions, [tokens for _, tokens in group], point, [_keep(v, layer, column) for v in values])
        for (line, tokens), row in zip(group, values, strict=True):
            serial -= 1  # among equals the first comes first
            heapq.heappush(best, (float(row.max()), serial, line, tokens, row))
            if len(best) > k:
                heapq.heappop(best)
    return [MaxText(value, int(row.argmax()), line, model._labels(tokens), row)
            for value, _, line, tokens, row in sorted(best, key=lambda b: (-b[0], -b[1]))]


def _neuron(model: Model, neuron: str | tuple[int, int]) -> tuple[int, int, int]:
    """Point, layer and column of (layer, i), a neuron of the MLP, or of "HOOK[i]"."""
    name = neuron if isinstance(neuron, str) else "blocks.{}.mlp.hook_post[{}]".format(*neuron)
    found = re.fullmatch(r"(.+)\[(\d+)\]", name)
    if found is None:
        raise ValueError(f"neuron: expected (layer, i) or 'HOOK[i]', found {shown(neuron)}")
    hooks = choose(model, found[1])
    if len(hooks) != 1 or hooks[0].part or hooks[0].point in UNSEEN:
        raise ValueError(f"neuron: {found[1]} is not one hook with a row for each token")
    width: list[int] = []
    model.session(n_ctx=1).feed([0], [(found[1], lambda value, hook: width.append(value[0, 0].size))])
    return hooks[0].point, hooks[0].index, int(number("neuron", int(found[2]), 0, width[0] - 1))


def _parts(model: Model, file: str | os.PathLike[str]) -> Iterator[tuple[int, Ints]]:
    """Lines as tokens with BOS in front; those above the context in parts, each of which begins anew."""
    front = [model.info.bos] if model.info.add_bos and model.info.bos >= 0 else []
    room = model.info.n_ctx - len(front)
    with open(file, encoding="utf-8") as text:
        lines = text.read().split("\n")
    for i, line in enumerate(lines, 1):
        try:
            tokens = model.encode(line, bos=False)
        except Error as failed:
            if failed.status not in (EARG, ETEXT):
                raise
            raise Error(f"{os.fspath(file)}: line {i}: {failed}", failed.status) from None
        for at in range(0, len(tokens), room):
            yield i, model._tokens([*front, *tokens[at : at + room]])


def _keep(out: Floats, layer: int, column: int) -> Any:
    def see(v: CValue) -> None:
        if v.layer == layer:
            out[v.pos : v.pos + v.rows] = view(v)[:, column]

    return see
