"""steer=: the bits of the commands' --steer, everywhere, and what is refused."""
import json
import struct
import subprocess

import mgpt
import numpy as np
import pytest
from mgpt._tool import PROGRAM

TOKENS = [3, 1, 4, 1, 5]


@pytest.fixture(scope="module")
def gpt2(root):
    return mgpt.Model(root / "tests/golden/gpt2")


@pytest.fixture(scope="module")
def rows(gpt2):
    shape = gpt2.info.n_layer, gpt2.info.n_embd
    return np.sin(np.arange(np.prod(shape))).astype(np.float32).reshape(shape)


def control_vector(path, directions):
    """A GGUF file as llama.cpp writes it: {name: row}."""
    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()
    out = b"GGUF" + struct.pack("<IQQ", 3, len(directions), 1) + text("general.architecture") + struct.pack("<I", 8)
    out, data = out + text("controlvector"), b""
    for name, row in directions.items():
        out += text(name) + struct.pack("<IQIQ", 1, len(row), 0, len(data))
        data += row.tobytes() + bytes(-row.nbytes % 32)
    path.write_bytes(out + bytes(-len(out) % 32) + data)
    return path


def test_bits_of_the_program(root, shakespeare, tmp_path):
    rows = np.random.default_rng(1).normal(size=(shakespeare.info.n_layer, shakespeare.info.n_embd))
    np.save(tmp_path / "v.npy", rows)
    steer, option = mgpt.Steering(tmp_path / "v.npy", 0.3), f"--steer={tmp_path}/v.npy:0.3"
    words = [PROGRAM, "generate", shakespeare.path, "-p", "ROMEO:", "-n", "40", "--seed", "3", "--no-prompt", option]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "".join(shakespeare.generate("ROMEO:", 40, seed=3, steer=steer)) == text.removesuffix("\n")
    assert "".join(shakespeare.generate("ROMEO:", 40, seed=3)) != text.removesuffix("\n")
    lines = ["O Romeo, Romeo!", "Nurse", "wherefore art thou"]
    (tmp_path / "in").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    done = subprocess.run([PROGRAM, "score", shakespeare.path, "--json", "-f", tmp_path / "in", option],
                          capture_output=True, text=True, check=True).stdout
    scores = shakespeare.score(lines, steer=steer)
    assert [s.sum_logprob for s in scores] == [json.loads(line)["sum_logprob"] for line in done.splitlines()]
    assert scores[0].sum_logprob != shakespeare.score(lines)[0].sum_logprob


def test_forms_agree(gpt2, rows, tmp_path):
    np.save(tmp_path / "all.npy", rows.astype(np.float64))
    np.save(tmp_path / "one.npy", rows[1])
    file = control_vector(tmp_path / "v.gguf", {"direction.1": rows[1]})
    plain = gpt2.session().feed(TOKENS)
    want = gpt2.session(steer=mgpt.Steering({1: rows[1]}, 2)).feed(TOKENS)
    assert abs(want - plain).max() > 1e-3
    for steer in (mgpt.Steering(file, 2), mgpt.Steering(str(tmp_path / "one.npy"), 2, 1), mgpt.Steering(rows[1], 2, layer=1),
                  {1: rows[1] * 2}, {np.int64(1): rows[1] * 2}, mgpt.Steering(rows[1].tolist(), 2, 1)):
        assert gpt2.session(steer=steer).feed(TOKENS).tobytes() == want.tobytes()
    both = gpt2.session(steer=tmp_path / "all.npy").feed(TOKENS)
    assert gpt2.session(steer=rows).feed(TOKENS).tobytes() == both.tobytes() != want.tobytes()
    assert gpt2.session(steer=mgpt.Steering(file, 0)).feed(TOKENS).tobytes() == plain.tobytes()


def test_all_runs(gpt2, rows):
    session = gpt2.session(steer=rows)
    want = session.feed(TOKENS)
    other = gpt2.session(steer=rows, threads=2, chunk=2)
    assert other.feed(TOKENS).tobytes() == want.tobytes()
    assert other.sync([*TOKENS[:3], 9, 5]).tobytes() != want.tobytes() == other.sync(TOKENS).tobytes()
    fork = session.fork()
    fork.rewind(4)
    plain = gpt2.session()
    plain.feed(TOKENS[:4])
    stepped = mgpt.step_many([fork, plain], [5, 5])
    assert stepped[0].tobytes() == want.tobytes() and stepped[1].tobytes() == gpt2.session().feed(TOKENS).tobytes()
    logits, cache = gpt2.run_with_cache(TOKENS, steer=rows)
    assert logits[0, -1].tobytes() == want.tobytes() == gpt2.run_with_hooks(TOKENS, [], rows)[0, -1].tobytes()
    clean = gpt2.run_with_cache(TOKENS)[1]
    assert (cache["blocks.0.hook_resid_post"] == clean["blocks.0.hook_resid_post"] + rows[0]).all()
    with pytest.raises(KeyError):
        session.feed([1], [("hook_embed", lambda value, hook: {}["no"])])
    session.rewind(4)
    assert session.step(5, [("*hook_pattern", lambda value, hook: None)]).tobytes() == want.tobytes()
    session.rewind(4)
    assert session.step(5).tobytes() == want.tobytes()  # also after a run with hooks


