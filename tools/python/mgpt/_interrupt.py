"""Ctrl-C, time-outs and other signals while the library runs tokens.

Python runs its signal handlers in the main thread, between two instructions of Python. Three places need care:

- A call without Python code inside would delay the handler until it returns. The main thread leaves long calls to a
  thread of their own and waits, which a handler can end; then mgpt_stop ends the call.
- A call with hooks of the user stays in the main thread. signal.set_wakeup_fd tells another thread of a signal, which
  calls mgpt_stop; then the handler runs. If it returns, the call runs again.
- A handler may run at the entry of a callback. ctypes passes an exception from there to sys.unraisablehook and goes on
  as if the callback had returned 0. It is kept there and raised after the call.

In all cases the sessions are as they were before the call, but for logits of one that had just ended.
"""

from __future__ import annotations

import _thread
import ctypes as c
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ._lib import ESTOP, CError, fail, lib

if TYPE_CHECKING:
    from ._handle import SessionHandle

LONG = 1 << 27  # bytes of weights that a call reads, token by token: tens of milliseconds
WAIT = 0.1 if sys.platform == "win32" else -1.0  # seconds: there no handler runs while a lock is waited for


def elsewhere(work: Callable[[], Any], stop: Callable[[], Any]) -> Any:
    """What `work` returns or raises in another thread. If waiting for it is interrupted, `stop` is to end it soon."""
    result: list[tuple[Any, BaseException | None]] = []
    waiting, started = _thread.allocate_lock(), False

    def body() -> None:
        try:
            result.append((work(), None))
        except BaseException as failed:
            result.append((None, failed))
        waiting.release()

    waiting.acquire()
    try:
        started = True
        _thread.start_new_thread(body, ())
        while not waiting.acquire(timeout=WAIT):
            pass
    except BaseException:
        while started and not result:
            try:
                stop()
                waiting.acquire(timeout=1)
            except BaseException:  # Ctrl-C again: the library must be left first
                continue
        raise
    value, failed = result[0]
    if failed is not None:
        raise failed
    return value


class _Waker:
    """Ends the call that the main thread is in when a signal comes. Signals still reach the wakeup fd that was there."""

    def __init__(self, handles: Sequence[SessionHandle]) -> None:
        self.woken, self._over, self._handles = False, False, handles
        self._before: list[int] = []
        self._lock, (self._read, self._written) = threading.Lock(), socket.socketpair()
        self._written.setblocking(False)

    def begin(self) -> None:
        """Not a part of the constructor: a handler that raises in here leaves something to end."""
        tell = partial(signal.set_wakeup_fd, warn_on_full_buffer=False)
        self._before.extend(map(tell, [self._written.fileno()]))  # no handler can run before the old one is kept
        _thread.start_new_thread(self._watch, ())

    def _watch(self) -> None:
        with self._read:
            while signals := self._read.recv(64):
                with self._lock:
                    if not self._over:
                        self.woken = True
                        for handle in self._handles:
                            lib.mgpt_stop(handle.pointer)
                if self._before[0] >= 0:
                    with suppress(OSError):  # full, or closed meanwhile
                        os.write(self._before[0], signals)

    def end(self) -> None:
        """Nothing is stopped from now on. It may be called again."""
        for before in self._before:
            signal.set_wakeup_fd(before)
        with self._lock:
            self._over = True
        self._written.close()  # which ends the thread


def run(handles: Sequence[SessionHandle], name: str, *arguments: Any, work: int = 0, hooks: bool = False,
        restore: bool = True) -> bool:
    """Calls a function that runs tokens of sessions and takes a trailing mgpt_error; Error if it fails.

    `work`: bytes of weights that it reads. `hooks`: it calls functions of the user, which belong to this thread. True:
    a signal has ended it whose handler returned; run it again. An exception of a handler comes through, with the
    sessions rewound to where they were (`restore`).
    """
    waker: _Waker | None = None
    before, err = [lib.mgpt_pos(handle.pointer) for handle in handles], CError()
    function = getattr(lib, name)
    try:
        if threading.current_thread() is not threading.main_thread():
            status = function(*arguments, c.byref(err))
        elif work >= LONG and not hooks:
            status = elsewhere(lambda: function(*arguments, c.byref(err)),
                               lambda: [lib.mgpt_stop(handle.pointer) for handle in handles])
        else:
            waker = _Waker(handles) if work >= LONG else None
            if waker is not None:
                waker.begin()
            status = _guarded(handles, lambda: function(*arguments, c.byref(err)))
            if waker is not None:
                waker.end()
    except BaseException:
        while waker is not None:
            try:
                waker.end()
                break
            except BaseException:  # Ctrl-C again
                continue
        for handle, n in zip(handles, before, strict=True):
            held = lib.mgpt_pos(handle.pointer)
            lib.mgpt_rewind(handle.pointer, min(n, held) if restore else held, None)  # also withdraws mgpt_stop
        raise
    woken = waker is not None and waker.woken
    if woken:
        for handle in handles:  # one that came too late, or again, is withdrawn
            lib.mgpt_rewind(handle.pointer, lib.mgpt_pos(handle.pointer), None)
    if woken and status == ESTOP:
        return True
    if status < 0:
        raise fail(err)
    return False


def _guarded(handles: Sequence[SessionHandle], work: Callable[[], int]) -> int:
    """What `work` returns; raises what a callback could not."""
    dropped: list[Any] = []
    previous = sys.unraisablehook
    for handle in handles:
        handle.dropped = dropped
    try:
        sys.unraisablehook = dropped.append  # not a function of Python: no handler can run at its entry
        status = work()
    finally:
        sys.unraisablehook = previous
    for what in dropped:
        if "ctypes callback" in (what.err_msg or "") and what.exc_value is not None:
            raise what.exc_value
        previous(what)
    return status
