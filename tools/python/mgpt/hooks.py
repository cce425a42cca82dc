"""Hooks: functions that see and change the values of a pass, by TransformerLens' names and in its shapes.

A value of T tokens has shape [1, T, ...]: q, k, v and z [1, T, heads, d_head], scores and pattern
[1, heads, T, keys], everything else [1, T, columns]. A norm has three values (norms.py). hook_result (results.py) is there
where Model.use_attn_result is set.

The engine gives scores and patterns one query at a time, logits and the last norm a group of rows at a time. A hook on
them gets the whole matrix once it is complete; if it changed the matrix, the pass runs again and takes the changed
values, so that the engine computes what follows with its own bits.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._interrupt import run
from ._lib import ESTOP, POINT, CValue, Error, TapFn, lib
from ._ranges import near, shown
from .norms import INPUTS, Norm, layer_facts, load_norm, norm_role
from .results import HeadResults

if TYPE_CHECKING:
    from ._handle import SessionHandle
    from .model import Model

Floats = npt.NDArray[np.float32]
Key = tuple[int, int, str]  # point, layer, part of a norm
Names = str | Iterable[str] | Callable[[str], bool] | None

UNSEEN = {POINT["SCORES"]: -np.inf, POINT["WEIGHTS"]: 0.0}  # what a query must not see holds these
PER_HEAD = {POINT[name] for name in ("Q", "K", "V", "ROT_Q", "ROT_K", "HEADS")}
WITH_VALUES = {POINT["V"], POINT["HEADS"]}
ALL_POINTS = (1 << len(POINT)) - 1


@dataclass(frozen=True)
class Hook:
    """Where a value is in the pass: what a hook function gets as its second argument `hook`."""

    name: str
    point: int
    index: int
    part: str = ""  # of a norm: "scale" or "normalized"; before ATTN_OUT: "result"

    def layer(self) -> int:
        """The layer, -1 outside the layers."""
        return self.index

    @property
    def key(self) -> Key:
        """Point, layer, part."""
        return self.point, self.index, self.part


HookFn = Callable[..., Any]  # fn(value, hook=hook): a new value of the same shape, or None
HookRow = tuple[Names, HookFn]


# ---- names ----


def list_hooks(model: Model) -> dict[str, Hook]:
    """All hooks that a model has, in the order of the pass: one token is run to see which fire."""
    found: list[tuple[int, int]] = []

    def see(value: Any, user: object) -> int:
        found.append((value[0].point, value[0].layer))
        return 0

    handle = model.session(n_ctx=1)._open()
    token = np.zeros(1, np.int32)
    with handle as pointer:
        handle.watch(ALL_POINTS, TapFn(see))
        run([handle], "mgpt_feed", pointer, token.ctypes.data, 1)
    hooks = {hook.name: hook for place in found for hook in _hooks_of(model, *place)}
    if not model.use_attn_result:
        hooks = {name: hook for name, hook in hooks.items() if hook.part != "result"}
    return hooks


def _hooks_of(model: Model, point: int, layer: int) -> list[Hook]:
    name = point_name(point, layer)
    if point == POINT["ATTN_OUT"]:
        return [Hook(f"blocks.{layer}.attn.hook_result", point, layer, "result"), Hook(name, point, layer)]
    if norm_role(model, point, layer) is None:
        return [Hook(name, point, layer)]
    norm = name.removesuffix("hook_normalized")
    return [Hook(norm + "hook_scale", point, layer, "scale"), Hook(name, point, layer, "normalized"),
            Hook(norm + "hook_out", point, layer)]


def point_name(point: int, layer: int) -> str:
    """TransformerLens' name of a point."""
    text = c.create_string_buffer(64)
    lib.mgpt_point_name(point, layer, text, 64)
    return text.value.decode()


def choose(model: Model, names: Names) -> list[Hook]:
    """The hooks that a name, a pattern with * and ?, several of these, or a function of the name chooses."""
    hooks = model._all_hooks()
    if names is None:
        return list(hooks.values())
    if callable(names):
        return [hook for name, hook in hooks.items() if names(name)]
    chosen: dict[str, Hook] = {}
    for pattern in [names] if isinstance(names, str) else names:
        matches = {n: h for n, h in hooks.items() if fnmatchcase(n, pattern)}
        if not matches:
            raise ValueError(f"no hook is called {shown(pattern)}{near(pattern, hooks) or ' (Model.hook_names)'}")
        chosen |= matches
    return [hook for name, hook in hooks.items() if name in chosen]


# ---- the tap ----


