"""Wrong use is an exception with the library's text, and leaves things as they were."""
import gc
import subprocess
import sys
import weakref

import mgpt
import numpy as np
import pytest


@pytest.fixture
def model(root):
    return mgpt.Model(root / "weights/names.gguf")


def test_files(root, tmp_path):
    with pytest.raises(mgpt.Error, match="/nope: cannot open: No such file") as failed:
        mgpt.Model("/nope")
    assert failed.value.status == mgpt.EIO and failed.value.offset is None
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + bytes(20))
    with pytest.raises(mgpt.Error, match="bad.gguf") as failed:
        mgpt.Model(bad)
    assert failed.value.status == mgpt.EFILE and failed.value.offset is not None
    text = tmp_path / "text"
    text.write_text("no model")
    with pytest.raises(mgpt.Error, match="not a checkpoint that mgpt reads"):
        mgpt.Model(text)
    with pytest.raises(mgpt.Error, match="quantum"):
        mgpt.Model(root / "weights/names.gguf", isa="quantum")


@pytest.mark.parametrize("path", [None, 3, b"bytes", ["list"]])
def test_path_types(path):
    with pytest.raises(TypeError):
        mgpt.Model(path)


@pytest.mark.parametrize("tokens, error", [
    ("anna", TypeError), (None, TypeError), ([1.5], TypeError), (["a"], TypeError), ([[1, 2]], ValueError),
    ([True], TypeError), ([-1], ValueError), ([2**31], ValueError), ([2**70], TypeError), (3, ValueError),
    (np.ones(3), TypeError), (np.ones((2, 2), int), ValueError), ([27], mgpt.Error), ([1] * 99, mgpt.Error),
    ([[1], [1, 2]], (TypeError, ValueError)), (object(), TypeError)])
def test_tokens(model, tokens, error):
    session = model.session()
    logits = session.feed([26, 1])
    with pytest.raises(error):
        session.feed(tokens)
    assert session.tokens == [26, 1] and session.logits.tobytes() == logits.tobytes()


def test_array_layouts(model):
    """Any integer type and stride means the same tokens."""
    want = model.session().feed([26, 0, 13]).tobytes()
    for array in (np.array([26, 0, 13], np.uint8), np.array([26, 9, 0, 9, 13])[::2], np.array([26, 0, 13], ">i8"),
                  range(0), (26, 0, 13)):
        if len(array):
            assert model.session().feed(array).tobytes() == want


def test_library_refusals(model):
    session = model.session(n_ctx=4)
    with pytest.raises(mgpt.Error, match="context") as failed:
        session.feed([1, 2, 3, 4, 5])
    assert failed.value.status == mgpt.EFULL
    with pytest.raises(mgpt.Error, match="'!'|character") as failed:
        model.encode("anna!")
    assert failed.value.status == mgpt.ETEXT and failed.value.offset == 4
    with pytest.raises(mgpt.Error, match="'A'") as failed:
        model.encode("Ann")
    assert failed.value.status == mgpt.ETEXT and failed.value.offset == 0
    with pytest.raises(mgpt.Error):
        session.rewind(3)
    with pytest.raises(ValueError):
        session.rewind(-1)
    with pytest.raises(mgpt.Error):
        session.kv(1, 0)
    with pytest.raises(ValueError):
        session.kv(0, -1)
    with pytest.raises(ValueError, match="kv: expected one of"):
        model.session(kv="f64")
    with pytest.raises(mgpt.Error, match="nope"):
        model.tensor("nope")
    for wrong in ({"threads": -5}, {"n_ctx": 2**40}, {"chunk": -1}):
        with pytest.raises(ValueError, match="expected a number from 0"):
            model.session(**wrong)
    with pytest.raises(ValueError, match="threads.* 0 to 256, found 257"):
        model.session(threads=257)
    with pytest.raises(TypeError):
        model.session(n_ctx="16")
    with pytest.raises(ValueError, match="shape"):
        session.unembed(np.zeros(3))
    with pytest.raises(TypeError):
        model.encode(b"anna")
    with pytest.raises(UnicodeEncodeError):
        model.encode("\ud800")
    for call in (session.save, session.load):
        with pytest.raises(ValueError, match="path: expected one without NUL"):
            call("anna\0.session")
    with pytest.raises(KeyError, match="x.*not in this cache") as failed:
        model.run_with_cache("anna")[1]["x" * 10**6]
    assert len(str(failed.value)) < 200
    with pytest.raises(TypeError, match="unexpected argument") as failed:
        model.generate_many(["a"], **{"x" * 10**6: 1})
    assert len(str(failed.value)) < 200
    with pytest.raises(TypeError):
        model.score("anna")
    with pytest.raises(ValueError, match="tokens: expected 2"):
        mgpt.step_many([session, session], [1])
    with pytest.raises(mgpt.Error):
        mgpt.step_many([session, session], [1, 2])
    with pytest.raises(ValueError):
        mgpt.Sampler()(np.zeros((2, 2)))
    for token in (-1, 27, 2**40):
        with pytest.raises(ValueError, match="token: expected a number from 0 to 26"):
            mgpt.Sampler().probability(np.zeros(27), token)
    assert session.tokens == []