def test_hooks_see_steered_values(gpt2, rows):
    seen = []
    hooks = [("blocks.0.hook_resid_post", lambda value, hook: seen.append(value.copy())),
             ("blocks.*.attn.hook_pattern", lambda value, hook: value * 0.5)]  # the pass runs again
    logits = gpt2.run_with_hooks(TOKENS, hooks, steer=rows)
    by_hooks = [(f"blocks.{i}.hook_resid_post", lambda value, hook, i=i: value + rows[i]) for i in range(2)]
    assert logits.tobytes() == gpt2.run_with_hooks(TOKENS, [*by_hooks, hooks[1]]).tobytes() and len(seen) == 1


@pytest.mark.parametrize("change, error, match", [
    (lambda r: r[0], ValueError, r"shape \(2, 18\), or \(18,\) with a layer, found \(18,\) without"),
    (lambda r: r[:, :5], ValueError, r"found \(2, 5\)"), (lambda r: mgpt.Steering(r, layer=1), ValueError, "with a layer"),
    (lambda r: {2: r[0]}, ValueError, "layer 2: expected 0 to 1"), (lambda r: {-1: r[0]}, ValueError, "layer -1"),
    (lambda r: {"a": r[0]}, TypeError, "'a'"), (lambda r: {0: r}, ValueError, r"layer 0: expected the shape \(18,\)"),
    (lambda r: {0: r[:1]}, ValueError, r"found \(1, 18\)"), (lambda r: {0: r[:1].T}, ValueError, r"found \(18, 1\)"),
    (lambda r: mgpt.Steering({0: r[0]}, 1, 0), ValueError, "one row"), (lambda r: r * np.nan, ValueError, "found nan"),
    (lambda r: mgpt.Steering(r, np.inf), ValueError, "layer 0: expected finite"), (lambda r: r > 0, TypeError, "bool"),
    (lambda r: mgpt.Steering(r * 1e30, 1e30), ValueError, "found -?inf"), (lambda r: r.astype(str), TypeError, "<U"),
    (lambda r: r * 1j, TypeError, "complex"), (lambda r: object(), ValueError, "shape"),
    (lambda r: "/nope.npy", mgpt.Error, "^/nope.npy: cannot open"), (lambda r: "/", mgpt.Error, "^/: .*directory")])
def test_refusals(gpt2, rows, change, error, match):
    for call in (gpt2.session, lambda steer: gpt2.score([TOKENS], steer=steer),
                 lambda steer: gpt2.run_with_cache(TOKENS, steer=steer), lambda steer: next(gpt2.generate(TOKENS, steer=steer))):
        with pytest.raises(error, match=match):
            call(steer=change(rows))


def test_bad_files(gpt2, rows, tmp_path):
    (tmp_path / "x").write_bytes(b"no file of vectors")
    np.save(tmp_path / "wide.npy", np.zeros((2, 19)))
    np.save(tmp_path / "object.npy", np.array([object()]), allow_pickle=True)
    for path, error, match in (
            (tmp_path / "x", mgpt.Error, "x: "), (tmp_path / "object.npy", mgpt.Error, "object"),
            (tmp_path / "wide.npy", ValueError, r"\(2, 19\)"),
            (control_vector(tmp_path / "0.gguf", {"direction.0": rows[0]}), mgpt.Error, "direction.1 to direction.1"),
            (control_vector(tmp_path / "2.gguf", {"direction.2": rows[0]}), mgpt.Error, "direction.2"),
            (control_vector(tmp_path / "n.gguf", {"norm.1": rows[0]}), mgpt.Error, "norm.1"),
            (control_vector(tmp_path / "w.gguf", {"direction.1": rows[0][:8]}), ValueError, r"\(8,\)")):
        with pytest.raises(error, match=match):
            gpt2.session(steer=path)
