"""Owners of the library's objects.

A call holds its handle until it returns, so closing an object during a call (from a hook or another thread) frees it
afterwards. A model is freed after its last session, in whatever order Python drops them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ._lib import call, lib

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from .steering import Added


class ModelHandle:
    """An mgpt_model. `closed` is what users see; the memory is freed when no session needs it any more."""

    def __init__(self, pointer: int, file: TemporaryDirectory[str] | None) -> None:
        """`file` is kept with the model: the folder of a converted one, or None."""
        self.pointer, self.file = pointer, file
        self.closed = False
        self._owners: dict[int, None] = {0: None}  # 0: this object; the others are sessions' pointers
        self._to_close = [pointer]

    def add(self, session: int) -> None:
        """Keeps the model for a session."""
        self._owners[session] = None

    def drop(self, owner: int, close: Any = lib.mgpt_close) -> None:
        """Forgets an owner; the last one closes the model. dict and list make each step atomic."""
        self._owners.pop(owner, None)
        if not self._owners:
            try:
                close(self._to_close.pop())
            except IndexError:
                pass

    def __del__(self) -> None:
        self.drop(0)


class SessionHandle:
    """An mgpt_session, the lock that keeps a second thread out, and the tap that it has outside of calls with hooks."""

    def __init__(self, pointer: int, model: ModelHandle, steering: Added) -> None:
        self.pointer, self.model, self.steering = pointer, model, steering
        self.lock = threading.RLock()  # a hook may read the session that calls it
        model.add(pointer)
        self.watch()

    def watch(self, points: int = 0, callback: Any = None) -> None:
        """Sets the tap; without arguments that of the steering vectors."""
        call("mgpt_tap", self.pointer, points or self.steering.points, callback or self.steering.callback, None)

    def __enter__(self) -> int:
        if not self.lock.acquire(blocking=False):
            raise RuntimeError("another thread is using this session; give each thread a fork of its own")
        return self.pointer

    def __exit__(self, *failure: object) -> None:
        self.lock.release()

    def __del__(self, free: Any = lib.mgpt_session_free) -> None:
        free(self.pointer)
        self.model.drop(self.pointer)
