"""One sequence that a model runs."""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import hooks as _hooks
from ._handle import SessionHandle
from ._interrupt import run
from ._lib import KV_TYPES, CSessionParams, call, lib
from ._ranges import c_path, near, number, option, shown
from .norms import layer_facts

if TYPE_CHECKING:
    from .model import Model
    from .steering import Added

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Tokens = Sequence[int] | npt.NDArray[np.integer[Any]]


def ids(tokens: Tokens) -> Ints:
    """Tokens as a contiguous int32 array. TypeError or ValueError for anything else than integers in one row."""
    array = np.asarray(tokens)
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.int32)
    if array.dtype.kind not in "iu":
        raise TypeError(f"tokens: expected integers, found {type(tokens).__name__} (Model.encode makes them of a text)")
    if array.ndim != 1:
        raise ValueError(f"tokens: expected one row, found shape {array.shape}")
    if array.min() < 0 or array.max() > 2**31 - 1:
        raise ValueError(f"tokens: expected ids, found {int(array.min() if array.min() < 0 else array.max())}")
    return np.ascontiguousarray(array, np.int32)


def floats_at(address: int, shape: tuple[int, ...], owner: object) -> Floats:
    """A read-only view of the library's memory; `owner` lives as long as the view."""
    memory: Any = (c.c_float * int(np.prod(shape))).from_address(address)
    memory.owner = owner
    view: Floats = np.frombuffer(memory, np.float32).reshape(shape)
    view.flags.writeable = False
    return view


