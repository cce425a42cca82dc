"""Signal handlers that raise while the library runs: nothing is swallowed, no number is wrong, the session is as it was."""
import signal
import socket
import sys
import threading
import time
import types

import mgpt
import numpy as np
import pytest
from mgpt import _interrupt, batch

TOKENS = [(7919 * i * i + 13 * i + 5) % 65 for i in range(200)]
TRIES = 8


class Interrupted(BaseException):
    pass


def raise_it(number, frame):
    raise Interrupted


@pytest.fixture(autouse=True)
def alarm():
    before = signal.signal(signal.SIGALRM, raise_it)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=["here", "elsewhere", "elsewhere, as on Windows"])
def place(request, monkeypatch):
    """As with small models, or as with large ones: calls without hooks run in a thread of their own, and a thread looks
    out for signals during those with hooks."""
    monkeypatch.setattr(_interrupt, "LONG", 1 << 62 if request.param == "here" else 1)
    monkeypatch.setattr(_interrupt, "WAIT", 0.001 if "Windows" in request.param else -1.0)
    return request.param


def interrupts(run, check, check_after):
    """Runs with an alarm at TRIES times of the run: it raises Interrupted, or what it returns is right."""
    began = time.perf_counter()
    check(run())
    takes, came = time.perf_counter() - began, 0
    for i in range(TRIES):
        pending = threading.Event()
        try:
            signal.setitimer(signal.ITIMER_REAL, takes * (i + 0.5) / TRIES)
            check(run())
            while signal.getitimer(signal.ITIMER_REAL)[0]: # it was faster this time
                time.sleep(0.001)
            time.sleep(0.001)
            pending.set()
        except Interrupted:
            came += 1
            assert not pending.is_set()
        else:
            pytest.fail("the interrupt was swallowed")
        check_after()
    assert came == TRIES


def nothing():
    pass


def test_runs_with_hooks(shakespeare, place):
    want, cache = shakespeare.run_with_cache(TOKENS)
    scores = cache["attn_scores", 3]
    def right(logits):
        assert logits.tobytes() == want.tobytes()
    interrupts(lambda: shakespeare.run_with_hooks(TOKENS, [("*hook_resid_post", lambda v, hook: v.copy())]), right, nothing)
    def cached(result):
        right(result[0])
        assert result[1]["attn_scores", 3].tobytes() == scores.tobytes()
    interrupts(lambda: shakespeare.run_with_cache(TOKENS), cached, nothing)


def test_feed_with_hooks(shakespeare, place):
    session = shakespeare.session(kv="f32", chunk=30)
    before = session.feed(TOKENS[:5])
    want = shakespeare.logits(TOKENS, kv="f32")[-1].tobytes()
    def run():
        session.rewind(0)
        session.feed(TOKENS[:5])
        return session.feed(TOKENS[5:], [("blocks.2.hook_mlp_out", lambda v, hook: None)])
    def as_before():
        assert len(session) in (0, 5, 6, 200)
        session.sync(TOKENS[:5])
        assert session.step(TOKENS[5]).tobytes() == shakespeare.logits(TOKENS[:6], kv="f32")[-1].tobytes()
    assert before.any()
    def right(logits):
        assert logits.tobytes() == want
    interrupts(run, right, as_before)


def test_feed_sync_and_step_many(shakespeare, place):
    session, other = shakespeare.session(), shakespeare.session()
    want = shakespeare.logits(TOKENS)
    def same_as(row):
        def check(logits):
            assert logits.tobytes() == want[row].tobytes()
        return check
    def feed():
        session.rewind(0)
        return session.feed(TOKENS)
    def none_or_all():
        assert len(session) in (0, 200)
    interrupts(feed, same_as(-1), none_or_all)
    def sync():
        session.rewind(0)
        return session.sync(TOKENS)
    interrupts(sync, same_as(-1), nothing)
    def steps():
        session.rewind(0)
        other.rewind(0)
        for token in TOKENS[:40]:
            both = mgpt.step_many([session, other], [token, token])
            assert both[0].tobytes() == both[1].tobytes()
        return both[0]
    def equally_long():
        assert len(session) == len(other) or 0 in (len(session), len(other))
    interrupts(steps, same_as(39), equally_long)


def test_score_logits_and_generate(shakespeare, place):
    texts = [TOKENS[:90], TOKENS[3:120], TOKENS[:7]]
    want = [s.logprobs.tobytes() for s in shakespeare.score(texts)]
    rows = shakespeare.logits(TOKENS).tobytes()
    steer = {2: np.full(128, 0.01)}
    steered = shakespeare.logits(TOKENS, steer=steer).tobytes()
    def equal(expected):
        def check(got):
            assert got == expected
        return check
    interrupts(lambda: [s.logprobs.tobytes() for s in shakespeare.score(texts)], equal(want), nothing)
    interrupts(lambda: shakespeare.logits(TOKENS).tobytes(), equal(rows), nothing)
    interrupts(lambda: shakespeare.logits(TOKENS, steer=steer).tobytes(), equal(steered), nothing)
    text = "".join(shakespeare.generate("ROMEO:", 50, seed=1))
    interrupts(lambda: "".join(shakespeare.generate("ROMEO:", 50, seed=1)), equal(text), nothing)


