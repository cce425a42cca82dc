"""Owners of the library's objects.

A call holds its handle until it returns, so closing an object during a call (from a hook or another thread) frees it
afterwards. A model is freed after its last session, in whatever order Python drops them.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from ._lib import call, lib

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from .steering import Added


def freed_by(function: Any) -> Any:
    """A __del__ that calls a function of the library with the pointer. All of it is C: a signal handler that raised in
    a __del__ of Python would be ignored."""
    return property(partial(partial, function))


class ModelPointer(int):
    """The address of an mgpt_model, closed with its last reference. The garbage collector does not track numbers, so
    it cannot close one that a session refers to."""

    __slots__ = ()
    __del__ = freed_by(lib.mgpt_close)


class SessionPointer(int):
    """The address of an mgpt_session."""

    __slots__ = ()
    __del__ = freed_by(lib.mgpt_session_free)


class ModelHandle:
    """An mgpt_model. `closed` is what users see; the memory is freed when no session needs it any more."""

    def __init__(self, pointer: int, file: TemporaryDirectory[str] | None) -> None:
        """`file` is kept with the model: the folder of a converted one, or None."""
        self.pointer, self.file = ModelPointer(pointer), file
        self.closed = False


class SessionHandle:
    """An mgpt_session, the lock that keeps a second thread out, and the tap that it has outside of calls with hooks."""

    def __init__(self, pointer: int, model: ModelHandle, steering: Added) -> None:
        self.pointer = SessionPointer(pointer)  # first: attributes are dropped in this order, and the model is needed
        self._model_pointer = model.pointer
        self.model, self.steering = model, steering
        self.lock = threading.RLock()  # a hook may read the session that calls it
        self.dropped: list[Any] = []  # exceptions that ctypes dropped in the call that runs (_interrupt.py)
        self._callback: Any = None  # of the tap, if it is not that of the steering vectors
        self.watch()

    def watch(self, points: int = 0, callback: Any = None) -> None:
        """Sets the tap; without arguments that of the steering vectors."""
        kept, self._callback = self._callback, callback or self._callback  # both live until the library knows the new one
        call("mgpt_tap", self.pointer, points or self.steering.points, callback or self.steering.callback, None)
        self._callback = callback
        del kept

    def unwatch(self) -> None:
        """Takes away a tap that an interrupt has left."""
        if self._callback is not None:
            self.watch()

    def __enter__(self) -> int:
        if not self.lock.acquire(blocking=False):
            raise RuntimeError("another thread is using this session; give each thread a fork of its own")
        return int(self.pointer)  # a copy, which does not keep the session

    def __exit__(self, *failure: object) -> None:
        self.lock.release()