class Session:
    """Tokens, their keys and values, and the logits after the last one. Made by Model.session and fork.

    One thread at a time may use a session: a second one gets RuntimeError. Other sessions of the model run meanwhile,
    since every pass releases the GIL. A failed call leaves the session as it was.
    """

    def __init__(self, model: Model, handle: SessionHandle) -> None:
        """Not for users: Model.session makes sessions."""
        self._model, self._handle = model, handle
        model._know(self)

    @classmethod
    def _new(cls, model: Model, n_ctx: int, threads: int, chunk: int, kv: str, steering: Added) -> Session:
        if kv not in KV_TYPES:
            raise ValueError(f"kv: expected one of {', '.join(KV_TYPES)}, found {shown(kv)}{near(kv, KV_TYPES)}")
        owner = model._open()
        numbers = option("n_ctx", n_ctx), option("threads", threads), _count("chunk", chunk)
        params = CSessionParams(*numbers, KV_TYPES[kv])
        return cls(model, SessionHandle(call("mgpt_session_new", owner.pointer, c.byref(params)), owner, steering))

    def _open(self) -> SessionHandle:
        handle = self._handle
        if handle is None or handle.model.closed:
            raise ValueError("the model is closed" if self._model._handle is None else "the session is closed")
        return handle

    @property
    def model(self) -> Model:
        """The model that runs this session."""
        return self._model

    # ---- running ----

    def feed(self, tokens: Tokens, hooks: Iterable[_hooks.HookRow] = ()) -> Floats:
        """Runs tokens; returns a copy of the logits after the last one, float32 [n_vocab].

        The bits are those of steps. With hooks, each (name, function) sees and may change the values of that name as
        in Model.run_with_hooks. An exception in one comes through and leaves the session as it was.
        """
        return self._run(self._open(), ids(tokens), list(hooks))

    def step(self, token: int, hooks: Iterable[_hooks.HookRow] = ()) -> Floats:
        """Runs one token; returns a copy of the logits after it, float32 [n_vocab]."""
        return self._run(self._open(), ids([token]), list(hooks))

    def _run(self, handle: SessionHandle, tokens: Ints, rows: list[_hooks.HookRow]) -> Floats:
        with handle as pointer:
            if rows:
                _hooks.Tap(self._model, rows).run(handle, tokens)
            else:
                handle.unwatch()
                run([handle], "mgpt_feed", pointer, tokens.ctypes.data, len(tokens), work=self._work(len(tokens)))
            return self._logits(handle).copy()

    def _work(self, n_tokens: int) -> int:
        """Bytes of weights that a run of tokens reads, one after the other."""
        return n_tokens * self._model.info.bytes_per_token

    def stop(self) -> None:
        """Ends the call in which another thread runs this session: it raises Error with status ESTOP, and the session
        is as it was. If none runs, the next one ends so; `rewind` withdraws that."""
        lib.mgpt_stop(self._open().pointer)

    def sync(self, tokens: Tokens) -> Floats:
        """Makes the session hold exactly these tokens, running only those after the common prefix."""
        handle, array = self._open(), ids(tokens)
        with handle as pointer:
            handle.unwatch()
            run([handle], "mgpt_sync", pointer, array.ctypes.data, len(array), work=self._work(len(array)), restore=False)
            return self._logits(handle).copy()

    def rewind(self, position: int) -> None:
        """Removes all tokens from `position` on, in constant time. `logits` is None afterwards."""
        with self._open() as pointer:
            call("mgpt_rewind", pointer, _count("position", position))

    def fork(self) -> Session:
        """An independent copy, steered as this session, which shares memory with it where it can."""
        handle = self._open()
        with handle as pointer:
            return Session(self._model, SessionHandle(call("mgpt_fork", pointer), handle.model, handle.steering))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes tokens, keys, values and logits to a file that fits this model only."""
        with self._open() as pointer:
            call("mgpt_save_session", pointer, c_path(path), what=os.fspath(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Makes the session hold what `save` wrote, as if it had run these tokens."""
        with self._open() as pointer:
            call("mgpt_load_session", pointer, c_path(path), what=os.fspath(path))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __reduce__(self) -> str:
        raise TypeError("a session is not pickled: save() writes it to a file, fork() makes a copy")

    def __copy__(self) -> Session:
        return self.fork()

    def __deepcopy__(self, memo: object) -> Session:
        return self.fork()

    def close(self) -> None:
        """Frees the memory now; using the session afterwards raises ValueError."""
        self._handle = None  # type: ignore[assignment]

    # ---- looking ----

    def _logits(self, handle: SessionHandle) -> Floats:
        address = lib.mgpt_logits(handle.pointer)
        return floats_at(address, (self._model.info.n_vocab,), handle) if address else np.empty(0, np.float32)

    @property
    def logits(self) -> Floats | None:
        """The logits after the last token without a copy, read-only; None if there are none (empty, or rewound).

        A later call that changes the session changes the array's content. feed and step return copies.
        """
        handle = self._open()
        with handle:
            view = self._logits(handle)
            return view if view.size else None

    @property
    def tokens(self) -> list[int]:
        """The tokens that the session holds."""
        with self._open() as pointer:
            n = lib.mgpt_pos(pointer)
            return list((c.c_int32 * n).from_address(lib.mgpt_tokens(pointer))) if n else []

    def __len__(self) -> int:
        with self._open() as pointer:
            return int(lib.mgpt_pos(pointer))

    def __bool__(self) -> bool:
        return True

    @property
    def n_ctx(self) -> int:
        """The most tokens that the session can hold."""
        with self._open() as pointer:
            return int(lib.mgpt_n_ctx(pointer))

    def kv(self, layer: int, head: int) -> tuple[Floats, Floats]:
        """Copies of the cached keys (after rope) and values of one KV head, float32 [len(session), d_head] each."""
        with self._open() as pointer:
            n, facts = lib.mgpt_pos(pointer), layer_facts(self._model, _count("layer", layer))
            k, v = np.empty((n, facts.head_dim), np.float32), np.empty((n, facts.value_dim), np.float32)
            call("mgpt_read_kv", pointer, _count("layer", layer), _count("head", head), 0, n, k.ctypes.data,
                 v.ctypes.data)
            return k, v

    def unembed(self, residual: npt.ArrayLike) -> Floats:
        """Final norm and head of one row of the residual stream [n_embd]: logits [n_vocab] (the logit lens)."""
        info = self._model.info
        row = np.ascontiguousarray(residual, np.float32)
        if row.shape != (info.n_embd,):
            raise ValueError(f"residual: expected shape ({info.n_embd},), found {row.shape}")
        out = np.empty(info.n_vocab, np.float32)
        with self._open() as pointer:
            call("mgpt_unembed", pointer, row.ctypes.data, out.ctypes.data)
        return out

    def __repr__(self) -> str:
        if self._handle is None or self._handle.model.closed:
            return "<mgpt.Session, closed>"
        return f"<mgpt.Session of {self._model.path}, {len(self)} of {self.n_ctx} tokens>"


def _count(name: str, value: int) -> int:
    """An argument that the library takes as an unsigned or 32-bit number."""
    return int(number(name, value, 0, 2**31 - 1))


def step_many(sessions: Sequence[Session], tokens: Tokens) -> list[Floats]:
    """One step of several sessions of one model with one pass over the weights; their logits, copies.

    On failure all sessions are unchanged.
    """
    from contextlib import ExitStack

    array, handles = ids(tokens), [s._open() for s in sessions]
    if len(array) != len(handles):
        raise ValueError(f"tokens: expected {len(handles)}, found {len(array)}")
    with ExitStack() as stack:
        pointers = (c.c_void_p * len(handles))(*[stack.enter_context(h) for h in handles])
        for handle in handles:
            handle.unwatch()
        if handles:
            run(handles, "mgpt_step_many", pointers, array.ctypes.data, len(array), work=sessions[0]._work(len(array)))
        return [s._logits(h).copy() for s, h in zip(sessions, handles, strict=True)]