def test_a_tap_does_not_outlive_its_call(shakespeare):
    """What an interrupt leaves behind is taken away by the next call."""
    session, seen = shakespeare.session(), []
    session.feed(TOKENS[:3])
    handle = session._open()
    def keep(value, user):
        seen.append(1)
        return 0
    handle.watch(1, mgpt._lib.TapFn(keep)) # as if the interrupt had come before watch()
    assert session.step(TOKENS[3]).tobytes() == shakespeare.logits(TOKENS[:4])[-1].tobytes() and not seen


def test_programs(shakespeare, root):
    """The command behind a call ends with it."""
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    began = time.perf_counter()
    with pytest.raises(Interrupted):
        while True:
            shakespeare.patch("ROMEO: what", "JULIET what"[:11], "a - e", over="resid_pre,z,pattern")
    assert time.perf_counter() - began < 2


def test_elsewhere_answers_at_once():
    """It does not wait for the work to end by itself."""
    stopped = threading.Event()
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    began = time.perf_counter()
    with pytest.raises(Interrupted):
        _interrupt.elsewhere(lambda: stopped.wait(20), stopped.set)
    assert time.perf_counter() - began < 5 and stopped.is_set()
    with pytest.raises(ZeroDivisionError):
        _interrupt.elsewhere(lambda: 1 / 0, stopped.set)
    assert _interrupt.elsewhere(lambda: 7, stopped.set) == 7


def test_stop_from_another_thread(shakespeare):
    session = shakespeare.session()
    session.feed(TOKENS[:5])
    session.stop()
    with pytest.raises(mgpt.Error, match="stopped by mgpt_stop") as stopped:
        session.feed(TOKENS[5:])
    assert stopped.value.status == mgpt.ESTOP and session.tokens == TOKENS[:5]
    assert session.feed(TOKENS[5:]).tobytes() == shakespeare.logits(TOKENS)[-1].tobytes()
    session.stop()
    session.rewind(len(session))
    assert session.step(1).any()


@pytest.mark.parametrize("moment", ["begin", "end", "end twice"])
def test_an_interrupt_while_signals_are_redirected(shakespeare, monkeypatch, moment):
    """The wakeup fd is the one before, and later signals do not end later calls."""
    monkeypatch.setattr(_interrupt, "LONG", 1)
    session, calls = shakespeare.session(), []
    hooks = [("hook_embed", lambda v, hook: None)]
    def interrupted(function, times):
        def call(*arguments):
            calls.append(1)
            if len(calls) <= times:
                raise Interrupted
            return function(*arguments)
        return call
    with monkeypatch.context() as patch:
        if moment == "begin":
            patch.setattr(_interrupt._thread, "start_new_thread", interrupted(_interrupt._thread.start_new_thread, 1))
        else:
            patch.setattr(_interrupt._Waker, "end", interrupted(_interrupt._Waker.end, len(moment.split())))
        with pytest.raises(Interrupted):
            session.feed(TOKENS, hooks)
    assert calls and signal.set_wakeup_fd(-1) == -1
    signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.raise_signal(signal.SIGALRM)
    time.sleep(0.01)
    session.rewind(0)
    for token in TOKENS[:20]:
        session.step(token)
        signal.raise_signal(signal.SIGALRM)
    assert session.tokens == TOKENS[:20]


def test_start_of_a_batch(names, monkeypatch):
    """A thread that a handler has met at its start has an identity but has not started: joining it would be an error."""
    class Met(threading.Thread):
        ident = 5

        def start(self):
            raise Interrupted

    monkeypatch.setattr(batch, "Thread", Met)
    with pytest.raises(Interrupted):
        names.run_with_hooks(["anna", "bobo"], [("*hook_z", lambda value, hook: value)])


def test_nothing_is_freed_by_python_code():
    """An exception of a handler that runs in a __del__ of Python is printed and ignored."""
    for module in [m for name, m in sys.modules.items() if name.split(".")[0] == "mgpt"]:
        for name, kind in vars(module).items():
            assert not isinstance(vars(kind).get("__del__") if isinstance(kind, type) else None, types.FunctionType), name


def test_handlers_that_return_stop_nothing(shakespeare, place):
    came = []
    signal.signal(signal.SIGALRM, lambda number, frame: came.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    for _ in range(5):
        logits = shakespeare.run_with_hooks(TOKENS, [("hook_embed", lambda v, hook: None)])
        assert logits[0].tobytes() == shakespeare.logits(TOKENS, kv="f32").tobytes()
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert came


def test_wakeup_fd_of_others(shakespeare, monkeypatch):
    """asyncio's, for one, gets the signals of the time of a call and is there again afterwards."""
    monkeypatch.setattr(_interrupt, "LONG", 1)
    theirs, ours = socket.socketpair()
    ours.setblocking(False)
    signal.signal(signal.SIGALRM, lambda number, frame: None)
    before = signal.set_wakeup_fd(ours.fileno())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.002)
        for _ in range(5):
            shakespeare.run_with_hooks(TOKENS, [("hook_embed", lambda v, hook: None)])
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert theirs.recv(100)[0] == signal.SIGALRM
        assert signal.set_wakeup_fd(before) == ours.fileno()
    finally:
        signal.set_wakeup_fd(before)
        theirs.close()
        ours.close()
