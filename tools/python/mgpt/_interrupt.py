"""Ctrl-C, time-outs and other signals while the library runs tokens.

Python runs its signal handlers in the main thread, between two instructions of Python. Two places need care:

- A call without Python code inside would delay the handler until it returns. The main thread leaves long calls to a
  thread of their own and waits, which a handler can end; then mgpt_stop ends the call.
- A handler may run at the entry of a callback. ctypes passes an exception from there to sys.unraisablehook and goes on
  as if the callback had returned 0. It is kept there and raised after the call.

In both cases the sessions are as they were before the call, but for logits of one that had just ended.
"""

from __future__ import annotations

import _thread
import ctypes as c
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ._lib import CError, fail, lib

if TYPE_CHECKING:
    from ._handle import SessionHandle

LONG = 1 << 27  # bytes of weights that a call reads, token by token: tens of milliseconds


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
        waiting.acquire()
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


def run(handles: Sequence[SessionHandle], name: str, *arguments: Any, work: int = 0, restore: bool = True) -> None:
    """Calls a function that runs tokens of sessions and takes a trailing mgpt_error; Error if it fails.

    `work`: bytes of weights that it reads; 0: it calls hooks, which belong to this thread. An exception of a signal
    handler comes through, with the sessions rewound to where they were (`restore`).
    """
    before, err = [lib.mgpt_pos(handle.pointer) for handle in handles], CError()
    function = getattr(lib, name)
    try:
        if threading.current_thread() is not threading.main_thread():
            status = function(*arguments, c.byref(err))
        elif work >= LONG:
            status = elsewhere(lambda: function(*arguments, c.byref(err)),
                               lambda: [lib.mgpt_stop(handle.pointer) for handle in handles])
        else:
            status = _guarded(handles, lambda: function(*arguments, c.byref(err)))
    except BaseException:
        for handle, n in zip(handles, before, strict=True):
            held = lib.mgpt_pos(handle.pointer)
            lib.mgpt_rewind(handle.pointer, min(n, held) if restore else held, None)  # also withdraws mgpt_stop
        raise
    if status < 0:
        raise fail(err)


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
