"""Runs of one or more rows of tokens with hooks and with values kept.

Each row of a batch has the bits that it has alone. Without hooks the rows share passes over the weights. With hooks each row
has a thread, and the rows wait for each other at a hook: it gets [rows, T, ...], once, in the thread of the caller.
"""

from __future__ import annotations

import queue
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from threading import Thread
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from ._interrupt import run
from ._lib import CRun, Error, lib
from .hooks import Floats, HookRow, Key, Names, Tap, choose

if TYPE_CHECKING:
    from ._handle import SessionHandle
    from .model import Model
    from .steering import Steering, Vectors

Ints = npt.NDArray[np.int32]


class Run:
    """What a run leaves: values by name, logits as "logits", and the first row's tokens as text."""

    def __init__(self, store: dict[str, Floats], labels: list[str]) -> None:
        self.store, self.labels = store, labels


def run_rows(model: Model, rows: Sequence[Ints], hooks: Iterable[HookRow], names: Names,
             steer: Steering | Vectors | None) -> Run:
    """Runs rows of equal length from position 0 with hooks; keeps the values that `names` chooses and logits."""
    n, hooks = len(rows[0]), list(hooks)
    keep = [*choose(model, names), model._all_hooks()["logits"]]
    meet = bool(hooks) and len(rows) > 1
    taps = [(RowTap if meet else Tap)(model, hooks, keep, n) for _ in rows]
    chunk = min(n if hooks else n * len(rows), 4096)
    first = model.session(kv="f32", chunk=chunk, threads=int(meet), steer=steer)
    handles = [first._open(), *(first.fork()._open() for _ in rows[1:])]  # forks have no scratch and threads until they run alone
    if meet:
        _run_together(cast("list[RowTap]", taps), handles, rows)
    elif len(rows) > 1:
        _run_plain(taps, handles, rows, n * len(rows) * model.info.bytes_per_token)
    else:
        with handles[0]:
            taps[0].run(handles[0], rows[0])
    if len(taps) == 1:
        return Run(taps[0].store, model._labels(rows[0]))
    return Run({name: np.concatenate([tap.store.pop(name) for tap in taps]) for name in list(taps[0].store)},
               model._labels(rows[0]))


def _run_plain(taps: list[Tap], handles: list[SessionHandle], rows: Sequence[Ints], work: int) -> None:
    """All rows in common passes; no value is changed."""
    runs = (CRun * len(rows))()
    with ExitStack() as stack:
        for one, tap, handle, row in zip(runs, taps, handles, rows, strict=True):
            one.session, one.tokens, one.n = stack.enter_context(handle), row.ctypes.data, len(row)
            stack.callback(handle.watch)
            tap.watch(handle)
        try:
            while run(handles, "mgpt_feed_many", runs, len(runs), work=work, hooks=True):
                work = 0  # the next signal does not stop it
        except Error:
            for failed in filter(None, [tap.end() for tap in taps]):
                raise failed from None
            raise


class Ended(Exception):
    """Another row of the batch has failed."""


Asked = queue.SimpleQueue[tuple[int, Key, Floats] | BaseException | None]  # what a row wants of hooks, or its end
Answers = queue.SimpleQueue[Floats | None | Ended]


class RowTap(Tap):
    """Row i of a batch."""

    def join(self, i: int, asked: Asked, answers: Answers) -> None:
        """From now on hooks are asked through these queues."""
        self._i, self._asked, self._answers = i, asked, answers

    def meet(self, key: Key, before: Floats) -> Floats | None:
        """Waits until all rows have come here, and for what the hooks make of this one."""
        self._asked.put((self._i, key, before))
        answer = self._answers.get()
        if isinstance(answer, Ended):
            raise answer
        return answer


def _run_together(taps: list[RowTap], handles: list[SessionHandle], rows: Sequence[Ints]) -> None:
    """A thread for each row."""
    asked: Asked = queue.SimpleQueue()
    answers: list[Answers] = [queue.SimpleQueue() for _ in rows]

    def body(i: int) -> None:
        try:
            with handles[i]:
                taps[i].run(handles[i], rows[i])
            asked.put(None)
        except BaseException as failed:
            asked.put(failed)

    threads = [Thread(target=body, args=(i,), daemon=True) for i in range(len(rows))]
    try:
        for i, tap in enumerate(taps):
            tap.join(i, asked, answers[i])
            threads[i].start()
        _answer(taps[0], asked, answers)
    except BaseException:
        for handle, answer in zip(handles, answers, strict=True):
            lib.mgpt_stop(handle.pointer)
            answer.put(Ended())
        raise
    finally:
        for thread in filter(Thread.is_alive, threads):  # one that Ctrl-C has met at its start may not be joined; it ends at once
            thread.join()


def _answer(tap: Tap, asked: Asked, answers: list[Answers]) -> None:
    """Calls the hooks of each place once all rows have come to it, until all rows have ended."""
    n_ended = 0
    while n_ended < len(answers):
        values: dict[int, Floats] = {}
        while len(values) + n_ended < len(answers):
            what = asked.get()
            if isinstance(what, BaseException):
                raise what
            if what is None:
                n_ended += 1
            else:
                i, key, values[i] = what
        if not values:
            continue
        after = tap.ask(key, np.concatenate([values[i] for i in range(len(answers))]))
        for i, before in values.items():
            row = None if after is None else after[i : i + 1]
            answers[i].put(None if row is None or row.tobytes() == before.tobytes() else row.copy())