class Tap:
    """One run of tokens with hook functions, and with values kept in `store`."""

    def __init__(self, model: Model, rows: Iterable[HookRow], keep: Iterable[Hook] = (), n_tokens: int = 0) -> None:
        """`keep` names the values to store, for a run of n_tokens from position 0."""
        self._n, self._bytes = n_tokens, model.info.bytes_per_token
        self._layers = [layer_facts(model, i) for i in range(model.info.n_layer)]
        self._hooks: dict[Key, list[tuple[HookFn, Hook]]] = {}
        for names, fn in rows:
            if not callable(fn):
                raise TypeError(f"hooks: expected (name, function) pairs, found {shown(fn)} as a function")
            for hook in choose(model, names):
                self._hooks.setdefault(hook.key, []).append((fn, hook))
        self._keep = {hook.key: hook for hook in keep}
        self._norms = {key[:2]: load_norm(model, norm_role(model, *key[:2]) or "", key[1])
                       for key in (*self._hooks, *self._keep) if key[2] in ("scale", "normalized")}
        self._results = {key[1]: HeadResults(model, key[1]) for key in (*self._hooks, *self._keep) if key[2] == "result"}
        self.store: dict[str, Floats] = {hook.name: np.empty(0, np.float32) for hook in self._keep.values()}
        self._chunk, self._n_chunk = 0, 0  # the position where it begins; its tokens
        # What hooks made of a value of a chunk, for when the tokens run again; None: they left it as it was.
        self._done: dict[tuple[Key, int], Floats | None] = {}
        self._seen: dict[Key, list[Floats]] = {}  # rows of scores and patterns, a query each
        self._groups: dict[Key, list[Floats]] = {}  # rows of a value that comes in groups (logits, the last norm)
        self._residual = np.empty((0, 0), np.float32)  # the last one before a norm
        self._z = np.empty((0, 0), np.float32)  # of a layer whose heads' results are asked for
        self._again = False
        self._failed: BaseException | None = None

    def run(self, session: SessionHandle, tokens: npt.NDArray[np.int32]) -> None:
        """Feeds the tokens to a session, which is as before if a hook raises."""
        work = len(tokens) * self._bytes
        try:
            self.watch(session)
            while True:
                self._again = False
                self._seen.clear()
                self._groups.clear()
                try:
                    stopped = run([session], "mgpt_feed", session.pointer, tokens.ctypes.data, len(tokens), work=work,
                                  hooks=True)
                    if self._failed is not None:
                        raise self._failed
                    if not stopped:
                        break
                    work = 0  # the next signal does not stop it: a profiler's timer would for ever
                except Error as failed:
                    if self._failed is not None:
                        raise self._failed from None
                    if failed.status != ESTOP or not self._again:
                        raise
        finally:
            self.end()
            session.watch()

    def watch(self, session: SessionHandle) -> None:
        """From now on it sees what the session runs."""
        self._session, self._steering = session, session.steering
        session.watch(self._points() | self._steering.points, TapFn(self._call))

    def end(self) -> BaseException | None:
        """The exception that has ended a run; it is forgotten here: its traceback refers to this object."""
        failed, self._failed = self._failed, None
        return failed

    def _points(self) -> int:
        """Those of the hooks, the first of a chunk and of a layer (for Ctrl-C), the one after a layer's attention, and
        what norms read."""
        points = {key[0] for key in (*self._hooks, *self._keep)} | {POINT["EMBD"], POINT["RESID_PRE"]}
        if points & set(UNSEEN) or self._results:
            points.add(POINT["HEADS"])
        if self._norms:
            points |= INPUTS
        return sum(1 << point for point in points)

    def _call(self, value: Any, user: object) -> int:
        """The C callback: 0 to go on, 1 to stop."""
        try:
            self._steering.add(value[0])
            self._see(value[0], view(value[0]))
        except BaseException as failed:
            self._failed = failed
        return int(self._again or self._failed is not None or bool(self._session.dropped))

    def _see(self, value: CValue, data: Floats) -> None:
        place = value.point, value.layer
        if value.point == POINT["EMBD"]:
            self._chunk, self._n_chunk = value.pos, value.rows
        if value.point in UNSEEN:
            self._see_query((*place, ""), value.pos, data)
            return
        if value.point == POINT["HEADS"]:
            self._see_attention(value.layer, value.rows)
        if self._again:
            return
        if place in self._norms:
            self._see_norm(place, self._norms[place], value.pos, data)
        if value.point == POINT["ATTN_OUT"] and value.layer in self._results:
            self._see_results(self._results[value.layer], value.layer, value.pos, data)
        if self._again:
            return
        before = self._shaped(value.point, value.layer, data)
        after = self._pass((*place, ""), value.pos, before)
        if after is not before:
            data[:] = after.reshape(data.shape)
        if value.point in INPUTS and self._norms:
            self._residual = data.copy()
        if value.point == POINT["HEADS"] and value.layer in self._results:
            self._z = after.copy()

    def _see_query(self, key: Key, pos: int, data: Floats) -> None:
        done = self._done.get((key, self._chunk))
        if done is not None:
            data[:] = done[0, :, pos - self._chunk, : pos + 1]
        elif key in self._hooks and (key, self._chunk) not in self._done:
            self._seen.setdefault(key, []).append(data.copy())
        if key in self._keep:
            array = self._stored(key, (1, len(data), self._n, self._n), UNSEEN[key[0]])
            array[0, :, pos, : pos + 1] = data

    def _see_attention(self, layer: int, n_queries: int) -> None:
        """After the last query of a layer: its hooks on scores, then on the pattern."""
        for key in [(point, layer, "") for point in UNSEEN if (point, layer, "") in self._hooks]:
            if (key, self._chunk) in self._done or self._again:
                continue
            before = _square(self._seen.pop(key), n_queries, UNSEEN[key[0]])
            done = self._done[key, self._chunk] = self.meet(key, before)
            self._again = done is not None

    def _see_norm(self, place: tuple[int, int], norm: Norm, pos: int, data: Floats) -> None:
        """Scale and normalized rows; if a hook changes one, the engine's value is computed from them."""
        first = pos - self._chunk
        centre = norm.centre(self._residual[first : first + len(data)])
        before = norm.scale(centre)[None]
        scale = self._pass((*place, "scale"), pos, before)
        rows = centre[None] / scale
        if self._again:
            return
        normalized = self._pass((*place, "normalized"), pos, rows)
        if scale is not before or normalized is not rows:
            data[:] = normalized[0] * norm.gain + norm.bias

    def _see_results(self, heads: HeadResults, layer: int, pos: int, data: Floats) -> None:
        """What each head adds; if a hook changes that, the layer's attention adds the sum."""
        before = heads.split(self._z)
        after = self._pass((POINT["ATTN_OUT"], layer, "result"), pos, before)
        if after is not before:
            data[:] = heads.join(after)

    def _pass(self, key: Key, pos: int, before: Floats) -> Floats:
        """What hooks make of rows from position `pos` on, stored if asked for; `before` itself if they leave it as it
        was. Hooks get the rows of the whole chunk: when its last group comes."""
        first, n = pos - self._chunk, before.shape[1]
        if key in self._hooks and (key, self._chunk) not in self._done:
            self._groups.setdefault(key, []).append(before.copy())
            if first + n == self._n_chunk:
                self._done[key, self._chunk] = self.meet(key, np.concatenate(self._groups.pop(key), 1))
                # The engine has gone on with the groups before this one: it has to run again.
                self._again = first > 0 and self._done[key, self._chunk] is not None
        done = self._done.get((key, self._chunk))
        after = before if done is None else done[:, first : first + n]
        if key in self._keep:
            array = self._stored(key, (1, self._n, *after.shape[2:]))
            array[0, pos : pos + n] = after[0]
        return after

    def meet(self, key: Key, before: Floats) -> Floats | None:
        """As ask. A row of a batch waits for the others here (batch.py)."""
        return self.ask(key, before)

    def ask(self, key: Key, before: Floats) -> Floats | None:
        """What the hooks make of a value, which they get as a copy; None if that is what it was."""
        array = before.copy()
        for fn, hook in self._hooks[key]:
            new = fn(array, hook=hook)
            array = array if new is None else _checked(new, array.shape, hook.name)
        return None if array.tobytes() == before.tobytes() else array.copy()

    def _shaped(self, point: int, layer: int, data: Floats) -> Floats:
        if point not in PER_HEAD:
            return data.reshape((1, *data.shape))
        facts = self._layers[layer]
        shape = (1, len(data), -1, facts.value_dim if point in WITH_VALUES else facts.head_dim)
        return data.reshape(shape)

    def _stored(self, key: Key, shape: tuple[int, ...], fill: float = 0.0) -> Floats:
        """The array of the store for a key, made at its first value."""
        name = self._keep[key].name
        if not self.store[name].size:
            self.store[name] = np.full(shape, fill, np.float32)
        return self.store[name]


def view(value: CValue) -> Floats:
    """The engine's own buffer, for the time of the callback."""
    n = (value.rows - 1) * value.stride + value.cols
    memory = (c.c_float * n).from_address(value.data)
    return np.ndarray((value.rows, value.cols), np.float32, memory, strides=(value.stride * 4, 4))


def _square(queries: list[Floats], n: int, unseen: float) -> Floats:
    """Rows [heads, position + 1] of n queries as [1, heads, n, keys]."""
    heads, keys = queries[-1].shape
    out = np.full((1, heads, n, keys), unseen, np.float32)
    for i, query in enumerate(queries):
        out[0, :, i, : query.shape[1]] = query
    return out


def _checked(new: Any, shape: tuple[int, ...], name: str) -> Floats:
    array = np.asarray(new)
    if array.shape != shape:
        raise ValueError(f"{name}: expected a value of shape {shape} from the hook, found {array.shape}")
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name}: expected a value of real numbers from the hook, found {array.dtype}")
    return array.astype(np.float32)