def test_closed(model):
    session = model.session()
    session.feed([26, 1])
    fork, view, kept = session.fork(), session.logits, weakref.ref(session)
    session.close()
    with pytest.raises(ValueError, match="the session is closed"):
        session.step(1)
    fork.step(1)
    model.close()
    model.close()
    for call in (lambda: fork.step(1), fork.fork, lambda: fork.tokens, lambda: fork.logits, lambda: len(fork),
                 model.session, lambda: model.encode("a"), lambda: model.decode([1]), lambda: model.run_with_cache("a"),
                 lambda: mgpt.step_many([fork], [1]), lambda: list(model.generate("a")), lambda: model.tensors):
        with pytest.raises(ValueError, match="the model is closed"):
            call()
    assert "closed" in repr(fork) and np.isfinite(view).all()
    del session, view
    gc.collect()
    assert kept() is None


def test_generator_after_close(model):
    pieces = model.generate("a", temperature=0.5, seed=1)
    next(pieces)
    model.close()
    with pytest.raises(ValueError, match="the model is closed"):
        list(pieces)


def test_dropped_in_any_order(root):
    """Cycles are freed in the order that the collector likes."""
    for _ in range(50):
        model = mgpt.Model(root / "weights/names.gguf")
        session = model.session()
        model.extra, session.extra = session, model
        session.feed([26])
        del model, session
    gc.collect()


def test_end_of_the_interpreter(root):
    """Objects that are still there at exit do not disturb it."""
    code = f"import mgpt; m = mgpt.Model({str(root / 'weights/names.gguf')!r}); s = m.session(); v = s.feed([1])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("call, match", [
    (lambda m: m(""), "nothing to run"), (lambda m: m.run_with_cache(""), "nothing to run"), (lambda m: m.run_with_hooks("", []), "nothing to run"),
    (lambda m: list(m.generate("", 3)), "nothing to begin with"), (lambda m: m.attribution(""), "nothing to look at"),
    (lambda m: m.lens(""), "nothing to run"), (lambda m: m.choose("", ["a", "b"]), "'a' changes the first token, before which nothing is"),
    (lambda m: m.to_single_token(""), "'' is 0 tokens")])
def test_text_without_tokens(shakespeare, call, match):
    """Of a model without BOS an empty text has no tokens."""
    with pytest.raises(ValueError, match=match):
        call(shakespeare)


def test_what_empty_texts_give(shakespeare):
    """Where no token is needed, nothing is given, and other texts of the call are what they are alone."""
    m = shakespeare
    assert m.logits("").shape == (0, m.info.n_vocab) and m.encode("") == m.to_str_tokens("") == [] and m.decode([]) == ""
    assert m.to_tokens("").shape == (1, 0) and m.to_tokens([]).shape == (0, 0) and np.isnan(m("a", "loss"))
    assert m.session().feed([]).size == m.session().sync([]).size == 0 and mgpt.step_many([], []) == []
    session = m.session()
    logits = session.feed(m.encode("ab")).tobytes()
    assert session.feed([]).tobytes() == logits and session.sync(m.encode("ab")).tobytes() == logits
    empty, whole = m.score(["", "abc"])
    assert empty.ids == [] and empty.sum_logprob == 0 and np.isnan(empty.perplexity) and whole.sum_logprob == m.score(["abc"])[0].sum_logprob
